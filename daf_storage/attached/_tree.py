"""An AnnData as the tree of a Daf data set, over the tree of the file that holds it."""

from __future__ import annotations

import functools
import posixpath
import time
import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from daf_storage.anndata_rules import AnnDataWarning, Report, part_label
from daf_storage.anndata_rules import notes as rules
from daf_storage.attached._columns import BrokenColumn, SeriesColumn
from daf_storage.attached._frames import StoredFrame
from daf_storage.attached._matrices import STORED, Place
from daf_storage.attached._notes import (
    UnsValues,
    column_rules,
    kept_properties,
    notes_text,
    uns_values,
)
from daf_storage.attached._parts import GROUPS, Parts, parts_of, parts_of_object
from daf_storage.attached._plan import KeptPlace, Plan
from daf_storage.attached._virtual import Property, VirtualNode, memory_property
from daf_storage.data import kept, layout
from daf_storage.stores import MemoryStore
from daf_storage.trees import (
    Hdf5File,
    Hdf5Tree,
    MemoryArray,
    NodeKind,
    Tree,
    WritableZarrTree,
    release_kept,
    version_of,
)

_CHECK_SECONDS: Final = 0.005
"""How long what there is in the file is believed to be the same, within one question."""


_DEPTH_OF_VECTORS: Final = 2
_DEPTH_OF_MATRICES: Final = 3
_REMARKS: Final = {
    "lost": "not shown",
    "changed": "changed",
    "renamed": "renamed",
    "kept": "only in exports",
}


class AnnDataTree:
    """An AnnData, read in place; see `Tree`.

    Parameters
    ----------
    base
        The tree of an h5ad file, or of a Zarr store that anndata wrote.
    obs_is, var_is, X_is
        Names of the two axes and of the main matrix; by default what ``uns`` says, else ``obs``,
        ``var`` and ``X``.
    categorical_axes
        Categorical columns that become an axis of their own, besides those that have colours.
    parts
        What the AnnData consists of, if not all of it lies in the tree; see `parts_of_object`.
    """

    def __init__(
        self,
        base: Tree,
        *,
        obs_is: str | None = None,
        var_is: str | None = None,
        X_is: str | None = None,  # noqa: N803 - the reference's spelling
        categorical_axes: Collection[str] = (),
        parts: Parts | None = None,
    ) -> None:
        self.base = base
        """The tree of the file."""
        self._parts = parts
        self._names = {"obs_is": obs_is, "var_is": var_is, "X_is": X_is}
        self._categorical_axes = categorical_axes
        self._checked_at = time.monotonic()
        self._state = self._base_state()
        self._contents = self._looked_at()
        self._renewals = 0
        for what, problem in self._contents.losses():
            warnings.warn(f"{what} is not shown: {problem}", AnnDataWarning, stacklevel=3)

    @property
    def location(self) -> str:
        """Where the tree is, for messages."""
        return self.base.location

    def release_kept(self) -> None:
        """Let go of mappings of files that are kept; arrays that were handed out stay valid."""
        release_kept(self.base)

    def kind(self, path: str) -> NodeKind | None:
        """Return what is at ``path``; None if nothing is."""
        contents = self._current()
        shown = contents.find(path)
        if shown is not None:
            return shown.kind
        return "group" if contents.is_group(path) else None

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        return self._current().children(path)

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        contents = self._current(is_exact=True)
        if contents.find(path) is None and not contents.is_group(path):
            return None
        return tuple(map(self.base.identity, contents.sources(path)))

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at or below ``path`` does, in any process."""
        contents = self._current(is_exact=True)
        if contents.find(path) is None and not contents.is_group(path):
            return None
        versions = tuple(version_of(self.base, source) for source in contents.sources(path))
        return None if any(each is None for each in versions) else versions

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` does."""
        contents = self._current(is_exact=True)
        if not contents.is_group(path):
            return None
        groups = map(self.base.listing_identity, contents.groups(path))
        return self._renewals, *groups

    def node(self, path: str) -> VirtualNode | None:
        """Return the group or array at ``path``, pinned; None if there is none."""
        contents = self._current()
        known = contents.find(path)
        if known is not None:
            node = contents.node(path, known)
            return node if known.state in (None, node.identity) else self._renewed_node(path)
        root = self.base.node("")
        if root is None or not contents.is_group(path):
            return None
        return VirtualNode("group", (root,), {}, dict)

    @property
    def index_tree(self) -> AnnDataTree:
        """The tree of its indexes: this one, which has none."""
        return self

    def marker(self, name: str) -> Any:
        """Return the version of Daf that it presents itself as."""
        return list(layout.VERSION) if name == layout.DAF else None

    def remarks(self) -> list[tuple[str, str]]:
        """Return what differs from the AnnData, for summaries."""
        return [
            (item.what, f"{_REMARKS[item.kind]}: {item.message}") for item in self.report().items
        ]

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts of the file that are damaged, so that nothing of them is shown."""
        return self._current().losses()

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return what the notes say of some vectors; see `daf_storage.anndata_rules`."""
        return self._current().column_rules(axis, names)

    def report(self) -> Report:
        """Return what differs from the AnnData: parts that are not shown, changed or renamed."""
        return self._current().report()

    @property
    def contents(self) -> Contents:
        """What there is, for whoever copies all of it."""
        return self._current()

    def _current(self, *, is_exact: bool = False) -> Contents:
        """Return what there is, which another program may have changed in place."""
        now = time.monotonic()
        if is_exact or now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            state = self._base_state()
            if state != self._state:
                self._contents = self._looked_at()
                self._state = state
        return self._contents

    def _looked_at(self) -> Contents:
        parts = parts_of(self.base) if self._parts is None else self._parts
        return Contents(self.base, Plan(self.base, parts, self._names, self._categorical_axes))

    def _renewed_node(self, path: str) -> VirtualNode | None:
        """Return a node after forgetting what was read of columns before they were changed.

        Only of Zarr: that an array within a column was written to does not show in its group.
        """
        self._contents = contents = self._looked_at()
        self._renewals += 1
        known = contents.find(path)
        return None if known is None else contents.node(path, known)

    def _base_state(self) -> Hashable:
        if isinstance(self.base, Hdf5Tree):
            return self.base.identity("")  # that of the root changes with all below it
        return tuple(self.base.listing_identity(group) for group in GROUPS)


