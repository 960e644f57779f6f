"""A MuData as the tree of a Daf data set: what is global, and each modality under its own names.

The rules: docs/reference/mudata.md.  The global part is presented as an AnnData without ``X`` is,
and each modality as the AnnData that it is, under names that begin with its own; all of them are a
chain, in which axes that are the same in several count once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._contents import Contents
from daf_storage.anndata._forms import is_mudata, modalities_of
from daf_storage.anndata._parts import is_anndata, stored_frame
from daf_storage.anndata._report import AXIS_KEYS, NOTES
from daf_storage.anndata._stored import Nodes, Property, array_property, node_at
from daf_storage.anndata._tree import AnnDataTree
from daf_storage.base import StorageType
from daf_storage.combined import ChainTree, ViewAxis, ViewTree
from daf_storage.data import Convention, convention_attributes, layout, required_array
from daf_storage.trees import Hdf5Tree, MemoryArray, NodeKind, StoredArray, Tree, ZarrTree

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")

_HIDDEN: Final = frozenset({*AXIS_KEYS, NOTES})
_MAPS: Final = {"obs": "obsmap", "var": "varmap"}


class MuDataTree(ChainTree):
    """A MuData, read in place; see `Tree`.

    Parameters
    ----------
    base
        The tree of an h5mu file, or of a Zarr store that mudata wrote.
    obs_is, var_is
        Names of the two global axes.
    """

    def __init__(self, base: Tree, *, obs_is: str | None = None, var_is: str | None = None) -> None:
        self.base = base
        """The tree of the file."""
        axes = {"obs": obs_is or "obs", "var": var_is or "var"}
        self._modalities = [_Modality(base, name, axes) for name in modalities_of(base)]
        extra = partial(_memberships, self._modalities)
        self._whole = AnnDataTree(base, obs_is=obs_is, var_is=var_is, extra=extra)
        super().__init__([self._whole, *(each.view for each in self._modalities)])

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return self.base.location

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; there is a group for axes of several parts."""
        top, *axes = path.split("/")
        is_group = len(axes) <= {layout.VECTORS: 1, layout.MATRICES: 2}.get(top, -1)
        if is_group and all(super(MuDataTree, self).kind(layout.axis_path(a)) for a in axes):
            return "group"
        return super().kind(path)

    def remarks(self) -> list[tuple[str, str]]:
        """Return what differs from the MuData, for summaries."""
        found = self._whole.remarks()
        for each in self._modalities:
            found += [
                (f"{each.name}: {what}", why.replace("only in exports", "not shown"))
                for what, why in each.tree.remarks()
            ]
        return found

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are damaged, so that nothing of them is shown."""
        found = self._whole.losses()
        for each in self._modalities:
            found += [(f"{each.name}: {what}", why) for what, why in each.tree.losses()]
        return found

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return what the notes say of some vectors; see `column_rules`."""
        names = None if names is None else list(names)
        rules = [rule for each in self._modalities for rule in each.column_rules(axis, names)]
        return rules + self._whole.column_rules(axis, names)


class _Modality:
    """A modality as a part of the whole.

    Parameters
    ----------
    axes
        What the global axes are called.
    """

    def __init__(self, base: Tree, name: str, axes: Mapping[str, str]) -> None:
        assert isinstance(base, Hdf5Tree | ZarrTree)  # noqa: S101 - no other one is recognised
        self.name = name
        inner = base.below(f"mod/{name}")
        if is_mudata(inner) or not is_anndata(inner):
            raise errors.UnsupportedDataError(
                f"{base.location}: its modality {name!r} is no AnnData, and modalities of other "
                "kinds are not read"
            )
        self.shared = {part: at for part, at in axes.items() if _is_same(base, inner, name, part)}
        """The global axes that are its own as well, by ``obs`` and ``var``."""
        own = {part: at for part, at in axes.items() if part not in self.shared}
        self.own = {at: f"{name}.{part}" for part, at in own.items()}
        """What its axes are called that have other entries than the global ones, by these."""
        self.tree = AnnDataTree(
            inner, obs_is="obs", var_is="var", X_is="X", extra=partial(_names_as_vectors, own)
        )
        self.rules = _Prefixes(name, frozenset(self.shared.values()))
        shown = {
            self.shared.get(axis, f"{name}.{axis}"): axis
            for axis in self.tree.children(layout.AXES)
        }
        self._in_base = shown
        self.view = ViewTree(
            self.tree,
            {view: ViewAxis(view, axis, None, None) for view, axis in shown.items()},
            self.rules,
        )

    def column_rules(self, axis: str, names: list[str] | None) -> Iterable[dict[str, Any]]:
        """Yield its rules for an axis of the whole, under the names that it has there."""
        if axis not in self._in_base:
            return
        inner = None
        if names is not None:
            known = (self.rules.base_name((axis,), name) for name in names)
            inner = [name for name in known if name is not None]
        in_view = {base: view for view, base in self._in_base.items()}
        prefix = self.rules.prefix((axis,))
        for rule in self.tree.column_rules(self._in_base[axis], inner):
            at = {"axis": in_view[rule["axis"]]} if rule.get("axis") in in_view else {}
            yield {**rule, "vector": prefix + rule["vector"], **at}


