"""The parser of ``daf serve``: over HTTP, or as tables over Flight SQL."""

from __future__ import annotations

import argparse

from daf_query.cli._parser_parts import Commands, add_command, add_format, byte_size, whole_number


def add_serve(commands: Commands) -> None:
    """Add ``daf serve``."""
    parser = add_command(
        commands,
        "serve",
        "serve a data set over HTTP, or data sets as SQL tables over Flight SQL, read-only, to "
        "programs of this machine",
        "  daf serve pbmc.daf.zarr.zip --port 8000\n"
        "  daf serve pbmc.daf.zarr --host 0.0.0.0 --host-name data.lab.org\n"
        "  daf serve pbmc.daf.zarr --allow-origin https://viewer.lab.org\n"
        '  daf sql http://127.0.0.1:8000/pbmc.daf.zarr.zip "SELECT count(*) FROM cell"\n'
        "  daf serve --flight-sql pbmc.daf.zarr liver.h5ad\n"
        "  daf serve --flight-sql 'runs/*.daf.zarr' --port 0 --format json\n"
        "  daf serve --flight-sql pbmc.daf.zarr --host 0.0.0.0 --token-file token.txt "
        "--tls-cert server.pem --tls-key server.key\n"
        "  daf serve --flight-sql pbmc.daf.zarr --token-env DAF_TOKEN --max-seconds 60 "
        "--max-queries 4 --max-rows 1000000 --max-bytes 500MB\n"
        "  daf serve --flight-sql pbmc.daf.zarr --max-memory-bytes 1GB --max-statements 100 "
        "--max-query-bytes 64KiB\n"
        "  daf serve --flight-sql pbmc.daf.zarr --host 10.0.0.5 --allow-anyone",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+")
    parser.add_argument(
        "--port",
        type=whole_number,
        help="default: 8000, or 31337 with --flight-sql; 0 takes one that is free",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    add_format(parser, "how the address is printed: json is one line for programs")
    _add_http(parser.add_argument_group("over HTTP"))
    flight_sql = parser.add_argument_group("over Flight SQL")
    _add_access(flight_sql)
    _add_limits(flight_sql)
    parser.set_defaults(command="_serve.serve_command")


def _add_http(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--host-name",
        metavar="NAME",
        action="append",
        default=[],
        help="another name by which clients may call this server, such as that of a proxy",
    )
    group.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        help="let web pages of this origin read it (CORS); * for all, by default none",
    )


def _add_access(group: argparse._ArgumentGroup) -> None:
    """Add who may ask for tables, and how that travels."""
    group.add_argument(
        "--flight-sql",
        action="store_true",
        help="answer SQL of tools and other languages (ADBC, JDBC); each PATH is a schema",
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="whoever asks needs a token of this file, which has one in each line",
    )
    group.add_argument(
        "--token-env", metavar="NAME", help="the same, of the environment variable NAME"
    )
    group.add_argument(
        "--allow-anyone",
        action="store_true",
        help="let other machines ask without a token, if --host lets them reach it",
    )
    group.add_argument("--tls-cert", metavar="FILE", help="certificate (PEM), to encrypt")
    group.add_argument("--tls-key", metavar="FILE", help="its key (PEM)")


def _add_limits(group: argparse._ArgumentGroup) -> None:
    """Add what a server gives at most."""
    group.add_argument(
        "--max-rows", metavar="N", type=whole_number, help="rows of one result (default: any)"
    )
    group.add_argument(
        "--max-bytes",
        metavar="SIZE",
        type=byte_size,
        help="size of one result in memory, such as 500MB (default: any)",
    )
    group.add_argument(
        "--max-memory-bytes",
        metavar="SIZE",
        type=byte_size,
        help="memory in which one query sorts, joins and groups, such as 1GB (default: any)",
    )
    group.add_argument(
        "--max-seconds",
        metavar="N",
        type=whole_number,
        help="seconds until the last row of a query is sent (default: 600)",
    )
    group.add_argument(
        "--max-queries",
        metavar="N",
        type=whole_number,
        help="queries at the same time (default: 8)",
    )
    group.add_argument(
        "--max-statements",
        metavar="N",
        type=whole_number,
        help="prepared statements that are remembered (default: 1000)",
    )
    group.add_argument(
        "--max-query-bytes",
        metavar="SIZE",
        type=byte_size,
        help="size of the SQL of a query (default: 1MiB)",
    )
