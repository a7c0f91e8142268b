"""The formats of chat histories: one module each, and one entry in the table."""

from cupel.messages._formats.format import Format, SentMessage
from cupel.messages._formats.table import (
    FORMATS,
    FRAMEWORK,
    PLAIN,
    REPLY_FRAME,
    Provider,
    detect_format,
    has_all_pairs,
    provider_of,
    read_message,
    traits_of,
)
from cupel.messages._formats.texts import OUTPUTS, PROSE, Part

__all__ = [
    "FORMATS",
    "FRAMEWORK",
    "OUTPUTS",
    "PLAIN",
    "PROSE",
    "REPLY_FRAME",
    "Format",
    "Part",
    "Provider",
    "SentMessage",
    "detect_format",
    "has_all_pairs",
    "provider_of",
    "read_message",
    "traits_of",
]
