"""Campaigns of random questions: SQL beside DuckDB, slices beside scipy, in every form."""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_query.index import build_index
from daf_storage.base import StorageType
from tests.torture.samples import STRINGS, Form, create
from tests.torture.tally import WrongAnswerError
from tests.torture.worker import Case

_ROWS = 3_000
_INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
_QUERIES_PER_CASE = 5


def _table(random_numbers: np.random.Generator) -> dict[str, Any]:
    """Return columns of every type, with values that collide often."""
    columns: dict[str, Any] = {}
    for kind in _INTEGERS:
        start = 2**63 if kind == "u8" else 0
        columns[kind] = random_numbers.integers(0, 100, _ROWS).astype(kind) + np.array(start, kind)
    for kind in ("f4", "f8"):
        values = (random_numbers.integers(-8, 9, _ROWS) / 4 + 0.0).astype(kind)
        values[random_numbers.random(_ROWS) < 0.1] = np.nan
        columns[kind] = values
    columns["flag"] = random_numbers.random(_ROWS) < 0.3
    columns["s"] = random_numbers.choice([text for text in STRINGS if text], _ROWS).astype(object)
    columns["id"] = np.array([f"id {i % 997}" for i in range(_ROWS)], dtype=object)
    columns["sorted"] = np.sort(random_numbers.integers(0, 1000, _ROWS))
    columns["group"] = random_numbers.choice(["g0", "g1", "g2", "g9"], _ROWS).astype(object)
    return columns


@cache
def _requested(form: Form, *, with_indexes: bool) -> tuple[DafSession, duckdb.DuckDBPyConnection]:
    """Return a session over a stored table, and DuckDB over the same columns in memory."""
    columns = _table(np.random.default_rng(3))
    folder = Path(tempfile.mkdtemp(prefix="daf-asked-"))
    daf = create(folder, form)
    daf.add_axis("cell", [f"c{i}" for i in range(_ROWS)])
    daf.add_axis("group", ["g0", "g1", "g2", "g3"])
    daf.set_vector("group", "weight", [1.5, math.nan, 3.0, 4.0])
    for name, values in columns.items():
        is_text = values.dtype == object
        daf.set_vector("cell", name, values.tolist() if is_text else values)
    if with_indexes:
        build_index(daf, "cell", ["name", "id", "s", "i8", "f8", "sorted"], progress="never")
    path = daf.location
    daf.close()
    theirs = duckdb.connect()
    names = [f"c{i}" for i in range(_ROWS)]
    arrays = {"name": pa.array(names), "index": pa.array(range(_ROWS))}
    arrays |= {name: pa.array(values, from_pandas=True) for name, values in columns.items()}
    theirs.register("arrow_cell", pa.table(arrays))
    theirs.execute("CREATE TABLE cell AS SELECT * FROM arrow_cell")
    weights = pa.table({"name": ["g0", "g1", "g2", "g3"], "weight": [1.5, None, 3.0, 4.0]})
    theirs.register("arrow_group", weights)
    theirs.execute('CREATE TABLE "group" AS SELECT * FROM arrow_group')
    return connect(path), theirs


