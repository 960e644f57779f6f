"""Write one matrix of the result, piece by piece, and then its transpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.anndata import MISSING_SUFFIX
from daf_storage.base import AnyArray, Span, StorageType
from daf_storage.concat._members import (
    Member,
    ResultAxis,
    Run,
    converted,
    is_worth_sparse,
    promoted,
    string_of,
    with_prefix,
)
from daf_storage.concat._merged_notes import Rule, merged_rule
from daf_storage.concat._options import Options
from daf_storage.data import (
    Alignment,
    Convention,
    Part,
    SparseVectorInput,
    StoredMatrix,
    StoredVector,
    VectorInput,
    convention_attributes,
    number_strings,
    relation_of,
    size_bytes,
    values_without_entry,
    write_assembled,
    write_vector,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = lazy_module("pyarrow.compute")


@dataclass(frozen=True)
class MatrixPlan:
    """A matrix of the result: whose matrices it consists of, and how it is stored."""

    rows: ResultAxis
    columns: ResultAxis
    name: str
    stored: tuple[StoredMatrix | None, ...]
    """That of each member, None of one that has none; in either orientation."""
    fill: Any
    """What stands where a member has no such entry of the rows axis, or no such matrix."""

    @property
    def is_square(self) -> bool:
        """Whether it is a matrix of an axis with itself."""
        return self.rows.name == self.columns.name

    @property
    def is_row_major(self) -> bool:
        """Whether what is stored as columns are its rows."""
        first = next(stored for stored in self.stored if stored is not None)
        return self.is_square and first.info.is_row_major

    @property
    def is_string(self) -> bool:
        """Whether its elements are strings."""
        return any(s is not None and s.info.storage_type.is_string for s in self.stored)

    def is_transposed(self, stored: StoredMatrix) -> bool:
        """Return whether what a member stores as columns are not those of the result."""
        if self.is_square:
            return stored.info.is_row_major != self.is_row_major
        return stored.info.rows_axis != self.rows.name

    def n_columns(self, number: int) -> int:
        """Return how many columns a member contributes."""
        is_part = self.columns.is_concatenated
        return self.columns.member_length(number) if is_part else self.columns.length

    def lacks(self, number: int) -> bool:
        """Return whether the fill value occurs in the columns of a member."""
        if self.rows.is_concatenated or not self.n_columns(number):
            return False
        has_none = self.stored[number] is None and self.rows.length > 0
        lacks_rows = self.rows.alignments[number].missing.size > 0
        return has_none or lacks_rows or self.lacks_columns(number)

    def lacks_columns(self, number: int) -> bool:
        """Return whether a member has not all columns, which are not concatenated."""
        is_shared = not self.columns.is_concatenated
        return is_shared and self.columns.alignments[number].missing.size > 0


def plan_matrix(
    members: list[Member], rows: ResultAxis, columns: ResultAxis, name: str, options: Options
) -> MatrixPlan:
    """Open the matrices of all members; no values are read."""
    axes = (rows.name, columns.name)
    stored = tuple(
        m.daf.open_orientations(*axes, name)[0] if name in m.matrices(*axes) else None
        for m in members
    )
    plan = MatrixPlan(rows, columns, name, stored, 0)
    if rows.is_concatenated or plan.is_string:
        return plan
    fill = options.empty_of((*axes, name), (*axes[::-1], name))
    fill = options.fill_value if fill is None else fill
    if fill is None:
        is_sparse = any(matrix is not None and matrix.info.is_sparse for matrix in stored)
        fill = 0 if is_sparse else np.nan
    return MatrixPlan(rows, columns, name, stored, fill)


def write_matrix(run: Run, plan: MatrixPlan) -> None:
    """Write a matrix in both orientations, or in one."""
    axes = (plan.rows.name, plan.columns.name)
    kind = StorageType.STRING if plan.is_string else StorageType.of(_dtype(plan))
    is_sparse = not plan.is_string and is_stored_sparse(plan, kind.dtype, run.options)
    parts = [_part(plan, number, kind, run.folder) for number in range(len(plan.stored))]
    with run.daf.new_matrix(*axes, plan.name) as (path, changes):
        if plan.is_row_major:
            changes.annotate(path, convention_attributes(Convention.ROW_MAJOR))
        write_assembled(changes, path, parts, is_sparse=is_sparse, add=run.add)
    if run.options.relayout and not plan.is_square:
        item_bytes = 1 if kind.is_string else kind.dtype.itemsize + 4 * is_sparse
        run.daf.relayout_matrix(
            *axes, plan.name, progress=lambda count: run.add(count * item_bytes)
        )


def _dtype(plan: MatrixPlan) -> np.dtype[Any]:
    dtypes = [matrix.info.storage_type.dtype for matrix in plan.stored if matrix is not None]
    needs_fill = any(plan.lacks(number) for number in range(len(plan.stored)))
    return promoted(dtypes, plan.fill if needs_fill else None)


def is_stored_sparse(plan: MatrixPlan, dtype: np.dtype[Any], options: Options) -> bool:
    """Return whether sparse storage saves enough, as the reference estimates it.

    What is stored densely counts as having no zeros.
    """
    if plan.fill and any(map(plan.lacks_columns, range(len(plan.stored)))):
        return False
    count = 0
    for number, stored in enumerate(plan.stored):
        if stored is not None:
            info = stored.info
            count += info.shape[0] * info.shape[1] if info.nnz is None else info.nnz
        if plan.fill and plan.lacks(number):
            missing = plan.rows.alignments[number].missing.size
            count += plan.n_columns(number) * (plan.rows.length if stored is None else missing)
    size = plan.rows.length * plan.columns.length
    return is_worth_sparse(
        options.sparse_if_saves_storage_fraction,
        size=size,
        stored=count,
        itemsize=dtype.itemsize,
        pointers=plan.columns.length + 1,
        largest=size,
    )


def _part(plan: MatrixPlan, number: int, kind: StorageType, folder: Path | None) -> Part:
    stored = plan.stored[number]
    rows, columns = plan.rows.alignments[number], plan.columns.alignments[number]
    is_whole = plan.columns.is_concatenated or columns.places is None
    return Part(
        stored,
        Alignment.absent(plan.rows.length) if stored is None else rows,
        plan.n_columns(number),
        kind,
        plan.fill if plan.lacks(number) and not plan.is_string else 0,
        is_transposed=stored is not None and plan.is_transposed(stored),
        chosen=None if is_whole else columns.sources,
        folder=folder,
    )


def matrix_bytes(plan: MatrixPlan, options: Options) -> int:
    """Return about how many bytes will be written, in all orientations."""
    arrays = [a for stored in plan.stored if stored is not None for a in stored.arrays().values()]
    return sum(map(size_bytes, arrays)) * (2 if options.relayout and not plan.is_square else 1)


_UINT32_MOST = 2**32 - 1


@dataclass(frozen=True)
class VectorPlan:
    """A vector of the result: whose vectors it consists of."""

    axis: ResultAxis
    name: str
    stored: tuple[StoredVector | None, ...]
    """That of each member, None of one that has none."""
    rules: tuple[Rule | None, ...]
    """What an import noted of each; None of a member that has no such vector."""
    empty: Any
    """What stands where a member has none; None for a missing value."""

    @property
    def is_string(self) -> bool:
        """Whether it is one of strings."""
        types = {vector.info.storage_type for vector in self.stored if vector is not None}
        if any(kind.is_string for kind in types) or isinstance(self.empty, str):
            return True
        return self.lacks_values and types == {StorageType.BOOL}

    @property
    def lacks_values(self) -> bool:
        """Whether a member with entries has none, and nothing stands for it."""
        return self.empty is None and any(
            vector is None and self.length(number) for number, vector in enumerate(self.stored)
        )

    def length(self, number: int) -> int:
        """Return how many values a member contributes."""
        return self.axis.member_length(number)


def plan_vector(members: list[Member], axis: ResultAxis, name: str, options: Options) -> VectorPlan:
    """Open the vectors of all members; no values are read."""
    stored = tuple(member.open_vector(axis.name, name) for member in members)
    rules = tuple(
        None if vector is None else _rule(member, axis.name, name)
        for member, vector in zip(members, stored, strict=True)
    )
    return VectorPlan(axis, name, stored, rules, options.empty_of((axis.name, name)))


def _rule(member: Member, axis: str, name: str) -> Rule:
    """Return what an import noted of a vector; of a categorical, with its categories."""
    rule = member.column_rules(axis).get(name, {})
    to_axis = rule.get("axis")
    if rule.get("kind") != "categorical" or "categories" in rule or not isinstance(to_axis, str):
        return rule
    entries = member.daf.axis_entries(to_axis).tolist() if to_axis in member.axes else []
    return {**rule, "categories": entries}


class VectorWriter:
    """Writes the vectors of concatenated axes."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._daf, self._members, self._options = run.daf, run.members, run.options
        self._axes = run.axes

    def write(self, plan: VectorPlan) -> Rule:
        """Write a vector; return what an import would have noted of it."""
        if plan.is_string:
            return self._write_strings(plan)
        self._write_numbers(plan)
        return merged_rule(plan.rules, {})

    # Numbers

    def _write_numbers(self, plan: VectorPlan) -> None:
        dtypes = [vector.info.storage_type.dtype for vector in plan.stored if vector is not None]
        lacks = any(vector is None and plan.length(n) for n, vector in enumerate(plan.stored))
        fill = (np.nan if plan.empty is None else plan.empty) if lacks else None
        if fill is not None and plan.empty is None:
            dtypes = [*dtypes, np.dtype(_gappy(dtypes))]
        dtype = promoted(dtypes, fill)
        parts = [self._numbers(plan, number, dtype, fill) for number in range(len(plan.stored))]
        values = np.concatenate(parts)
        value: VectorInput = values
        if self._is_sparse(plan, dtype, fill):
            places = np.flatnonzero(values)
            index = np.uint32 if values.size <= _UINT32_MOST else np.uint64
            value = SparseVectorInput(values.size, places.astype(index), values[places])
        with self._daf.new_vector(plan.axis.name, plan.name) as (path, changes):
            write_vector(changes, path, value)

    def _numbers(self, plan: VectorPlan, number: int, dtype: np.dtype[Any], fill: Any) -> AnyArray:
        stored, length = plan.stored[number], plan.length(number)
        if stored is None:
            return np.full(length, fill, dtype)
        what = f"{self._members[number].name}: vector {plan.name!r} of axis {plan.axis.name!r}"
        return converted(stored.read(Span(0, length)), dtype, what=what)

    def _is_sparse(self, plan: VectorPlan, dtype: np.dtype[Any], fill: Any) -> bool:
        count = 0
        for number, stored in enumerate(plan.stored):
            if stored is not None and stored.info.is_sparse:
                count += stored.sparse_parts().nzind.size
            elif stored is not None or fill != 0:
                count += plan.length(number)
        return is_worth_sparse(
            self._options.sparse_if_saves_storage_fraction,
            size=plan.axis.length,
            stored=count,
            itemsize=dtype.itemsize,
            largest=plan.axis.length,
        )

    # Strings

    def _write_strings(self, plan: VectorPlan) -> Rule:
        parts, masks = [], []
        for number, stored in enumerate(plan.stored):
            strings, is_missing = self._strings(plan, number, stored)
            parts.append(strings.cast(pa.large_string()))
            masks.append(is_missing)
        strings, is_missing = pa.concat_arrays(parts), np.concatenate(masks)
        is_empty = pc.equal(strings, "").to_numpy(zero_copy_only=False)
        has_missing = bool(is_missing.any())
        is_ambiguous = has_missing and bool((is_empty & ~is_missing).any())
        axis = plan.axis.name
        self._daf.set_vector(
            axis,
            plan.name,
            strings,
            empty_is_missing=has_missing and not is_ambiguous,
            entries_of=self._entries_of(plan, strings),
        )
        extra: Rule = {}
        if is_ambiguous:
            companion = self._free_name(axis, f"{plan.name}{MISSING_SUFFIX}")
            self._daf.set_vector(axis, companion, is_missing)
            extra = {"is_missing": companion}
        rule = merged_rule(plan.rules, extra)
        if all(
            vector is None or vector.info.storage_type is StorageType.BOOL for vector in plan.stored
        ):
            return {**rule, "kind": "nullable", "dtype": "boolean"}
        if has_missing and rule.get("kind") is None:
            return {**rule, "kind": "text", "missing": True}
        return {**rule, "missing": True} if has_missing and rule["kind"] == "text" else rule

    def _free_name(self, axis: str, name: str) -> str:
        taken = {n for m in self._members for n in m.vectors(axis)}
        while name in taken:
            name = f"{name}_"
        return name

    def _strings(
        self, plan: VectorPlan, number: int, stored: StoredVector | None
    ) -> tuple[pa.Array, AnyArray]:
        """Return the values of a member as strings, and which are missing."""
        length = plan.length(number)
        if stored is None:
            value = "" if plan.empty is None else string_of(plan.empty)
            return pa.repeat(pa.scalar(value), length), np.full(length, plan.empty is None)
        rule = plan.rules[number] or {}
        member = self._members[number]
        if not stored.info.storage_type.is_string:
            return _strings_of_numbers(stored.read(Span(0, length)), rule)
        strings = stored.read_strings()
        companion = rule.get("is_missing")
        if isinstance(companion, str) and companion in member.vectors(plan.axis.name):
            is_missing = member.daf.get_np_vector(plan.axis.name, companion).astype(bool)
        elif stored.info.empty_is_missing:
            is_missing = pc.equal(strings, "").to_numpy(zero_copy_only=False)
        else:
            is_missing = np.zeros(length, bool)
        return self._renamed(plan, number, stored, strings), is_missing

    def _renamed(
        self, plan: VectorPlan, number: int, stored: StoredVector, strings: pa.Array
    ) -> pa.Array:
        """Return values as the entries of a concatenated axis are called now, if they are such."""
        options, member = self._options, self._members[number]
        own = options.axes.index(plan.axis.name)
        if options.prefixed is not None:
            is_named = plan.name in options.prefixed[own]
            return with_prefix(member.name, strings) if is_named else strings
        relation = relation_of(set(options.axes), stored.info)
        if relation is None:
            return strings
        if options.prefixes[options.axes.index(relation.to_axis)]:
            return with_prefix(member.name, strings)
        to_axis = self._axes[relation.to_axis]
        old = member.daf.get_pa_vector(relation.to_axis, "name").cast(pa.large_string())
        places = to_axis.alignments[number].places
        new = to_axis.entries if places is None else to_axis.entries.take(pa.array(places))
        if old.equals(new):
            return strings
        large = strings.cast(pa.large_string())
        return pc.coalesce(new.take(pc.index_in(large, value_set=old)), large)

    def _entries_of(self, plan: VectorPlan, strings: pa.Array) -> str | None:
        """Return the axis that was recorded for the values of all members, if they are its."""
        recorded = {vector.info.entries_of for vector in plan.stored if vector is not None}
        recorded -= {None}
        axis = next(iter(recorded)) if len(recorded) == 1 else None
        if axis is None or axis not in self._axes:
            return None
        unknown = values_without_entry([strings], self._axes[axis].entries)
        return axis if unknown is None else None


