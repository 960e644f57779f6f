"""The commands that ask: `sql` with its prompt, `extract`, `profile`, `diagnose`, `split`."""

from __future__ import annotations

import argparse
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from daf_query._formats import ROW_FORMATS, SLICE_FORMATS
from daf_query.cli import _output as outputs
from daf_query.cli import _selection as selection
from daf_query.cli._later import (
    provenance,
    slices,
    storage_base,
)
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
    QUERY_FILE,
    QUIET,
    REPORT_FORMAT,
    ROWS,
    SLICE_AXES,
    byte_size,
    command,
    given,
    join_options,
    option,
)
from daf_query.cli._terminal import described, pager_of, print_json, progress_of
from daf_storage import errors
from daf_storage._lazy import lazy_module
from daf_storage._terminal_text import visible, visible_name

if TYPE_CHECKING:
    from daf_query.cli import _prompt as prompt
    from daf_query.session import DafSession
    from daf_query.slice import MatrixSlice
else:
    prompt = lazy_module("daf_query.cli._prompt")

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
    "without a QUERY, on a terminal, start a prompt",
    PATH,
    option("[QUERY]", "'-': read it from standard input"),
    QUERY_FILE,
    option("--table NAME=FILE...", "your own .csv, .tsv, .parquet or .arrow (also .csv.gz)"),
    PARAM,
    option("--format", "default: by the suffix of FILE, else table", choices=_PRINTED),
    option("-o, --output FILE", "default, or '-': standard output; .csv.gz is packed"),
    MAX_ROWS,
    NO_PAGER,
    option("--explain", "print the plan instead of the rows, and execute nothing"),
    option("--analyze", "execute it, and print what it read instead of the rows"),
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
    """Print or write the rows of a query; without one, start a prompt."""
    is_prompt = options.query is None and options.file is None
    if is_prompt:
        settings = _prompt_settings(options)
    else:
        output = outputs.file_of(options.output)
        file_format = options.format or outputs.format_of(output)
        query = selection.query_of(options)
    params = selection.named_values(options.param)
    with selection.reading(options) as session:
        for name, path in map(selection.named_table, options.table):
            selection.check_table(path, "--table")
            session.register(path, name)
        if is_prompt:
            prompt.run_prompt(session, settings, output=options.output)
        elif options.explain or options.analyze:
            run = session.explain_analyze if options.analyze else session.explain
            outputs.explanation(run(query, params=params), file_format)
        else:
            result = session.sql(query, params=params)
            if output is not None:
                provenance.refuse_own_files(session._connections.data_sets(), output)  # noqa: SLF001 - our own
            outputs.show_or_save(result, file_format, output, options)


def _prompt_settings(options: Namespace) -> prompt.PromptSettings:
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
    return prompt.PromptSettings(
        mode=options.format or "table",
        max_rows=options.max_rows,
        pager=pager_of(options),
        params=selection.named_values(options.param) or {},
    )


