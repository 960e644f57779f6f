"""A profile as an AnnData: groups x columns."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daf_query.matrix import AlignedAxis
from daf_query.moments import GroupProfile, Moments
from daf_query.slice import aligned_axis_frame
from daf_query.sql import pandas_frame
from daf_storage import errors
from daf_storage.anndata import axis_frame
from daf_storage.base import optional_import

Statistic: TypeAlias = Literal[
    "sum", "mean", "variance", "min", "max", "nonzero", "missing", "fraction"
]
"""The layers of the AnnData of a profile."""

_ALL_ROWS = "all"


def to_anndata(content: GroupProfile, statistic: Statistic) -> Any:
    """Return an AnnData; see `Profile.to_anndata`."""
    anndata = optional_import("anndata", extra="anndata")
    check_statistic(statistic)
    var, uns = _columns_frame(content)
    moments = content.moments
    layers = {name: values_of(moments, name) for name in get_args(Statistic)}
    obs = pandas_frame(pa.table({**content.groups, "count": pa.array(moments.count)}))
    obs.index = group_labels(content.groups, moments.count.size)
    return anndata.AnnData(X=layers[statistic].copy(), obs=obs, var=var, layers=layers, uns=uns)


def _columns_frame(content: GroupProfile) -> tuple[Any, dict[str, Any]]:
    """Return the vectors of the columns, and the colours of their categoricals."""
    axis, positions = content.axes[1], content.columns.positions
    if isinstance(axis, AlignedAxis):
        return aligned_axis_frame(axis, positions)
    [daf] = axis.members.values()
    return axis_frame(daf, axis.axis, positions, unreadable="warn")


def check_statistic(statistic: object) -> None:
    """Refuse what is no `Statistic`."""
    if statistic not in get_args(Statistic):
        raise errors.InvalidInputError(
            f"statistic= is {statistic!r}; it is one of {', '.join(get_args(Statistic))}"
        )


def values_of(moments: Moments, statistic: Statistic) -> npt.NDArray[Any]:
    """Return a statistic of each group and column, of shape ``(groups, columns)``."""
    if statistic == "fraction":
        return fraction_of(moments)
    values: npt.NDArray[Any] = getattr(moments, statistic)
    return values


def fraction_of(moments: Moments) -> npt.NDArray[np.float64]:
    """Return the share of the values that are not zero, among those that are not missing."""
    n = moments.count[:, np.newaxis] - moments.missing
    with np.errstate(all="ignore"):
        return np.where(n > 0, moments.nonzero / np.maximum(n, 1), np.nan)


def group_labels(groups: Mapping[str, pa.Array], n_groups: int) -> list[str]:
    """Return a label for each group: its values, joined; each label once.

    >>> group_labels({"donor": pa.array(["N1", None]), "old": pa.array([True, False])}, 2)
    ['N1_true', 'NULL_false']
    """
    if not groups:
        return [_ALL_ROWS] * n_groups
    columns = []
    for values in groups.values():
        plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        columns.append(pc.fill_null(plain.cast(pa.string()), "NULL").to_pylist())
    labels = ["_".join(parts) for parts in zip(*columns, strict=True)]
    return _unique(labels)


def _unique(labels: list[str]) -> list[str]:
    """Return labels, of which those that were there before have a number.

    >>> _unique(["T", "T", "T-1"])
    ['T', 'T-1', 'T-1-1']
    """
    used: set[str] = set()
    unique = []
    for label in labels:
        candidates = (f"{label}-{number}" for number in count(1))
        free = label if label not in used else next(c for c in candidates if c not in used)
        used.add(free)
        unique.append(free)
    return unique
