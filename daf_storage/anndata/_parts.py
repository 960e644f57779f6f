"""Where the parts of an AnnData lie in a file.

Of a file from before AnnData 0.7, anndata itself reads all but the large matrices.
"""

from __future__ import annotations

import io
import posixpath
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from daf_storage import errors
from daf_storage.anndata import _elements as elements
from daf_storage.anndata._elements import Place
from daf_storage.anndata._frames import Frame, MemoryFrame, StoredFrame, stored_frame
from daf_storage.base import optional_import
from daf_storage.trees import Hdf5Tree, Node, Tree

_KNOWN: Final = frozenset(
    {"X", "layers", "obs", "var", "obsm", "varm", "obsp", "varp", "uns", "raw"}
    | {"raw.X", "raw.var", "raw.varm"}
)
_LARGE: Final = frozenset({"X", "layers", "raw.X", "raw"})
_NEIGHBORS: Final = ("distances", "connectivities")
GROUPS: Final = (
    *("", "obs", "var", "layers", "obsm", "varm", "obsp", "varp", "uns"),
    *("raw", "raw/var", "raw/varm"),
)
"""The groups whose children decide what properties there are."""

Places = dict[str, Place]


@dataclass(slots=True)
class Parts:
    """The parts of an AnnData: where each lies in a file, or what it is."""

    obs: Frame
    var: Frame
    main: Place | None
    layers: Places = field(default_factory=dict)
    obsm: Places = field(default_factory=dict)
    varm: Places = field(default_factory=dict)
    obsp: Places = field(default_factory=dict)
    varp: Places = field(default_factory=dict)
    uns: Places = field(default_factory=dict)
    raw_var: Frame | None = None
    raw_main: Place | None = None
    raw_varm: Places = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    """Groups and arrays that AnnData does not know."""
    damaged: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with the groups that cannot be read."""


def is_anndata(tree: Tree) -> bool:
    """Return whether a tree holds an AnnData; by its root alone."""
    root = tree.node("")
    if root is None or root.kind != "group":
        return False
    encoding = elements.encoding_of(root)
    if encoding:  # a MuData has obs and var too
        return encoding == "anndata"
    return all(tree.kind(part) is not None for part in ("obs", "var"))


def anndata_parts(tree: Tree) -> Parts:
    """Return the parts of an AnnData, by metadata.

    Raises
    ------
    FormatError
        Its obs or var cannot be read.
    """
    children = tree.children("")
    if any(_is_old_frame(tree, part) for part in ("obs", "var")) or "raw.X" in children:
        return _old_parts(tree, children)
    damaged: dict[str, str] = {}
    raw_var = _raw_var(tree, damaged)
    parts = Parts(
        obs=stored_frame(tree, "obs"),
        var=stored_frame(tree, "var"),
        main=_main(tree, "X"),
        layers=_places(tree, "layers", damaged),
        obsm=_places(tree, "obsm", damaged),
        varm=_places(tree, "varm", damaged),
        obsp=_places(tree, "obsp", damaged),
        varp=_places(tree, "varp", damaged),
        uns=_places(tree, "uns", damaged),
        raw_var=raw_var,
        raw_main=_main(tree, "raw/X") if raw_var is not None else None,
        raw_varm=_places(tree, "raw/varm", damaged) if raw_var is not None else {},
        unknown=tuple(sorted(set(children) - _KNOWN)),
        damaged=damaged,
    )
    _add_neighbors(tree, parts)
    return parts


def parts_of_object(adata: Any, tree: Tree) -> Parts:
    """Return the parts of an AnnData in memory; of one that is backed, ``X`` lies in its file."""
    raw = adata.raw

    def main(path: str, owner: Any) -> Place | None:
        if isinstance(tree, Hdf5Tree) and tree.kind(path) is not None:
            return _main(tree, path)
        return None if owner.X is None else Place("", owner.X)

    return Parts(
        obs=MemoryFrame(adata.obs, "", part="obs"),
        var=MemoryFrame(adata.var, "", part="var"),
        main=main("X", adata),
        layers=_values(adata.layers),
        obsm=_values(adata.obsm),
        varm=_values(adata.varm),
        obsp=_values(adata.obsp),
        varp=_values(adata.varp),
        uns=_values(adata.uns),
        raw_var=None if raw is None else MemoryFrame(raw.var, "", part="raw.var"),
        raw_main=None if raw is None else main("raw/X", raw),
        raw_varm={} if raw is None else _values(raw.varm),
    )


def _is_old_frame(tree: Tree, path: str) -> bool:
    """Return whether a frame is one array of records, or a group that does not say what it is."""
    node = tree.node(path)
    if node is None:
        raise errors.CorruptDataError(
            f"{tree.location}: this AnnData has no {path}; is it complete?"
        )
    if node.kind == "array":
        _check_readable(node)
    return node.kind == "array" or node.attribute("column-order") is None


def _check_readable(node: Node) -> None:
    """Raise if an array is one because its metadata cannot be read; Daf need not have its type."""
    with suppress(errors.UnsupportedDataError):
        node.array()


def _raw_var(tree: Tree, damaged: dict[str, str]) -> StoredFrame | None:
    if "var" not in _places(tree, "raw", damaged):
        return None
    try:
        return stored_frame(tree, "raw/var")
    except errors.CorruptDataError as error:
        damaged["raw"] = str(error)
        return None


def _main(tree: Tree, path: str) -> Place | None:
    """Return the place of a matrix, also of a damaged one: whoever uses it gets the error."""
    try:
        node = tree.node(path)
        if node is None:
            return Place(path) if tree.children(path) else None
        return None if elements.encoding_of(node) == "null" else Place(path)
    except errors.FormatError:
        return Place(path)


def _places(tree: Tree, path: str, damaged: dict[str, str]) -> Places:
    """Return what is in a group; if it cannot be listed, note why."""
    try:
        node = tree.node(path)
        if node is not None and node.kind == "array":
            _check_readable(node)
            return {}
        children = tree.children(path)
    except errors.CorruptDataError as error:
        damaged[path] = str(error)
        return {}
    if node is None and children:
        damaged[path] = (
            f"{tree.location}: {path}: its metadata are missing, and what it has is there"
        )
        return {}
    return {key: Place(posixpath.join(path, key)) for key in children}


def _add_neighbors(tree: Tree, parts: Parts) -> None:
    """Take the matrices of neighbours from where AnnData 0.7 kept them."""
    if "neighbors" not in parts.uns or tree.kind("uns/neighbors") != "group":
        return
    others = _places(tree, "uns/neighbors", {})
    for key in others.keys() & set(_NEIGHBORS):
        node = tree.node(others[key].path)
        if node is not None and elements.encoding_of(node).startswith(("csr", "csc")):
            parts.obsp.setdefault(key, others.pop(key))
    if len(others) < len(tree.children("uns/neighbors")):
        value = {key: place.read(tree) for key, place in others.items()}
        parts.uns["neighbors"] = Place("uns/neighbors", value)


def _old_parts(tree: Tree, children: Iterable[str]) -> Parts:
    """Return the parts of a file of which anndata has to read all but the large matrices."""
    parts = parts_of_object(_read_small(tree, set(children) & (_KNOWN - _LARGE)), tree)
    parts.main, parts.layers = _main(tree, "X"), _places(tree, "layers", {})
    if "raw.X" in children:
        raw = _read_small(tree, ["obs"], renamed={"raw.var": "var", "raw.varm": "varm"})
        parts.raw_var = MemoryFrame(raw.var, "raw.var", part="raw.var")
        parts.raw_main = _main(tree, "raw.X")
        parts.raw_varm = _values(raw.varm)
    elif tree.kind("raw/var") is not None and not _is_old_frame(tree, "raw/var"):
        parts.raw_var = stored_frame(tree, "raw/var")
        parts.raw_main = _main(tree, "raw/X")
        parts.raw_varm = _places(tree, "raw/varm", {})
    return parts


def _values(values: Mapping[str, Any]) -> Places:
    """Return places of values that were read; anything in the file may change them."""
    return {key: Place("", value) for key, value in values.items()}


def _read_small(tree: Tree, names: Iterable[str], renamed: Mapping[str, str] | None = None) -> Any:
    """Let anndata read a file that has only some parts of this one."""
    if not isinstance(tree, Hdf5Tree):
        raise errors.UnsupportedDataError(
            f"{tree.location}: a Zarr directory from before AnnData 0.7 is not read in place; "
            "read it with anndata.read_zarr, and pass the result to from_anndata"
        )
    h5py = optional_import("h5py", extra="anndata")
    anndata = optional_import("anndata", extra="anndata")
    image = io.BytesIO()
    with h5py.File(image, "w") as target:
        for name, new_name in {**{n: n for n in names}, **(renamed or {})}.items():
            if tree.kind(name) is not None:
                with elements.element(tree, name) as stored:
                    stored.file.copy(stored, target, new_name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return anndata.read_h5ad(image)
    except Exception as error:  # anndata raises many kinds for files that it cannot read
        reason = " ".join(str(error).split())
        raise errors.FormatError(
            f"{tree.location}: anndata cannot read this file ({reason}); is it complete?"
        ) from error
