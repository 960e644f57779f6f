"""Concatenate data sets into a new one, out of core: nothing is there before all of it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from daf_storage import errors
from daf_storage.anndata import Report
from daf_storage.base import IfExists, Packing, ShowProgress
from daf_storage.concat._concatenation import Concatenation
from daf_storage.concat._members import Member
from daf_storage.concat._options import (
    Join,
    Merging,
    Options,
    PropertyKey,
    checked_axes,
    checked_choice,
    checked_empty,
    checked_fraction,
    checked_merge,
    checked_number,
    checked_prefixed,
    checked_prefixes,
)
from daf_storage.data import DafReader, DafWriter, check_reader, check_writer
from daf_storage.h5ad import undone_on_error
from daf_storage.opening import check_outside, new_data_set, open_daf, parse_path
from daf_storage.stores import is_remote, shown_url
from daf_storage.trees import ZarrVersion

Source: TypeAlias = DafReader | str | Path
"""An open data set, or a path of one."""

_SUFFIXES: Final = re.compile(r"(\.dafs?)?(\.zarr|\.h5dfs?|\.h5ad|\.hdf5|\.h5)?(\.zip)?$")


def concatenate(  # noqa: PLR0913 - the choices of the reference
    destination: str | Path | DafWriter,
    axis: str | Sequence[str],
    sources: Sequence[Source],
    *,
    names: Sequence[str] | None = None,
    dataset_axis: str | None = "dataset",
    dataset_property: bool = True,
    prefix: bool | Sequence[bool] = False,
    prefixed: Iterable[str] | Sequence[Iterable[str]] | None = None,
    duplicates: Literal["error", "make_unique"] = "error",
    join: Join = "exact",
    fill_value: float | None = None,
    empty: Mapping[PropertyKey, Any] | None = None,
    sparse_if_saves_storage_fraction: float = 0.25,
    merge: Merging | None = None,
    relayout: bool = True,
    if_exists: IfExists = "error",
    zarr_format: ZarrVersion | None = None,
    packed: bool | Packing = False,
    progress: ShowProgress = "auto",
) -> Report:
    """Concatenate data sets along an axis, or along several, into a new data set.

    The semantics are those of the reference implementation, and more can be asked for: entries of
    other axes that differ (``join``), and merging what is the same everywhere (``merge="same"``).
    Matrices are streamed: memory grows with the number of entries, and not with the matrices.

    Parameters
    ----------
    destination
        A path, at which the result appears when it is complete, or an empty data set.
    axis
        The axis, or axes, whose entries are put one after the other; each source has them.
    sources
        Open data sets, or paths.
    names
        What the data sets are called in the result, each in another way.  By default a path goes
        by its file name without suffixes, an open data set by its name.
    dataset_axis
        The axis of the data sets in the result; None for none.
    dataset_property
        Whether each concatenated axis has a vector of that name, which says from which data set
        an entry is.
    prefix
        Whether to write the name of the data set, and a dot, before each entry; for all
        concatenated axes, or for each.  Vectors whose values are entries of such an axis get the
        prefix as well.
    prefixed
        The vectors that get the prefix, for each axis, if their names do not say it: by default
        those that are called as the axis, with or without a dot and something after it, and those
        that were recorded to hold its entries.
    duplicates
        What to do with entries that are in several data sets: refuse, or append ``-1``, ``-2``...
    join
        Which entries other axes have: ``"exact"``, all sources must have the same in the same
        order; ``"inner"``, those of all sources, and vectors and matrices that some source lacks
        are left out; ``"outer"``, those of any, and what a source lacks is missing.  Categories
        of an AnnData are always those of any.
    fill_value
        The elements of a matrix for entries that a source lacks; by default 0 in a matrix that a
        source stores sparse, NaN in one that all store densely.
    empty
        Values that stand for a property where a source lacks it: by ``(axis, vector)``,
        ``(rows_axis, columns_axis, matrix)`` or the name of a scalar.
    sparse_if_saves_storage_fraction
        Something is stored sparse if that saves at least this part of the space.
    merge
        What becomes of scalars, and of vectors and matrices of other axes: ``"skip"`` (the
        default), ``"last"``, ``"collect"`` or ``"same"`` for all of them, or pairs of a property
        and an action, of which the last that applies counts; ``"*"`` stands for any name.  They are
        the reference's ``SkipProperty``, ``LastValue`` and ``CollectAxis``; ``"same"`` keeps what
        is equal wherever it is.
    relayout
        Whether to store matrices in both orientations.
    if_exists
        What becomes of a data set at the destination's path:
        ``"error"`` leaves it, ``"replace"`` replaces it.
    zarr_format, packed
        How to write it, see `open_daf`.
    progress
        Whether to show a progress bar on stderr.

    Returns
    -------
    Report
        What was left out, and why.

    Raises
    ------
    DuplicateEntriesError
        An entry of a concatenated axis occurs twice.
    LabelsError
        The entries of another axis differ, and ``join`` is ``"exact"``.
    VectorNotFoundError, MatrixNotFoundError
        A source lacks what others have, ``join`` is ``"exact"``, and nothing in ``empty`` stands
        for it.
    ExistsError
        There is something at the destination and ``if_exists`` is ``"error"``; or the destination
        is not empty.

    Examples
    --------
    >>> import daf_storage
    >>> runs = []
    >>> for name, cells in (("run0", ["A", "B"]), ("run1", ["C"])):
    ...     run = daf_storage.MemoryDaf(name=f"{name}!")
    ...     run.add_axis("cell", cells)
    ...     runs.append(run)
    >>> both = daf_storage.MemoryDaf()
    >>> _ = concatenate(both, "cell", runs, names=["run0", "run1"])
    >>> both.axis_entries("cell").tolist(), both.get_np_vector("cell", "dataset").tolist()
    (['A', 'B', 'C'], ['run0', 'run0', 'run1'])
    """
    axes = checked_axes(axis)
    checked_choice(join, Join, "join")
    checked_choice(duplicates, Literal["error", "make_unique"], "duplicates")
    options = Options(
        axes=axes,
        dataset_axis=dataset_axis,
        dataset_property=dataset_property,
        prefixes=checked_prefixes(prefix, axes),
        prefixed=checked_prefixed(prefixed, axes),
        duplicates=duplicates,
        join=join,
        fill_value=checked_number(fill_value, "fill_value"),
        empty=checked_empty(empty),
        merge=checked_merge(merge),
        sparse_if_saves_storage_fraction=checked_fraction(sparse_if_saves_storage_fraction),
        relayout=relayout,
    )
    with ExitStack() as stack:
        members = _members(sources, names, stack)
        if isinstance(destination, DafReader):
            check_writer(destination, "concatenate")
            _check_empty(destination)
            with undone_on_error(destination):
                return Concatenation(destination, members, options, None).run(progress)
        style: dict[str, Any] = {"zarr_format": zarr_format, "packed": packed}
        for member in members:
            check_outside(member.daf, destination)
        new = stack.enter_context(new_data_set(destination, if_exists=if_exists, **style))
        folder = parse_path(destination).container.parent
        return Concatenation(new, members, options, folder).run(progress)


def _members(
    sources: Sequence[Source], names: Sequence[str] | None, stack: ExitStack
) -> list[Member]:
    """Open the sources, each by its name in the result."""
    if isinstance(sources, str | Path | DafReader) or not len(sources):
        raise errors.InvalidInputError(
            f"concatenate takes a list of one or more data sets, not {sources!r}"
        )
    opened = [_opened(source, stack) for source in sources]
    given: list[Any] = _default_names(sources, opened) if names is None else list(names)
    if len(given) != len(opened):
        raise errors.InvalidInputError(
            f"there are {len(given):,} names for {len(opened):,} data sets; pass one for each"
        )
    for name in given:
        if not isinstance(name, str) or not name:
            raise errors.InvalidInputError(f"names has {name!r}, which is no name of a data set")
        if given.count(name) > 1:
            raise errors.DuplicateEntriesError(
                f"two of the data sets are called {name!r}; pass names=[...], each another one"
            )
    return [Member(name, daf) for name, daf in zip(given, opened, strict=True)]


def _opened(source: Source, stack: ExitStack) -> DafReader:
    if isinstance(source, str | Path):
        return stack.enter_context(open_daf(source))
    check_reader(source, "concatenate")
    return source


def _default_names(sources: Sequence[Source], opened: list[DafReader]) -> list[str]:
    """Return file names without suffixes; whole paths of those that would be called the same."""
    stems = [
        _stem(str(source)) if isinstance(source, str | Path) else daf.name
        for source, daf in zip(sources, opened, strict=True)
    ]
    return [
        str(source) if stems.count(stem) > 1 and isinstance(source, str | Path) else stem
        for source, stem in zip(sources, stems, strict=True)
    ]


def _stem(path: str) -> str:
    """Return what people would call a data set.

    >>> _stem("runs/run0.h5ad"), _stem("week.dafs.zarr.zip#/monday"), _stem("a/b.daf.zarr/")
    ('run0', 'monday', 'b')
    """
    shown = shown_url(path) if is_remote(path) else path
    name = re.split(r"[\\/]", shown.rstrip("/\\"))[-1]
    return _SUFFIXES.sub("", name) or name


def _check_empty(daf: DafWriter) -> None:
    if daf.axes_set() or daf.scalars_set():
        has = errors.known_names(daf.axes_set() | daf.scalars_set(), none="")
        raise errors.ExistsError(
            f"{daf.location}: data sets are concatenated into an empty one; this one has {has}"
        )
