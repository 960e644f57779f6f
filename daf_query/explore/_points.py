"""Points of the scatter, and their colours: arrays along an axis, in its order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from daf_query.explore._catalogue import Embedding, axis_embeddings, embedding_of
from daf_query.explore._data import AxisRows
from daf_query.explore._explorer import Explorer
from daf_query.explore._http import ARROW, BINARY, Asked, Head, Part, asked_of, parts_of, refusal
from daf_query.explore._summaries import VALUE, points_of, values_of
from daf_query.session import NotedCategories
from daf_query.syntax import quoted_name

_ROWS: Any = "X-Daf-Rows"
_POINT_BYTES = 8


async def points(explorer: Explorer, request: Request) -> Response:
    """Answer with the points of an embedding: float32, x and y in turn."""
    asked = await asked_of(request)
    schema, axis, name = (asked.string(each) for each in ("schema", "axis", "embedding"))

    def produce() -> Iterator[Part]:
        rows = explorer.data.rows(schema, axis)
        explorer.check_bytes(rows.length * _POINT_BYTES)
        embedding = embedding_of(axis_embeddings(rows.session, schema, axis), axis, name)
        values = embedded(rows, embedding)
        yield from parts_of(Head(BINARY, {_ROWS: str(rows.length)}), values)

    return explorer.response(produce)


def embedded(rows: AxisRows, embedding: Embedding) -> npt.NDArray[np.float32]:
    """Return the points of an embedding, of shape ``(entries, 2)`` in C order.

    Both columns of a matrix of one data set are read at once, and not as two columns of SQL.
    """
    if embedding.matrix is None or rows.is_collection:
        return points_of(rows, embedding.x, embedding.y)
    other, name = embedding.matrix
    chosen = rows.session.matrix(rows.axis, other, name, columns=[0, 1], schema=rows.schema)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(chosen.to_numpy(), np.float32)


async def colour(explorer: Explorer, request: Request) -> Response:
    """Answer with what an axis is coloured by: an Arrow stream of one column."""
    asked = await asked_of(request)
    schema, axis = asked.string("schema"), asked.string("axis")
    by = asked.part("by")
    written = _written(by)
    vector = by.optional_string("vector") or by.optional_string("sql")

    def produce() -> Iterator[Part]:
        rows = explorer.data.rows(schema, axis)
        noted = rows.noted_categories(vector) if vector else NotedCategories()
        order = noted.order
        values = values_of(rows, written, dtype=np.float64, order=order)
        batch = _coloured(values, noted.colours)
        explorer.check_bytes(batch.nbytes)
        head = Head(ARROW, {_ROWS: str(rows.length)})
        yield from parts_of(head, _stream(batch))

    return explorer.response(produce, sql=asked.part("by").optional_string("sql") or "")


def _written(by: Asked) -> str:
    """Return the SQL of what is coloured by."""
    if by.content.get("vector") is not None:
        return quoted_name(by.string("vector"))
    if by.content.get("sql") is not None:
        return by.sql()
    if by.content.get("gene") is None:
        raise refusal(400, "'by' needs one of 'vector', 'sql' and 'gene'")
    gene = by.part("gene")
    matrix, columns, name = (gene.string(each) for each in ("matrix", "columns", "name"))
    entry = name.replace("'", "''")
    return f"{quoted_name(f'{columns}.{matrix}')}['{entry}']"


def _coloured(values: pa.Array, noted: Mapping[str, str] | None) -> pa.RecordBatch:
    """Return one column; of numbers in float32.

    Metadata of the field have the exact range of numbers, or the colours of categories, in their
    order, as far as an import noted them.
    """
    metadata = {}
    if pa.types.is_dictionary(values.type):
        if noted:
            colours = [noted.get(category) for category in values.dictionary.to_pylist()]
            metadata = {"colours": json.dumps(colours)}
    else:
        numbers = values.to_numpy(zero_copy_only=False)
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            metadata = {"low": repr(float(finite.min())), "high": repr(float(finite.max()))}
        with np.errstate(over="ignore"):
            values = pa.array(numbers.astype(np.float32))
    field = pa.field(VALUE, values.type, metadata=metadata)
    return pa.RecordBatch.from_arrays([values], schema=pa.schema([field]))


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()
