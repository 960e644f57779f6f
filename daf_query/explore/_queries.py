"""SQL of the page: its rows, as an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from daf_query._runs import Interruptible
from daf_query._wire import joined, wire_parts, wire_schema
from daf_query.explore._explorer import Explorer
from daf_query.explore._failures import RequestError, refusal
from daf_query.explore._requests import asked_of
from daf_query.explore._responses import ARROW, Head, Part, RunResponse
from daf_query.sql import QueryResult, interruptible_rows

_MOST_ID: Final = 200
_PLAN: Final = ["plan_type", "plan"]
_DEFAULT_ROWS: Final = 100_000
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The mark at the end of an Arrow stream."""


async def query(explorer: Explorer, request: Request) -> Response:
    """Answer with the rows of a query."""
    asked = await asked_of(request)
    sql, name = asked.sql(), asked.string("id")
    if not 0 < len(name) <= _MOST_ID:
        raise refusal(400, f"'id' has to be of 1 to {_MOST_ID} characters")
    most = min(asked.whole_number("rows", _DEFAULT_ROWS), explorer.limits.rows)
    queries = explorer.queries
    queries.begin(name)

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        yield from _rows(explorer, sql, name, most, interruptible)

    return RunResponse(
        lambda is_gone: explorer.runs.start(
            produce, query_id=name.encode("utf-8", "replace"), is_abandoned=is_gone
        ),
        sql=sql,
        on_end=lambda error: queries.end(name, error, sql),
    )


async def query_state(explorer: Explorer, request: Request) -> Response:
    """Answer with what became of a query."""
    return JSONResponse(asdict(explorer.queries.find(request.path_params["id"])))


async def cancel(explorer: Explorer, request: Request) -> Response:
    """End a query; one that has not arrived will not begin."""
    name = request.path_params["id"]
    explorer.runs.cancel(name.encode("utf-8", "replace"))
    try:
        return JSONResponse(asdict(explorer.queries.find(name)))
    except RequestError:  # the page cancels what it may not even have sent
        return Response(status_code=204)


def _rows(
    explorer: Explorer, sql: str, name: str, most: int, interruptible: Interruptible
) -> Iterator[Part]:
    """Yield the messages of an Arrow stream, of no more rows than are asked for."""
    result = limited(explorer.session.sql(sql), most + 1)
    rows = interruptible_rows(result, interruptible)
    # Not that of the result: a column that turns out to be unreadable is left out.
    schema = wire_schema(rows.schema)
    yield Head(ARROW, {"X-Daf-Row-Limit": str(most)})
    yield schema.serialize().to_pybytes()

    count = size = 0
    explorer.sent_keys.begin(name, schema)
    for batch in joined(wire_parts(explorer.held_rows.holding(name, sql, rows), schema)):
        left = most - count
        message = batch.slice(0, left).serialize().to_pybytes() if left else b""
        size += len(message)
        is_large = size > explorer.limits.bytes
        if not is_large and message:
            count += min(left, batch.num_rows)
            explorer.sent_keys.add(name, batch.slice(0, left))
            yield message
        truncated = is_large or batch.num_rows > left
        explorer.queries.sent(name, count, truncated=truncated)
        if truncated:
            break
    else:
        explorer.held_rows.complete(name)
    yield _END


def limited(result: QueryResult, count: int) -> QueryResult:
    """Return the first rows of a result; all of EXPLAIN, upon which nothing can be built.

    So it is with a mere scan: its rows come in the order of the axis, and only as they are taken.
    """
    is_whole = result.column_names == _PLAN or result._is_direct()  # noqa: SLF001 - our own
    return result if is_whole else result.limit(count)
