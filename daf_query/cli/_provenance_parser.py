"""The arguments of the command `provenance`.

Must not import what it parses for.
"""

from __future__ import annotations

from daf_query.cli._parser_parts import Commands, add_command


def add_provenance(commands: Commands) -> None:
    """Add the command `provenance`."""
    parser = add_command(
        commands,
        "provenance",
        "print which query, data sets and packages a file was made of",
        "  daf provenance markers.h5ad\n  daf provenance old.parquet | jq -r .sql",
    )
    parser.add_argument("path", metavar="FILE", help="an .h5ad, .zarr, Parquet or Arrow file")
    parser.set_defaults(command="_provenance.provenance_command")
