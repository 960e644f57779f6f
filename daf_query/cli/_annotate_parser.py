"""The arguments of the command that stores columns of a file as vectors.

Must not import what it parses for.
"""

from __future__ import annotations

from daf_query.cli._parser_parts import Commands, add_command, add_format, add_quiet


def add_annotate(commands: Commands) -> None:
    """Add the command `annotate`."""
    parser = add_command(
        commands,
        "annotate",
        "store columns of a table as vectors, in a data set on top of one that is only read",
        "  daf annotate atlas.h5ad notes.daf.zarr --axis cell --csv labels.csv --key barcode\n"
        "  daf annotate atlas.daf.zarr notes.daf.zarr --axis cell --csv labels.parquet \\\n"
        "      --columns cell_type=label,score --overwrite --strict\n"
        "  daf annotate pbmc.daf.zarr --axis cell --csv doublets.tsv --fill is_doublet=false\n"
        "  daf annotate pbmc.daf.zarr --axis cell --csv labels.csv --quiet --format json\n"
        '  daf sql atlas.h5ad --overlay notes.daf.zarr "SELECT cell_type, age FROM cell"',
    )
    parser.add_argument("path", metavar="PATH", help="only read, if OVERLAY is given")
    parser.add_argument(
        "overlay",
        metavar="OVERLAY",
        nargs="?",
        help="what is written, made if it is missing (default: PATH itself)",
    )
    parser.add_argument("--axis", metavar="AXIS", required=True)
    parser.add_argument(
        "--csv",
        dest="table",
        metavar="FILE",
        required=True,
        help="a row for an entry: .csv, .csv.gz, .tsv, .parquet or .arrow",
    )
    parser.add_argument(
        "--key", metavar="COLUMN", help="the column that has the entries (default: name)"
    )
    parser.add_argument(
        "--columns",
        metavar="[NAME=]COLUMN,...",
        help="which to store, and under which names (default: all but the key)",
    )
    parser.add_argument(
        "--fill",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="the value of entries without one: JSON (0, false) or text; repeatable",
    )
    parser.add_argument(
        "--strict", action="store_true", help="fail if a key is no entry, and write nothing"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace vectors that are there")
    add_format(parser)
    add_quiet(parser)
    parser.set_defaults(command="_annotate.annotate_command")