@command(
    "extract",
    "write a slice of a matrix to a file; only the slice is read",
    PATH,
    MATRIX,
    ROWS,
    COLUMNS,
    PARAM,
    *SLICE_AXES,
    *join_options("inner"),
    option("-o, --output FILE", f"{', '.join(SLICE_FORMATS)}, by its suffix; '-': standard output"),
    option("--format", "json: of what --dry-run prints", choices=(*SLICE_FORMATS, "json")),
    option("--dry-run", "print what would be read, and how much memory it takes"),
    option("--max-bytes SIZE", "refuse a slice that takes more, such as 500MB", type=byte_size),
    *(
        option(f"--{part} KEYS", f"of .h5ad and .zarr, matrices {which}: A,B, all or none")
        for part, which in _ANNDATA.items()
    ),
    OVERLAY,
    NO_PROVENANCE,
    QUIET,
    any_of=("output", "dry_run"),
    takes_patterns=True,
    examples="""
    daf extract pbmc.daf.zarr --matrix X --columns MS4A1,CD8A -o two.csv
    daf extract pbmc.daf.zarr --matrix X --rows "age > 60 ORDER BY age DESC LIMIT 10" \\
        --columns @genes.txt -o old.h5ad --layers counts --obsm X_umap --obsp none
    daf extract pbmc.daf.zarr --matrix X --rows 'donor = $who' --param who=N3 -o n3.h5ad
    daf extract pbmc.daf.zarr --matrix X --format csv -o - | head
    daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --dry-run
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
    output = outputs.file_of(options.output)
    target = output or ""
    if not options.dry_run:
        target = output or outputs.to_standard_output(options.format)
    if target and options.format != "json":
        slices.check_format(Path(target), options.format)
    with selection.reading(options) as session:
        part = _chosen_slice(session, options)
        if options.dry_run:
            explanation = part.explain()
            _note_empty(part, options.path)
            _print_report(explanation, options.format)
            return
        element_bytes = part.dtype.itemsize + 4
        cost_bytes = sum(member.part.plan.cost_bytes for member in part.whole.members)
        with storage_base.progress_bar(
            "extract", cost_bytes, show=progress_of(options)
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
            counts = part.counts if part.of_several else {}
            members = [f"\n  {visible_name(name)}: {count:,}" for name, count in counts.items()]
            print(
                f"wrote {part.shape[0]:,} {visible_name(part.rows_axis)} x {part.shape[1]:,} "
                f"{visible_name(part.columns_axis)} "
                f"({part.nnz:,} non-zero) to {where}{''.join(members)}",
                file=sys.stderr if output is None else sys.stdout,
            )


def _chosen_slice(session: DafSession, options: Namespace) -> MatrixSlice:
    """Return the slice that the options choose."""
    axes, chosen = selection.selected(session, options, join="inner")
    return session.matrix(*axes, options.matrix, **chosen, max_bytes=options.max_bytes)


def _anndata_choice(options: Namespace) -> Any:
    """Return which other matrices are chosen: those of a comma list, all or none."""
    every = {"all": True, "none": False}
    return {
        part: every.get(keys, [key for key in map(str.strip, keys.split(",")) if key])
        for part, keys in given(options, *_ANNDATA).items()
    }


def _note_empty(part: MatrixSlice, path: str) -> None:
    """Say on stderr which predicates select nothing."""
    for each in part.empty_selections:
        diagnosing = shlex.join(["daf", "diagnose", path, each.axis, each.predicate])
        said = f"daf: note: --{each.keyword} selects no {each.axis}; {diagnosing} says why"
        print(visible_name(said), file=sys.stderr)


@command(
    "profile",
    "count, sum, mean, variance and more of each column of a matrix in groups of its rows",
    PATH,
    MATRIX,
    option("--by WHAT", "vectors or SQL expressions, with commas between them, each also AS name"),
    ROWS,
    COLUMNS,
    PARAM,
    *SLICE_AXES,
    *join_options("outer"),
    option("--statistic NAME", "what X of an .h5ad file is (default: mean)"),
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
    daf profile pbmc.daf.zarr --matrix X --by bulk_labels --columns MS4A1,CD8A --no-pager
    daf profile pbmc.daf.zarr --matrix X --by "donor, age > 60 AS old" \\
        --rows "phase = 'G1'" --columns "is_marker" -o profile.csv
    daf profile pbmc.daf.zarr --matrix UMIs --by "donor, type" --statistic sum \\
        -o pseudobulk.h5ad
    daf profile pbmc.daf.zarr --matrix X --by type --param least=60 \\
        --rows 'age > $least' --rows-axis cell --columns-axis gene --max-rows 0
    daf profile 'runs/*.daf.zarr' --matrix X --by dataset --join inner --fill-value nan \\
        --along cell -o runs.parquet
    """,
)
def profile_command(options: Namespace) -> None:
    """Print or write a profile."""
    output = outputs.file_of(options.output)
    is_h5ad = _H5AD in (options.format, Path(output or "").suffix[1:] if not options.format else "")
    if is_h5ad and output is None:
        raise errors.InvalidInputError("h5ad is not written to standard output; give -o FILE.h5ad")
    if options.statistic is not None and not is_h5ad:
        raise errors.InvalidInputError(
            "--statistic says what X of an .h5ad file is, and other formats have a column for each "
            "statistic; leave it out, or give -o FILE.h5ad"
        )
    try:
        file_format = options.format or ("table" if is_h5ad else outputs.format_of(output))
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(f"{error}; a profile is also written as .h5ad") from None
    with selection.reading(options) as session:
        axes, chosen = selection.selected(session, options, join="outer")
        by, progress = options.by or (), progress_of(options)
        profile = session.profile(*axes, options.matrix, by=by, **chosen, progress=progress)
        if chosen["rows"] is not None and not profile.content.moments.count.sum():
            advice = ""
            if isinstance(chosen["rows"], str):
                diagnosing = shlex.join(["daf", "diagnose", options.path, axes[0], chosen["rows"]])
                advice = f"; {diagnosing} says why"
            print(f"daf: note: --rows selects no {axes[0]}{advice}", file=sys.stderr)
        if is_h5ad and output is not None:
            profile.save_h5ad(output, statistic=options.statistic or "mean")
        else:
            outputs.show_or_save(profile, file_format, output, options)


