"""Kinds and sources: folding, equality, coercion; and the read-only dictionary they are kept in."""

from __future__ import annotations

import pickle

import pytest

from cupel import ContextKind, ContextSource, InvalidItemError, ScorerConfigError
from cupel._internal.folded import fold_ascii, folded_map
from cupel._internal.frozen import FrozenDict


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("Message", "mEsSaGe", True),
        ("Message", "Message ", False),
        ("É", "é", False),
        ("\u212a", "k", False),  # the Kelvin sign, which str.lower turns into k
        ("K\u212a", "k\u212a", True),
        ("straße", "STRASSE", False),
        ("İ", "i", False),
    ],
)
def test_kinds_fold_ascii_only(left: str, right: str, same: bool) -> None:
    assert (ContextKind(left) == ContextKind(right)) is same
    assert (fold_ascii(left) == fold_ascii(right)) is same
    if same:
        assert hash(ContextKind(left)) == hash(ContextKind(right))


def test_a_name_equals_neither_a_string_nor_another_type() -> None:
    assert ContextKind("Chat") != "Chat"
    assert ContextKind("Chat") != ContextSource("Chat")


def test_spelling_is_kept() -> None:
    kind = ContextKind("tOoL")
    assert (str(kind), repr(kind), kind.value, kind.key) == ("tOoL", "ContextKind('tOoL')", "tOoL", "tool")


def test_of_coerces_strings_and_passes_names() -> None:
    kind = ContextKind("x")
    assert ContextKind.of(kind) is kind
    assert ContextKind.of("x") == kind
    assert ContextKind.of("x") is ContextKind.of("x"), "a million items share a handful of kinds"
    assert ContextSource.of("x") is not ContextKind.of("x")


@pytest.mark.parametrize("make", [ContextKind, ContextSource, ContextKind.of, ContextSource.of])
def test_blank_and_foreign_values_are_refused(make: type[ContextKind]) -> None:
    with pytest.raises(InvalidItemError, match="must not be blank"):
        make("\u2003\n")
    with pytest.raises(TypeError, match="must be a string, got int: 3"):
        make(3)  # type: ignore[arg-type]


def test_names_are_frozen_and_picklable() -> None:
    kind = ContextKind("x")
    with pytest.raises(AttributeError, match="frozen: cannot set value"):
        kind.value = "y"
    with pytest.raises(AttributeError, match="frozen: cannot delete value"):
        del kind.value
    assert pickle.loads(pickle.dumps(kind)) == kind


def test_well_known_names() -> None:
    kinds = (ContextKind.MESSAGE, ContextKind.DOCUMENT, ContextKind.TOOL_OUTPUT, ContextKind.MEMORY)
    assert [*map(str, kinds), str(ContextKind.SYSTEM_PROMPT)] == [
        "Message",
        "Document",
        "ToolOutput",
        "Memory",
        "SystemPrompt",
    ]
    assert list(map(str, (ContextSource.CHAT, ContextSource.TOOL, ContextSource.RAG))) == ["Chat", "Tool", "Rag"]


def test_a_folded_map_refuses_keys_that_fold_together() -> None:
    with pytest.raises(ScorerConfigError, match="weights: 'Message' and 'message' are the same kind"):
        folded_map({"Message": 1, "message": 2}, ContextKind, lambda v, _: v, field="weights", error=ScorerConfigError)


def test_a_folded_map_names_the_field_of_a_bad_key() -> None:
    with pytest.raises(ScorerConfigError, match="weights: kind must not be blank"):
        folded_map({" ": 1}, ContextKind, lambda v, _: v, field="weights", error=ScorerConfigError)
    with pytest.raises(TypeError, match="weights must be a mapping, got list"):
        folded_map([1], ContextKind, lambda v, _: v, field="weights", error=ScorerConfigError)  # type: ignore[arg-type]


def test_a_frozen_dict_cannot_be_changed() -> None:
    frozen = FrozenDict({"a": 1})
    for change in (
        lambda: frozen.__setitem__("a", 2),
        lambda: frozen.__delitem__("a"),
        lambda: frozen.update(a=2),
        frozen.clear,
        lambda: frozen.pop("a"),
        frozen.popitem,
        lambda: frozen.setdefault("b", 2),
        lambda: frozen.__ior__({"b": 2}),
    ):
        with pytest.raises(TypeError, match="FrozenDict is read-only"):
            change()
    assert frozen == {"a": 1}
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert hash(frozen) == hash(FrozenDict({"a": 2}))
