"""The arguments of the command that writes a slice of a matrix.

Must not import what it parses for.
"""

from __future__ import annotations

from typing import Final

from daf_query.cli._parser_parts import (
    Commands,
    add_command,
    add_join,
    add_no_provenance,
    add_overlay,
    add_param,
    add_quiet,
    byte_size,
)

SLICE_FORMATS: Final = ("h5ad", "zarr", "npz", "mtx", "csv", "tsv", "parquet", "arrow")


def add_extract(commands: Commands) -> None:
    """Add the command `extract`."""
    parser = add_command(
        commands,
        "extract",
        "write a slice of a matrix to a file; only the slice is read",
        "  daf extract pbmc.daf.zarr --matrix X --rows \"donor = 'N3'\" -o n3.h5ad\n"
        '  daf extract pbmc.daf.zarr --matrix X --columns "is_marker" -o markers.parquet\n'
        "  daf extract atlas.h5ad --overlay notes.daf.zarr --matrix X --rows label=1 -o one.h5ad\n"
        "  daf extract pbmc.daf.zarr --matrix X --columns MS4A1,CD8A -o two.csv\n"
        '  daf extract pbmc.daf.zarr --matrix X --rows "age > 60 ORDER BY age DESC LIMIT 10" \\\n'
        "      --columns @genes.txt -o old.h5ad --layers counts --obsm X_umap --obsp none\n"
        "  daf extract pbmc.daf.zarr --matrix X --rows 'donor = $who' --param who=N3 -o n3.h5ad\n"
        "  daf extract pbmc.daf.zarr --matrix X --format csv -o - | head\n"
        '  daf extract pbmc.daf.zarr --matrix X --rows "age > 60" --dry-run\n'
        "  daf extract pbmc.daf.zarr --matrix X --max-bytes 2GB -o all.h5ad\n"
        "  daf extract pbmc.daf.zarr --matrix X --varm PCs --varp correlation -o pcs.h5ad \\\n"
        "      --no-provenance\n"
        "  daf extract 'runs/*.daf.zarr' --matrix X --rows 'age > 60' --join outer \\\n"
        "      --fill-value 0 --along cell -o old.h5ad\n"
        "  daf extract pbmc.daf.zarr --matrix X --rows-axis gene --columns-axis cell \\\n"
        '      --rows "SELECT name FROM gene ORDER BY means DESC LIMIT 50" -o top.csv',
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--matrix", metavar="NAME", required=True)
    parser.add_argument(
        "--rows",
        metavar="WHICH",
        help="a SQL predicate (also with ORDER BY and LIMIT), a SELECT of name or index, names "
        "(A,B), or a file with a name a line (@FILE)",
    )
    parser.add_argument("--columns", metavar="WHICH", help="the same for the other axis")
    add_param(parser)
    parser.add_argument("--rows-axis", metavar="AXIS", help="needed where it is ambiguous")
    parser.add_argument("--columns-axis", metavar="AXIS", help="needed where it is ambiguous")
    add_join(parser, "inner")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=".h5ad, .zarr, .npz, .mtx, .csv, .tsv (also .csv.gz), .parquet or .arrow; '-' for "
        "stdout",
    )
    parser.add_argument(
        "--format",
        choices=(*SLICE_FORMATS, "json"),
        help="default: by the suffix of FILE; json: of what --dry-run prints",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what would be read, and how much memory it takes, and write nothing",
    )
    parser.add_argument(
        "--max-bytes",
        metavar="SIZE",
        type=byte_size,
        help="refuse a slice whose values take more memory, such as 500MB or 2GiB",
    )
    for part, matrices in (
        ("layers", "over both axes"),
        ("obsm", "of the rows and another axis"),
        ("varm", "of the columns and another axis"),
        ("obsp", "of the rows with themselves"),
        ("varp", "of the columns with themselves"),
    ):
        parser.add_argument(
            f"--{part}",
            metavar="KEYS",
            help=f"of .h5ad, the other matrices {matrices}: A,B, all or none (default: what fits "
            "1 GiB)",
        )
    add_overlay(parser)
    add_no_provenance(parser)
    add_quiet(parser)
    parser.any_of = ("output", "dry_run")
    parser.takes_patterns = True
    parser.set_defaults(command="_query.extract_command")
