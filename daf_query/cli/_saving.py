"""The commands that change a data set: `save-vector` and so on, `annotate`, `reorder`."""

from __future__ import annotations

import contextlib
import shutil
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query.cli import _selection as selection
from daf_query.cli._later import session
from daf_query.cli._output import progress_of, report
from daf_query.cli._parser import (
    AXIS,
    PARAM,
    PATH,
    QUERY_FILE,
    REPORT,
    command,
    given,
    one_layout,
    option,
    overwrite,
)
from daf_storage import errors

if TYPE_CHECKING:
    from daf_query.profile import Profile
    from daf_query.session import DafSession

STATISTICS: Final = ("sum", "mean", "variance", "min", "max", "nonzero", "missing", "fraction")
_NAME: Final = option("NAME")


@command(
    PATH,
    AXIS,
    _NAME,
    option("[QUERY]", "an expression, or a SELECT of name or index and a column; '-': stdin"),
    QUERY_FILE,
    PARAM,
    overwrite("the vector, if there is one"),
    *REPORT,
    one_of=("query", "file"),
)
def save_vector_command(options: Namespace) -> None:
    r"""Store what a query says of each entry of an axis as a vector.

    Examples
    --------
    daf save-vector pbmc.daf.zarr cell is_old "age > 60"
    daf save-vector pbmc.daf.zarr cell rank \
        "SELECT name, rank() OVER (PARTITION BY type ORDER BY age) FROM cell"
    daf save-vector pbmc.daf.zarr cell is_old 'age > $least' --param least=50 --overwrite
    daf save-vector pbmc.daf.zarr cell score -f score.sql --quiet
    """
    with session.connect(options.path, mode="r+") as connected:
        connected.save_vector(
            options.axis, options.name, selection.query_of(options), **_choice(options)
        )
    text = f"stored vector {options.name} of axis {options.axis} in {options.path}"
    report(options, text, path=options.path, axis=options.axis, vector=options.name)


@command(
    PATH,
    AXIS,
    option("[QUERY]", "a SELECT with a row for each entry of the new axis; '-': standard input"),
    QUERY_FILE,
    option("--name COLUMN", "of the names (default: name)", default="name"),
    PARAM,
    overwrite("the axis, if there is one, with its vectors and matrices"),
    *REPORT,
    one_of=("query", "file"),
)
def save_axis_command(options: Namespace) -> None:
    r"""Store the rows of a query as an axis with its vectors, in one step.

    Examples
    --------
    daf save-axis pbmc.daf.zarr type \
        "SELECT type AS name, count(*) AS n, avg(age) AS age FROM cell GROUP BY type"
    daf save-axis pbmc.daf.zarr donor "SELECT DISTINCT donor FROM cell" --name donor
    daf save-axis pbmc.daf.zarr type -f types.sql --param least=5 --overwrite --quiet
    """
    with session.connect(options.path, mode="r+") as connected:
        connected.save_axis(
            options.axis, selection.query_of(options), name=options.name, **_choice(options)
        )
        length = connected.reader().axis_length(options.axis)
    text = f"stored axis {options.axis} in {options.path}: {length:,} entries"
    report(options, text, path=options.path, axis=options.axis, entries=length)


def _choice(options: Namespace) -> dict[str, Any]:
    """Return the parameters of a query, and what becomes of what is there."""
    return {"params": selection.named_values(options.param), "if_exists": options.if_exists}


@command(
    PATH,
    _NAME,
    option("[QUERY]", "a SELECT of an entry of either axis, and a value; '-': standard input"),
    QUERY_FILE,
    option("--matrix MATRIX", "store a slice of this one instead"),
    option("--from OTHER", "the data set of MATRIX (default: PATH)", dest="source"),
    option("--by GROUPS", "store a row for each group of the rows", action="append"),
    option("--statistic", "of each group (default: mean)", choices=STATISTICS, default="mean"),
    option("--rows WHICH", "of MATRIX, as for 'daf extract'"),
    option("--columns WHICH", "the same for the other axis"),
    option("--rows-axis AXIS", "of a slice, by default its own"),
    option("--columns-axis AXIS", "of a slice, by default its own"),
    option("--fill VALUE", "the elements that are not given: JSON (0) or text"),
    one_layout("store it once; by default also its transpose"),
    PARAM,
    overwrite("the matrix, if there is one"),
    *REPORT,
    one_of=("query", "file", "matrix"),
)
def save_matrix_command(options: Namespace) -> None:
    r"""Store a slice of a matrix, means of groups, or the rows of a query, as a matrix.

    Examples
    --------
    daf save-matrix pbmc.daf.zarr part --matrix UMIs --rows 'donor = $who' \
        --columns is_marker --param who=N3 --one-layout --overwrite --quiet
    daf save-matrix pbmc.daf.zarr mean_X --matrix X --by louvain --statistic mean
    daf save-matrix pbmc.daf.zarr UMIs --from run2.daf.zarr --matrix counts \
        --rows-axis cell --columns-axis gene
    daf save-matrix pbmc.daf.zarr share --rows-axis type --columns-axis donor --fill 0 \
        "SELECT type, donor, avg(age) AS age FROM cell GROUP BY type, donor"
    """
    choice: dict[str, Any] = {
        "fill": selection.value_of(options.fill),
        "relayout": options.relayout,
        "if_exists": options.if_exists,
    }
    with contextlib.ExitStack() as stack:
        connected = stack.enter_context(session.connect(options.path, mode="r+"))
        content: Any
        if options.matrix is None:
            axes, content = _given_axes(options), selection.query_of(options)
            choice["params"] = selection.named_values(options.param)
        elif options.by is not None:
            axes, content = _profile(connected, options)
            choice["statistic"] = options.statistic
        else:
            source, requested = connected, options
            if options.source is not None:
                source = stack.enter_context(session.connect(options.source))
                requested = Namespace(**{**vars(options), "rows_axis": None, "columns_axis": None})
            taken, chosen = selection.selected(source, requested)
            content = source.matrix(*taken, options.matrix, **chosen)
            axes = (
                options.rows_axis or content.rows_axis,
                options.columns_axis or content.columns_axis,
            )
        connected.save_matrix(content, *axes, options.name, **choice)
    text = f"stored matrix {options.name} of axes {axes[0]} and {axes[1]} in {options.path}"
    report(options, text, path=options.path, axes=axes, matrix=options.name)


