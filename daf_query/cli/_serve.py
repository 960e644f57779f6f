"""The commands that show: `provenance`, `serve` over HTTP or Flight SQL, `explore`, and `demo`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import daf_storage
from daf_query.cli import _options as shared
from daf_query.cli._later import (
    demo,
    explore,
    flight_sql,
    provenance,
    session,
    storage_base,
    syntax,
    webbrowser,
)
from daf_query.cli._options import command, given, grouped, option
from daf_query.cli._output import print_json
from daf_storage import errors

if TYPE_CHECKING:
    from daf_query.session import DafSession

_OF_HTTP: Final[tuple[str, ...]] = ("host_name", "allow_origin")
_LIMITS: Final = {
    "max_rows": option("--max-rows N", "rows of one result (default: any)"),
    "max_bytes": option("--max-bytes SIZE", "size of one result, such as 500MB"),
    "max_memory_bytes": option(
        "--max-memory-bytes SIZE", "memory for the sorts, joins and groups of one query"
    ),
    "max_seconds": option("--max-seconds N", "until the last row is sent (default: 600)"),
    "max_queries": option("--max-queries N", "queries at the same time (default: 8)"),
    "max_query_bytes": option(
        "--max-query-bytes SIZE", "length of the SQL of a query (default: 1MiB)"
    ),
}
_OF_FLIGHT_SQL: Final = {
    "token_file": option("--token-file FILE", "clients need one of its tokens, one per line"),
    "token_env": option("--token-env NAME", "the same, from the environment variable NAME"),
    "allow_anyone": option("--allow-anyone", "accept clients on other machines without a token"),
    "tls_cert": option("--tls-cert FILE", "certificate (PEM), to encrypt"),
    "tls_key": option("--tls-key FILE", "its key (PEM)"),
    **_LIMITS,
}
_SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Variables of the environment of which one is set where there are windows."""


class ClearTextWarning(errors.DafWarning):
    """Tokens travel over a network without encryption."""


@command(
    option("FILE", "an .h5ad, .zarr, Parquet or Arrow file", dest="path"),
    option("--format", "what it prints", choices=("json",), default="json"),
)
def provenance_command(options: Namespace) -> None:
    """Print which query, data sets and packages a file was made of.

    Examples
    --------
    daf provenance markers.h5ad
    daf provenance old.parquet | jq -r .sql
    """
    record = provenance.provenance(options.path)
    if record is None:
        raise errors.NotFoundError(f"{options.path} does not say where it comes from")
    print_json(record, ensure_ascii=False)


@command(
    option("PATH", dest="paths", nargs="+"),
    option("--port", "default: 8000, or 31337 with --flight-sql; 0: any", type=shared.whole_number),
    option("--host", "address to listen on (default: this machine only)", default="127.0.0.1"),
    shared.REPORT_FORMAT,
    grouped(
        "over HTTP",
        option("--host-name NAME...", "another name of this server, such as that of a proxy"),
        option("--allow-origin ORIGIN", "let web pages of it read (CORS); * for all"),
    ),
    grouped(
        "over Flight SQL",
        option("--flight-sql", "serve SQL to other programs; each PATH is a schema"),
        *_OF_FLIGHT_SQL.values(),
    ),
)
def serve_command(options: Namespace) -> None:
    r"""Serve a data set over HTTP, or data sets as SQL tables over Flight SQL, read-only.

    By default, only programs on this machine can connect.

    Examples
    --------
    daf serve pbmc.daf.zarr.zip --port 8000
    daf serve pbmc.daf.zarr --host 0.0.0.0 --host-name data.lab.org
    daf serve pbmc.daf.zarr --allow-origin https://viewer.lab.org
    daf sql http://127.0.0.1:8000/pbmc.daf.zarr.zip "SELECT count(*) FROM cell"
    daf serve --flight-sql pbmc.daf.zarr liver.h5ad
    daf serve --flight-sql 'runs/*.daf.zarr' --port 0 --format json
    daf serve --flight-sql pbmc.daf.zarr --host 0.0.0.0 --token-file token.txt \
        --tls-cert server.pem --tls-key server.key
    daf serve --flight-sql pbmc.daf.zarr --token-env DAF_TOKEN --max-seconds 60 \
        --max-queries 4 --max-rows 1000000 --max-bytes 500MB
    daf serve --flight-sql pbmc.daf.zarr --max-memory-bytes 1GB --max-query-bytes 64KiB
    daf serve --flight-sql pbmc.daf.zarr --host 10.0.0.5 --allow-anyone
    """
    others, why = tuple(_OF_FLIGHT_SQL), "for --flight-sql, and not for HTTP"
    if options.flight_sql:
        others, why = _OF_HTTP, "for HTTP, and not for --flight-sql"
    for name in others:
        if getattr(options, name) not in (None, [], False):
            raise errors.InvalidInputError(f"--{name.replace('_', '-')} is {why}")
    if options.flight_sql:
        _serve_flight_sql(options)
        return
    if len(options.paths) > 1:
        raise errors.InvalidInputError(
            f"over HTTP one data set is served, not {len(options.paths)}; --flight-sql serves "
            "several as schemas of SQL"
        )
    with daf_storage.DafServer(
        options.paths[0],
        port=8000 if options.port is None else options.port,
        host=options.host,
        host_names=options.host_name,
        allow_origin=options.allow_origin,
    ) as server:
        text = f"serving {options.paths[0]} at {server.url}; stop with Ctrl-C"
        _run(options, server, text, url=server.url)


