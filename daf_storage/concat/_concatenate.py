"""One concatenation: axes first, then vectors, and the matrices at last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage.anndata import AXIS_KEYS, NOTES, Report
from daf_storage.base import IfExists, Packing, ShowProgress, check_choice, check_name, progress_bar
from daf_storage.concat._properties import MergedMatrix, MergedVector, Rule, write_notes
from daf_storage.concat._run import (
    Join,
    Member,
    Merging,
    Options,
    PropertyKey,
    ResultAxis,
    Run,
    checked_axes,
    checked_empty,
    checked_fraction,
    checked_merge,
    checked_number,
    checked_prefixed,
    checked_prefixes,
    concatenated_axis,
    shared_axes,
    string_of,
)
from daf_storage.data import (
    DafReader,
    DafWriter,
    check_reader,
    check_writer,
    digest,
    is_same_scalar,
    kept,
    ordered,
    promoted,
)
from daf_storage.h5ad import undone_on_error
from daf_storage.opening import check_outside, new_data_set, open_daf, parse_path, short_names
from daf_storage.trees import ZarrVersion
from daf_storage.upkeep import Copier

_HINT = "it does not run along a concatenated axis; merge= keeps it"
_DIFFER = "the data sets have different values"


def merge_scalar(run: Run, name: str, action: str) -> None:
    """Merge a scalar."""
    what, empty = f"scalar {name!r}", run.options.empty_of(name)
    values = [_scalar(member, name) for member in run.members]
    present = [value for value in values if value is not None]
    if action == "skip":
        run.report.lost(what, _HINT)
    elif action == "collect":
        axis = _dataset_axis(run, what)
        if empty is not None or run.keeps(values, what, name):
            _collect_scalar(run, axis, name, [empty if v is None else v for v in values])
    elif action == "last" or all(is_same_scalar(value, present[0]) for value in present):
        run.daf.set_scalar(name, present[-1])
    else:
        run.report.lost(what, _DIFFER)


def _collect_scalar(run: Run, axis: str, name: str, values: list[Any]) -> None:
    """Store a vector of scalars, of which some may be missing."""
    if any(isinstance(value, str) for value in values):
        strings = pa.array(["" if v is None else string_of(v) for v in values], pa.string())
        run.daf.set_vector(axis, name, strings, empty_is_missing=None in values)
        return
    numbers = [np.nan if value is None else value for value in values]
    dtypes = [np.asarray(number).dtype for number in numbers]
    run.daf.set_vector(axis, name, np.array(numbers, promoted(dtypes)))


def _dataset_axis(run: Run, what: str) -> str:
    if run.options.dataset_axis is None:
        raise errors.InvalidInputError(
            f"{run.daf.location}: {what} cannot be collected, since there is no axis of the data "
            "sets; leave out dataset_axis=None, or merge it with 'last' or 'same'"
        )
    return run.options.dataset_axis


def merge_vector(run: Run, axis: ResultAxis, name: str) -> Rule | None:
    """Merge a vector of a shared axis; return its rule if the result has it on the same axis."""
    key = (axis.name, name)
    action = run.options.merge_action(key)
    what = f"vector {name!r} of axis {axis.name!r}"
    if action == "skip":
        run.report.lost(what, _HINT)
        return None
    vector = MergedVector(run, axis, name)
    if action == "collect":
        dataset_axis = _dataset_axis(run, what)
        if vector.empty is not None or run.keeps(vector.stored, what, key):
            vector.write_columns(dataset_axis)
        return None
    is_filled = vector.lacks_values and vector.empty is None
    if action == "same" and not vector.agrees():
        run.report.lost(what, _DIFFER)
    elif action == "same" and is_filled and run.options.join != "outer":
        run.report.lost(what, "no data set that has it has all entries")
    else:
        return vector.write()
    return None


def merge_matrix(run: Run, rows: ResultAxis, columns: ResultAxis, name: str) -> None:
    """Merge a matrix of two shared axes, unless it is to be left out."""
    axes = (rows.name, columns.name)
    action = run.options.merge_action((*axes, name), (*axes[::-1], name))
    what = f"matrix {name!r} of axes {axes[0]!r} and {axes[1]!r}"
    having = [n for n, member in enumerate(run.members) if name in member.matrices(*axes)]
    if action == "skip":
        run.report.lost(what, _HINT)
        return
    are_whole = all(a.alignments[n].places is None for a in (rows, columns) for n in having)
    if action == "same" and not (are_whole and _agree(run, axes, name, having)):
        run.report.lost(what, f"{_DIFFER}, or entries")
        return
    last = having[-1]
    source, options = run.members[last].daf, run.options
    info, dtype = source.open_orientations(*axes, name)[0].info, None
    fill = options.fill_of([info], (*axes, name), (*axes[::-1], name))
    if any(axis.alignments[last].missing.size for axis in (rows, columns)) and fill != "":
        dtype = promoted([info.storage_type.dtype], fill)
    key, relayout = (info.rows_axis, info.columns_axis, name), options.relayout
    copier = Copier(
        source, run.daf, "concatenate", "error", becomes_sparse=info.is_sparse, add=run.add
    )
    copier.property(key, key, dtype=dtype, empty=fill, relayout=relayout)


def _agree(run: Run, axes: tuple[str, str], name: str, having: list[int]) -> bool:
    digests = set()
    for number in having:
        stored = ordered(run.members[number].daf.open_orientations(*axes, name)[0])
        is_flipped = stored.info.is_row_major or stored.info.rows_axis != axes[0]
        found = digest(stored, lambda _: None, flipped=is_flipped)
        digests.add((stored.info.storage_type, found))
    return len(digests) == 1


def _scalar(member: Member, name: str) -> Any:
    """Return a scalar in the type in which it is stored; None if there is none."""
    value = member.daf.get_scalar(name, default=None)
    is_string = value is None or isinstance(value, str)
    return value if is_string else member.daf.scalar_type(name).dtype.type(value)


def write_kept_parts(run: Run) -> None:
    """Merge what is kept of ``uns``; what is aligned to an axis is left out, and noted."""
    given: dict[str, list[kept.KeptPart]] = {}
    for member in run.members:
        for part in kept.parts(member.daf.tree):
            if part.axes:
                what = f"{part.part}[{part.key!r}]" if part.key else part.part
                run.report.lost(
                    what, f"it lies beside the data in {member.name!r}, and is not concatenated"
                )
            else:
                given.setdefault(part.path, []).append(part)
    for path, parts in given.items():
        action = run.options.merge_action(parts[0].key)
        last = parts[-1].array.read()
        is_same = all(np.array_equal(part.array.read(), last) for part in parts)
        if action == "last" or (action == "same" and is_same):
            kept.keep(run.daf.writable_tree, path, last)
        else:
            run.report.lost(
                f"uns[{parts[0].key!r}]", "merge= keeps it, if it is 'last', or 'same' and is"
            )


def _run(run: Run, show: ShowProgress) -> Report:
    """Do it; return what was left out."""
    _check_axes(run)
    _add_axes(run)
    matrices = list(_matrices(run))
    rules: dict[str, dict[str, Rule]] = {axis: {} for axis in run.axes}
    total = sum(matrix.size_bytes for matrix in matrices)
    with progress_bar("concatenate", total, show=show) as bar:
        run.add = bar.add
        for axis in run.of_axes(is_concatenated=True):
            for name in run.vectors(axis):
                vector = MergedVector(run, axis, name)
                what = f"vector {name!r} of axis {axis.name!r}"
                is_filled = vector.empty is not None
                if is_filled or run.keeps(vector.stored, what, (axis.name, name)):
                    rules[axis.name][name] = vector.write()
        _merge_shared(run, rules)
        for matrix in matrices:
            matrix.write()
    write_kept_parts(run)
    write_notes(run, rules)
    return run.report


def _check_axes(run: Run) -> None:
    dataset, axes = run.options.dataset_axis, run.options.axes
    for member in run.members:
        available = member.axes
        for axis in axes:
            if axis not in available:
                raise errors.axis_not_found(member.daf.location, axis, available)
        if dataset in available:
            raise errors.ExistsError(
                f"{member.daf.location}: there is an axis {dataset!r} already, as of what was "
                "concatenated before; pass another dataset_axis"
            )
        for axis in axes if run.options.dataset_property else ():
            if dataset is not None and dataset in member.vectors(axis):
                raise errors.ExistsError(
                    f"{member.daf.location}: there is a vector {dataset!r} of axis {axis!r} "
                    "already; pass another dataset_axis, or dataset_property=False"
                )
    if dataset is not None:
        check_name(run.daf.location, "axis", dataset)


def _add_axes(run: Run) -> None:
    for name in run.options.axes:
        run.axes[name] = concatenated_axis(run, name)
    for axis in shared_axes(run):
        run.axes[axis.name] = axis
    dataset = run.options.dataset_axis
    names = pa.array([member.name for member in run.members], pa.string())
    if dataset is not None:
        run.daf.add_axis(dataset, names)
    for axis in run.axes.values():
        run.daf.add_axis(axis.name, axis.entries)
    if dataset is not None and run.options.dataset_property:
        for axis in run.of_axes(is_concatenated=True):
            counts = [axis.places(number).size for number in range(len(names))]
            values = names.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
            run.daf.set_vector(axis.name, dataset, values, entries_of=dataset)


def _matrices(run: Run) -> Iterator[MergedMatrix]:
    """Yield the matrices that have a concatenated axis, as they are to be written.

    The columns are concatenated, and perhaps the rows too.
    """
    concatenated = run.of_axes(is_concatenated=True)
    for number, columns in enumerate(concatenated):
        for rows in (*run.of_axes(is_concatenated=False), *concatenated[number:]):
            pair = (rows.name, columns.name)
            for name in run.matrices(rows, columns):
                matrix = MergedMatrix(run, rows, columns, name)
                empty = run.options.empty_of((*pair, name), (*pair[::-1], name))
                what = f"matrix {name!r} of axes {pair[0]!r} and {pair[1]!r}"
                is_filled = rows.is_concatenated or empty is not None
                if is_filled or run.keeps(matrix.stored, what, (*pair[::-1], name)):
                    yield matrix


def _merge_shared(run: Run, rules: dict[str, dict[str, Rule]]) -> None:
    """Merge the properties of other axes; add the rules of their vectors."""
    for name in sorted({name for member in run.members for name in member.daf.scalars_set()}):
        if name != NOTES:
            merge_scalar(run, name, "same" if name in AXIS_KEYS else run.options.merge_action(name))
    axes = run.of_axes(is_concatenated=False)
    for number, axis in enumerate(axes):
        for name in run.vectors(axis):
            rule = merge_vector(run, axis, name)
            if rule is not None:
                rules[axis.name][name] = rule
        for columns in axes[number:]:
            for name in run.matrices(axis, columns):
                merge_matrix(run, axis, columns, name)


Source: TypeAlias = DafReader | str | Path
"""An open data set, or a path of one."""


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
        Something that is made of several is stored sparse if that saves at least this part of the
        space.
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
    check_choice(join, Join, "join")
    check_choice(duplicates, Literal["error", "make_unique"], "duplicates")
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
                return _run(Run(destination, members, options, None), progress)
        style: dict[str, Any] = {"zarr_format": zarr_format, "packed": packed}
        for member in members:
            check_outside(member.daf, destination)
        new = stack.enter_context(new_data_set(destination, if_exists=if_exists, **style))
        return _run(Run(new, members, options, parse_path(destination).container.parent), progress)


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
    """Return what people would call data sets: by their paths, or their own names."""
    pairs = [(isinstance(each, str | Path), daf) for each, daf in zip(sources, opened, strict=True)]
    short = iter(short_names([daf.location for is_path, daf in pairs if is_path]))
    return [next(short) if is_path else daf.name for is_path, daf in pairs]


def _check_empty(daf: DafWriter) -> None:
    if daf.axes_set() or daf.scalars_set():
        has = errors.shown_names(daf.axes_set() | daf.scalars_set(), none="")
        raise errors.ExistsError(
            f"{daf.location}: data sets are concatenated into an empty one; this one has {has}"
        )
