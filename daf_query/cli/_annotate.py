"""The command `annotate`."""

from __future__ import annotations

import argparse
import json

from daf_query.cli._query_text import named_values
from daf_query.session import connect
from daf_query.table import is_user_table
from daf_storage import errors
from daf_storage.spi import visible_name


def annotate_command(options: argparse.Namespace) -> None:
    """Store columns of a file as vectors, and say how many keys are no entries."""
    if not is_user_table(options.table):
        raise errors.InvalidInputError(
            f"--csv {options.table}: a table is a .csv, .csv.gz, .tsv, .parquet or .arrow file"
        )
    target = options.path if options.overlay is None else options.overlay
    session = (
        connect(options.path, mode="r+")
        if options.overlay is None
        else connect(options.path, overlay=options.overlay)
    )
    with session:
        found = session.annotate(
            options.axis,
            options.table,
            key=options.key,
            columns=_columns(options.columns),
            fill=named_values(options.fill, option="--fill"),
            strict=options.strict,
            if_exists="replace" if options.overwrite else "error",
        )
    if options.format == "json":
        print(json.dumps({"path": target, **found.to_dict()}, indent=2))
    elif not options.quiet:
        print(visible_name(f"stored in {target}: {found}"))


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
