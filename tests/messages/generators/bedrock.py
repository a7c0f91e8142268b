"""Valid histories of Bedrock's `Converse`."""

from __future__ import annotations

from tests.messages.generators.chance import Chance, Message

POINT = {"cachePoint": {"type": "default"}}


class _Conversation:
    """One conversation: it thinks or not, and has a few cache points."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.thinks = chance.happens(0.5)
        self.points = 4

    def run(self, turns: int) -> list[Message]:
        chance = self.chance
        messages: list[Message] = []
        for turn in range(turns):
            said = self.user()
            if messages and messages[-1]["role"] == "user":
                messages[-1]["content"] += said
            else:
                messages.append({"role": "user", "content": said})
            for number in range(chance.choice((0, 1, 2, 5))):
                messages += self.step(number)
            if turn < turns - 1 and chance.happens(0.95):
                messages.append(self.answer())
        return messages

    def user(self) -> list[Message]:
        chance = self.chance
        text = {"text": chance.prose()}
        image = {"image": {"format": "png", "source": {"bytes": chance.data()}}}
        document = {"document": {"format": "txt", "name": "notes", "source": {"bytes": chance.document().encode()}}}
        stored = {"document": {"format": "pdf", "name": "paper", "source": {"s3Location": {"uri": "s3://b/a.pdf"}}}}
        guarded = {"guardContent": {"text": {"text": chance.prose(), "qualifiers": ["query"]}}}
        blocks = chance.choice(
            (
                [text],
                [text],
                [text, {"text": chance.prose()}],
                [image, text],
                [image],
                [document, text],
                [text, stored],
                [guarded],
            )
        )
        return self.marked(blocks)

    def marked(self, blocks: list[Message]) -> list[Message]:
        if self.points and self.chance.happens(0.05):
            self.points -= 1
            return [*blocks, dict(POINT)]
        return blocks

    def thoughts(self, number: int) -> list[Message]:
        """The first step of a loop thinks, later ones sometimes."""
        chance = self.chance
        if not self.thinks or (number and chance.happens(0.5)):
            return []
        thought = {"reasoningText": {"text": chance.prose(), "signature": chance.key("c2ln")}}
        return [
            {"reasoningContent": chance.choice((thought, thought, {"redactedContent": chance.key("opaque").encode()}))}
        ]

    def step(self, number: int) -> list[Message]:
        chance = self.chance
        uses = [self.use() for _ in range(chance.choice((1, 1, 1, 2, 4)))]
        spoken = [{"text": chance.prose()}] if chance.happens(0.3) else []
        results = [{"toolResult": self.result(use["toolUseId"])} for use in chance.shuffled(uses)]
        words = [{"text": chance.prose()}] if chance.happens(0.15) else []
        said = [*self.thoughts(number), *spoken, *({"toolUse": use} for use in uses)]
        return [{"role": "assistant", "content": said}, {"role": "user", "content": self.marked([*results, *words])}]

    def use(self) -> Message:
        return {
            "toolUseId": self.chance.key("tooluse.1:x"),
            "name": self.chance.tool(),
            "input": self.chance.arguments(),
        }

    def result(self, key: str) -> Message:
        chance = self.chance
        text = chance.output()
        image = {"image": {"format": "png", "source": {"bytes": chance.data()}}}
        document = {"document": {"format": "txt", "name": "log", "source": {"bytes": chance.document().encode()}}}
        rows = {"json": {"rows": [{"note": text, "n": 1.5}], "errors": []}}
        contents = (
            [{"text": text}],
            [{"text": text}],
            [{"text": text}, image],
            [rows],
            [image],
            [document],
            [{"text": text}] * 2,
        )
        result: Message = {"toolUseId": key, "content": chance.choice(contents)}
        return {**result, "status": chance.choice(("success", "error"))} if chance.happens(0.3) else result

    def answer(self) -> Message:
        chance = self.chance
        thoughts = self.thoughts(0) if chance.happens(0.5) else []
        cited = {"citationsContent": {"content": [{"text": chance.prose()}], "citations": []}}
        return {"role": "assistant", "content": [*thoughts, cited if chance.happens(0.1) else {"text": chance.prose()}]}


def history(chance: Chance, turns: int) -> list[Message]:
    """Return a conversation that ends where the model is asked."""
    return _Conversation(chance).run(turns)
