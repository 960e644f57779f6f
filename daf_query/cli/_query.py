"""The commands `sql` and `extract`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from daf_query._provenance import refuse_own_files
from daf_query.cli import _output
from daf_query.cli._anndata_choice import anndata_choice
from daf_query.cli._connected import reading
from daf_query.cli._entries import AnyOf, entries_or_sql
from daf_query.cli._matrix_axes import member_matrix_axes
from daf_query.cli._pager import pager_of
from daf_query.cli._prompt import run_prompt
from daf_query.cli._prompt_commands import PromptCommands
from daf_query.cli._prompt_line import require_prompt
from daf_query.cli._prompt_settings import MODES, PromptMode, PromptSettings
from daf_query.cli._query_text import fill_value_of, named_table, named_values, query_of
from daf_query.cli._summary import described, progress_of
from daf_query.session import DafSession
from daf_query.slice import MatrixSlice, check_format
from daf_query.table import is_user_table
from daf_storage import errors
from daf_storage.spi import progress_bar, visible, visible_name


def sql_command(options: argparse.Namespace) -> None:
    """Print or write the rows of a query; without one, be a prompt."""
    if options.query is None and options.file is None:
        _prompt_command(options)
        return
    output = _output.file_of(options.output)
    file_format: _output.OutputFormat = options.format or _output.format_of(output)
    query, params = query_of(options), named_values(options.param)
    with reading(options) as session:
        _register_tables(session, options)
        if options.explain or options.analyze:
            run = session.explain_analyze if options.analyze else session.explain
            _output.explanation(run(query, params=params), file_format)
            return
        frame = session.sql(query, params=params)
        if output is None:
            _output.to_stdout(
                frame, file_format, max_rows=options.max_rows, pager=pager_of(options)
            )
        else:
            refuse_own_files(session._connections.data_sets(), output)  # noqa: SLF001 - our own
            _output.to_file(frame, file_format, Path(output), progress=progress_of(options))


def _prompt_command(options: argparse.Namespace) -> None:
    """Answer what is typed, until its end."""
    if options.explain or options.analyze:
        option = "--explain" if options.explain else "--analyze"
        raise errors.InvalidInputError(
            f"{option} needs a QUERY, or --file; in the prompt, write EXPLAIN before one"
        )
    require_prompt()
    settings = PromptSettings(
        mode=_prompt_mode(options.format),
        max_rows=options.max_rows,
        pager=pager_of(options),
        params=named_values(options.param) or {},
    )
    with reading(options) as session:
        _register_tables(session, options)
        if options.output is not None:
            PromptCommands(session, settings).output(options.output)
        run_prompt(session, settings)


def _prompt_mode(file_format: str | None) -> PromptMode:
    mode: PromptMode | None = next((mode for mode in MODES if mode == file_format), None)
    if file_format is not None and mode is None:
        raise errors.InvalidInputError(
            f"{file_format} is binary, and the prompt shows text; write .output FILE there"
        )
    return mode or "table"


def _register_tables(session: DafSession, options: argparse.Namespace) -> None:
    """Connect the tables of ``--table``."""
    for name, path in map(named_table, options.table):
        if not is_user_table(path):
            raise errors.InvalidInputError(
                f"--table {path}: a table is a .csv, .csv.gz, .tsv, .parquet or .arrow file"
            )
        session.register(path, name)


def extract_command(options: argparse.Namespace) -> None:
    """Write a slice of a matrix, or say what that would cost."""
    if options.dry_run:
        _dry_run(options)
        return
    output = _output.file_of(options.output)
    target = output or _output.to_standard_output(options.format)
    check_format(Path(target), options.format)
    with reading(options) as session:
        part = _chosen_slice(session, options)
        element_bytes = part.dtype.itemsize + 4
        with progress_bar("extract", _cost_bytes(part), show=progress_of(options)) as progress:
            part.save(
                target,
                format=options.format,
                progress=lambda done: progress.add(done * element_bytes),
                **anndata_choice(options),
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
    if not part.of_several:
        return ""
    return "".join(f"\n  {visible_name(name)}: {count:,}" for name, count in part.counts.items())


def _note_empty(part: MatrixSlice, path: str) -> None:
    """Say on stderr which predicates select nothing."""
    for each in part.empty_selections:
        command = shlex.join(["daf", "diagnose", path, each.axis, each.predicate])
        said = f"daf: note: --{each.keyword} {each.reason}; {command} says why"
        print(visible_name(said), file=sys.stderr)


def _dry_run(options: argparse.Namespace) -> None:
    """Print what a slice would cost; nothing of its values is read, and nothing is written."""
    if options.format != "json" and options.output not in (None, "-"):
        check_format(Path(options.output), options.format)
    with reading(options) as session:
        part = _chosen_slice(session, options)
        explanation = part.explain()
    _note_empty(part, options.path)
    if options.format == "json":
        print(json.dumps(explanation.to_dict(), indent=2))
    else:
        print(visible(str(explanation)))


def _chosen_slice(session: DafSession, options: argparse.Namespace) -> MatrixSlice:
    """Return the slice that the options choose."""
    readers = list(session.members().values())
    axes = member_matrix_axes(readers, options.matrix, options.rows_axis, options.columns_axis)
    entries = AnyOf(readers)
    return session.matrix(
        *axes,
        options.matrix,
        rows=entries_or_sql(entries, axes[0], options.rows),
        columns=entries_or_sql(entries, axes[1], options.columns),
        params=named_values(options.param),
        max_bytes=options.max_bytes,
        join=options.join or "inner",
        fill_value=fill_value_of(options.fill_value),
        along=options.along,
    )
