"""Campaign of random questions to a collection, beside DuckDB over the same rows.

The members are of different forms, AnnData among them, and have partly different columns, types and
genes.  The questions are of the tables, the long form, gene columns and profiles, with values
within the text or as parameters.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anndata
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import scipy.sparse as sp

from daf_query import DafSession, connect
from daf_storage import copy_all, from_anndata
from tests.random_conditions import Conditions
from tests.torture.samples import FORMS, Form, create
from tests.torture.tally import WrongAnswerError

_QUERIES_PER_CASE: Final = 8
_GENES: Final = [f"g{i}" for i in range(7)]
_STRINGS: Final = ["a", "B cell", "é", "it's", "x" * 40]
_FORMS: Final[tuple[Form | None, ...]] = (None, *FORMS)
"""None is an AnnData as it is."""
_DAYS: Final = [dt.datetime.fromisoformat(f"2024-0{month}-01") for month in (1, 2, 3)]
_NUMBERS: Final = ("n", "i", "f")

Rows = list[dict[str, Any]]


def _numbers(rng: random.Random, size: int) -> Any:
    """Return whole numbers of a random type, or fractions, in a column that all may have."""
    kind = rng.choice(["i1", "u1", "i2", "i4", "i8", "u4", "f4", "f8"])
    values = np.array([rng.randint(0, 60) for _ in range(size)], kind)
    if kind.startswith("f"):
        values = values / np.array(4, kind)
        values[np.array([rng.random() < 0.15 for _ in range(size)], bool)] = np.nan
    return values


def _column(rng: random.Random, name: str, size: int) -> Any:
    def some(choices: Sequence[Any], missing: float = 0.2) -> list[Any]:
        return [None if rng.random() < missing else rng.choice(choices) for _ in range(size)]

    match name:
        case "n":
            return _numbers(rng, size)
        case "f":
            return np.array([rng.randint(-8, 8) / 4 for _ in range(size)], rng.choice(["f4", "f8"]))
        case "s":
            return np.array(some(_STRINGS, 0), dtype=object)
        case "b":
            return np.array(some([True, False], 0), dtype=bool)
        case "c":
            return pd.Categorical(some(["x", "y", "z"]), categories=["x", "y", "z"])
        case "i":
            return pd.array(some(range(9)), dtype=rng.choice(["Int8", "UInt16", "Int64"]))
        case "q":
            return pd.array(some([True, False]), dtype="boolean")
    return pd.to_datetime(pd.Series(some(_DAYS)), utc=False).to_numpy("M8[ns]")


def _matrix(rng: random.Random, shape: tuple[int, int]) -> Any:
    kind = rng.choice(["u1", "i4", "f4", "f8"])
    values = np.zeros(shape, kind)
    for place in np.ndindex(shape):
        if rng.random() < 0.4:
            values[place] = rng.randint(0, 5)
            if kind.startswith("f") and rng.random() < 0.1:
                values[place] = np.nan
    return rng.choice([np.asarray, sp.csr_array, sp.csc_array])(values)


def _member(rng: random.Random, folder: Path, name: str) -> tuple[str, anndata.AnnData]:
    """Store a member in a random form, and return where, and what is in it."""
    size = rng.choice([0, 1, 5, 40, 70])
    genes = rng.sample(_GENES, rng.randint(1, len(_GENES)))
    has = [column for column in "nfsbciqd" if rng.random() < 0.75]
    obs = pd.DataFrame(
        index=pd.Index([f"{rng.choice('uv')}{i}" for i in range(size)], dtype=object)
    )
    for column in has:
        obs[column] = _column(rng, column, size)
    var = pd.DataFrame({"mark": [rng.random() < 0.5 for _ in genes]}, index=genes)
    adata = anndata.AnnData(_matrix(rng, (size, len(genes))), obs=obs, var=var)
    form = rng.choice(_FORMS)
    if form is None:
        adata.obs = adata.obs.drop(columns=["d"], errors="ignore")  # which anndata does not write
        adata.write_h5ad(folder / f"{name}.h5ad")
        return str(folder / f"{name}.h5ad"), adata
    (folder / name).mkdir()
    with create(folder / name, form) as daf:
        copy_all(from_anndata(adata), daf, progress="never")
        place = Path(daf.location)
    return str(place.rename(folder / place.name.replace("x", name, 1))), adata


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _tables(members: Mapping[str, anndata.AnnData]) -> dict[str, Rows]:
    """Return the rows of the tables, one by one."""
    tables: dict[str, Rows] = {"obs": [], "var": [], "elements": [], "every": []}
    for name, adata in members.items():
        values = adata.X.toarray() if sp.issparse(adata.X) else adata.X
        stored = np.ones(adata.shape, bool)
        if sp.issparse(adata.X):
            entries = adata.X.tocoo()
            stored[:] = False
            stored[entries.row, entries.col] = True
        for i, cell in enumerate(adata.obs_names):
            row = {"dataset": name, "name": cell, "index": i}
            row |= {c: _plain(adata.obs[c].iloc[i]) for c in adata.obs.columns}
            row |= {f"X_{g}": _plain(values[i, j]) for j, g in enumerate(adata.var_names)}
            tables["obs"].append(row)
            for gene in _GENES:
                value, is_there = None, gene in adata.var_names
                if is_there:
                    j = list(adata.var_names).index(gene)
                    value = _plain(values[i, j])
                    if stored[i, j]:
                        tables["elements"].append(
                            {"dataset": name, "obs": cell, "var": gene, "value": value}
                        )
                tables["every"].append({**row, "gene": gene, "value": value})
        for j, gene in enumerate(adata.var_names):
            row = {
                "dataset": name,
                "name": gene,
                "index": j,
                "mark": bool(adata.var["mark"].iloc[j]),
            }
            tables["var"].append(row)
    return tables


_GENE_COLUMNS: Final = [f"X_{gene}" for gene in _GENES]
_TYPES: Final[dict[str, pa.DataType]] = {
    **dict.fromkeys(["dataset", "name", "obs", "var", "gene", "s", "c"], pa.string()),
    **dict.fromkeys(["index", "i"], pa.int64()),
    **dict.fromkeys(["n", "f", "value", *_GENE_COLUMNS], pa.float64()),
    **dict.fromkeys(["b", "q", "mark"], pa.bool_()),
    "d": pa.timestamp("us"),
}
_OF_OBS: Final = ["dataset", "name", "index", *"nfsbciqd", *_GENE_COLUMNS]
_FIELDS: Final = {
    "obs": _OF_OBS,
    "var": ["dataset", "name", "index", "mark"],
    "elements": ["dataset", "obs", "var", "value"],
    "every": [*_OF_OBS, "gene", "value"],
}


def _theirs(tables: Mapping[str, Rows]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, rows in tables.items():
        schema = pa.schema([(field, _TYPES[field]) for field in _FIELDS[name]])
        connection.register("arriving", pa.Table.from_pylist(rows, schema))
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arriving")
        connection.unregister("arriving")
    return connection


class _Writing(Conditions):
    """A question in the words of both engines: values are parameters in ours, or literals."""

    def __init__(self, rng: random.Random, obs: pa.Table, genes: Sequence[str]) -> None:
        super().__init__(obs, rng.getrandbits(32))
        self.rng = rng
        self.genes = genes
        self.columns = [c for c in obs.column_names if len(c) == 1]
        self.with_params = rng.random() < 0.5
        self.params: dict[str, Any] = {}

    def value(self, value: Any) -> str:
        """Return a value for the text of both: of the other engine it is made a literal later."""
        if not self.with_params:
            return super().value(value)
        name = f"p{len(self.params)}"
        self.params[name] = value
        return f"${name}"

    def values(self, values: Sequence[Any]) -> str:
        """Return values after IN, in one parameter or in several."""
        is_whole = self.with_params and self.rng.random() < 0.6
        return self.value(list(values)) if is_whole else super().values(values)

    def question(self) -> tuple[str, str]:
        """Return a question in the words of ours and of theirs, with placeholders."""
        rng, where = self.rng, self.of_columns()
        number = rng.choice([c for c in self.columns if c in _NUMBERS] or ["index"])
        group = rng.choice(
            [c for c in self.columns if c in ("s", "b", "c", "q", "d", "i", "n")] or ["name"]
        )
        shown = ", ".join(rng.sample(self.columns, min(3, len(self.columns)))) or "1"
        gene = rng.choice(self.genes)
        alike = rng.choice(
            [
                f"SELECT count(*) AS n FROM obs WHERE {where}",
                f"SELECT dataset, index, name, {shown} FROM obs WHERE {where} ORDER BY dataset, index LIMIT 50",
                f"SELECT {group}, count(*) AS v1, min({number}) AS v2, sum({number}) AS v3, max(index) AS v4 FROM obs WHERE {where} GROUP BY {group} ORDER BY {group} NULLS LAST",
                f"SELECT dataset, {group}, count(*) AS v1, avg({number}) AS v2, count({number}) AS v3 FROM obs WHERE {where} GROUP BY dataset, {group} ORDER BY dataset, {group} NULLS LAST",
                f"SELECT dataset, index, {number} FROM obs WHERE {where} ORDER BY {number} DESC NULLS LAST, dataset, index LIMIT 9",
                f"SELECT DISTINCT {group} FROM obs WHERE {where} ORDER BY {group} NULLS FIRST",
                f"SELECT dataset, index, X['{gene}'] AS x FROM obs WHERE {where} ORDER BY dataset, index LIMIT 40",
                f"SELECT {group}, sum(X['{gene}']) AS v1, count(X['{gene}']) AS v2, min(X['{gene}']) AS v3 FROM obs WHERE {where} GROUP BY {group} ORDER BY {group} NULLS LAST",
                f"SELECT count(DISTINCT {group}) AS v1, count(DISTINCT name) AS v2, bool_or(index > 3) AS v3 FROM obs WHERE {where}",
                f"SELECT dataset, name FROM obs WHERE name IN (SELECT name FROM obs WHERE {where}) ORDER BY dataset, name LIMIT 30",
                f"SELECT dataset, name, mark FROM var WHERE {rng.choice(['mark', 'NOT mark', 'index < 3'])} ORDER BY dataset, name",
                "SELECT a.name, count(*) AS n FROM obs a JOIN obs b ON a.name = b.name AND a.dataset <> b.dataset GROUP BY a.name ORDER BY a.name LIMIT 20",
                f"SELECT dataset, index, row_number() OVER (PARTITION BY {group} ORDER BY dataset, index) AS r FROM obs WHERE {where} ORDER BY dataset, index LIMIT 30",
                f"SELECT dataset, index FROM (SELECT dataset, index, {number} AS y FROM obs WHERE {where}) t WHERE y > 3 OR y IS NULL ORDER BY dataset, index LIMIT 25",
                f"SELECT obs.dataset, obs.name, m.var, m.value FROM {{long}} AS m JOIN obs ON m.obs = obs.name AND m.dataset = obs.dataset WHERE m.value > {self.value(1)} ORDER BY 1, 2, 3 LIMIT 30",
                f"SELECT var, count(*) AS n, sum(value) AS t, count(value) AS k FROM {{long}} WHERE {self._of_elements()} GROUP BY var ORDER BY var",
                f"SELECT dataset, obs, var, value FROM {{long}} WHERE {self._of_elements()} AND {self._of_elements()} ORDER BY dataset, obs, var LIMIT 60",
                f"SELECT dataset, count(*) AS n, max(value) AS t FROM {{long}} WHERE {self._of_elements()} OR {self._of_elements()} GROUP BY dataset ORDER BY dataset",
            ]
        )
        if rng.random() < 0.2 and group != "d":
            return self._profile(group)
        if rng.random() < 0.15:
            return self._chosen()
        return alike, alike.replace("{long}", "elements")

    def _of_elements(self) -> str:
        rng = self.rng
        return rng.choice(
            [
                f"var = {self.value(rng.choice(_GENES))}",
                f"var IN ({self.value(rng.choice(_GENES))}, {self.value(rng.choice(_GENES))})",
                f"obs LIKE {self.value(rng.choice(['u%', 'v1%', '%']))}",
                f"dataset {rng.choice(['=', '<>'])} {self.value(rng.choice(['m0', 'm1', 'nope']))}",
                f"value > {self.value(rng.randint(-1, 4))}",
                "value IS NULL",
                f"value = {self.value(rng.choice([0, 1, 2.5]))}",
                f"obs < {self.value(rng.choice(['u3', 'v11', 'u30']))}",
                "value <> 0 AND var <> 'g1'",
            ]
        )

    def _chosen(self) -> tuple[str, str]:
        """Return a question of a long form with predicates: constants, so without parameters."""
        self.with_params, self.params = False, {}
        rows = self.of_columns(depth=1)
        genes = self.rng.choice(["mark", "NOT mark", "index < 2", "name > 'g3'"])
        quoted = [one.replace("'", "''") for one in (rows, genes)]
        select = "SELECT dataset, obs, var, value FROM"
        end = "ORDER BY dataset, obs, var LIMIT 80"
        ours = f"{select} matrix('obs', 'var', 'X', '{quoted[0]}', '{quoted[1]}') {end}"
        some = f"(dataset, obs) IN (SELECT dataset, name FROM obs WHERE {rows}) AND var IN (SELECT name FROM var WHERE {genes})"
        return ours, f"{select} elements WHERE {some} {end}"

    def _profile(self, group: str) -> tuple[str, str]:
        self.with_params, self.params = False, {}
        where = self.of_columns(depth=1)
        quoted = where.replace("'", "''")
        values = "count(*), count(*) - count(value), count(*) FILTER (value <> 0), sum(value), avg(value), min(value), max(value)"
        genes = "gene IN (SELECT name FROM var)"
        theirs = f"SELECT {group}, gene, {values} FROM every WHERE ({where}) AND {genes} GROUP BY {group}, gene ORDER BY {group} NULLS LAST, gene"
        ours = f"SELECT {group}, var, count, missing, nonzero, CASE WHEN missing = count THEN NULL ELSE sum END, mean, min, max FROM profile('obs', 'var', 'X', '{group}', '{quoted}') ORDER BY {group} NULLS LAST, var"
        return ours, theirs


def _comparable(value: Any) -> Any:
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, float | int) and not isinstance(value, bool):
        return round(float(value), 4) + 0.0
    return value


def ask_many(folder: Path, rng: random.Random) -> None:
    """Ask random queries of several data sets, beside DuckDB."""
    warnings.simplefilter("ignore")
    names = [f"m{i}" for i in range(rng.randint(2, 5))]
    stored = {name: _member(rng, folder, name) for name in names}
    members = {name: adata for name, (_, adata) in stored.items()}
    tables = _tables(members)
    theirs = _theirs(tables)
    genes = sorted({gene for a in members.values() for gene in a.var_names})
    columns = {c: c for c in ("dataset", "name", "index")}
    columns |= {c: c for a in members.values() for c in a.obs.columns}
    columns |= {f"X_{gene}": f"X['{gene}']" for gene in genes}
    obs = theirs.table("obs").arrow().read_all().select([*columns]).rename_columns(columns)
    with connect([path for path, _ in stored.values()]) as session:
        for _ in range(_QUERIES_PER_CASE):
            _ask(session, theirs, _Writing(rng, obs, genes))


def _ask(session: DafSession, theirs: duckdb.DuckDBPyConnection, writing: _Writing) -> None:
    ours, other = writing.question()
    ours = ours.replace("{long}", "matrix('obs', 'var', 'X')")
    used = set(re.findall(r"\$(\w+)", ours))
    writing.with_params = False
    other = re.sub(
        r"\$(\w+)",
        lambda match: (
            writing.values(value)
            if isinstance(value := writing.params[match[1]], list)
            else writing.value(value)
        ),
        re.sub(r"X\['(\w+)'\]", r"X_\1", other),
    )
    params = {name: value for name, value in writing.params.items() if name in used}
    expected = theirs.sql(other).fetchall()
    rows = session.sql(ours, params=params or None).to_arrow_table().to_pydict()
    found = list(zip(*rows.values(), strict=True))
    both = [[tuple(map(_comparable, row)) for row in rows] for rows in (found, expected)]
    if both[0] != both[1]:
        pairs = enumerate(itertools.zip_longest(*both))
        place, (one, other_one) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        raise WrongAnswerError(f"{ours} {params}: row {place}: {one} instead of {other_one}")
