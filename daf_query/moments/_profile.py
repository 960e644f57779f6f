"""Profiles as tables, and the markers that follow from them.

Markers are the columns in which a group differs from the others.  *Welch's t-test* needs the
moments of a profile alone, which are merged over the other groups; the *rank-sum test* of Wilcoxon
needs the values.  Both are what ``scanpy.tl.rank_genes_groups`` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daf_query.moments._group_moments import Counts, Doubles, Moments, Statistic
from daf_query.scan import number_array
from daf_storage import errors
from daf_storage._lazy import lazy_module, pc, sp
from daf_storage.anndata import made_unique
from daf_storage.base import AnyArray

if TYPE_CHECKING:
    from scipy import special
else:
    special = lazy_module("scipy.special")

COUNTS: Final[tuple[str, ...]] = ("count", "missing", "nonzero")
NUMBERS: Final[tuple[Statistic, ...]] = ("sum", "mean", "variance", "min", "max")
STATISTICS: Final[tuple[str, ...]] = (*COUNTS, *NUMBERS)
"""The columns of numbers, in their order."""


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """What a profile consists of."""

    axis_names: tuple[str, str]
    """That of the rows, and that of the columns."""
    name: str
    """The name of the matrix."""
    entries: pa.DictionaryArray
    """The entry of each selected column."""
    groups: Mapping[str, pa.Array]
    """The value of each group, by the names of the group columns."""
    sizes: Counts
    """Number of rows of each group."""
    moments: Moments
    """The numbers, of shape ``(groups, columns)``."""

    def has_counts(self) -> bool:
        """Return whether all sums and maxima are whole numbers, as those of logarithms are not."""
        sums, highest = self.moments.statistic("sum"), self.moments.statistic("max")
        are_whole = all((each[np.isfinite(each)] % 1 == 0).all() for each in (sums, highest))
        return are_whole and bool((highest > 1).any())

    def labels(self) -> list[str]:
        """Return a label for each group: its values, joined; each label once, as in anndata."""
        if not self.groups:
            return ["all"] * self.sizes.size
        columns = []
        for values in self.groups.values():
            plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
            columns.append(pc.fill_null(plain.cast(pa.string()), "NULL"))
        return list(made_unique(pc.binary_join_element_wise(*columns, "_")).to_pylist())

    def to_table(self) -> pa.Table:
        """Return a row for each group and column; the moments are not copied."""
        moments, n_groups, n_columns = self.moments, self.sizes.size, len(self.entries)
        counts = np.repeat(self.sizes, n_columns), moments.missing, moments.nonzero
        schema = schema_of(self.groups, self.axis_names[1])
        numbers = [*counts, *map(moments.statistic, NUMBERS)]
        codes = np.repeat(np.arange(n_groups), n_columns)
        return self.rows(codes, np.tile(np.arange(n_columns), n_groups), numbers, schema)

    def rows(
        self, groups: AnyArray, columns: AnyArray, numbers: Sequence[AnyArray], schema: pa.Schema
    ) -> pa.Table:
        """Return a table of numbers that some groups and columns have, each by its place."""
        arrays = [values.take(pa.array(groups)) for values in self.groups.values()]
        arrays += [self.entries.take(pa.array(columns))]
        for values, field in zip(numbers, list(schema)[len(arrays) :], strict=True):
            is_whole = pa.types.is_integer(field.type)
            arrays.append((pa.array if is_whole else number_array)(values.reshape(-1)))
        return pa.table(arrays, schema)


def schema_of(
    groups: Mapping[str, pa.Array], columns_axis: str, statistics: Sequence[str] = STATISTICS
) -> pa.Schema:
    """Return the names and types of the columns of what is computed of groups and columns."""
    types = {name: values.type for name, values in groups.items()}
    types[columns_axis] = pa.dictionary(pa.int32(), pa.string())
    types |= {name: pa.int64() if name in COUNTS else pa.float64() for name in statistics}
    return pa.schema(types)


Test: TypeAlias = tuple[Doubles, Doubles]
"""The score of each column, and its p-value."""
REST: Final = "rest"
"""Compares each group with all other rows."""
MARKER_STATISTICS: Final = (
    *("score", "log_fold_change", "pvalue", "pvalue_adjusted"),
    *("mean", "mean_rest", "fraction", "fraction_rest"),
)
"""The columns of numbers, in their order."""

_LEAST: Final = 1e-9
"""What is added to means before they are divided, as scanpy does."""


def rests(samples: Sequence[Moments]) -> list[Moments]:
    """Return for each of two samples or more all others together.

    They are merged from both ends rather than subtracted from the total, which would lose digits
    where one group is nearly everything.
    """
    before = list(accumulate(samples[:-1], Moments.merged))
    after = list(accumulate(reversed(samples[1:]), Moments.merged))[::-1]
    middle = [left.merged(right) for left, right in zip(before, after[1:], strict=False)]
    return [after[0], *middle, before[-1]]


def welch(sample: Moments, other: Moments) -> tuple[Doubles, Doubles]:
    """Return the t statistic of two samples of unequal variances, and its two-sided p-value.

    Columns in which both are constant and equal have 0 and 1; those in which one has fewer than two
    values NaN.
    """
    with np.errstate(all="ignore"):
        own, others = sample.variance / sample.n, other.variance / other.n
        error = own + others
        score = (sample.mean - other.mean) / np.sqrt(error)
        freedom = error**2 / (own**2 / (sample.n - 1) + others**2 / (other.n - 1))
    freedom = np.where(np.isnan(freedom), 1.0, freedom)
    is_same = (error == 0) & (sample.mean == other.mean)
    score = np.where(is_same, 0.0, score)
    return score, 2 * special.stdtr(freedom, -np.abs(score))


def log_fold_change(sample: Moments, other: Moments, *, is_log1p: bool) -> Doubles:
    """Return the binary logarithm of the ratio of two means.

    Parameters
    ----------
    is_log1p
        Whether the values are logarithms (``log(x + 1)``), whose means are turned back.
    """
    of_values = np.expm1 if is_log1p else np.asarray
    with np.errstate(all="ignore"):
        ratio = (of_values(sample.mean) + _LEAST) / (of_values(other.mean) + _LEAST)
        return np.asarray(np.log2(ratio), np.float64)


def adjusted(pvalues: Doubles) -> Doubles:
    """Return p-values adjusted by Benjamini and Hochberg; those that are NaN do not count.

    >>> adjusted(np.array([0.01, 0.02, np.nan, 0.9])).tolist()
    [0.03, 0.03, nan, 0.9]
    """
    found = np.full(pvalues.shape, np.nan)
    order = np.argsort(pvalues)[: np.count_nonzero(~np.isnan(pvalues))]
    scaled = pvalues[order] * (order.size / np.arange(1, order.size + 1))
    found[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return found


@dataclass(frozen=True, slots=True)
class RankSums:
    """The sums of the ranks of groups, column by column, of the shape ``(groups, columns)``."""

    sums: Doubles
    n: Counts
    """Number of values of each group that are not missing."""
    ties: Doubles
    """What ties leave of the variance, of the shape ``(columns,)``; 1 where there are none."""

    def scores(self, group: int, *, tie_correct: bool) -> tuple[Doubles, Doubles]:
        """Return the normal scores of a group against all others, and their p-values."""
        total, own = self.n.sum(axis=0), self.n[group]
        variance = own * (total - own) * ((total + 1) / 12.0)
        with np.errstate(all="ignore"):
            scale = np.sqrt(variance * self.ties if tie_correct else variance)
            score = (self.sums[group] - own * ((total + 1) / 2.0)) / scale
        none = (own == 0) | (own == total)
        score = np.where(np.isnan(score), np.where(none, np.nan, 0.0), score)
        return score, 2 * special.ndtr(-np.abs(score))


def rank_sums(values: sp.csc_array, codes: npt.NDArray[np.intp], n_groups: int) -> RankSums:
    """Rank the values of each column, and add up the ranks of each group.

    Elements that are not stored are zeros, which are not made; equal values have their mean rank.

    Parameters
    ----------
    codes
        The group of each row.
    """
    sizes = np.bincount(codes, minlength=n_groups)
    shape = (n_groups, values.shape[1])
    found = RankSums(np.empty(shape), np.empty(shape, np.int64), np.empty(shape[1]))
    for column, (start, stop) in enumerate(pairwise(values.indptr)):
        stored, groups = values.data[start:stop], codes[values.indices[start:stop]]
        missing = np.isnan(stored)
        n = sizes - np.bincount(groups[missing], minlength=n_groups)
        stored, groups = stored[~missing], groups[~missing]
        zeros = n - np.bincount(groups, minlength=n_groups)
        _, places, counts = np.unique(np.append(stored, 0), return_inverse=True, return_counts=True)
        zero = places[-1]
        counts[zero] += zeros.sum() - 1  # the zero that was appended is no value
        ranks = np.cumsum(counts) - (counts - 1) / 2.0
        sums = np.bincount(groups, weights=ranks[places[:-1]], minlength=n_groups)
        found.sums[:, column] = sums + zeros * ranks[zero]
        found.n[:, column] = n
        total, ties = float(n.sum()), counts.astype(np.float64)
        lost = float((ties**3 - ties).sum())
        found.ties[column] = 1.0 - lost / max(total**3 - total, 1.0)
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """A group beside what it is compared with, column by column."""

    group: int
    other_group: int | None
    """The group that it is compared with; None for all others."""
    sample: Moments
    other: Moments


def comparisons_of(content: GroupProfile, reference: Any) -> list[Comparison]:
    """Return the groups of a profile that are compared, each with the rest or with another group.

    Rows whose group is NULL are no group, but part of the rest.

    Raises
    ------
    InvalidInputError
        There are fewer than two groups; or the reference is not the name of one of them.
    """
    groups, moments = content.groups, content.moments
    samples = [moments.map(itemgetter(group)) for group in range(content.sizes.size)]
    has_null = [np.asarray(pc.is_null(values)) for values in groups.values()]
    named = np.flatnonzero(~np.logical_or.reduce(has_null)) if has_null else np.arange(0)
    if len(samples) < 2 or not named.size:
        raise errors.InvalidInputError(
            f"markers compare groups of {content.axis_names[0]}, and by= makes fewer than two of "
            "the chosen entries"
        )
    if isinstance(reference, str) and reference == REST:
        others = rests(samples)
        return [Comparison(each, None, samples[each], others[each]) for each in named.tolist()]
    place = _group_called(groups, named.tolist(), reference)
    return [
        Comparison(each, place, samples[each], samples[place])
        for each in named.tolist()
        if each != place
    ]


def _group_called(groups: Mapping[str, pa.Array], named: list[int], reference: Any) -> int:
    """Return the one group whose values, or their text, a reference is.

    Raises
    ------
    InvalidInputError
        It is none, or several.
    """
    rows = list(zip(*(values.to_pylist() for values in groups.values()), strict=True))
    strings = {each: tuple(map(_text, rows[each])) for each in named}
    wanted = tuple(map(_text, reference if isinstance(reference, list | tuple) else [reference]))
    found = [each for each, text in strings.items() if text == wanted]
    found = found or [each for each, text in strings.items() if "_".join(text) == "_".join(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise errors.InvalidInputError(
            f"reference={reference!r} is the name of {len(found)} groups: "
            f"{', '.join(str(rows[each]) for each in found)}; pass the values of one"
        )
    listed = sorted({"_".join(text) for text in strings.values()})
    raise errors.InvalidInputError(
        f"reference={reference!r} is no group; there are {errors.shown_names(listed)}, and "
        f"{REST!r} for all others{errors.nearest(str(reference), listed)}"
    )


def _text(value: Any) -> str:
    """Return a value as text; truth values as SQL writes them, which are no numbers."""
    text = str(value)
    return text.lower() if text in ("True", "False") else text


def welch_tests(comparisons: Sequence[Comparison]) -> list[Test]:
    """Compare by Welch's t-test."""
    return [welch(each.sample, each.other) for each in comparisons]


