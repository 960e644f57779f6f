"""Make a sampler, or load one: choose entries, evaluate expressions, allocate splits, compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from daf_query._provenance import Record, provenance, record_of
from daf_query.matrix import ConcatenatedAxis
from daf_query.scan import INDEX, NAME
from daf_query.slice import AxisRows, Selector, each_once
from daf_query.sql import Engine, written_items
from daf_query.syntax import Edit, list_items, quoted_name, real_divisions
from daf_query.table import DATASET
from daf_query.training._sampler import SPLIT, WEIGHT, Sampler
from daf_query.training._splits import (
    Codes,
    Keys,
    Shares,
    SplitCodes,
    allocate,
    allocate_groups,
    checked_seed,
    checked_shares,
    name_keys,
)
from daf_storage import errors

Expressions = str | Sequence[str]
"""The name of a vector, an expression of SQL, or several."""


@dataclass(frozen=True, slots=True)
class SamplerRequest:
    """How a sampler is asked for; see `DafSession.sampler`."""

    axis: str
    where: Selector = None
    weights: str | None = None
    split: Shares | None = None
    seed: int = 0
    stratify: Expressions | None = None
    groups: Expressions | None = None

    def description(self) -> dict[str, Any]:
        """Return all of it as JSON; a selector that is no SQL is only noted.

        Splits are pairs, since their order counts.
        """
        is_sql = self.where is None or isinstance(self.where, str)
        return {
            "axis": self.axis,
            "where": self.where if is_sql else f"<{type(self.where).__name__}>",
            "where_is_sql": is_sql,
            "weights": self.weights,
            "split": None if self.split is None else [list(pair) for pair in self.split.items()],
            "seed": self.seed,
            **{
                keyword: value if isinstance(value, str | None) else list(value)
                for keyword, value in (("stratify", self.stratify), ("groups", self.groups))
            },
        }


def make_sampler(engine: Engine, schema: str | None, request: SamplerRequest) -> Sampler:
    """Return a sampler; see `DafSession.sampler`."""
    shares = {} if request.split is None else checked_shares(request.split)
    seed = checked_seed(request.seed)
    _check_expressions(request)
    whole = AxisRows.of(engine, schema, request.axis)
    positions = whole.chosen(request.where, "where")
    if not positions.size:
        raise errors.InvalidInputError(
            f"{whole.tables.location}: where= chooses none of the {whole.whole.length:,} entries "
            f"of axis {request.axis!r}; diagnose({request.axis!r}, ...) says which part of a "
            "predicate leaves none"
        )
    positions = each_once(positions).copy()  # it becomes read-only
    chosen = replace(whole, some=positions)
    names = chosen.names()
    weights = None if request.weights is None else weights_of(chosen, request.weights, names)
    splits = _splits(chosen, request, names, shares, seed) if shares else None
    if splits is not None:
        _check_splits(splits, shares, weights, request)
    members, name = whole.whole.members, whole.tables.name
    lengths = {member: daf.axis_length(request.axis) for member, daf in members.items()}
    requested = {"sampler": {**request.description(), "schema": name, "lengths": lengths}}
    sources = {name: engine.connections.data_sets()[name]}
    return Sampler(
        request.axis,
        positions,
        names,
        weights,
        lengths,
        splits,
        shares,
        whole.tables.is_collection,
        record_of(sources, requested),
    )


def _check_expressions(request: SamplerRequest) -> None:
    for keyword in ("stratify", "groups"):
        if getattr(request, keyword) is not None and request.split is None:
            raise errors.InvalidInputError(
                f"{keyword}= is for splits, and there are none; pass split= as well, for example "
                "{'train': 0.8, 'val': 0.2}"
            )
    if request.weights is not None and not isinstance(request.weights, str):
        raise errors.InvalidInputError(
            f"weights= is an expression of SQL, not {type(request.weights).__name__}; numbers of "
            "your own become a vector with set_vector(), whose name is an expression"
        )


def _splits(
    chosen: AxisRows,
    request: SamplerRequest,
    names: pa.Array,
    shares: dict[str, float],
    seed: int,
) -> SplitCodes:
    parts = list(shares.values())
    codes = None
    if request.stratify is not None:
        codes, _ = classes_of(chosen, request.stratify, "stratify", seed, names)
    if request.groups is None:
        return allocate(name_keys(names, seed), parts, codes)
    groups, keys = classes_of(chosen, request.groups, "groups", seed, names, refuses_null=True)
    if keys.size < len(parts):
        raise errors.InvalidInputError(
            f"groups= makes {keys.size:,} groups of the {len(names):,} entries, too few for "
            f"{len(parts):,} splits of whole groups; choose more with where=, or ask for fewer "
            "splits"
        )
    return allocate_groups(groups, keys, parts, codes)


def _check_splits(
    splits: SplitCodes,
    shares: dict[str, float],
    weights: npt.NDArray[np.float64] | None,
    request: SamplerRequest,
) -> None:
    """Refuse splits without entries, or of which none can be drawn."""
    counts = np.bincount(splits, minlength=len(shares))
    for name, count in zip(shares, counts.tolist(), strict=True):
        if not count:
            raise errors.InvalidInputError(
                f"split {name!r} gets none of {splits.size:,} entries of axis {request.axis!r}: "
                f"its share is {shares[name]:.4g}; choose more entries with where=, or give it a "
                "larger share"
            )
    if weights is None:
        return
    sums = np.bincount(splits, weights=weights, minlength=len(shares))
    for name, total in zip(shares, sums.tolist(), strict=True):
        if not total:
            raise errors.InvalidInputError(
                f"weights= is 0 for all entries of split {name!r}, so that none can be drawn; "
                "leave out entries of weight 0 with where="
            )


Positions = npt.NDArray[np.int64]

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


def _values(chosen: AxisRows, text: str, keyword: str, edits: tuple[Edit, ...] = ()) -> pa.Array:
    """Return the value of an expression for each chosen entry, in their order."""
    try:
        return chosen.values(text, edits=edits)
    except errors.DafError as error:
        raise errors.with_message(error, f"{keyword}=: {error}") from None


def weights_of(chosen: AxisRows, text: str, names: pa.Array) -> npt.NDArray[np.float64]:
    """Return the weight of each chosen entry.

    Divisions are those of real numbers: ``1 / count(*) OVER (...)`` is no integer.

    Raises
    ------
    InvalidInputError
        One is missing, negative or infinite; or all are 0; or they are no numbers.
    """
    values = _values(chosen, text, "weights", real_divisions(text))
    type_ = values.type
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_)
    is_number |= pa.types.is_decimal(type_) or pa.types.is_boolean(type_)
    if not is_number and not pa.types.is_null(type_):
        raise errors.InvalidInputError(
            f"weights= yields {type_}, not numbers; write an expression such as "
            "1 / count(*) OVER (PARTITION BY cell_type)"
        )
    weights: npt.NDArray[np.float64] = (
        pc.cast(values, pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    )
    faults = (
        ("missing (NULL or NaN)", np.isnan(weights), "coalesce(..., 0) gives them none"),
        ("negative", weights < 0, "greatest(..., 0) gives them none"),
        ("infinite", np.isinf(weights), "look for a division by 0; nullif(..., 0) finds it"),
    )
    for what, is_wrong, advice in faults:
        if is_wrong.any():
            first = names[int(np.argmax(is_wrong))].as_py()
            raise errors.InvalidInputError(
                f"weights= is {what} for {int(is_wrong.sum()):,} of {weights.size:,} entries of "
                f"axis {chosen.axis!r}, the first is {first!r}; {advice}, or leave these "
                "entries out with where="
            )
    if not weights.any():
        raise errors.InvalidInputError(
            f"weights= is 0 for all {weights.size:,} entries, so that none can be drawn"
        )
    return weights


def classes_of(
    chosen: AxisRows,
    expressions: str | Sequence[str],
    keyword: str,
    seed: int,
    names: pa.Array,
    *,
    refuses_null: bool = False,
) -> tuple[Codes, Keys]:
    """Return which entries agree in one expression, or in several.

    A code for each entry, from 0, all of which occur; and a key for each code, made of its values
    and a seed.

    Raises
    ------
    InvalidInputError
        A value is missing where that is not allowed; or they are of a type without equality.
    """
    items = expressions_of(expressions, keyword)
    codes, keys = np.zeros(len(names), np.int64), np.zeros(len(names), np.uint64)
    for item in items:
        values = _values(chosen, _as_column(chosen, item), keyword)
        if refuses_null and values.null_count:
            first = names[int(np.argmax(np.asarray(values.is_null())))].as_py()
            raise errors.InvalidInputError(
                f"{keyword}= is missing for {values.null_count:,} of {len(names):,} entries of "
                f"axis {chosen.axis!r}, the first is {first!r}, and nothing says to which "
                f"group they belong; leave them out (where={f'{item} IS NOT NULL'!r}), or make "
                f"each one a group ({keyword}={f'coalesce({item}, name)'!r})"
            )
        item_codes, item_keys = _coded(values, keyword, seed)
        codes = codes * item_keys.size + item_codes
        keys = keys * _FACTOR + item_keys[item_codes]
        _, first_rows, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes, keys[first_rows]


def expressions_of(expressions: object, keyword: str) -> list[str]:
    """Return expressions of SQL, of which one string may have several."""
    listed = [
        part.strip() for item in written_items(expressions, keyword) for part in list_items(item)
    ]
    if not listed or not all(listed):
        raise errors.QueryError(f"{keyword}= is empty; pass a vector, or an expression of SQL")
    return listed


def _as_column(chosen: AxisRows, item: str) -> str:
    """Return an expression; the name of a vector is that vector, whatever it looks like."""
    members = chosen.readers
    is_vector = any(daf.has_vector(chosen.axis, item) for daf in members)
    return quoted_name(item) if is_vector else item


def _coded(values: pa.Array, keyword: str, seed: int) -> tuple[Codes, Keys]:
    """Return a number for each value, and a key for each number."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    try:
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        strings: Any = encoded.dictionary.cast(pa.large_string()).fill_null("")
    except (pa.ArrowException, NotImplementedError) as error:
        raise errors.InvalidInputError(
            f"{keyword}= yields {values.type}; pass an expression that yields strings, numbers or "
            "booleans"
        ) from error
    codes: Codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, name_keys(strings, seed)


