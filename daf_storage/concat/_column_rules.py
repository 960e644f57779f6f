"""The rules of imported columns, for columns of several data sets together.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

Rule: TypeAlias = dict[str, Any]

MISSING_SUFFIX: Final = "_is_missing"
"""Ends the name of the Bool vector that tells a missing entry from an empty string."""

_NOT_COMPARED: Final = frozenset({"is_missing", "missing", "categories", "ordered", "axis"})


def merged_rule(rules: Iterable[Rule | None], extra: Mapping[str, Any]) -> Rule:
    """Return the rule of a column that consists of columns with these rules.

    Parameters
    ----------
    rules
        None for a data set that has no such column.  That of a categorical has its categories,
        also if an axis has them too.
    extra
        What the rule has besides.

    Examples
    --------
    >>> merged_rule([{"kind": "categorical", "categories": ["T"]}, {}], {})
    {}
    >>> merged_rule([{"kind": "date", "dtype": "datetime64[ns]"}, None], {})
    {'kind': 'date', 'dtype': 'datetime64[ns]'}
    """
    given = [rule for rule in rules if rule is not None]
    if not given:
        return {**extra}
    names = {key: given[0][key] for key in ("column",) if key in given[0]}
    if all(rule.get("kind") == "categorical" for rule in given):
        return {**names, **_categorical(given), **extra}
    plain = [{k: v for k, v in r.items() if k not in _NOT_COMPARED} for r in given]
    kinds = [{k: v for k, v in r.items() if k not in ("column", "vector")} for r in plain]
    if any(kind != kinds[0] for kind in kinds):
        return {**names, **_text(given), **extra}
    rule = {**names, **kinds[0]}
    if any(one.get("missing") or "is_missing" in one for one in given) or extra:
        rule["missing"] = True
    return {**rule, **extra}


def _text(rules: Sequence[Rule]) -> Rule:
    has_missing = any(rule.get("missing") or "is_missing" in rule for rule in rules)
    return {"kind": "text", "missing": True} if has_missing else {}


def _categorical(rules: Sequence[Rule]) -> Rule:
    """Return the rule of a categorical with the categories of all, in the order they occur."""
    merged: Rule = {"kind": "categorical"}
    lists = [rule.get("categories") for rule in rules]
    same_order = all(rule.get("ordered") for rule in rules) and all(
        listed == lists[0] for listed in lists
    )
    merged["ordered"] = same_order
    dtypes = {rule.get("dtype") for rule in rules}
    if len(dtypes) == 1 and None not in dtypes:
        merged["dtype"] = dtypes.pop()
    axes = {rule["axis"] for rule in rules if "axis" in rule}
    if len(axes) == 1:
        merged["axis"] = axes.pop()
        return merged
    categories = [name for listed in lists if isinstance(listed, list) for name in listed]
    merged["categories"] = list(dict.fromkeys(categories))
    return merged
