"""The commands that look at data sets and ask: `info`, `head`, `sql` with its prompt, and so on."""

from __future__ import annotations

import contextlib
import math
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query._formats import PROFILE_FORMATS, ROW_FORMATS, SLICE_FORMATS, FileFormat
from daf_query.cli import _options as shared
from daf_query.cli import _output as outputs
from daf_query.cli._later import (
    display,
    pa,
    prompt,
    row_files,
    scan,
    session,
    slices,
    sql,
    storage_base,
    storage_data,
    syntax,
    table,
)
from daf_query.cli._options import command, given, grouped, option
from daf_query.cli._output import aligned, described, pager_of, print_json, print_report
from daf_query.cli._writing import sidecar_line
from daf_storage import errors
from daf_storage._terminal_text import visible, visible_name

if TYPE_CHECKING:
    from daf_query.session import DafSession
    from daf_storage import DafReader, SidecarStatus

_VALUES_BYTES: Final = 256 << 20
"""What `--values` may take; larger vectors are sampled."""
_QUARTILES: Final = {"q1": 0.25, "median": 0.5, "q3": 0.75}
_DESCRIPTION: Final = {
    **dict.fromkeys(("column", "type"), "string"),
    **dict.fromkeys(("count", "missing", "distinct"), "int64"),
    **dict.fromkeys(("min", "max"), "string"),
    **dict.fromkeys(("mean", *_QUARTILES), "float64"),
    "top": "string",
    "top_count": "int64",
}
"""What a column is described by, and its types in a table: values of several are strings there.

A quartile between two numbers is interpolated, as in numpy.  The top is the most frequent value, of
several the first; there is none if no value occurs twice.
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
    is_pattern = any(map(options.path.__contains__, "*?[")) and session.is_pattern(options.path)
    with contextlib.ExitStack() as closing:
        if is_pattern:
            bases = found = closing.enter_context(shared.reading(options)).members()
        else:
            base = daf_storage.open_daf(options.path, **given(options, "obs_is", "var_is"))
            layered = options.overlay is not None
            daf = daf_storage.open_overlay(base, options.overlay, "r") if layered else base
            found, bases = {options.path: closing.enter_context(daf)}, {options.path: base}
        if options.format == "json":
            records = {name: _summary(daf, bases[name]) for name, daf in found.items()}
            several = {"path": options.path, "data_sets": records}
            print_json(several if is_pattern else records[options.path])
            return
        if is_pattern:
            print(f"{options.path}: {len(found):,} data sets")
        for name, daf in found.items():
            if is_pattern:
                print(visible(f"\n{visible_name(name)}"))
            print(visible(daf.description()))
            if (status := _sidecar(bases[name])) is not None:
                print(f"sidecar: {visible_name(sidecar_line(status))}")
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


def _summary(daf: DafReader, base: DafReader) -> dict[str, Any]:
    """Return what the JSON has of a data set, with the sidecar of its file."""
    status = _sidecar(base)
    return daf.summary().as_dict() | ({} if status is None else {"sidecar": asdict(status)})


def _sidecar(daf: DafReader) -> SidecarStatus | None:
    return daf_storage.sidecar_status(daf) if storage_data.is_in_place(daf) else None


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
    with shared.reading(options) as connected:
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
    with shared.reading(options) as connected:
        name = syntax.quoted_name(options.axis)
        schema = scan.plain_schema(connected.sql(f"SELECT * FROM {name}").schema)  # noqa: S608 - it is planned only
        columns = schema.names
        every = [each for each in columns if each not in ("name", "index")]
        chosen = every if options.columns is None else _chosen(options, columns)
        found = [_description(connected, name, schema.field(each)) for each in chosen]
    if options.format in ("json", "ndjson"):  # in which numbers stay numbers, but for infinite ones
        found = [{key: _shown(value) for key, value in each.items()} for each in found]
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


def _shown(value: Any) -> Any:
    return str(value) if value in (math.inf, -math.inf) else value


def _chosen(options: Namespace, columns: Sequence[str]) -> list[str]:
    """Return the columns that are asked for."""
    names = shared.listed_names(options.columns) or [options.columns]
    for name in names:
        if name not in columns:
            raise errors.vector_not_found(options.path, options.axis, name, columns)
    return list(dict.fromkeys(names))


def _description(connected: DafSession, table: str, field: pa.Field) -> dict[str, Any]:
    """Return what a column is like; lists have no order, and no most frequent value."""
    column, kind = syntax.quoted_name(field.name), field.type
    # Of a float of 32 bits, that of 64 with the fewest digits that is the same.
    shown = "CAST(CAST({} AS VARCHAR) AS DOUBLE)" if pa.types.is_float32(kind) else "{}"
    requested = {
        "count": f"count({column})",
        "missing": f"count(*) FILTER (WHERE {column} IS NULL)",
    }
    # By itself: beside others, 0.0 and -0.0 are two.
    distinct, top = f'SELECT count(DISTINCT {column}) AS "distinct" FROM {table}', ""  # noqa: S608 - quoted
    if not pa.types.is_nested(kind):
        requested |= {key: shown.format(f"{key}({column})") for key in ("min", "max")}
        top = (
            f"SELECT {shown.format(column)} AS top, count(*) AS top_count FROM {table} "  # noqa: S608 - quoted
            f"WHERE {column} IS NOT NULL GROUP BY {column} HAVING count(*) > 1 "
            f"ORDER BY top_count DESC, {column} LIMIT 1"
        )
    if sql.is_number(kind):
        number = f"CAST({column} AS DOUBLE)"
        requested["mean"] = f"avg({number})"
        requested |= {key: f"percentile_cont({number}, {part})" for key, part in _QUARTILES.items()}
    listed = ", ".join(f'{each} AS "{key}"' for key, each in requested.items())
    described = {**dict.fromkeys(_DESCRIPTION), "column": field.name, "type": str(kind)}
    for query in filter(None, (f"SELECT {listed} FROM {table}", distinct, top)):  # noqa: S608 - quoted
        described |= dict(*connected.sql(query).to_pylist())
    return described


_H5AD: Final = "h5ad"
_ANNDATA: Final = {
    "layers": "over both axes",
    "obsm": "of the rows and another axis",
    "varm": "of the columns and another axis",
    "obsp": "of the rows with themselves",
    "varp": "of the columns with themselves",
}
"""What an h5ad file of a slice has beside ``X``."""

_MAX_BYTES: Final = option("--max-bytes SIZE", "refuse a larger result or download (default: 4GiB)")


@command(
    shared.PATH,
    option("[QUERY]", "the SQL; '-' reads it from standard input"),
    shared.QUERY_FILE,
    option("--table NAME=FILE...", "your own .csv, .tsv, .parquet or .arrow (also .csv.gz)"),
    shared.PARAM,
    *shared.rows_out(),
    option("--explain", "print the plan instead of the rows; the query is not run"),
    option("--analyze", "run the query, and print what it read instead of the rows"),
    shared.OVERLAY,
    *shared.AXIS_NAMES,
    shared.SKIP_BROKEN,
    one_of=("query", "file"),
    has_prompt=True,
)
def sql_command(options: Namespace) -> None:
    r"""Run a SQL query, or start a prompt if none is given.

    Each axis is a table with the columns name, index and its vectors.

    Examples
    --------
    daf sql pbmc.daf.zarr "SELECT type, avg(age) FROM cell GROUP BY type"
    daf sql atlas.h5ad "SELECT type, avg(age) FROM obs GROUP BY type"
    daf sql pbmc.daf.zarr "SELECT * FROM cell WHERE age > 60" -o old.parquet
    daf sql pbmc.daf.zarr "SELECT name FROM gene WHERE is_marker" --format ndjson
    daf sql pbmc.daf.zarr "SHOW TABLES"
    daf sql pbmc.daf.zarr "SELECT name FROM cell WHERE age > 60" --analyze
    daf sql pbmc.daf.zarr                    # a prompt: history, completion, .help
    daf sql 'runs/*.daf.zarr' "SELECT dataset, count(*) FROM cell GROUP BY dataset"
    daf sql pbmc.daf.zarr -f query.sql -o old.arrow --no-provenance
    daf sql pbmc.daf.zarr 'SELECT name FROM cell WHERE donor = $who' --param who=N3
    daf sql atlas.daf.zarr --overlay notes.daf.zarr "SELECT label, age FROM cell"
    daf sql atlas.h5ad --obs-is cell --var-is gene "SELECT count(*) FROM cell"
    daf sql pbmc.daf.zarr --table samples=samples.csv \
        "SELECT cell.name, centre FROM cell JOIN samples ON donor = samples.id"
    """
    is_prompt = options.query is None and options.file is None
    settings = _prompt_settings(options) if is_prompt else None
    file_format: Any = "table" if is_prompt else _format_of(options)
    query = "" if is_prompt else shared.query_of(options)
    params = shared.named_values(options.param)
    with shared.reading(options) as session:
        for name, path in map(shared.named_table, options.table):
            shared.check_table(path, "--table")
            session.register(path, name)
        if settings is not None:
            prompt.run_prompt(session, output=options.output, **settings)
        elif options.explain or options.analyze:
            run = session.explain_analyze if options.analyze else session.explain
            print_report(run(query, params=params), file_format)
        else:
            result = session.sql(query, params=params)
            outputs.show_or_save(session, result, options, file_format)


def _format_of(options: Namespace, among: Mapping[str, FileFormat] = ROW_FORMATS) -> Any:
    """Return the format of the rows of a command: what it says, or the suffix of its file."""
    return options.format or outputs.format_of(outputs.file_of(options.output), among)


def _prompt_settings(options: Namespace) -> dict[str, Any]:
    """Return how the prompt shows rows, or say what it needs."""
    for name in ("explain", "analyze"):
        if getattr(options, name):
            raise errors.InvalidInputError(
                f"--{name} needs a QUERY, or --file; in the prompt, write EXPLAIN before one"
            )
    prompt.require_prompt()
    if options.format not in (None, *prompt.MODES):
        raise errors.InvalidInputError(
            f"{options.format} is binary, and the prompt shows text; write .output FILE there"
        )
    return {
        "mode": options.format or "table",
        "max_rows": options.max_rows,
        "pager": pager_of(options),
        "params": shared.named_values(options.param) or {},
    }


@command(
    *shared.SLICE,
    *shared.join_options("inner"),
    option("-o, --output FILE", f"{', '.join(SLICE_FORMATS)}, by its suffix; '-': standard output"),
    option(
        "--format",
        "of the file; json: print what was written as JSON",
        choices=(*SLICE_FORMATS, "json"),
    ),
    option("--dry-run", "print what would be read, and how much memory it takes"),
    option("--max-bytes SIZE", "refuse a slice that takes more, such as 500MB"),
    *(
        option(f"--{part} KEYS", f"for .h5ad and .zarr: which matrices {which} (A,B, all or none)")
        for part, which in _ANNDATA.items()
    ),
    shared.NO_PROVENANCE,
    shared.QUIET,
    any_of=("output", "dry_run"),
)
def extract_command(options: Namespace) -> None:
    r"""Write a slice of a matrix to a file; only the slice is read.

    Examples
    --------
    daf extract pbmc.daf.zarr --matrix X --columns MS4A1,CD8A -o two.csv
    daf extract pbmc.daf.zarr --matrix X --rows "age > 60 ORDER BY age DESC LIMIT 10" \
        --columns @genes.txt -o old.h5ad --layers counts --obsm X_umap --obsp none
    daf extract pbmc.daf.zarr --matrix X --rows 'donor = $who' --param who=N3 -o n3.h5ad
    daf extract pbmc.daf.zarr --matrix X --format csv -o - | head
    daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --dry-run
    daf extract pbmc.daf.zarr --matrix X --varm PCs --varp correlation -o pcs.h5ad \
        --no-provenance
    daf extract 'runs/*.daf.zarr' --matrix X --rows 'age > 60' --join outer \
        --fill-value 0 --along cell -o old.h5ad
    daf extract pbmc.daf.zarr --matrix X --rows-axis gene --columns-axis cell \
        --rows "SELECT name FROM gene ORDER BY means DESC LIMIT 50" -o top.csv
    """
    is_json = options.format == "json"
    file_format = None if is_json else options.format
    output = outputs.file_of(options.output)
    target = output or ("" if options.dry_run else _standard_output(options.format))
    if target:
        slices.check_format(Path(target), file_format)
    with shared.reading(options) as session:
        part = shared.slice_of(session, options, join="inner", max_bytes=options.max_bytes)
        if options.dry_run:
            print_report(part.explain(), "json" if is_json else None)
            return
        element_bytes = part.dtype.itemsize + 4
        cost_bytes = sum(member.plan.cost_bytes for member in part.whole.members)
        with storage_base.progress_bar("extract", cost_bytes, show=options.progress) as progress:
            part.save(
                target,
                format=file_format,
                progress=lambda done: progress.add(done * element_bytes),
                **_anndata_choice(options),
            )
        counts = part.counts if part.of_several else {}
        members = [f"\n  {visible_name(name)}: {count:,}" for name, count in counts.items()]
        rows, columns = part.shape
        outputs.report(
            options,
            f"wrote {rows:,} {visible_name(part.rows_axis)} x {columns:,} "
            f"{visible_name(part.columns_axis)} ({part.nnz:,} non-zero) to "
            f"{'standard output' if output is None else described(output)}{''.join(members)}",
            to=sys.stderr if output is None else None,
            path=output,
            axes=(part.rows_axis, part.columns_axis),
            rows=rows,
            columns=columns,
            nonzero=part.nnz,
            data_sets=counts,
        )


def _standard_output(file_format: str | None) -> str:
    """Return the path of standard output, for what is written as bytes."""
    if file_format in (None, "json"):
        raise errors.InvalidInputError("standard output has no suffix; name the format: --format")
    outputs.refuse_binary(str(file_format))
    sys.stdout.flush()
    return "/dev/stdout"


def _anndata_choice(options: Namespace) -> Any:
    """Return which other matrices are chosen: those of a comma list, all or none."""
    every = {"all": True, "none": False}
    return {
        part: every.get(keys, [key for key in map(str.strip, keys.split(",")) if key])
        for part, keys in given(options, *_ANNDATA).items()
    }


@command(
    *shared.SLICE,
    option("--by WHAT", "vectors or SQL expressions, with commas between them, each also AS name"),
    *shared.join_options("outer"),
    option("--statistic NAME", "what X of an .h5ad file is (default: mean)"),
    _MAX_BYTES,
    *shared.rows_out(_H5AD),
)
def profile_command(options: Namespace) -> None:
    r"""Count, sum, mean, variance and more of each column of a matrix in groups of its rows.

    Examples
    --------
    daf profile pbmc.daf.zarr --matrix X --by bulk_labels -o profile.parquet
    daf profile pbmc.daf.zarr --matrix X --by bulk_labels --columns MS4A1,CD8A --no-pager
    daf profile pbmc.daf.zarr --matrix X --by "donor, age > 60 AS old" \
        --rows "phase = 'G1'" --columns "is_marker" -o profile.csv
    daf profile pbmc.daf.zarr --matrix UMIs --by "donor, type" --statistic sum \
        -o pseudobulk.h5ad
    daf profile pbmc.daf.zarr --matrix X --by type --param least=60 \
        --rows 'age > $least' --rows-axis cell --columns-axis gene --max-rows 0
    daf profile 'runs/*.daf.zarr' --matrix X --by dataset --join inner --fill-value nan \
        --along cell -o runs.parquet
    """
    file_format = _format_of(options, PROFILE_FORMATS)
    is_h5ad = file_format == _H5AD
    if is_h5ad and outputs.file_of(options.output) is None:
        raise errors.InvalidInputError("h5ad is not written to standard output; give -o FILE.h5ad")
    if options.statistic is not None and not is_h5ad:
        raise errors.InvalidInputError(
            "--statistic says what X of an .h5ad file is, and other formats have a column for each "
            "statistic; leave it out, or give -o FILE.h5ad"
        )
    _answer(options, "profile", file_format, "outer", by=options.by or ())


def _answer(
    options: Namespace, question: str, file_format: Any, join: str | None, **more: Any
) -> None:
    """Ask a part of a matrix by a method of sessions; print or write the rows of the answer."""
    with shared.reading(options) as session:
        axes, chosen = shared.selected(session, options, join=join)
        how = {**chosen, **more, **given(options, "max_bytes", "progress")}
        found = getattr(session, question)(*axes, options.matrix, **how)
        if file_format == _H5AD:
            found.save_h5ad(outputs.file_of(options.output), statistic=options.statistic or "mean")
        else:
            outputs.show_or_save(session, found, options, file_format)


@command(
    *shared.SLICE,
    option("--by WHAT", "vectors or SQL expressions, with commas between them", required=True),
    option("--reference GROUP", "compare the others with this group (default: each with the rest)"),
    option("--method", "default: t-test", choices=("t-test", "wilcoxon")),
    option("--counts", "the values are counts, not log1p of counts"),
    option("--top N", "only the N highest scores of each group", type=int),
    _MAX_BYTES,
    *shared.join_options("outer"),
    *shared.rows_out(),
)
def markers_command(options: Namespace) -> None:
    """Find marker genes: compare each group of rows with the others, column by column.

    Examples
    --------
    daf markers pbmc.h5ad --matrix X --by bulk_labels --top 5
    daf markers pbmc.daf.zarr --matrix X --by louvain --rows "phase = 'G1'" -o markers.csv
    daf markers pbmc.daf.zarr --matrix UMIs --by type --reference T --counts --method wilcoxon
    """
    more = given(options, "by", "reference", "method", "top")
    file_format = _format_of(options)
    _answer(options, "markers", file_format, "outer", is_log1p=not options.counts, **more)


@command(*shared.SLICE, _MAX_BYTES, *shared.rows_out())
def totals_command(options: Namespace) -> None:
    """Sum, count, average and share chosen columns for each row: quality control.

    Examples
    --------
    daf totals pbmc.h5ad --matrix X -o counts.parquet
    daf totals pbmc.h5ad --matrix X --columns "name LIKE 'MT-%'" --max-rows 10
    """
    _answer(options, "totals", _format_of(options), None)


@command(
    shared.PATH,
    shared.AXIS,
    option("PREDICATE", "as for extract --rows; or a SELECT of this table"),
    shared.PARAM,
    shared.OVERLAY,
    shared.REPORT_FORMAT,
    shared.SKIP_BROKEN,
)
def diagnose_command(options: Namespace) -> int | None:
    """Show how many rows each part of a predicate keeps, and why none; exit code 1 if one fails.

    Examples
    --------
    daf diagnose pbmc.daf.zarr cell "donor = 'n3' AND age > 60"
    daf diagnose pbmc.daf.zarr cell 'donor = $who AND age > 60' --param who=n3
    daf diagnose pbmc.daf.zarr gene "SELECT name FROM gene WHERE means > 100"
    daf diagnose atlas.h5ad obs "label = 'T'" --overlay notes.daf.zarr
    daf diagnose pbmc.daf.zarr cell "age > 60" --format json | jq '.conjuncts[].rows'
    """
    with shared.reading(options) as session:
        params = shared.named_values(options.param)
        diagnosis = session.diagnose(options.axis, options.predicate, params=params)
    print_report(diagnosis, options.format)
    return outputs.FAILED if diagnosis.matched is None else None


@command(
    option("PATH", "a data set, or a pattern of several"),
    shared.AXIS,
    option("--where SQL", "which entries (default: all)"),
    option("--share NAME=SHARE...", "a split and its share; shares add up to 1"),
    option("--weights SQL", "the weight of each entry"),
    option("--stratify SQL", "keep the shares for each value of a vector or expression"),
    option("--groups SQL", "keep entries with the same value together, such as those of a donor"),
    option("--seed", "of the random numbers (default: 0)", type=int, default=0),
    shared.PARAM,
    option("-o, --output FILE", ".parquet, .arrow, .csv, .tsv, .json or .ndjson", required=True),
    shared.OVERLAY,
    shared.SKIP_BROKEN,
    *shared.REPORT,
)
def split_command(options: Namespace) -> None:
    r"""Choose entries for a training loop, with splits and weights, and write them to a file.

    Examples
    --------
    daf split pbmc.daf.zarr cell --share train=0.8 --share val=0.2 -o split.parquet
    daf split pbmc.daf.zarr cell --where 'age > $least' --param least=60 \
        --share train=0.8 --share val=0.2 --stratify type --groups donor --seed 1 -o s.csv
    daf split 'runs/*.h5ad' obs --weights '1 / count(*) OVER (PARTITION BY type)' -o w.csv
    """
    shares = dict(options.share)
    if len(shares) < len(options.share):
        raise errors.InvalidInputError("--share is given twice for one split")
    with shared.reading(options) as session:
        sampler = session.sampler(
            options.axis,
            split=shares or None,
            params=shared.named_values(options.param),
            **given(options, "where", "weights", "seed", "stratify", "groups"),
        )
        sampler.save(options.output)
    sizes = ", ".join(f"{visible_name(name)} {n:,}" for name, n in sampler.sizes.items())
    what = f"{len(sampler):,} of {sampler.axis_length:,} entries of {sampler.axis}"
    outputs.report(
        options,
        f"{options.output}: {what}{': ' if sizes else ''}{sizes}",
        path=options.output,
        axis=sampler.axis,
        entries=len(sampler),
        splits=sampler.sizes,
    )
