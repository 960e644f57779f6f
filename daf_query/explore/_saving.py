"""Vectors that the page saves into an overlay, if the server was started to do so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from daf_query._runs import Interruptible
from daf_query.explore._explorer import Explorer
from daf_query.explore._failures import refusal
from daf_query.explore._requests import Asked, asked_of
from daf_query.explore._responses import Part, json_parts
from daf_query.explore._selections import selected_positions
from daf_storage import DafWriter, IfExists, errors


async def save(explorer: Explorer, request: Request) -> Response:
    """Save a vector: which entries are selected, or an SQL expression."""
    asked = await asked_of(request)
    schema, axis, name = (asked.string(each) for each in ("schema", "axis", "name"))
    values, replaces = asked.part("values"), asked.flag("overwrite")
    if explorer.data.overlay is None:
        raise refusal(
            403, "this explorer only reads", "start daf explore with --write OVERLAY to save"
        )
    sql = values.optional_string("sql")
    if sql is None and not values.flag("selection"):
        raise refusal(400, "'values' needs 'sql', or 'selection': true")
    if_exists: IfExists = "replace" if replaces else "error"

    def produce(_: Interruptible) -> Iterator[Part]:
        if sql is not None:
            session = explorer.session
            session.save_vector(axis, name, sql, schema=schema, if_exists=if_exists)
        else:
            _save_selection(explorer, schema, axis, name, values, if_exists)
        yield from json_parts({"name": name})

    return explorer.response(produce, sql=sql or "")


def _save_selection(
    explorer: Explorer, schema: str, axis: str, name: str, values: Asked, if_exists: IfExists
) -> None:
    rows = explorer.data.rows(schema, axis)
    positions = selected_positions(explorer, rows.schema, axis)
    daf = rows.session.reader(rows.schema)
    if not isinstance(daf, DafWriter):
        raise errors.ReadOnlyError(f"{daf.location}: it is open for reading")
    is_selected = np.zeros(rows.length, np.bool_)
    is_selected[positions] = True
    inside, outside = values.content.get("true"), values.content.get("false")
    if inside is None and outside is None:
        daf.set_vector(axis, name, is_selected, if_exists=if_exists)
        return
    labels = (values.string("true"), values.string("false"))
    strings = pc.if_else(pa.array(is_selected), *(pa.scalar(label) for label in labels))
    daf.set_vector(axis, name, strings, if_exists=if_exists)
