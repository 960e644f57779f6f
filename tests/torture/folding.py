"""A campaign of queries whose constants make large values, against servers that others ask, too."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from pyarrow import flight

from daf_query import connect
from daf_query.explore import ExploreLimits, ExploreServer
from daf_query.flight_sql import FlightSqlLimits, FlightSqlServer
from daf_storage import MemoryDaf
from tests.flight_messages import packed
from tests.torture.tally import ChildHangError, WrongAnswerError

Ask = Callable[[str], None]
"""Asks a server; raises for an answer that is neither rows nor a refusal."""

_SECONDS = 8.0
"""The limit of time of a query."""
_PATIENCE_SECONDS = 10.0
"""How long an answer to others may take, on a busy machine."""
_COUNTS = ("0", "-5", "7", "1000", "100000", "10000000", "300000000", "2000000000", "1000 * 1000000",
           "9000000000000000000", "n * 100000000", "(SELECT 2000000000)", "CAST('2000000000' AS INT)")  # fmt: skip
_STRINGS = ("repeat({s}, {n})", "lpad({s}, {n})", "rpad({s}, {n}, {s})", "{s} || {s}",
            "replace({s}, 'x', {s})", "regexp_replace({s}, 'x', {s}, 'g')")  # fmt: skip
_ARRAYS = ("array_repeat({n}, {n})", "array_repeat({a}, {n})", "array_resize({a}, {n}, 0)",
           "generate_series(1, {n})", "range({n})", "array_concat({a}, {a})")  # fmt: skip
_QUERIES = (
    "SELECT {s} AS v FROM cell",
    "SELECT length({s}) AS v",
    "SELECT n FROM cell WHERE {s} = 'x'",
    "SELECT levenshtein({s}, {s}) AS v",
    "SELECT array_length({a}) AS v",
    "SELECT count(*) AS v FROM (SELECT unnest({a}) AS each FROM cell)",
    "SELECT string_agg({s}, ',') AS v FROM cell AS a, cell AS b",
    "SELECT a.name, {s} AS v FROM cell AS a ORDER BY {s} LIMIT 1",
)
_OTHER = "SELECT count(*) AS n FROM cell WHERE n > 0"


def _string(rng: random.Random, depth: int) -> str:
    if not depth or rng.random() < 0.2:
        return rng.choice(("'x'", "name", "'xyz'", "NULL"))
    parts = {"s": _string(rng, depth - 1), "n": rng.choice(_COUNTS)}
    return rng.choice(_STRINGS).format(**parts)


def _array(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(("[1]", "[n, 2, 3]"))
    parts = {"a": _array(rng, depth - 1), "n": rng.choice(_COUNTS)}
    return rng.choice(_ARRAYS).format(**parts)


def large_query(rng: random.Random) -> str:
    """Return a query whose values may be large."""
    depth = rng.choice((1, 1, 2, 3))
    return rng.choice(_QUERIES).format(s=_string(rng, depth), a=_array(rng, depth))


def _session() -> Any:
    daf = MemoryDaf(name="small")
    daf.add_axis("cell", [f"c{number}" for number in range(50)], vectors={"n": range(1, 51)})
    return connect({"small": daf})


@cache
def _explorer() -> Ask:
    server = ExploreServer(_session(), limits=ExploreLimits(seconds=_SECONDS))
    server.__enter__()  # for as long as the worker lives

    def ask(query: str) -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        url = f"http://127.0.0.1:{server.port}/api/query"
        name = f"{threading.get_ident()} {time.monotonic()}"
        answer = httpx.post(url, json={"id": name, "sql": query}, headers=headers, timeout=60)
        if answer.status_code not in (200, 400, 404, 413):  # 404: a column without FROM
            raise WrongAnswerError(f"{query}: {answer.status_code} {answer.text[:200]}")

    return ask


@cache
def _flight() -> Ask:
    limits = FlightSqlLimits(max_seconds=_SECONDS, max_memory_bytes=256 << 20)
    server = FlightSqlServer(_session(), limits=limits)
    server.__enter__()  # for as long as the worker lives

    def ask(query: str) -> None:
        command = packed("CommandStatementQuery", query=query)
        try:
            with flight.connect(server.uri) as client:
                found = client.get_flight_info(flight.FlightDescriptor.for_command(command))
                client.do_get(found.endpoints[0].ticket).read_all()
        except flight.FlightInternalError as error:
            raise WrongAnswerError(f"{query}: {error}") from error
        except (pa.ArrowException, flight.FlightError):  # refused, or too large
            pass

    return ask


_SERVERS = {"explorer": _explorer, "flight": _flight}


def fold(kind: str, _folder: Path, rng: random.Random) -> None:
    """Send large constants to a server, of which others ask little things."""
    ask = _SERVERS[kind]()
    query = large_query(rng)
    has_ended = threading.Event()
    waits = [0.0]

    def ask_others() -> None:
        while not has_ended.is_set():
            started = time.monotonic()
            ask(_OTHER)
            waits.append(time.monotonic() - started)
            has_ended.wait(0.05)

    others = threading.Thread(target=ask_others)
    others.start()
    started = time.monotonic()
    try:
        ask(query)
    finally:
        taken = time.monotonic() - started
        has_ended.set()
        others.join()
    if max(waits) > _PATIENCE_SECONDS:
        raise ChildHangError(f"others waited {max(waits):.1f} s for: {query}")
    if taken > _SECONDS + _PATIENCE_SECONDS:
        raise ChildHangError(f"{taken:.1f} s with a limit of {_SECONDS:g} s: {query}")
