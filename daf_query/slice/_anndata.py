"""Convert a matrix slice to an AnnData, with the other matrices over the same axes.

**Nouns.** A *companion* is a matrix that can come along with ``X``: a layer, an entry of ``obsm``
and so on.  The caller's *choice* names companions; the others come along as far as their estimated
sizes fit a budget of bytes.  The rules of the parts are those of `daf_storage.to_anndata`.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypedDict

from daf_query._provenance import KEY, Record, as_json
from daf_query.matrix import (
    STRING_BYTES,
    AlignedAxis,
    EntryAxis,
    Selection,
    aligned_axis,
    info_of,
    open_layouts,
)
from daf_query.slice._blocks import dask_array
from daf_query.slice._parts import Part, Whole, read_whole, slice_of
from daf_query.slice._tables import axis_tables
from daf_storage import AnnDataWarning, errors
from daf_storage.anndata import ANNDATA_PARTS, AlignedMatrix, aligned_matrices
from daf_storage.base import optional_import
from daf_storage.data import StoredMatrix, kept

ANNDATA_MAX_BYTES: Final = 1 << 30
"""Default of ``max_bytes=``: 1 GiB for what comes along with ``X``."""

_INDEX_BYTES: Final = 4

Choice: TypeAlias = bool | str | Iterable[str] | None
"""All (True) or none (False) of a part; a key, or several; by default as many as fit."""


class AnnDataChoice(TypedDict, total=False):
    """What comes along with ``X``; see `MatrixSlice.to_anndata`."""

    layers: Choice
    obsm: Choice
    varm: Choice
    obsp: Choice
    varp: Choice
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Companion:
    """A matrix that can come along with ``X``."""

    matrix: AlignedMatrix
    estimated_bytes: int
    """Its selected part in memory; of a sparse matrix, as if its elements were spread evenly."""

    @property
    def label(self) -> str:
        """Its place in the AnnData, such as ``layers['counts']``."""
        return f"{self.matrix.part}[{self.matrix.key!r}]"


@dataclass(frozen=True, slots=True)
class Companions:
    """The matrices over the axes of a slice."""

    main: AlignedMatrix
    """The matrix of the slice, which is ``X``."""
    available: tuple[Companion, ...]
    unavailable: Mapping[tuple[str, str], errors.DafError]
    """Why a matrix cannot come along, by its part and its key."""


def find_companions(whole: Whole) -> Companions:
    """Return what could come along with a slice; reads metadata only.

    Of several data sets, what all of them have over both axes, or over the concatenated one and
    axes of their own.
    """
    of_members = [_companions_of(member) for member in whole.members]
    if not whole.is_collection:
        return of_members[0]
    if not of_members:
        return Companions(AlignedMatrix("X", "", *whole.axis_names, whole.name), (), {})
    parts = ("layers", _annotated(whole))
    by_key = [
        {(c.matrix.part, c.matrix.key): c for c in each.available if c.matrix.part in parts}
        for each in of_members
    ]
    available: list[Companion] = []
    unavailable = {
        key: error
        for each in of_members
        for key, error in each.unavailable.items()
        if key[0] in parts
    }
    for key in dict.fromkeys(key for each in by_key for key in each):
        members = zip(whole.members, by_key, strict=True)
        lacking = [member.name for member, each in members if key not in each]
        if lacking:
            unavailable[key] = errors.MatrixNotFoundError(
                f"{whole.location}: {errors.shown_names(lacking)} has no {key[0]}[{key[1]!r}]"
            )
            continue
        companions = [each[key] for each in by_key]
        matrix = _with_common_note([companion.matrix for companion in companions])
        available.append(Companion(matrix, sum(each.estimated_bytes for each in companions)))
    main = _with_common_note([each.main for each in of_members])
    return Companions(main, tuple(available), unavailable)


def _annotated(whole: Whole) -> str:
    """Return the part that has the matrices of the concatenated axis with axes of their own."""
    return ("obsm", "varm")[whole.along]


def _with_common_note(matrices: Sequence[AlignedMatrix]) -> AlignedMatrix:
    """Return the first matrix, with what all imports recorded alike."""
    first = matrices[0]
    is_common = all(matrix.note == first.note for matrix in matrices)
    return first if is_common else replace(first, note={})


def _companions_of(part: Part) -> Companions:
    """Return what could come along with the part of a data set."""
    main, *others = aligned_matrices(part.daf, *part.axes, part.matrix)
    available: list[Companion] = []
    unavailable: dict[tuple[str, str], errors.DafError] = {}
    for matrix in others:
        axes = (matrix.rows_axis, matrix.columns_axis)
        try:
            stored, _ = open_layouts(part.daf, axes, matrix.name)
        except errors.FormatError as error:
            unavailable[matrix.part, matrix.key] = error
            continue
        if stored[0].info.storage_type.is_string and not matrix.is_annotation:
            what = f"{stored[0].what}: AnnData has no matrices of strings"
            unavailable[matrix.part, matrix.key] = errors.UnsupportedInputError(what)
        else:
            available.append(Companion(matrix, _estimated_bytes(stored[0], part, matrix)))
    for path in kept.aligned_paths(part.daf.tree, part.axes):
        name, _, key = posixpath.basename(path).partition(".")
        if name in ANNDATA_PARTS:
            problem = errors.UnsupportedInputError(
                f"{part.daf.location}: it is no matrix of numbers; daf_storage.to_anndata has it, "
                "also of a daf_storage.view of some entries"
            )
            unavailable.setdefault((name, key), problem)
    return Companions(main, tuple(available), unavailable)


def _estimated_bytes(stored: StoredMatrix, part: Part, matrix: AlignedMatrix) -> int:
    """Return the size of the selected part, from the metadata of the matrix alone."""
    info = stored.info
    rows, columns = _companion_selections(part, matrix)
    n_selected = rows.size * columns.size
    item_bytes = STRING_BYTES if info.storage_type.is_string else info.storage_type.dtype.itemsize
    if info.nnz is None:
        return n_selected * item_bytes
    n_elements = -(-info.nnz * n_selected // max(info.shape[0] * info.shape[1], 1))
    return n_elements * (item_bytes + _INDEX_BYTES)


def _companion_selections(part: Part, matrix: AlignedMatrix) -> tuple[Selection, Selection]:
    """Return the rows and the columns of a companion that the slice selects."""
    rows, columns = part.selections
    if matrix.part == "layers":
        return rows, columns
    selected = columns if matrix.part in ("varm", "varp") else rows
    if matrix.is_annotation:
        return selected, Selection.all(part.daf.axis_length(matrix.columns_axis))
    return selected, selected


def select_companions(
    location: str, companions: Companions, choice: AnnDataChoice
) -> tuple[list[Companion], list[Companion]]:
    """Choose what comes along: what is named, and of the rest what fits the budget.

    The smallest come first, so that one large matrix does not keep out the others.  Also returns
    what does not fit.

    Parameters
    ----------
    location
        The data set, as messages name it.

    Raises
    ------
    MatrixNotFoundError
        A key is unknown; the message lists those that exist.
    """
    max_bytes = choice.get("max_bytes", ANNDATA_MAX_BYTES)
    free_bytes = math.inf if max_bytes is None else max_bytes
    chosen: set[str] = set()
    optional: list[Companion] = []
    for part in ANNDATA_PARTS:
        of_part = [companion for companion in companions.available if companion.matrix.part == part]
        part_choice: Any = dict(choice).get(part)
        if part_choice is None:
            optional += of_part
        elif part_choice is True:
            chosen.update(companion.label for companion in of_part)
        elif part_choice is not False:
            by_key = {companion.matrix.key: companion for companion in of_part}
            for key in _keys(part, part_choice):
                if key not in by_key:
                    raise _unknown_key(location, companions, part, key, by_key)
                chosen.add(by_key[key].label)
    for companion in sorted(optional, key=lambda companion: companion.estimated_bytes):
        if companion.estimated_bytes <= free_bytes:
            free_bytes -= companion.estimated_bytes
            chosen.add(companion.label)
    left_out = [each for each in optional if each.label not in chosen]
    return [each for each in companions.available if each.label in chosen], left_out


def _keys(part: str, choice: str | Iterable[str]) -> list[str]:
    keys = [choice] if isinstance(choice, str) else choice
    if not isinstance(keys, Iterable):
        raise errors.InvalidInputError(
            f"{part}= is {choice!r}; pass True for all, False for none, or a list of keys"
        )
    return list(keys)


def _unknown_key(
    location: str, companions: Companions, part: str, key: str, available: Iterable[str]
) -> errors.DafError:
    """Return the error for a key that cannot come along."""
    if (part, key) in companions.unavailable:
        return companions.unavailable[part, key]
    main = companions.main
    listed = ", ".join(map(repr, available)) or "none"
    return errors.MatrixNotFoundError(
        f"{location}: the AnnData of a slice of {main.name!r} over the axes {main.rows_axis!r} and "
        f"{main.columns_axis!r} has no {part}[{key!r}]; {part} that it can have: {listed}"
    )


def companion_slice(whole: Whole, companion: Companion) -> tuple[Whole, Any]:
    """Return the selected part of a companion, and the labels of its columns if it has an own axis.

    Of several data sets, that own axis is aligned in turn.
    """
    matrix, own_axis = companion.matrix, companion.matrix.columns_axis
    name, is_annotation = matrix.name, matrix.is_annotation
    across = whole.axes[1 - whole.along]
    if not isinstance(across, AlignedAxis):
        [part], both = whole.members, (matrix.rows_axis, own_axis)
        found = Part.of(part.daf, both, name, _companion_selections(part, matrix))
        return Whole.of(found), part.daf.axis_entries(own_axis) if is_annotation else None
    having = {member.name: member.daf for member in whole.members}
    axes: tuple[EntryAxis, EntryAxis] = whole.axes
    selections, columns = whole.selections, None
    if is_annotation:
        own = aligned_axis(having, own_axis, across.join, location=whole.location)
        axes = whole.axes[whole.along], own
        selections = whole.selections[whole.along], Selection.all(own.length)
        columns = own.entries.to_numpy(zero_copy_only=False)
    info = info_of(whole.members[0].daf, (matrix.rows_axis, own_axis), name)
    is_text = info.storage_type.is_string
    fill = whole.given_fill if is_text == isinstance(whole.given_fill, str) else None
    return slice_of(name, axes, selections, having, fill), columns


def to_anndata(
    whole: Whole, read: Callable[[], Any], choice: AnnDataChoice, record: Record | None
) -> Any:
    """Return an AnnData with ``obs`` and ``var`` of the axis tables, and the chosen companions.

    A record of the provenance is put into ``uns``.
    """
    with whole.unchanged_axes():
        adata, main, companions = annotated(whole, choice, record)
        adata.X = main.restore(read(), index=None, columns=None)
        for companion in companions:
            add_companion(adata, whole, companion)
    return adata


def lazy_anndata(
    whole: Whole, choice: AnnDataChoice, record: Record | None, rows_per_block: int | None
) -> Any:
    """Return an AnnData like `to_anndata`; of X and layers, nothing is read.

    All layers come along by default, for they take no memory.  Types are those that are stored,
    and sparse blocks CSR, whatever an import recorded.
    """
    layers = choice.get("layers")
    chosen: AnnDataChoice = {**choice, "layers": True if layers is None else layers}
    with whole.unchanged_axes():
        adata, _, companions = annotated(whole, chosen, record)
        adata.X = dask_array(whole, rows_per_block, needs_rows=True)
        # Blocks of the same rows: what is computed of two of them reads neither twice.
        height = max(adata.X.chunks[0][0], 1)
        for companion in companions:
            matrix = companion.matrix
            if matrix.part == "layers":
                layer, _ = companion_slice(whole, companion)
                adata.layers[matrix.key] = dask_array(layer, height, needs_rows=True)
            else:
                add_companion(adata, whole, companion)
    return adata


def add_companion(adata: Any, whole: Whole, companion: Companion) -> None:
    """Put the selected part of a companion into an AnnData of a slice, as AnnData had it."""
    matrix = companion.matrix
    frame = adata.var if matrix.part in ("varm", "varp") else adata.obs
    part, columns = companion_slice(whole, companion)
    values = matrix.restore(read_whole(part), index=frame.index, columns=columns)
    getattr(adata, matrix.part)[matrix.key] = values


def annotated(
    whole: Whole, choice: AnnDataChoice, record: Record | None
) -> tuple[Any, AlignedMatrix, list[Companion]]:
    """Return an AnnData without matrices, which is ``X``, and what comes along, to be gathered.

    Reads ``obs`` and ``var``, and no matrix.
    """
    anndata = optional_import("anndata", extra="anndata")
    if whole.is_collection:
        _refuse_own(whole, choice)
    companions = find_companions(whole)
    chosen, left_out = select_companions(whole.location, companions, choice)
    warn_of_left_out(companions, left_out, choice)
    obs, var, uns = axis_tables(whole)
    uns.pop(KEY, None)  # of the file that the data are from
    if record is not None:
        uns[KEY] = as_json(record)
    return anndata.AnnData(obs=obs, var=var, uns=uns), companions.main, chosen


def _refuse_own(whole: Whole, choice: AnnDataChoice) -> None:
    """Refuse parts that are asked for, and belong to each data set."""
    for part in ANNDATA_PARTS:
        chosen: Any = dict(choice).get(part)
        is_own = part not in ("layers", _annotated(whole))
        if is_own and chosen not in (None, False, True) and chosen:
            raise errors.MatrixNotFoundError(
                f"{whole.location}: {part} belongs to each data set, and not to all as one; "
                "connect the data set whose matrix you want"
            )


def describe(whole: Whole) -> str:
    """Return a line that names what `to_anndata` yields by default; empty if that is unknown."""
    try:
        companions = find_companions(whole)
    except errors.DafError:  # such as a closed session: a description never fails
        return ""
    chosen, left_out = select_companions(whole.location, companions, {})
    keys: dict[str, list[str]] = {name: [] for name in ANNDATA_PARTS}
    for companion in chosen:
        keys[companion.matrix.part].append(companion.matrix.key)
    listed = [f"X={whole.name!r}", *(f"{name}={names!r}" for name, names in keys.items() if names)]
    line = f"to_anndata() has: {', '.join(listed)}"
    if left_out:
        line += f"; left out for size: {_sizes(left_out)}"
    if companions.unavailable:
        labels = (f"{name}[{key!r}]" for name, key in companions.unavailable)
        line += f"; not possible: {', '.join(labels)}"
    return line


def warn_of_left_out(
    companions: Companions, left_out: Sequence[Companion], choice: AnnDataChoice
) -> None:
    """Warn of what is left out, unless its part was chosen by the caller."""
    for (part, key), error in companions.unavailable.items():
        if dict(choice).get(part) in (None, True):
            errors.warn(f"{part}[{key!r}] is left out: {error}", AnnDataWarning)
    if left_out:
        first = left_out[0].matrix
        max_bytes = choice.get("max_bytes", ANNDATA_MAX_BYTES)
        errors.warn(
            f"to_anndata leaves out {_sizes(left_out)}, which max_bytes={max_bytes:,} has "
            f"no room for; name what you need ({first.part}=[{first.key!r}], on the command line: "
            f"--{first.part} {first.key}), or pass a larger max_bytes (None: no limit)",
            AnnDataWarning,
        )


def _sizes(companions: Iterable[Companion]) -> str:
    return ", ".join(f"{c.label} (about {c.estimated_bytes:,} bytes)" for c in companions)
