"""Reasons why another system is faster at something: a sentence for each, by who it is and what is asked."""

from __future__ import annotations

from typing import Final

from benchmarks._systems import INFOS
from benchmarks._works import Work

_LIMIT: Final = (
    "numpy: nothing is parsed, planned, checked or looked up by name, and strings are codes"
)
_OPEN: Final = "anndata in memory: the whole matrix was read before the clock started"
_REASONS: Final = {
    ("prepare", "daf-packed"): "packed: fewer bytes are written",
    ("string_equality", "daf-indexed"): "indexed: an index names the rows of a string",
    ("look_up", "daf-indexed"): "indexed: an index names the row of a name",
    ("mean_by", "h5py"): "h5py: the codes and numbers are read whole, and nothing is planned",
    ("count", "duckdb"): "DuckDB: the count stands in the footer of the Parquet file",
    ("count", "datafusion"): "DataFusion: the count stands in the footer of the Parquet file",
    ("count", "polars"): "polars: the count stands in the footer of the Parquet file",
}
_ENGINES: Final = ("DuckDB on Parquet", "DataFusion on Parquet", "polars on Parquet")
_CODES: Final = "{}: Parquet stores codes and few strings; here the starts of all strings are found first, and codes are kept from the second query on"
_NAMES: Final = "{}: by the statistics of the Parquet file, eight of its ten groups of rows cannot have the name; here all names are compared"
_WHOLE: Final = "numpy: takes all into memory at once, and writes nothing but arrays"
_PREPARE: Final = "{}: writes one layout, of two that daf-query writes"


def reason(work: Work, system: str) -> str:
    """Return why a system is faster at a work."""
    written = _REASONS.get((work.task, system))
    if written:
        return written
    title = INFOS[system].title
    if title in _ENGINES and work.mode == "first":
        return (_NAMES if work.task == "look_up" else _CODES).format(title)
    if system == "limit":
        return _WHOLE if work.task == "prepare" else _LIMIT
    if work.task == "prepare" and not system.startswith("daf"):
        return _PREPARE.format(title)
    if system == "anndata" and work.mode == "warm":
        return _OPEN
    if system.startswith("anndata") and work.task == "mean_by":
        return "anndata: the columns were read when it was opened"
    return f"{title}: not explained yet"