IfChanged: TypeAlias = Literal["error", "keep"]
"""What happens if the data would make another sampler today: an error, or the saved one counts."""

_TOLERANCE: Final = 1e-12


def read_sampler(path: Path) -> Sampler:
    """Return a sampler as it was saved; nothing is compared.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    InvalidInputError
        It is no file of a sampler.
    CorruptDataError
        The file is damaged.
    """
    record = _record_in(path)
    requested = record["sampler"]
    with errors.os_errors(str(path)):
        try:
            table = ds.dataset(path, format=path.suffix.removeprefix(".")).to_table()
            lengths = {str(name): int(length) for name, length in requested["lengths"].items()}
            return _sampler_of(table, requested, lengths, record)
        except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.CorruptDataError(
                f"{path}: the sampler cannot be read: {type(error).__name__}: {error}; save it "
                "again"
            ) from error


def _record_in(path: Path) -> Record:
    try:
        record = provenance(path)
    except errors.InvalidInputError:
        record = None
    if record is None or not isinstance(record.get("sampler"), dict):
        raise errors.InvalidInputError(
            f"{path}: this is no file of a sampler; Sampler.save() writes one to .parquet or .arrow"
        )
    return record


def _sampler_of(
    table: pa.Table, requested: Record, lengths: dict[str, int], record: Record
) -> Sampler:
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    within = columns[INDEX].to_numpy(zero_copy_only=False).astype(np.int64)
    is_collection = DATASET in columns
    starts = np.concatenate([[0], np.cumsum(list(lengths.values()), dtype=np.int64)])
    owners = _codes(columns[DATASET], list(lengths)) if is_collection else 0
    shares = dict(requested["split"] or ())
    has_splits, has_weights = SPLIT in columns, WEIGHT in columns
    return Sampler(
        requested["axis"],
        starts[owners] + within,
        columns[NAME].cast(pa.large_string()),
        columns[WEIGHT].to_numpy(zero_copy_only=False).astype(np.float64) if has_weights else None,
        lengths,
        _codes(columns[SPLIT], list(shares)).astype(np.int16) if has_splits else None,
        {name: float(share) for name, share in shares.items()},
        is_collection,
        record,
    )


