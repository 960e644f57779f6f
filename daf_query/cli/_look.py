"""The commands that look at a data set or at an axis of it: `info`, `head`, `describe`."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query.cli._parser import (
    AXIS,
    AXIS_NAMES,
    NO_PAGER,
    OVERLAY,
    PATH,
    REPORT_FORMAT,
    Group,
    command,
    option,
    whole_number,
)
from daf_query.cli._terminal import pager_of, print_json
from daf_query.cli._upkeep import sidecar_line
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage._terminal_text import visible, visible_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    import pyarrow.compute as pc

    from daf_query import _row_files as row_files
    from daf_query import session, syntax, table
    from daf_query.cli import _output as output
    from daf_query.cli import _selection as selection
    from daf_query.session import DafSession
    from daf_storage import DafReader, SidecarStatus, display
    from daf_storage import data as storage_data
else:
    storage_data = lazy_module("daf_storage.data")
    display = lazy_module("daf_storage.display")
    np, pa, pc = map(lazy_module, ("numpy", "pyarrow", "pyarrow.compute"))
    row_files = lazy_module("daf_query._row_files")
    session = lazy_module("daf_query.session")  # the engine, which one data set does without
    syntax, table = map(lazy_module, ("daf_query.syntax", "daf_query.table"))
    output, selection = map(lazy_module, ("daf_query.cli._output", "daf_query.cli._selection"))

_VALUES_BYTES: Final = 256 << 20
_VALUES_SECONDS: Final = 10.0
"""What `--values` may take; larger vectors are sampled."""
_KEYS: Final = ("name", "index")
_QUARTERS: Final = (0.25, 0.5, 0.75)
_DESCRIPTION: Final = {
    "column": "string",
    "type": "string",
    **dict.fromkeys(("count", "missing", "distinct"), "int64"),
    "min": "string",
    "max": "string",
    **dict.fromkeys(("mean", "q1", "median", "q3"), "float64"),
    "top": "string",
    "top_count": "int64",
}
"""What a column is described by, and its types in a table: values of several are strings there.

