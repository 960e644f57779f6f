"""The arguments of the command `split`.

Must not import what it parses for.
"""

from __future__ import annotations

import argparse

from daf_query.cli._parser_parts import (
    Commands,
    add_command,
    add_overlay,
    add_param,
    add_quiet,
)


def add_split(commands: Commands) -> None:
    """Add the command `split`."""
    parser = add_command(
        commands,
        "split",
        "choose entries for a training loop, with splits and weights, and write them to a file",
        "  daf split pbmc.daf.zarr cell --share train=0.8 --share val=0.2 -o split.parquet\n"
        "  daf split pbmc.daf.zarr cell --where 'age > $least' --param least=60 \\\n"
        "      --share train=0.8 --share val=0.2 --stratify type --groups donor --seed 1 -o s.csv\n"
        "  daf split 'runs/*.h5ad' obs --weights '1 / count(*) OVER (PARTITION BY type)' -o w.csv\n"
        "  daf split atlas.h5ad obs --overlay notes.daf.zarr --where label --output l.tsv --quiet",
    )
    parser.add_argument("path", metavar="PATH", help="a data set, or a pattern of several")
    parser.add_argument("axis", metavar="AXIS")
    parser.add_argument("--where", metavar="SQL", help="which entries (default: all)")
    parser.add_argument(
        "--share",
        metavar="NAME=SHARE",
        action="append",
        type=share,
        default=[],
        help="a split and the share that it gets; may be repeated, together 1",
    )
    parser.add_argument("--weights", metavar="SQL", help="the weight of each entry")
    parser.add_argument(
        "--stratify", metavar="SQL", help="keep the shares for each value of a vector or expression"
    )
    parser.add_argument(
        "--groups", metavar="SQL", help="keep entries of a value together, such as those of a donor"
    )
    parser.add_argument("--seed", type=int, default=0, help="another makes other splits")
    add_param(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help=".parquet or .arrow, or .csv, .tsv, .json, .ndjson for other programs",
    )
    add_overlay(parser)
    add_quiet(parser)
    parser.takes_patterns = True
    parser.set_defaults(command="_split.split_command")


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
