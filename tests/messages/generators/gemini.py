"""Valid histories of Gemini's `generateContent`."""

from __future__ import annotations

from typing import Any

from tests.messages.generators.chance import Chance, Message


class _Conversation:
    """One conversation: its model signs its thoughts or not, and its calls have ids or not."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.signs = chance.happens(0.6)
        self.names_calls = chance.happens(0.5)

    def run(self, turns: int) -> list[Message]:
        chance = self.chance
        contents: list[Message] = []
        for turn in range(turns):
            contents += [self.user() for _ in range(chance.choice((1, 1, 1, 2)))]
            for _ in range(chance.choice((0, 1, 2, 5))):
                contents += self.step()
            if turn < turns - 1 and chance.happens(0.95):
                contents.append(self.answer())
        return contents

    def user(self) -> Message:
        chance = self.chance
        text = {"text": chance.prose() if chance.happens(0.98) else " "}
        image = {"inlineData": {"mimeType": "image/png", "data": chance.encoded()}}
        file = {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.com/a.pdf"}}
        video = {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}, "videoMetadata": {"endOffset": "9s"}}
        parts = chance.choice(
            ([text], [text], [text], [text, {"text": chance.prose()}], [image, text], [file], [video, text])
        )
        return {"role": "user", "parts": parts} if chance.happens(0.9) else {"parts": parts}

    def thoughts(self) -> list[Message]:
        return [{"text": self.chance.prose(), "thought": True}] if self.chance.happens(0.3) else []

    def signed(self, part: Message, share: float = 1.0) -> Message:
        if self.signs and self.chance.happens(share):
            return {**part, "thoughtSignature": f"c2lnbmF0dXJl{self.chance.randrange(1000):04}"}
        return part

    def step(self) -> list[Message]:
        """Calls of which the first is signed, and their responses in order; words of the user come after."""
        chance = self.chance
        calls = [self.call() for _ in range(chance.choice((1, 1, 1, 2, 4)))]
        parts = [self.signed({"functionCall": calls[0]}), *({"functionCall": call} for call in calls[1:])]
        spoken = [{"text": chance.prose()}] if chance.happens(0.2) else []
        said = {"role": "model", "parts": [*self.thoughts(), *spoken, *parts]}
        answer = {"role": "user", "parts": [{"functionResponse": self.response(call)} for call in calls]}
        return [said, answer, *([self.user()] if chance.happens(0.1) else [])]

    def call(self) -> Message:
        chance = self.chance
        call: Message = {"name": chance.tool(), "args": chance.arguments()}
        if chance.happens(0.05):
            del call["args"]
        return {"id": chance.key("fc"), **call} if self.names_calls else call

    def response(self, call: Message) -> Message:
        chance = self.chance
        text = chance.output()
        responses: tuple[Any, ...] = (
            {"output": text},
            {"output": text},
            {"result": text},
            {"error": text},
            {"output": {"rows": [{"note": text}, {"note": "ok"}], "count": 2}},
            {"stdout": text, "stderr": "", "exit_code": 1},
            {"output": ""},
            {},
        )
        response = {"name": call["name"], "response": chance.choice(responses)}
        if chance.happens(0.05):
            response["parts"] = [{"inlineData": {"mimeType": "image/png", "data": chance.encoded()}}]
        return {"id": call["id"], **response} if "id" in call else response

    def answer(self) -> Message:
        chance = self.chance
        text = self.signed({"text": chance.prose()}, 0.3)
        parts = [*self.thoughts(), text]
        if chance.happens(0.1):
            parts = [*self.code(), text]
        elif chance.happens(0.1):
            key = chance.key("tc")
            searched = {"toolCall": {"id": key, "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": [chance.words()]}}}
            found = {
                "toolResponse": {"id": key, "toolType": "GOOGLE_SEARCH_WEB", "response": {"hits": chance.document()}}
            }
            parts = [self.signed(searched), found, text]
        if self.signs and chance.happens(0.2):
            parts.append(self.signed({"text": ""}))
        return {"role": "model", "parts": parts}

    def code(self) -> list[Message]:
        code = {"executableCode": {"language": "PYTHON", "code": self.chance.words()}}
        done = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": self.chance.document()}}
        return [code, done] * self.chance.choice((1, 1, 2))


def history(chance: Chance, turns: int) -> list[Message]:
    """Return a conversation that ends where the model is asked."""
    return _Conversation(chance).run(turns)
