"""The options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
from typing import Any, Final

from daf_query._formats import ROW_FORMATS
from daf_query.cli._later import slices
from daf_query.cli._parser import Option, option
from daf_storage import DafError

CODECS: Final = ("blosc-zstd", "blosc-lz4", "blosc-zstd-shuffle", "zstd", "gzip")


def whole_number(text: str) -> int:
    """Return a number of things, as an argument names it."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 0 or more")
    return int(text)


def byte_size(text: str) -> int:
    """Return a number of bytes, as an argument names it."""
    try:
        return slices.byte_count(text, keyword="size")
    except DafError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def flag(spec: str, what: str, dest: str, value: Any, otherwise: Any) -> Option:
    """Return an option without a value that stands for one."""
    return option(spec, what, dest=dest, action="store_const", const=value, default=otherwise)


def overwrite(what: str) -> Option:
    """Return ``--overwrite`` of a command that replaces something."""
    return flag("--overwrite", f"replace {what}", "if_exists", "replace", "error")


def one_layout(what: str) -> Option:
    """Return ``--one-layout`` of a command that stores matrices."""
    return flag("--one-layout", what, "relayout", value=False, otherwise=True)


def make_unique(what: str) -> Option:
    """Return ``--make-unique`` of a command that refuses duplicates otherwise."""
    return flag("--make-unique", what, "duplicates", "make_unique", "error")


def join_options(default: str) -> tuple[Option, ...]:
    """Return what says how several data sets become one; PATH is then a pattern of paths."""
    columns = f"keep the columns that all have, or any (default: {default})"
    return (
        option("--join", f"with several data sets: {columns}", choices=("inner", "outer")),
        option("--fill-value VALUE", "with several data sets: the value of columns that one lacks"),
        option("--along AXIS", "with several data sets: the axis that is joined (default: obs)"),
    )


PATH: Final = option("PATH")
AXIS: Final = option("AXIS")
QUIET: Final = option("--quiet", "no progress bar and no summary")
STRICT: Final = option("--strict", "fail if something would be lost, and write nothing")
PACKING: Final = (
    option("--zarr-format", "version of Zarr; 2 unless packed", type=int, choices=(2, 3)),
    option("--packed", "cut large arrays into small chunks and compress them (Zarr v3 and HDF5)"),
    option("--codec", "how to compress (default: blosc-zstd)", choices=CODECS),
    option("--level", "from 1, fast, to 9 (zstd: 22), small", type=int),
    option("--chunk-kb N", "KiB of elements in a chunk (default: 8; of an import 64)", type=int),
)
COUNTS_AS: Final = option(
    "--counts-as [NAME=]TYPE...",
    "store the whole numbers of the main matrix, or of NAME, as uint8, uint16 or uint32, or fail",
)
MEMORY: Final = option(
    "--memory SIZE",
    "memory for elements of matrices, 16MiB or more (default: 1GiB)",
    type=byte_size,
    dest="memory_bytes",
)
PARAM: Final = option(
    "--param NAME=VALUE...", 'the value of $NAME in the SQL: JSON (60, true, [1, 2], "60") or text'
)
REPORT_FORMAT: Final = option(
    "--format", "how to print the result", choices=("text", "json"), default="text"
)
REPORT: Final = (REPORT_FORMAT, QUIET)
"""Options of a command that reports what it has done."""
OVERLAY: Final = option("--overlay OVERLAY", "a data set on top of PATH, which is only read")
SKIP_BROKEN: Final = option(
    "--skip-broken", "with a pattern: leave out files that cannot be opened, and exit with code 4"
)
AXIS_NAMES: Final = tuple(
    option(f"--{key}-is AXIS", f"name for the axis of {key} of an AnnData")
    for key in ("obs", "var")
)
ROWS: Final = option(
    "--rows WHICH", "a SQL predicate, a SELECT of name or index, names (A,B), or @FILE with names"
)
SLICE: Final = (
    PATH,
    option("--matrix NAME", "the name of the matrix", required=True),
    ROWS,
    option("--columns WHICH", "the same for the other axis"),
    PARAM,
    *(
        option(f"--{key}-axis AXIS", "only needed if it is ambiguous")
        for key in ("rows", "columns")
    ),
    OVERLAY,
    SKIP_BROKEN,
)
"""Options of a command that reads a part of a matrix."""
NO_PROVENANCE: Final = option(
    "--no-provenance", "do not record the query, data sets and versions in the file"
)
NO_PAGER: Final = option("--no-pager", "print long tables instead of showing them in $PAGER")


def rows_out(*more_formats: str) -> tuple[Option, ...]:
    """Return where rows go, and how: of a command whose answer is a table."""
    formats = ("table", *ROW_FORMATS, *more_formats)
    return (
        option("--format", "default: by the suffix of FILE, else table", choices=formats),
        option(
            "-o, --output FILE",
            "where to write (default, or '-': standard output); .csv.gz is compressed",
        ),
        option(
            "--max-rows N",
            "rows of a table on a terminal (default: 10000 in a pager, else 40; 0: all)",
            type=whole_number,
        ),
        NO_PAGER,
        NO_PROVENANCE,
        QUIET,
    )


QUERY_FILE: Final = option("-f, --file FILE.sql", "a file with the query; comments are allowed")
