"""Rules of a view: which properties it shows, under which names, and axes with their entries.

The rules are those of the reference: a key may have ``*`` for any name; its value is ``=`` for the
same name, None to hide, or the name in the base; the last that matches counts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from daf_storage import errors
from daf_storage.base import RESERVED_VECTORS, name_problem
from daf_storage.data import DafReader, EntrySelection, entry_positions, layout
from daf_storage.errors import CorruptDataError, InvalidInputError, InvalidNameError
from daf_storage.trees import Node

Pairs: TypeAlias = list[tuple[Any, str | None]]

ANY: Final = "*"
"""In a key: any name."""

SAME: Final = "="
"""As a value: the same name as in the base."""

_KEY_PARTS: Final = (1, 2, 3)
_VECTOR_PARTS: Final = 2
_SHOW_ALL: Final = tuple(((ANY,) * parts, SAME) for parts in _KEY_PARTS)


class Rules(Protocol):
    """Which scalars, vectors and matrices are shown, and under which names."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property of the view is called in the base; None if it is hidden."""

    def names(self, axes: tuple[str, ...], in_base: Collection[str]) -> Iterable[str]:
        """Return the names of the properties that are shown of those that the base has."""


@dataclass(frozen=True, slots=True)
class DataRules:
    """`Rules` that were given one by one."""

    rules: tuple[tuple[tuple[str, ...], str | None], ...]
    """Keys with what they mean, in their order."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property of the view is called in the base; None if it is hidden."""
        keys = {(*axes, name), (*axes[::-1], name)}
        for rule, value in reversed(self.rules):
            if any(_matches(rule, key) for key in keys):
                return name if value == SAME else value
        return None

    def names(self, axes: tuple[str, ...], in_base: Collection[str]) -> list[str]:
        """Return the names of the properties that are shown of those that the base has."""
        renamed = [key[-1] for key, value in self.rules if value not in (SAME, None)]
        in_view = dict.fromkeys([*in_base, *renamed])
        return [name for name in in_view if self.base_name(axes, name) in in_base]


def data_rules(data: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> DataRules:
    """Return rules after checking their form.

    Parameters
    ----------
    data
        A mapping changes what is shown by default, which is all, and its keys without ``*`` count
        more.  A list of pairs says all that is shown, and the last that matches counts.
    """
    rules: list[tuple[tuple[str, ...], str | None]] = []
    for key, value in in_order(data):
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) != 1 or not isinstance(parts[0], str):  # a name alone may be in a tuple
            layout.check_key(key, "a view's data=")
        if len(parts) == _VECTOR_PARTS and RESERVED_VECTORS & {parts[-1], value}:
            raise InvalidNameError(
                f"a view's data= has {value!r} for {key!r}: the vectors 'name' and 'index' always "
                "exist, and are shown under these names"
            )
        is_plain = value is None or value == SAME
        if not is_plain and (ANY in parts or name_problem(value) is not None):
            raise InvalidInputError(
                f"a view's data= has {value!r} for {key!r}; a value is '=' to show it, None to "
                "hide it, or, of a key without '*', its name in the base"
            )
        rules.append((parts, value))
    return DataRules((*(_SHOW_ALL if isinstance(data, Mapping) else ()), *rules))


