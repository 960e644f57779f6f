"""The part of a reader that is about matrices that are kept in memory with both of their axes."""

from __future__ import annotations

from typing import Any
from weakref import ref

from daf_storage.data import _layout as layout
from daf_storage.data._conversions import arrow_strings, positions_among
from daf_storage.data._known_matrix import MOST_POSITIONS, KnownMatrix
from daf_storage.data._vector_reader import VectorReader
from daf_storage.trees import Tree


class KnownReader(VectorReader):
    """A data set that is open: what is confirmed of it by a look; see `DafReader`."""

    def known_matrix(self, rows_axis: str, columns_axis: str, name: str) -> KnownMatrix | None:
        """Return a matrix in this orientation with its axes, if all are kept in memory.

        They may have changed since: before anything is made of them, `KnownMatrix.is_current` has
        to say so.  None says nothing: `find_matrix` does.
        """
        self._check_open()
        key = (rows_axis, columns_axis, name)
        kept = self._known.get(key)
        known = None if kept is None else kept()
        if known is None:
            known = _put_together(self._tree, *key)
            if known is None:
                return None
            self._known[key] = ref(known)
        return known

    def known_position(self, known: KnownMatrix, entry: str) -> int | None:
        """Return where a name is on the columns axis of a known matrix; None if it is not there."""
        position = known.positions.get(entry)
        if position is None:
            position = self._find_position(known, entry)
            if position is None:
                return None
            if len(known.positions) >= MOST_POSITIONS:
                known.positions.clear()
            known.positions[entry] = position
        return position

    def _find_position(self, known: KnownMatrix, entry: str) -> int | None:
        axis, (_, identity) = known.stored.info.columns_axis, known.states[1]
        entries = self.known_unique_entries(axis, identity)
        if entries is not None:
            found = int(positions_among(arrow_strings([entry]).cast(entries.type), entries)[0])
            return None if found < 0 else found
        found = int(self.axis_indices(axis, [entry], allow_empty=True, allow_missing=True)[0])
        return found if found >= 0 and known.is_current() else None  # or of another axis by now


def _put_together(tree: Tree, rows_axis: str, columns_axis: str, name: str) -> KnownMatrix | None:
    """Return a matrix with its axes if all of them are kept; they may have changed since.

    It goes with the view of the matrix.
    """
    kept_node: Any = getattr(tree, "kept_node", None)
    if kept_node is None:
        return None
    path = layout.matrix_path(rows_axis, columns_axis, name)
    paths = (layout.axis_path(rows_axis), layout.axis_path(columns_axis), path)
    rows, columns, matrix = (kept_node(each) for each in paths)
    if rows is None or columns is None or matrix is None:
        return None
    views = [node.kept for node in (rows, columns)]
    arrays = [view.derived.get("entries") for view in views]
    if None in arrays:
        return None
    shape = tuple(array.info.shape[0] for array in arrays)
    key = (f"{tree.location}: {path}", (rows_axis, columns_axis), shape)
    stored = matrix.kept.derived.get(key)
    if stored is None:
        return None
    states = ((shape[0], rows.identity), (shape[1], columns.identity))
    positions = views[1].derived.setdefault("positions", {})
    known = KnownMatrix(stored, states, views, matrix.kept, positions)
    matrix.kept.derived["known"] = known
    return known
