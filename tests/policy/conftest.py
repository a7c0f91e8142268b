"""Tests register tags; the registries are as before when they are done."""

import pytest

from cupel.policy._plugins import load_plugins
from cupel.policy._registry import PLACERS, SCORERS, SLICERS


@pytest.fixture
def fresh_registries():
    registries = (SCORERS, SLICERS, PLACERS)
    saved = [(dict(registry._documents), dict(registry._tags)) for registry in registries]
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()
    for registry, (documents, tags) in zip(registries, saved, strict=True):
        registry._documents.clear()
        registry._documents.update(documents)
        registry._tags.clear()
        registry._tags.update(tags)
