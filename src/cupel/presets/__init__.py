"""Eight ready policies for the usual jobs: `cupel.presets.chat()` and its siblings.

Each takes the best scores first, reads the query if the run has one, puts system prompts in front, and pins them, the
newest user message and the newest tool result.

>>> from cupel import presets
>>> presets.rag().to_dict()["placer"]
{'type': 'system_first', 'inner': 'u_shaped'}
"""

from cupel.presets._presets import agent, chat, code_review, debugging, document_qa, long_running, rag, tool_use

__all__ = ["agent", "chat", "code_review", "debugging", "document_qa", "long_running", "rag", "tool_use"]
