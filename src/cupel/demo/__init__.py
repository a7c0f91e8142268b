"""A coding agent's session as sample data."""

from cupel.demo._session import BUDGET, conversation, policy_text, session_items, session_policy, session_text

__all__ = ["BUDGET", "conversation", "policy_text", "session_items", "session_policy", "session_text"]
