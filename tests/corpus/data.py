"""The data of the corpus: small AnnData, each made of features that one version of anndata may lack.

A *feature* is a function that adds something to an AnnData.  Those that a version of anndata cannot
write are left out of its files, and listed.  This runs under Python 3.7 and pandas 1.0, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

CELLS, GENES = 12, 7
BLOCK_CELLS, BLOCK_GENES = 700, 40


class Kind:
    """An AnnData of the corpus: how it begins, and the features that are added."""

    def __init__(
        self, start: Callable[[], Any], features: dict[str, Callable[[Any], None]]
    ) -> None:
        self.start = start
        self.features = features


def counts(rows: int, columns: int, dtype: str, seed: int = 0) -> Any:
    """Return a dense matrix of small numbers, most of them zero."""
    random = np.random.RandomState(seed)
    values = random.poisson(0.5, (rows, columns)) * random.randint(1, 4, (rows, columns))
    if np.dtype(dtype).kind == "f":
        return (values / 4).astype(dtype)
    return values.astype(dtype)


def cells(count: int = CELLS) -> list[str]:
    """Return names of cells."""
    return [f"cell_{n:03}" for n in range(count)]


def genes(count: int = GENES) -> list[str]:
    """Return names of genes."""
    return [f"gene_{n}" for n in range(count)]


def made(values: Any, obs_names: list[str], var_names: list[str]) -> Any:
    """Return an AnnData with names, and without columns."""
    obs = pd.DataFrame(index=pd.Index(obs_names, dtype=object))
    var = pd.DataFrame(index=pd.Index(var_names, dtype=object))
    try:
        return anndata.AnnData(values, obs=obs, var=var, dtype=getattr(values, "dtype", "float32"))
    except TypeError:  # the parameter is gone
        return anndata.AnnData(values, obs=obs, var=var)


def _csr() -> Any:
    return made(sp.csr_matrix(counts(CELLS, GENES, "f4")), cells(), genes())


def _dense(dtype: str = "f4") -> Callable[[], Any]:
    return lambda: made(counts(CELLS, GENES, dtype), cells(), genes())


# Features.


def _obs(name: str, values: Callable[[], Any]) -> Callable[[Any], None]:
    def add(adata: Any) -> None:
        adata.obs[name] = values()

    return add


def _var(name: str, values: Callable[[], Any]) -> Callable[[Any], None]:
    def add(adata: Any) -> None:
        adata.var[name] = values()

    return add


def _in(part: str, key: str, value: Callable[[], Any]) -> Callable[[Any], None]:
    def add(adata: Any) -> None:
        getattr(adata, part)[key] = value()

    return add


def _category(values: list[Any], categories: list[Any], *, is_ordered: bool = False) -> Any:
    return pd.Categorical(values, categories=categories, ordered=is_ordered)


def _cycled(values: list[Any], count: int = CELLS) -> list[Any]:
    return [values[n % len(values)] for n in range(count)]


def _add_raw(adata: Any) -> None:
    raw = made(sp.csr_matrix(counts(CELLS, GENES + 2, "f4", 5)), cells(), genes(GENES + 2))
    raw.var["symbol"] = [f"S{n}" for n in range(GENES + 2)]
    raw.varm["loadings"] = counts(GENES + 2, 3, "f8", 6)
    adata.raw = raw


def _add_dense_raw(adata: Any) -> None:
    adata.raw = made(counts(CELLS, GENES + 1, "f8", 7), cells(), genes(GENES + 1))


def _graph(seed: int) -> Any:
    return sp.csr_matrix(counts(CELLS, CELLS, "f8", seed))


def _frame() -> Any:
    return pd.DataFrame(
        {"x": np.arange(CELLS) / 2, "y": np.arange(CELLS)},
        index=pd.Index(cells(), dtype=object),
    )


def _frame_of_strings() -> Any:
    frame = _frame()
    frame["label"] = _cycled(["a", "b", ""])
    frame["group"] = _category(_cycled(["u", "v", None]), ["v", "u"])
    return frame


COLUMNS = {
    "int64": _obs("n", lambda: np.arange(CELLS) - 3),
    "int8": _obs("n_int8", lambda: np.arange(CELLS, dtype="i1") - 100),
    "uint16": _obs("n_uint16", lambda: np.arange(CELLS, dtype="u2") + 65_000),
    "uint64": _obs("n_uint64", lambda: np.arange(CELLS, dtype="u8") + np.uint64(2**63)),
    "float32": _obs("share", lambda: np.linspace(0, 1, CELLS).astype("f4")),
    "float64 with NaN": _obs(
        "score", lambda: np.where(np.arange(CELLS) % 4, np.arange(CELLS) / 8, np.nan)
    ),
    "infinity": _obs("limit", lambda: np.array(_cycled([np.inf, -np.inf, 0.0]))),
    "float16 column": _obs("half", lambda: (np.arange(CELLS) / 2).astype("f2")),
    "bool": _obs("is_good", lambda: np.arange(CELLS) % 3 == 0),
    "strings": _obs("barcode", lambda: [f"bc-{n}" for n in range(CELLS)]),
    "strings that repeat": _obs("donor", lambda: _cycled(["N1", "N2", "N3"])),
    "unicode strings": _obs("städte", lambda: _cycled(["Zürich", "東京", "a b", "'quoted'", ""])),
    "category": _obs("type", lambda: _category(_cycled(["T", "B", "NK"]), ["T", "B", "NK"])),
    "ordered category": _obs(
        "stage", lambda: _category(_cycled(["late", "early"]), ["early", "late"], is_ordered=True)
    ),
    "unused category": _obs("batch", lambda: _category(_cycled(["b"]), ["c", "b", "a"])),
    "missing category": _obs("fate", lambda: _category(_cycled(["x", None, "y"]), ["y", "x"])),
    "no category": _obs("nothing", lambda: _category([None] * CELLS, ["only"])),
    "empty categories": _obs("empty", lambda: pd.Categorical([None] * CELLS, categories=[])),
    "integer categories": _obs("cluster", lambda: _category(_cycled([10, 2]), [2, 10])),
    "float categories": _obs("dose", lambda: _category(_cycled([0.5, 1.0]), [0.5, 1.0])),
    "bool categories": _obs("is_in", lambda: _category(_cycled([True, False]), [False, True])),
    "var bool": _var("is_marker", lambda: np.arange(GENES) % 2 == 0),
    "var strings": _var("symbol", lambda: [f"G{n}" for n in range(GENES)]),
    "var category": _var("chrom", lambda: _category(_cycled(["1", "X"], GENES), ["X", "1"])),
}

NULLABLE = {
    "nullable integers": _obs("n", lambda: pd.array(_cycled([1, None, -3]), dtype="Int64")),
    "nullable int8": _obs("n8", lambda: pd.array(_cycled([None, 1, 2]), dtype="Int8")),
    "nullable without gaps": _obs("whole", lambda: pd.array(_cycled([1, 2]), dtype="UInt16")),
    "large nullable": _obs("large", lambda: pd.array(_cycled([2**62 + 1, None]), dtype="Int64")),
    "nullable bool": _obs("is_ok", lambda: pd.array(_cycled([True, None, False]), dtype="boolean")),
    "nullable float": _obs("level", lambda: pd.array(_cycled([0.5, None]), dtype="Float64")),
    "nullable strings": _obs(
        "note", lambda: pd.array([f"n{n}" if n % 3 else None for n in range(CELLS)], dtype="string")
    ),
    "nullable and empty strings": _obs(
        "remark",
        lambda: pd.array([["", None, f"r{n}"][n % 3] for n in range(CELLS)], dtype="string"),
    ),
    "objects with gaps": _obs("label", lambda: _cycled(["a", None, "b"])),
    "objects with NaN": _obs("title", lambda: [f"t{n}" if n else np.nan for n in range(CELLS)]),
    "dates": _obs("day", lambda: pd.to_datetime(_cycled(["2024-02-29", None, "1969-12-31"]))),
    "dates with a zone": _obs(
        "when", lambda: pd.date_range("2024-03-31", periods=CELLS, freq="h", tz="UTC")
    ),
    "categories of dates": _obs(
        "visit", lambda: pd.Categorical(pd.to_datetime(_cycled(["2024-01-01", "2024-01-02"])))
    ),
    "durations": _obs("time", lambda: pd.to_timedelta(np.arange(CELLS), unit="s")),
    "var nullable": _var("length", lambda: pd.array(_cycled([5, None], GENES), dtype="Int32")),
}

MATRICES = {
    "raw": _add_raw,
    "layer CSR float64": _in(
        "layers", "scaled", lambda: sp.csr_matrix(counts(CELLS, GENES, "f8", 1))
    ),
    "layer CSC int32": _in(
        "layers", "counts", lambda: sp.csc_matrix(counts(CELLS, GENES, "i4", 2))
    ),
    "layer dense": _in("layers", "dense", lambda: counts(CELLS, GENES, "f4", 3)),
    "layer dense bool": _in("layers", "mask", lambda: counts(CELLS, GENES, "i1", 4) > 0),
    "layer of zeros": _in("layers", "none", lambda: sp.csr_matrix((CELLS, GENES), dtype="f4")),
    "obsm array": _in("obsm", "X_pca", lambda: counts(CELLS, 3, "f8", 8)),
    "obsm float32": _in("obsm", "X_umap", lambda: counts(CELLS, 2, "f4", 9)),
    "obsm sparse": _in("obsm", "votes", lambda: sp.csr_matrix(counts(CELLS, 4, "f4", 10))),
    "obsm CSC": _in("obsm", "tags", lambda: sp.csc_matrix(counts(CELLS, 4, "i8", 11))),
    "obsm frame": _in("obsm", "place", _frame),
    "obsm frame of strings": _in("obsm", "labels", _frame_of_strings),
    "obsm three dimensions": _in(
        "obsm", "cube", lambda: counts(CELLS, 6, "f4", 12).reshape(CELLS, 2, 3)
    ),
    "varm": _in("varm", "PCs", lambda: counts(GENES, 3, "f8", 13)),
    "varm of another width": _in("varm", "X_umap", lambda: counts(GENES, 5, "f4", 14)),
    "obsp": _in("obsp", "distances", lambda: _graph(15)),
    "obsp dense": _in("obsp", "similar", lambda: counts(CELLS, CELLS, "f4", 16)),
    "varp": _in("varp", "together", lambda: sp.csr_matrix(counts(GENES, GENES, "f8", 17))),
}

UNS = {
    "uns string": _in("uns", "title", lambda: "a títle"),
    "uns empty string": _in("uns", "blank", lambda: ""),
    "uns numbers": _in("uns", "numbers", lambda: {"int": 3, "float": 0.5, "bool": True}),
    "uns None": _in("uns", "nothing", lambda: None),
    "uns nested": _in(
        "uns",
        "neighbors",
        lambda: {"params": {"n": 15, "metric": "cosine", "deep": {"er": [1, 2]}}},
    ),
    "uns empty": _in("uns", "hollow", dict),
    "uns array": _in("uns", "variance", lambda: np.linspace(0, 1, 5)),
    "uns strings": _in("uns", "order", lambda: np.array(["b", "a", "ß"], dtype=object)),
    "uns list of strings": _in("uns", "steps", lambda: ["one", "two"]),
    "uns colours": _in(
        "uns", "type_colors", lambda: np.array(["#000001", "#000002", "#000003"], dtype=object)
    ),
    "uns frame": _in("uns", "table", _frame_of_strings),
    "uns sparse": _in("uns", "graph", lambda: {"connectivities": _graph(18)}),
    "uns record array": _in(
        "uns",
        "rank",
        lambda: {"names": np.array([("g1", "g2"), ("g3", "g4")], dtype=[("T", "O"), ("B", "O")])},
    ),
    "uns record of numbers": _in(
        "uns", "scores", lambda: np.array([(1.0, 2), (3.0, 4)], dtype=[("a", "f4"), ("b", "i8")])
    ),
    "uns category": _in("uns", "palette", lambda: _category(["x", "y", "x"], ["y", "x"])),
    "uns nullable": _in("uns", "gaps", lambda: pd.array([1, None], dtype="Int64")),
    "uns with a slash": _in("uns", "a/b", lambda: "slash"),
    "uns unicode": _in("uns", "größe", lambda: 1.5),
}


def _odd_start() -> Any:
    obs_names = [["A/1", "B 2", "ü", "東", "dup"][n % 5] for n in range(CELLS)]
    var_names = ["gène", "HLA/DRA", "dup", "dup", "a.b", "dup", "dup-1"]
    return made(sp.csc_matrix(counts(CELLS, GENES, "f8")), obs_names, var_names)


def _index_name(adata: Any) -> None:
    adata.obs.index.name = "barcode"
    adata.var.index.name = "gène"


NAMES = {
    "index names": _index_name,
    "column with a slash": _obs("a/b", lambda: np.arange(CELLS)),
    "column called name": _obs("name", lambda: _cycled(["n1", "n2"])),
    "column called index": _obs("index", lambda: np.arange(CELLS)[::-1]),
    "column called like an axis": _obs("var", lambda: np.arange(CELLS) / 2),
    "column with a space": _obs("my column", lambda: np.arange(CELLS) % 2 == 0),
    "column with quotes": _obs('say "x"', lambda: np.arange(CELLS)),
    "column with a dot": _obs("a.b", lambda: np.arange(CELLS)),
    "columns that differ in case": _obs("A.B", lambda: np.arange(CELLS) + 1),
    "layer with a slash": _in("layers", "l/m", lambda: counts(CELLS, GENES, "f4", 1)),
    "layer in unicode": _in(
        "layers", "größe", lambda: sp.csr_matrix(counts(CELLS, GENES, "i4", 2))
    ),
    "layer called X": _in("layers", "X", lambda: counts(CELLS, GENES, "f4", 3)),
    "obsm called like an axis": _in("obsm", "var", lambda: counts(CELLS, 2, "f4", 4)),
    "obsm with a slash": _in("obsm", "p/q", lambda: counts(CELLS, 2, "f4", 5)),
}


def _unsorted() -> Any:
    matrix = sp.csr_matrix(counts(CELLS, GENES, "f4", 20))
    for row in range(CELLS):
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        matrix.indices[span] = matrix.indices[span][::-1].copy()
        matrix.data[span] = matrix.data[span][::-1].copy()
    matrix.has_sorted_indices = False
    return matrix


def _long_indices() -> Any:
    matrix = sp.csr_matrix(counts(CELLS, GENES, "f4", 21))
    matrix.indices, matrix.indptr = matrix.indices.astype("i8"), matrix.indptr.astype("i8")
    return matrix


def _doubled() -> Any:
    indptr = np.arange(CELLS + 1, dtype="i4") * 2
    indices = np.repeat(np.arange(CELLS) % GENES, 2).astype("i4")
    return sp.csr_matrix((np.arange(2 * CELLS, dtype="f4"), indices, indptr), shape=(CELLS, GENES))


def _layer_of(dtype: str) -> Callable[[Any], None]:
    return _in("layers", dtype, lambda: counts(CELLS, GENES, dtype, 22))


TYPES = {
    "dense raw": _add_dense_raw,
    "int64 indptr": _in("layers", "long", _long_indices),
    "unsorted indices": _in("layers", "unsorted", _unsorted),
    "elements stored twice": _in("layers", "doubled", _doubled),
    "stored zeros": _in(
        "layers",
        "zeros",
        lambda: sp.csr_matrix((np.array([0, 2], "f4"), ([0, 3], [1, 2])), shape=(CELLS, GENES)),
    ),
    "sparse bool": _in(
        "layers", "sparse_bool", lambda: sp.csr_matrix(counts(CELLS, GENES, "i1", 23) > 0)
    ),
    "sparse int8": _in(
        "layers", "sparse_int8", lambda: sp.csc_matrix(counts(CELLS, GENES, "i1", 24))
    ),
    "sparse uint16": _in(
        "layers", "sparse_uint16", lambda: sp.csr_matrix(counts(CELLS, GENES, "u2", 25))
    ),
    "column-major dense": _in(
        "layers", "fortran", lambda: np.asfortranarray(counts(CELLS, GENES, "f4", 26))
    ),
    "complex": _in("layers", "complex", lambda: counts(CELLS, GENES, "c8", 27)),
}
TYPES.update(
    {
        "dense " + dtype: _layer_of(dtype)
        for dtype in ("i1", "u1", "i2", "u4", "i8", "u8", "f2", "f8", ">f4")
    }
)


def _blocks() -> Any:
    """Return several chunks of numbers that follow a pattern, so that they take little room."""
    rows, columns, values = [], [], []
    for row in range(BLOCK_CELLS):
        for place in range(4 + row % 9):
            rows.append(row)
            columns.append((row * 3 + place * 3) % BLOCK_GENES)
            values.append(row % 11 + place)
    matrix = sp.coo_matrix((np.array(values, "f4"), (rows, columns)), (BLOCK_CELLS, BLOCK_GENES))
    return made(matrix.tocsr(), cells(BLOCK_CELLS), genes(BLOCK_GENES))


def _cell_numbers() -> Any:
    return np.arange(BLOCK_CELLS)


BLOCKS = {
    "integers": _obs("n", lambda: _cell_numbers() % 37),
    "floats": _obs("score", lambda: (_cell_numbers() % 11) / 4),
    "flags": _obs("is_good", lambda: _cell_numbers() % 3 == 0),
    "category": _obs(
        "type", lambda: _category(_cycled(["T", "B", "NK", None], BLOCK_CELLS), ["NK", "T", "B"])
    ),
    "strings": _obs("barcode", lambda: [f"b{n}" for n in range(BLOCK_CELLS)]),
    "CSC layer": _in("layers", "by_gene", lambda: sp.csc_matrix(_blocks().X)),
    "dense layer": _in(
        "layers",
        "dense",
        lambda: (
            (np.arange(BLOCK_CELLS * BLOCK_GENES) % 7)
            .reshape(BLOCK_CELLS, BLOCK_GENES)
            .astype("f4")
        ),
    ),
    "dense obsm": _in(
        "obsm", "X_pca", lambda: (np.arange(BLOCK_CELLS * 3) % 5).reshape(BLOCK_CELLS, 3) / 2
    ),
    "var integers": _var("n_cells", lambda: np.arange(BLOCK_GENES)),
}


def _pick(features: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: features[name] for name in names}


def _empty() -> Any:
    return made(sp.csr_matrix((0, GENES), dtype="f4"), [], genes())


def _no_genes() -> Any:
    return made(np.zeros((CELLS, 0), "f4"), cells(), [])


def _no_x() -> Any:
    return made(None, cells(), genes())


KINDS = {
    "main": Kind(_csr, {**COLUMNS, **MATRICES}),
    "nullable": Kind(_dense("i8"), NULLABLE),
    "uns": Kind(_dense(), {**_pick(COLUMNS, "category"), **UNS}),
    "names": Kind(_odd_start, NAMES),
    "types": Kind(_dense("f2"), TYPES),
    "blocks": Kind(_blocks, BLOCKS),
    "no_cells": Kind(_empty, {}),
    "no_genes": Kind(_no_genes, _pick(COLUMNS, "int64", "category", "strings")),
    "no_x": Kind(_no_x, {**_pick(COLUMNS, "int64"), **_pick(MATRICES, "layer CSR float64")}),
}
"""All AnnData by name; each version of anndata writes them in all forms that it has."""
