"""The one scalar that keeps what Daf has no place for, so that an AnnData comes back as it was."""

from __future__ import annotations

import json
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
