"""Files of others that are presented as data sets, in one table.

A *form* is recognised by the names of groups and attributes, and presented as the tree of a data
set.

Cell Ranger writes a matrix of features by barcodes, compressed by barcode: version 3 into the group
``matrix``, with a group ``features``; versions 1 and 2 into a group for each genome.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._contents import Parts, is_anndata
from daf_storage.anndata._frames import StoredFrame
from daf_storage.anndata._mudata import MuDataTree, is_mudata
from daf_storage.anndata._stored import MatrixHeader, Place
from daf_storage.anndata._tree import AnnDataTree
from daf_storage.trees import Hdf5Tree, Tree, ZarrTree

_MATRIX: Final = frozenset({"barcodes", "data", "indices", "indptr", "shape"})
_ELEMENTS: Final = ("images", "labels", "points", "shapes")
"""What a SpatialData has beside tables."""
_TABLES: Final = ("tables", "table")
_NAMES: Final = {
    "name": "gene_symbols",
    "gene_names": "gene_symbols",
    "feature_type": "feature_types",
}
"""What lists of features are called here, as scanpy calls them; others keep their names."""


def is_cell_ranger(tree: Tree) -> bool:
    """Return whether a file has a matrix of Cell Ranger, by the names of its groups."""
    return not is_anndata(tree) and bool(_matrices_of_cell_ranger(tree))


def _matrices_of_cell_ranger(tree: Tree) -> list[str]:
    """Return the groups that are matrices of Cell Ranger; an empty name for the root itself."""
    if not isinstance(tree, Hdf5Tree) or tree.kind("") != "group":
        return []

    def is_matrix(group: str) -> bool:
        names = tree.children(group).keys()
        return names >= _MATRIX and bool({"features", "genes"} & names)

    children = tree.children("")
    groups = [name for name, kind in children.items() if kind == "group"]
    return [""] if is_matrix("") else [name for name in groups if is_matrix(name)]


def cell_ranger_parts(tree: Tree) -> Parts:
    """Return the parts of the AnnData that a matrix of Cell Ranger is."""
    groups = _matrices_of_cell_ranger(tree)
    if len(groups) > 1:
        raise errors.NotADafError(
            f"{tree.location}: a file of Cell Ranger with the matrices of {len(groups)} genomes, "
            f"{', '.join(groups)}; open one of them: {tree.location}#/{groups[0]}"
        )
    [group] = groups
    is_new = "features" in tree.children(group)
    features = posixpath.join(group, "features") if is_new else group
    index = posixpath.join(features, "id" if is_new else "genes")
    barcodes = posixpath.join(group, "barcodes")
    shape = elements.array_at(tree, posixpath.join(group, "shape")).read().reshape(-1).tolist()
    n_barcodes = _length(tree, barcodes)
    if len(shape) != 2 or shape[1] != n_barcodes:
        raise errors.CorruptDataError(
            f"{tree.location}: the matrix of Cell Ranger has the shape {shape}, and {n_barcodes} "
            "barcodes; is the file complete?"
        )
    others = {*_MATRIX, "id", "genes", "gene_names", "_all_tag_keys"}
    symbols = [] if is_new else [("gene_symbols", posixpath.join(group, "gene_names"))]
    of_features = _lists(tree, features, shape[0], others) if is_new else symbols
    _, dtype = elements.shape_and_dtype(tree, posixpath.join(group, "data"))
    header = MatrixHeader("csr", (shape[1], shape[0]), dtype, elements.dtype_problem(dtype))
    return Parts(
        obs=StoredFrame(tree, group, barcodes, _lists(tree, group, shape[1], others), part="obs"),
        var=StoredFrame(tree, features, index, of_features, part="var"),
        main=Place(group, given_header=header),
    )


def _lists(tree: Tree, group: str, length: int, others: set[str]) -> list[tuple[str, str]]:
    """Return where lists of a length are in a group, by the names that they have here."""
    names = [name for name, kind in tree.children(group).items() if kind == "array"]
    paths = {name: posixpath.join(group, name) for name in names if name not in others}
    return [
        (_NAMES.get(name, name), path)
        for name, path in paths.items()
        if _length(tree, path) == length
    ]


def _length(tree: Tree, path: str) -> int | None:
    """Return the length of a list; None for what is none."""
    shape, _ = elements.shape_and_dtype(tree, path)
    return shape[0] if len(shape) == 1 else None


@dataclass(frozen=True, slots=True)
class ForeignForm:
    """A form of files that is presented as a data set."""

    what: str
    """What messages call it."""
    recognises: Callable[[Tree], bool]
    """Returns whether a tree is of this form, by the names of its groups alone."""
    present: Callable[..., Tree]
    """Returns the tree of the data set; the options are those of `AnnDataTree`."""


def _is_spatial(tree: Tree) -> bool:
    root = tree.node("")
    if not isinstance(tree, ZarrTree) or root is None or root.kind != "group":
        return False
    return root.attribute("spatialdata_attrs") is not None


def _spatial_tree(tree: Tree, **options: Any) -> Tree:
    """Return the one table of a SpatialData; of several, say what they are called."""
    assert isinstance(tree, ZarrTree)  # noqa: S101 - no other one is recognised
    groups = [group for group in _TABLES if tree.kind(group) == "group"]
    tables = [posixpath.join(group, name) for group in groups for name in tree.children(group)]
    elements = {
        each: errors.shown_names(tree.children(each), none="")
        for each in _ELEMENTS
        if tree.kind(each) == "group" and tree.children(each)
    }
    if len(tables) == 1:
        remarks = [(each, f"not read: {listed}") for each, listed in elements.items()]
        return AnnDataTree(tree.below(tables[0]), **options, remarks=remarks)
    rest = "; ".join(f"{each} ({listed})" for each, listed in elements.items())
    paths = " or ".join(f"{tree.location}#/{table}" for table in tables)
    raise errors.NotADafError(
        f"{tree.location}: a SpatialData with {len(tables) or 'no'} tables"
        + (f"; open one of them: {paths}" if tables else "")
        + (f"; what else it has is not read: {rest}" if rest else "")
    )


FORMS: Final = (
    ForeignForm("AnnData, which is a group with obs and var", is_anndata, AnnDataTree),
    ForeignForm(
        "matrix of Cell Ranger", is_cell_ranger, partial(AnnDataTree, read=cell_ranger_parts)
    ),
    ForeignForm("MuData", is_mudata, MuDataTree),
    ForeignForm("SpatialData", _is_spatial, _spatial_tree),
)
"""All forms; another one is an entry."""
