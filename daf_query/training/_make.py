"""Make a sampler, or load one: choose entries, evaluate expressions, allocate splits, compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import record_of
from daf_query.matrix import ConcatenatedAxis, each_once
from daf_query.scan import INDEX, NAME
from daf_query.slice import AxisRows, Selector
from daf_query.sql import Engine, is_number, listed_expressions
from daf_query.syntax import plain_name, real_divisions
from daf_query.table import DATASET
from daf_query.training import _splits as splitting
from daf_query.training._sampler import SPLIT, WEIGHT, Sampler, coded, read_sampler
from daf_query.training._splits import Codes, Keys, Shares, SplitCodes
from daf_storage import errors
from daf_storage._lazy import pc
from daf_storage.base import check_choice

Expressions = str | Sequence[str]
"""The name of a vector, an expression of SQL, or several."""

IfChanged: TypeAlias = Literal["error", "keep"]
"""What happens if the data would make another sampler today: an error, or the saved one counts."""

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_TOLERANCE: Final = 1e-12


def make_sampler(  # noqa: PLR0913 - what is chosen, and how it is split
    engine: Engine,
    schema: str | None,
    axis: str,
    *,
    where: Selector = None,
    weights: str | None = None,
    split: Shares | None = None,
    seed: int = 0,
    stratify: Expressions | None = None,
    groups: Expressions | None = None,
) -> Sampler:
    """Return a sampler; see `DafSession.sampler`."""
    shares = {} if split is None else splitting.checked_shares(split)
    seed = splitting.checked_seed(seed)
    expressions = {"stratify": stratify, "groups": groups}
    for keyword, given in expressions.items():
        if given is not None and not shares:
            raise errors.InvalidInputError(
                f"{keyword}= is for splits, and there are none; pass split= as well, for example "
                "{'train': 0.8, 'val': 0.2}"
            )
    if not isinstance(weights, str | None):
        raise errors.InvalidInputError(
            f"weights= is an expression of SQL, not {type(weights).__name__}; numbers of "
            "your own become a vector with set_vector(), whose name is an expression"
        )
    rows = AxisRows.of(engine, schema, axis)
    whole, tables = rows.whole, rows.tables
    positions = each_once(rows.chosen(where, "where"))
    if not positions.size:
        why = f"; db.diagnose({axis!r}, {where!r}) says why" if isinstance(where, str) else ""
        raise errors.InvalidInputError(
            f"{tables.location}: where= chooses none of the {whole.length:,} entries of axis "
            f"{axis!r}{why}"
        )
    chosen = replace(rows, some=positions)
    owners, within = whole.split(positions)
    columns = {DATASET: coded(owners, whole.names)} if tables.is_collection else {}
    names = chosen.names()
    columns |= {INDEX: pa.array(within), NAME: names}
    numbers = None if weights is None else weights_of(chosen, weights, names)
    if shares:
        splits = _splits(chosen, list(shares.values()), seed, names, **expressions)
        _check_splits(splits, shares, numbers, axis)
        columns[SPLIT] = coded(splits, shares)
    if numbers is not None:
        columns[WEIGHT] = pa.array(numbers)
    is_sql = isinstance(where, str | None)
    lengths = _lengths(whole)
    requested = {
        "axis": axis,
        "where": where if is_sql else f"<{type(where).__name__}>",
        "where_is_sql": is_sql,
        "weights": weights,
        "split": None if split is None else [(n, float(x)) for n, x in split.items()],  # in order
        "seed": seed,
        **{key: e if isinstance(e, str | None) else list(e) for key, e in expressions.items()},
        "schema": tables.name,
        "lengths": lengths,
    }
    sources = {tables.name: engine.connections.data_sets()[tables.name]}
    record = record_of(sources, {"sampler": requested})
    return Sampler(axis, pa.table(columns), lengths, shares, record)


def _lengths(axis: ConcatenatedAxis) -> dict[str, int]:
    return dict(zip(axis.names, np.diff(axis.starts).tolist(), strict=True))


def _splits(
    chosen: AxisRows,
    shares: list[float],
    seed: int,
    names: pa.Array,
    *,
    stratify: Expressions | None,
    groups: Expressions | None,
) -> SplitCodes:
    strata = None
    if stratify is not None:
        strata, _ = classes_of(chosen, stratify, "stratify", seed, names)
    if groups is None:
        return splitting.allocate(splitting.name_keys(names, seed), shares, strata)
    codes, keys = classes_of(chosen, groups, "groups", seed, names, refuses_null=True)
    if keys.size < len(shares):
        raise errors.InvalidInputError(
            f"groups= makes {keys.size:,} groups of the {len(names):,} entries, too few for "
            f"{len(shares):,} splits of whole groups; choose more with where=, or ask for fewer "
            "splits"
        )
    return splitting.allocate_groups(codes, keys, shares, strata)


def _check_splits(
    splits: SplitCodes, shares: dict[str, float], weights: npt.NDArray[np.float64] | None, axis: str
) -> None:
    """Refuse splits without entries, or of which none can be drawn."""
    counts = np.bincount(splits, minlength=len(shares))
    sums = np.bincount(splits, weights=weights, minlength=len(shares))
    for (name, share), count, total in zip(shares.items(), counts, sums, strict=True):
        if not count:
            raise errors.InvalidInputError(
                f"split {name!r} gets none of {splits.size:,} entries of axis {axis!r}: its share "
                f"is {share:.4g}; choose more entries with where=, or give it a larger share"
            )
        if not total:
            raise errors.InvalidInputError(
                f"weights= is 0 for all entries of split {name!r}, so that none can be drawn; "
                "leave out entries of weight 0 with where="
            )


def weights_of(chosen: AxisRows, text: str, names: pa.Array) -> npt.NDArray[np.float64]:
    """Return the weight of each chosen entry.

    Divisions are those of real numbers: ``1 / count(*) OVER (...)`` is no integer.

    Raises
    ------
    InvalidInputError
        One is missing, negative or infinite; or all are 0; or they are no numbers.
    """
    with errors.located("weights="):
        values = chosen.values(text, edits=real_divisions(text))
    type_ = values.type
    if not (is_number(type_) or pa.types.is_boolean(type_) or pa.types.is_null(type_)):
        raise errors.InvalidInputError(
            f"weights= yields {type_}, not numbers; write an expression such as "
            "1 / count(*) OVER (PARTITION BY cell_type)"
        )
    weights: npt.NDArray[np.float64] = (
        values.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
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
    items = listed_expressions(expressions, chosen.vectors, keyword)
    if not items:
        raise errors.QueryError(f"{keyword}= is empty; pass a vector, or an expression of SQL")
    codes, keys = np.zeros(len(names), np.int64), np.zeros(len(names), np.uint64)
    for item in items:
        with errors.located(f"{keyword}="):
            values = chosen.values(item)
        if refuses_null and values.null_count:
            first = names[int(np.argmax(np.asarray(values.is_null())))].as_py()
            written = plain_name(item) if item in chosen.vectors else item
            raise errors.InvalidInputError(
                f"{keyword}= is missing for {values.null_count:,} of {len(names):,} entries of "
                f"axis {chosen.axis!r}, the first is {first!r}, and nothing says to which "
                f"group they belong; leave them out (where={f'{written} IS NOT NULL'!r}), or make "
                f"each one a group ({keyword}={f'coalesce({written}, name)'!r})"
            )
        item_codes, item_keys = _coded(values, keyword, seed)
        codes = codes * item_keys.size + item_codes
        keys = keys * _FACTOR + item_keys[item_codes]
        _, first_rows, codes = np.unique(codes, return_index=True, return_inverse=True)
    return codes, keys[first_rows]


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
    return codes, splitting.name_keys(strings, seed)


def load_sampler(engine: Engine, schema: str | None, path: Path, if_changed: IfChanged) -> Sampler:
    """Return a saved sampler; see `DafSession.load_sampler`."""
    check_choice(if_changed, IfChanged, "if_changed")
    saved = read_sampler(path)
    tables = engine.connections.schema(schema).having(saved.axis)
    axis = tables.concatenated(saved.axis)
    if if_changed == "keep":
        return _placed(saved, axis, path)
    advice = (
        "; make it again, or pass if_changed='keep' to find the saved entries by their names and "
        "keep their splits and weights"
    )
    requested = saved.record["sampler"]
    how = {key: requested[key] for key in ("weights", "seed", "stratify", "groups")}
    if requested["split"] is not None:
        how["split"] = dict(requested["split"])
    # Entries that no SQL chose are asked for by position.
    where = requested["where"] if requested["where_is_sql"] else saved.indices
    try:
        now = make_sampler(engine, schema, saved.axis, where=where, **how)
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


def _difference(saved: Sampler, now: Sampler) -> str | None:
    """Return what is different, as a part of a sentence; None if nothing is."""
    was, is_now = saved.table, now.table
    if (DATASET in was.column_names) != (DATASET in is_now.column_names):
        return "it is one data set and was several, or the other way round"
    if len(saved) != len(now):
        return f"where= chooses {len(now):,} entries and chose {len(saved):,}"
    if not np.array_equal(saved.indices, now.indices) or not saved.names.equals(now.names):
        return "the chosen entries are others, or at other positions"
    if saved.weights is not None and now.weights is not None:
        if not np.allclose(saved.weights, now.weights, rtol=_TOLERANCE, atol=0):
            return "weights= yields other numbers"
    if saved.splits is not None and not saved.splits.equals(now.splits):
        return "entries belong to other splits, since values of stratify= or groups= differ"
    return None


def _placed(saved: Sampler, axis: ConcatenatedAxis, path: Path) -> Sampler:
    """Return the saved entries where they are now, found by their names."""
    names = saved.names.cast(pa.string())
    with errors.located(path):
        found = (
            axis.axis_indices(names)
            if saved.datasets is None
            else axis.named(saved.datasets, names)
        )
    order = np.argsort(found, kind="stable")
    owners, within = axis.split(found[order])
    table, lengths = saved.table.take(pa.array(order)), _lengths(axis)
    now = {INDEX: pa.array(within)}
    if saved.datasets is not None:
        now[DATASET] = coded(owners, lengths)
    columns = {name: now.get(name, table.column(name)) for name in table.column_names}
    return replace(saved, table=pa.table(columns), lengths=lengths)
