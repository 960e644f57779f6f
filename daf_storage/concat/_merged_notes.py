"""The notes of imports of AnnData, for several data sets together.

The result becomes an AnnData again: with the union of the categories, dates as dates, and matrices
in the formats that all had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from daf_storage.anndata import NOTES, Notes
from daf_storage.base import StorageType
from daf_storage.concat._members import Member, Run
from daf_storage.data import DafReader

Rule: TypeAlias = dict[str, Any]


_NOT_COMPARED: Final = frozenset({"is_missing", "missing", "categories", "ordered", "axis"})

_PARTS = ("obsm", "varm", "raw.varm")
_FRAME = ("frame", "dtypes")


class MergedNotes:
    """The notes of a result, as they are collected while it is written."""

    def __init__(self, members: list[Member]) -> None:
        self._members = [member for member in members if member.notes]
        self._rules: dict[str, dict[str, Rule]] = {}

    def add_vector(self, axis: str, name: str, rule: Rule) -> None:
        """Note a vector that was written."""
        self._rules.setdefault(axis, {})[name] = rule

    def write(self, run: Run) -> None:
        """Store the notes, if a member has some."""
        daf = run.daf
        if not self._members:
            return
        notes: Notes = {"version": 1}
        axes = dict.fromkeys(axis for m in self._members for axis in m.notes.get("axes", {}))
        notes["axes"] = {axis: self._axis(axis) for axis in axes if daf.has_axis(axis)}
        notes["matrices"] = self._matrices()
        notes["uns"] = self._uns(run)
        for part in ("raw", "layers"):
            given = [m.notes[part] for m in self._members if part in m.notes]
            if given:
                notes[part] = {key: value for each in given for key, value in each.items()}
        for part in _PARTS:
            merged = self._annotations(daf, part)
            if merged:
                notes[part] = merged
        daf.set_scalar(NOTES, json.dumps(notes, separators=(",", ":")))

    def _axis(self, axis: str) -> dict[str, Any]:
        given = [m.notes["axes"][axis] for m in self._members if axis in m.notes.get("axes", {})]
        names = [each.get("index_name") for each in given]
        order = dict.fromkeys(
            [str(rule["vector"]) for each in given for rule in each["columns"] if "vector" in rule]
        )
        rules = self._rules.get(axis, {})
        ordered = [name for name in order if name in rules]
        ordered += [name for name in rules if name not in order]
        return {
            "index_name": names[0] if all(name == names[0] for name in names) else None,
            "columns": [{"column": name, **rules[name], "vector": name} for name in ordered],
        }

    def _matrices(self) -> dict[str, dict[str, Any]]:
        given = [m.notes.get("matrices", {}) for m in self._members]
        labels = dict.fromkeys(label for each in given for label in each)
        merged = {}
        for label in labels:
            notes = [each[label] for each in given if label in each]
            common = {k: v for k, v in notes[0].items() if all(n.get(k) == v for n in notes)}
            is_everywhere = len(notes) == len(self._members)
            merged[label] = common if is_everywhere else _without(common, "dtype")
        return merged

    def _uns(self, run: Run) -> list[Any]:
        """Return the keys of ``uns`` whose scalars, colours or values the result has."""
        last = {key: entry for m in self._members for key, entry in m.notes.get("uns", [])}
        return [
            [key, entry]
            for key, entry in last.items()
            if entry["type"] == "colors" or run.daf.has_scalar(key)
        ]

    def _annotations(self, daf: DafReader, part: str) -> dict[str, dict[str, Any]]:
        """Return the notes of ``obsm`` or ``varm`` whose axes the result has."""
        merged: dict[str, dict[str, Any]] = {}
        for member in self._members:
            for key, note in member.notes.get(part, {}).items():
                if not daf.has_axis(note["axis"]):
                    continue
                if key not in merged:
                    labels, length = note.get("frame"), daf.axis_length(note["axis"])
                    is_other = isinstance(labels, list) and len(labels) != length
                    merged[key] = _without(note, *_FRAME) if is_other else dict(note)
                elif merged[key] != note:
                    merged[key] = {k: v for k, v in merged[key].items() if note.get(k) == v}
                    merged[key]["axis"] = merged[key].get("axis", note["axis"])
        return merged


def _without(note: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in note.items() if key not in keys}


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
    names = {key: given[0][key] for key in ("column",) if key in given[0]}
    if all(rule.get("kind") == "categorical" for rule in given):
        return {**names, **_categorical(given), **extra}
    plain = [{k: v for k, v in r.items() if k not in _NOT_COMPARED} for r in given]
    kinds = [{k: v for k, v in r.items() if k not in ("column", "vector")} for r in plain]
    if all(kind.get("kind") == "nullable" and "Int" in kind["dtype"] for kind in kinds):
        dtypes = [kind["dtype"].lower() for kind in kinds]
        widest = StorageType.from_numpy(np.result_type(*dtypes))
        if widest is not None and widest.is_integer:  # not of Int64 beside UInt64
            kinds = [{**kind, "dtype": widest.value} for kind in kinds]
    has_missing = any(rule.get("missing") or "is_missing" in rule for rule in given)
    if any(kind != kinds[0] for kind in kinds):
        return {**names, **({"kind": "text", "missing": True} if has_missing else {}), **extra}
    missing = {"missing": True} if has_missing or extra else {}
    return {**names, **kinds[0], **missing, **extra}


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
