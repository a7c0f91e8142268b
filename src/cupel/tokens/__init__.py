"""Counting tokens: exact, estimated, or corrected by a provider's usage.

A counter is anything with `count(text) -> int`. `TiktokenCounter` is exact for OpenAI's encodings and works offline;
`CharacterEstimate` needs no dependency; `CalibratedCounter` corrects either by the usage a provider reported;
`CachedCounter` remembers counts by content.
"""

from cupel._internal.counter import TokenCounter
from cupel.tokens._counters import CachedCounter, CalibratedCounter, with_token_count
from cupel.tokens._estimate import CharacterEstimate
from cupel.tokens._tiktoken import TiktokenCounter, counter_or_default, default_counter

__all__ = [
    "CachedCounter",
    "CalibratedCounter",
    "CharacterEstimate",
    "TiktokenCounter",
    "TokenCounter",
    "counter_or_default",
    "default_counter",
    "with_token_count",
]
