"""Make a sampler: choose entries, evaluate what is said of them, and allocate them to splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query._provenance import record_of
from daf_query.matrix import ConcatenatedAxis
from daf_query.slice import Selector, chosen_positions, each_once
from daf_query.sql import AxisSchema, Engine
from daf_query.training._expressions import ChosenEntries, Classes, classes_of, weights_of
from daf_query.training._sampler import Sampler
from daf_query.training._splits import (
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
            "stratify": _listed(self.stratify),
            "groups": _listed(self.groups),
        }


def _listed(expressions: Expressions | None) -> Any:
    is_plain = expressions is None or isinstance(expressions, str)
    return expressions if is_plain else list(expressions or ())


def make_sampler(engine: Engine, schema: str | None, request: SamplerRequest) -> Sampler:
    """Return a sampler; see `DafSession.sampler`."""
    shares = {} if request.split is None else checked_shares(request.split)
    seed = checked_seed(request.seed)
    _check_expressions(request)
    chosen = _chosen_entries(engine, schema, request)
    names = chosen.names()
    weights = None if request.weights is None else weights_of(chosen, request.weights, names)
    splits = _splits(chosen, request, names, shares, seed) if shares else None
    if splits is not None:
        _check_splits(splits, shares, weights, request)
    lengths = {name: daf.axis_length(request.axis) for name, daf in chosen.axis.members.items()}
    asked = {"sampler": {**request.description(), "schema": chosen.schema, "lengths": lengths}}
    sources = {chosen.schema: engine.connections.data_sets()[chosen.schema]}
    return Sampler(
        request.axis,
        chosen.positions,
        names,
        weights,
        lengths,
        splits,
        shares,
        chosen.is_collection,
        record_of(sources, asked),
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


def _chosen_entries(engine: Engine, schema: str | None, request: SamplerRequest) -> ChosenEntries:
    """Return the entries that ``where=`` chooses, ascending."""
    tables = engine.connections.schema(schema)
    axis = request.axis
    positions = chosen_positions(engine, tables, axis, request.where, keyword="where", other=axis)
    whole = axis_of(tables, axis)
    if not positions.size:
        raise errors.InvalidInputError(
            f"{tables.location}: where= chooses none of the {whole.length:,} entries of axis "
            f"{axis!r}; diagnose({axis!r}, ...) says which part of a predicate leaves none"
        )
    once = each_once(positions).copy()  # it becomes read-only
    return ChosenEntries(engine, tables.name, whole, tables.is_collection, once)


def axis_of(tables: AxisSchema, axis: str) -> ConcatenatedAxis:
    """Return an axis of one data set, or of several."""
    if axis not in tables.axes_set():
        raise errors.axis_not_found(tables.location, axis, tables.axes_set())
    return tables.concatenated(axis)


def _splits(
    chosen: ChosenEntries,
    request: SamplerRequest,
    names: pa.Array,
    shares: dict[str, float],
    seed: int,
) -> SplitCodes:
    parts = list(shares.values())
    strata: Classes | None = None
    if request.stratify is not None:
        strata = classes_of(
            chosen, request.stratify, keyword="stratify", seed=seed, names=names, allows_null=True
        )
    codes = None if strata is None else strata.codes
    if request.groups is None:
        return allocate(name_keys(names, seed), parts, codes)
    groups = classes_of(
        chosen, request.groups, keyword="groups", seed=seed, names=names, allows_null=False
    )
    if groups.keys.size < len(parts):
        raise errors.InvalidInputError(
            f"groups= makes {groups.keys.size:,} groups of the {len(names):,} entries, too few for "
            f"{len(parts):,} splits of whole groups; choose more with where=, or ask for fewer "
            "splits"
        )
    return allocate_groups(groups.codes, groups.keys, parts, codes)


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
