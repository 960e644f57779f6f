"""The other parts of an AnnData of a slice of several data sets: obs, var, layers, obsm.

Layers, and the matrices of the concatenated axis with axes of their own (``obsm``), are slices of
several data sets like ``X``.  Those of the aligned axis alone, and those of an axis with itself,
belong to each data set: they do not come along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from daf_query._provenance import KEY, Record, as_json
from daf_query.collection._frames import concatenated_frame, joined_colors
from daf_query.collection._labels import warn_of_repeated
from daf_query.collection._members import (
    Member,
    Missing,
    Positions,
    Side,
    Whole,
    fill_of,
    result_dtype,
)
from daf_query.collection._reading import read_whole
from daf_query.collection._var import aligned_axis_frame, warn_of_conflicts
from daf_query.matrix import AlignedAxis, Selection, aligned
from daf_query.scan import NAME
from daf_query.slice import (
    AnnDataChoice,
    Choice,
    Companion,
    Companions,
    Contents,
    Labels,
    MatrixSlice,
    companion_selections,
    find_companions,
    select_companions,
    slice_matrix,
    warn_of_left_out,
)
from daf_storage import errors
from daf_storage.spi import AlignedMatrix, axis_frame


@dataclass(frozen=True, slots=True)
class CollectionCompanions:
    """The matrices over the axes of a slice that all data sets of it have."""

    companions: Companions
    """As those of one data set."""
    matrices: Mapping[tuple[str, str], tuple[AlignedMatrix, ...]]
    """That of each data set, by part and key."""

    def slice_of(self, whole: Whole, matrix: AlignedMatrix) -> tuple[Whole, Any]:
        """Return the slice of a companion, and the labels of its columns if it has an own axis."""
        matrices = self.matrices[matrix.part, matrix.key]
        if matrix.is_annotation:
            return _annotation(whole, matrices)
        members = tuple(
            replace(member, part=_slice(member.part, own))
            for member, own in zip(whole.members, matrices, strict=True)
        )
        return _with_members(whole, members, whole.missing, matrix.name), None


def find_collection_companions(whole: Whole) -> CollectionCompanions:
    """Return what could come along with a slice; reads metadata only."""
    of_members = [find_companions(member.part) for member in whole.members]
    if not of_members:
        return CollectionCompanions(
            Companions(
                AlignedMatrix("X", "", whole.rows.axis, whole.columns.axis, whole.name), (), {}
            ),
            {},
        )
    annotated = _annotated(whole)
    by_key = [
        {
            (companion.matrix.part, companion.matrix.key): companion
            for companion in each.available
            if companion.matrix.part in ("layers", annotated)
        }
        for each in of_members
    ]
    main = _common_note([each.main for each in of_members])
    available: list[Companion] = []
    matrices: dict[tuple[str, str], tuple[AlignedMatrix, ...]] = {}
    unavailable: dict[tuple[str, str], errors.DafError] = {}
    for key in dict.fromkeys(key for each in by_key for key in each):
        lacking = [
            member.name
            for member, each in zip(whole.members, by_key, strict=True)
            if key not in each
        ]
        if lacking:
            unavailable[key] = errors.MatrixNotFoundError(
                f"{whole.location}: {errors.known_names(lacking, none='none')} has no "
                f"{key[0]}[{key[1]!r}]"
            )
            continue
        companions = [each[key] for each in by_key]
        matrices[key] = tuple(companion.matrix for companion in companions)
        total_bytes = sum(companion.estimated_bytes for companion in companions)
        available.append(Companion(_common_note(matrices[key]), total_bytes))
    return CollectionCompanions(Companions(main, tuple(available), unavailable), matrices)


def _annotated(whole: Whole) -> str:
    """Return the part that has the matrices of the concatenated axis with axes of their own."""
    return "obsm" if whole.rows_are_concatenated else "varm"


def _common_note(matrices: Sequence[AlignedMatrix]) -> AlignedMatrix:
    """Return the first matrix, with what all imports recorded alike."""
    first = matrices[0]
    is_common = all(matrix.note == first.note for matrix in matrices)
    return first if is_common else replace(first, note={})


def collection_contents(
    whole: Whole,
    labels: tuple[Labels, Labels],
    datasets: Any,
    axis: AlignedAxis,
    choice: AnnDataChoice,
    record: Record | None,
) -> Contents:
    """Return what comes along with a slice; reads ``obs`` and ``var``, and no matrix.

    Parameters
    ----------
    axis
        The aligned axis.
    """
    _refuse_own(whole, choice)
    of_collection = find_collection_companions(whole)
    companions = of_collection.companions
    selected = select_companions(whole.location, companions, choice)
    warn_of_left_out(companions, selected, choice)
    obs_is_concatenated = whole.rows_are_concatenated
    first = _concatenated_frame(whole, labels[0 if obs_is_concatenated else 1], datasets)
    second = aligned_axis_frame(
        axis, (whole.columns if obs_is_concatenated else whole.rows).positions
    )
    obs, var = (first, second) if obs_is_concatenated else (second, first)
    uns = {**var[1], **obs[1]}
    if record is not None:
        uns[KEY] = as_json(record)
    return Contents(
        companions.main,
        selected.chosen,
        obs[0],
        var[0],
        uns,
        partial(_gathered, of_collection, whole),
    )


def _concatenated_frame(whole: Whole, labels: Labels, datasets: Any) -> tuple[Any, dict[str, Any]]:
    """Return the table of the concatenated axis, and the colours of its categoricals."""
    are_rows = whole.rows_are_concatenated
    axis = whole.rows.axis if are_rows else whole.columns.axis
    frames, uns = [], []
    for member in whole.members:
        positions = member.part.row_positions if are_rows else member.part.column_positions
        with member.part.unchanged_axes():
            frame, colors = axis_frame(member.part.daf, axis, positions, unreadable="warn")
        frames.append((frame, member.rows if are_rows else member.columns))
        uns.append((frame, colors))
    joined, conflicts = concatenated_frame(frames, datasets, labels.unique)
    warn_of_repeated(whole.location, axis, pa.array(labels.names, pa.string()), datasets)
    warn_of_conflicts("obs" if are_rows else "var", axis, conflicts)
    index_names = {frame.index.name for frame, _ in frames}
    joined.index.name = index_names.pop() if len(index_names) == 1 else None
    return joined, joined_colors(uns, joined)


def _gathered(
    companions: CollectionCompanions, whole: Whole, matrix: AlignedMatrix
) -> tuple[Any, Any]:
    part, columns = companions.slice_of(whole, matrix)
    return read_whole(part), columns


def _refuse_own(whole: Whole, choice: AnnDataChoice) -> None:
    """Refuse parts that are asked for, and belong to each data set."""
    annotated = _annotated(whole)
    choices: dict[str, Choice] = {
        "obsm": choice.get("obsm"),
        "varm": choice.get("varm"),
        "obsp": choice.get("obsp"),
        "varp": choice.get("varp"),
    }
    for part, chosen in choices.items():
        if part != annotated and chosen not in (None, False, True) and chosen:
            raise errors.MatrixNotFoundError(
                f"{whole.location}: {part} belongs to each data set, and not to all as one; "
                "connect the data set whose matrix you want"
            )


def _slice(part: MatrixSlice, matrix: AlignedMatrix) -> MatrixSlice:
    """Return the selected part of a companion of one data set."""
    axes = (matrix.rows_axis, matrix.columns_axis)
    return slice_matrix(part.daf, *axes, matrix.name, *companion_selections(part, matrix))


def _with_members(
    whole: Whole, members: tuple[Member, ...], missing: Sequence[Missing], name: str
) -> Whole:
    """Return the slice of another matrix, whose dtype follows from its own parts."""
    is_sparse = any(member.part.is_sparse for member in members)
    dtypes = [member.part.dtype for member in members]
    of_strings = all(dtype.hasobject for dtype in dtypes)
    given = whole.given_fill if isinstance(whole.given_fill, str) == of_strings else None
    fill = fill_of(given, is_sparse=is_sparse, of_strings=of_strings)
    is_filled = bool(missing) and not (is_sparse and fill == 0)
    return replace(
        whole,
        name=name,
        members=members,
        missing=tuple(missing),
        dtype=result_dtype(dtypes, fill, is_filled=is_filled),
        is_sparse=is_sparse,
        fill=fill,
    )


def _annotation(whole: Whole, matrices: Sequence[AlignedMatrix]) -> tuple[Whole, Any]:
    """Return the slice of a matrix with an axis of its own, which is aligned in turn."""
    entries = {
        member.name: member.part.daf.get_pa_vector(matrix.columns_axis, NAME).cast(pa.string())
        for member, matrix in zip(whole.members, matrices, strict=True)
    }
    names, positions = aligned(entries, whole.join)
    members, missing = [], []
    for member, matrix in zip(whole.members, matrices, strict=True):
        rows: Positions = member.rows if whole.rows_are_concatenated else member.columns
        own = positions[member.name]
        is_kept = own >= 0
        selected = member.part.selections[0 if whole.rows_are_concatenated else 1]
        columns = Selection.of(np.flatnonzero(is_kept), own.size)
        part = slice_matrix(
            member.part.daf,
            matrix.rows_axis,
            matrix.columns_axis,
            matrix.name,
            selected,
            columns,
        )
        lacks = np.setdiff1d(np.arange(len(names)), own[is_kept])
        members.append(Member(member.name, part, rows, own[is_kept]))
        if lacks.size and rows.size:
            missing.append(Missing(rows, lacks))
    first = whole.rows if whole.rows_are_concatenated else whole.columns
    base = replace(
        whole,
        rows=first,
        columns=Side(matrices[0].columns_axis, np.arange(len(names)), names),
    )
    part_of_all = _with_members(base, tuple(members), missing, matrices[0].name)
    return part_of_all, names.to_numpy(zero_copy_only=False)
