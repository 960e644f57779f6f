"""The fate of each part of an AnnData: names, reports, and the notes that restore it.

The *notes* are one scalar, a JSON object, that has what Daf has no place for: the order of columns,
the rules that restore them, sparse formats.  Pure.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from daf_storage.base import name_problem
from daf_storage.data import DafReader, DafWriter
from daf_storage.errors import DafWarning, UnsupportedInputError

NOTES: Final = "anndata_notes"
"""Name of the scalar; deleting it loses nothing but the details of an export."""

AXIS_KEYS: Final = {"obs_is": "obs", "var_is": "var", "X_is": "X"}
"""Scalars (and ``uns`` keys) that name the axes and the main matrix, and their defaults."""

_MOST_CHARACTERS: Final = 120

Notes = dict[str, Any]


class AnnDataWarning(DafWarning):
    """A part of an AnnData was not carried over, or not as it was."""


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One part that differs."""

    kind: Literal["lost", "changed", "renamed", "kept"]
    """``lost``: not carried over at all.  ``changed``: carried over in another form.  ``renamed``:
    carried over as it is under another name, and back under its own.  ``kept``: Daf has no place
    for it; it lies beside the data in anndata's own encoding, and comes back on export."""
    what: str
    """Which part, such as ``obs['age']``."""
    message: str
    """Why, and what became of it."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}: {self.message}"


@dataclass(slots=True)
class Report:
    """What differs after an import or an export."""

    items: list[ReportItem] = field(default_factory=list)
    """In the order in which they were met."""

    def lost(self, what: str, message: str) -> None:
        """Note a part that was not carried over."""
        self.items.append(ReportItem("lost", what, message))

    def changed(self, what: str, message: str) -> None:
        """Note a part that was carried over in another form."""
        self.items.append(ReportItem("changed", what, message))

    def renamed(self, what: str, message: str) -> None:
        """Note a part that has another name now."""
        self.items.append(ReportItem("renamed", what, message))

    def kept(self, what: str, message: str) -> None:
        """Note a part that lies beside the data."""
        self.items.append(ReportItem("kept", what, message))

    def refuse_losses(self, source: str, *, what: str) -> None:
        """Raise if something is lost.

        Raises
        ------
        UnsupportedInputError
            It names what, and why.
        """
        lost = [f"{item.what} ({item.message})" for item in self.items if item.kind == "lost"]
        if lost:
            raise UnsupportedInputError(
                f"{source}: the {what} would lose {'; '.join(lost)}; nothing was written; do it "
                "without strict=True (on the command line: --strict) to leave that out"
            )

    def warn(self) -> None:
        """Issue a warning for each part that was lost or changed."""
        for item in self.items:
            if item.kind in {"lost", "changed"}:
                warnings.warn(f"{item.what}: {item.message}", AnnDataWarning, stacklevel=3)

    def __str__(self) -> str:
        return "\n".join(map(str, self.items))


def free_name(name: str, taken: Container[str]) -> str:
    """Return a name that every format can hold and that is not taken.

    >>> free_name("a/b", {"a_b"}), free_name("x", set()), free_name("..", set())
    ('a_b_', 'x', '_..')
    """
    if name_problem(name) is not None:
        name = name.replace("/", "_").replace("\0", "_")[:_MOST_CHARACTERS] or "_"
        if name_problem(name) is not None:
            name = f"_{name}"
    while name in taken:
        name = f"{name}_"
    return name


def part_label(part: str, key: str) -> str:
    """Return what messages call a part of an AnnData.

    >>> part_label("obsm", "X_pca"), part_label("X", "")
    ("obsm['X_pca']", 'X')
    """
    return f"{part}[{key!r}]" if key else part


def scalar_value(value: Any) -> Any:
    """Return a value of ``uns`` that Daf can hold as a scalar; None for anything else."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None
    if isinstance(value, np.str_):  # which is a str, too
        return str(value)
    if isinstance(value, bool | int | float | str):
        return value
    is_number = isinstance(value, np.generic) and value.dtype.kind in "biuf"
    return value if is_number and value.dtype != np.float16 else None


def read_notes(daf: DafReader) -> Notes:
    """Return the notes of an import; empty where there was none.

    A tree that is a part of a data set has its own.
    """
    own: Notes | None = getattr(daf.tree, "notes", None)
    if own is not None:
        return own
    text = daf.get_scalar(NOTES, default=None)
    try:
        notes = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) else {}


def axis_notes(notes: Notes, axis: str) -> dict[str, Any]:
    """Return the notes of one axis: its columns in order, their rules, and its index name."""
    of_axis: dict[str, Any] = notes.get("axes", {}).get(axis, {})
    return of_axis


def note_categories(
    daf: DafWriter, axis: str, categoricals: Mapping[str, tuple[list[str], bool]]
) -> None:
    """Note that vectors were categoricals, so that they are again in an AnnData.

    An archive, in which nothing can be replaced, keeps the notes that it has.

    Parameters
    ----------
    categoricals
        By vector, the categories in their order, and whether that has a meaning.
    """
    if daf.is_append_only and daf.has_scalar(NOTES):
        return
    notes = read_notes(daf)
    of_axis = notes.setdefault("axes", {}).setdefault(axis, {})
    others = [r for r in of_axis.get("columns", []) if r.get("vector") not in categoricals]
    own = [
        {"column": name, "vector": name, "kind": "categorical", "categories": c, "ordered": o}
        for name, (c, o) in categoricals.items()
    ]
    of_axis["columns"] = [*others, *own]
    daf.set_scalar(NOTES, json.dumps(notes, separators=(",", ":")), if_exists="replace")


def raw_axis_of(notes: Notes, var: str) -> str:
    """Return the axis of ``raw.var``, of a data set whose ``var`` has a name."""
    return str(notes.get("raw", {}).get("axis", f"{var}_raw"))


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
        notes = read_notes(daf)
        of_modalities = axis_notes({"axes": notes.get("mudata", {})}, "columns")
        lists = [axis_notes(notes, axis).get("columns"), of_modalities.get(axis)]
        rules = [rule for each in lists if isinstance(each, list) for rule in each]
    return rules if isinstance(rules, list) else []
