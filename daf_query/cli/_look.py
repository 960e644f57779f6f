"""The commands that look at a data set or at an axis of it: `info`, `head`, `describe`."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query.cli import _options as shared
from daf_query.cli import _output as outputs
from daf_query.cli import _selection as selection
from daf_query.cli._later import (
    display,
    np,
    pa,
    row_files,
    session,
    sql,
    storage_data,
    syntax,
    table,
)
from daf_query.cli._options import command, grouped, option
from daf_query.cli._output import aligned, pager_of, print_json
from daf_query.cli._upkeep import sidecar_line
from daf_storage import errors
from daf_storage._terminal_text import visible, visible_name

if TYPE_CHECKING:
    import numpy.typing as npt

    from daf_storage import DafReader, SidecarStatus

_VALUES_BYTES: Final = 256 << 20
"""What `--values` may take; larger vectors are sampled."""
_DESCRIPTION: Final = {
    **dict.fromkeys(("column", "type"), "string"),
    **dict.fromkeys(("count", "missing", "distinct"), "int64"),
    **dict.fromkeys(("min", "max"), "string"),
    **dict.fromkeys(("mean", "q1", "median", "q3"), "float64"),
    "top": "string",
    "top_count": "int64",
}
"""What a column is described by, and its types in a table: values of several are strings there.

