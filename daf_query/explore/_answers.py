"""Answers to the page, in threads of their own: the catalogue, queries, arrays, files, saving.

SQL sees the selection of the page as the table ``selection``; where an axis, or anything else, has
this name, it is ``selection_2``, and so on.  A download is asked for first and fetched once: a
browser that fetches a file sends no header of the page's, so the address has a ticket.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from starlette.responses import StreamingResponse

from daf_query._formats import ROW_FORMATS
from daf_query._row_files import Rows, save_rows, wire_parts
from daf_query.explore._explorer import Download, Explorer, Selection, axis_rows
from daf_query.explore._http import (
    ARROW,
    Answer,
    Part,
    Question,
    bytes_answer,
    ended,
    refusal,
)
from daf_query.matrix import Positions, each_once
from daf_query.scan import INDEX, NAME, plain_schema
from daf_query.session import (
    candidates,
    coordinates_of,
    shown_strings,
    values_of,
    vector_pairs,
)
from daf_query.slice import AxisRows, MatrixSlice, Selector, positions_in
from daf_query.sql import PLAN_COLUMNS, STRINGS, AxisSchema, Connections, QueryResult, is_number
from daf_query.syntax import quoted_name, quoted_string, unopened_bracket, unquoted_name
from daf_query.table import DATASET, user_table
from daf_storage import DafReader, IfExists, errors
from daf_storage._lazy import pc
from daf_storage.base import one_array
from daf_storage.data import axes_in_order, is_in_place
from daf_storage.display import bins_of, shortened

_DEFAULT_ROWS: Final = 100_000
_MOST_ID: Final = 200
_KEYS: Final = (DATASET, NAME, INDEX)


def overview(explorer: Explorer, _: Question) -> Answer:
    """Answer with the catalogue; data sets that were replaced are opened again."""
    session = explorer.data.opened()
    limits = explorer.limits
    with explorer.lock:
        selection = _current_selection(explorer)
        table = selection.table if selection else _free_name(session._connections)  # noqa: SLF001 - our own
    return {
        "version": explorer.data.version,
        "writable": explorer.data.overlay is not None,
        "overlay": explorer.data.overlay,
        "limits": {"rows": limits.rows, "bytes": limits.bytes, "seconds": limits.seconds},
        "selection": table,
        "data_sets": [data_set(tables) for tables in session._connections.schemas.values()],  # noqa: SLF001 - our own
    }


# Queries, and rows that they choose


def query(explorer: Explorer, question: Question) -> Iterator[Part]:
    """Answer with the messages of an Arrow stream, of no more rows than are asked for.

    Behind the mark of its end is how the query ended, as JSON; see `ended`.
    """
    began = time.monotonic()
    name, sql = question.string("id"), question.sql()
    if not 0 < len(name) <= _MOST_ID:
        raise refusal(400, f"'id' has to be of 1 to {_MOST_ID} characters")
    most = min(question.whole_number("rows", _DEFAULT_ROWS), explorer.limits.rows)
    result = explorer.data.session.sql(sql)
    # Nothing can be built upon EXPLAIN, nor need be on what is answered directly.
    is_whole = result.column_names == PLAN_COLUMNS or result._direct is not None  # noqa: SLF001 - our own
    rows = (result if is_whole else result.limit(most + 1)).rows()
    # Not that of the result: a column that turns out to be unreadable is left out.
    schema = plain_schema(rows.schema)
    yield StreamingResponse((), headers={"X-Daf-Row-Limit": str(most)}, media_type=ARROW)
    yield schema.serialize().to_pybytes()
    none = pa.RecordBatch.from_pylist([], schema)
    keys = [name for name in _KEYS if schema.names.count(name) == 1]
    sent = explorer.remembered(name, none.select(keys))
    left, size, truncated = most, 0, False
    for batch in wire_parts(rows.batches, schema):
        part = batch.slice(0, left)
        message = part.serialize().to_pybytes()
        size += len(message)
        is_large = size > explorer.limits.bytes
        if part.num_rows and not is_large:
            sent.append(part.select(keys))
            yield message
        truncated = is_large or batch.num_rows > left
        left -= part.num_rows
        if truncated:
            break
    if len(sent) == 1:  # the page takes what follows a schema for a batch
        yield none.serialize().to_pybytes()
    yield ended(truncated=truncated, seconds=time.monotonic() - began)


def rows(explorer: Explorer, question: Question) -> Answer:
    """Answer with positions, uint32, ascending: those that SQL or an earlier query chose."""
    along = explorer.data.rows(question.string("schema"), question.string("axis"))
    name = question.optional_string("query")
    if name is None:
        sql = question.sql()
        if not sql.strip():
            raise errors.QueryError("the predicate is empty")
        positions = along.chosen(sql)
    else:
        sent = explorer.sent.get(name)
        if sent is None:
            raise refusal(404, "the rows of this query are not remembered", "run it again")
        keys = pa.Table.from_batches(list(sent))
        if NAME not in keys.column_names:
            raise errors.QueryError(
                f"the rows are none of axis {along.axis!r}: without {NAME!r} nobody can tell"
            )
        # NULL AS "index" says nothing of the entries that have a name.
        present = [n for n in keys.column_names if n == NAME or keys[n].null_count < len(keys)]
        try:
            positions = positions_in(along.whole, keys.select(present).drop_null(), "rows")
        except errors.DafError as error:
            raise errors.QueryError(f"the rows are none of axis {along.axis!r}: {error}") from None
    positions = each_once(positions)
    return bytes_answer(positions.astype("<u4"), positions.size)


# Arrays along an axis, and summaries


def points(explorer: Explorer, question: Question) -> Answer:
    """Answer with the points of an embedding: float32, x and y in turn.

    Both columns of a matrix of one data set are read at once, and not as two columns of SQL.
    """
    along = explorer.data.rows(question.string("schema"), question.string("axis"))
    shape = (along.whole.length, 2)
    explorer.check_bytes(math.prod(shape) * np.dtype(np.float32).itemsize)
    wanted = question.string("embedding")
    readers = along.tables.readers()
    having = [
        quoted_string(name)
        for name, daf in readers.items()
        if any(each == wanted for *_, each in candidates(daf, along.axis))
    ]
    chosen = f"{DATASET} IN ({', '.join(having)})" if 0 < len(having) < len(readers) else None
    found = coordinates_of(along.engine, along.tables, wanted, along.axis, rows=chosen)
    values = np.full(shape, np.nan, np.float32)  # of data sets that have none
    with np.errstate(over="ignore", invalid="ignore"):
        values[found.positions] = found.points
    return bytes_answer(values, along.whole.length)


def colour(explorer: Explorer, question: Question) -> Answer:
    """Answer with what an axis is coloured by: an Arrow stream of one column."""
    sql = question.sql()
    vector = unquoted_name(sql.strip())
    along = explorer.data.rows(question.string("schema"), question.string("axis"))
    if unopened_bracket(sql) is not None:
        raise errors.QueryError(f"a bracket closes none in {sql!r}")
    values = values_of(along, vector if vector in along.vectors else sql)
    batch = _coloured(values, along.colours(vector))
    explorer.check_bytes(batch.nbytes)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes_answer(sink.getvalue(), along.whole.length, ARROW)


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
    field = pa.field("value", values.type, metadata=metadata)
    return pa.RecordBatch.from_arrays([values], schema=pa.schema([field]))


def summary(explorer: Explorer, question: Question) -> Answer:
    """Answer with counts, the range and the top values of a vector."""
    session = explorer.data.session
    along = axis_rows(session, question.string("schema"), question.string("axis"))
    name = quoted_name(question.string("vector"))
    counted = session.sql(
        f"SELECT {name} AS value, count(*) AS n FROM {along.table} GROUP BY {name}"  # noqa: S608 - quoted
    ).to_arrow_table()
    if not pa.types.is_nested(counted.schema.types[0]):  # which have no order
        counted = counted.sort_by("value")
    return summarised(one_array(counted.column("value")), counted.column("n").to_numpy())


_FEW: Final = 50
_MOST_ENTRIES: Final = 1000


def entries(explorer: Explorer, question: Question) -> Answer:
    """Answer with the first entries of an axis that begin with some letters, in any case."""
    limit = question.optional_string("limit") or str(_FEW)
    if not (re.fullmatch("[0-9]{1,4}", limit) and int(limit) <= _MOST_ENTRIES):
        raise errors.InvalidInputError(f"'limit' is a number up to {_MOST_ENTRIES:,}")
    along = axis_rows(explorer.data.session, question.string("schema"), question.string("axis"))
    names, prefix = along.names(), question.optional_string("prefix") or ""
    matching = names.filter(pc.starts_with(names, prefix, ignore_case=True))
    if along.tables.is_collection:
        matching = pc.unique(matching)
    return {"entries": matching.slice(0, int(limit)).to_pylist(), "total": len(matching)}


def profile(explorer: Explorer, question: Question) -> Answer:
    """Answer with the numbers of a dot plot."""
    names = ("rows_axis", "columns_axis", "matrix")
    columns = question.strings("columns")
    made = explorer.data.session.profile(
        *(question.string(name) for name in names),
        by=question.string("by"),
        rows=question.optional_string("rows"),
        columns=columns,
        schema=question.string("schema"),
    )
    groups = zip(*(each.to_pylist() for each in made.content.groups.values()), strict=True)
    return {
        "groups": [
            " | ".join("(missing)" if each is None else str(each) for each in group)
            for group in groups
        ],
        "columns": columns,
        "mean": _without_nan(made.statistic("mean")),
        "fraction": _without_nan(made.statistic("fraction")),
        "sizes": made.content.sizes.tolist(),
    }


def _without_nan(values: Any) -> Any:
    """Return numbers for JSON, which has no NaN."""
    return np.asarray(np.where(np.isfinite(values), values, None)).tolist()


# The selection, and saving


def select(explorer: Explorer, question: Question) -> Answer:
    """Remember positions as the selection."""
    along = explorer.data.rows(question.string("schema"), question.string("axis"))
    positions = _sent_positions(question.body, along)
    columns = {NAME: along.whole.entries_at(positions), **along.whole.keys_of(positions)}
    connections, table = along.engine.connections, user_table(pa.table(columns))
    with explorer.lock:
        before = _current_selection(explorer)
        if before is not None:
            name = before.table
            connections.replace(name, table)
        else:
            _forget(explorer)
            name = _free_name(connections)
            connections.connect(name, table)
        explorer.selection = Selection(
            secrets.token_hex(8), connections, name, along.tables.name, along.axis, positions
        )
    return selected(explorer, question)


def selected(explorer: Explorer, _: Question) -> Answer:
    """Answer with the selection, without its positions."""
    selection = _current_selection(explorer)
    if selection is None:
        return {"id": None, "count": 0}
    shown = {name: getattr(selection, name) for name in ("id", "table", "schema", "axis")}
    return {**shown, "count": int(selection.positions.size)}


def deselect(explorer: Explorer, _: Question) -> Answer:
    """Forget the selection."""
    with explorer.lock:
        _forget(explorer)
    return {"id": None, "count": 0}


def _forget(explorer: Explorer) -> None:
    selection, explorer.selection = explorer.selection, None
    if selection is not None:
        with suppress(errors.NotFoundError):
            selection.connections.disconnect(selection.table)


def _free_name(connections: Connections) -> str:
    """Return the first name for the table of a selection that nothing has."""
    taken = set(connections.names).union(
        *(tables.table_names for tables in connections.schemas.values())
    )
    names = (f"selection_{number}" if number > 1 else "selection" for number in itertools.count(1))
    return next(name for name in names if name not in taken)


def _current_selection(explorer: Explorer) -> Selection | None:
    """Return the selection; None if there is none, or its data set was replaced."""
    selection, connections = explorer.selection, explorer.data.session._connections  # noqa: SLF001 - our own
    is_current = selection is not None and selection.connections is connections
    return selection if is_current else None


def _selection_of(explorer: Explorer, schema: str, axis: str) -> Selection:
    """Return the selection of an axis.

    Raises
    ------
    RequestError
        There is none, or it is of another axis.
    """
    selection = _current_selection(explorer)
    if selection is None:
        raise refusal(409, "nothing is selected", "select entries first")
    if (selection.schema, selection.axis) != (schema, axis):
        raise refusal(
            409,
            f"entries of {selection.schema}.{selection.axis} are selected, and not of "
            f"{schema}.{axis}",
            "select entries of this axis first",
        )
    return selection


def _sent_positions(content: bytes, along: AxisRows) -> Positions:
    """Return the positions that were sent, ascending, each once."""
    if len(content) % 4:
        raise refusal(400, "the request is no list of uint32")
    positions = each_once(np.frombuffer(content, "<u4").astype(np.int64))
    length = along.whole.length
    if positions.size and positions[-1] >= length:
        raise refusal(
            400, f"axis {along.axis!r} has {length:,} entries, and none at {positions[-1]:,}"
        )
    return positions


def save(explorer: Explorer, question: Question) -> Answer:
    """Save a vector: which entries are selected, or an SQL expression."""
    schema, axis, name = (question.string(each) for each in ("schema", "axis", "name"))
    values = question.part("values")
    if_exists: IfExists = "replace" if question.flag("overwrite") else "error"
    if explorer.data.overlay is None:
        raise refusal(
            403, "this explorer only reads", "start daf explore with --write OVERLAY to save"
        )
    sql = values.optional_string("sql")
    if sql is not None:
        explorer.data.session.save_vector(axis, name, sql, schema=schema, if_exists=if_exists)
        return {"name": name}
    if not values.flag("selection"):
        raise refusal(400, "'values' needs 'sql', or 'selection': true")
    along = explorer.data.rows(schema, axis)
    is_selected = np.zeros(along.whole.length, np.bool_)
    is_selected[_selection_of(explorer, along.tables.name, axis).positions] = True
    saved = pa.array(is_selected)
    if values.content.get("true") is not None or values.content.get("false") is not None:
        labels = (pa.scalar(values.string(each)) for each in ("true", "false"))
        saved = pc.if_else(saved, *labels)
    _, daf = explorer.data.session._writable(schema, axis)  # noqa: SLF001 - our own
    daf.set_vector(axis, name, saved, if_exists=if_exists)
    return {"name": name}


# Files to download

_FORMATS: Final = {each.name: each.media_type for each in ROW_FORMATS.values() if each.media_type}
_PART_BYTES: Final = 1 << 20


def estimate(explorer: Explorer, question: Question) -> Answer:
    """Answer with the size of a slice; nothing of its values is read."""
    explanation = _slice(explorer, question).explain()
    return {
        "rows": explanation.rows,
        "columns": explanation.columns,
        "stored": explanation.stored_elements,
        "bytes": explanation.memory_bytes["anndata"],
    }


def extract(explorer: Explorer, question: Question) -> Answer:
    """Answer with the ticket of a slice."""
    part = _slice(explorer, question)
    explorer.check_bytes(part.explain().memory_bytes["anndata"])
    name = f"{question.string('schema')}-{question.string('matrix')}.h5ad"
    return {"ticket": explorer.downloads.add(Download(name, "application/x-hdf5", part.save))}


def _slice(explorer: Explorer, question: Question) -> MatrixSlice:
    """Return the slice that is asked for."""
    names = ("schema", "rows_axis", "columns_axis", "matrix")
    schema, rows_axis, columns_axis, matrix = (question.string(name) for name in names)
    chosen: Selector = question.optional_string("rows")
    session = explorer.data.session
    if question.flag("selection"):
        positions = _selection_of(explorer, schema, rows_axis).positions
        if isinstance(chosen, str):
            matching = explorer.data.rows(schema, rows_axis).chosen(chosen)
            positions = np.intersect1d(positions, matching)
        chosen = positions
    columns = question.optional_string("columns")
    return session.matrix(
        rows_axis, columns_axis, matrix, rows=chosen, columns=columns, schema=schema
    )


def export(explorer: Explorer, question: Question) -> Answer:
    """Answer with the ticket of the rows of a query, which are computed when it is fetched."""
    sql, file_format = question.sql(), question.string("format")
    if file_format not in _FORMATS:
        raise refusal(400, f"there is no format {file_format!r}; there are {', '.join(_FORMATS)}")
    write = partial(_save, explorer, explorer.data.session.sql(sql), file_format)
    download = Download(f"query.{file_format}", str(_FORMATS[file_format]), write)
    return {"ticket": explorer.downloads.add(download)}


def _save(explorer: Explorer, result: QueryResult, file_format: str, path: Path) -> None:
    """Write the rows of a query as they are computed."""
    found = result.rows()

    def batches() -> Iterator[pa.RecordBatch]:
        size = 0
        for batch in found.batches:
            size += batch.nbytes
            explorer.check_bytes(size)
            yield batch

    save_rows(Rows(found.schema, batches()), path, file_format)


def download(explorer: Explorer, question: Question) -> Iterator[Part]:
    """Answer with the file of a ticket, as an attachment."""
    wanted = explorer.downloads.take(question.string("ticket"))
    if wanted is None:
        raise refusal(
            404, "this download was fetched already, or is too old", "ask for it in the page again"
        )
    with TemporaryDirectory(prefix="daf-explore-") as folder:
        path = Path(folder) / f"download{Path(wanted.name).suffix}"
        wanted.write(path)
        name = quote(wanted.name, safe="")  # curl -OJ knows the first form alone
        disposition = f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"
        size = str(path.stat().st_size)
        headers = {"Content-Length": size, "Content-Disposition": disposition}
        yield StreamingResponse((), headers=headers, media_type=wanted.media_type)
        with path.open("rb") as file:
            while part := file.read(_PART_BYTES):
                yield part


# The catalogue, of metadata alone, and values along axes


_BINS: Final = 32
_TOP: Final = 20


def summarised(values: pa.Array, counts: npt.NDArray[Any]) -> dict[str, Any]:
    """Return a summary of a column: of its distinct values, ascending, and their counts.

    NaN counts as missing.

    >>> summarised(pa.array([1.0, float("nan")]), np.array([2, 1]))["top"]
    [['1', 2]]
    """
    is_numeric = is_number(values.type)
    is_there = pc.invert(pc.is_null(values, nan_is_null=True))
    if not is_numeric:
        values = shown_strings(values)
    kept = counts[is_there.to_numpy(zero_copy_only=False)]
    values = values.filter(is_there)
    first = np.argsort(-kept, kind="stable")[:_TOP]
    written = map(_written, values.take(pa.array(first)).to_pylist())
    numbers = values.to_numpy() if is_numeric else np.empty(0)
    finite = numbers[np.isfinite(numbers)]
    bins = bins_of(numbers, kept, parts=_BINS) if is_numeric else ()
    return {
        "count": int(counts.sum()),
        "nulls": int(counts.sum() - kept.sum()),
        "min": finite.min().item() if finite.size else None,
        "max": finite.max().item() if finite.size else None,
        "bins": bins,
        "top": [[value, int(kept[place])] for value, place in zip(written, first, strict=True)],
        "distinct": len(values),
    }


def _written(value: Any) -> str:
    is_whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
    return str(int(value) if is_whole else value)


_MOST_DIMENSIONS: Final = 2000
_FIRST: Final = ("spatial", "umap", "tsne", "draw_graph", "phate", "diffmap", "pca")
"""What people look at first."""


def _rank(name: str) -> int:
    folded = name.casefold()
    return next((rank for rank, each in enumerate(_FIRST) if each in folded), len(_FIRST))


def _of_matrices(members: Sequence[DafReader], axis: str) -> Iterator[str]:
    """Yield the matrices whose other axis has their columns alone."""
    for daf in members:
        for _, other, name in candidates(daf, axis):
            with suppress(errors.DafError):  # of what is damaged
                if _is_own_axis(name, other) and _is_embedding(daf, axis, other, name):
                    yield name


def _is_own_axis(name: str, axis: str) -> bool:
    """Return whether an axis is that of the columns of a matrix, as imports make it.

    >>> _is_own_axis("X_umap", "X_umap"), _is_own_axis("umap", "umap_axis")
    (True, True)
    >>> _is_own_axis("X", "gene")
    False
    """
    stem, folded = name.casefold().removeprefix("x_"), axis.casefold()
    return name == axis or (len(stem) > 1 and stem in folded) or name.startswith("X_")


def _is_embedding(daf: DafReader, axis: str, other: str, name: str) -> bool:
    """Return whether a matrix is of dense numbers, and its other axis of its dimensions."""
    if not 2 <= daf.axis_length(other) <= _MOST_DIMENSIONS or daf.vectors_set(other):
        return False
    info = next(stored.info for stored in daf.open_orientations(axis, other, name))
    return not info.is_sparse and not info.storage_type.is_string


_SHOWN: Final = 200
"""Characters of a scalar that are shown."""


def embeddings_of(tables: AxisSchema, axis: str) -> list[str]:
    """Return the embeddings of an axis, those that people look at first coming first.

    They are matrices, or what the names of two vectors have in common.
    """
    members = list(tables.readers(axis).values())
    fields = _fields(tables, axis)
    numbers = [field.name for field in fields if kind_of(field.type) == "number"]
    names = {*_of_matrices(members, axis), *vector_pairs(numbers)}
    return sorted(names, key=lambda name: (_rank(name), name))


def kind_of(data_type: pa.DataType) -> str:
    """Return what a column is to people.

    >>> [kind_of(each) for each in (pa.int8(), pa.string_view(), pa.timestamp("s"), pa.binary())]
    ['number', 'string', 'date', 'other']
    >>> kind_of(pa.dictionary(pa.int8(), pa.string()))
    'string'
    """
    types = pa.types
    if types.is_dictionary(data_type):
        return kind_of(data_type.value_type)
    tests = {
        "boolean": types.is_boolean,
        "number": is_number,
        "date": types.is_temporal,
        "string": STRINGS.__contains__,
    }
    return next((kind for kind, is_kind in tests.items() if is_kind(data_type)), "other")


def data_set(tables: AxisSchema) -> dict[str, Any]:
    """Return what a data set has, for JSON."""
    members = tables.readers()
    scalars = [] if tables.is_collection else tables.description("scalars").to_table().to_pylist()
    return {
        "schema": tables.name,
        "path": tables.location,
        "form": _form(members, is_collection=tables.is_collection),
        "is_collection": tables.is_collection,
        "axes": [_axis(tables, axis) for axis in _axes(members.values())],
        "matrices": _matrices(members.values()),
        "scalars": {row["name"]: shortened(row["value"], _SHOWN) for row in scalars},
    }


def _form(members: Mapping[str, DafReader], *, is_collection: bool) -> str:
    if is_collection:
        return f"collection of {len(members):,} data sets"
    return "AnnData, read in place" if all(map(is_in_place, members.values())) else "data set"


def _axes(members: Iterable[DafReader]) -> list[str]:
    """Return the axes of all, those of observations and variables first."""
    return list(dict.fromkeys(axis for daf in members for axis in axes_in_order(daf)))


def _fields(tables: AxisSchema, axis: str) -> list[pa.Field]:
    """Return the columns of a table that are vectors."""
    keys = _KEYS if tables.is_collection else _KEYS[1:]
    return [field for field in tables.dataset(axis).schema if field.name not in keys]


def _axis(tables: AxisSchema, axis: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": axis,
        "length": None,
        "vectors": [],
        "embeddings": [],
        "problem": None,
    }
    try:
        described["length"] = tables.axis_length(axis)
        described["vectors"] = [
            {"name": field.name, "type": str(field.type), "kind": kind_of(field.type)}
            for field in _fields(tables, axis)
        ]
        described["embeddings"] = embeddings_of(tables, axis)
    except errors.DafError as error:
        described["problem"] = str(error)
    return described


def _matrices(members: Iterable[DafReader]) -> list[dict[str, Any]]:
    """Return the matrices, each by the axis that comes first; X before others, square ones last."""
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in (found for daf in members for found in daf.summary().as_dict()["matrices"]):
        rows, columns, name = key = each["rows_axis"], each["columns_axis"], each["name"]
        shown = {"name": name, "type": each["type"], "is_sparse": each["sparse"]}
        shown |= {"rows": rows, "columns": columns, "layouts": 1 + each["both_layouts"]}
        stored = math.prod(each["shape"]) if each["nnz"] is None else each["nnz"]
        merged.setdefault(key, {**shown, "stored": 0})["stored"] += stored
    return sorted(
        merged.values(), key=lambda each: (each["rows"] == each["columns"], each["name"] != "X")
    )
