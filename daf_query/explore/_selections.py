"""Selections of the page: positions along an axis, which SQL sees as the table ``selection``.

Where an axis, or anything else, has this name, it is ``selection_2``, and so on.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from daf_query._runs import Interruptible
from daf_query.explore._axis_rows import AxisRows, Positions
from daf_query.explore._explorer import Explorer, Selection
from daf_query.explore._failures import refusal
from daf_query.explore._requests import address_part, body_of
from daf_query.explore._responses import Part, json_parts
from daf_query.scan import INDEX, NAME
from daf_query.session import DafSession
from daf_query.table import DATASET
from daf_storage import errors

_TABLE: Final = "selection"
_ID_BYTES: Final = 8
_POSITION_BYTES: Final = 4


async def select(explorer: Explorer, request: Request) -> Response:
    """Remember positions as the selection."""
    schema, axis = (address_part(request, name) for name in ("schema", "axis"))
    rows = explorer.data.rows(schema, axis)
    content = await body_of(request, max_bytes=rows.length * _POSITION_BYTES)

    def produce(_: Interruptible) -> Iterator[Part]:
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
    if rows.joined is not None:
        owners, within = rows.joined.split(positions)
        names = pa.array(rows.joined.names, pa.string())
        columns |= {INDEX: pa.array(within), DATASET: names.take(pa.array(owners))}
    return pa.table(columns)