def in_order(given: Mapping[Any, Any] | Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return pairs in the order in which they count: of a mapping, those with ``*`` first."""
    if isinstance(given, Mapping):
        names = {key: key if isinstance(key, tuple) else (key,) for key in given}
        return sorted(given.items(), key=lambda pair: -names[pair[0]].count(ANY))
    return [(key, value) for key, value in given]


def _matches(rule: tuple[str, ...], key: tuple[str, ...]) -> bool:
    return len(rule) == len(key) and all(
        part in (ANY, name) for part, name in zip(rule, key, strict=True)
    )


def parse_view(written: object, *, what: str) -> tuple[Pairs | None, Pairs | None]:
    r"""Return the axes and the data of a view; None where nothing is said.

    Parameters
    ----------
    what
        What messages call it.

    Raises
    ------
    CorruptDataError
        It is not what other implementations write.

    Examples
    --------
    >>> parse_view(r'{"axes": [{"obs": "cell"}], "data": [{"(\"obs\", \"*\")": "="}]}', what="x")
    ([('obs', 'cell')], [(('obs', '*'), '=')])
    """
    try:
        view: dict[str, Any] = json.loads(written) if isinstance(written, str) else {"": written}
        if view.keys() - {"axes", "data"}:
            raise KeyError(*view)
        axes, data = (_pairs(view.get(part)) for part in ("axes", "data"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptDataError(
            f"{what} is {written!r:.80}; it has to be a JSON object with 'axes' and 'data', lists "
            "of objects whose keys are names, or tuples of names, and whose values are names, '=' "
            "or null"
        ) from error
    return axes, data


def _pairs(listed: Any) -> Pairs | None:
    if listed is None:
        return None
    maps = listed if isinstance(listed, list) else [listed]
    return [
        (_key(key), None if value is None else str.strip(value))
        for each in maps
        for key, value in each.items()
    ]


def _key(key: str) -> str | tuple[str, ...]:
    if not key.startswith("("):
        return key
    names = json.loads(f"[{key.removeprefix('(').removesuffix(')').rstrip(', ')}]")
    return tuple(map(str, names))


ViewAxes: TypeAlias = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""By its name in the view: what each axis is."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewAxis:
    """One axis of a view."""

    name: str
    """Its name in the view."""
    base: str
    """Its name in the base."""
    entries: EntrySelection | None
    """The entries that are shown; None for all, in their order."""
    node: Node | None
    """The entries of the base that the positions are of; None where all are shown."""

    @property
    def is_as_it_is(self) -> bool:
        """Whether it has the same name and the same entries as in the base."""
        return self.name == self.base and self.entries is None


def view_axes(daf: DafReader, axes: ViewAxes) -> dict[str, ViewAxis]:
    """Return the axes of a view by name.

    Raises
    ------
    AxisNotFoundError, EntryNotFoundError
        The base has no such axis or entry.
    LengthError, DuplicateEntriesError, InvalidInputError
        A mask is not as long as its axis; an entry is chosen twice; or a value makes no sense.
    """
    available = sorted(daf.axes_set())
    shown: dict[str, Any] = dict.fromkeys(available, SAME) if isinstance(axes, Mapping) else {}
    for name, value in in_order(axes):
        if not isinstance(name, str):
            raise errors.InvalidInputError(f"a view's axes= has the key {name!r}, which is no name")
        if name == ANY:
            if value is not None and not (isinstance(value, str) and value == SAME):
                raise errors.InvalidInputError(
                    f"a view's axes= has {value!r} for '*'; that is '=' to show all axes, or None "
                    "to hide all"
                )
            shown = dict.fromkeys(available, SAME) if value is not None else {}
        elif value is None:
            if isinstance(axes, Mapping) and name not in available:
                raise errors.axis_not_found(daf.location, name, available)
            shown.pop(name, None)
        else:
            shown[name] = value
    return {name: _axis(daf, name, value) for name, value in shown.items()}


def _axis(daf: DafReader, name: str, value: Any) -> ViewAxis:
    problem = name_problem(name)
    if problem is not None:
        raise errors.InvalidNameError(f"a view's axis {name!r} {problem}")
    base, chosen = name, value
    if isinstance(value, str):
        base, chosen = (name if value == SAME else value), None
    elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        base, chosen = value
    if not daf.has_axis(base):
        error = errors.axis_not_found(daf.location, base, daf.axes_set())
        if isinstance(value, str) and not value.isidentifier():
            text = f"{error}; a predicate is for the view of a session: connect(daf).view(...)"
            raise errors.with_message(error, text)
        raise error
    if chosen is None:
        return ViewAxis(name, base, None, None)
    node = daf.tree.node(layout.axis_path(base))
    what = f"{daf.location}: the entries of axis {base!r} for a view"
    positions = entry_positions(daf, base, chosen, what=what)
    entries = EntrySelection(positions, daf.axis_length(base))
    return ViewAxis(name, base, None if entries.is_all else entries, node)
