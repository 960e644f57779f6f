"""Queries of the page: their rows, those of tables, and what they select to download.

A download is asked for first and fetched once: a browser that fetches a file sends no header of the
page's, so the address has a ticket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from daf_query._formats import ROW_FORMATS
from daf_query._row_files import Format, Rows, save_rows
from daf_query._wire import joined, wire_parts, wire_schema
from daf_query.explore._data import AxisRows, Positions
from daf_query.explore._explorer import Download, Explorer
from daf_query.explore._http import (
    ARROW,
    BINARY,
    Asked,
    Head,
    Part,
    RequestError,
    RunResponse,
    asked_of,
    json_parts,
    parts_of,
    refusal,
)
from daf_query.explore._selections import selected_positions
from daf_query.scan import INDEX, NAME
from daf_query.slice import MatrixSlice, Selector
from daf_query.sql import QueryResult
from daf_query.syntax import is_select, quoted_name
from daf_storage import errors


def chosen(rows: AxisRows, sql: str) -> Positions:
    """Return the positions that SQL chooses, ascending, each once.

    Parameters
    ----------
    sql
        A predicate, also in Python's spellings, or a SELECT that yields ``name`` or ``index``.

    Raises
    ------
    QueryError
        It is wrong, or its rows are not of this axis.
    """
    if not sql.strip():
        raise errors.QueryError("the predicate is empty")
    if not is_select(sql):
        return np.unique(rows.positions(rows.chosen(sql)))
    result = rows.session.sql(sql)
    wanted = _wanted(rows, result.column_names)
    return positions_of(rows, result.select(*map(quoted_name, wanted)).to_arrow_table())


def positions_of(rows: AxisRows, table: pa.Table) -> Positions:
    """Return the positions of rows by their keys, ascending, each once.

    An outer join lacks some keys.  Where name and index are there, they agree.

    Raises
    ------
    QueryError
        They are not of this axis.
    """
    wanted = _wanted(rows, table.column_names)
    table = table.select(wanted).drop_null()
    names = table.column(NAME).cast(pa.large_string()) if NAME in wanted else None
    if INDEX not in wanted:
        return np.unique(_named(rows, names))
    if not pa.types.is_integer(table.column(INDEX).type):
        raise _of_another_axis(rows, f"{INDEX} is {table.column(INDEX).type}")
    positions = rows.positions(table)
    if positions.size and not 0 <= positions.min() <= positions.max() < rows.length:
        raise _of_another_axis(rows, f"{INDEX} goes beyond the {rows.length:,} entries")
    if names is not None and not rows.names(positions).equals(names):
        raise _of_another_axis(rows, f"{NAME} and {INDEX} are of another axis")
    return np.unique(positions)


def _wanted(rows: AxisRows, names: Sequence[str]) -> list[str]:
    """Return the columns that say which rows they are."""
    has_index, has_name = set(rows.keys) <= set(names), NAME in names
    if not has_index and (rows.is_collection or not has_name):
        has = errors.known_names(names, none="none")
        raise errors.QueryError(
            f"the rows are none of axis {rows.axis!r}: a query has to yield "
            f"{' and '.join(rows.keys)}{'' if rows.is_collection else f' or {NAME}'}, and this "
            f"yields {has}"
        )
    return [*(rows.keys if has_index else []), *([NAME] if has_name else [])]


def _named(rows: AxisRows, names: Any) -> Positions:
    """Return the positions of entries."""
    positions: Positions = rows.readers[0].axis_indices(
        rows.axis, names, allow_missing=True, allow_empty=True
    )
    is_missing = positions < 0
    if is_missing.any():
        missing = names.filter(pa.array(is_missing))[0].as_py()
        raise _of_another_axis(rows, f"axis {rows.axis!r} has no entry {missing!r}")
    return positions


def _of_another_axis(rows: AxisRows, why: str) -> errors.QueryError:
    return errors.QueryError(f"the rows are none of axis {rows.axis!r}: {why}")


async def rows(explorer: Explorer, request: Request) -> Response:
    """Answer with the positions of rows: uint32, ascending.

    They are those that SQL chooses, or those that an earlier query sent.
    """
    asked = await asked_of(request)
    schema, axis = asked.string("schema"), asked.string("axis")
    query = asked.optional_string("query")
    sql = "" if query is not None else asked.sql()

    def produce() -> Iterator[Part]:
        along = explorer.data.rows(schema, axis)
        if query is None:
            positions = chosen(along, sql)
        else:
            keys = explorer.queries.keys(query)
            if NAME not in keys.column_names:
                raise errors.QueryError(
                    f"the rows are none of axis {axis!r}: without {NAME!r} nobody can tell"
                )
            positions = positions_of(along, keys)
        head = Head(BINARY, {"X-Daf-Rows": str(positions.size)})
        yield from parts_of(head, positions.astype("<u4"))

    return explorer.response(produce, sql=sql)


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

    def produce() -> Iterator[Part]:
        yield from _rows(explorer, sql, name, most)

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


def _rows(explorer: Explorer, sql: str, name: str, most: int) -> Iterator[Part]:
    """Yield the messages of an Arrow stream, of no more rows than are asked for."""
    result = limited(explorer.session.sql(sql), most + 1)
    rows = result.rows()
    # Not that of the result: a column that turns out to be unreadable is left out.
    schema = wire_schema(rows.schema)
    yield Head(ARROW, {"X-Daf-Row-Limit": str(most)})
    yield schema.serialize().to_pybytes()

    queries = explorer.queries
    count = size = 0
    for batch in joined(wire_parts(queries.holding(name, sql, rows), schema)):
        left = most - count
        message = batch.slice(0, left).serialize().to_pybytes() if left else b""
        size += len(message)
        is_large = size > explorer.limits.bytes
        if not is_large and message:
            count += min(left, batch.num_rows)
            yield message
        truncated = is_large or batch.num_rows > left
        queries.sent(name, count, truncated=truncated)
        if truncated:
            break
    else:
        queries.complete(name)
    yield _END


def limited(result: QueryResult, count: int) -> QueryResult:
    """Return the first rows of a result; all of EXPLAIN, upon which nothing can be built.

    So it is with a mere scan: its rows come in the order of the axis, and only as they are taken.
    """
    is_whole = result.column_names == _PLAN or result._direct is not None  # noqa: SLF001 - our own
    return result if is_whole else result.limit(count)


_FORMATS: Final = {e.name: e.media_type for e in ROW_FORMATS.values() if e.media_type}
_H5AD: Final = "application/x-hdf5"
_UNSAFE: Final = re.compile(r"[^\w.\- ]+")
_PART_BYTES: Final = 1 << 20


async def estimate(explorer: Explorer, request: Request) -> Response:
    """Answer with the size of a slice; nothing of its values is read."""
    asked = await asked_of(request)

    def produce() -> Iterator[Part]:
        explanation = _slice(explorer, asked).explain()
        yield from json_parts(
            {
                "rows": explanation.rows,
                "columns": explanation.columns,
                "stored": explanation.stored_elements,
                "bytes": explanation.memory_bytes["anndata"],
            }
        )

    return explorer.response(produce, sql=asked.optional_string("rows") or "")


async def extract(explorer: Explorer, request: Request) -> Response:
    """Answer with the ticket of a slice."""
    asked = await asked_of(request)

    def produce() -> Iterator[Part]:
        part = _slice(explorer, asked)
        explorer.check_bytes(part.explain().memory_bytes["anndata"])

        def write(path: Path) -> None:
            part.save(path)

        name = f"{asked.string('schema')}-{asked.string('matrix')}.h5ad"
        ticket = explorer.downloads.add(Download(name, _H5AD, write))
        yield from json_parts({"ticket": ticket})

    return explorer.response(produce, sql=asked.optional_string("rows") or "")


async def export(explorer: Explorer, request: Request) -> Response:
    """Answer with the ticket of the rows of a query: those that it sent, if they are all held."""
    asked = await asked_of(request)
    sql, file_format = asked.sql(), asked.string("format")
    query = asked.optional_string("query")
    if file_format not in _FORMATS:
        raise refusal(400, f"there is no format {file_format!r}; there are {', '.join(_FORMATS)}")

    def produce() -> Iterator[Part]:
        held = None if query is None else explorer.queries.rows(query, sql)
        source = explorer.session.sql(sql) if held is None else held
        write = partial(_save, explorer, source, file_format)
        download = Download(f"query.{file_format}", _FORMATS[file_format], write)
        yield from json_parts({"ticket": explorer.downloads.add(download)})

    return explorer.response(produce, sql=sql)


async def download(explorer: Explorer, request: Request) -> Response:
    """Answer with the file of a ticket, as an attachment."""
    if request.method != "GET":
        raise refusal(405, "a download is fetched, once")
    asked = explorer.downloads.take(request.path_params["ticket"])
    if asked is None:
        raise refusal(
            404, "this download was fetched already, or is too old", "ask for it in the page again"
        )

    def produce() -> Iterator[Part]:
        with TemporaryDirectory(prefix="daf-explore-") as folder:
            path = Path(folder) / f"download{Path(asked.name).suffix}"
            asked.write(path)
            yield Head(asked.media_type, _headers(asked.name, path.stat().st_size))
            with path.open("rb") as file:
                while part := file.read(_PART_BYTES):
                    yield part

    return RunResponse(lambda is_gone: explorer.exports.start(produce, is_abandoned=is_gone))


def _headers(name: str, size: int) -> dict[str, str]:
    plain = _UNSAFE.sub("_", name).encode("ascii", "replace").decode().replace("?", "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Length": str(size), "Content-Disposition": disposition}


def _slice(explorer: Explorer, asked: Asked) -> MatrixSlice:
    """Return the slice that is asked for."""
    names = ("schema", "rows_axis", "columns_axis", "matrix")
    schema, rows_axis, columns_axis, matrix = (asked.string(name) for name in names)
    session = explorer.session
    rows: Selector = asked.optional_string("rows")
    if asked.flag("selection"):
        positions = selected_positions(explorer, schema, rows_axis)
        if isinstance(rows, str):
            matching = chosen(explorer.data.rows(schema, rows_axis), rows)
            positions = np.intersect1d(positions, matching, assume_unique=True)
        rows = positions
    columns = asked.optional_string("columns")
    return session.matrix(
        rows_axis, columns_axis, matrix, rows=rows, columns=columns, schema=schema
    )


def _save(
    explorer: Explorer,
    source: QueryResult | Rows,
    file_format: str,
    path: Path,
) -> None:
    """Write rows, or those of a query as they are computed."""
    rows = source if isinstance(source, Rows) else source.rows()

    def batches() -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in rows.batches:
            size += batch.nbytes
            explorer.check_bytes(size)
            yield batch

    save_rows(Rows(rows.schema, batches()), path, cast("Format", file_format))
