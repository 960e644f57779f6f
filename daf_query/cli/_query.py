"""The commands that ask: `sql` with its prompt, `extract`, `profile`, `diagnose`."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from daf_query._formats import ROW_FORMATS, SLICE_FORMATS
from daf_query.cli._parser import (
    AXIS,
    AXIS_NAMES,
    COLUMNS,
    MATRIX,
    MAX_ROWS,
    NO_PAGER,
    NO_PROVENANCE,
    OVERLAY,
    PARAM,
    PATH,
    QUIET,
    REPORT_FORMAT,
    SLICE_AXES,
    byte_size,
    command,
    join_options,
    option,
)
from daf_query.cli._terminal import described, pager_of, print_json, progress_of
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage._terminal_text import visible, visible_name

if TYPE_CHECKING:
    import shlex

    from daf_query import _provenance as provenance
    from daf_query import slice as slices
    from daf_query import table
    from daf_query.cli import _output as outputs
    from daf_query.cli import _prompt as prompt
    from daf_query.cli import _selection as selection
    from daf_query.session import DafSession
    from daf_query.slice import MatrixSlice
    from daf_storage import base as storage_base
else:
    storage_base = lazy_module("daf_storage.base")
    shlex = lazy_module("shlex")
    provenance = lazy_module("daf_query._provenance")
    table, slices = map(lazy_module, ("daf_query.table", "daf_query.slice"))
    outputs, prompt = map(lazy_module, ("daf_query.cli._output", "daf_query.cli._prompt"))
    selection = lazy_module("daf_query.cli._selection")

_PRINTED: Final = ("table", *ROW_FORMATS)
_H5AD: Final = "h5ad"
_ANNDATA: Final = {
    "layers": "over both axes",
    "obsm": "of the rows and another axis",
    "varm": "of the columns and another axis",
    "obsp": "of the rows with themselves",
    "varp": "of the columns with themselves",
}
"""What an h5ad file of a slice has beside ``X``."""


@command(
    "sql",
    "ask a SQL question; each axis is a table with the columns name, index and its vectors; "
    "without a QUERY, on a terminal, be a prompt",
    PATH,
    option("[QUERY]", "'-': read it from standard input"),
    option("-f, --file FILE.sql", "a file with the query; comments are allowed"),
    option(
        "--table NAME=FILE",
        "a table of your own, .csv, .tsv, .parquet or .arrow (also .csv.gz); repeatable",
        is_repeated=True,
    ),
    PARAM,
    option("--format", "default: by the suffix of FILE, else table", choices=_PRINTED),
    option("-o, --output FILE", "default, or '-': standard output; .csv.gz is packed"),
    MAX_ROWS,
    NO_PAGER,
    option("--explain", "print the plan instead of the rows, and execute nothing"),
    option(
        "--analyze", "execute it, and print which ranges and values it read instead of the rows"
    ),
    OVERLAY,
    *AXIS_NAMES,
    NO_PROVENANCE,
    QUIET,
    one_of=("query", "file"),
    takes_patterns=True,
    has_prompt=True,
    examples="""
    daf sql pbmc.daf.zarr "SELECT type, avg(age) FROM cell GROUP BY type"
    daf sql atlas.h5ad "SELECT type, avg(age) FROM obs GROUP BY type"
    daf sql pbmc.daf.zarr "SELECT * FROM cell WHERE age > 60" -o old.parquet
    daf sql pbmc.daf.zarr "SELECT name FROM gene WHERE is_marker" --format ndjson
    daf sql pbmc.daf.zarr "SHOW TABLES"
    daf sql pbmc.daf.zarr "SELECT name FROM cell WHERE age > 60" --analyze
    daf sql pbmc.daf.zarr "SELECT name FROM cell WHERE age > 60" --explain
    daf sql pbmc.daf.zarr "SELECT * FROM gene" --max-rows 0
    daf sql pbmc.daf.zarr "SELECT * FROM gene" --no-pager
    daf sql pbmc.daf.zarr                    # a prompt: history, completion, .help
    daf sql 'runs/*.daf.zarr' "SELECT dataset, count(*) FROM cell GROUP BY dataset"
    daf sql pbmc.daf.zarr -f query.sql -o old.arrow --no-provenance
    daf sql pbmc.daf.zarr 'SELECT name FROM cell WHERE donor = $who' --param who=N3
    daf sql atlas.daf.zarr --overlay notes.daf.zarr "SELECT label, age FROM cell"
    daf sql atlas.h5ad --obs-is cell --var-is gene "SELECT count(*) FROM cell"
    daf sql pbmc.daf.zarr --table samples=samples.csv \\
        "SELECT cell.name, centre FROM cell JOIN samples ON donor = samples.id"
    """,
)
def sql_command(options: Namespace) -> None:
    """Print or write the rows of a query; without one, be a prompt."""
    if options.query is None and options.file is None:
        _prompt_command(options)
        return
    output = outputs.file_of(options.output)
    file_format = options.format or outputs.format_of(output)
    query, params = selection.query_of(options), selection.named_values(options.param)
    with selection.reading(options) as session:
        _register_tables(session, options)
        if options.explain or options.analyze:
            run = session.explain_analyze if options.analyze else session.explain
            outputs.explanation(run(query, params=params), file_format)
            return
        frame = session.sql(query, params=params)
        if output is not None:
            provenance.refuse_own_files(session._connections.data_sets(), output)  # noqa: SLF001 - our own
        outputs.show_or_save(frame, file_format, output, options)


def _prompt_command(options: Namespace) -> None:
    """Answer what is typed, until its end."""
    if options.explain or options.analyze:
        name = "--explain" if options.explain else "--analyze"
        raise errors.InvalidInputError(
            f"{name} needs a QUERY, or --file; in the prompt, write EXPLAIN before one"
        )
    prompt.require_prompt()
    if options.format not in (None, *prompt.MODES):
        raise errors.InvalidInputError(
            f"{options.format} is binary, and the prompt shows text; write .output FILE there"
        )
    settings = prompt.PromptSettings(
        mode=options.format or "table",
        max_rows=options.max_rows,
        pager=pager_of(options),
        params=selection.named_values(options.param) or {},
    )
    with selection.reading(options) as session:
        _register_tables(session, options)
        if options.output is not None:
            prompt.PromptCommands(session, settings).output(options.output)
        prompt.run_prompt(session, settings)


def _register_tables(session: DafSession, options: Namespace) -> None:
    """Connect the tables of ``--table``."""
    for name, path in map(selection.named_table, options.table):
        if not table.is_user_table(path):
            raise errors.InvalidInputError(
                f"--table {path}: a table is a .csv, .csv.gz, .tsv, .parquet or .arrow file"
            )
        session.register(path, name)


@command(
    "extract",
    "write a slice of a matrix to a file; only the slice is read",
    PATH,
    MATRIX,
    option(
        "--rows WHICH",
        "a SQL predicate (also with ORDER BY and LIMIT), a SELECT of name or index, names "
        "(A,B), or a file with a name a line (@FILE)",
    ),
    COLUMNS,
    PARAM,
    *SLICE_AXES,
    *join_options("inner"),
    option(
        "-o, --output FILE",
        ".h5ad, .zarr, .npz, .mtx, .csv, .tsv (also .csv.gz), .parquet or .arrow; '-' for stdout",
    ),
    option(
        "--format",
        "default: by the suffix of FILE; json: of what --dry-run prints",
        choices=(*SLICE_FORMATS, "json"),
    ),
    option(
        "--dry-run", "print what would be read, and how much memory it takes, and write nothing"
    ),
    option(
        "--max-bytes SIZE",
        "refuse a slice whose values take more memory, such as 500MB or 2GiB",
        type=byte_size,
    ),
    *(
        option(
            f"--{part} KEYS",
            f"of .h5ad, the other matrices {which}: A,B, all or none (default: what fits 1 GiB)",
        )
        for part, which in _ANNDATA.items()
    ),
    OVERLAY,
    NO_PROVENANCE,
    QUIET,
    any_of=("output", "dry_run"),
    takes_patterns=True,
    examples="""
    daf extract pbmc.daf.zarr --matrix X --rows "donor = 'N3'" -o n3.h5ad
    daf extract pbmc.daf.zarr --matrix X --columns "is_marker" -o markers.parquet
    daf extract atlas.h5ad --overlay notes.daf.zarr --matrix X --rows label=1 -o one.h5ad
    daf extract pbmc.daf.zarr --matrix X --columns MS4A1,CD8A -o two.csv
    daf extract pbmc.daf.zarr --matrix X --rows "age > 60 ORDER BY age DESC LIMIT 10" \\
        --columns @genes.txt -o old.h5ad --layers counts --obsm X_umap --obsp none
    daf extract pbmc.daf.zarr --matrix X --rows 'donor = $who' --param who=N3 -o n3.h5ad
    daf extract pbmc.daf.zarr --matrix X --format csv -o - | head
    daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --dry-run
    daf extract pbmc.daf.zarr --matrix X --max-bytes 2GB -o all.h5ad
    daf extract pbmc.daf.zarr --matrix X --varm PCs --varp correlation -o pcs.h5ad \\
        --no-provenance
    daf extract 'runs/*.daf.zarr' --matrix X --rows 'age > 60' --join outer \\
        --fill-value 0 --along cell -o old.h5ad
    daf extract pbmc.daf.zarr --matrix X --rows-axis gene --columns-axis cell \\
        --rows "SELECT name FROM gene ORDER BY means DESC LIMIT 50" -o top.csv
    """,
)
def extract_command(options: Namespace) -> None:
    """Write a slice of a matrix, or say what that would cost."""
    if options.dry_run:
        _dry_run(options)
        return
    output = outputs.file_of(options.output)
    target = output or outputs.to_standard_output(options.format)
    slices.check_format(Path(target), options.format)
    with selection.reading(options) as session:
        part = _chosen_slice(session, options)
        element_bytes = part.dtype.itemsize + 4
        with storage_base.progress_bar(
            "extract", _cost_bytes(part), show=progress_of(options)
        ) as progress:
            part.save(
                target,
                format=options.format,
                progress=lambda done: progress.add(done * element_bytes),
                **_anndata_choice(options),
            )
        if not options.quiet:
            _note_empty(part, options.path)
            where = "standard output" if output is None else described(output)
            print(
                f"wrote {part.shape[0]:,} {visible_name(part.rows_axis)} x {part.shape[1]:,} "
                f"{visible_name(part.columns_axis)} "
                f"({part.nnz:,} non-zero) to {where}{_counts(part)}",
                file=sys.stderr if output is None else sys.stdout,
            )


def _cost_bytes(part: MatrixSlice) -> int:
    """Return about how many bytes are read."""
    return sum(member.part.plan.cost_bytes for member in part.whole.members)


def _counts(part: MatrixSlice) -> str:
    """Return how many entries are of each data set, where there are several."""
    counts = part.counts if part.of_several else {}
    return "".join(f"\n  {visible_name(name)}: {count:,}" for name, count in counts.items())


def _anndata_choice(options: Namespace) -> Any:
    """Return which other matrices are chosen: those of a comma list, all or none."""
    listed = {part: getattr(options, part) for part in _ANNDATA}
    return {
        part: keys == "all"
        if keys in ("all", "none")
        else [key for key in map(str.strip, keys.split(",")) if key]
        for part, keys in listed.items()
        if keys is not None
    }


def _note_empty(part: MatrixSlice, path: str) -> None:
    """Say on stderr which predicates select nothing."""
    for each in part.empty_selections:
        diagnosing = shlex.join(["daf", "diagnose", path, each.axis, each.predicate])
        said = f"daf: note: --{each.keyword} selects no {each.axis}; {diagnosing} says why"
        print(visible_name(said), file=sys.stderr)


def _dry_run(options: Namespace) -> None:
    """Print what a slice would cost; nothing of its values is read, and nothing is written."""
    if options.format != "json" and options.output not in (None, "-"):
        slices.check_format(Path(options.output), options.format)
    with selection.reading(options) as session:
        part = _chosen_slice(session, options)
        explanation = part.explain()
    _note_empty(part, options.path)
    _print_report(explanation, options.format)


def _chosen_slice(session: DafSession, options: Namespace) -> MatrixSlice:
    """Return the slice that the options choose."""
    axes, chosen = selection.selected(session, options, join="inner")
    return session.matrix(*axes, options.matrix, **chosen, max_bytes=options.max_bytes)


@command(
    "profile",
    "count, sum, mean, variance and more of each column of a matrix in groups of its rows",
    PATH,
    MATRIX,
    option(
        "--by WHAT",
        "vectors or SQL expressions over the rows axis, with commas between them, each also "
        "with AS name; by default all rows are one group",
    ),
    option(
        "--rows WHICH",
        "a SQL predicate, a SELECT of name or index, names (A,B), or a file with a name a "
        "line (@FILE)",
    ),
    COLUMNS,
    PARAM,
    *SLICE_AXES,
    *join_options("outer"),
    option("--statistic NAME", "what X of an .h5ad file is; all are layers (default: mean)"),
    option("--format", "default: by the suffix of FILE, else table", choices=(*_PRINTED, _H5AD)),
    option("-o, --output FILE", "default, or '-': standard output"),
    MAX_ROWS,
    NO_PAGER,
    OVERLAY,
    NO_PROVENANCE,
    QUIET,
    takes_patterns=True,
    examples="""
    daf profile pbmc.daf.zarr --matrix X --by bulk_labels -o profile.parquet
    daf profile atlas.h5ad --overlay notes.daf.zarr --matrix X --by label -o notes.csv
    daf profile pbmc.daf.zarr --matrix X --by bulk_labels --columns MS4A1,CD8A --no-pager
    daf profile pbmc.daf.zarr --matrix X --by "donor, age > 60 AS old" \\
        --rows "phase = 'G1'" --columns "is_marker" -o profile.csv
    daf profile pbmc.daf.zarr --matrix UMIs --by "donor, type" --statistic sum \\
        -o pseudobulk.h5ad
    daf profile pbmc.daf.zarr --matrix X --by type --param least=60 \\
        --rows 'age > $least' --rows-axis cell --columns-axis gene --max-rows 0
    daf profile 'runs/*.daf.zarr' --matrix X --by dataset --join inner --fill-value nan \\
        --along cell -o runs.parquet
    daf profile pbmc.daf.zarr --matrix X --by type --format parquet --no-provenance \\
        --quiet -o - > profile.parquet
    """,
)
def profile_command(options: Namespace) -> None:
    """Print or write a profile."""
    output = outputs.file_of(options.output)
    is_h5ad = options.format == _H5AD or (
        options.format is None and output is not None and Path(output).suffix == f".{_H5AD}"
    )
    if is_h5ad and output is None:
        raise errors.InvalidInputError("h5ad is not written to standard output; give -o FILE.h5ad")
    if options.statistic is not None and not is_h5ad:
        raise errors.InvalidInputError(
            "--statistic says what X of an .h5ad file is, and other formats have a column for each "
            "statistic; leave it out, or give -o FILE.h5ad"
        )
    file_format = options.format or ("table" if is_h5ad else _profile_format(output))
    with selection.reading(options) as session:
        axes, chosen = selection.selected(session, options, join="outer")
        profile = session.profile(
            *axes,
            options.matrix,
            by=() if options.by is None else options.by,
            **chosen,
            progress=progress_of(options),
        )
        if chosen["rows"] is not None and not profile.content.moments.count.sum():
            _note_empty_profile(options.path, axes[0], chosen["rows"])
        if is_h5ad:
            profile.save_h5ad(cast("str", output), statistic=options.statistic or "mean")
        else:
            outputs.show_or_save(profile, file_format, output, options)


def _note_empty_profile(path: str, axis: str, rows: object) -> None:
    """Say on stderr that no rows are chosen."""
    advice = ""
    if isinstance(rows, str):
        advice = f"; {shlex.join(['daf', 'diagnose', path, axis, rows])} says why"
    print(f"daf: note: --rows selects no {axis}{advice}", file=sys.stderr)


def _profile_format(output: str | None) -> outputs.OutputFormat:
    """Return the format that a file name asks for, other than h5ad."""
    try:
        return outputs.format_of(output)
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(f"{error}; a profile is also written as .h5ad") from None


@command(
    "diagnose",
    "say how many rows each part of a predicate leaves, and why it leaves none",
    PATH,
    AXIS,
    option("PREDICATE", "as for extract --rows; or a SELECT of this table"),
    PARAM,
    OVERLAY,
    REPORT_FORMAT,
    takes_patterns=True,
    examples="""
    daf diagnose pbmc.daf.zarr cell "donor = 'n3' AND age > 60"
    daf diagnose pbmc.daf.zarr cell 'donor = $who AND age > 60' --param who=n3
    daf diagnose pbmc.daf.zarr gene "SELECT name FROM gene WHERE means > 100"
    daf diagnose atlas.h5ad obs "label = 'T'" --overlay notes.daf.zarr
    daf diagnose pbmc.daf.zarr cell "age > 60" --format json | jq '.conjuncts[].rows'
    """,
)
def diagnose_command(options: Namespace) -> None:
    """Print how many rows each part of a predicate leaves, and why."""
    with selection.reading(options) as session:
        params = selection.named_values(options.param)
        diagnosis = session.diagnose(options.axis, options.predicate, params=params)
    _print_report(diagnosis, options.format)


def _print_report(report: Any, file_format: str) -> None:
    if file_format == "json":
        print_json(report.to_dict())
    else:
        print(visible(str(report)))