A quartile between two numbers is interpolated, as in numpy.  The top is the most frequent value, of
several the least; there is none if no value occurs twice.
"""


@command(
    "info",
    "say what a data set holds; reads metadata only",
    PATH,
    Group(
        (
            REPORT_FORMAT,
            option("--diagram", "the axes and their relations, for Mermaid"),
            option(
                "--values",
                "also draw ranges and top values of vectors, of samples where they are large",
            ),
        )
    ),
    OVERLAY,
    *AXIS_NAMES,
    takes_patterns=True,
    examples="""
    daf info pbmc.daf.zarr
    daf info pbmc.daf.zarr --format json | jq .axes
    daf info pbmc.daf.zarr --diagram > pbmc.mmd
    daf info atlas.h5ad --values
    daf info atlas.h5ad --overlay notes.daf.zarr
    daf info atlas.h5ad --obs-is cell --var-is gene
    daf info 'runs/*.h5ad'
    """,
)
def info_command(options: Namespace) -> None:
    """Print what a data set holds."""
    if any(character in options.path for character in "*?[") and session.is_pattern(options.path):
        _describe_all(options)
        return
    base = daf_storage.open_daf(options.path, obs_is=options.obs_is, var_is=options.var_is)
    layered = options.overlay is not None
    with daf_storage.open_overlay(base, options.overlay, "r") if layered else base as daf:
        if options.diagram:
            print(visible(daf.diagram()))
        elif options.format == "json":
            print_json(_summary(daf, base))
        else:
            print(visible(_text(daf, base)))
            if options.values:
                print(*_value_lines(daf), sep="\n")


def _value_lines(daf: DafReader) -> Iterator[str]:
    """Yield what values look like, within a budget of bytes and of time."""
    budget = display.PreviewBudget(_VALUES_BYTES, _VALUES_SECONDS)
    for axis in daf.summary().axes:
        rows = [
            [vector.name, *display.preview_text(preview)]
            for vector, preview in storage_data.vector_previews(axis.vectors, daf, budget)
        ]
        if rows:
            _, _, *lines = output.aligned([""] * 4, rows, [False] * 4)
            yield f"\nvalues of {visible_name(axis.name)}"
            yield from (f"  {line}" for line in lines)


def _describe_all(options: Namespace) -> None:
    """Print what each of several data sets holds."""
    if options.diagram or options.values or options.overlay is not None:
        asked = {"--diagram": options.diagram, "--values": options.values}
        name = next((name for name, is_given in asked.items() if is_given), "--overlay")
        raise errors.InvalidInputError(
            f"{options.path!r} means several data sets, and {name} is for one; name one of them"
        )
    names = session.axis_names(options.obs_is, options.var_is)
    described: dict[str, Any] = {}
    with session.connect(options.path, mode="r", **names) as connected:
        for name, daf in connected.members().items():
            described[name] = (_summary if options.format == "json" else _text)(daf, daf)
    if options.format == "json":
        print_json({"path": options.path, "data_sets": described})
        return
    print(f"{options.path}: {len(described):,} data sets")
    for name, text in described.items():
        print(visible(f"\n{visible_name(name)}\n{text}"))


def _summary(daf: DafReader, base: DafReader) -> dict[str, Any]:
    """Return what the JSON has of a data set, with the sidecar of its file."""
    status = _sidecar_status(base)
    return {**daf.summary().as_dict(), **({} if status is None else {"sidecar": asdict(status)})}


def _text(daf: DafReader, base: DafReader) -> str:
    status = _sidecar_status(base)
    of_sidecar = "" if status is None else f"\nsidecar: {visible_name(sidecar_line(status))}"
    return daf.description() + of_sidecar


def _sidecar_status(daf: DafReader) -> SidecarStatus | None:
    """Return the status; its module is imported for files that are read in place only."""
    return daf_storage.sidecar_status(daf) if storage_data.is_in_place(daf) else None


_SHOWN: Final = (
    option("--columns A,B", "which vectors (default: all); a name with a comma in ''"),
    option("--format", choices=("table", "csv", "tsv", "json", "ndjson"), default="table"),
    NO_PAGER,
    OVERLAY,
    *AXIS_NAMES,
)


@command(
    "head",
    "print the first entries of an axis with their vectors",
    PATH,
    AXIS,
    option("-n, --rows N", "how many (default: 10)", type=whole_number, default=10),
    *_SHOWN,
    examples="""
    daf head pbmc.daf.zarr cell
    daf head atlas.h5ad obs -n 3 --columns donor,age --format json
    daf head atlas.h5ad cell --obs-is cell --var-is gene --no-pager
    daf head atlas.h5ad obs --overlay notes.daf.zarr
    """,
)
def head_command(options: Namespace) -> None:
    """Print the first entries of an axis."""
    with selection.reading(options) as connected:
        columns = _columns(connected, options)
        order = ", ".join(name for name in (table.DATASET, "index") if name in columns)
        chosen = columns if options.columns is None else _chosen(options, columns, key="name")
        listed = ", ".join(map(syntax.quoted_name, chosen))
        rows = connected.sql(
            f"SELECT {listed} FROM {syntax.quoted_name(options.axis)} ORDER BY {order} "  # noqa: S608 - quoted
            f"LIMIT {options.rows}"
        )
        output.to_stdout(rows, options.format, max_rows=0, pager=pager_of(options))


@command(
    "describe",
    "print what the vectors of an axis are like: count, missing, distinct, range, mean, "
    "quartiles, the most frequent value",
    PATH,
    AXIS,
    *_SHOWN,
    examples="""
    daf describe pbmc.daf.zarr cell
    daf describe atlas.h5ad obs --columns donor,age --format json
    daf describe atlas.h5ad cell --obs-is cell --var-is gene --no-pager
    daf describe atlas.h5ad obs --overlay notes.daf.zarr
    """,
)
def describe_command(options: Namespace) -> None:
    """Print what the vectors of an axis are like."""
    with selection.reading(options) as connected:
        columns = _columns(connected, options)
        every = [name for name in columns if name not in _KEYS]
        chosen = every if options.columns is None else _chosen(options, columns)
        described = [_described_column(connected, options.axis, name) for name in chosen]
    if options.format in ("json", "ndjson"):
        plain = [{name: _plain(each[name]) for name in _DESCRIPTION} for each in described]
        if options.format == "json":
            print_json(plain)
        else:
            for each in plain:
                print_json(each, indent=None)
    else:
        is_table = options.format == "table"
        records = [_as_text(each, is_short=is_table) for each in described]
        types = [(name, getattr(pa, kind)()) for name, kind in _DESCRIPTION.items()]
        listed = pa.Table.from_pylist(records, schema=pa.schema(types))
        rows = row_files.Rows(listed.schema, listed.to_batches())
        if is_table:
            output.show_table(rows, pager=pager_of(options))
        else:
            output.print_rows(rows, options.format)


def _columns(connected: DafSession, options: Namespace) -> list[str]:
    """Return the columns of the table of an axis."""
    name = syntax.quoted_name(options.axis)
    return connected.sql(f"SELECT * FROM {name}").column_names  # noqa: S608 - it is planned only


def _chosen(options: Namespace, columns: Sequence[str], key: str = "") -> list[str]:
    """Return the columns that are asked for, after the one that names the rows."""
    names = selection.listed_names(options.columns) or [options.columns]
    for name in names:
        if name not in columns:
            raise errors.vector_not_found(options.path, options.axis, name, columns)
    return list(dict.fromkeys([*([key] if key else []), *names]))


def _described_column(connected: DafSession, axis: str, name: str) -> dict[str, Any]:
    """Return what a column is like: its distinct values and their counts say all the rest."""
    column = syntax.quoted_name(name)
    counted = connected.sql(
        f"SELECT {column} AS value, count(*) AS n FROM {syntax.quoted_name(axis)} GROUP BY {column}"  # noqa: S608 - quoted
    ).to_arrow_table()
    values = counted.column("value").combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return description_of(name, values, counted.column("n").to_numpy())


def description_of(name: str, values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return what a column is like of which the distinct values, and their counts, are given.

    >>> import numpy, pyarrow
    >>> description_of("age", pyarrow.array([3, 1, None]), numpy.array([1, 2, 5]))["median"]
    1.0
    """
    is_known = values.is_valid().to_numpy(zero_copy_only=False)
    known, kept = values.filter(pa.array(is_known)), counts[is_known]
    described: dict[str, Any] = {
        **dict.fromkeys(_DESCRIPTION),
        "column": name,
        "type": str(values.type),
        "count": int(kept.sum()),
        "missing": int(counts.sum() - kept.sum()),
        "distinct": len(known),
    }
    if not len(known) or pa.types.is_nested(values.type):
        return described
    order = pc.sort_indices(known).to_numpy()
    known, kept = known.take(pa.array(order)), kept[order]
    described |= {"min": _value(known[0]), "max": _value(known[-1]), **_statistics(known, kept)}
    most = int(np.argmax(kept))
    if kept[most] > 1:
        described |= {"top": _value(known[most]), "top_count": int(kept[most])}
    return described


