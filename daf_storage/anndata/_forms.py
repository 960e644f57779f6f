"""Files that are presented as an AnnData: how each is recognised, and its parts.

Cell Ranger writes a matrix of features by barcodes, compressed by barcode: version 3 into the group
``matrix``, with a group ``features``; versions 1 and 2 into a group for each genome.
"""

from __future__ import annotations

import posixpath
from typing import Final

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._parts import Parts, StoredFrame, anndata_parts, is_anndata
from daf_storage.anndata._stored import MatrixHeader, Place
from daf_storage.trees import Hdf5Tree, Tree

_MATRIX: Final = frozenset({"barcodes", "data", "indices", "indptr", "shape"})
_OF_MUDATA: Final = ("mod", "obsmap", "varmap")
_NAMES: Final = {
    "name": "gene_symbols",
    "gene_names": "gene_symbols",
    "feature_type": "feature_types",
}
"""What lists of features are called here, as scanpy calls them; others keep their names."""


def parts_of(tree: Tree) -> Parts:
    """Return the parts of the AnnData that a tree is, by metadata.

    Raises
    ------
    FormatError
        It is damaged, or is none.
    """
    if is_mudata(tree):
        return _global_parts(tree)
    return cell_ranger_parts(tree) if is_cell_ranger(tree) else anndata_parts(tree)


def is_mudata(tree: Tree) -> bool:
    """Return whether a tree holds a MuData, by its root and the group of modalities."""
    root = tree.node("")
    if root is None or root.kind != "group" or elements.encoding_of(root).lower() != "mudata":
        return False
    return tree.kind("mod") == "group"


def modalities_of(tree: Tree) -> list[str]:
    """Return the names of the modalities of a MuData, in their order."""
    names = list(tree.children("mod"))
    node = tree.node("mod")
    order = [] if node is None else elements.names_of(node.attribute("mod-order"))
    return [name for name in order if name in names] or names


def _global_parts(tree: Tree) -> Parts:
    """Return what a MuData has beside its modalities; masks of these are not among it."""
    parts, modalities = anndata_parts(tree), set(modalities_of(tree))
    for places in (parts.obsm, parts.varm):
        for name in modalities & places.keys():
            del places[name]
    parts.unknown = tuple(name for name in parts.unknown if name not in _OF_MUDATA)
    return parts


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
        obs=StoredFrame(tree, group, barcodes, _lists(tree, group, shape[1], others)),
        var=StoredFrame(tree, features, index, of_features),
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
