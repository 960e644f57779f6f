"""Files of others that are presented as data sets, in one table.

A *form* is recognised by the names of groups and attributes, and presented as the tree of a data
set.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from daf_storage import errors
from daf_storage.anndata._forms import is_cell_ranger, is_mudata
from daf_storage.anndata._mudata import MuDataTree
from daf_storage.anndata._parts import is_anndata
from daf_storage.anndata._tree import AnnDataTree
from daf_storage.trees import Tree, ZarrTree

_ELEMENTS: Final = ("images", "labels", "points", "shapes")
"""What a SpatialData has beside tables."""
_TABLES: Final = ("tables", "table")


@dataclass(frozen=True, slots=True)
class ForeignForm:
    """A form of files that is presented as a data set."""

    what: str
    """What messages call it."""
    recognises: Callable[[Tree], bool]
    """Returns whether a tree is of this form, by the names of its groups alone."""
    present: Callable[..., Tree]
    """Returns the tree of the data set; the options are those of `AnnDataTree`."""


def form_of(tree: Tree) -> ForeignForm | None:
    """Return the form of a tree; None if it has none of these."""
    return next((form for form in FORMS if form.recognises(tree)), None)


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


def _mudata_tree(tree: Tree, **options: Any) -> Tree:
    return MuDataTree(tree, obs_is=options.get("obs_is"), var_is=options.get("var_is"))


FORMS: Final = (
    ForeignForm("AnnData, which is a group with obs and var", is_anndata, AnnDataTree),
    ForeignForm("matrix of Cell Ranger", is_cell_ranger, AnnDataTree),
    ForeignForm("MuData", is_mudata, _mudata_tree),
    ForeignForm("SpatialData", _is_spatial, _spatial_tree),
)
"""All forms; another one is an entry."""
