"""The forms of files that are presented as an AnnData: how each is recognised, and its parts.

Cell Ranger writes a matrix of features by barcodes, compressed by barcode: version 3 into the group
``matrix``, with a group ``features``; versions 1 and 2 into a group for each genome.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from daf_storage import errors
from daf_storage.anndata import _elements as elements
from daf_storage.anndata._elements import MatrixHeader, Place
from daf_storage.anndata._frames import StoredFrame
from daf_storage.anndata._parts import Parts, anndata_parts, is_anndata
from daf_storage.trees import Hdf5Tree, Tree

_MATRIX: Final = frozenset({"barcodes", "data", "indices", "indptr", "shape"})
_NAMES: Final = {
    "name": "gene_symbols",
    "gene_names": "gene_symbols",
    "feature_type": "feature_types",
}
"""What lists of features are called here, as scanpy calls them; others keep their names."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form of files."""

    what: str
    """What messages call it."""
    recognises: Callable[[Tree], bool]
    """Returns whether a tree is of this form, by the names of its groups alone."""
    parts: Callable[[Tree], Parts]
    """Returns the parts of the AnnData that it is, by metadata."""


def form_of(tree: Tree) -> Form | None:
    """Return the form of a tree; None if it has none of these."""
    return next((form for form in FORMS if form.recognises(tree)), None)


def parts_of(tree: Tree) -> Parts:
    """Return the parts of the AnnData that a tree is, by metadata.

    Raises
    ------
    FormatError
        It is of no known form, or is damaged.
    """
    form = form_of(tree)
    if form is None:
        raise errors.NotADafError(f"{tree.location}: this is {no_form()}")
    return form.parts(tree)


def no_form() -> str:
    """Return what messages say of something that has none of these forms."""
    return ", and ".join(f"no {form.what}" for form in FORMS)


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


def _cell_ranger_parts(tree: Tree) -> Parts:
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
        main=Place(group, known=header),
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


FORMS: Final = (
    Form("AnnData, which is a group with obs and var", is_anndata, anndata_parts),
    Form(
        "matrix of Cell Ranger",
        lambda tree: bool(_matrices_of_cell_ranger(tree)),
        _cell_ranger_parts,
    ),
)
"""All forms; another one is an entry."""
