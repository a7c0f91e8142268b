"""Rules that pin items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cupel._internal.checks import as_integer, as_mapping, as_text, shown, wrong_type
from cupel._internal.frozen import EMPTY, FrozenDict
from cupel._internal.relations import are_related, relation_of
from cupel.errors import InvalidItemError, PipelineConfigError
from cupel.model import SOURCE_TYPE_KEY, ContextKind, ContextSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cupel.model import ContextItem

_PLAIN: Final = (str, int, float, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRule:
    """Pins the items that meet all its conditions, as if they had been given with `pinned=True`.

    `newest` limits them to this many: the latest by timestamp, undated ones before all others, and of equals those
    that come last. `metadata` names keys and the values they must have. The group of an item is pinned with it; of an
    entity in several forms, the fullest.

    >>> from cupel import ContextItem, Pipeline, RecencyScorer
    >>> rules = [PinRule.system_prompts(), PinRule.newest_tool_result()]
    >>> items = [ContextItem("ls", 30, kind="ToolOutput"), ContextItem("cat log.txt", 90, kind="ToolOutput")]
    >>> [item.content for item in Pipeline(scorer=RecencyScorer(), pins=rules).run(items, 100)]
    ['cat log.txt']
    """

    kind: ContextKind | None = None
    tag: str | None = None
    source: ContextSource | None = None
    metadata: Mapping[str, str | int | float | bool] = EMPTY
    newest: int | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            kind: ContextKind | str | None = None,
            tag: str | None = None,
            source: ContextSource | str | None = None,
            metadata: Mapping[str, str | int | float | bool] = EMPTY,
            newest: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        checked = {
            "kind": _named(ContextKind, self.kind),
            "tag": None if self.tag is None else as_text("tag", self.tag),
            "source": _named(ContextSource, self.source),
            "metadata": _values(self.metadata),
            "newest": None
            if self.newest is None
            else as_integer("newest", self.newest, least=1, error=PipelineConfigError),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if all(value is None or value == {} for value in checked.values()):
            raise PipelineConfigError("a PinRule needs at least one condition: kind, tag, source, metadata or newest")

    @classmethod
    def system_prompts(cls) -> PinRule:
        """Return the rule for every system prompt."""
        return cls(kind=ContextKind.SYSTEM_PROMPT)

    @classmethod
    def newest_user_message(cls) -> PinRule:
        """Return the rule for the newest message whose metadata has `cupel:source-type` `user`."""
        return cls(kind=ContextKind.MESSAGE, metadata={SOURCE_TYPE_KEY: "user"}, newest=1)

    @classmethod
    def newest_tool_result(cls) -> PinRule:
        """Return the rule for the newest tool output."""
        return cls(kind=ContextKind.TOOL_OUTPUT, newest=1)

    def positions(self, items: Sequence[ContextItem]) -> Iterable[int]:
        """Return the positions of the items that the rule pins."""
        found = [position for position, item in enumerate(items) if self._holds(item)]
        if self.newest is None:
            return found
        dated = [position for position in found if items[position].timestamp is not None]
        undated = [position for position in found if items[position].timestamp is None]
        dated.sort(key=lambda position: items[position].timestamp)  # type: ignore[arg-type, return-value]
        return (undated + dated)[-self.newest :]

    def _holds(self, item: ContextItem) -> bool:
        return (
            (self.kind is None or item.kind == self.kind)
            and (self.source is None or item.source == self.source)
            and (self.tag is None or self.tag in item.tags)
            and all(_same(item.metadata.get(key), value) for key, value in self.metadata.items())
        )


def pinned_positions(items: Sequence[ContextItem], rules: Sequence[PinRule]) -> set[int]:
    """Return the positions of items that are pinned, by themselves or by a rule."""
    pinned = {position for position, item in enumerate(items) if item.pinned}
    ruled = {position for rule in rules for position in rule.positions(items)} - pinned
    return pinned | _complete(items, ruled) if ruled and are_related(items) else pinned | ruled


def _complete(items: Sequence[ContextItem], ruled: set[int]) -> set[int]:
    """Add the groups of the items that a rule pins: one form of each entity, a pinned one if there is any."""
    relations = [relation_of(item) for item in items]
    forms: dict[str, int] = {}
    groups: dict[str, list[int]] = {}
    for position in sorted(range(len(items)), key=lambda at: (items[at].pinned, items[at].tokens, -at)):
        if (entity := relations[position].id) is not None:
            forms[entity] = position
        if (group := relations[position].group) is not None:
            groups.setdefault(group, []).append(position)
    found: set[int] = set()
    for position in ruled:
        for member in (position, *groups.get(relations[position].group or "", ())):
            entity = relations[member].id
            found.add(member if entity is None else forms[entity])
    return found


def _named(family: type[Any], value: Any) -> Any:
    try:
        return None if value is None else family.of(value)
    except InvalidItemError as blank:
        raise PipelineConfigError(str(blank)) from None


def _values(metadata: object) -> Mapping[str, Any]:
    found = as_mapping("metadata", metadata)
    for key, value in found.items():
        as_text("a key of metadata", key)
        if not isinstance(value, _PLAIN):
            raise wrong_type(f"metadata[{shown(key)}]", "a string, a number or a boolean", value)
    return FrozenDict(found) if found else EMPTY


def _same(found: object, wanted: object) -> bool:
    # A flag is no number here, and other values in the metadata are not asked how they compare.
    return isinstance(found, _PLAIN) and isinstance(found, bool) == isinstance(wanted, bool) and found == wanted