class Contents:
    """What there is in a file, at one time."""

    def __init__(self, base: Tree, plan: Plan) -> None:
        self._base = base
        self.plan = self._plan = plan
        self._nodes: dict[str, VirtualNode] = {}
        self._of_axis: dict[str, dict[str, Property]] = {}
        self._single: dict[str, Property] = {}

    def find(self, path: str) -> Property | None:
        """Return the property at a path."""
        top, _, rest = path.partition("/")
        if top == layout.SCALARS:
            return self._scalars.get(path)
        if top == kept.GROUP:
            known = self.kept.get(path)
            return None if known is None else known[1]
        static = self._plan.properties.get(path)
        if static is not None or top != layout.VECTORS:
            return static
        return self._vector(path, *rest.partition("/")[::2])

    def node(self, path: str, shown: Property) -> VirtualNode:
        """Return a property, pinned.

        In a file of HDF5 it is opened once: whatever changes in the file, there are other contents.
        """
        if not isinstance(self._base, Hdf5Tree):
            return shown.node(self._base)
        node = self._nodes.get(path)
        if node is None:
            node = self._nodes[path] = shown.node(self._base)
        return node

    def _vector(self, path: str, axis: str, name: str) -> Property | None:
        """Return a vector, if possible without a look at the other columns of its axis."""
        if axis in self._of_axis or axis not in self._plan.frames:
            return self._of_axis.get(axis, {}).get(path)
        if path not in self._single:
            found = self._plan.vector_property(axis, name)
            if found is None:
                return None
            self._single[path] = found
        return self._single[path]

    def _vectors(self, axis: str) -> dict[str, Property]:
        if axis not in self._plan.frames:
            return {}
        if axis not in self._of_axis:
            self._of_axis[axis] = dict(self._plan.vector_properties(axis))
        return self._of_axis[axis]

    @functools.cached_property
    def _uns(self) -> UnsValues:
        return uns_values(self._base, self._plan.uns)

    @functools.cached_property
    def _scalars(self) -> dict[str, Property]:
        scalars = dict(self._uns.scalars)
        for key, name in self._plan.names.items():
            scalars[layout.scalar_path(key)] = _text_scalar(lambda name=name: name)
        scalars[layout.scalar_path(rules.SCALAR)] = _text_scalar(lambda: self.notes)
        return scalars

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return the rules of some vectors of an axis."""
        return column_rules(self._plan, axis, names)

    @functools.cached_property
    def notes(self) -> str:
        """What restores the AnnData, as JSON."""
        names = {
            (place.axes[0], place.key): posixpath.basename(path)
            for path, (place, _) in self.kept.items()
            if place.part in ("obs", "var", "raw.var")
        }
        uns: list[list[Any]] = []
        for axis in self._plan.category_axes.items():
            note = {"type": "colors", "list": axis[1].is_list}
            uns += [[f"{axis[0][1]}_colors", note]] if axis[1].has_colors else []
        noted = dict(self._uns.notes)
        uns += [[key, noted[key]] for key in self._plan.uns if key in noted]
        return notes_text(self._plan, uns, names)

    @functools.cached_property
    def kept(self) -> dict[str, tuple[KeptPlace, Property]]:
        """The parts that Daf has no place for, by the paths of their images."""
        places = [*self._kept_columns(), *self._plan.kept]
        for key, place in self._uns.others.items():
            places.append(KeptPlace((), "uns", key, place, "it is no scalar"))
        return kept_properties(self._base, places)

    def _kept_columns(self) -> Iterator[KeptPlace]:
        for axis, (frame, part) in self._plan.frames.items():
            for vector in self._plan.vectors(axis):
                if not vector.problem:
                    continue
                column = vector.column
                is_whole = isinstance(frame, StoredFrame) and len(column.sources) == 1
                value: Any = STORED
                if isinstance(column, SeriesColumn) and not is_whole:
                    value = column.value().values
                place = Place(column.sources[0], value)
                yield KeptPlace((axis,), part, vector.column_name, place, vector.problem)

    def losses(self) -> list[tuple[str, str]]:
        """Return the parts but columns that are damaged."""
        items = self._plan.report.items
        return [(item.what, item.message) for item in items if item.kind == "lost"]

    def report(self) -> Report:
        """Return what differs from the AnnData: of obs and var first, what is kept but uns last."""
        report, kept_parts = Report(), [place for place, _ in self.kept.values()]
        for axis, (_, part) in self._plan.frames.items():
            for vector in self._plan.vectors(axis):
                what = part_label(part, vector.column_name)
                if isinstance(vector.column, BrokenColumn):
                    report.lost(what, str(vector.column.error))
                elif vector.problem:
                    report.kept(what, vector.problem)
                elif vector.column.note:
                    report.changed(what, vector.column.note)
                if vector.name and vector.name != vector.column_name:
                    report.renamed(what, f"stored as the vector {vector.name!r}")
        report.items += self._plan.report.items
        for place in kept_parts:
            if place.part not in ("obs", "var", "raw.var", "uns"):
                report.kept(part_label(place.part, place.key), place.why)
        return report

    # Groups

    @functools.cached_property
    def _axes(self) -> set[str]:
        start = f"{layout.AXES}/"
        return {
            path.removeprefix(start) for path in self._plan.properties if path.startswith(start)
        }

    def _paths(self, path: str) -> list[str]:
        """Return the paths of the properties at or below a path."""
        top, _, rest = path.partition("/")
        paths: list[str] = []
        if top in ("", layout.SCALARS):
            paths += self._scalars
        if top in ("", kept.GROUP):
            paths += self.kept
        if top in ("", layout.AXES, layout.VECTORS, layout.MATRICES):
            paths += self._plan.properties
        if top in ("", layout.VECTORS):
            axis = rest.partition("/")[0]
            for known in [axis] if axis else self._plan.frames:
                paths += self._vectors(known)
        return [
            known for known in paths if not path or known == path or known.startswith(f"{path}/")
        ]

    def is_group(self, path: str) -> bool:
        """Return whether there is a group at a path."""
        parts = path.split("/") if path else []
        if not parts or path in layout.SKELETON:
            return True
        if parts[0] == layout.VECTORS:  # a vector is an array, to tell needs no look at columns
            return len(parts) == _DEPTH_OF_VECTORS and parts[1] in self._axes
        if parts[0] == layout.MATRICES and len(parts) <= _DEPTH_OF_MATRICES:
            return self._axes >= set(parts[1:])
        return any(known != path for known in self._paths(path))

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        names: dict[str, NodeKind] = {}
        if not path:
            names = dict.fromkeys(layout.SKELETON, "group")
            return {**names, kept.GROUP: "group"} if self.kept else names
        parts = path.split("/")
        has_axes = path == layout.VECTORS or (
            parts[0] == layout.MATRICES and len(parts) < _DEPTH_OF_MATRICES and self.is_group(path)
        )
        if has_axes:
            return dict.fromkeys(sorted(self._axes), "group")
        start = f"{path}/"
        for known in self._paths(path):
            if known == path:
                return {}
            name, _, below = known.removeprefix(start).partition("/")
            shown = self.find(known)
            names[name] = "group" if below or shown is None else shown.kind
        return names

    # Identities

    def sources(self, path: str) -> list[str]:
        """Return the paths of the elements of a file that a path is made of."""
        shown = self.find(path)
        if shown is not None:
            return list(shown.sources)
        if path == layout.scalar_path(rules.SCALAR) or not path:
            return [""]
        every = (self.find(known) for known in self._paths(path))
        sources = [source for each in every if each is not None for source in each.sources]
        return list(dict.fromkeys(sources))

    def groups(self, path: str) -> list[str]:
        """Return the groups of a file whose children decide what is directly below a path."""
        top, _, axis = path.partition("/")
        if top == layout.VECTORS and axis in self._plan.frames:
            return [*self._plan.frames[axis][0].sources, "uns"]
        return list(GROUPS)


def _text_scalar(make: Any) -> Property:
    return memory_property(("",), lambda: MemoryArray(lambda: pa.array([make()], pa.string())))


def tree_of_object(adata: Any, **options: Any) -> AnnDataTree:
    """Return an AnnData in memory as a tree; of one that is backed, ``X`` stays in its file."""
    base: Tree
    if adata.isbacked and not adata.is_view:
        base = Hdf5Tree(Hdf5File(adata.file._file, location="AnnData"))  # noqa: SLF001 - no other way
    else:
        base = WritableZarrTree(MemoryStore(location="AnnData"), consolidated=False)
        with base.transaction() as changes:
            changes.mark_group("")
    return AnnDataTree(base, parts=parts_of_object(adata, base), **options)
