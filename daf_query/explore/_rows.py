"""Rows of an axis that SQL chooses, as positions: those that are lit in the scatter."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from daf_query._runs import Interruptible
from daf_query.explore._chosen import chosen, positions_of
from daf_query.explore._explorer import Explorer
from daf_query.explore._requests import asked_of
from daf_query.explore._responses import BINARY, Head, Part, parts_of


async def rows(explorer: Explorer, request: Request) -> Response:
    """Answer with the positions of rows: uint32, ascending.

    They are those that SQL chooses, or those that an earlier query sent.
    """
    asked = await asked_of(request)
    schema, axis = asked.string("schema"), asked.string("axis")
    query = asked.optional_string("query")
    sql = "" if query is not None else asked.sql()

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        along = explorer.data.rows(schema, axis)
        if query is None:
            positions = chosen(along, sql, interruptible)
        else:
            positions = positions_of(along, explorer.sent_keys.batch_of(query))
        head = Head(BINARY, {"X-Daf-Rows": str(positions.size)})
        yield from parts_of(head, positions.astype("<u4"))

    return explorer.response(produce, sql=sql)
