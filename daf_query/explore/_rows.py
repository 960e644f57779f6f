"""Rows of an axis that SQL chooses, as positions: those that are lit in the scatter."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from daf_query._runs import Interruptible
from daf_query.explore._chosen import chosen
from daf_query.explore._explorer import Explorer
from daf_query.explore._requests import asked_of
from daf_query.explore._responses import BINARY, Head, Part, parts_of


async def rows(explorer: Explorer, request: Request) -> Response:
    """Answer with the positions of rows: uint32, ascending."""
    asked = await asked_of(request)
    schema, axis, sql = asked.string("schema"), asked.string("axis"), asked.sql()

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        positions = chosen(explorer.data.rows(schema, axis), sql, interruptible)
        head = Head(BINARY, {"X-Daf-Rows": str(positions.size)})
        yield from parts_of(head, positions.astype("<u4"))

    return explorer.response(produce, sql=sql)
