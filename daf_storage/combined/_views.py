"""Views: a part of a data set, under other names, as a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from daf_storage import errors
from daf_storage.base import NAME_VECTOR, unique_name
from daf_storage.combined._chains import ChainReader, ChainWriter
from daf_storage.combined._view_axes import ViewAxes, ViewAxis, view_axes
from daf_storage.combined._view_names import ANY, DataRules, data_rules
from daf_storage.combined._view_tree import ViewTree
from daf_storage.data import DafReader, Origin, check_reader
from daf_storage.data.kept import GROUP as PARTS
from daf_storage.data.kept import LEVELS

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
        ``uns.tree`` or ``("obs", "obsm.cube")``, or hidden.
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
    """A part of a data set; `view` returns it."""

    how_to_write = "a view is never written; write to the data set of which it shows a part"

    def __init__(
        self,
        daf: DafReader,
        axes: ViewAxes | None,
        data: ViewData | None,
        *,
        name: str,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        rules = data_rules(data)
        shown = view_axes(daf, axes)
        super().__init__(ViewTree(daf.tree, shown, rules), name=name, on_close=on_close)
        self._base = daf
        self._shown = shown
        self._rules = rules
        self._data = data
        _check_rules(self, daf, shown, rules, may_hide_nothing=not isinstance(data, Mapping))

    @property
    def base(self) -> DafReader:
        """The data set of which a part is shown."""
        return self._base

    def require_origin(self) -> Origin:
        """Return how it can be opened again: its base, with the same positions.

        Whoever opens it compares the entries that these are of.
        """
        self._check_open()
        origin = self._base.require_origin()
        axes = [
            (axis.name, axis.base if axis.entries is None else (axis.base, axis.entries.positions))
            for axis in self._shown.values()
        ]
        digests = {
            axis.base: _digest(self._base, axis.base)
            for axis in self._shown.values()
            if axis.entries is not None
        }
        return Origin(
            partial(_open_again, origin, axes, self._data, digests), origin.path, self.name
        )

    def _check_open(self) -> None:
        super()._check_open()
        self._base._check_open()  # noqa: SLF001 - one data set


def owning_view(
    daf: DafReader, axes: ViewAxes | None, data: ViewData | None, *, name: str
) -> DafReader:
    """Return a view that closes its base when it is closed."""
    return ViewReader(daf, axes, data, name=name, on_close=daf.close)


def stored_members(daf: DafReader) -> Iterator[DafReader]:
    """Yield the data sets that a chain or a view consists of; one that is stored is its own."""
    if isinstance(daf, ChainReader | ChainWriter):
        for member in daf.members:
            yield from stored_members(member)
    elif isinstance(daf, ViewReader):
        yield from stored_members(daf.base)
    else:
        yield daf


def _open_again(
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
    return owning_view(daf, axes, data, name=f"{daf.name}.view")


def _digest(daf: DafReader, axis: str) -> str:
    """Return a digest of the entries of an axis."""
    entries = daf.get_pa_vector(axis, NAME_VECTOR).cast(pa.large_string())
    hashed = hashlib.blake2b(digest_size=16)
    for buffer in pa.concat_arrays([entries]).buffers()[1:]:
        hashed.update(b"" if buffer is None else buffer)
    return hashed.hexdigest()


def _is_kept_part(daf: DafReader, axes: Sequence[str], name: str) -> bool:
    """Return whether a name is that of a part of an AnnData which is no property."""
    level = LEVELS[len(axes)]
    return daf.tree.kind("/".join([PARTS, level, *axes, name])) is not None


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
    for key, value in rules.rules:
        *of_axes, name = key
        for axis in of_axes:
            if axis not in (ANY, *axes):
                raise errors.axis_not_found(reader.location, axis, axes)
        if ANY in key or (value is None and may_hide_nothing):
            continue
        wanted = name if value in ("=", None) else value
        base = [axes[axis].base for axis in of_axes]
        if value != wanted and _is_kept_part(daf, base, wanted):
            continue
        if not base and not daf.has_scalar(wanted):
            raise errors.scalar_not_found(daf.location, wanted, daf.scalars_set())
        if len(base) == 1 and not daf.has_vector(base[0], wanted):
            known = daf.vectors_set(base[0])
            raise errors.vector_not_found(daf.location, base[0], wanted, known)
        if len(base) > 1 and not daf.has_matrix(base[0], base[1], wanted):
            known = daf.matrices_set(base[0], base[1])
            raise errors.matrix_not_found(daf.location, base[0], base[1], wanted, known)
