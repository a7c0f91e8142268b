"""The routes of the watcher's page, below `/_cupel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

if TYPE_CHECKING:
    from starlette.requests import Request

    from cupel.watch._store import Store


def page_routes(store: Store) -> list[BaseRoute]:
    """Return the routes that the server mounts at `/_cupel`; the host of a request was checked before."""

    async def index(_request: Request) -> JSONResponse:
        found = [
            {"name": one.name, "title": one.title, "turns": [len(branch.turns) for branch in one.branches]}
            for one in store.conversations
        ]
        return JSONResponse({"conversations": found})

    return [Route("/", index)]
