"""The command `profile`."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import cast

from daf_query.cli import _output
from daf_query.cli._connected import reading
from daf_query.cli._entries import AnyOf, entries_or_sql
from daf_query.cli._matrix_axes import member_matrix_axes
from daf_query.cli._pager import pager_of
from daf_query.cli._query_text import fill_value_of, named_values
from daf_query.cli._summary import progress_of
from daf_query.profile import H5AD
from daf_storage import errors


def profile_command(options: argparse.Namespace) -> None:
    """Print or write a profile."""
    output = _output.file_of(options.output)
    is_h5ad = options.format == H5AD or (
        options.format is None and output is not None and Path(output).suffix == f".{H5AD}"
    )
    if is_h5ad and output is None:
        raise errors.InvalidInputError("h5ad is not written to standard output; give -o FILE.h5ad")
    if options.statistic is not None and not is_h5ad:
        raise errors.InvalidInputError(
            "--statistic says what X of an .h5ad file is, and other formats have a column for each "
            "statistic; leave it out, or give -o FILE.h5ad"
        )
    file_format = options.format if is_h5ad else options.format or _format_of(output)
    with reading(options) as session:
        readers = list(session.members().values())
        axes = member_matrix_axes(readers, options.matrix, options.rows_axis, options.columns_axis)
        entries = AnyOf(readers)
        rows = entries_or_sql(entries, axes[0], options.rows)
        profile = session.profile(
            *axes,
            options.matrix,
            by=() if options.by is None else options.by,
            rows=rows,
            columns=entries_or_sql(entries, axes[1], options.columns),
            params=named_values(options.param),
            join=options.join or "outer",
            fill_value=fill_value_of(options.fill_value),
            along=options.along,
            progress=progress_of(options),
        )
        if rows is not None and not profile.content.moments.count.sum():
            _note_empty(options.path, axes[0], rows)
        if is_h5ad and output is not None:
            profile.save_h5ad(output, statistic=options.statistic or "mean")
        elif output is None:
            _output.to_stdout(
                profile,
                cast("_output.OutputFormat", file_format),
                max_rows=options.max_rows,
                pager=pager_of(options),
            )
        else:
            target = Path(output)
            _output.to_file(profile, file_format, target, progress=progress_of(options))


def _note_empty(path: str, axis: str, rows: object) -> None:
    """Say on stderr that no rows are chosen."""
    advice = ""
    if isinstance(rows, str):
        advice = f"; {shlex.join(['daf', 'diagnose', path, axis, rows])} says why"
    print(f"daf: note: --rows selects no {axis}{advice}", file=sys.stderr)


def _format_of(output: str | None) -> _output.OutputFormat:
    """Return the format that a file name asks for, other than h5ad."""
    try:
        return _output.format_of(output)
    except errors.InvalidInputError as error:
        raise errors.InvalidInputError(f"{error}; a profile is also written as .h5ad") from None
