"""Merge what does not run along a concatenated axis: scalars, and what runs along shared axes.

It is small beside what is concatenated, so each property is in memory while it is merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage.base import NAME_VECTOR, AnyArray
from daf_storage.concat._members import (
    Member,
    ResultAxis,
    Run,
    converted,
    is_worth_sparse,
    promoted,
    string_of,
)
from daf_storage.concat._options import MergeAction
from daf_storage.concat._properties import plan_matrix, write_matrix
from daf_storage.data import kept, new_property, number_strings, values_without_entry

if TYPE_CHECKING:
    import scipy.sparse as sp
else:
    sp = lazy_module("scipy.sparse")

_HINT = "it does not run along a concatenated axis; merge= keeps it"


class AlignedVectors:
    """A vector of a shared axis, of each member; strings are objects."""

    def __init__(self, members: list[Member], axis: ResultAxis, name: str) -> None:
        self._axis = axis
        self._what = f"vector {name!r} of axis {axis.name!r}"
        opened = [member.open_vector(axis.name, name) for member in members]
        self._infos = [None if stored is None else stored.info for stored in opened]
        known = [info for info in self._infos if info is not None]
        self.is_string = any(info.storage_type.is_string for info in known)
        self.is_sparse = any(info.is_sparse for info in known)
        recorded = {info.entries_of for info in known}
        self.entries_of = recorded.pop() if len(recorded) == 1 else None
        self.given: list[AnyArray | None] = []
        for member, info in zip(members, self._infos, strict=True):
            values = None if info is None else member.daf.get_np_vector(axis.name, name)
            if values is not None and self.is_string and values.dtype.kind != "O":
                values = number_strings(values).to_numpy(zero_copy_only=False)
            self.given.append(values)

    def empty_strings(self) -> set[bool]:
        """Return whether the empty strings that there are stand for missing values, or do not."""
        return {
            info.empty_is_missing
            for values, info in zip(self.given, self._infos, strict=True)
            if self.is_string and values is not None and info is not None and (values == "").any()
        }

    def _having(self) -> list[tuple[AnyArray, AnyArray]]:
        """Return where each member with values has them in the result, and these."""
        found = []
        for alignment, values in zip(self._axis.alignments, self.given, strict=True):
            if values is not None:
                places = np.flatnonzero(alignment.sources >= 0)
                found.append((places, values[alignment.sources[places]]))
        return found

    def _dtype(self, fill: Any = None) -> np.dtype[Any]:
        """Return the type that holds the values of all members, and the fill value."""
        if self.is_string:
            return np.dtype(object)
        return promoted([values.dtype for values in self.given if values is not None], fill)

    def _converted(self, values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
        return values if self.is_string else converted(values, dtype, what=self._what)

    def _fill(self, empty: Any) -> Any:
        if self.is_string:
            return "" if empty is None else string_of(empty)
        return np.nan if empty is None else empty

    def last(self) -> tuple[AnyArray, AnyArray]:
        """Return for each entry the value of the last member that has it, and where one has."""
        dtype = self._dtype()
        merged = np.full(self._axis.length, "" if self.is_string else 0, dtype)
        is_there = np.zeros(self._axis.length, bool)
        for places, values in self._having():
            merged[places] = self._converted(values, dtype)
            is_there[places] = True
        return merged, is_there

    def agree(self) -> bool:
        """Return whether all members that have a value of an entry have the same."""
        merged, _ = self.last()
        return all(
            np.array_equal(
                values, merged[places], equal_nan=values.dtype.kind == merged.dtype.kind == "f"
            )
            for places, values in self._having()
        )

    def filled(self, merged: AnyArray, is_absent: AnyArray, empty: Any) -> AnyArray:
        """Return values with something where there are none; NaN or missing by default."""
        fill = self._fill(empty)
        dtype = merged.dtype if self.is_string else promoted([merged.dtype], fill)
        result = self._converted(merged, dtype).copy()
        result[is_absent] = fill
        return result

    def stacked(self, empty: Any) -> tuple[AnyArray, int]:
        """Return a matrix with a column for each member, and how many elements it would store.

        A column that is stored densely counts as having no zeros.
        """
        length, fill = self._axis.length, self._fill(empty)
        needs_fill = any(
            values is None or bool((alignment.sources < 0).any())
            for alignment, values in zip(self._axis.alignments, self.given, strict=True)
        )
        dtype = self._dtype(fill if needs_fill else None)
        start = fill if needs_fill or self.is_string else 0
        matrix = np.full((length, len(self.given)), start, dtype, order="F")
        count, having = 0, iter(self._having())
        for number, info in enumerate(self._infos):
            if info is not None:
                places, values = next(having)
                matrix[places, number] = self._converted(values, dtype)
                nonzero = np.count_nonzero(matrix[:, number]) if info.is_sparse else length
                count += int(nonzero)
            elif fill:
                count += length
        return matrix, count


class SharedProperties:
    """Writes scalars, and vectors and matrices of shared axes, as the merge actions say."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._daf, self._members, self._options = run.daf, run.members, run.options
        self._left_out = run.left_out

    # Scalars

    def write_scalar(self, name: str) -> None:
        """Merge a scalar."""
        action = self._options.merge_action(name)
        what = f"scalar {name!r}"
        having = [m for m in self._members if m.daf.has_scalar(name)]
        if action == "skip":
            self._left_out(what, _HINT)
        elif action == "collect":
            self._collect_scalar(name, what)
        elif action == "last":
            self._daf.set_scalar(name, _scalar(having[-1], name))
        else:
            self.write_same_scalar(name)

    def write_same_scalar(self, name: str) -> None:
        """Keep a scalar if all that have it agree."""
        having = [m for m in self._members if m.daf.has_scalar(name)]
        values = [_scalar(member, name) for member in having]
        if all(_is_same(value, values[0]) for value in values):
            self._daf.set_scalar(name, values[0])
        else:
            self._left_out(f"scalar {name!r}", "the data sets have different values")

    def _collect_scalar(self, name: str, what: str) -> None:
        axis = self._dataset_axis(what)
        empty = self._options.empty_of(name)
        values: list[Any] = []
        for member in self._members:
            if member.daf.has_scalar(name):
                values.append(_scalar(member, name))
            elif empty is not None or self._options.join == "outer":
                values.append(empty)
            else:
                raise _no_empty(self._daf.location, member, what, name)
        if any(isinstance(value, str) for value in values):
            strings = pa.array(["" if v is None else string_of(v) for v in values], pa.string())
            self._daf.set_vector(axis, name, strings, empty_is_missing=None in values)
            return
        numbers = [np.nan if value is None else value for value in values]
        dtypes = [np.asarray(number).dtype for number in numbers]
        self._daf.set_vector(axis, name, np.array(numbers, promoted(dtypes)))

    def _dataset_axis(self, what: str) -> str:
        if self._options.dataset_axis is None:
            raise errors.InvalidInputError(
                f"{self._daf.location}: {what} cannot be collected, since there is no axis of the "
                "data sets; leave out dataset_axis=None, or merge it with 'last' or 'same'"
            )
        return self._options.dataset_axis

    # Vectors

    def write_vector(self, axis: ResultAxis, name: str) -> bool:
        """Merge a vector of a shared axis; return whether the result has it, on the same axis."""
        action = self._options.merge_action((axis.name, name))
        what = f"vector {name!r} of axis {axis.name!r}"
        if action == "skip":
            self._left_out(what, _HINT)
            return False
        values = AlignedVectors(self._members, axis, name)
        if action == "collect":
            self._collect_vector(axis, name, values, what)
            return False
        return self._write_values(axis, name, values, action)

    def _write_values(
        self, axis: ResultAxis, name: str, values: AlignedVectors, action: MergeAction
    ) -> bool:
        what = f"vector {name!r} of axis {axis.name!r}"
        if action == "same" and not values.agree():
            self._left_out(what, "the data sets have different values")
            return False
        merged, is_there = values.last()
        empty = self._options.empty_of((axis.name, name))
        empty_strings = values.empty_strings()
        if not is_there.all():
            if empty is None and action == "same" and self._options.join != "outer":
                self._left_out(what, "no data set that has it has all entries")
                return False
            merged = values.filled(merged, ~is_there, empty)
            empty_strings |= {True} if empty is None and values.is_string else set()
        if len(empty_strings) > 1:
            self._left_out(what, "some of its empty strings are missing values, and others are not")
            return False
        self._daf.set_vector(
            axis.name,
            name,
            merged,
            empty_is_missing=True in empty_strings,
            entries_of=self._entries_of(values.entries_of, merged),
        )
        return True

    def _entries_of(self, axis: str | None, strings: Any) -> str | None:
        """Return the axis that was recorded for some values, if they are its entries here too."""
        if axis is None or not self._daf.has_axis(axis):
            return None
        entries = self._daf.get_pa_vector(axis, NAME_VECTOR)
        listed = [pa.array(strings, pa.large_string())]
        return axis if values_without_entry(listed, entries) is None else None

    def _collect_vector(
        self, axis: ResultAxis, name: str, values: AlignedVectors, what: str
    ) -> None:
        dataset_axis = self._dataset_axis(what)
        empty = self._options.empty_of((axis.name, name))
        for member, given in zip(self._members, values.given, strict=True):
            if given is None and empty is None and self._options.join != "outer":
                raise _no_empty(self._daf.location, member, what, (axis.name, name))
        fill = empty
        if fill is None and not values.is_string:
            default = 0 if values.is_sparse else np.nan
            fill = default if self._options.fill_value is None else self._options.fill_value
        matrix, count = values.stacked(fill)
        is_sparse = not values.is_string and is_worth_sparse(
            self._options.sparse_if_saves_storage_fraction,
            size=matrix.size,
            stored=count,
            itemsize=matrix.dtype.itemsize,
            largest=matrix.shape[0],
        )
        self._daf.set_matrix(
            axis.name,
            dataset_axis,
            name,
            sp.csc_array(matrix) if is_sparse else matrix,
            relayout=self._options.relayout,
        )

    # Matrices

    def write_matrix(self, rows: ResultAxis, columns: ResultAxis, name: str) -> None:
        """Merge a matrix of two shared axes, unless it is to be left out."""
        axes = (rows.name, columns.name)
        action = self._options.merge_action((*axes, name), (*axes[::-1], name))
        what = f"matrix {name!r} of axes {axes[0]!r} and {axes[1]!r}"
        having = [n for n, m in enumerate(self._members) if name in m.matrices(*axes)]
        if action == "skip":
            self._left_out(what, _HINT)
            return
        if action == "collect":
            raise errors.InvalidInputError(
                f"{self._daf.location}: {what} cannot be collected, since there are no arrays of "
                "three dimensions; merge it with 'last', 'same' or 'skip'"
            )
        last = having[-1]
        is_whole = all(
            axis.alignments[n].places is None for axis in (rows, columns) for n in having
        )
        if action == "same" and not (is_whole and self._agree(axes, name, having)):
            self._left_out(what, "the data sets have different values, or entries")
            return
        if columns.alignments[last].places is not None:
            rows, columns = columns, rows
        member = [self._members[last]]
        lone_rows, lone_columns = (
            ResultAxis(axis.name, axis.entries, (axis.alignments[last],))
            for axis in (rows, columns)
        )
        plan = plan_matrix(member, lone_rows, lone_columns, name, self._options)
        write_matrix(self._run, plan)

    def _agree(self, axes: tuple[str, str], name: str, having: list[int]) -> bool:
        first = self._members[having[0]].daf.get_np_matrix(*axes, name)
        return all(
            _is_same_matrix(first, self._members[n].daf.get_np_matrix(*axes, name))
            for n in having[1:]
        )