def _codes(column: Any, names: list[str]) -> Any:
    encoded = column.cast(pa.string()).dictionary_encode()
    numbers = np.array([names.index(name) for name in encoded.dictionary.to_pylist()], np.int64)
    return numbers[encoded.indices.to_numpy(zero_copy_only=False)]


def load_sampler(engine: Engine, schema: str | None, path: Path, if_changed: IfChanged) -> Sampler:
    """Return a saved sampler; see `DafSession.load_sampler`."""
    if if_changed not in get_args(IfChanged):
        raise errors.InvalidInputError(f"if_changed={if_changed!r} is neither 'error' nor 'keep'")
    saved = read_sampler(path)
    tables = engine.connections.schema(schema)
    if saved.axis not in tables.axes_set():
        raise errors.axis_not_found(tables.location, saved.axis, tables.axes_set())
    axis = tables.concatenated(saved.axis)
    if if_changed == "keep":
        return _placed(saved, axis, path)
    advice = (
        "; make it again, or pass if_changed='keep' to find the saved entries by their names and "
        "keep their splits and weights"
    )
    try:
        now = make_sampler(engine, schema, _request_of(saved))
    except errors.DafError as error:
        raise errors.InvalidInputError(
            f"{path}: the sampler cannot be made of {axis.location} any more: {error}{advice}"
        ) from error
    difference = _difference(saved, now)
    if difference is not None:
        raise errors.InvalidInputError(
            f"{path}: {axis.location} was changed since the sampler was saved: {difference}{advice}"
        )
    return now