@dataclass(frozen=True, slots=True)
class _Prefixes:
    """What is shown of a modality: all, under names that begin with its own."""

    modality: str
    shared: frozenset[str]
    """The axes that others have as well."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property is called in the modality; None if it has none of this name."""
        prefix = self.prefix(axes)
        inner = name.removeprefix(prefix)
        is_hidden = not name.startswith(prefix) or (not axes and inner in _HIDDEN)
        return None if is_hidden else inner

    def names(self, axes: tuple[str, ...], in_base: Iterable[str]) -> dict[str, str]:
        """Return the properties that are shown of some axes, with their names in the modality."""
        prefix = self.prefix(axes)
        return {prefix + name: name for name in in_base if axes or name not in _HIDDEN}

    def prefix(self, axes: tuple[str, ...]) -> str:
        """Return what the names of properties of some axes begin with."""
        if len(axes) == 1:
            return f"{self.modality}:" if axes[0] in self.shared else ""
        return f"{self.modality}."


def _is_same(base: Tree, inner: Tree, modality: str, part: str) -> bool:
    """Return whether an axis of a modality has the entries of the global one, in their order."""
    whole, own = stored_frame(base, part), stored_frame(inner, part)
    if whole.length != own.length:
        return False
    map_at = f"{_MAPS[part]}/{modality}"
    if base.kind(map_at) == "array":
        places = elements.array_at(base, map_at).read().reshape(-1)
        return bool(np.array_equal(places, np.arange(1, whole.length + 1)))
    ours, theirs = (
        frame.names(tuple(node_at(tree, path) for path in frame.index_sources)).read_strings()
        for tree, frame in ((base, whole), (inner, own))
    )
    return bool(ours.cast("string").equals(theirs.cast("string")))


def _names_as_vectors(axes: Mapping[str, str], contents: Contents) -> dict[str, Property]:
    """Return the names of the axes of a modality as vectors that refer to the global axes."""
    return {
        layout.vector_path(part, vector): contents.properties[layout.axis_path(part)]
        for part, vector in axes.items()
        if contents.frames[part].find(vector) is None
    }


def _memberships(modalities: Iterable[_Modality], contents: Contents) -> dict[str, Property]:
    """Return which entries of the global axes a modality has, as vectors that refer to its axes."""
    found = {}
    names = {contents.obs: "obs", contents.var: "var"}
    for each in modalities:
        for axis, own in each.own.items():
            map_at = f"{_MAPS[names[axis]]}/{each.name}"
            if contents.tree.kind(map_at) == "array" and contents.frames[axis].find(own) is None:
                frame = contents.frames[axis].frame
                sources = (map_at, *frame.index_sources)
                found[layout.vector_path(axis, own)] = array_property(
                    sources,
                    partial(_names_where_mapped, frame.names),
                    partial(convention_attributes, Convention.EMPTY_IS_MISSING),
                )
    return found


def _names_where_mapped(names: Any, nodes: Nodes) -> StoredArray:
    """Return the names of entries that a modality has, and empty strings for the others."""
    places = required_array(nodes[0], "", "the places of entries in a modality")

    def strings() -> Any:
        is_there = places.read().reshape(-1) > 0
        return pc.if_else(is_there, names(nodes[1:]).read_strings().cast("string"), "")

    size = (places.info.size,)
    return MemoryArray(strings, shape=size, storage_type=StorageType.STRING)
