"""Headers: which are forwarded, which are recorded, and which are secrets."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final
from urllib.parse import parse_qsl

Headers = list[tuple[bytes, bytes]]
"""Names in lower case and values, in their order."""

_HOP: Final = frozenset(
    b"connection expect keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers of one connection, which a proxy must not forward."""
_HARMLESS: Final = frozenset(
    b"anthropic-beta anthropic-version content-encoding content-type openai-beta openai-processing-ms request-id "
    b"retry-after user-agent x-request-id x-stainless-lang x-stainless-retry-count".split()
)
_SECRET: Final = frozenset(
    b"api-key authorization cookie proxy-authorization set-cookie x-amz-security-token x-api-key x-goog-api-key".split()
)
_READABLE: Final = frozenset((b"gzip", b"deflate", b"identity"))
_SECRET_QUERY: Final = ("auth", "key", "pass", "secret", "sig", "token")
"""Parts of the names of query parameters that are secrets."""
_SHORTEST_SECRET: Final = 12
"""Shorter values are placeholders such as `lm-studio`, and words that a conversation may use."""


def single(headers: Headers, name: bytes) -> str:
    """Return the values of a header, joined by commas."""
    return ", ".join(value.decode("latin-1") for key, value in headers if key == name)


def to_upstream(headers: Headers, *, host: bytes, readable: bool) -> Headers:
    """Return the headers of a request to forward.

    Args:
        headers: The client's.
        host: The upstream's host.
        readable: Whether to accept only answers in encodings that can be read, if the client accepts others.
    """
    kept = [(name, value) for name, value in _end_to_end(headers) if name != b"host"]
    if readable:
        kept = [(name, _readable(value) if name == b"accept-encoding" else value) for name, value in kept]
    return [(b"host", host), *kept]


def to_client(headers: Headers) -> Headers:
    """Return the headers of an answer to forward: none that lets other sites read it."""
    return [(name, value) for name, value in _end_to_end(headers) if not name.startswith(b"access-control-")]


def _end_to_end(headers: Headers) -> Headers:
    named = {part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")}
    return [(name, value) for name, value in headers if name not in _HOP and name not in named]


def _readable(accepted: bytes) -> bytes:
    parts = [part.strip() for part in accepted.split(b",")]
    return b", ".join(part for part in parts if part.partition(b";")[0].strip() in _READABLE) or b"identity"


def harmless(headers: Headers) -> dict[str, str]:
    """Return the headers that may be recorded."""
    return {name.decode(): value.decode("latin-1")[:200] for name, value in headers if name in _HARMLESS}


def secrets_of(headers: Headers, query: bytes = b"") -> set[str]:
    """Return the keys, tokens and cookies of a request, which must not be written anywhere."""
    found: set[str] = set()
    for value in (value.decode("latin-1") for name, value in headers if name in _SECRET):
        found |= {value, value.rpartition(" ")[2], *(part.partition("=")[2] for part in value.split(";"))}
    pairs = parse_qsl(query.decode("latin-1"))
    found |= {value for name, value in pairs if any(part in name.lower() for part in _SECRET_QUERY)}
    return {secret.strip() for secret in found if len(secret.strip()) >= _SHORTEST_SECRET}


def is_signed(headers: Headers) -> bool:
    """Return whether a request is signed by AWS SigV4, so that none of its bytes may change."""
    return any(name == b"authorization" and value.startswith(b"AWS4-") for name, value in headers)


def foreign_site(headers: Headers) -> str:
    """Return the origin of the web page that sends a request, if it is not this server's; empty for other clients.

    >>> foreign_site([(b"host", b"127.0.0.1:80"), (b"origin", b"https://evil.example")])
    'https://evil.example'
    """
    origin, host = single(headers, b"origin"), single(headers, b"host")
    if origin:
        return "" if origin == f"http://{host}" else origin
    return "another site" if single(headers, b"sec-fetch-site") == "cross-site" else ""


def is_local(host: str, *, names: Iterable[str], any_address: bool) -> bool:
    """Return whether a Host header names this machine; a name that is only resolved to it may be a hostile site's.

    >>> is_local("127.0.0.1:80", names=(), any_address=False), is_local("evil.example:80", names=(), any_address=True)
    (True, False)
    """
    name = (host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]).lower()
    if name == "localhost" or name in {one.lower() for one in names}:
        return True
    try:
        address = ip_address(name.strip("[]"))
    except ValueError:
        return False
    return any_address or address.is_loopback
