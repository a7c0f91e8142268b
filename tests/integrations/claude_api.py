"""A model behind Anthropic's API, on this machine, for a Claude Code that has no network."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Block = dict[str, Any]


class Model:
    """Calls one tool after the other, each in a request of its own, and answers."""

    def __init__(self, calls: Sequence[tuple[str, Block]]) -> None:
        self.calls = calls
        self.requests: list[Block] = []
        self.url = ""

    def reply(self, request: Block) -> list[Block]:
        if not request.get("tools"):  # a title for the conversation, or the like
            return [{"type": "text", "text": "Fine."}]
        self.requests.append(request)
        done = len(results(request))
        if done == len(self.calls):
            return [{"type": "text", "text": "Fine."}]
        name, arguments = self.calls[done]
        return [{"type": "tool_use", "id": f"toolu_{done}", "name": name, "input": arguments}]

    @contextmanager
    def serve(self) -> Iterator[Model]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def results(request: Block) -> dict[str, str]:
    """The texts of a request's tool results, by the id of their calls."""
    found: dict[str, str] = {}
    for message in request["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_result":
                content = block["content"]
                texts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
                found[block["tool_use_id"]] = "\n".join(texts)
    return found


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Keep quiet."""

        def do_HEAD(self) -> None:
            self._send(b"")

        def do_GET(self) -> None:
            self._send(b"{}")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
            if self.path.split("?")[0] == "/v1/messages":
                name = f"msg_{len(model.requests)}"
                self._send(_stream(name, request["model"], model.reply(request)), "text/event-stream")
            else:
                self._send(b'{"input_tokens": 10}')

        def _send(self, body: bytes, kind: str = "application/json") -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _stream(name: str, model: str, blocks: Sequence[Block]) -> bytes:
    """A reply as the events of a stream."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": name, "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    events: list[Block] = [{"type": "message_start", "message": {**message, "stop_reason": None}}]
    for at, block in enumerate(blocks):
        calls = block["type"] == "tool_use"
        start = {**block, "input": {}} if calls else {**block, "text": ""}
        delta = (
            {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            if calls
            else {"type": "text_delta", "text": block["text"]}
        )
        events += [
            {"type": "content_block_start", "index": at, "content_block": start},
            {"type": "content_block_delta", "index": at, "delta": delta},
            {"type": "content_block_stop", "index": at},
        ]
    stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
    events += [
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
