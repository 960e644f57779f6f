"""The arguments of the command `diagnose`.

Must not import what it parses for.
"""

from __future__ import annotations

from daf_query.cli._parser_parts import Commands, add_command, add_format, add_overlay, add_param


def add_diagnose(commands: Commands) -> None:
    """Add the command `diagnose`."""
    parser = add_command(
        commands,
        "diagnose",
        "say how many rows each part of a predicate leaves, and why it leaves none",
        "  daf diagnose pbmc.daf.zarr cell \"donor = 'n3' AND age > 60\"\n"
        "  daf diagnose pbmc.daf.zarr cell 'donor = $who AND age > 60' --param who=n3\n"
        '  daf diagnose pbmc.daf.zarr gene "SELECT name FROM gene WHERE means > 100"\n'
        "  daf diagnose atlas.h5ad obs \"label = 'T'\" --overlay notes.daf.zarr\n"
        "  daf diagnose pbmc.daf.zarr cell \"age > 60\" --format json | jq '.conjuncts[].rows'",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("axis", metavar="AXIS")
    parser.add_argument(
        "predicate", metavar="PREDICATE", help="as for extract --rows; or a SELECT of this table"
    )
    add_param(parser)
    add_overlay(parser)
    add_format(parser)
    parser.takes_patterns = True
    parser.set_defaults(command="_diagnose.diagnose_command")