def condition(rng: random.Random, depth: int = 2) -> str:
    """Return a random SQL condition, with NULL wherever one may stand."""
    if depth and rng.random() < 0.6:
        inner = [condition(rng, depth - 1) for _ in range(rng.randint(2, 3))]
        joined = f" {rng.choice(['AND', 'OR'])} ".join(f"({one})" for one in inner)
        return f"NOT ({joined})" if rng.random() < 0.2 else joined
    operator = rng.choice(["=", "<>", "<", "<=", ">", ">="])
    column = rng.choice([*_INTEGERS, "f4", "f8", "s", "id", "name", "flag", "sorted", "index"])
    if rng.random() < 0.05:
        return rng.choice(["NULL", "true", "false", "1 = 1", "NULL IS NULL"])
    if column == "flag":
        return rng.choice(["flag", "NOT flag", "flag = true", "flag IS NULL", "flag IS NOT TRUE"])
    values = [_literal(rng, column) for _ in range(rng.randint(1, 6))]
    few = ", ".join(values)
    shapes = [
        f"{column} {operator} {values[0]}",
        f"{column} IN ({few})",
        f"{column} NOT IN ({few})",
        f"{column} BETWEEN {values[0]} AND {values[-1]}",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
    ]
    if column in ("s", "id", "name"):
        shapes += [
            f"{column} LIKE '{rng.choice(['id 5%', 'c1%', '%a%', '_', 'B %', '%', 'é%'])}'",
            f"starts_with({column}, '{rng.choice(['c2', 'id 9', 'a', ''])}')",
            f"length({column}) {operator} {rng.randint(0, 9)}",
        ]
    elif column != "u8":
        shapes += [
            f"CAST({column} AS DOUBLE) {operator} {rng.choice(['2.5', '-1.0', '99.9', '1e18'])}",
            f"{column} + 1 {operator} {rng.randint(0, 99)}",
        ]
    return rng.choice(shapes)


def _literal(rng: random.Random, column: str) -> str:
    if rng.random() < 0.08:
        return "NULL"
    if column in ("s", "id", "name"):
        choices = [*STRINGS, "id 5", "id 996", "c17", "c2999", "nope"]
        return "'" + rng.choice(choices).replace("'", "''") + "'"
    if column in ("f4", "f8"):
        return rng.choice(["0.5", "-0.25", "0.0", "1.25", "-2.0", "0.1"])
    start = 2**63 if column == "u8" else 0
    most = {"sorted": 1000, "index": _ROWS}.get(column, 100)
    return str(start + rng.randint(0, most))


def _qualified(where: str) -> str:
    """Name the table of the columns that both tables have."""
    return re.sub(r"\b(name|index)\b", r"c.\1", where)


def query(rng: random.Random) -> str:
    """Return a random query whose answer has one order."""
    where = condition(rng)
    column = rng.choice([*_INTEGERS[:6], "f4", "f8", "sorted"])
    chains = [" OR ".join(f"f8 = {_literal(rng, 'f8')}" for _ in "ab") for _ in "pq"]
    return rng.choice(
        [
            f"SELECT CASE WHEN {where} THEN 'a' ELSE s END AS g, count(*) AS n FROM cell GROUP BY CASE WHEN {where} THEN 'a' ELSE s END ORDER BY g",
            f"SELECT index FROM (SELECT index, {chains[0]} AS p, {rng.choice([where, chains[1]])} AS q FROM cell) t WHERE NOT (p AND q) ORDER BY index LIMIT 40",
            f"SELECT count(*) AS n, min(x) AS low FROM (SELECT DISTINCT {column} AS x FROM cell WHERE {where} ORDER BY x OFFSET {rng.randint(0, 9)}) t",
            f"SELECT count(*) AS n FROM cell WHERE {where}",
            f"SELECT index, name, s, f8, u8, flag FROM cell WHERE {where} ORDER BY index LIMIT 60",
            f"SELECT s, count(*) AS n, min({column}) AS low, max(index) AS last FROM cell WHERE {where} GROUP BY s ORDER BY s",
            f'SELECT count({column}) AS n, count(DISTINCT id) AS ids, bool_or(flag) AS "any" FROM cell WHERE {where}',
            f"SELECT index, {column} FROM cell WHERE {where} ORDER BY {column} DESC NULLS LAST, index LIMIT 9",
            f'SELECT c.index, g.weight FROM cell c JOIN "group" g ON c."group" = g.name WHERE {_qualified(where)} ORDER BY c.index LIMIT 40',
            f"SELECT DISTINCT s FROM cell WHERE {where} ORDER BY s",
            f"SELECT index FROM cell WHERE id IN (SELECT id FROM cell WHERE {where}) ORDER BY index LIMIT 30",
            f"SELECT index, row_number() OVER (PARTITION BY s ORDER BY index) AS r FROM cell WHERE {where} ORDER BY index LIMIT 30",
            f"SELECT index FROM (SELECT index, {column} AS x, s FROM cell) t WHERE x > 3 OR s = 'a' ORDER BY index LIMIT 20",
        ]
    )


