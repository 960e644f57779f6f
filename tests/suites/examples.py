"""Data sets to test with and to compare."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from daf_storage import DafReader, DafWriter, open_daf
from daf_storage.data import ordered
from daf_storage.trees import StoredArray, Tree

CELLS = ["TATA", "GATA", "CATA"]
GENES = ["RSPO3", "FOXA1", "WNT6", "TNNI1"]
_T = TypeVar("_T")
UMIS = np.array([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1]], dtype=np.int64)


def fill(daf: DafWriter) -> DafWriter:
    """Add the axes, vectors, matrices and scalars that most tests look at."""
    daf.add_axis("cell", CELLS)
    daf.add_axis("gene", GENES)
    daf.set_scalar("organism", "human")
    daf.set_scalar("n", 7)
    daf.set_vector("cell", "age", np.array([30, 60, 90], dtype=np.uint8))
    daf.set_vector("cell", "type", ["Bcell", "TCell", "TCell"])
    daf.set_vector("gene", "marker", [True, False, True, False])
    daf.set_vector("gene", "flag", sp.csr_array(np.array([[False, True, False, True]])))
    daf.set_matrix("cell", "gene", "UMIs", UMIS)
    daf.set_matrix("cell", "gene", "sparse", sp.csc_array(UMIS))
    return daf


BY_ROWS = {"daf_convention": "row-major"}
"""The attributes of a matrix that is stored by rows."""


def write_stored(
    daf: DafWriter, path: str, arrays: dict[str, Any], attributes: dict[str, str] | None = None
) -> None:
    """Store the arrays of a property as they are, by their names below it."""
    with daf.writable_tree.transaction() as changes:
        changes.annotate(path, attributes or {})
        if "" not in arrays:
            changes.create_group(path)
        for name, values in arrays.items():
            changes.write_array(f"{path}/{name}" if name else path, values)
        changes.publish(path, replace=False)


def fill_served(daf: DafWriter) -> DafWriter:
    """Add what the other implementations' tests serve and convert: one of every encoding."""
    daf.set_scalar("name", "served!")
    daf.set_scalar("depth", np.int32(1))
    for kind in ("b", "i1", "u2", "f4", "f8"):
        daf.set_scalar(f"scalar {kind}", np.array([1]).astype(kind)[0])
    daf.add_axis("cell", CELLS)
    daf.add_axis("gene", GENES)
    daf.add_axis("batch", [f"B{i:02}" for i in range(1, 21)])
    daf.add_axis("none", [])
    daf.set_vector("cell", "type", ["Bcell", "TCell", "TCell"])
    daf.set_vector("cell", "score", np.array([1, 2, np.nan], dtype=np.float32))
    daf.set_vector("gene", "marker", [True, False, True, False])
    daf.set_vector("gene", "counts", sp.csr_array(np.array([[10, 0, 20, 0]], dtype=np.int32)))
    daf.set_vector("gene", "flag", sp.csr_array(np.array([[False, True, False, True]])))
    labels = [""] * 20
    labels[1] = "foo"
    daf.set_vector("batch", "label", labels)
    daf.set_vector("none", "nothing", np.zeros(0))
    daf.set_matrix("cell", "gene", "UMIs", UMIS)
    daf.set_matrix("cell", "gene", "sparse_UMIs", sp.csc_array(UMIS.astype(np.int32)))
    daf.set_matrix("cell", "gene", "mask", UMIS % 2 == 1)
    daf.set_matrix("cell", "gene", "sparse_mask", sp.csc_array(UMIS % 2 == 1))
    daf.set_matrix("cell", "gene", "one", UMIS.astype(np.float64), relayout=False)
    daf.set_matrix("cell", "gene", "labels", np.array(list("abcdefghijkl")).reshape(3, 4))
    sparse_labels = np.full((20, 3), "", dtype=object)
    sparse_labels[2, 1] = "bar"
    daf.set_matrix("batch", "cell", "sparse_labels", sparse_labels)
    daf.set_matrix("cell", "cell", "square", np.arange(9).reshape(3, 3))
    daf.set_matrix("none", "cell", "empty", np.zeros((0, 3)))
    return daf


def filled(path: Path, content: Callable[[DafWriter], DafWriter] = fill, **how: Any) -> DafWriter:
    """Return what `fill` fills, in the form that the name of a new path says, open for changes."""

    def write(folder: Path) -> None:
        content(open_daf(folder / path.name, "w", **how)).close()

    copy_written((content, path.name, *how.items()), path.parent, write)
    return open_daf(path, "r+")


def copy_written(key: object, folder: Path, write: Callable[[Path], object]) -> None:
    """Copy into a folder what is written into one for a key, once: that takes ten times as long."""
    if key not in _WRITTEN:
        written = tempfile.TemporaryDirectory()
        write(Path(written.name))
        _WRITTEN[key] = written
    for found in Path(_WRITTEN[key].name).iterdir():
        copy = shutil.copytree if found.is_dir() else shutil.copy2
        copy(found, folder / found.name)


_WRITTEN: dict[object, tempfile.TemporaryDirectory[str]] = {}
"""What `copy_written` copies, until the process ends."""


def there(found: _T | None) -> _T:
    """Return what was looked for, which is there."""
    assert found is not None
    return found


def array_of(tree: Tree, path: str) -> StoredArray:
    """Return a stored array that is there."""
    return there(there(tree.node(path)).array())


def csc_parts(daf: DafReader, rows: str, columns: str, name: str) -> SimpleNamespace:
    """Return the stored arrays of a sparse matrix; ``nzval`` is None where all are true."""
    stored = ordered(daf.open_matrix(rows, columns, name)).arrays()
    parts = ("colptr", "rowval", "nzval")
    return SimpleNamespace(**{p: stored[p].read() if p in stored else None for p in parts})


def dense(values: Any) -> Any:
    """Return a matrix as plain numpy."""
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def contents(daf: DafReader, *, relayout: bool = False) -> dict[str, Any]:
    """Return all that a data set holds as plain Python, to compare two of them.

    Of matrices that is what is stored, or what can be read whatever the stored layouts are.
    """
    axes = sorted(daf.axes_set())

    def plain(values: Any) -> Any:
        """NaN is not equal to itself; its text is."""
        values = dense(values)
        return (
            np.where(np.isnan(values), "NaN", values.astype(object)).tolist()
            if values.dtype.kind == "f"
            else values.tolist()
        )

    return {
        "scalars": {name: daf.get_scalar(name) for name in daf.scalars_set()},
        "axes": {axis: daf.axis_entries(axis).tolist() for axis in axes},
        "vectors": {
            (axis, name): plain(daf.get_np_vector(axis, name))
            for axis in axes
            for name in daf.vectors_set(axis)
        },
        "matrices": {
            (rows, columns, name): plain(daf.get_np_matrix(rows, columns, name))
            for rows, columns in itertools.product(axes, axes)
            for name in daf.matrices_set(rows, columns, relayout=relayout)
        },
    }
