"""Chains and views as data sets: several as one of which the last counts, and a part of one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, IfExists, unique_name
from daf_storage.combined._chain_tree import ChainTree, WritableChainTree
from daf_storage.combined._view_tree import (
    ANY,
    DataRules,
    ViewAxes,
    ViewAxis,
    ViewTree,
    data_rules,
    view_axes,
)
from daf_storage.data import DafReader, DafWriter, Origin, check_reader, damage_of, kept, layout
from daf_storage.errors import REPLACE, ReadOnlyError, Remedy, with_remedy
from daf_storage.trees import WritableTree


def chain_reader(dafs: Sequence[DafReader], *, name: str | None = None) -> DafReader:
    """Return several data sets as one that can be read; of each property, the last one counts.

    A scalar, a vector or a matrix that several have is that of the last.  A matrix is one,
    whichever orientations are stored: what a later data set has in either hides both of the
    earlier ones.  An axis that several have must have the same entries in the same order: lengths
    are compared at once; entries when something of the axis is first read from another data set
    than the first that has it, and again if they change.

    Parameters
    ----------
    dafs
        Open data sets, the one that counts most last.  They stay yours: closing the chain does not
        close them, and the chain cannot be read once one of them is closed.
    name
        Its name; by default their names, joined by ``;``.

    Returns
    -------
    DafReader
        For one data set, its ``read_only()``.  It is pickled by their paths, if all have one.

    Raises
    ------
    InvalidInputError
        There is no data set.
    LengthError
        An axis has different lengths.

    Warnings
    --------
    Reading something of an axis whose entries differ raises ``LabelsError``.

    Examples
    --------
    >>> import daf_storage
    >>> base, mine = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> base.add_axis("cell", ["A", "B"])
    >>> base.set_vector("cell", "type", ["T", "T"])
    >>> mine.add_axis("cell", ["A", "B"])
    >>> mine.set_vector("cell", "type", ["CD4", "CD8"])
    >>> chain_reader([base, mine]).get_np_vector("cell", "type").tolist()
    ['CD4', 'CD8']
    """
    members = _members(dafs, "chain_reader()")
    if len(members) == 1:
        only = members[0].read_only()
        if name is not None:
            only.rename(name)
        return only
    return ChainReader(members, name=_name(members, name))


def chain_writer(dafs: Sequence[DafReader], *, name: str | None = None) -> DafWriter:
    """Return several data sets as one of which the last is written; see `chain_reader`.

    What is set goes into the last one; so does an axis that it lacks, before its first property.
    ``if_exists="replace"`` hides what an earlier one has, and leaves it there.

    Parameters
    ----------
    dafs, name
        As for `chain_reader`; the last one is open for writing.

    Returns
    -------
    DafWriter
        For one data set, this itself.

    Raises
    ------
    InvalidInputError
        There is no data set, or the last one is also an earlier one.
    ReadOnlyError
        The last one is open for reading.  Later, from methods that would delete what an earlier one
        has, or replace an axis of it.

    Examples
    --------
    >>> import daf_storage
    >>> base, mine = daf_storage.MemoryDaf(), daf_storage.MemoryDaf()
    >>> base.add_axis("cell", ["A", "B"])
    >>> chain_writer([base, mine]).set_vector("cell", "label", ["x", "y"])
    >>> mine.axis_entries("cell").tolist(), base.vectors_set("cell")
    (['A', 'B'], set())
    """
    members = _members(dafs, "chain_writer()")
    *bases, last = members
    if not isinstance(last, DafWriter):
        raise ReadOnlyError(
            f"{last.location}: the last data set of chain_writer() is written to, and this one is "
            "open for reading; open it with mode 'r+'"
        )
    if not bases:
        if name is not None:
            last.rename(name)
        return last
    if any(base.tree is last.tree for base in bases):
        raise errors.InvalidInputError(
            f"{last.location}: the last data set of chain_writer() is written to, and this one is "
            "a base as well, which is only read; put another one last"
        )
    return ChainWriter(bases, last, name=_name(members, name))


class ChainReader(DafReader):
    """Several data sets as one; `chain_reader` returns it.

    Parameters
    ----------
    is_owner
        Whether the data sets are closed with it.
    """

    how_to_write = "this chain is open for reading; make one that is written with chain_writer()"

    def __init__(self, members: Sequence[DafReader], *, name: str, is_owner: bool = False) -> None:
        tree = ChainTree([member.tree for member in members])
        tree.check_lengths()
        super().__init__(tree, name=name, on_close=_closing(members, is_owner), members=members)
        self.members = tuple(members)
        """The data sets, the one that counts most last."""
        self.origin = _origin(members, name)


class ChainWriter(DafWriter):
    """Several data sets as one, of which the last is written; `chain_writer` returns it."""

    def __init__(
        self, bases: Sequence[DafReader], last: DafWriter, *, name: str, is_owner: bool = False
    ) -> None:
        tree = WritableChainTree([base.tree for base in bases], last.writable_tree)
        tree.check_lengths()
        self.members = members = (*bases, last)
        """The data sets, the one that is written last."""
        super().__init__(tree, name=name, on_close=_closing(members, is_owner), members=members)
        self._chain = tree
        self.origin = _origin(self.members, name)

    def delete_axis(self, axis: str, *, must_exist: bool = True) -> None:
        """Delete an axis that only the last data set has; see `DafWriter.delete_axis`."""
        self._check_not_in_base(layout.axis_path(axis), "deleted")
        super().delete_axis(axis, must_exist=must_exist)

    def check_orders(self, orders: Mapping[str, Any]) -> dict[str, Any]:
        """Return which old position comes to each new one; of axes of the last data set only."""
        for axis in orders:
            self._check_not_in_base(layout.axis_path(axis), "reordered")
        return super().check_orders(orders)

    def _tree_of_new(self, tree: WritableTree) -> WritableTree:
        return tree.last if isinstance(tree, WritableChainTree) else tree

    def _remove(self, path: str) -> None:
        self._check_not_in_base(path, "deleted")
        super()._remove(path)

    def _check_not_in_base(self, path: str, change: str) -> None:
        """Raise if an earlier data set has a property: only the last one is changed."""
        self._check_open()
        place = layout.property_of(path)
        having = [] if place is None else self._chain.holders(place)
        holders = [tree for tree in having if tree is not self._chain.last]
        if holders:
            hidden = "" if change == "reordered" else "; what the last one stores instead hides it"
            raise ReadOnlyError(
                f"{self.location}: {damage_of(path, '').what} cannot be {change}: "
                f"{holders[-1].location} has it, and "
                f"only {self._chain.last.location} is changed{hidden}"
            )

    def _check_free(self, path: str, if_exists: IfExists) -> None:
        is_axis = path.startswith(f"{layout.AXES}/")
        if is_axis and if_exists == "replace":
            self._check_not_in_base(path, "replaced")
        is_of_base = bool(self._chain.kind(path)) and self._chain.last.kind(path) is None
        if is_of_base and if_exists == "error":
            error = errors.ExistsError(f"{self.location}: {layout.in_words(path)} exists already")
            raise error if is_axis else with_remedy(error, Remedy("pass ", REPLACE, " to hide it"))
        super()._check_free(path, if_exists)


def _members(dafs: Sequence[DafReader], function: str) -> list[DafReader]:
    members = list(dafs)
    if not members:
        raise errors.InvalidInputError(f"{function} was given no data set: the chain is empty")
    for member in members:
        check_reader(member, function)
    return members


def _name(members: Sequence[DafReader], name: str | None) -> str:
    return unique_name(name or ";".join(member.name for member in members))


def _origin(members: Sequence[DafReader], name: str) -> Origin | None:
    """Return how a chain is opened again for reading: each by its path; None if one has none."""
    origins = [member.origin for member in members]
    reopenable = tuple(origin for origin in origins if origin is not None)
    if len(reopenable) < len(origins):
        return None
    return Origin(partial(_open_again, reopenable), reopenable[-1].path, name)


def _open_again(origins: Sequence[Origin], path: str) -> DafReader:  # noqa: ARG001 - each has its own
    members = [origin.open() for origin in origins]
    return ChainReader(members, name=";".join(origin.name for origin in origins), is_owner=True)


def _closing(members: Sequence[DafReader], is_owner: bool) -> Callable[[], None] | None:  # noqa: FBT001 - passed on
    """Return what closes data sets with what is made of them, if it owns them."""

    def close() -> None:
        for member in members:
            member.close()

    return close if is_owner else None


ViewData: TypeAlias = Mapping[Any, str | None] | Sequence[tuple[Any, str | None]]
"""By its name in the view, a string or a tuple: what each scalar, vector and matrix is."""


def view(
    daf: DafReader,
    axes: ViewAxes | None = None,
    data: ViewData | None = None,
    *,
    name: str | None = None,
) -> DafReader:
    """Return a part of a data set as a data set that can be read; nothing is copied.

    Numbers of a range of entries are views of the mapped file; those of other entries are gathered
    when they are asked for.

    Parameters
    ----------
    daf
        An open data set; it stays yours, and the view cannot be read once it is closed.
    axes
        By the name in the view, what an axis is: ``"="``, that of the same name; None, hidden; a
        name, that axis of the base; positions, names, a mask or a slice, those entries of the axis
        of the same name, in that order; or a pair of a name and such entries.  ``"*"`` stands for
        all axes.  What a mapping does not name is as in the base.
    data
        By the name in the view, what a property is: ``"="``, None, or its name in the base.  A key
        is the name of a scalar, ``(axis, name)`` or ``(rows_axis, columns_axis, name)``, with the
        axes of the view; ``"*"`` stands for any.  What a mapping does not name is as in the base.
        Parts of an AnnData that are no properties are shown under their names, such as
        ``uns.tree`` or ``("obs", "obsm.cube")``, with the chosen entries, or hidden.
    name
        Its name; by default that of the data set and ``.view``.

    Returns
    -------
    DafReader
        It shows what is written to the base later, but for the entries that were chosen: if these
        are reordered or replaced, reading it is a ``LabelsError``.

    Raises
    ------
    NotFoundError
        The base has no such axis, entry or property.
    DuplicateEntriesError, LengthError, InvalidInputError
        An entry is chosen twice; a mask has another length than its axis; or a key or value makes
        no sense.

    Notes
    -----
    Instead of a mapping, ``axes`` and ``data`` may be lists of pairs as in the reference: these say
    all that is shown, and the last pair that matches counts.

    A categorical whose axis is hidden keeps its categories in an AnnData, without colours.

    A sparse matrix of some entries is shown in the orientation that stores them as columns, if
    there is one; else all its row numbers are read once.

    Examples
    --------
    >>> import daf_storage
    >>> daf = daf_storage.MemoryDaf()
    >>> daf.add_axis("cell", ["A", "B", "C"])
    >>> daf.set_vector("cell", "age", [30, 60, 90])
    >>> part = view(daf, {"cell": ["C", "A"]}, {("cell", "years"): "age", ("cell", "age"): None})
    >>> part.get_np_vector("cell", "years").tolist(), part.vectors_set("cell")
    ([90, 30], {'years'})
    """
    check_reader(daf, "view()")
    return ViewReader(daf, axes, data, name=unique_name(name or f"{daf.name}.view"))


class ViewReader(DafReader):
    """A part of a data set; `view` returns it.

    Parameters
    ----------
    is_owner
        Whether the data set is closed with it.
    """

    how_to_write = "a view is never written; write to the data set of which it shows a part"

    def __init__(
        self,
        daf: DafReader,
        axes: ViewAxes | None,
        data: ViewData | None,
        *,
        name: str,
        is_owner: bool = False,
    ) -> None:
        data = {} if data is None else data
        rules = data_rules(data)
        shown = view_axes(daf, {} if axes is None else axes)
        tree = ViewTree(daf.tree, shown, rules)
        super().__init__(tree, name=name, on_close=_closing([daf], is_owner), members=[daf])
        self.base = daf
        """The data set of which a part is shown."""
        self._shown = shown
        self._data = data
        _check_rules(self, daf, shown, rules, may_hide_nothing=not isinstance(data, Mapping))

    def require_origin(self) -> Origin:
        """Return how it can be opened again: its base, with the same positions.

        Whoever opens it compares the entries that these are of.
        """
        self._check_open()
        origin = self.base.require_origin()
        axes = [
            (axis.name, axis.base if axis.entries is None else (axis.base, axis.entries.positions))
            for axis in self._shown.values()
        ]
        digests = {
            axis.base: _digest(self.base, axis.base)
            for axis in self._shown.values()
            if axis.entries is not None
        }
        return Origin(
            partial(_view_again, origin, axes, self._data, digests), origin.path, self.name
        )


def stored_members(daf: DafReader) -> Iterator[DafReader]:
    """Yield the data sets that a chain or a view consists of; one that is stored is its own."""
    if isinstance(daf, ChainReader | ChainWriter):
        for member in daf.members:
            yield from stored_members(member)
    elif isinstance(daf, ViewReader):
        yield from stored_members(daf.base)
    else:
        yield daf


def _view_again(
    origin: Origin, axes: ViewAxes, data: ViewData | None, digests: Mapping[str, str], path: str
) -> DafReader:
    daf = origin.open()
    for axis, digest in digests.items():
        if _digest(daf, axis) != digest:
            daf.close()
            raise errors.LabelsError(
                f"{path}: axis {axis!r} has other entries than when a view of some of them was "
                "pickled; make the view again"
            )
    return ViewReader(daf, axes, data, name=f"{daf.name}.view", is_owner=True)


def _digest(daf: DafReader, axis: str) -> str:
    """Return a digest of the entries of an axis."""
    entries = daf.get_pa_vector(axis, NAME_VECTOR).cast(pa.large_string())
    hashed = hashlib.blake2b(digest_size=16)
    for buffer in pa.concat_arrays([entries]).buffers()[1:]:
        hashed.update(b"" if buffer is None else buffer)
    return hashed.hexdigest()


def _check_rules(
    reader: DafReader,
    daf: DafReader,
    axes: Mapping[str, ViewAxis],
    rules: DataRules,
    *,
    may_hide_nothing: bool,
) -> None:
    """Raise if a rule names an axis that is not shown, or a property that the base lacks.

    Of a mapping also if the property was to be hidden: by a typo it would be shown.
    """
    required: list[tuple[Callable[..., bool], Callable[..., Any]]] = [
        (daf.has_scalar, daf.get_scalar),
        (daf.has_vector, daf.open_vector),
        (daf.has_matrix, daf.open_orientations),
    ]
    for key, value in rules.rules:
        *of_axes, name = key
        for axis in of_axes:
            if axis not in (ANY, *axes):
                raise errors.axis_not_found(reader.location, axis, axes)
        if ANY in key or (value is None and may_hide_nothing):
            continue
        wanted = name if value in ("=", None) else value
        base = [axes[axis].base for axis in of_axes]
        part = "/".join([kept.GROUP, kept.LEVELS[len(base)], *base, wanted])
        if value != wanted and daf.tree.kind(part) is not None:  # what is no property
            continue
        is_there, require = required[len(base)]
        if not is_there(*base, wanted):
            require(*base, wanted)
