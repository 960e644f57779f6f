"""The arguments of the commands that look at an axis: `head` and `describe`.

Must not import what it parses for.
"""

from __future__ import annotations

from typing import Final

from daf_query.cli._parser_parts import (
    Commands,
    Parser,
    add_axis_names,
    add_command,
    add_no_pager,
    add_overlay,
    whole_number,
)

LOOK_FORMATS: Final = ("table", "csv", "tsv", "json", "ndjson")


def add_look(commands: Commands) -> None:
    """Add the commands `head` and `describe`."""
    head = add_command(
        commands,
        "head",
        "print the first entries of an axis with their vectors",
        "  daf head pbmc.daf.zarr cell\n"
        "  daf head atlas.h5ad obs -n 3 --columns donor,age --format json\n"
        "  daf head atlas.h5ad cell --obs-is cell --var-is gene --no-pager\n"
        "  daf head atlas.h5ad obs --overlay notes.daf.zarr",
    )
    _add_axis(head)
    head.add_argument(
        "-n", "--rows", type=whole_number, default=10, metavar="N", help="how many (default: 10)"
    )
    _add_shown(head)
    head.set_defaults(command="_look.head_command")
    describe = add_command(
        commands,
        "describe",
        "print what the vectors of an axis are like: count, missing, distinct, range, mean, "
        "quartiles, the most frequent value",
        "  daf describe pbmc.daf.zarr cell\n"
        "  daf describe atlas.h5ad obs --columns donor,age --format json\n"
        "  daf describe atlas.h5ad cell --obs-is cell --var-is gene --no-pager\n"
        "  daf describe atlas.h5ad obs --overlay notes.daf.zarr",
    )
    _add_axis(describe)
    _add_shown(describe)
    describe.set_defaults(command="_look.describe_command")


def _add_axis(parser: Parser) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("axis", metavar="AXIS")


def _add_shown(parser: Parser) -> None:
    parser.add_argument(
        "--columns", metavar="A,B", help="which vectors (default: all); a name with a comma in ''"
    )
    parser.add_argument("--format", choices=LOOK_FORMATS, default="table")
    add_no_pager(parser)
    add_overlay(parser)
    add_axis_names(parser)
