"""What a failed exchange means: known where nothing was sent, unknown otherwise.

No message repeats what aiohttp says of a reply: its errors carry the request's headers, secrets included.
"""

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from soloist.adapters.http.guard import AddressRefused
from soloist.domain.actions import FailedKnown, UnknownOutcome
from soloist.domain.http_request import HttpReason


class ConnectionLost(aiohttp.ClientError):
    """The connection ended before an answer; of a kind that aiohttp does not answer by sending once more."""


async def send_once(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
    """A middleware: aiohttp repeats GET, HEAD, PUT, DELETE and OPTIONS on the errors that are turned into another here."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as lost:
        raise ConnectionLost(type(lost).__name__) from lost


def what_became(failure: Exception, *, sent: bool, where: str) -> FailedKnown | UnknownOutcome:
    """The outcome of an exchange with ``where`` (scheme, host, port) that ended in ``failure`` without a status line."""
    if (refused := _refusal(failure)) is not None:
        message = f"Nothing was sent to {where}: {refused.sentence}"
        return FailedKnown(reason=HttpReason.ADDRESS_REFUSED, message=message, retryable=False)
    if sent:
        if isinstance(failure, aiohttp.ClientResponseError):
            message = f"The request was sent to {where}; the answer was not HTTP."
        else:
            message = f"The request was sent to {where}; the connection ended before an answer came."
        return UnknownOutcome(reason=HttpReason.REPLY_LOST, message=message)
    reason, why = _not_connected(failure)
    message = f"Nothing was sent to {where}: {why}."
    return FailedKnown(reason=reason, message=message, retryable=reason is not HttpReason.REQUEST_REFUSED)


def _refusal(failure: Exception) -> AddressRefused | None:
    if isinstance(failure, aiohttp.ClientConnectorError) and isinstance(failure.os_error, AddressRefused):
        return failure.os_error
    return None


def _not_connected(failure: Exception) -> tuple[HttpReason, str]:
    match failure:
        case aiohttp.ClientConnectorCertificateError():
            return HttpReason.TLS_FAILED, f"its certificate was not accepted ({failure.certificate_error})"
        case aiohttp.ClientConnectorSSLError():
            return HttpReason.TLS_FAILED, f"TLS could not be agreed on ({failure.os_error})"
        case aiohttp.ClientConnectorDNSError():
            return HttpReason.NAME_NOT_RESOLVED, f"the name could not be resolved ({failure.os_error})"
        case aiohttp.ClientConnectorError():
            return HttpReason.CONNECTION_FAILED, f"the connection failed ({failure.os_error})"
        case aiohttp.ConnectionTimeoutError():
            return HttpReason.CONNECTION_FAILED, "the connection was not accepted in time"
        case ValueError():  # aiohttp.InvalidURL is one, and so is a certificate that is not accepted, above
            return HttpReason.REQUEST_REFUSED, "the url cannot be requested; write http://host[:port]/path"
    return HttpReason.CONNECTION_FAILED, f"the connection failed ({type(failure).__name__})"
