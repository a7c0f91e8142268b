"""What the telemetry is about."""

from cupel import ContextBudget, ContextItem

BUDGET = ContextBudget(200, 100)
SECRET = "never-in-telemetry"
ITEMS = [
    ContextItem(f"pin {SECRET}", 10, kind="SystemPrompt", pinned=True, metadata={"key": SECRET}),
    ContextItem(f"tool {SECRET}", 60, kind="ToolOutput", future_relevance_hint=0.9, tags=[SECRET]),
    ContextItem(f"twin {SECRET}", 20, kind="memory", future_relevance_hint=0.5),
    ContextItem(f"twin {SECRET}", 20, kind="memory", future_relevance_hint=0.25),
    ContextItem(f"long {SECRET}", 80, kind="Document", future_relevance_hint=0.125),
    ContextItem(f"broken {SECRET}", -5),
]
