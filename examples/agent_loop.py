"""An agent whose window overflows: one session keeps it within budget, and says what each request costs.

The model is a stand-in that repeats what an agent said in the session that ships with cupel; everything around it is
what a real loop looks like. Run it:

    python examples/agent_loop.py
"""

from __future__ import annotations

from typing import Any

from cupel.demo import conversation
from cupel.messages import MessageSession, Prices

BUDGET = 6_000


class StandIn:
    """Answers as the recorded agent did, and reports usage as a provider with a cache would."""

    def __init__(self) -> None:
        self.recorded = conversation()
        self.at = 0

    def listen(self) -> list[dict[str, Any]]:
        """Return what the user and the tools say before the next answer."""
        start = self.at
        while self.at < len(self.recorded) and self.recorded[self.at]["role"] != "assistant":
            self.at += 1
        return self.recorded[start : self.at]

    def answer(self, *, sent: int, read: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the next answer and the request's usage."""
        message = self.recorded[self.at]
        self.at += 1
        return message, {"prompt_tokens": sent, "prompt_tokens_details": {"cached_tokens": read}}


def main() -> None:
    """Run the loop to its end."""
    model = StandIn()
    session: MessageSession[dict[str, Any]] = MessageSession(BUDGET, prices=Prices.marked(), provider="openai")
    history: list[dict[str, Any]] = model.listen()
    turns = 0
    while model.at < len(model.recorded):
        turn = session.fit(history)  # the whole history goes in, the next request comes out
        answer, usage = model.answer(sent=turn.bill.sent, read=turn.bill.read)
        session.observe(usage)  # settles the bill with what the provider counted
        history += [answer, *model.listen()]
        turns += 1
        if turn.action == "cut":
            print(f"turn {turns:>2}  {turn.bill}\n         {turn.reason}")
    print(f"\n{turns} turns  {session.total}")


if __name__ == "__main__":
    main()
