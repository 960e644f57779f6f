"""Samplers in files, compared with the data when they are read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import Record, provenance
from daf_query.matrix import ConcatenatedAxis
from daf_query.scan import INDEX, NAME
from daf_query.sql import Engine
from daf_query.table import DATASET
from daf_query.training._make import SamplerRequest, axis_of, make_sampler
from daf_query.training._sampler import SPLIT, WEIGHT, Sampler
from daf_storage import errors
from daf_storage._lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = lazy_module("pyarrow.parquet")

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
    asked = record["sampler"]
    with errors.os_errors(str(path)):
        try:
            table = _read_table(path)
            lengths = {str(name): int(length) for name, length in asked["lengths"].items()}
            return _sampler_of(table, asked, lengths, record)
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


def _read_table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as mapped:
        return pa.ipc.open_file(mapped).read_all()


def _sampler_of(table: pa.Table, asked: Record, lengths: dict[str, int], record: Record) -> Sampler:
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    within = columns[INDEX].to_numpy(zero_copy_only=False).astype(np.int64)
    is_collection = DATASET in columns
    starts = np.concatenate([[0], np.cumsum(list(lengths.values()), dtype=np.int64)])
    owners = _codes(columns[DATASET], list(lengths)) if is_collection else 0
    shares = dict(asked["split"] or ())
    has_splits, has_weights = SPLIT in columns, WEIGHT in columns
    return Sampler(
        asked["axis"],
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
    axis = axis_of(engine.connections.schema(schema), saved.axis)
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
    asked = saved.record["sampler"]
    return SamplerRequest(
        saved.axis,
        asked["where"] if asked["where_is_sql"] else saved.indices,
        asked["weights"],
        None if asked["split"] is None else dict(asked["split"]),
        asked["seed"],
        asked["stratify"],
        asked["groups"],
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
