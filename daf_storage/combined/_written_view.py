"""A view as other implementations write it into a scalar: JSON lists of names with what they are.

Source: docs/reference/format.md, "Chains".
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from daf_storage.errors import CorruptDataError

Pairs: TypeAlias = list[tuple[Any, str | None]]


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
