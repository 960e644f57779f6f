"""An AnnData as the tree of a Daf data set, over the tree of the file that holds it."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any, Final

from daf_storage.anndata._contents import Contents, KeptPlace
from daf_storage.anndata._forms import parts_of
from daf_storage.anndata._notes import (
    kept_places,
    kept_property,
    notes_text,
    report_of,
    rules_of_columns,
    uns_scalars,
)
from daf_storage.anndata._parts import GROUPS, Parts, parts_of_object
from daf_storage.anndata._report import NOTES, AnnDataWarning, Report
from daf_storage.anndata._virtual import Property, VirtualNode, strings_property
from daf_storage.data import kept, layout
from daf_storage.stores import MemoryStore
from daf_storage.trees import (
    Hdf5File,
    Hdf5Tree,
    NodeKind,
    Tree,
    WritableZarrTree,
    release_kept,
    version_of,
)

_CHECK_SECONDS: Final = 0.005
"""How long what there is in the file is believed to be the same, within one question."""
_LOOKS: Final = 3
"""How often a column is looked at again that is written to just then."""
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
        self._shown = self._looked_at()
        for what, problem in self.losses():
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
        shown = self.current()
        known = shown.find(path)
        if known is not None:
            return known.kind
        return "group" if shown.is_group(path) else None

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        return self.current().children(path)

    def identity(self, path: str) -> Hashable:
        """Return a value that changes whenever something at or below ``path`` does."""
        known = self.current(is_exact=True).find(path)
        if known is None:
            return self.listing_identity(path)
        return tuple(map(self.base.identity, known.sources))

    def version(self, path: str) -> Hashable:
        """Return what differs whenever something at ``path`` does, in any process."""
        known = self.current(is_exact=True).find(path)
        sources = ("",) if known is None else known.sources
        versions = tuple(version_of(self.base, source) for source in sources)
        return None if any(each is None for each in versions) else versions

    def listing_identity(self, path: str) -> Hashable:
        """Return a value that changes whenever a child of ``path`` does."""
        shown = self.current(is_exact=True)
        if not shown.is_group(path):
            return None
        top, _, axis = path.partition("/")
        vectors = shown.contents.frames.get(axis) if top == layout.VECTORS else None
        if vectors is None:
            return self._state
        groups = (*vectors.frame.sources, "uns")
        return vectors.frame.renewals, *map(self.base.listing_identity, groups)

    def node(self, path: str) -> VirtualNode | None:
        """Return the group or array at ``path``, pinned; None if there is none."""
        shown = self.current()
        known = shown.find(path)
        if known is None:
            root = self.base.node("") if shown.is_group(path) else None
            return None if root is None else VirtualNode("group", (root,), {}, dict)
        node = shown.node(path, known)
        for _ in range(_LOOKS):
            if known is None or known.state is None or known.state == node.identity:
                break
            known = shown.find(path)  # written to between the look at it and at its arrays
            node = node if known is None else known.node(self.base)
        return node

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
        items = self.current().contents.lost.items
        return [(item.what, item.message) for item in items if item.kind == "lost"]

    def column_rules(self, axis: str, names: Iterable[str] | None) -> list[dict[str, Any]]:
        """Return what the notes say of some vectors; see `column_rules`."""
        return rules_of_columns(self.current().contents, axis, names)

    def report(self) -> Report:
        """Return what differs from the AnnData: parts that are not shown, changed or renamed."""
        shown = self.current()
        return report_of(shown.contents, shown.kept.values())

    def current(self, *, is_exact: bool = False) -> Shown:
        """Return what there is, which another program may have changed in place."""
        now = time.monotonic()
        if is_exact or now - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            state = self._base_state()
            if state != self._state:
                self._shown = self._looked_at()
                self._state = state
        return self._shown

    def _looked_at(self) -> Shown:
        parts = parts_of(self.base) if self._parts is None else self._parts
        return Shown(Contents(self.base, parts, self._names, self._categorical_axes))

    def _base_state(self) -> Hashable:
        if isinstance(self.base, Hdf5Tree):
            return self.base.identity("")  # that of the root changes with all below it
        return tuple(self.base.listing_identity(group) for group in GROUPS)


class Shown:
    """The contents of an AnnData by their paths."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self._nodes: dict[str, VirtualNode] = {}

    @functools.cached_property
    def kept(self) -> dict[str, KeptPlace]:
        """The parts that Daf has no place for."""
        return kept_places(self.contents, self._of_uns)

    @functools.cached_property
    def notes(self) -> str:
        """What restores the AnnData, as JSON."""
        return notes_text(self.contents, self._of_uns, self.kept)

    @functools.cached_property
    def _of_uns(self) -> dict[str, tuple[Property, str]]:
        return uns_scalars(self.contents)

    @functools.cached_property
    def _scalars(self) -> dict[str, Property]:
        scalars = {key: scalar for key, (scalar, _) in self._of_uns.items()}
        for key, name in self.contents.names.items():
            scalars[key] = strings_property("", functools.partial(list, (name,)))
        scalars[NOTES] = strings_property("", lambda: [self.notes])
        return {layout.scalar_path(key): scalar for key, scalar in scalars.items()}

    def find(self, path: str) -> Property | None:
        """Return the property at a path."""
        top, _, rest = path.partition("/")
        if top == layout.SCALARS:
            return self._scalars.get(path)
        if top == kept.GROUP:
            place = self.kept.get(path)
            return None if place is None else kept_property(self.contents.tree, place)
        found = self.contents.properties.get(path)
        if found is None and top == layout.VECTORS:
            axis, _, name = rest.partition("/")
            found = self.contents.vector(axis, name) if name else None
        return found

    def node(self, path: str, known: Property) -> VirtualNode:
        """Return a property, pinned.

        In a file of HDF5 it is opened once: whatever changes in the file, there are other contents.
        """
        if not isinstance(self.contents.tree, Hdf5Tree):
            return known.node(self.contents.tree)
        if path not in self._nodes:
            self._nodes[path] = known.node(self.contents.tree)
        return self._nodes[path]

    def is_group(self, path: str) -> bool:
        """Return whether there is a group at a path; no column is looked at."""
        top, *names = path.split("/")
        if not path or path in layout.SKELETON:
            return True
        if top in (layout.VECTORS, layout.MATRICES):
            most = 1 if top == layout.VECTORS else 2
            return len(names) <= most and set(self.contents.axes) >= set(names)
        return top == kept.GROUP and any(f"{known}/".startswith(f"{path}/") for known in self.kept)

    def children(self, path: str) -> dict[str, NodeKind]:
        """Return the names directly below a group, and what each is."""
        if not self.is_group(path):
            return {}
        if not path:
            names = (*layout.SKELETON, *((kept.GROUP,) if self.kept else ()))
            return dict.fromkeys(names, "group")
        top, *axes = path.split("/")
        if (top == layout.VECTORS and not axes) or (top == layout.MATRICES and len(axes) < 2):
            return dict.fromkeys(self.contents.axes, "group")
        found: dict[str, NodeKind] = {}
        for known in self._paths(top, *axes):
            if known.startswith(f"{path}/"):
                name, _, below = known.removeprefix(f"{path}/").partition("/")
                shown = None if below else self.find(known)
                found[name] = "group" if shown is None else shown.kind
        return found

    def _paths(self, top: str, *axes: str) -> Iterator[str]:
        """Yield paths, of which those below a group of properties are some."""
        if top == layout.SCALARS:
            yield from self._scalars
        elif top == kept.GROUP:
            yield from self.kept
        else:
            yield from self.contents.properties
        if top == layout.VECTORS:
            for vector in self.contents.columns(axes[0]):
                if not vector.problem:
                    yield layout.vector_path(axes[0], vector.name)
                    if vector.companion:
                        yield layout.vector_path(axes[0], vector.companion)


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
