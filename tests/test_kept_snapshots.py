"""Tests of what a session remembers between queries: it is never used once something changed."""

from __future__ import annotations

import os
import random
import shutil
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import DafWriter, Packing, errors, open_daf
from tests.support import data_set

N: Final = 60
STABLE_SECONDS: Final = 0.12

QUERIES: Final = (
    "SELECT name, age FROM cell WHERE age > 20 AND donor = 'a'",
    "SELECT count(*) FROM cell WHERE NOT (age BETWEEN 5 AND 30 OR donor IN ('b', 'c'))",
    "SELECT * FROM cell WHERE age < 8",
    "SELECT donor, count(*) AS n, sum(age) AS s FROM cell GROUP BY donor ORDER BY donor",
    "SELECT name FROM cell WHERE extra > 3",
)
ROWS: Final = ("age > 20 AND donor = 'a'", "extra > 3", "name LIKE 'c1%'", [3, 7])


def numbers(rng: random.Random) -> Any:
    """Return values of a vector, in one of several types."""
    values = np.array([rng.randrange(60) for _ in range(N)])
    return values.astype(rng.choice(["i1", "i4", "i8", "f4", "f8"]))


def strings(rng: random.Random) -> list[str]:
    """Return values of a vector of strings."""
    return [rng.choice("abc") for _ in range(N)]


def matrix(rng: random.Random) -> Any:
    """Return a matrix, sparse or dense."""
    values = sp.random(N, 6, 0.4, format="csc", random_state=rng.randrange(1000))
    return values if rng.random() < 0.7 else values.toarray()


def fill(path: Path, rng: random.Random, *, is_packed: bool) -> Path:
    """Make a data set."""
    packed: Any = {"zarr_format": 3, "packed": Packing(chunk_kb=1)} if is_packed else {}
    with open_daf(path, "w", **packed) as daf:
        data_set(daf, cell={"name": N, "age": numbers(rng), "donor": strings(rng)}, gene=6)
        daf.set_matrix("cell", "gene", "X", matrix(rng))
    return path


def answers(session: DafSession) -> list[Any]:
    """Return what a session says: rows, values, and the sentences of errors."""

    def rows_of(query: str) -> Any:
        return session.sql(query).to_pydict()

    def part_of(rows: Any) -> Any:
        part = session.matrix("cell", "gene", "X", rows=rows)
        return part.row_positions.tolist(), part.to_numpy().tolist()

    found: list[Any] = []
    for work in (*(partial(rows_of, q) for q in QUERIES), *(partial(part_of, r) for r in ROWS)):
        try:
            found.append(work())
        except errors.DafError as error:
            found.append((type(error), str(error)))
    return [repr(each) for each in found]  # NaN equals itself


def written(path: Path, write: Callable[[DafWriter], None]) -> None:
    """Change a data set through a writer of its own."""
    with open_daf(path, "r+") as daf:
        write(daf)


def rewritten_in_place(path: Path, rng: random.Random) -> None:
    """Put other bytes into a file of numbers, of the same size, and its times back."""
    files = [path / "vectors/cell/age/0", path / "vectors/cell/extra/0"]
    file = rng.choice([each for each in files if each.exists()] or [None])
    if file is None:
        return
    before = file.stat()
    data = file.read_bytes()
    with file.open("r+b") as opened:
        opened.write(bytes(reversed(data)))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def relabelled_in_place(path: Path) -> None:
    """Rewrite a document: other signs for the same bytes."""
    document = path / "vectors/cell/age/.zarray"
    if document.exists():
        data = document.read_bytes()
        with document.open("r+b") as opened:
            opened.write(
                data.replace(b'"<i', b'"<u') if b'"<i' in data else data.replace(b'"<u', b'"<i')
            )


def replaced_as_a_whole(path: Path, rng: random.Random, *, is_packed: bool) -> None:
    """Put another data set in its place."""
    aside = path.with_name("aside.daf.zarr")
    fill(aside, rng, is_packed=is_packed)
    path.rename(path.with_name("old.daf.zarr"))
    aside.rename(path)
    shutil.rmtree(path.with_name("old.daf.zarr"))


def changed(path: Path, rng: random.Random, *, is_packed: bool) -> str:
    """Change something; return what."""
    replace: Any = {"if_exists": "replace"}
    by_writers: dict[str, Callable[[DafWriter], None]] = {
        "replace numbers": lambda daf: daf.set_vector("cell", "age", numbers(rng), **replace),
        "replace strings": lambda daf: daf.set_vector("cell", "donor", strings(rng), **replace),
        "add or replace": lambda daf: daf.set_vector("cell", "extra", numbers(rng), **replace),
        "delete": lambda daf: daf.delete_vector("cell", "extra", must_exist=False),
        "replace matrix": lambda daf: daf.set_matrix("cell", "gene", "X", matrix(rng), **replace),
        "other layout": lambda daf: daf.relayout_matrix("cell", "gene", "X", **replace),
    }
    changes: dict[str, Callable[[], None]] = {
        **{name: partial(written, path, write) for name, write in by_writers.items()},
        "rewrite": lambda: rewritten_in_place(path, rng),
        "relabel": lambda: relabelled_in_place(path),
        "replace all": lambda: replaced_as_a_whole(path, rng, is_packed=is_packed),
        "wait": lambda: time.sleep(STABLE_SECONDS),
    }
    name = rng.choice(sorted(changes))
    changes[name]()
    return name


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_open_session_says_what_a_new_one_says(
    tmp_path: Path, seed: int, *, is_packed: bool
) -> None:
    """Whatever was rewritten, replaced, added or deleted since its last query."""
    rng = random.Random(seed)
    path = fill(tmp_path / "x.daf.zarr", rng, is_packed=is_packed)
    session = connect(path)
    history = []
    with warnings.catch_warnings(action="ignore"):
        for _ in range(8):
            history.append(changed(path, rng, is_packed=is_packed))
            with connect(path) as fresh:
                assert answers(session) == answers(fresh), history
            time.sleep(rng.choice([0, 0, STABLE_SECONDS]))
    session.close()
