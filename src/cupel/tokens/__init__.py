"""Counting tokens: exact, estimated, or learned from what a provider reports.

A counter is anything with `count(text) -> int`. `TiktokenCounter` is exact for OpenAI's encodings and works offline;
`CharacterEstimate` needs no dependency; `CalibratedCounter` corrects either by the usage a provider reported;
`CachedCounter` remembers counts by content.
"""

from cupel._counter import TokenCounter
from cupel.tokens._cached import CachedCounter
from cupel.tokens._calibrated import CalibratedCounter
from cupel.tokens._counter import with_token_count
from cupel.tokens._default import counter_or_default, default_counter
from cupel.tokens._estimate import CharacterEstimate
from cupel.tokens._tiktoken import TiktokenCounter

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
