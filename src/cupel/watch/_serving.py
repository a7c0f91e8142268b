"""Serve one page to the browser of this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import shown
from cupel.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from cupel.page import LivePage


_LAST_PORT: Final = 65_535


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free one."""
    if not 0 <= port <= _LAST_PORT:
        raise ConfigurationError(f"port must be from 0 to {_LAST_PORT}, got {shown(port)}")
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def page_app(page: LivePage, more: Mapping[str, Any] | None = None) -> Starlette:
    """Return the application of one page, which answers this machine only; `more` is added to the page's data."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
    except ImportError as error:
        raise MissingExtraError(error.name or "starlette", "watch") from None
    from cupel.watch._page import live_routes

    local = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)
    return Starlette(routes=live_routes(page, page.payload | dict(more or {})), middleware=[local])


def serve_page(
    page: LivePage, *, port: int = 0, more: Mapping[str, Any] | None = None, ready: Callable[[str], object]
) -> None:
    """Serve a page on the loopback interface until it is interrupted.

    Args:
        page: The page, which answers the questions of its script.
        port: The port; 0 takes a free one.
        more: Further data of the page, such as the turns of a conversation.
        ready: Is called with the page's address.
    """
    app = page_app(page, more)
    try:
        import uvicorn
    except ImportError:
        raise MissingExtraError("uvicorn", "watch") from None
    listener = listening("127.0.0.1", port)
    config = uvicorn.Config(app, ws="none", log_level="critical", server_header=False, timeout_graceful_shutdown=1)
    ready(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
