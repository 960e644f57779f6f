"""The data sets and works of a run: tiny, daily (about ten minutes) and full."""

from __future__ import annotations

from typing import Final, Literal

from benchmarks import _works
from benchmarks._data import GROWTH_COLUMNS, MatrixData, TableData
from benchmarks._runner import Part
from benchmarks._systems import INFOS

Size = Literal["tiny", "daily", "full"]

_MATRIX_WORKS: Final = tuple(_works.MATRIX)
_TABLE_WORKS: Final = tuple(_works.TABLE)
_LOCAL_TABLE: Final = ("limit", "daf", "duckdb", "datafusion", "polars")
_WARM_TABLE: Final = tuple(work for work in _works.TABLE if work.mode == "warm")
_GROWTH: Final = tuple(
    work for work in _works.TABLE if work.task in {"numeric_filter", "group_by", "look_up"}
)
_GROWTH_TABLE: Final = ("limit", "daf", "daf-indexed", "duckdb", "polars")
_FEW: Final = ("limit", "daf", "daf-packed", "anndata", "anndata-backed")

_LAST: Final = ("homeobox", "annbatch", "zarr-search", "xarray-sql")
"""Who is measured when the others are, should time run out."""


def parts(size: Size) -> list[Part]:
    """Return what is measured, the most telling first."""
    every = {
        kind: tuple(
            name for name, info in INFOS.items() if kind in info.kinds and name != "daf-indexed"
        )
        for kind in ("matrix", "table")
    }
    if size == "tiny":
        return [
            Part(
                MatrixData(3_000, 400, 20), every["matrix"], _MATRIX_WORKS, is_import_measured=True
            ),
            Part(TableData(5_000), every["table"], _TABLE_WORKS),
        ]
    cells, rows = MatrixData(200_000, 2_000, 100), TableData(10_000_000)
    strings = tuple(work for work in _works.TABLE if work.task in {"string_equality", "look_up"})
    daily = [
        Part(cells, _without(every["matrix"], _LAST), _MATRIX_WORKS, is_import_measured=True),
        Part(rows, _without(every["table"], _LAST), _TABLE_WORKS),
        Part(rows, ("daf-indexed",), strings),
        Part(TableData(200_000), _LOCAL_TABLE, _WARM_TABLE),
        Part(
            MatrixData(50_000, 25_000, 1_240),
            _FEW,
            tuple(work for work in _works.MATRIX if work.task in {"gene", "many_rows"}),
        ),
        Part(cells, _LAST, _MATRIX_WORKS, is_import_measured=True),
        Part(rows, _LAST, _TABLE_WORKS),
    ]
    if size == "daily":
        return daily
    large = ("limit", "daf", "daf-packed", "daf-h5ad", "anndata-backed", "soma", "slaf")
    return [
        *daily,
        Part(MatrixData(200_000, 2_000, 100, "clustered"), every["matrix"], _MATRIX_WORKS),
        Part(
            MatrixData(300_000, 20_000, 1_000),
            tuple(name for name in large if name in INFOS),
            _MATRIX_WORKS,
            is_import_measured=True,
        ),
        Part(TableData(10_000_000, "clustered"), _LOCAL_TABLE, _TABLE_WORKS),
        Part(TableData(1_000_000), every["table"], _TABLE_WORKS),
        *(
            Part(TableData(10**power, columns=GROWTH_COLUMNS), _GROWTH_TABLE, _GROWTH)
            for power in (5, 6, 7, 8)
        ),
        Part(
            MatrixData(2_000_000, 20_000, 1_250),  # 20 GB
            ("daf-h5ad", "h5py", "anndata-backed"),
            tuple(work for work in _works.MATRIX if work.task == "filter_slice"),
        ),
    ]


def _without(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)
