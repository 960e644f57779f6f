"""The parser of ``daf explore``."""

from __future__ import annotations

from daf_query.cli._parser_parts import Commands, add_command, byte_size, whole_number


def add_explore(commands: Commands) -> None:
    """Add ``daf explore``."""
    parser = add_command(
        commands,
        "explore",
        "look at data sets in the browser, on this machine alone: tables, SQL, charts, embeddings",
        "  daf explore pbmc.h5ad\n"
        '  daf explore pbmc.h5ad --color phase --query "SELECT * FROM obs WHERE n_genes > 1500"\n'
        "  daf explore pbmc.daf.zarr liver.daf.zarr.zip --port 8080 --no-browser\n"
        "  daf explore 'runs/*.daf.zarr' --max-rows 10000 --max-bytes 500MB --seconds 30\n"
        "  daf explore pbmc.h5ad --write notes.daf.zarr",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+")
    parser.add_argument("--query", metavar="SQL", help="the query that the page starts with")
    parser.add_argument(
        "--color",
        metavar="EXPRESSION",
        help="what colours the embedding at first: a vector, or a SQL expression such as X['CD8A']",
    )
    parser.add_argument(
        "--write",
        metavar="OVERLAY",
        help="let the page save vectors, into a data set of your own on top; made if missing",
    )
    parser.add_argument(
        "--port", type=whole_number, default=0, help="default: 0, which takes one that is free"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address, and open no browser"
    )
    parser.add_argument(
        "--max-rows",
        metavar="N",
        type=whole_number,
        help="rows of the result of one query (default: 1000000)",
    )
    parser.add_argument(
        "--max-bytes", metavar="SIZE", type=byte_size, help="size of one answer (default: 1GiB)"
    )
    parser.add_argument(
        "--seconds",
        metavar="N",
        type=whole_number,
        help="seconds until the last row of a query is sent (default: 120)",
    )
    parser.set_defaults(command="_explore.explore_command")
