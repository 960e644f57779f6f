"""The arguments of the command that profiles groups of the rows of a matrix.

Must not import what it parses for.
"""

from __future__ import annotations

from typing import Final

from daf_query.cli._parser_parts import (
    Commands,
    add_command,
    add_join,
    add_max_rows,
    add_no_pager,
    add_no_provenance,
    add_overlay,
    add_param,
    add_quiet,
)

PROFILE_FORMATS: Final = ("table", "csv", "tsv", "json", "ndjson", "parquet", "arrow", "h5ad")


def add_profile(commands: Commands) -> None:
    """Add the command `profile`."""
    parser = add_command(
        commands,
        "profile",
        "count, sum, mean, variance and more of each column of a matrix in groups of its rows",
        "  daf profile pbmc.daf.zarr --matrix X --by bulk_labels -o profile.parquet\n"
        "  daf profile atlas.h5ad --overlay notes.daf.zarr --matrix X --by label -o notes.csv\n"
        "  daf profile pbmc.daf.zarr --matrix X --by bulk_labels --columns MS4A1,CD8A --no-pager\n"
        '  daf profile pbmc.daf.zarr --matrix X --by "donor, age > 60 AS old" \\\n'
        '      --rows "phase = \'G1\'" --columns "is_marker" -o profile.csv\n'
        '  daf profile pbmc.daf.zarr --matrix UMIs --by "donor, type" --statistic sum \\\n'
        "      -o pseudobulk.h5ad\n"
        "  daf profile pbmc.daf.zarr --matrix X --by type --param least=60 \\\n"
        "      --rows 'age > $least' --rows-axis cell --columns-axis gene --max-rows 0\n"
        "  daf profile 'runs/*.daf.zarr' --matrix X --by dataset --join inner --fill-value nan \\\n"
        "      --along cell -o runs.parquet\n"
        "  daf profile pbmc.daf.zarr --matrix X --by type --format parquet --no-provenance \\\n"
        "      --quiet -o - > profile.parquet",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--matrix", metavar="NAME", required=True)
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="vectors or SQL expressions over the rows axis, with commas between them, each also "
        "with AS name; by default all rows are one group",
    )
    parser.add_argument(
        "--rows",
        metavar="WHICH",
        help="a SQL predicate, a SELECT of name or index, names (A,B), or a file with a name a "
        "line (@FILE)",
    )
    parser.add_argument("--columns", metavar="WHICH", help="the same for the other axis")
    add_param(parser)
    parser.add_argument("--rows-axis", metavar="AXIS", help="needed where it is ambiguous")
    parser.add_argument("--columns-axis", metavar="AXIS", help="needed where it is ambiguous")
    add_join(parser, "outer")
    parser.add_argument(
        "--statistic",
        metavar="NAME",
        help="what X of an .h5ad file is; all are layers (default: mean)",
    )
    parser.add_argument(
        "--format", choices=PROFILE_FORMATS, help="default: by the suffix of FILE, else table"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="default, or '-': standard output")
    add_max_rows(parser)
    add_no_pager(parser)
    add_overlay(parser)
    add_no_provenance(parser)
    add_quiet(parser)
    parser.takes_patterns = True
    parser.set_defaults(command="_profile.profile_command")
