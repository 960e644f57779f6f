"""The command `serve`: over HTTP, or as tables over Flight SQL."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from daf_query.flight_sql import FlightSqlLimits, FlightSqlServer, is_loopback
from daf_query.session import connect, named_sources
from daf_storage import DafServer, errors

_HTTP_PORT: Final = 8000
_FLIGHT_SQL_PORT: Final = 31337
_OF_HTTP: Final = ("host_name", "allow_origin")
_OF_FLIGHT_SQL: Final = ("token_file", "token_env", "allow_anyone", "tls_cert", "tls_key")
_LIMITS: Final = tuple(field.name for field in fields(FlightSqlLimits))


class ClearTextWarning(errors.DafWarning):
    """Tokens travel over a network without encryption."""


def serve_command(options: argparse.Namespace) -> None:
    """Serve until interrupted."""
    if options.flight_sql:
        _refuse(options, _OF_HTTP, "for HTTP, and not for --flight-sql")
        _serve_flight_sql(options)
        return
    _refuse(options, (*_OF_FLIGHT_SQL, *_LIMITS), "for --flight-sql, and not for HTTP")
    if len(options.paths) > 1:
        raise errors.InvalidInputError(
            f"over HTTP one data set is served, not {len(options.paths)}; --flight-sql serves "
            "several as schemas of SQL"
        )
    _serve_http(options)


def _refuse(options: argparse.Namespace, names: Sequence[str], why: str) -> None:
    for name in names:
        if getattr(options, name) not in (None, [], False):
            raise errors.InvalidInputError(f"--{name.replace('_', '-')} is {why}")


def _serve_http(options: argparse.Namespace) -> None:
    (path,) = options.paths
    with DafServer(
        path,
        port=_HTTP_PORT if options.port is None else options.port,
        host=options.host,
        host_names=options.host_name,
        allow_origin=options.allow_origin,
    ) as server:
        _announce(options, {"url": server.url}, path, server.url)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def _serve_flight_sql(options: argparse.Namespace) -> None:
    tokens = _tokens(options)
    given = {name: getattr(options, name) for name in _LIMITS}
    limits = FlightSqlLimits(**{name: value for name, value in given.items() if value is not None})
    sources = named_sources(options.paths)
    with (
        connect(sources) as session,
        FlightSqlServer(
            session,
            host=options.host,
            port=_FLIGHT_SQL_PORT if options.port is None else options.port,
            tokens=tokens,
            tls=_tls(options),
            limits=limits,
            allow_anyone=options.allow_anyone,
        ) as server,
    ):
        if tokens and options.tls_cert is None and not is_loopback(options.host):
            warnings.warn(
                ClearTextWarning(
                    "tokens and rows are sent in clear: give --tls-cert and --tls-key"
                ),
                stacklevel=2,
            )
        address = {
            "uri": server.uri,
            "schemas": list(sources),
            "needs_token": bool(tokens),
            "tls": options.tls_cert is not None,
        }
        _announce(options, address, ", ".join(sources), server.uri)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def _announce(
    options: argparse.Namespace, address: dict[str, Any], served: str, where: str
) -> None:
    """Print where the server is, in one line."""
    if options.format == "json":
        print(json.dumps(address), flush=True)
    else:
        print(f"serving {served} at {where}; stop with Ctrl-C", flush=True)


def _tokens(options: argparse.Namespace) -> list[str]:
    """Return the tokens of a file and of a variable: never of an argument, which others see."""
    tokens: list[str] = []
    if options.token_file is not None:
        try:
            lines = Path(options.token_file).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise errors.from_os_error(error, options.token_file) from None
        except UnicodeDecodeError:
            raise errors.InvalidInputError(f"{options.token_file}: it is not text") from None
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


def _tls(options: argparse.Namespace) -> tuple[str, str] | None:
    if options.tls_cert is None and options.tls_key is None:
        return None
    if options.tls_cert is None or options.tls_key is None:
        raise errors.InvalidInputError("--tls-cert and --tls-key belong together; give both")
    return options.tls_cert, options.tls_key
