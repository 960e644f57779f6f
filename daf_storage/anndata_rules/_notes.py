"""The one scalar that keeps what Daf has no place for, so that an AnnData comes back as it was."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from daf_storage.data import DafReader

SCALAR: Final = "anndata_notes"
"""Name of the scalar, a JSON object; deleting it loses nothing but the details of an export."""

AXIS_KEYS: Final = {"obs_is": "obs", "var_is": "var", "X_is": "X"}
"""Scalars (and ``uns`` keys) that name the axes and the main matrix, and their defaults."""

Notes = dict[str, Any]


def read_notes(daf: DafReader) -> Notes:
    """Return the notes of an import; empty where there was none."""
    text = daf.get_scalar(SCALAR, default=None)
    try:
        notes = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) else {}


def axis_notes(notes: Notes, axis: str) -> dict[str, Any]:
    """Return the notes of one axis: its columns in order, their rules, and its index name."""
    of_axis: dict[str, Any] = notes.get("axes", {}).get(axis, {})
    return of_axis


def column_rules(daf: DafReader, axis: str, names: Iterable[str] | None = None) -> list[Any]:
    """Return the rules of the columns of an axis, in no order.

    A tree that makes its notes of a file has a method ``column_rules`` to make those of some
    vectors alone.

    Parameters
    ----------
    names
        The vectors whose rules are needed, if not all of them are.
    """
    rules_of = getattr(daf.tree, "column_rules", None)
    rules = None if rules_of is None else rules_of(axis, names)
    if rules is None:
        rules = axis_notes(read_notes(daf), axis).get("columns", [])
    return rules if isinstance(rules, list) else []
