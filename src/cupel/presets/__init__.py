"""Seven ready policies for the usual jobs: `cupel.presets.chat()` and its siblings.

>>> from cupel import presets
>>> presets.rag().to_dict()["placer"]
'u_shaped'
"""

from cupel.presets._presets import chat, code_review, debugging, document_qa, long_running, rag, tool_use

__all__ = ["chat", "code_review", "debugging", "document_qa", "long_running", "rag", "tool_use"]
