"""The ``http`` action of a spec. What a URL, a header or a template may hold is ``http_request``'s to say.

The readers of its parts serve every other request that a manifest describes.
"""

import re
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from soloist.domain.actions import Header, HttpAction, KeyRef
from soloist.domain.http_request import NO_HOST, header_problem, url_problem
from soloist.domain.spec_fields import Fields, Refusal, forbidden, shown, wrong
from soloist.domain.templates import template_problem

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
WITHOUT_BODY = ("GET", "HEAD")

_STATUS = re.compile(r" *(?:([2-5])xx|([2-5][0-9]{2})(?: *- *([2-5][0-9]{2}))?) *")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BEGINNING = re.compile(r"[A-Za-z0-9.+-]{1,40}(?:://)?")
_MOST_HEADERS = 32
OUR_PREFIX = "soloist-"


def parse_http(http: Fields) -> HttpAction:
    """Read ``spec.http``; raises ``Refusal``."""
    url = parse_url(http)
    method = parse_method(http)
    verify, ca = parse_tls(http, url)
    return HttpAction(
        url=url,
        method=method,
        headers=parse_headers(http, template_problem),
        body=_body(http, method),
        expected=parse_expected(http),
        follow_redirects=http.flag("followRedirects"),
        verify=verify,
        ca=ca,
    )


def parse_method(http: Fields) -> str:
    method = http.text("method", f"one of {', '.join(METHODS)}", longest=16, default="POST")
    if method not in METHODS:
        raise wrong(
            http.at("method"), f"{http.at('method')} must be one of {', '.join(METHODS)}: {shown(method)} is not."
        )
    return method


def parse_url(http: Fields) -> str:
    url = http.text("url", "where to send the request, such as http://backend.default.svc/path", longest=2048)
    problem = url_problem(url) if _readable(url) else "cannot be read; write http://host[:port]/path"
    if problem is not None:
        raise _problem(http.at("url"), f"{problem}{_begins(url)}" if problem == NO_HOST else problem)
    return url


def _readable(url: str) -> bool:
    """Asked first, because the library's own words would repeat what may be a password."""
    try:
        parts = urlsplit(url)
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _begins(url: str) -> str:
    """How a url that lacks scheme or host goes wrong, for the end of a sentence; nothing that may be a password or a token."""
    if url.lower().startswith(("http:", "https:")):
        return f", and there is none after {url.partition(':')[0]}:"
    found = None if "@" in url else _BEGINNING.match(url)
    return f", and this begins with {found[0]}" if found is not None else ""


def _body(http: Fields, method: str) -> str | None:
    body = http.optional_text("body", longest=65536)
    if body is None:
        return None
    if method in WITHOUT_BODY:
        raise forbidden(
            http.at("body"),
            f"{http.at('body')} is not sent with GET or HEAD: remove it, or write POST, PUT, PATCH or DELETE in {http.at('method')}.",
        )
    if (problem := template_problem(body)) is not None:
        raise _problem(http.at("body"), problem)
    return body


def parse_headers(
    http: Fields, problem_of: Callable[[str], str | None], also_ours: Collection[str] = ()
) -> tuple[Header, ...]:
    """``problem_of`` says what is wrong with a template, as the end of a sentence; ``also_ours`` as in ``header_problem``."""
    headers = tuple(_header(item, problem_of, also_ours) for item in http.items("headers", most=_MOST_HEADERS))
    if len({header.name.lower() for header in headers}) < len(headers):
        path = http.at("headers")
        raise wrong(path, f"{path}: each name may appear once, whatever its case: join the values into one header.")
    return headers


def _header(item: Fields, problem_of: Callable[[str], str | None], also_ours: Collection[str]) -> Header:
    name = item.text("name", "the header's name, such as Authorization", longest=128)
    if (problem := header_problem(name, also_ours)) is not None:
        raise wrong(item.at("name"), f"{item.path}: {problem}.")
    if name.lower().startswith(OUR_PREFIX):
        raise wrong(
            item.at("name"), f"{item.path}: names that begin with Soloist- are set by Soloist; use another name."
        )
    if item.has("value") == item.has("valueFrom"):
        raise wrong(item.path, f"{item.path}: write either value or valueFrom for {name}, not both and not neither.")
    if item.has("valueFrom"):
        source = item.nested("valueFrom", "secretKeyRef under it")
        return Header(name=name, ref=parse_key_ref(source, "secretKeyRef", "Secret"))
    value = item.optional_text("value", longest=4096) or ""
    if _CONTROL.search(value):
        raise wrong(
            item.at("value"), f"{item.at('value')} must be one line without control characters: remove the line break."
        )
    if (problem := problem_of(value)) is not None:
        raise _problem(item.at("value"), problem)
    return Header(name=name, value=value)


def parse_tls(http: Fields, url: str | None) -> tuple[bool, KeyRef | None]:
    """Whether to verify the server, and by which CA (None: the system's). ``url`` is None where it is not known yet."""
    if not http.has("tls"):
        return True, None
    tls = http.nested("tls", "insecureSkipVerify, caSecretRef or caConfigMapRef under it")
    if url is not None and url.lower().startswith("http:"):
        raise forbidden(
            tls.path, f"{tls.path} has no effect on an http:// URL: write https:// in {http.at('url')}, or remove it."
        )
    named = [name for name in ("caSecretRef", "caConfigMapRef") if tls.has(name)]
    if len(named) > 1:
        raise wrong(tls.path, f"{tls.path}: write either caSecretRef or caConfigMapRef, not both.")
    skip = tls.flag("insecureSkipVerify")
    if skip and named:
        path = tls.at("insecureSkipVerify")
        raise wrong(path, f"{path}: true makes the given CA useless: remove one of them.")
    if not named:
        return not skip, None
    return True, parse_key_ref(tls, named[0], "Secret" if named[0] == "caSecretRef" else "ConfigMap")


def parse_key_ref(parent: Fields, name: str, kind: str) -> KeyRef:
    if isinstance(parent.raw.get(name), str):  # perhaps the secret itself, which no message may repeat
        raise wrong(parent.at(name), f"{parent.at(name)} must be a mapping: write name and key of a {kind} under it.")
    return key_ref(parent.nested(name, f"name and key of a {kind} under it"), kind)


def key_ref(ref: Fields, kind: str) -> KeyRef:
    return KeyRef(
        kind=kind,
        name=ref.text("name", f"the name of a {kind}", longest=253),
        key=ref.text("key", f"a key of the {kind}", longest=253),
    )


def parse_expected(http: Fields) -> tuple[tuple[int, int], ...]:
    text = http.text("expectedStatus", "codes such as 2xx", longest=128, default="2xx")
    path = http.at("expectedStatus")
    ranges = []
    for part in text.split(","):
        match = _STATUS.fullmatch(part)
        if match is None:
            raise wrong(
                path,
                f'{path} must list codes from 200 to 599: write "2xx", "200", "200-204", or several of them separated by commas.',
            )
        whole, first, last = match.groups()
        low, high = (int(whole) * 100, int(whole) * 100 + 99) if whole else (int(first), int(last or first))
        if low > high:
            raise wrong(path, f'{path}: {part.strip()} goes backwards: write "{high}-{low}".')
        ranges.append((low, high))
    return tuple(ranges)


def _problem(path: str, end: str) -> Refusal:
    return wrong(path, f"{path} {end.rstrip('.')}.")
