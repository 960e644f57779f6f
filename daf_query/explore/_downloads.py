"""Downloads: slices as h5ad, rows of a query as Parquet or CSV.  Asked for first, fetched once.

A browser that fetches a file sends no header of the page's, so the address has a ticket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, cast
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from daf_query._row_files import Rows, save_rows
from daf_query._runs import Interruptible
from daf_query.explore._chosen import chosen
from daf_query.explore._explorer import Download, Explorer
from daf_query.explore._failures import refusal
from daf_query.explore._requests import Asked, asked_of
from daf_query.explore._responses import Head, Part, RunResponse, json_parts
from daf_query.explore._selections import selected_positions
from daf_query.slice import MatrixSlice, Selector
from daf_query.sql import QueryResult, interruptible_rows

_FORMATS: Final = {"parquet": "application/vnd.apache.parquet", "csv": "text/csv"}
_H5AD: Final = "application/x-hdf5"
_UNSAFE: Final = re.compile(r"[^\w.\- ]+")
_PART_BYTES: Final = 1 << 20


async def estimate(explorer: Explorer, request: Request) -> Response:
    """Answer with the size of a slice; nothing of its values is read."""
    asked = await asked_of(request)

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        explanation = _slice(explorer, asked, interruptible).explain()
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

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        part = _slice(explorer, asked, interruptible)
        explorer.check_bytes(part.explain().memory_bytes["anndata"])

        def write(path: Path, _: Interruptible) -> None:
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

    def produce(_: Interruptible) -> Iterator[Part]:
        held = None if query is None else explorer.held_rows.find(query, sql)
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

    def produce(interruptible: Interruptible) -> Iterator[Part]:
        with TemporaryDirectory(prefix="daf-explore-") as folder:
            path = Path(folder) / f"download{Path(asked.name).suffix}"
            asked.write(path, interruptible)
            yield Head(asked.media_type, _headers(asked.name, path.stat().st_size))
            with path.open("rb") as file:
                while part := file.read(_PART_BYTES):
                    yield part

    return RunResponse(lambda is_gone: explorer.exports.start(produce, is_abandoned=is_gone))


def _headers(name: str, size: int) -> dict[str, str]:
    plain = _UNSAFE.sub("_", name).encode("ascii", "replace").decode().replace("?", "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Length": str(size), "Content-Disposition": disposition}


def _slice(explorer: Explorer, asked: Asked, interruptible: Interruptible) -> MatrixSlice:
    """Return the slice that is asked for."""
    names = ("schema", "rows_axis", "columns_axis", "matrix")
    schema, rows_axis, columns_axis, matrix = (asked.string(name) for name in names)
    session = explorer.session
    rows: Selector = asked.optional_string("rows")
    if asked.flag("selection"):
        positions = selected_positions(explorer, schema, rows_axis)
        if isinstance(rows, str):
            matching = chosen(explorer.data.rows(schema, rows_axis), rows, interruptible)
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
    interruptible: Interruptible,
) -> None:
    """Write rows, or those of a query as they are computed."""
    rows = source if isinstance(source, Rows) else interruptible_rows(source, interruptible)

    def batches() -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in rows.batches:
            size += batch.nbytes
            explorer.check_bytes(size)
            yield batch

    chosen_format = cast("Literal['parquet', 'csv']", file_format)
    save_rows(Rows(rows.schema, batches()), path, chosen_format)