def marker_table(
    content: GroupProfile,
    reference: Any = REST,
    tests_of: Callable[[Sequence[Comparison]], Sequence[Test]] = welch_tests,
    *,
    is_log1p: bool,
    top: int | None = None,
) -> pa.Table:
    """Return a row for each compared group and column: group by group, highest scores first.

    Parameters
    ----------
    tests_of
        Compares groups.
    top
        How many columns of each group; None for all.

    Raises
    ------
    InvalidInputError
        As `comparisons_of`.
    """
    comparisons = comparisons_of(content, reference)
    schema = schema_of(content.groups, content.axis_names[1], MARKER_STATISTICS)
    if not comparisons:
        return schema.empty_table()
    found: list[tuple[AnyArray, ...]] = []
    for each, (score, pvalue) in zip(comparisons, tests_of(comparisons), strict=True):
        order = np.argsort(-score, kind="stable")[:top]  # NaN is last
        sides = each.sample, each.other
        change = log_fold_change(*sides, is_log1p=is_log1p)
        numbers = [score, change, pvalue, adjusted(pvalue)]
        numbers += [side.mean for side in sides] + [side.fraction for side in sides]
        group = np.full(order.size, each.group)
        found.append((group, order, *(values[order] for values in numbers)))
    groups, columns, *numbers = map(np.concatenate, zip(*found, strict=True))
    return content.rows(groups, columns, numbers, schema)
