"""Tests register tags; the registries are as before when they are done."""

import pytest

from cupel.policy._registry import PLACERS, SCORERS, SLICERS, load_plugins


@pytest.fixture
def fresh_registries():
    registries = (SCORERS, SLICERS, PLACERS)
    saved = [dict(registry.by_tag) for registry in registries]
    load_plugins.cache_clear()
    yield
    load_plugins.cache_clear()
    for registry, by_tag in zip(registries, saved, strict=True):
        registry.by_tag.clear()
        registry.by_tag.update(by_tag)