def _statistics(values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the mean and the quartiles of sorted numbers; nothing for others."""
    kind, types = values.type, pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return {}
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    ends = np.cumsum(counts)
    total = int(ends[-1])
    quartiles = []
    for share in _QUARTERS:
        place = share * (total - 1)
        low, high = (
            float(numbers[np.searchsorted(ends, each, side="right")])
            for each in (math.floor(place), math.ceil(place))
        )
        weight = place - math.floor(place)
        quartiles.append(low if low == high else low * (1 - weight) + high * weight)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(np.average(numbers, weights=counts))
    return {"mean": mean, "q1": quartiles[0], "median": quartiles[1], "q3": quartiles[2]}


def _value(value: pa.Scalar) -> Any:
    """Return a value; of a float of 32 bits, the one with the fewest digits that is the same."""
    plain = value.as_py()
    if pa.types.is_float32(value.type):
        return float(str(np.float32(plain)))
    return plain


def _plain(value: Any) -> Any:
    """Return a value that JSON has; numbers stay numbers, but for infinite ones."""
    is_number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if value is None or is_number else str(value)


def _as_text(described: dict[str, Any], *, is_short: bool) -> dict[str, Any]:
    """Return a description for a table; numbers for people have six digits."""
    shown = {name: described[name] for name in ("min", "max", "top")}
    for name, value in shown.items():
        if value is not None:
            is_number = is_short and isinstance(value, float)
            shown[name] = f"{value:.6g}" if is_number else str(value)
    return {**described, **shown}
