"""A campaign of names that look alike, or end in NUL, in queries and slices of every form."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from daf_query import connect
from daf_query.index import build_index
from tests.torture.samples import Form, create
from tests.torture.tally import WrongAnswerError

_STEMS = (
    "a",
    "A",
    "\u0430",
    "\u00e9",
    "e\u0301",
    "\u212b",
    "\u00e5",
    "ab",
    "x" * 300,
    "\U0001f9ec",
)
_AFFIXES = ("", "\0", "\0\0", " ", "\u200b", "\u00a0", "'", '"', "%", "_", "\\", "\n", "\0b")

_LISTS: tuple[Callable[[list[str]], Any], ...] = (
    list,
    tuple,
    iter,
    pa.array,
    pd.Series,
    pd.Index,
    pl.Series,
    lambda names: np.array(names, object),
    lambda names: pd.DataFrame({"name": names}),
    lambda names: pa.array(names).dictionary_encode(),
)


def _names(rng: random.Random) -> list[str]:
    """Return different names; of a stem with several affixes, often."""
    stems = rng.sample(_STEMS, 3)
    made = {stem + affix for stem in stems for affix in rng.sample(_AFFIXES, 6)}
    made |= {affix + stems[0] for affix in rng.sample(_AFFIXES, 3)}
    names = sorted(made)
    rng.shuffle(names)
    return names


def look_alike(form: Form, folder: Path, rng: random.Random) -> None:
    """Ask for names that look alike, stored in one form."""
    names = _names(rng)
    if "hdf5" in form:  # whose strings end at the first NUL
        names = sorted({name.replace("\0", "\u2400") for name in names})
    if form == "files":  # which has a string a line
        names = sorted({name.replace("\n", "\t") for name in names})
    daf = create(folder, form)
    daf.add_axis("cell", names, vectors={"label": names, "place": range(len(names))})
    daf.add_axis("gene", names)
    daf.set_matrix("cell", "gene", "X", np.arange(len(names) ** 2).reshape(len(names), -1))
    if rng.random() < 0.5 and "files" not in form:
        build_index(daf, "cell", ["name", "label"], progress="never")
    _compare(connect(daf), names, rng)
    daf.close()


def _compare(session: Any, names: list[str], rng: random.Random) -> None:
    """Look for some names in every way that there is; each is itself alone."""
    for name in rng.sample(names, 4):
        places = [names.index(each) for each in (name, rng.choice(names))]
        requested = [names[place] for place in places]
        for make in _LISTS:
            part = session.matrix("cell", "gene", "X", rows=make(requested), columns=make([name]))
            _check(part.to_numpy()[:, 0].tolist(), [len(names) * p + places[0] for p in places])
        written = "'" + name.replace("'", "''") + "'"
        for column in ("name", "label", "concat(label, '')"):
            for condition in (f"{column} = {written}", f"{column} IN ({written}, 'nope')"):
                query = f"SELECT place FROM cell WHERE {condition}"
                _check(session.sql(query).to_pydict()["place"], places[:1])
            for condition, value in ((f"{column} = $x", name), (f"{column} IN $x", requested)):
                query = f"SELECT place FROM cell WHERE {condition} ORDER BY place"
                found = session.sql(query, params={"x": value}).to_pydict()["place"]
                _check(found, places[:1] if value is name else sorted(set(places)))
        query = (
            "SELECT value FROM matrix('cell', 'gene', 'X') AS m WHERE m.gene = $x AND m.cell = $x"
        )
        found = session.sql(query, params={"x": name}).to_pydict()["value"]
        _check(found, [len(names) * places[0] + places[0]])
    grouped = session.sql("SELECT label, count(*) AS n FROM cell GROUP BY label").to_pydict()
    _check(sorted(grouped["label"]), sorted(names))
    joined = session.sql("SELECT count(*) AS n FROM cell JOIN gene ON cell.label = gene.name")
    _check(joined.to_pydict()["n"], [len(names)])


def _check(found: list[Any], expected: list[Any]) -> None:
    if found != expected:
        raise WrongAnswerError(f"{found!r:.100} instead of {expected!r:.100}")