def _scalar(member: Member, name: str) -> Any:
    """Return a scalar in the type in which it is stored."""
    value = member.daf.get_scalar(name)
    kind = member.daf.scalar_type(name)
    return value if kind.is_string else kind.dtype.type(value)


def _is_same(first: Any, other: Any) -> bool:
    is_nan = first != first and other != other  # noqa: PLR0124 - NaN
    return bool(type(first) is type(other) and (first == other or is_nan))


def _is_same_matrix(one: Any, other: Any) -> bool:
    if sp.issparse(one) != sp.issparse(other) or one.dtype != other.dtype:
        return False
    if not sp.issparse(one):
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    first, second = one.tocsc(), other.tocsc()
    same = [
        np.array_equal(first.indptr, second.indptr),
        np.array_equal(first.indices, second.indices),
        np.array_equal(first.data, second.data, equal_nan=first.data.dtype.kind == "f"),
    ]
    return all(same)


def _no_empty(location: str, member: Member, what: str, key: object) -> errors.NotFoundError:
    return errors.NotFoundError(
        f"{location}: {member.name!r} has no {what}, which is collected; pass "
        f'empty={{{key!r}: ...}} for a value that stands for it, or join="outer"'
    )


def write_kept_parts(run: Run) -> None:
    """Merge what is kept of ``uns``; what is aligned to an axis is left out, and noted."""
    given: dict[str, list[kept.KeptPart]] = {}
    for member in run.members:
        for part in kept.parts(member.daf.tree):
            if part.axes:
                what = f"{part.part}[{part.key!r}]" if part.key else part.part
                run.left_out(
                    what, f"it lies beside the data in {member.name!r}, and is not concatenated"
                )
            else:
                given.setdefault(part.path, []).append(part)
    for path, parts in given.items():
        action = run.options.merge_action(parts[0].key)
        last = parts[-1].array.read()
        is_same = all(np.array_equal(part.array.read(), last) for part in parts)
        if action == "last" or (action == "same" and is_same):
            with new_property(run.daf, path) as changes:
                kept.make_groups(run.daf.tree, changes, path)
                changes.write_array(path, last)
        else:
            run.left_out(
                f"uns[{parts[0].key!r}]", "merge= keeps it, if it is 'last', or 'same' and is"
            )
