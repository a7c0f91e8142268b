"""Valid histories of Anthropic's Messages API."""

from __future__ import annotations

from tests.messages.generators.chance import Chance, Message


class _Conversation:
    """One conversation: it thinks or not, and marks a few blocks."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.thinks = chance.happens(0.5)
        self.marks = 4
        self.compactions = 1

    def run(self, turns: int) -> list[Message]:
        chance = self.chance
        messages: list[Message] = []
        for turn in range(turns):
            messages += [self.user() for _ in range(chance.choice((1, 1, 1, 2)))]
            steps = chance.choice((0, 1, 2, 5))
            if steps and turn and chance.happens(0.1):
                messages.append({"role": "system", "content": chance.prose()})
            for number in range(steps):
                messages += self.code(number) if chance.happens(0.1) else self.step(number)
            if turn < turns - 1 and chance.happens(0.95):
                messages += self.answer()
        return messages

    def text(self, text: str) -> Message:
        block: Message = {"type": "text", "text": text}
        if self.marks and self.chance.happens(0.03):
            self.marks -= 1
            block["cache_control"] = {"type": "ephemeral"}
        return block

    def user(self) -> Message:
        chance = self.chance
        if chance.happens(0.6):
            return {"role": "user", "content": chance.prose()}
        image = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": chance.encoded()},
        }
        document = {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": chance.document()},
            "title": "a.txt",
        }
        text = self.text(chance.prose())
        return {
            "role": "user",
            "content": chance.choice(([text], [image, text], [document, text], [image], [document])),
        }

    def thoughts(self, number: int) -> list[Message]:
        """The first step of a loop thinks, later ones sometimes."""
        chance = self.chance
        if not self.thinks or (number and chance.happens(0.5)):
            return []
        thinking = {"type": "thinking", "thinking": chance.prose(), "signature": chance.key("c2ln")}
        redacted = {"type": "redacted_thinking", "data": chance.key("b3BhcXVl")}
        return chance.choice(([thinking], [thinking], [redacted], [thinking, redacted]))

    def step(self, number: int) -> list[Message]:
        chance = self.chance
        calls = [self.call() for _ in range(chance.choice((1, 1, 1, 2, 4)))]
        spoken = [self.text(chance.prose())] if chance.happens(0.3) else []
        results = [self.result(call["id"]) for call in chance.shuffled(calls)]
        said = {"role": "assistant", "content": [*self.thoughts(number), *spoken, *calls]}
        if chance.happens(0.1):
            return [said, *({"role": "user", "content": [result]} for result in results)]
        words = [self.text(chance.prose())] if chance.happens(0.15) else []
        return [said, {"role": "user", "content": [*results, *words]}]

    def call(self) -> Message:
        chance = self.chance
        return {"type": "tool_use", "id": chance.key("toolu"), "name": chance.tool(), "input": chance.arguments()}

    def result(self, key: str) -> Message:
        chance = self.chance
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": chance.encoded()}}
        text = {"type": "text", "text": chance.output()}
        contents = (text["text"], text["text"], text["text"], [text], [text, image], [image], "", [text, dict(text)])
        result = {"type": "tool_result", "tool_use_id": key, "content": chance.choice(contents)}
        if chance.happens(0.05):
            del result["content"]
        return {**result, "is_error": True} if chance.happens(0.1) else result

    def answer(self) -> list[Message]:
        chance = self.chance
        text = self.text(chance.prose().strip())
        if self.compactions and chance.happens(0.05):
            self.compactions -= 1
            return [{"role": "assistant", "content": [{"type": "compaction", "content": chance.prose()}, text]}]
        if chance.happens(0.15):
            return self.search(text)
        if self.thinks and chance.happens(0.5):
            return [{"role": "assistant", "content": [*self.thoughts(0), text]}]
        return [{"role": "assistant", "content": text["text"] if chance.happens(0.7) else [text]}]

    def search(self, text: Message) -> list[Message]:
        """A search by the provider, in one message or over a pause."""
        chance = self.chance
        key = chance.key("srv")
        remote = chance.happens(0.3)
        use = {"type": "server_tool_use", "id": key, "name": "web_search", "input": {"query": chance.words()}}
        found: Message = {"type": "web_search_tool_result", "tool_use_id": key, "content": []}
        if remote:
            use = {**use, "type": "mcp_tool_use", "name": "list", "server_name": "notes"}
            content = [{"type": "text", "text": chance.document()}]
            found = {"type": "mcp_tool_result", "tool_use_id": key, "is_error": False, "content": content}
        if chance.happens(0.3) and not remote:
            return [
                {"role": "assistant", "content": [*self.thoughts(0), use]},
                {"role": "assistant", "content": [found, text]},
            ]
        return [{"role": "assistant", "content": [*self.thoughts(0), use, found, text]}]

    def code(self, number: int) -> list[Message]:
        """Code by the model that calls tools, in one or two rounds."""
        chance = self.chance
        key = chance.key("code")
        caller = {"type": "code_execution_20260120", "tool_id": key}
        use = {"type": "server_tool_use", "id": key, "name": "code_execution", "input": {"code": chance.words()}}
        said = [*self.thoughts(number), use]
        messages: list[Message] = []
        for _ in range(chance.choice((1, 2))):
            calls = [{**self.call(), "caller": caller} for _ in range(chance.choice((1, 2)))]
            results = [self.result(call["id"]) for call in calls]
            messages += [{"role": "assistant", "content": [*said, *calls]}, {"role": "user", "content": results}]
            said = []
        output = {
            "type": "code_execution_result",
            "stdout": chance.document(),
            "stderr": "",
            "return_code": 0,
            "content": [],
        }
        done = {"type": "code_execution_tool_result", "tool_use_id": key, "content": output}
        last = self.call()
        answer = {"role": "user", "content": [self.result(last["id"])]}
        return [*messages, {"role": "assistant", "content": [done, last]}, answer]


def history(chance: Chance, turns: int) -> list[Message]:
    """Return a conversation that ends where the model is asked."""
    return _Conversation(chance).run(turns)
