"""``spec.deliver``: by a request of ours, or by the user's own workers.

A signature is never left out by mistake: a secret without a scheme signs as Standard Webhooks, and a scheme without a secret
is refused.
"""

from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

from soloist.domain.actions import KeyRef
from soloist.domain.http_request import header_problem
from soloist.domain.queue_columns import parse_column, parse_table_name, required_column
from soloist.domain.queue_delivery import (
    VARIABLES,
    Deliver,
    Encoding,
    External,
    FixedUrl,
    HmacSha256,
    HttpDelivery,
    Lookup,
    StandardWebhooks,
    UrlColumn,
)
from soloist.domain.signature import signing_headers
from soloist.domain.spec_fields import Fields, forbidden, required, wrong
from soloist.domain.spec_http import (
    OUR_PREFIX,
    WITHOUT_BODY,
    key_ref,
    parse_expected,
    parse_headers,
    parse_key_ref,
    parse_method,
    parse_tls,
    parse_url,
)
from soloist.domain.templates import template_problem

_TARGETS = ("url", "urlColumn", "lookup")
_OF_THE_ROW = ("urlColumn", "lookup", "bodyColumn")
_LONGEST_TIMEOUT = 3600


class Scheme(StrEnum):
    """How a request is signed."""

    STANDARD_WEBHOOKS = "StandardWebhooks"
    HMAC_SHA256 = "HmacSha256"
    NONE = "None"


def parse_deliver(spec: Fields, *, mapped: bool) -> Deliver:
    """Read ``spec.deliver``; ``mapped`` is whether the rows have columns of the user's. Raises ``Refusal``."""
    deliver = spec.nested("deliver", "http or external under it")
    if deliver.has("http") == deliver.has("external"):
        raise wrong(deliver.path, f"{deliver.path}: write exactly one of http and external.")
    if deliver.has("external"):
        deliver.nested("external", "")
        return External()
    http = deliver.nested("http", "")
    for name in _OF_THE_ROW:
        if http.has(name) and not mapped:
            raise forbidden(
                http.at(name),
                f"{http.at(name)} names a column of your own table: write spec.table, or leave it out for soloist.work_items.",
            )
    return _http(http, mapped=mapped)


def _http(http: Fields, *, mapped: bool) -> HttpDelivery:
    target = _target(http)
    method = parse_method(http)
    verify, ca = parse_tls(http, target.url if isinstance(target, FixedUrl) else None)
    secrets = _secrets(http, target)
    signature = _signature(http, signed=bool(secrets) or (isinstance(target, Lookup) and target.secret is not None))
    headers = parse_headers(http, _template_problem(mapped), signing_headers(signature))
    body_column = parse_column(http, "bodyColumn")
    if body_column is not None and method in WITHOUT_BODY:
        path = http.at("bodyColumn")
        raise forbidden(
            path,
            f"{path} is not sent with GET or HEAD: remove it, or write POST, PUT, PATCH or DELETE in {http.at('method')}.",
        )
    return HttpDelivery(
        target=target,
        method=method,
        headers=headers,
        body_column=body_column,
        signature=signature,
        secrets=secrets,
        timeout=timedelta(seconds=http.whole("timeoutSeconds", 15, least=1, most=_LONGEST_TIMEOUT)),
        expected=parse_expected(http),
        verify=verify,
        ca=ca,
    )


def _target(http: Fields) -> FixedUrl | UrlColumn | Lookup:
    named = [name for name in _TARGETS if http.has(name)]
    if named == ["url"]:
        return FixedUrl(url=parse_url(http))
    if not named or "url" in named:
        raise wrong(
            http.path, f"{http.path}: write url, or urlColumn, or lookup; of them urlColumn and lookup go together."
        )
    if named == ["urlColumn"]:
        return UrlColumn(column=required_column(http, "urlColumn", "the column that holds the address"))
    return _lookup(http.nested("lookup", ""), parse_column(http, "urlColumn"))


def _lookup(lookup: Fields, url_column: str | None) -> Lookup:
    if lookup.has("url") == (url_column is not None):
        raise wrong(
            lookup.path,
            f"{lookup.path}: write url under it, the column of the other table that holds the address, or urlColumn beside it, "
            "that of the row; and not both.",
        )
    return Lookup(
        table=parse_table_name(lookup, "table"),
        key=required_column(lookup, "key", "the column of the queued row that points to the other table"),
        by=required_column(lookup, "by", "the column of the other table that it points to, such as id"),
        url=parse_column(lookup, "url"),
        url_column=url_column,
        secret=parse_column(lookup, "secret"),
        active=parse_column(lookup, "active"),
    )


def _secrets(http: Fields, target: FixedUrl | UrlColumn | Lookup) -> tuple[KeyRef, ...]:
    former = http.items("previousSecretRefs", most=4)
    if not http.has("secretRef"):
        if former:
            raise required(http.at("secretRef"), "the secret that signs now; previousSecretRefs sign beside it")
        return ()
    if isinstance(target, Lookup) and target.secret is not None:
        path = http.at("secretRef")
        raise wrong(path, f"{path} and {http.at('lookup')}.secret both name the secret: remove one of them.")
    return (parse_key_ref(http, "secretRef", "Secret"), *(key_ref(item, "Secret") for item in former))


def _signature(http: Fields, *, signed: bool) -> StandardWebhooks | HmacSha256 | None:
    scheme = http.choice("signature", Scheme.STANDARD_WEBHOOKS if signed else Scheme.NONE)
    path = http.at("signature")
    if scheme is not Scheme.NONE and not signed:
        raise wrong(
            path, f"{path} needs a secret to sign with: write secretRef, or secret under lookup; or write None."
        )
    if scheme is Scheme.NONE and signed:
        raise wrong(
            path, f"{path}: None leaves the secret unused: remove the secret, or write StandardWebhooks or HmacSha256."
        )
    if scheme is Scheme.HMAC_SHA256 and http.has("previousSecretRefs"):
        former = http.at("previousSecretRefs")
        raise forbidden(
            former, f"{former} is not for signature: HmacSha256, which has room for one signature: remove it."
        )
    if scheme is not Scheme.HMAC_SHA256 and http.has("hmacSha256"):
        raise forbidden(
            http.at("hmacSha256"), f"{http.at('hmacSha256')} is for signature: HmacSha256: write that, or remove it."
        )
    match scheme:
        case Scheme.NONE:
            return None
        case Scheme.STANDARD_WEBHOOKS:
            return StandardWebhooks()
    hmac = http.nested("hmacSha256", "header under it, the one that the receiver reads the signature from")
    header = hmac.text("header", "the header that the receiver reads the signature from", longest=128)
    if (problem := header_problem(header)) is not None:
        raise wrong(hmac.at("header"), f"{hmac.at('header')}: {problem}.")
    if header.lower().startswith(OUR_PREFIX):
        raise wrong(
            hmac.at("header"),
            f"{hmac.at('header')}: names that begin with Soloist- are set by Soloist; use another name.",
        )
    prefix = hmac.optional_text("prefix", longest=32) or ""
    if not prefix.isascii() or not prefix.isprintable():
        raise wrong(hmac.at("prefix"), f"{hmac.at('prefix')} must be plain ASCII, such as sha256=.")
    return HmacSha256(header=header, encoding=hmac.choice("encoding", Encoding.HEX), prefix=prefix)


def _template_problem(mapped: bool) -> Callable[[str], str | None]:
    """Any column may be named; whether the table has it is for the database to say."""
    return (lambda template: None) if mapped else (lambda template: template_problem(template, VARIABLES))