def _serve_flight_sql(options: Namespace) -> None:
    tokens = _tokens(options)
    sources = session.named_sources(options.paths)
    has_tls = options.tls_cert is not None
    if has_tls != (options.tls_key is not None):
        raise errors.InvalidInputError("--tls-cert and --tls-key belong together; give both")
    with (
        session.connect(sources) as connected,
        flight_sql.FlightSqlServer(
            connected,
            host=options.host,
            port=31337 if options.port is None else options.port,
            tokens=tokens,
            tls=(options.tls_cert, options.tls_key) if has_tls else None,
            limits=flight_sql.FlightSqlLimits(**given(options, *_LIMITS)),
            allow_anyone=options.allow_anyone,
        ) as server,
    ):
        if tokens and not has_tls and not flight_sql.is_loopback(options.host):
            said = "tokens and rows are sent in clear: give --tls-cert and --tls-key"
            errors.warn(said, ClearTextWarning)
        text = f"serving {', '.join(sources)} at {server.uri}; stop with Ctrl-C"
        access: dict[str, Any] = {"needs_token": bool(tokens), "tls": has_tls}
        _run(options, server, text, uri=server.uri, schemas=list(sources), **access)


def _run(options: Namespace, server: Any, text: str, *, opens: str = "", **address: Any) -> None:
    """Print where a server is, and wait until it is interrupted."""
    with contextlib.suppress(KeyboardInterrupt):
        print(json.dumps(address) if options.format == "json" else text, flush=True)
        if opens:
            webbrowser.open(opens)
        server.serve_forever()


def _tokens(options: Namespace) -> list[str]:
    """Return the tokens of a file and of a variable: never of an argument, which others see."""
    tokens: list[str] = []
    if options.token_file is not None:
        lines = shared.read_text(options.token_file).splitlines()
        tokens = [line.strip() for line in lines if line.strip()]
        if not tokens:
            raise errors.InvalidInputError(f"{options.token_file}: it has no token")
    if options.token_env is not None:
        token = os.environ.get(options.token_env, "").strip()
        if not token:
            raise errors.InvalidInputError(
                f"the environment variable {options.token_env} is not set, or empty"
            )
        tokens.append(token)
    return tokens


@command(
    option("PATH", dest="paths", nargs="+"),
    option("--query SQL", "the query that the page starts with"),
    option("--color EXPRESSION", "what colours the embedding at the start: a vector, or X['CD8A']"),
    option("--write OVERLAY", "let the page save vectors into a data set on top, made if missing"),
    option("--port", "default: any that is free", type=shared.whole_number, default=0),
    option("--no-browser", "print the address, and open no browser"),
    option("--max-rows N", "rows of a query (default: 1000000)", dest="rows"),
    option("--max-bytes SIZE", "size of one answer (default: 1GiB)", dest="bytes"),
    option("--seconds N", "until the last row is sent (default: 120)"),
    shared.REPORT_FORMAT,
)
def explore_command(options: Namespace) -> None:
    """Explore data sets in the browser, on this machine only: tables, SQL, charts, embeddings.

    Examples
    --------
    daf explore pbmc.h5ad
    daf explore pbmc.h5ad --color phase --query "SELECT * FROM obs WHERE n_genes > 1500"
    daf explore pbmc.daf.zarr liver.daf.zarr.zip --port 8080 --no-browser
    daf explore 'runs/*.daf.zarr' --max-rows 10000 --max-bytes 500MB --seconds 30
    daf explore pbmc.h5ad --write notes.daf.zarr
    """
    for module in ("starlette", "uvicorn"):
        storage_base.optional_import(module, extra="explore")
    if options.write is not None and len(options.paths) > 1:
        raise errors.InvalidInputError(
            f"--write saves vectors of one data set, and there are {len(options.paths)}; name one"
        )
    limits = explore.ExploreLimits(**given(options, "rows", "bytes", "seconds"))
    data = explore.ExploredData(lambda: _connected(options), options.paths, options.write)
    with contextlib.closing(data):
        _check_start(data.session, options)
        with explore.ExploreServer(data, port=options.port, limits=limits) as server:
            start = {"query": options.query, "color": options.color}
            url = server.page_url(**start)
            # In a window, and not in this terminal.
            has_screen = sys.platform == "darwin" or any(map(os.environ.get, _SCREENS))
            opens = server.opening_url(**start) if has_screen and not options.no_browser else ""
            text = f"exploring {', '.join(options.paths)} at {url}\nstop with Ctrl-C"
            _run(options, server, text, opens=opens, url=url)


def _check_start(connected: DafSession, options: Namespace) -> None:
    """Fail if the query is wrong, or the colour is one of no axis."""
    if options.query is not None:
        connected.sql(options.query)
    problem: errors.DafError | None = None
    for _, schema, axis in shared.longest_axes(connected) if options.color is not None else ():
        name = ".".join(map(syntax.quoted_name, (schema, axis)))
        for color in (options.color, syntax.quoted_name(options.color)):
            try:
                connected.sql(f"SELECT {color} FROM {name}")  # noqa: S608 - it is planned only
            except errors.DafError as error:
                problem = problem or error
            else:
                return
    if problem is not None:
        raise errors.InvalidInputError(f"--color: {problem}")


def _connected(options: Namespace) -> DafSession:
    if options.write is not None:
        return session.connect(options.paths[0], overlay=options.write)
    sources: dict[str, Any] = session.named_sources(options.paths)
    return session.connect(sources)


@command(option("[TARGET]", "a folder, or the data set to make in one", default="daf-demo"))
def demo_command(options: Namespace) -> None:
    """Import, query, slice and plot the PBMC data set that scanpy ships.

    Examples
    --------
    daf demo
    daf demo somewhere/else
    daf demo somewhere/pbmc.daf.zarr.zip
    """
    demo.run_demo(Path(options.target), options.main)
