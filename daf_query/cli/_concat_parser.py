"""The arguments of the command that concatenates data sets.

Must not import what it parses for.
"""

from __future__ import annotations

from typing import Final

from daf_query.cli._parser_parts import Commands, add_command, add_packing, add_quiet

JOINS: Final = ("exact", "inner", "outer")
ACTIONS: Final = ("skip", "last", "collect", "same")


def add_concat(commands: Commands) -> None:
    """Add the command `concat`."""
    parser = add_command(
        commands,
        "concat",
        "put the entries of an axis of several data sets one after the other, in a new data set",
        "  daf concat runs/*.h5ad -o all.daf.zarr\n"
        "  daf concat runs/*.daf.zarr -o all.daf.zarr.zip --join outer --prefix\n"
        "  daf concat a.h5df b.daf.zarr -o both.daf.zarr --names first,second --axis cell\n"
        "  daf concat runs/*.daf.zarr -o all.daf.zarr --merge same --merge version=collect \\\n"
        "      --merge gene/mean=last --empty cell/donor=unknown --fill-value 0 --make-unique\n"
        "  daf concat 'runs/*.daf.zarr' -o all.daf.zarr --dataset-axis run --one-layout\n"
        "  daf concat 'runs/*.daf.zarr' -o all.daf.zarr --packed --zarr-format 3 --codec zstd \\\n"
        "      --level 9 --chunk-kb 128 --overwrite --quiet",
    )
    parser.add_argument("sources", metavar="PATH", nargs="+", help="a data set, or a pattern")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="such as all.daf.zarr")
    parser.add_argument(
        "--axis",
        action="append",
        metavar="AXIS",
        help="the axis of which the entries are concatenated; repeatable; by default that of obs",
    )
    parser.add_argument(
        "--join",
        choices=JOINS,
        default="exact",
        help="entries of other axes, such as genes: all must have the same (the default), those of "
        "all, or those of any",
    )
    parser.add_argument(
        "--fill-value",
        type=float,
        metavar="NUMBER",
        help="what stands for a gene that one lacks; by default 0 where a matrix is sparse, or NaN",
    )
    parser.add_argument("--names", metavar="A,B", help="names; by default those of the files")
    parser.add_argument(
        "--prefix", action="store_true", help="write the name of the data set before each entry"
    )
    parser.add_argument(
        "--make-unique", action="store_true", help="append -1, -2 ... to entries that occur twice"
    )
    parser.add_argument(
        "--dataset-axis",
        default="dataset",
        metavar="NAME",
        help="the axis of the data sets, and the vector that says which; empty for none",
    )
    parser.add_argument(
        "--merge",
        action="append",
        default=[],
        metavar="[PROPERTY=]ACTION",
        help="what becomes of scalars, and of vectors and matrices of other axes: skip, last, "
        "collect, or same, which is the default; of all, or of a SCALAR, AXIS/VECTOR or "
        "ROWS/COLUMNS/MATRIX, in which * is any; repeatable, the last that applies counts",
    )
    parser.add_argument(
        "--empty",
        action="append",
        default=[],
        metavar="PROPERTY=VALUE",
        help="what stands for a property that one lacks, a number or text; repeatable",
    )
    parser.add_argument(
        "--one-layout", action="store_true", help="store matrices once, by the axis"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is at OUT")
    add_packing(parser)
    add_quiet(parser)
    parser.set_defaults(command="_concat.concat_command")