def _request_of(saved: Sampler) -> SamplerRequest:
    """Return how the sampler was asked for; entries that no SQL chose are asked for by position."""
    requested = saved.record["sampler"]
    return SamplerRequest(
        saved.axis,
        requested["where"] if requested["where_is_sql"] else saved.indices,
        requested["weights"],
        None if requested["split"] is None else dict(requested["split"]),
        requested["seed"],
        requested["stratify"],
        requested["groups"],
    )


def _difference(saved: Sampler, now: Sampler) -> str | None:
    """Return what is different, as a part of a sentence; None if nothing is."""
    if saved.is_collection != now.is_collection:
        return "it is one data set and was several, or the other way round"
    if len(saved) != len(now):
        return f"where= chooses {len(now):,} entries and chose {len(saved):,}"
    if not np.array_equal(saved.indices, now.indices) or not saved.names.equals(now.names):
        return "the chosen entries are others, or at other positions"
    weights, weights_now = _numbers(saved.weights), _numbers(now.weights)
    if not np.allclose(weights, weights_now, rtol=_TOLERANCE, atol=0):
        return "weights= yields other numbers"
    if not np.array_equal(_numbers(saved.split_codes), _numbers(now.split_codes)):
        return "entries belong to other splits, since values of stratify= or groups= differ"
    return None


def _numbers(values: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    return np.empty(0) if values is None else values


def _placed(saved: Sampler, axis: ConcatenatedAxis, path: Path) -> Sampler:
    """Return the saved entries where they are now, found by their names."""
    try:
        if saved.is_collection:
            positions = axis.named(saved.datasets, saved.names.cast(pa.string()))
        else:
            positions = axis.axis_indices(saved.names.cast(pa.string()))
    except errors.DafError as error:
        raise errors.with_message(error, f"{path}: {error}") from None
    order = np.argsort(positions, kind="stable")
    return replace(
        saved,
        indices=positions[order],
        names=saved.names.take(pa.array(order)),
        weights=None if saved.weights is None else saved.weights[order],
        split_codes=None if saved.split_codes is None else saved.split_codes[order],
        lengths={name: daf.axis_length(axis.axis) for name, daf in axis.members.items()},
    )