def ask(form: Form, *, with_indexes: bool) -> Callable[[], Case]:
    """Return a campaign of random queries beside DuckDB."""

    def campaign() -> Case:
        session, theirs = _requested(form, with_indexes=with_indexes)

        def case(_folder: Path, rng: random.Random) -> None:
            for _ in range(_QUERIES_PER_CASE):
                text = query(rng)
                found = [tuple(row.values()) for row in session.sql(text).to_pylist()]
                expected = theirs.sql(text).fetchall()
                if str(found) != str(expected):
                    raise WrongAnswerError(f"{text}: {found[:3]} instead of {expected[:3]}")

        return case

    return campaign


# Slices


def slices(form: Form) -> Callable[[], Case]:
    """Return a campaign of random slices of random matrices beside scipy."""

    def campaign() -> Case:
        def case(folder: Path, rng: random.Random) -> None:
            numbers = np.random.default_rng(rng.getrandbits(32))
            shape = (rng.choice((0, 1, 7, 60)), rng.choice((0, 1, 5, 40)))
            kind = rng.choice([kind for kind in StorageType if not kind.is_string])
            values = (numbers.integers(0, 4, shape) * (numbers.random(shape) < 0.4)).astype(
                kind.dtype
            )
            is_sparse = rng.random() < 0.6
            matrix = sp.csc_array(values) if is_sparse else values
            path = _stored_matrix(folder, form, shape, matrix, relayout=rng.random() < 0.5)
            with connect(path) as session:
                for _ in range(6):
                    _check_slice(session, values, rng)

        return case

    return campaign


def _stored_matrix(
    folder: Path, form: Form, shape: tuple[int, int], matrix: Any, *, relayout: bool
) -> str:
    with create(folder, form) as daf:
        daf.add_axis("cell", [f"c{i}" for i in range(shape[0])])
        daf.add_axis("gene", [f"g{i}" for i in range(shape[1])])
        daf.set_matrix("cell", "gene", "m", matrix, relayout=relayout)
        return daf.location


def _check_slice(session: DafSession, values: Any, rng: random.Random) -> None:
    (rows, i), (columns, j) = (
        _selector(length, letter, rng) for length, letter in zip(values.shape, "cg", strict=True)
    )
    is_transposed = rng.random() < 0.4
    if is_transposed:
        part = session.matrix("gene", "cell", "m", rows=columns, columns=rows)
        expected = values[i][:, j].T
    else:
        part = session.matrix("cell", "gene", "m", rows=rows, columns=columns)
        expected = values[i][:, j]
    forms = {
        "numpy": part.to_numpy(),
        "scipy": part.to_scipy().toarray(),
        "pandas": part.to_pandas().to_numpy(),
    }
    for name, found in forms.items():
        if found.shape != expected.shape or not np.array_equal(found, expected):
            raise WrongAnswerError(f"{name} of {rows!r} x {columns!r}, turned: {is_transposed}")


def _selector(length: int, letter: str, rng: random.Random) -> tuple[Any, list[int]]:
    """Return a selector and the positions that it means."""
    every = list(range(length))
    match rng.randrange(6):
        case 0:
            return None, every
        case 1:
            limit = rng.randint(0, length)
            return f"index < {limit}", every[:limit]
        case 2:
            mask = np.array([rng.random() < 0.5 for _ in every], dtype=bool)
            return mask, np.flatnonzero(mask).tolist()
        case 3 if length:
            picked = [rng.randrange(length) for _ in range(rng.randint(0, 8))]
            return picked, picked
        case 4 if length:
            picked = sorted({rng.randrange(length) for _ in range(5)})
            return [f"{letter}{p}" for p in picked], picked
        case _:
            start, stop = sorted((rng.randint(0, length), rng.randint(0, length)))
            return slice(start, stop), every[start:stop]
