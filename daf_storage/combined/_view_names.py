"""Rules for what a view shows, and under which names; the last that matches counts.

Pure.  The rules are those of the reference: a key may have ``*`` for any name; its value is ``=``
for the same name, None to hide, or the name in the base.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from daf_storage.base import RESERVED_VECTORS, name_problem
from daf_storage.errors import CorruptDataError, InvalidInputError, InvalidNameError

Pairs: TypeAlias = list[tuple[Any, str | None]]

ANY: Final = "*"
"""In a key: any name."""

SAME: Final = "="
"""As a value: the same name as in the base."""

_KEY_PARTS: Final = (1, 2, 3)
_VECTOR_PARTS: Final = 2
_SHOW_ALL: Final = tuple(((ANY,) * parts, SAME) for parts in _KEY_PARTS)


@dataclass(frozen=True, slots=True)
class DataRules:
    """Which scalars, vectors and matrices a view shows."""

    rules: tuple[tuple[tuple[str, ...], str | None], ...]
    """Keys with what they mean, in their order."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property of the view is called in the base; None if it is hidden."""
        keys = {(*axes, name), (*axes[::-1], name)}
        for rule, value in reversed(self.rules):
            if any(_matches(rule, key) for key in keys):
                return name if value == SAME else value
        return None

    def names(self, axes: tuple[str, ...], in_base: Iterable[str]) -> dict[str, str]:
        """Return the properties that are shown of some axes, with their names in the base.

        Parameters
        ----------
        in_base
            The names that the base has.
        """
        known = list(in_base)
        renamed = [key[-1] for key, value in self.rules if value not in (SAME, None)]
        in_view = {name: self.base_name(axes, name) for name in (*known, *renamed)}
        return {name: base for name, base in in_view.items() if base in set(known)}


def data_rules(data: Mapping[Any, Any] | Sequence[tuple[Any, Any]] | None) -> DataRules:
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
        if len(parts) not in _KEY_PARTS or not all(isinstance(part, str) for part in parts):
            raise InvalidInputError(
                f"a view's data= has the key {key!r}; a key is a scalar 'name', a vector "
                "('axis', 'name') or a matrix ('rows', 'columns', 'name')"
            )
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
    is_default = data is None or isinstance(data, Mapping)
    return DataRules((*(_SHOW_ALL if is_default else ()), *rules))


def in_order(given: Mapping[Any, Any] | Sequence[tuple[Any, Any]] | None) -> list[tuple[Any, Any]]:
    """Return pairs in the order in which they count: of a mapping, those with ``*`` first."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return sorted(given.items(), key=lambda pair: -_wildcards(pair[0]))
    return [(key, value) for key, value in given]


def _wildcards(key: Any) -> int:
    return key.count(ANY) if isinstance(key, tuple) else int(key == ANY)


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
        view = json.loads(written) if isinstance(written, str) else None
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(f"{what} is no JSON ({error}): {written!r:.80}") from error
    if not isinstance(view, dict) or set(view) - {"axes", "data"}:
        raise CorruptDataError(
            f"{what} is {written!r:.80}; it has to be a JSON object with 'axes' and 'data'"
        )
    axes, data = (_pairs(view.get(part), what) for part in ("axes", "data"))
    return axes, data


def _pairs(listed: Any, what: str) -> Pairs | None:
    if listed is None:
        return None
    maps = listed if isinstance(listed, list) else [listed]
    if not all(isinstance(each, dict) for each in maps):
        raise CorruptDataError(f"{what} has {listed!r:.80}, and not a list of names with queries")
    return [(_key(key, what), _value(value, what)) for each in maps for key, value in each.items()]


def _key(key: str, what: str) -> str | tuple[str, ...]:
    if not key.startswith("("):
        return key
    try:
        names = json.loads(f"[{key.removeprefix('(').removesuffix(')').rstrip(', ')}]")
    except (ValueError, RecursionError) as error:
        raise CorruptDataError(
            f"{what} has the key {key!r:.80}, which is no tuple of names"
        ) from error
    return tuple(map(str, names))


def _value(value: Any, what: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise CorruptDataError(f"{what} has {value!r}, where a name, '=' or null has to be")
    return None if value is None else value.strip()
