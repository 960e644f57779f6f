"""The arguments of the commands that store vectors, axes and matrices out of queries.

Must not import what it parses for.
"""

from __future__ import annotations

from typing import Final

from daf_query.cli._parser_parts import Commands, Parser, add_command, add_param, add_quiet

STATISTICS: Final = (
    "sum",
    "mean",
    "variance",
    "min",
    "max",
    "nonzero",
    "missing",
    "fraction",
)


def add_saving(commands: Commands) -> None:
    """Add the commands `save-vector`, `save-axis` and `save-matrix`."""
    _add_vector(commands)
    _add_axis(commands)
    _add_matrix(commands)


def _add_vector(commands: Commands) -> None:
    parser = add_command(
        commands,
        "save-vector",
        "store what a query says of each entry of an axis as a vector",
        '  daf save-vector pbmc.daf.zarr cell is_old "age > 60"\n'
        "  daf save-vector pbmc.daf.zarr cell rank \\\n"
        '      "SELECT name, rank() OVER (PARTITION BY type ORDER BY age) FROM cell"\n'
        "  daf save-vector pbmc.daf.zarr cell is_old 'age > $least' --param least=50 --overwrite\n"
        "  daf save-vector pbmc.daf.zarr cell score -f score.sql --quiet",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("axis", metavar="AXIS")
    parser.add_argument("name", metavar="NAME")
    _add_query(parser, "a SQL expression, or a SELECT of name or index and one other column")
    parser.one_of = ("query", "file")
    _add_common(parser, "replace the vector, if there is one")
    parser.set_defaults(command="_saving.save_vector_command")


def _add_axis(commands: Commands) -> None:
    parser = add_command(
        commands,
        "save-axis",
        "store the rows of a query as an axis with its vectors, in one step",
        "  daf save-axis pbmc.daf.zarr type \\\n"
        '      "SELECT type AS name, count(*) AS n, avg(age) AS age FROM cell GROUP BY type"\n'
        '  daf save-axis pbmc.daf.zarr donor "SELECT DISTINCT donor FROM cell" --name donor\n'
        "  daf save-axis pbmc.daf.zarr type -f types.sql --param least=5 --overwrite --quiet",
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("axis", metavar="AXIS")
    _add_query(parser, "a SELECT with a row for each entry of the new axis")
    parser.one_of = ("query", "file")
    parser.add_argument(
        "--name", metavar="COLUMN", default="name", help="of the names (default: name)"
    )
    _add_common(parser, "replace the axis, if there is one, with its vectors and matrices")
    parser.set_defaults(command="_saving.save_axis_command")


def _add_matrix(commands: Commands) -> None:
    parser = add_command(
        commands,
        "save-matrix",
        "store a slice of a matrix, means of groups, or the rows of a query, as a matrix",
        "  daf save-matrix pbmc.daf.zarr old_UMIs --matrix UMIs --rows 'age > 60'\n"
        "  daf save-matrix pbmc.daf.zarr part --matrix UMIs --rows 'donor = $who' \\\n"
        "      --columns is_marker --param who=N3 --one-layout --overwrite --quiet\n"
        "  daf save-matrix pbmc.daf.zarr mean_X --matrix X --by louvain --statistic mean\n"
        "  daf save-matrix pbmc.daf.zarr share -f share.sql --rows-axis type --columns-axis donor\n"
        "  daf save-matrix pbmc.daf.zarr UMIs --from run2.daf.zarr --matrix counts \\\n"
        "      --rows-axis cell --columns-axis gene\n"
        "  daf save-matrix pbmc.daf.zarr share --rows-axis type --columns-axis donor --fill 0 \\\n"
        '      "SELECT type, donor, avg(age) AS age FROM cell GROUP BY type, donor"',
    )
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("name", metavar="NAME")
    _add_query(parser, "a SELECT of an entry of either axis, named as the axes, and a value")
    parser.add_argument("--matrix", metavar="MATRIX", help="store a slice of this one instead")
    parser.one_of = ("query", "file", "matrix")
    parser.add_argument(
        "--from", dest="source", metavar="OTHER", help="the data set of MATRIX (default: PATH)"
    )
    parser.add_argument(
        "--by", metavar="GROUPS", action="append", help="store a row for each group of the rows"
    )
    parser.add_argument(
        "--statistic", choices=STATISTICS, default="mean", help="of each group (default: mean)"
    )
    parser.add_argument("--rows", metavar="WHICH", help="of MATRIX, as for 'daf extract'")
    parser.add_argument("--columns", metavar="WHICH", help="the same for the other axis")
    parser.add_argument("--rows-axis", metavar="AXIS", help="of a slice, by default its own")
    parser.add_argument("--columns-axis", metavar="AXIS", help="of a slice, by default its own")
    parser.add_argument(
        "--fill", metavar="VALUE", help="the elements that are not given: JSON (0) or text"
    )
    parser.add_argument(
        "--one-layout", action="store_true", help="store it once; by default also its transpose"
    )
    _add_common(parser, "replace the matrix, if there is one")
    parser.set_defaults(command="_saving.save_matrix_command")


def _add_query(parser: Parser, what: str) -> None:
    parser.add_argument("query", metavar="QUERY", nargs="?", help=f"{what}; '-': standard input")
    parser.add_argument("-f", "--file", metavar="FILE.sql", help="a file with the query")


def _add_common(parser: Parser, overwrite: str) -> None:
    add_param(parser)
    parser.add_argument("--overwrite", action="store_true", help=overwrite)
    add_quiet(parser)