def _gappy(dtypes: list[np.dtype[Any]]) -> Any:
    """Return a float type that has NaN for the missing ones of such values."""
    is_float = all(dtype.kind == "f" for dtype in dtypes)
    return max(dtypes, key=lambda dtype: dtype.itemsize) if is_float else np.float64


def _strings_of_numbers(values: AnyArray, rule: Rule) -> tuple[pa.Array, AnyArray]:
    """Return numbers as strings; NaN is missing where an import noted integers."""
    is_missing = np.zeros(values.size, bool)
    if rule.get("kind") != "nullable" or values.dtype.kind != "f":
        return number_strings(values), is_missing
    is_missing = np.isnan(values)
    strings = number_strings(np.where(is_missing, 0, values).astype(np.int64))
    return pc.if_else(pa.array(is_missing), "", strings), is_missing


def check_planned(plan: VectorPlan, members: list[Member], *, location: str) -> None:
    """Raise if a member has no such vector, and nothing says what stands for it."""
    for member, stored in zip(members, plan.stored, strict=True):
        if stored is None and plan.empty is None:
            key = (plan.axis.name, plan.name)
            raise errors.VectorNotFoundError(
                f"{location}: {member.name!r} has no vector {plan.name!r} of axis "
                f"{plan.axis.name!r}, which others have; pass empty={{{key!r}: ...}} for a value "
                'that stands for it, join="outer" for missing values, or join="inner" to leave it '
                "out"
            )
