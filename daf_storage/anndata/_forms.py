"""Files of others that are presented as data sets, in one table; a MuData as such a tree.

A *form* is recognised by the names of groups and attributes, and presented as the tree of a data
set.

Of a MuData, that has what is global, and each modality under its own names.  The rules:
docs/reference/mudata.md.  The global part is presented as an AnnData without ``X`` is,
and each modality as the AnnData that it is, under names that begin with its own; all of them are a
chain, in which axes that are the same in several count once.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata import _stored as elements
from daf_storage.anndata._frames import stored_frame
from daf_storage.anndata._parts import (
    Parts,
    anndata_parts,
    cell_ranger_groups,
    cell_ranger_parts,
    is_anndata,
)
from daf_storage.anndata._restored import AXIS_KEYS, NOTES, axis_notes, read_notes
from daf_storage.anndata._stored import Nodes, Property, array_property
from daf_storage.anndata._tree import AnnDataTree, Contents
from daf_storage.base import StorageType
from daf_storage.combined import ChainTree, ViewAxis, ViewTree
from daf_storage.data import Convention, DafReader, convention_attributes, layout, required_array
from daf_storage.trees import Hdf5Tree, MemoryArray, NodeKind, StoredArray, Tree, ZarrTree

_HIDDEN: Final = frozenset({*AXIS_KEYS, NOTES})
_MAPS: Final = {"obs": "obsmap", "var": "varmap"}


def is_mudata(tree: Tree) -> bool:
    """Return whether a tree holds a MuData, by its root and the group of modalities."""
    root = tree.node("")
    if root is None or root.kind != "group":
        return False
    encoding = elements.encoding_of(root).lower()
    others = ("obs", "var") if not encoding else ()  # of muon, before there was mudata
    is_possible = encoding in ("", "mudata") and tree.kind("mod") == "group"
    return is_possible and all(tree.kind(part) is not None for part in others)


def modalities_of(tree: Tree) -> list[str]:
    """Return the names of the modalities of a MuData, in their order."""
    names = list(tree.children("mod"))
    node = tree.node("mod")
    order = [] if node is None else elements.names_of(node.attribute("mod-order"))
    return [name for name in order if name in names] or names


def _global_parts(tree: Tree) -> Parts:
    """Return what a MuData has beside its modalities; masks of these are not among it."""
    parts, modalities = anndata_parts(tree), set(modalities_of(tree))
    for part in ("obsm", "varm"):
        for name in modalities & parts.places[part].keys():
            del parts.places[part][name]
    parts.unknown = tuple(name for name in parts.unknown if name not in ("mod", *_MAPS.values()))
    return parts


def kept_within(modality: str) -> str:
    """Return what the names of the kept parts of a modality begin with."""
    return f"mod/{modality}/"


class MuDataTree(ChainTree):
    """A MuData, read in place; see `Tree`.

    Parameters
    ----------
    base
        The tree of an h5mu file, or of a Zarr store that mudata wrote.
    names
        Those of the two global axes; see `AnnDataTree`.
    """

    def __init__(self, base: Tree, **names: Any) -> None:
        self.base = base
        """The tree of the file."""
        self._modalities: list[_Modality] = []
        self._whole = AnnDataTree(base, read=_global_parts, extra=self._of_modalities, **names)
        super().__init__([self._whole, *(each.view for each in self._modalities)])

    def _of_modalities(self, contents: Contents) -> dict[str, Property]:
        """Return vectors that say which entries modalities have; see to their notes."""
        if not self._modalities:
            axes = {"obs": contents.obs, "var": contents.var}
            self._modalities = [
                _Modality(self.base, name, axes) for name in modalities_of(self.base)
            ]
        contents.more_notes = self._notes
        return _memberships(self._modalities, contents)

    def _notes(self) -> dict[str, Any]:
        """Return what restores the MuData, beside what is global."""
        root = self.base.node("")
        axis = None if root is None else root.attribute("axis")
        return {
            "mudata": {
                "axis": 0 if axis is None else int(axis),
                "modalities": {each.name: each.notes() for each in self._modalities},
                "columns": {
                    axis: [rule for each in self._modalities for rule in each.column_rules(axis)]
                    for axis in self.children(layout.AXES)
                },
            }
        }

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
        return self._of_all(AnnDataTree.remarks)

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are damaged, so that nothing of them is shown."""
        return self._of_all(AnnDataTree.losses)

    def _of_all(self, of: Callable[[AnnDataTree], list[tuple[str, str]]]) -> list[tuple[str, str]]:
        below = ((each.name, found) for each in self._modalities for found in of(each.tree))
        return of(self._whole) + [(f"{name}: {what}", why) for name, (what, why) in below]

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return what the notes say of some vectors; see `column_rules`."""
        names = None if names is None else list(names)
        rules = self._whole.column_rules(axis, names)
        return rules + [r for each in self._modalities for r in each.column_rules(axis, names)]


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
                f"{base.location}: its modality {name!r} is no AnnData; others are not read"
            )
        self.shared = {part: at for part, at in axes.items() if _is_same(base, inner, name, part)}
        """The global axes that are its own as well, by ``obs`` and ``var``."""
        own = {part: at for part, at in axes.items() if part not in self.shared}
        self.own = {at: f"{name}.{part}" for part, at in own.items()}
        """What its axes are called that have other entries than the global ones, by these."""
        self.tree = AnnDataTree(
            inner,
            obs_is="obs",
            var_is="var",
            X_is="X",
            extra=partial(_names_as_vectors, base, name, own),
            within=kept_within(name),
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

    def notes(self) -> dict[str, Any]:
        """Return the notes that restore it alone."""
        notes: dict[str, Any] = json.loads(self.tree.current().notes)
        return notes

    def column_rules(self, axis: str, names: list[str] | None = None) -> Iterable[dict[str, Any]]:
        """Yield its rules for an axis of the whole, under the names that it has there."""
        if axis not in self._in_base:
            return
        inner = None
        if names is not None:
            renamed = (self.rules.base_name((axis,), name) for name in names)
            inner = [name for name in renamed if name is not None]
        in_view = {base: view for view, base in self._in_base.items()}
        prefix = self.rules.prefix((axis,))
        for rule in self.tree.column_rules(self._in_base[axis], inner):
            at = {"axis": in_view[rule["axis"]]} if rule.get("axis") in in_view else {}
            names_of = ("column", "vector", "is_missing")
            yield {**rule, **at, **{key: prefix + rule[key] for key in names_of if key in rule}}


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

    def names(self, axes: tuple[str, ...], in_base: Iterable[str]) -> list[str]:
        """Return the names of the properties that are shown of some axes."""
        prefix = self.prefix(axes)
        return [prefix + name for name in in_base if axes or name not in _HIDDEN]

    def prefix(self, axes: tuple[str, ...]) -> str:
        """Return what the names of properties of some axes begin with."""
        if len(axes) == 1:
            return f"{self.modality}:" if axes[0] in self.shared else ""
        return f"{self.modality}."


def _is_same(base: Tree, inner: Tree, modality: str, part: str) -> bool:
    """Return whether an axis of a modality has the entries of the global one, in their order."""
    whole, own = stored_frame(base, part), stored_frame(inner, part)
    if whole.length() != own.length():
        return False
    map_at = f"{_MAPS[part]}/{modality}"
    if base.kind(map_at) == "array":
        places = elements.array_at(base, map_at).read().reshape(-1)
        return bool(np.array_equal(places, np.arange(1, whole.length() + 1)))
    return bool(whole.entries().equals(own.entries()))


def _names_as_vectors(
    base: Tree, modality: str, axes: Mapping[str, str], contents: Contents
) -> dict[str, Property]:
    """Return, of entries of the axes of a modality, the names that they have in the whole."""
    found = {}
    for part, vector in axes.items():
        if contents.frames[part].find(vector) is not None:
            continue
        path, map_at = layout.vector_path(part, vector), f"{_MAPS[part]}/{modality}"
        found[path] = contents.properties[layout.axis_path(part)]
        if base.kind(map_at) == "array":
            sources = contents.frames[part].index_sources
            found[path] = array_property(sources, partial(_names_in_whole, base, part, map_at))
    return found


def _names_in_whole(base: Tree, part: str, map_at: str, nodes: Nodes) -> StoredArray:
    """Return the names in the whole of all entries of a modality; its own where that has none."""
    del nodes  # by which it is noticed that there are other ones
    places = elements.array_at(base, map_at).read().reshape(-1).astype(np.int64)
    frame = stored_frame(base, part)
    positions = np.argsort(places, kind="stable")[np.count_nonzero(places == 0) :]
    return MemoryArray(
        lambda: frame.entries().take(positions),
        shape=(positions.size,),
        storage_type=StorageType.STRING,
    )


def _memberships(modalities: Iterable[_Modality], contents: Contents) -> dict[str, Property]:
    """Return which entries of the global axes a modality has, as vectors that refer to its axes."""
    found = {}
    names = {contents.obs: "obs", contents.var: "var"}
    for each in modalities:
        for axis, own in each.own.items():
            map_at = f"{_MAPS[names[axis]]}/{each.name}"
            if contents.tree.kind(map_at) == "array" and contents.frames[axis].find(own) is None:
                frame = each.tree.current().frames[names[axis]]
                below = [f"mod/{each.name}/{source}" for source in frame.index_sources]
                found[layout.vector_path(axis, own)] = array_property(
                    (map_at, *below),
                    partial(_names_where_mapped, frame.names),
                    partial(convention_attributes, Convention.EMPTY_IS_MISSING),
                )
    return found


def _names_where_mapped(names: Callable[[], StoredArray], nodes: Nodes) -> StoredArray:
    """Return the names of entries that a modality has, and empty strings for the others."""
    places = required_array(nodes[0], "", "the places of entries in a modality")

    def strings() -> Any:
        positions = places.read().reshape(-1).astype(np.int64)
        own = names().read_strings().cast("string")
        if positions.size and int(positions.max()) > len(own):
            raise errors.CorruptDataError(
                f"a place in a modality is the {positions.max():,}th of {len(own):,} entries"
            )
        return own.take(pa.array(positions - 1, mask=positions < 1)).fill_null("")

    return MemoryArray(strings, shape=(places.info.size,), storage_type=StorageType.STRING)


# Back


class MuDataParts:
    """A data set as the parts of a MuData: what is global, and its modalities.

    Modalities are those that were imported, and all others whose names say so.
    """

    def __init__(self, daf: DafReader) -> None:
        notes = read_notes(daf)
        noted = notes.get("mudata", {})
        given = {key: str(daf.get_scalar(key, default=name)) for key, name in AXIS_KEYS.items()}
        self.axes = {"obs": given["obs_is"], "var": given["var_is"]}
        """What its global axes are called."""
        recorded, every = noted.get("modalities", {}), daf.axes_set()
        found = {a.rpartition(".")[0] for a in every if a.endswith((".obs", ".var"))}
        if set(self.axes.values()) <= every:
            found |= {
                name.removesuffix(".X")
                for name in daf.matrices_set(*self.axes.values())
                if name.endswith(".X")
            }
        names = [*recorded, *sorted(found - recorded.keys() - {""})]
        own = tuple(f"{name}." for name in names)
        axes = {axis: axis for axis in every if not axis.startswith(own)}
        columns = {axis: _noted_vectors(notes, axis) for axis in self.axes.values()}

        def is_of_modality(axes: tuple[str, ...], name: str, _: str) -> bool:
            if len(axes) == 1 and name in columns.get(axes[0], ()):
                return False
            ends = ".:" if len(axes) == 1 else "."
            return name.startswith(tuple(each + end for each in names for end in ends))

        rules = _OfWhole(lambda _: "", is_of_modality)
        self.trees = {"": PartTree(daf.tree, axes, rules, notes)}
        """What is global, and each modality by its name, as the data sets that they would be."""
        self.modalities = {
            name: self._add_modality(daf, name, names, recorded.get(name, {})) for name in names
        }
        """The axes of the data set that are the obs and the var of each modality."""
        owned = {
            part for each in self.modalities.values() for part, at in each.items() if "." in at
        }
        given_axis = noted.get("axis")
        self.axis = given_axis if given_axis in (0, 1, -1) else int(owned == {"obs"})
        """Which axis the modalities share: 0 for obs, 1 for var, -1 for both."""

    def _add_modality(
        self, daf: DafReader, name: str, names: list[str], notes: dict[str, Any]
    ) -> dict[str, str]:
        start, every = f"{name}.", daf.axes_set()
        within = tuple(f"{other}." for other in names if other.startswith(start))
        axes = {part: start + part for part in self.axes if start + part in every}
        shared = {part: at for part, at in self.axes.items() if part not in axes}
        pairs = {(part, self.axes[part]) for part in axes}
        links = {(part, at) for part, at in pairs if at not in _noted_vectors(notes, part)}
        own = (a for a in every if a.startswith(start) and not a.startswith(within))
        shown = {axis.removeprefix(start): axis for axis in own}

        def is_other(axes: tuple[str, ...], name: str, base: str) -> bool:
            """Return whether a vector leads from axis to axis, or a property is of another one."""
            is_hidden = (*axes, name) in links or (not axes and name in _HIDDEN)
            return is_hidden or (len(axes) != 1 and base.startswith(within))

        rules = _OfWhole(_Prefixes(name, frozenset(shared)).prefix, is_other)
        part = PartTree(daf.tree, {**shown, **shared}, rules, notes, kept_within(name))
        self.trees[name] = part
        return {**axes, **shared}


def _noted_vectors(notes: dict[str, Any], axis: str) -> set[str]:
    """Return the vectors that were columns of an axis."""
    return {rule.get("vector", "") for rule in axis_notes(notes, axis).get("columns", [])}


class PartTree(ViewTree):
    """A part of a data set that is a MuData, as the data set that an AnnData alone would be.

    Parameters
    ----------
    axes
        Its axes, by what the AnnData calls them.
    notes
        What restores the AnnData.
    within
        What the names of its kept parts begin with in the whole.
    """

    def __init__(
        self,
        base: Tree,
        axes: Mapping[str, str],
        rules: Any,
        notes: dict[str, Any],
        within: str = "",
    ) -> None:
        shown = {name: ViewAxis(name, at, None, None) for name, at in axes.items()}
        super().__init__(base, shown, rules)
        self.notes = notes
        self.within = within


@dataclass(frozen=True, slots=True)
class _OfWhole:
    """What a data set has of a part of it, under the names that it has alone."""

    prefix: Callable[[tuple[str, ...]], str]
    """Returns what the names of properties of some axes begin with in the data set."""
    is_hidden: Callable[[tuple[str, ...], str, str], bool]
    """Returns whether something is not of it, by its axes, its name and that in the data set."""

    def base_name(self, axes: tuple[str, ...], name: str) -> str | None:
        """Return what a property is called in the data set; None if it is not shown."""
        base = self.prefix(axes) + name
        return None if self.is_hidden(axes, name, base) else base

    def names(self, axes: tuple[str, ...], in_base: Iterable[str]) -> list[str]:
        """Return the names of the properties that are shown of some axes."""
        prefix = self.prefix(axes)
        own = [name.removeprefix(prefix) for name in in_base if name.startswith(prefix)]
        return [name for name in own if self.base_name(axes, name) is not None]


# All forms

_ELEMENTS: Final = ("images", "labels", "points", "shapes")
"""What a SpatialData has beside tables."""
_TABLES: Final = ("tables", "table")


@dataclass(frozen=True, slots=True)
class ForeignForm:
    """A form of files that is presented as a data set."""

    what: str
    """What messages call it."""
    recognises: Callable[[Tree], object]
    """Returns what is true if a tree is of this form, and of none before, by names of groups."""
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
        "matrix of Cell Ranger", cell_ranger_groups, partial(AnnDataTree, read=cell_ranger_parts)
    ),
    ForeignForm("MuData", is_mudata, MuDataTree),
    ForeignForm("SpatialData", _is_spatial, _spatial_tree),
)
"""All forms, of which the first that fits counts; another one is an entry."""
