"""HDF5 files of Cell Ranger, presented as AnnDatas: `as_anndata` recognises both.

Their matrix is stored cell by cell, which is AnnData's CSR of cells and features; only the names of
groups and arrays differ.  So the tree of such a file is one whose paths lead to other places, and
everything that reads an AnnData in place reads it.

Rules: docs/reference/forms.md, "Cell Ranger".
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from daf_storage import errors
from daf_storage.anndata._parts import is_anndata
from daf_storage.trees import Hdf5Tree, Node, NodeKind, StoredArray, Tree

_MATRIX: Final = "matrix"
_PARTS: Final = frozenset({"barcodes", "data", "indices", "indptr", "shape"})
_NAMES: Final[Mapping[str, str]] = {
    "name": "gene_symbols",
    "feature_type": "feature_types",
}
"""What arrays of features are called here, as scanpy calls them; others keep their names."""
_FRAME: Final[Mapping[str, Any]] = {
    "encoding-type": "dataframe",
    "encoding-version": "0.1.0",  # in which byte strings are text
    "_index": "_index",
}


def as_anndata(tree: Tree) -> Tree | None:
    """Return a tree that holds an AnnData; None if this one holds neither that nor a like of it.

    Raises
    ------
    NotADafError
        It is a file of Cell Ranger with the matrices of several genomes; the message names them.
    CorruptDataError
        It is a file of Cell Ranger that is incomplete.
    """
    if is_anndata(tree):
        return tree
    if not isinstance(tree, Hdf5Tree) or tree.kind("") != "group":
        return None
    if _is_matrix(tree, "", "features") or _is_matrix(tree, "", "genes"):
        return CellRangerTree(tree, "")
    if _is_matrix(tree, _MATRIX, "features"):
        return CellRangerTree(tree, _MATRIX)
    genomes = [name for name in tree.children("") if _is_matrix(tree, name, "genes")]
    if len(genomes) > 1:
        one = f"{tree.location}#/{genomes[0]}"
        raise errors.NotADafError(
            f"{tree.location}: a file of Cell Ranger with the matrices of {len(genomes)} genomes, "
            f"{', '.join(genomes)}; open one of them: {one}"
        )
    return CellRangerTree(tree, genomes[0]) if genomes else None


def _is_matrix(tree: Hdf5Tree, group: str, features: str) -> bool:
    prefix = f"{group}/" if group else ""
    return (
        tree.kind(group) == "group" and {*_PARTS, features} <= tree.children(group).keys()
    ) and tree.kind(f"{prefix}barcodes") == "array"


@dataclass(frozen=True, slots=True)
class _Described:
    """A group that says of itself what one of AnnData says."""

    stored: Node
    attributes: Mapping[str, Any]

    @property
    def kind(self) -> NodeKind:
        """It is a group."""
        return self.stored.kind

    @property
    def identity(self) -> Hashable:
        """What a cache goes by."""
        return self.stored.identity

    def is_same(self, other: object) -> bool:
        """Return whether another node is the very same stored one."""
        return isinstance(other, _Described) and self.stored.is_same(other.stored)

    def array(self, name: str = "") -> StoredArray | None:
        """Return the array of that name below this group."""
        return self.stored.array(name)

    def attribute(self, name: str) -> Any:
        """Return an attribute that AnnData has; those of the file do not count."""
        return self.attributes.get(name)


class CellRangerTree(Hdf5Tree):
    """A matrix of Cell Ranger as the file of an AnnData; see `as_anndata`.

    Parameters
    ----------
    tree
        The tree of the file.
    group
        The group of the matrix.
    """

    def __init__(self, tree: Hdf5Tree, group: str) -> None:
        super().__init__(tree._shared, tree.path_in_file(group))  # noqa: SLF001 - of the same class
        self.location = tree.location
        n_features, n_barcodes = self._shape()
        of_barcodes = self._lists("", n_barcodes, {*_PARTS, "genes", "gene_names"})
        if self.kind("features") == "group":
            features, entries = "features", "features/id"
            columns = self._lists(features, n_features, {"id", "_all_tag_keys"})
        else:
            features, entries, columns = "", "genes", {"gene_symbols": "gene_names"}
        self._places = {
            "X": "",
            **{f"X/{name}": name for name in ("data", "indices", "indptr")},
            "obs": "",
            "obs/_index": "barcodes",
            **{f"obs/{name}": path for name, path in of_barcodes.items()},
            "var": features,
            "var/_index": entries,
            **{f"var/{name}": path for name, path in columns.items()},
        }
        self._attributes: dict[str, Mapping[str, Any]] = {
            "": {"encoding-type": "anndata"},
            "X": {"encoding-type": "csr_matrix", "shape": (n_barcodes, n_features)},
            "obs": {**_FRAME, "column-order": list(of_barcodes)},
            "var": {**_FRAME, "column-order": list(columns)},
        }

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``."""
        place = self._place(path)
        return None if place is None else super().kind(place)

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return what is directly below ``path``."""
        if not hasattr(self, "_places"):
            return super().children(path)
        start = f"{path}/" if path else ""
        below = [each for each in self._places if each.startswith(start)]
        names = dict.fromkeys(each[len(start) :].split("/")[0] for each in below)
        kinds = {name: self.kind(f"{start}{name}") for name in names}
        return {name: kind for name, kind in kinds.items() if kind is not None}

    def node(self, path: str) -> Any:
        """Return the group or dataset at ``path``; groups say what those of AnnData say."""
        place = self._place(path)
        found = None if place is None else super().node(place)
        if found is None or path not in self._attributes:
            return found
        return _Described(found, self._attributes[path])

    def element(self, path: str) -> Any:
        """Hand out a group or a dataset as h5py has it, for the length of a block."""
        place = self._place(path)
        return super().element(path if place is None else place)

    def _place(self, path: str) -> str | None:
        """Return where in the group of the matrix something is; None if it is not shown."""
        if not hasattr(self, "_places"):
            return path
        return path if not path else self._places.get(path)

    def _shape(self) -> tuple[int, int]:
        """Return the numbers of features and barcodes, if the file has as many of them.

        Raises
        ------
        CorruptDataError
            It has others.
        """
        with super().element("shape") as stored:
            shape = np.asarray(stored[()]).reshape(-1).tolist()
        if len(shape) != 2 or self._length("barcodes") != shape[1]:
            raise errors.CorruptDataError(
                f"{self.location}: the matrix of Cell Ranger has the shape {shape}, and "
                f"{self._length('barcodes')} barcodes; is the file complete?"
            )
        return int(shape[0]), int(shape[1])

    def _length(self, path: str) -> int | None:
        """Return the length of a list; None for what is none."""
        with super().element(path) as stored:
            shape: Any = getattr(stored, "shape", ())
            return int(shape[0]) if len(shape) == 1 else None

    def _lists(self, group: str, length: int, left_out: Collection[str]) -> dict[str, str]:
        """Return where lists of a length are in a group, by the names that they have here."""
        found = {}
        for name, kind in super().children(group).items():
            path = f"{group}/{name}" if group else name
            if kind == "array" and name not in left_out and self._length(path) == length:
                found[_NAMES.get(name, name)] = path
        return found
