"""The targets, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import _works
from benchmarks._runner import Result

_CELLS_200K = "matrix-200000x2000x100-random"
_GENES_25K = "matrix-50000x25000x1240-random"
_ROWS_200K = "table-200000-random"
_ROWS_10M = "table-10000000-random"
_ROWS_100M = "table-100000000-random-6"
_LARGE = "matrix-2000000x20000x1250-random"
_ENGINES = ("duckdb", "datafusion", "polars")


@dataclass(frozen=True)
class Row:
    """A target."""

    data: str
    """The folder's name of the data set."""
    work: str
    target: str
    measured: str
    verdict: str
    """``met``, ``missed`` or ``not measured``."""


def rows(results: list[Result]) -> list[Row]:
    """Return the targets for the data sets that were measured."""
    measured = {result.data.key for result in results}
    return [row for row in _Targets(results).rows() if row.data in measured]


class _Targets:
    def __init__(self, results: list[Result]) -> None:
        self._medians = {
            (result.data.key, result.work.key, result.system): result.median
            for result in results
            if result.median is not None
        }
        self._memory = {
            (result.data.key, result.work.key, result.system): result.details["peak_bytes"]
            for result in results
            if result.details.get("peak_bytes")
        }

    def rows(self) -> Iterator[Row]:
        warm, opened = "filter_slice-warm", "filter_slice-open"
        yield self._below("filter and slice, open session", _CELLS_200K, warm, 5)
        yield self._below("open, filter and slice", _CELLS_200K, opened, 8)
        for other, times in (("anndata", 1), ("soma", 100), ("slaf", 25), ("anndata-backed", 30)):
            yield self._times("filter and slice, open session", _CELLS_200K, warm, (other,), times)
        scattered = "1,000 x 50 scattered"
        yield self._below(scattered, _CELLS_200K, "scattered-warm", 6)
        for other, times in (("anndata", 1), ("slaf", 25)):
            yield self._times(scattered, _CELLS_200K, "scattered-warm", (other,), times)
        yield self._below("count and mean by a column", _CELLS_200K, "mean_by-warm", 5)
        yield self._times(
            "count and mean by a column", _CELLS_200K, "mean_by-warm", ("anndata",), 1
        )
        yield self._times("one gene of 25,000", _GENES_25K, "gene-warm", ("limit",), 0.5)
        numeric, equality = "numeric_filter-warm", "string_equality"
        yield self._times("numeric filter, 10 M rows", _ROWS_10M, numeric, ("limit",), 1)
        yield self._times("numeric filter, 10 M rows", _ROWS_10M, numeric, _ENGINES, 4)
        yield self._times(
            "string equality, first, 10 M rows", _ROWS_10M, f"{equality}-first", _ENGINES, 1
        )
        yield self._times(
            "the same, of an indexed column",
            _ROWS_10M,
            f"{equality}-first",
            _ENGINES,
            1,
            ours="daf-indexed",
        )
        yield self._times(
            "string equality, later, 10 M rows", _ROWS_10M, f"{equality}-warm", _ENGINES, 5
        )
        for task in ("group_by", "join"):
            work = _works.ALL[f"{task}-warm"]
            yield self._times(f"{work.title}, 10 M rows", _ROWS_10M, work.key, ("duckdb",), 1)
        yield self._below("first look-up in 10 M names", _ROWS_10M, "look_up-first", 250)
        for work in _works.TABLE:
            if work.mode == "warm":
                yield self._below(f"{work.title}, 200,000 rows", _ROWS_200K, work.key, 3)
                yield self._times(
                    f"{work.title}, 200,000 rows", _ROWS_200K, work.key, ("duckdb",), 1
                )
        for title, data, system in (
            ("200,000 cells", _CELLS_200K, "daf"),
            ("20 GB of h5ad in place", _LARGE, "daf-h5ad"),
        ):
            peak = self._memory.get((data, warm, system))
            yield _memory_row(data, f"peak memory, filter and slice, {title}", peak, 300)
        peaks = [
            peak
            for (data, work, system), peak in self._memory.items()
            if data == _ROWS_100M and system == "daf" and work != _works.PREPARE.key
        ]
        yield _memory_row(
            _ROWS_100M, "peak memory, each query on 100 M rows", max(peaks, default=None), 2_000
        )

    def _below(self, title: str, data: str, work: str, limit_ms: float) -> Row:
        ours = self._medians.get((data, work, "daf"))
        return Row(
            data,
            title,
            f"under {limit_ms:g} ms",
            f"{1e3 * ours:.1f} ms" if ours else "-",
            _verdict(is_met=1e3 * ours < limit_ms if ours else None),
        )

    def _times(
        self,
        title: str,
        data: str,
        work: str,
        others: tuple[str, ...],
        times: float,
        *,
        ours: str = "daf",
    ) -> Row:
        """The best of some others takes so many times as long."""
        own = self._medians.get((data, work, ours))
        theirs = [median for other in others if (median := self._medians.get((data, work, other)))]
        ratio = min(theirs) / own if own and len(theirs) == len(others) else None
        who = "the limit" if others == ("limit",) else " and ".join(others)
        if times == 1:
            target = f"no slower than {who}"
        elif times < 1:
            target = f"within {1 / times:g} x of {who}"
        else:
            target = f"{times:g} x as fast as {who}"
        return Row(
            data,
            title,
            target,
            f"{ratio:.2g} x as fast" if ratio is not None else "-",
            _verdict(is_met=ratio >= times if ratio is not None else None),
        )


def _memory_row(data: str, title: str, peak: float | None, limit_mb: float) -> Row:
    return Row(
        data,
        title,
        f"under {limit_mb:,.0f} MB",
        f"{peak / 1e6:,.0f} MB" if peak else "-",
        _verdict(is_met=peak < 1e6 * limit_mb if peak else None),
    )


def _verdict(*, is_met: bool | None) -> str:
    return "not measured" if is_met is None else "met" if is_met else "**missed**"
