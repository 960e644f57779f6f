"""Selections of entries on the page, and saving them as vectors.

SQL sees a selection as the table ``selection``; where an axis, or anything else, has this name, it
is ``selection_2``, and so on.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from daf_query.explore._data import AxisRows, Positions
from daf_query.explore._explorer import Explorer, Selection
from daf_query.explore._http import (
    Asked,
    Part,
    address_part,
    asked_of,
    body_of,
    json_parts,
    refusal,
)
from daf_query.scan import INDEX, NAME
from daf_query.session import DafSession
from daf_query.table import DATASET
from daf_storage import DafWriter, IfExists, errors

_TABLE: Final = "selection"
_ID_BYTES: Final = 8
_POSITION_BYTES: Final = 4


async def select(explorer: Explorer, request: Request) -> Response:
    """Remember positions as the selection."""
    schema, axis = (address_part(request, name) for name in ("schema", "axis"))
    rows = explorer.data.rows(schema, axis)
    content = await body_of(request, max_bytes=rows.length * _POSITION_BYTES)

    def produce() -> Iterator[Part]:
        positions = _positions(content, rows)
        table = _table(rows, positions)
        with explorer.lock:
            _forget(explorer)
            name = _free_name(rows.session)
            rows.session.register(table, name)
            explorer.selection = selection = Selection(
                secrets.token_hex(_ID_BYTES), rows.session, name, rows.schema, axis, positions
            )
        count = int(positions.size)
        yield from json_parts({"id": selection.id, "count": count, "table": selection.table})

    return explorer.response(produce)


async def selected(explorer: Explorer, request: Request) -> Response:  # noqa: ARG001 - as routes are called
    """Answer with the selection, without its positions."""
    selection = current_selection(explorer)
    if selection is None:
        return JSONResponse({"id": None, "count": 0})
    return JSONResponse(
        {
            "id": selection.id,
            "count": int(selection.positions.size),
            "table": selection.table,
            "schema": selection.schema,
            "axis": selection.axis,
        }
    )


async def deselect(explorer: Explorer, request: Request) -> Response:  # noqa: ARG001 - as routes are called
    """Forget the selection."""
    with explorer.lock:
        _forget(explorer)
    return JSONResponse({"id": None, "count": 0})


def selection_table(explorer: Explorer, session: DafSession) -> str:
    """Return the name of the table of the selection, also where nothing is selected."""
    with explorer.lock:
        selection = explorer.selection
        is_current = selection is not None and selection.session is session
        return selection.table if selection is not None and is_current else _free_name(session)


def _free_name(session: DafSession) -> str:
    """Return the first name that no table, and nothing else, has."""
    connections = session._connections  # noqa: SLF001 - our own
    taken = set(connections.names).union(
        *(tables.table_names for tables in connections.schemas.values())
    )
    others = (f"{_TABLE}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([_TABLE], others) if name not in taken)


def current_selection(explorer: Explorer) -> Selection | None:
    """Return the selection; None if there is none, or its data set was replaced."""
    selection = explorer.selection
    return None if selection is None or selection.session is not explorer.session else selection


def selected_positions(explorer: Explorer, schema: str, axis: str) -> Positions:
    """Return the positions of the selection.

    Raises
    ------
    RequestError
        There is none, or it is of another axis.
    """
    selection = current_selection(explorer)
    if selection is None:
        raise refusal(409, "nothing is selected", "select entries first")
    if (selection.schema, selection.axis) != (schema, axis):
        raise refusal(
            409,
            f"entries of {selection.schema}.{selection.axis} are selected, and not of "
            f"{schema}.{axis}",
            "select entries of this axis first",
        )
    return selection.positions


def _forget(explorer: Explorer) -> None:
    selection, explorer.selection = explorer.selection, None
    if selection is not None:
        with suppress(errors.NotFoundError):
            selection.session.unregister(selection.table)


def _positions(content: bytes, rows: AxisRows) -> Positions:
    """Return the positions that were sent, ascending, each once."""
    if len(content) % _POSITION_BYTES:
        raise refusal(400, "the request is no list of uint32")
    positions = np.unique(np.frombuffer(content, "<u4")).astype(np.int64)
    if positions.size and positions[-1] >= rows.length:
        raise refusal(
            400, f"axis {rows.axis!r} has {rows.length:,} entries, and none at {positions[-1]:,}"
        )
    return positions


def _table(rows: AxisRows, positions: Positions) -> pa.Table:
    """Return the selected rows: their names and positions."""
    columns = {NAME: rows.names(positions).cast(pa.string()), INDEX: pa.array(positions)}
    if rows.is_collection:
        owners, within = rows.whole.split(positions)
        names = pa.array(rows.whole.names, pa.string())
        columns |= {INDEX: pa.array(within), DATASET: names.take(pa.array(owners))}
    return pa.table(columns)


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

    def produce() -> Iterator[Part]:
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