def _profile(connected: DafSession, options: Namespace) -> tuple[tuple[str, str], Profile]:
    """Return the axes of the new matrix, and what is computed of groups."""
    if options.source is not None:
        raise errors.InvalidInputError("--from is for a slice; groups are of PATH itself")
    rows_axis, options.rows_axis = options.rows_axis, None  # that of the new matrix
    axes, chosen = selection.selected(connected, options)
    profile = connected.profile(
        *axes, options.matrix, by=options.by, **chosen, progress=progress_of(options)
    )
    rows_axis = rows_axis or session.group_axis_of(profile)
    if rows_axis is None:
        raise errors.InvalidInputError(
            "several group columns have no name of their own; name the axis with --rows-axis"
        )
    return (rows_axis, axes[1]), profile


def _given_axes(options: Namespace) -> tuple[str, str]:
    if options.rows_axis is None or options.columns_axis is None:
        raise errors.InvalidInputError(
            "the axes of a matrix out of a query have to be named: --rows-axis and --columns-axis"
        )
    for name in given(options, "rows", "columns", "source", "by"):
        raise errors.InvalidInputError(
            f"--{name.replace('source', 'from')} is for a slice, which --matrix names; write a "
            "WHERE into the query"
        )
    return options.rows_axis, options.columns_axis


@command(
    option("PATH", "only read, if OVERLAY is given"),
    option("[OVERLAY]", "what is written, made if it is missing (default: PATH itself)"),
    option("--axis AXIS", required=True),
    option("--csv FILE", ".csv, .csv.gz, .tsv, .parquet or .arrow", dest="table", required=True),
    option("--key COLUMN", "the column that has the entries (default: name)"),
    option("--columns [NAME=]COLUMN,..", "which to store, and as what (default: all)"),
    option("--fill NAME=VALUE...", "the value of entries without one: JSON (0, false) or text"),
    option("--strict", "fail if a key is no entry, and write nothing"),
    overwrite("vectors that are there"),
    *REPORT,
)
def annotate_command(options: Namespace) -> None:
    r"""Store columns of a table as vectors, in a data set on top of one that is only read.

    Examples
    --------
    daf annotate atlas.h5ad notes.daf.zarr --axis cell --csv labels.csv --key barcode
    daf annotate atlas.daf.zarr notes.daf.zarr --axis cell --csv labels.parquet \
        --columns cell_type=label,score --overwrite --strict
    daf annotate pbmc.daf.zarr --axis cell --csv doublets.tsv --fill is_doublet=false
    daf sql atlas.h5ad --overlay notes.daf.zarr "SELECT cell_type, age FROM cell"
    """
    selection.check_table(options.table, "--csv")
    target = options.path if options.overlay is None else options.overlay
    access: dict[str, Any] = (
        {"mode": "r+"} if options.overlay is None else {"overlay": options.overlay}
    )
    with _without_empty(target), session.connect(options.path, **access) as connected:
        found = connected.annotate(
            options.axis,
            options.table,
            key=options.key,
            columns=_columns(options.columns),
            fill=selection.named_values(options.fill, option="--fill"),
            strict=options.strict,
            if_exists=options.if_exists,
        )
    report(options, f"stored in {target}: {found}", path=target, **found.to_dict())


@contextlib.contextmanager
def _without_empty(target: str) -> Iterator[None]:
    """Remove the file or directory of a new data set if the block fails and has stored nothing."""
    container = Path(target.partition("#/")[0])
    was_there = container.exists()
    try:
        yield
    except BaseException:
        with contextlib.suppress(errors.DafError, OSError):  # what failed is the error to be seen
            if not was_there and container.exists() and not daf_storage.open_daf(target).axes_set():
                shutil.rmtree(container) if container.is_dir() else container.unlink()
        raise


def _columns(given: str | None) -> dict[str, str] | None:
    """Return the column of each vector.

    >>> _columns("cell_type=label,score")
    {'cell_type': 'label', 'score': 'score'}
    """
    if given is None:
        return None
    named: dict[str, str] = {}
    for each in filter(None, (part.strip() for part in given.split(","))):
        name, separator, column = each.partition("=")
        if name in named:
            raise errors.InvalidInputError(f"--columns: {name} is given twice")
        named[name] = column if separator else name
    return named


@command(
    PATH,
    AXIS,
    option("--by ORDER", "what comes after ORDER BY in SQL", required=True),
    *REPORT,
)
def reorder_command(options: Namespace) -> None:
    """Put the entries of an axis into another order; its vectors and matrices follow.

    Examples
    --------
    daf reorder pbmc.daf.zarr cell --by "type, age DESC"
    daf reorder pbmc.daf.zarr gene --by "name"
    """
    with session.connect(options.path, mode="r+") as connected:
        connected.reorder_axis(options.axis, options.by, progress=progress_of(options))
    text = f"reordered axis {options.axis} of {options.path} by {options.by}"
    report(options, text, path=options.path, axis=options.axis, by=options.by)