@command(
    "markers",
    "how each group of rows differs from the others, column by column: marker genes",
    PATH,
    MATRIX,
    option("--by WHAT", "vectors or SQL expressions, with commas between them", required=True),
    option("--reference GROUP", "compare the others with this group (default: each with the rest)"),
    option("--method", "default: t-test", choices=("t-test", "wilcoxon")),
    option("--counts", "the values are counts, and no logarithms of counts and 1"),
    option("--top N", "only the N highest scores of each group", type=int),
    ROWS,
    COLUMNS,
    PARAM,
    *SLICE_AXES,
    *join_options("outer"),
    option("--format", "default: by the suffix of FILE, else table", choices=_PRINTED),
    option("-o, --output FILE", "default, or '-': standard output"),
    MAX_ROWS,
    NO_PAGER,
    OVERLAY,
    NO_PROVENANCE,
    QUIET,
    takes_patterns=True,
    examples="""
    daf markers pbmc.h5ad --matrix X --by bulk_labels --top 5
    daf markers pbmc.daf.zarr --matrix X --by louvain --rows "phase = 'G1'" -o markers.csv
    daf markers pbmc.daf.zarr --matrix UMIs --by type --reference T --counts --method wilcoxon
    """,
)
def markers_command(options: Namespace) -> None:
    """Print or write the markers of groups."""
    output = outputs.file_of(options.output)
    file_format = options.format or outputs.format_of(output)
    with selection.reading(options) as session:
        axes, chosen = selection.selected(session, options, join="outer")
        found = session.markers(
            *axes,
            options.matrix,
            by=options.by,
            reference=options.reference or "rest",
            method=options.method or "t-test",
            is_log1p=not options.counts,
            top=options.top,
            **chosen,
            progress=progress_of(options),
        )
        outputs.show_or_save(found, file_format, output, options)


@command(
    "totals",
    "sum, non-zeros, mean and share of chosen columns for each row: quality control",
    PATH,
    MATRIX,
    ROWS,
    COLUMNS,
    PARAM,
    *SLICE_AXES,
    option("--format", "default: by the suffix of FILE, else table", choices=_PRINTED),
    option("-o, --output FILE", "default, or '-': standard output"),
    MAX_ROWS,
    NO_PAGER,
    OVERLAY,
    NO_PROVENANCE,
    QUIET,
    takes_patterns=True,
    examples="""
    daf totals pbmc.h5ad --matrix X -o counts.parquet
    daf totals pbmc.h5ad --matrix X --columns "name LIKE 'MT-%'" --max-rows 10
    """,
)
def totals_command(options: Namespace) -> None:
    """Print or write what each row has of chosen columns."""
    output = outputs.file_of(options.output)
    file_format = options.format or outputs.format_of(output)
    with selection.reading(options) as session:
        axes, chosen = selection.selected(session, options)
        progress = progress_of(options)
        found = session.totals(*axes, options.matrix, **chosen, progress=progress)
        outputs.show_or_save(found, file_format, output, options)


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


def share(text: str) -> tuple[str, float]:
    """Return the name of a split and its share.

    >>> share("train=0.8")
    ('train', 0.8)
    """
    name, equals, number = text.partition("=")
    try:
        if not name or not equals:
            raise ValueError
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no split and its share; write for example train=0.8"
        ) from None


@command(
    "split",
    "choose entries for a training loop, with splits and weights, and write them to a file",
    option("PATH", "a data set, or a pattern of several"),
    AXIS,
    option("--where SQL", "which entries (default: all)"),
    option("--share NAME=SHARE...", "a split and its share, together 1", type=share),
    option("--weights SQL", "the weight of each entry"),
    option("--stratify SQL", "keep the shares for each value of a vector or expression"),
    option("--groups SQL", "keep entries of a value together, such as those of a donor"),
    option("--seed", "another makes other splits", type=int, default=0),
    PARAM,
    option("-o, --output FILE", ".parquet, .arrow, .csv, .tsv, .json or .ndjson", required=True),
    OVERLAY,
    QUIET,
    takes_patterns=True,
    examples="""
    daf split pbmc.daf.zarr cell --share train=0.8 --share val=0.2 -o split.parquet
    daf split pbmc.daf.zarr cell --where 'age > $least' --param least=60 \\
        --share train=0.8 --share val=0.2 --stratify type --groups donor --seed 1 -o s.csv
    daf split 'runs/*.h5ad' obs --weights '1 / count(*) OVER (PARTITION BY type)' -o w.csv
    """,
)
def split_command(options: Namespace) -> None:
    """Write chosen entries with their splits and weights, and say how many there are."""
    shares = dict(options.share)
    if len(shares) < len(options.share):
        raise errors.InvalidInputError("--share names a split twice; give each once")
    with selection.reading(options) as session:
        sampler = session.sampler(
            options.axis,
            split=shares or None,
            params=selection.named_values(options.param),
            **given(options, "where", "weights", "seed", "stratify", "groups"),
        )
        sampler.save(options.output)
    if not options.quiet:
        sizes = ", ".join(f"{visible_name(name)} {n:,}" for name, n in sampler.sizes.items())
        what = f"{len(sampler):,} of {sampler.axis_length:,} entries of {sampler.axis}"
        print(f"{options.output}: {what}{': ' if sizes else ''}{sizes}")
