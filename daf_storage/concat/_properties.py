"""The properties of the result, and its notes of imports, made of those of the members.

The result becomes an AnnData again: with the union of the categories, dates as dates, and matrices
in the formats that all had.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from daf_storage._lazy import pc, sp
from daf_storage.anndata import MISSING_SUFFIX, NOTES, Notes
from daf_storage.base import AnyArray, Span, StorageType, free_name
from daf_storage.concat._run import (
    UINT32_MOST,
    Member,
    ResultAxis,
    Run,
    converted,
    string_of,
    with_prefix,
)
from daf_storage.data import (
    Convention,
    Part,
    SparseVectorParts,
    StoredMatrix,
    StoredVector,
    aligned_vector,
    convention_attributes,
    number_strings,
    promoted,
    relation_of,
    size_bytes,
    values_without_entry,
    write_assembled,
    write_vector,
)

Rule: TypeAlias = dict[str, Any]


_INTEGERS: Final = frozenset(kind.value for kind in StorageType if kind.is_integer)
_NOT_COMPARED: Final = frozenset(
    {"column", "vector", "is_missing", "missing", "categories", "ordered", "axis"}
)
_COMMON: Final = ("matrices", "layers", "raw", "obsm", "varm", "raw.varm")
"""What of the notes is kept as far as all agree; those of vectors are made again."""


def write_notes(run: Run, rules: Mapping[str, Mapping[str, Rule]]) -> None:
    """Store what the notes of the members say of the result, if a member has some.

    Parameters
    ----------
    rules
        Of each axis, the rules of the vectors that were written.
    """
    given = [member.notes for member in run.members if member.notes]
    if not given:
        return
    notes: Notes = _common([{part: each.get(part, {}) for part in _COMMON} for each in given])
    for label, note in notes["matrices"].items():
        if not all(label in each.get("matrices", {}) for each in given):
            note.pop("dtype", None)  # others have another one
    uns = {key: entry for each in given for key, entry in each.get("uns", [])}
    axes = dict.fromkeys(axis for each in given for axis in each.get("axes", {}))
    columns = {axis: _axis_notes(given, axis, rules.get(axis, {})) for axis in axes}
    notes |= {"version": 1, "axes": columns, "uns": [*uns.items()]}
    run.daf.set_scalar(NOTES, json.dumps(notes, separators=(",", ":")))


def _axis_notes(given: list[Notes], axis: str, rules: Mapping[str, Rule]) -> dict[str, Any]:
    found = [notes["axes"][axis] for notes in given if axis in notes.get("axes", {})]
    noted = [rule.get("vector") for each in found for rule in each.get("columns", [])]
    names = [name for name in dict.fromkeys([*noted, *rules]) if name in rules]
    columns = [{"column": name, **rules[name], "vector": name} for name in names]
    return {"index_name": _common([each.get("index_name") for each in found]), "columns": columns}


def _common(given: list[Any]) -> Any:
    """Return what all say; of dictionaries in dictionaries, those that any has."""
    if not isinstance(given[0], dict):
        return given[0] if all(each == given[0] for each in given) else None
    merged = {}
    for key in dict.fromkeys(key for each in given for key in each):
        values = [each[key] for each in given if key in each]
        if isinstance(values[0], dict) or len(values) == len(given):
            merged[key] = _common(values)
    return {key: value for key, value in merged.items() if value is not None}


def merged_rule(rules: Iterable[Rule | None], extra: Mapping[str, Any]) -> Rule:
    """Return the rule of a column that consists of columns with these rules.

    Parameters
    ----------
    rules
        None for a data set that has no such column.  That of a categorical has its categories,
        also if an axis has them too.
    extra
        What the rule has besides.

    Examples
    --------
    >>> merged_rule([{"kind": "categorical", "categories": ["T"]}, {}], {})
    {}
    >>> merged_rule([{"kind": "date", "dtype": "datetime64[ns]"}, None], {})
    {'kind': 'date', 'dtype': 'datetime64[ns]'}
    """
    given = [rule for rule in rules if rule is not None]
    names = {"column": given[0]["column"]} if "column" in given[0] else {}
    if all(rule.get("kind") == "categorical" for rule in given):
        return {**names, **_categorical(given), **extra}
    kinds = [{k: v for k, v in r.items() if k not in _NOT_COMPARED} for r in given]
    if all(kind.get("kind") == "nullable" and kind.get("dtype") in _INTEGERS for kind in kinds):
        dtypes = [kind["dtype"].lower() for kind in kinds]
        widest = StorageType.from_numpy(np.result_type(*dtypes))
        if widest is not None and widest.is_integer:  # not of Int64 beside UInt64
            kinds = [{**kind, "dtype": widest.value} for kind in kinds]
    has_missing = any(rule.get("missing") or "is_missing" in rule for rule in given)
    if any(kind != kinds[0] for kind in kinds):
        return {**names, **({"kind": "text", "missing": True} if has_missing else {}), **extra}
    missing = {"missing": True} if has_missing or extra else {}
    return {**names, **kinds[0], **missing, **extra}


def _categorical(rules: Sequence[Rule]) -> Rule:
    """Return the rule of a categorical with the categories of all, in the order they occur."""
    lists = [rule.get("categories") for rule in rules]
    is_ordered = all(rule.get("ordered") and rule.get("categories") == lists[0] for rule in rules)
    merged: Rule = {"kind": "categorical", "ordered": is_ordered}
    dtypes = {rule.get("dtype") for rule in rules}
    if len(dtypes) == 1 and None not in dtypes:
        merged["dtype"] = dtypes.pop()
    axes = {rule["axis"] for rule in rules if "axis" in rule}
    if len(axes) == 1:
        merged["axis"] = axes.pop()
        return merged
    merged["categories"] = [*dict.fromkeys(name for listed in lists for name in listed or ())]
    return merged


class MergedMatrix:
    """A matrix of the result: whose matrices it consists of, and how it is stored."""

    def __init__(self, run: Run, rows: ResultAxis, columns: ResultAxis, name: str) -> None:
        self._run = run
        self._rows, self._columns, self._name = rows, columns, name
        axes = (rows.name, columns.name)
        self.stored: list[StoredMatrix | None] = [
            m.daf.open_orientations(*axes, name)[0] if name in m.matrices(*axes) else None
            for m in run.members
        ]
        self._present = [matrix for matrix in self.stored if matrix is not None]
        self._is_square = axes[0] == axes[1]
        self._is_row_major = self._is_square and self._present[0].info.is_row_major
        self._is_string = any(matrix.info.storage_type.is_string for matrix in self._present)
        infos = [matrix.info for matrix in self._present]
        self._fill = (
            0
            if rows.is_concatenated
            else run.options.fill_of(infos, (*axes, name), (*axes[::-1], name))
        )
        """What stands where a member has no such entry of an axis, or no such matrix."""

    @property
    def size_bytes(self) -> int:
        """About how many bytes will be written, in all orientations."""
        once = size_bytes(array for one in self._present for array in one.arrays().values())
        return once * (2 if self._run.options.relayout and not self._is_square else 1)

    def _n_filled(self, number: int) -> int:
        """Return how many elements among the columns of a member are the fill value."""
        if self._rows.is_concatenated:
            return 0
        is_absent = self.stored[number] is None
        rows = self._rows.length if is_absent else self._rows.alignments[number].missing.size
        return rows * self._columns.places(number).size

    def _is_sparse(self, filled: list[int], itemsize: int) -> bool:
        """Return whether sparse storage saves enough; stored densely is without zeros."""
        count = sum(filled) if self._fill else 0
        for matrix in self._present:
            shape, nnz = matrix.info.shape, matrix.info.nnz
            count += shape[0] * shape[1] if nnz is None else nnz
        size = self._rows.length * self._columns.length
        pointers = self._columns.length + 1
        return self._run.options.is_worth_sparse(
            size=size, stored=count, itemsize=itemsize, pointers=pointers
        )

    def _part(self, number: int, kind: StorageType) -> Part:
        stored, is_transposed = self.stored[number], False
        if stored is not None and self._is_square:
            is_transposed = stored.info.is_row_major != self._is_row_major
        elif stored is not None:
            is_transposed = stored.info.rows_axis != self._rows.name
        return Part(
            stored,
            self._rows.alignments[number],
            self._columns.places(number).size,
            kind,
            self._fill,
            is_transposed=is_transposed,
            folder=self._run.folder,
        )

    def write(self) -> None:
        """Write it in both orientations, or in one."""
        run, axes = self._run, (self._rows.name, self._columns.name)
        members = range(len(self.stored))
        filled = list(map(self._n_filled, members))
        if self._is_string:
            kind = StorageType.STRING
        else:
            dtypes = [matrix.info.storage_type.dtype for matrix in self._present]
            kind = StorageType.of(promoted(dtypes, self._fill if any(filled) else None))
        is_sparse = not kind.is_string and self._is_sparse(filled, kind.dtype.itemsize)
        parts = [self._part(number, kind) for number in members]
        with run.daf.new_matrix(*axes, self._name) as (path, changes):
            if self._is_row_major:
                changes.annotate(path, convention_attributes(Convention.ROW_MAJOR))
            write_assembled(changes, path, parts, is_sparse=is_sparse, add=run.add)
        if run.options.relayout and not self._is_square:
            run.daf.relayout_matrix(*axes, self._name, progress=run.add)


class MergedVector:
    """A vector of the result: for each entry, the value of the last member that has it."""

    def __init__(self, run: Run, axis: ResultAxis, name: str) -> None:
        self._run, self._axis, self._name = run, axis, name
        self.stored: list[StoredVector | None] = [
            member.open_vector(axis.name, name) for member in run.members
        ]
        self._present = [
            (number, vector) for number, vector in enumerate(self.stored) if vector is not None
        ]
        self._rules = [self._rule(member) for member in run.members]
        self.empty = run.options.empty_of((axis.name, name))
        """What stands where no member has a value; None for a missing value."""
        self._sources = np.full(axis.length, -1)
        start = 0
        for number, vector in self._present:
            places = axis.places(number)
            is_kept = places >= 0
            self._sources[places[is_kept]] = start + np.flatnonzero(is_kept)
            start += vector.info.length
        self.lacks_values = bool((self._sources < 0).any())
        """Whether no member has a value for some entry."""
        kinds = {vector.info.storage_type for _, vector in self._present}
        self.is_string = (
            any(kind.is_string for kind in kinds)
            or isinstance(self.empty, str)
            or (self.lacks_values and self.empty is None and kinds == {StorageType.BOOL})
        )
        self._is_bool = kinds == {StorageType.BOOL}

    def _rule(self, member: Member) -> Rule | None:
        """Return what an import noted of a member's; of a categorical, with its categories."""
        if self._name not in member.vectors(self._axis.name):
            return None
        rule = member.column_rules(self._axis.name).get(self._name, {})
        to_axis = rule.get("axis")
        is_categorical = rule.get("kind") == "categorical" and "categories" not in rule
        if not is_categorical or to_axis is None:
            return rule
        entries = member.daf.axis_entries(to_axis).tolist() if to_axis in member.axes else []
        return {**rule, "categories": entries}

    def _named(self, number: int) -> str:
        member = self._run.members[number]
        return f"{member.name}: vector {self._name!r} of axis {self._axis.name!r}"

    def _dtypes(self) -> list[np.dtype[Any]]:
        return [vector.info.storage_type.dtype for _, vector in self._present]

    def _parts(self, dtype: np.dtype[Any] | None = None) -> list[pa.Array]:
        """Return the values of each member that has some: numbers of a type, or strings."""
        numbers = (number for number, _ in self._present)
        return [
            self._strings(n) if dtype is None else pa.array(self._numbers(n, dtype))
            for n in numbers
        ]

    def _merged(self, parts: list[pa.Array], fill: Any = None) -> pa.Array:
        """Return the value of each entry, of parts of which strings may be null."""
        every = pa.concat_arrays([*parts, pa.array([fill], parts[0].type)])
        return every.take(pa.array(np.where(self._sources < 0, len(every) - 1, self._sources)))

    def agrees(self) -> bool:
        """Return whether all members that have a value of an entry have the same."""
        parts = self._parts(None if self.is_string else promoted(self._dtypes()))
        if not self.is_string:  # NaN is equal to itself
            parts = [
                pa.array(part.to_numpy(zero_copy_only=False), from_pandas=True) for part in parts
            ]
        merged = self._merged(parts)
        for (number, _), values in zip(self._present, parts, strict=True):
            places = self._axis.places(number)
            own = np.flatnonzero(places >= 0)
            if not values.take(pa.array(own)).equals(merged.take(pa.array(places[own]))):
                return False
        return True

    def write(self) -> Rule:
        """Write it; return what an import would have noted of it."""
        if self.is_string:
            return self._write_strings()
        dtypes, fill = self._dtypes(), self.empty
        if self.lacks_values and fill is None:
            fill, are_floats = np.nan, all(dtype.kind == "f" for dtype in dtypes)
            dtypes = dtypes if are_floats else [*dtypes, np.dtype(np.float64)]
        fill = fill if self.lacks_values else None
        dtype = promoted(dtypes, fill)
        merged = self._merged(self._parts(dtype), None if fill is None else dtype.type(fill))
        value = values = merged.to_numpy(zero_copy_only=False)
        if self._is_sparse(dtype, fill):
            places = np.flatnonzero(values)
            index = np.uint32 if values.size <= UINT32_MOST else np.uint64
            value = SparseVectorParts(values.size, (places + 1).astype(index), values[places])
        with self._run.daf.new_vector(self._axis.name, self._name) as (path, changes):
            write_vector(changes, path, value)
        return merged_rule(self._rules, {})

    def _numbers(self, number: int, dtype: np.dtype[Any]) -> AnyArray:
        stored: Any = self.stored[number]
        values = stored.read(Span(0, stored.info.length))
        return converted(values, dtype, what=self._named(number))

    def _is_sparse(self, dtype: np.dtype[Any], fill: Any) -> bool:
        count = int(np.count_nonzero(self._sources < 0)) if fill != 0 else 0
        for _, vector in self._present:
            is_sparse = vector.info.is_sparse
            count += vector.sparse_parts().nzind.size if is_sparse else vector.info.length
        return self._run.options.is_worth_sparse(
            size=self._axis.length, stored=count, itemsize=dtype.itemsize
        )

    def _write_strings(self) -> Rule:
        daf, axis = self._run.daf, self._axis.name
        fill = None if self.empty is None else string_of(self.empty)
        merged = self._merged(self._parts(), fill)
        has_missing, rule = merged.null_count > 0, merged_rule(self._rules, {})
        named = {n for given in self._rules if given for n in given.get("categories", ())}
        has_empty = pc.any(pc.equal(merged, ""), min_count=0).as_py()
        is_named = rule.get("kind") == "categorical" and "" in named
        is_ambiguous = has_missing and (is_named or has_empty)
        strings = merged.fill_null("")
        daf.set_vector(
            axis,
            self._name,
            strings,
            empty_is_missing=has_missing and not is_ambiguous,
            entries_of=self._entries_of(strings),
        )
        if is_ambiguous:
            taken = {name for member in self._run.members for name in member.vectors(axis)}
            companion = free_name(f"{self._name}{MISSING_SUFFIX}", taken)
            daf.set_vector(axis, companion, merged.is_null())
            rule = merged_rule(self._rules, {"is_missing": companion})
        if self._is_bool:
            return {**rule, "kind": "nullable", "dtype": "boolean"}
        is_text = rule.get("kind", "text") == "text"
        return {**rule, "kind": "text", "missing": True} if has_missing and is_text else rule

    def _strings(self, number: int) -> pa.Array:
        """Return the values of a member as large strings, null where they are missing."""
        stored: Any = self.stored[number]
        length, rule = stored.info.length, self._rules[number] or {}
        if not stored.info.storage_type.is_string:
            return _strings_of_numbers(stored.read(Span(0, length)), rule)
        member = self._run.members[number]
        strings = stored.read_strings().cast(pa.large_string())
        if self._axis.is_concatenated:
            strings = self._renamed(number, stored, strings)
        companion, is_missing = rule.get("is_missing"), None
        if companion in member.vectors(self._axis.name):
            is_missing = pa.array(member.daf.get_np_vector(self._axis.name, companion).astype(bool))
        elif stored.info.empty_is_missing:
            is_missing = pc.equal(strings, "")
        return strings if is_missing is None else pc.if_else(is_missing, None, strings)

    def _renamed(self, number: int, stored: StoredVector, strings: pa.Array) -> pa.Array:
        """Return values as the entries of a concatenated axis are called now, if they are such."""
        options, member = self._run.options, self._run.members[number]
        if options.prefixed is not None:
            is_named = self._name in options.prefixed[self._axis.name]
            return with_prefix(member.name, strings) if is_named else strings
        relation = relation_of(set(options.axes), stored.info)
        if relation is None:
            return strings
        if options.prefixes[relation.to_axis]:
            return with_prefix(member.name, strings)
        to_axis = self._run.axes[relation.to_axis]
        old = member.entries(relation.to_axis)
        new = to_axis.entries.take(pa.array(to_axis.places(number)))
        return pc.coalesce(new.take(pc.index_in(strings, value_set=old)), strings)

    def _entries_of(self, strings: pa.Array) -> str | None:
        """Return the axis that was recorded for the values of all members, if they are its."""
        recorded = {vector.info.entries_of for _, vector in self._present} - {None}
        axis = next(iter(recorded)) if len(recorded) == 1 else None
        if axis is None or axis not in self._run.axes:
            return None
        unknown = values_without_entry([strings], self._run.axes[axis].entries)
        return axis if unknown is None else None

    def write_columns(self, columns_axis: str) -> None:
        """Write a matrix that has a column for the vector of each member."""
        options, axis, key = self._run.options, self._axis, (self._axis.name, self._name)
        infos = [vector.info for _, vector in self._present]
        is_whole = len(infos) == len(self.stored) and not any(
            alignment.missing.size for alignment in axis.alignments
        )
        fill: Any = string_of(self.empty or "")
        dtype = np.dtype(object)
        if not self.is_string:
            fill = 0 if is_whole else options.fill_of(infos, key)
            dtype = promoted(self._dtypes(), None if is_whole else fill)
        matrix = np.full((axis.length, len(self.stored)), fill, dtype, order="F")
        count = 0
        for number, vector in enumerate(self.stored):
            if vector is not None:
                values = (
                    self._strings(number).fill_null("")
                    if self.is_string
                    else self._numbers(number, dtype)
                )
                matrix[:, number] = aligned_vector(
                    values, axis.alignments[number], fill, what=self._named(number)
                )
            is_counted = fill == 0 if vector is None else vector.info.is_sparse
            count += int(np.count_nonzero(matrix[:, number])) if is_counted else axis.length
        is_sparse = not self.is_string and options.is_worth_sparse(
            size=matrix.size, stored=count, itemsize=dtype.itemsize
        )
        value = sp.csc_array(matrix) if is_sparse else matrix
        self._run.daf.set_matrix(
            axis.name, columns_axis, self._name, value, relayout=options.relayout
        )


def _strings_of_numbers(values: AnyArray, rule: Rule) -> pa.Array:
    """Return numbers as strings; NaN is missing where an import noted integers."""
    if rule.get("kind") != "nullable" or values.dtype.kind != "f":
        return number_strings(values).cast(pa.large_string())
    is_missing = np.isnan(values)
    integers = np.where(is_missing, 0, values).astype(np.int64)
    return pc.if_else(pa.array(is_missing), None, number_strings(integers).cast(pa.large_string()))