A quartile between two numbers is interpolated, as in numpy.  The top is the most frequent value, of
several the least; there is none if no value occurs twice.
"""


@command(
    shared.PATH,
    grouped(
        None,
        shared.REPORT_FORMAT,
        option("--values", "also show ranges and top values of vectors (large ones are sampled)"),
    ),
    shared.OVERLAY,
    *shared.AXIS_NAMES,
    shared.SKIP_BROKEN,
)
def info_command(options: Namespace) -> None:
    """Show what a data set contains; reads metadata only.

    Examples
    --------
    daf info pbmc.daf.zarr
    daf info pbmc.daf.zarr --format json | jq .axes
    daf info atlas.h5ad --values
    daf info atlas.h5ad --overlay notes.daf.zarr --obs-is cell --var-is gene
    daf info 'runs/*.h5ad'
    """
    is_pattern = any(character in options.path for character in "*?[")
    if is_pattern and session.is_pattern(options.path):
        _show_all(options)
        return
    base = daf_storage.open_daf(options.path, obs_is=options.obs_is, var_is=options.var_is)
    layered = options.overlay is not None
    with daf_storage.open_overlay(base, options.overlay, "r") if layered else base as daf:
        if options.format == "json":
            print_json(_summary(daf, base))
        else:
            print(visible(_text(daf, base)))
            if options.values:
                print(*_value_lines(daf), sep="\n")


def _value_lines(daf: DafReader) -> Iterator[str]:
    """Yield what values look like, within a budget of bytes."""
    budget = display.PreviewBudget(_VALUES_BYTES)
    for axis in daf.summary().axes:
        rows = [
            [vector.name, "", seen, ""]
            if isinstance(seen, str)
            else [vector.name, seen.chart, seen.figures, seen.note]
            for vector, seen in storage_data.vector_previews(axis.vectors, daf, budget)
        ]
        if rows:
            _, _, *lines = aligned([""] * 4, rows, [False] * 4)
            yield f"\nvalues of {visible_name(axis.name)}"
            yield from (f"  {line}" for line in lines)


def _show_all(options: Namespace) -> None:
    """Print what each of several data sets holds."""
    for name in ("values", "overlay"):
        if getattr(options, name):
            raise errors.InvalidInputError(
                f"{options.path!r} means several data sets, and --{name} is for one; name one"
            )
    with selection.reading(options) as connected:
        shown: Any = _summary if options.format == "json" else _text
        found = {name: shown(daf, daf) for name, daf in connected.members().items()}
    if options.format == "json":
        print_json({"path": options.path, "data_sets": found})
        return
    print(f"{options.path}: {len(found):,} data sets")
    for name, text in found.items():
        print(visible(f"\n{visible_name(name)}\n{text}"))


def _summary(daf: DafReader, base: DafReader) -> dict[str, Any]:
    """Return what the JSON has of a data set, with the sidecar of its file."""
    status = _sidecar(base)
    return daf.summary().as_dict() | ({} if status is None else {"sidecar": asdict(status)})


def _text(daf: DafReader, base: DafReader) -> str:
    status = _sidecar(base)
    of_sidecar = "" if status is None else f"\nsidecar: {visible_name(sidecar_line(status))}"
    return daf.description() + of_sidecar


def _sidecar(base: DafReader) -> SidecarStatus | None:
    return daf_storage.sidecar_status(base) if storage_data.is_in_place(base) else None


_SHOWN: Final = (
    option("--columns A,B", "which vectors (default: all); quote a name with a comma: 'a,b'"),
    option("--format", choices=("table", "csv", "tsv", "json", "ndjson"), default="table"),
    shared.NO_PAGER,
    shared.OVERLAY,
    *shared.AXIS_NAMES,
    shared.SKIP_BROKEN,
)


@command(
    shared.PATH,
    shared.AXIS,
    option("-n, --rows N", "number of rows (default: 10)", default=10),
    *_SHOWN,
)
def head_command(options: Namespace) -> None:
    """Print the first entries of an axis with their vectors.

    Examples
    --------
    daf head pbmc.daf.zarr cell
    daf head atlas.h5ad obs -n 3 --columns donor,age --format json
    daf head atlas.h5ad cell --obs-is cell --var-is gene --no-pager
    """
    with selection.reading(options) as connected:
        name = syntax.quoted_name(options.axis)
        columns = connected.sql(f"SELECT * FROM {name}").column_names  # noqa: S608 - it is planned only
        order = ", ".join(each for each in (table.DATASET, "index") if each in columns)
        by = f"ORDER BY {order}" if order else ""  # tables of a Zarr store have no positions
        chosen = ["name", *_chosen(options, columns)] if options.columns is not None else columns
        listed = ", ".join(syntax.quoted_name(x) for x in dict.fromkeys(chosen) if x in columns)
        rows = connected.sql(f"SELECT {listed} FROM {name} {by} LIMIT {options.rows}")  # noqa: S608 - quoted
        outputs.print_rows(rows.rows(), options.format, max_rows=0, pager=pager_of(options))


@command(shared.PATH, shared.AXIS, *_SHOWN)
def describe_command(options: Namespace) -> None:
    """Summarize the vectors of an axis.

    Count, missing, distinct, range, mean, quartiles, and the most frequent value.

    Examples
    --------
    daf describe pbmc.daf.zarr cell
    daf describe atlas.h5ad obs --columns donor,age --format json
    daf describe atlas.h5ad cell --obs-is cell --var-is gene --overlay notes.daf.zarr
    """
    with selection.reading(options) as connected:
        name = syntax.quoted_name(options.axis)
        columns = connected.sql(f"SELECT * FROM {name}").column_names  # noqa: S608 - it is planned only
        every = [each for each in columns if each not in ("name", "index")]
        chosen = every if options.columns is None else _chosen(options, columns)
        found = [
            description_of(each, *session.value_counts(connected, name, each)) for each in chosen
        ]
    if options.format in ("json", "ndjson"):  # in which numbers stay numbers
        print(*map(visible, row_files.json_lines(found, options.format)), sep="\n")
        return
    for each in found:
        for key in ("min", "max", "top"):
            if each[key] is not None:
                is_read = options.format == "table" or isinstance(each[key], bool)
                each[key] = outputs.cell_text(each[key]) if is_read else str(each[key])
    types = [(key, getattr(pa, kind)()) for key, kind in _DESCRIPTION.items()]
    listed = pa.Table.from_pylist(found, schema=pa.schema(types))
    rows = row_files.Rows(listed.schema, listed.to_batches())
    outputs.print_rows(rows, options.format, max_rows=0, pager=pager_of(options))


def _chosen(options: Namespace, columns: Sequence[str]) -> list[str]:
    """Return the columns that are asked for."""
    names = selection.listed_names(options.columns) or [options.columns]
    for name in names:
        if name not in columns:
            raise errors.vector_not_found(options.path, options.axis, name, columns)
    return list(dict.fromkeys(names))


def description_of(name: str, values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return what a column is like, of which the distinct values, ascending, are counted.

    >>> import numpy, pyarrow
    >>> description_of("age", pyarrow.array([1, 3, None]), numpy.array([2, 1, 5]))["median"]
    1.0
    """
    is_known = values.is_valid().to_numpy(zero_copy_only=False)
    present, kept = values.filter(pa.array(is_known)), counts[is_known]
    described: dict[str, Any] = {
        **dict.fromkeys(_DESCRIPTION),
        "column": name,
        "type": str(values.type),
        "count": int(kept.sum()),
        "missing": int(counts.sum() - kept.sum()),
        "distinct": len(present),
    }
    if not len(present) or pa.types.is_nested(values.type):
        return described
    described |= {
        "min": _value(present[0]),
        "max": _value(present[-1]),
        **_statistics(present, kept),
    }
    most = int(np.argmax(kept))
    if kept[most] > 1:
        described |= {"top": _value(present[most]), "top_count": int(kept[most])}
    return described


def _statistics(values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return the mean and the quartiles of sorted numbers; nothing for others."""
    if not sql.is_number(values.type):
        return {}
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        mean = float(np.average(numbers, weights=counts))
        quartiles = np.quantile(np.repeat(numbers, counts), (0.25, 0.5, 0.75)).tolist()
    return dict(zip(("mean", "q1", "median", "q3"), (mean, *quartiles), strict=True))


def _value(value: pa.Scalar) -> Any:
    """Return a value; of a float of 32 bits, the one with the fewest digits that is the same."""
    plain = value.as_py()
    if isinstance(plain, float) and math.isinf(plain):  # which is no JSON
        return str(plain)
    return float(str(np.float32(plain))) if pa.types.is_float32(value.type) else plain
