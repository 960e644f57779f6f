"""The data of the corpus: small AnnData, each made of features that one version of anndata may lack.

A *feature* is a value of a part of an AnnData, named by the part and its key in it.  Those that a
version of anndata cannot write are left out of its files, and listed.  This runs under Python 3.7 and pandas 1.0, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

CELLS, GENES = 12, 7
BLOCK_CELLS, BLOCK_GENES = 700, 40


class Kind:
    """An AnnData of the corpus: how it begins, and the features that are added."""

    def __init__(self, start: Callable[[], Any], features: dict[str, Callable[[], Any]]) -> None:
        self.start = start
        self.features = features

    def built(self, features: Iterable[str]) -> Any:
        """Return an AnnData with some of the features."""
        adata = self.start()
        for feature in features:
            part, _, key = feature.partition(" ")
            value = self.features[feature]()
            if key:
                getattr(adata, part)[key] = value
            else:
                setattr(adata, part, value)
        return adata


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


def _category(values: list[Any], categories: list[Any], *, is_ordered: bool = False) -> Any:
    return pd.Categorical(values, categories=categories, ordered=is_ordered)


def _cycled(values: list[Any], count: int = CELLS) -> list[Any]:
    return [values[n % len(values)] for n in range(count)]


def _raw() -> Any:
    raw = made(sp.csr_matrix(counts(CELLS, GENES + 2, "f4", 5)), cells(), genes(GENES + 2))
    raw.var["symbol"] = [f"S{n}" for n in range(GENES + 2)]
    raw.varm["loadings"] = counts(GENES + 2, 3, "f8", 6)
    return raw


def _dense_raw() -> Any:
    return made(counts(CELLS, GENES + 1, "f8", 7), cells(), genes(GENES + 1))


def _graph(seed: int) -> Any:
    return sp.csr_matrix(counts(CELLS, CELLS, "f8", seed))


def _frame() -> Any:
    return pd.DataFrame(
        {"x": np.arange(CELLS) / 2, "y": np.arange(CELLS)}, index=pd.Index(cells(), dtype=object)
    )


def _frame_of_strings() -> Any:
    frame = _frame()
    frame["label"] = _cycled(["a", "b", ""])
    frame["group"] = _category(_cycled(["u", "v", None]), ["v", "u"])
    return frame


COLUMNS = {
    "obs n": lambda: np.arange(CELLS) - 3,
    "obs n_int8": lambda: np.arange(CELLS, dtype="i1") - 100,
    "obs n_uint16": lambda: np.arange(CELLS, dtype="u2") + 65_000,
    "obs n_uint64": lambda: np.arange(CELLS, dtype="u8") + np.uint64(2**63),
    "obs share": lambda: np.linspace(0, 1, CELLS).astype("f4"),
    "obs score": lambda: np.where(np.arange(CELLS) % 4, np.arange(CELLS) / 8, np.nan),
    "obs limit": lambda: np.array(_cycled([np.inf, -np.inf, 0.0])),
    "obs half": lambda: (np.arange(CELLS) / 2).astype("f2"),
    "obs is_good": lambda: np.arange(CELLS) % 3 == 0,
    "obs barcode": lambda: [f"bc-{n}" for n in range(CELLS)],
    "obs donor": lambda: _cycled(["N1", "N2", "N3"]),
    "obs städte": lambda: _cycled(["Zürich", "東京", "a b", "'quoted'", ""]),
    "obs type": lambda: _category(_cycled(["T", "B", "NK"]), ["T", "B", "NK"]),
    "obs stage": lambda: _category(_cycled(["late", "early"]), ["early", "late"], is_ordered=True),
    "obs batch": lambda: _category(_cycled(["b"]), ["c", "b", "a"]),
    "obs fate": lambda: _category(_cycled(["x", None, "y"]), ["y", "x"]),
    "obs nothing": lambda: _category([None] * CELLS, ["only"]),
    "obs empty": lambda: pd.Categorical([None] * CELLS, categories=[]),
    "obs cluster": lambda: _category(_cycled([10, 2]), [2, 10]),
    "obs dose": lambda: _category(_cycled([0.5, 1.0]), [0.5, 1.0]),
    "obs is_in": lambda: _category(_cycled([True, False]), [False, True]),
    "var is_marker": lambda: np.arange(GENES) % 2 == 0,
    "var symbol": lambda: [f"G{n}" for n in range(GENES)],
    "var chrom": lambda: _category(_cycled(["1", "X"], GENES), ["X", "1"]),
}

NULLABLE = {
    "obs n": lambda: pd.array(_cycled([1, None, -3]), dtype="Int64"),
    "obs n8": lambda: pd.array(_cycled([None, 1, 2]), dtype="Int8"),
    "obs whole": lambda: pd.array(_cycled([1, 2]), dtype="UInt16"),
    "obs large": lambda: pd.array(_cycled([2**62 + 1, None]), dtype="Int64"),
    "obs is_ok": lambda: pd.array(_cycled([True, None, False]), dtype="boolean"),
    "obs level": lambda: pd.array(_cycled([0.5, None]), dtype="Float64"),
    "obs note": lambda: pd.array(
        [f"n{n}" if n % 3 else None for n in range(CELLS)], dtype="string"
    ),
    "obs remark": lambda: pd.array(
        [["", None, f"r{n}"][n % 3] for n in range(CELLS)], dtype="string"
    ),
    "obs label": lambda: _cycled(["a", None, "b"]),
    "obs title": lambda: [f"t{n}" if n else np.nan for n in range(CELLS)],
    "obs day": lambda: pd.to_datetime(_cycled(["2024-02-29", None, "1969-12-31"])),
    "obs when": lambda: pd.date_range("2024-03-31", periods=CELLS, freq="h", tz="UTC"),
    "obs visit": lambda: pd.Categorical(pd.to_datetime(_cycled(["2024-01-01", "2024-01-02"]))),
    "obs time": lambda: pd.to_timedelta(np.arange(CELLS), unit="s"),
    "var length": lambda: pd.array(_cycled([5, None], GENES), dtype="Int32"),
}

MATRICES = {
    "raw": _raw,
    "layers scaled": lambda: sp.csr_matrix(counts(CELLS, GENES, "f8", 1)),
    "layers counts": lambda: sp.csc_matrix(counts(CELLS, GENES, "i4", 2)),
    "layers dense": lambda: counts(CELLS, GENES, "f4", 3),
    "layers mask": lambda: counts(CELLS, GENES, "i1", 4) > 0,
    "layers none": lambda: sp.csr_matrix((CELLS, GENES), dtype="f4"),
    "obsm X_pca": lambda: counts(CELLS, 3, "f8", 8),
    "obsm X_umap": lambda: counts(CELLS, 2, "f4", 9),
    "obsm votes": lambda: sp.csr_matrix(counts(CELLS, 4, "f4", 10)),
    "obsm tags": lambda: sp.csc_matrix(counts(CELLS, 4, "i8", 11)),
    "obsm place": _frame,
    "obsm labels": _frame_of_strings,
    "obsm cube": lambda: counts(CELLS, 6, "f4", 12).reshape(CELLS, 2, 3),
    "varm PCs": lambda: counts(GENES, 3, "f8", 13),
    "varm X_umap": lambda: counts(GENES, 5, "f4", 14),
    "obsp distances": lambda: _graph(15),
    "obsp similar": lambda: counts(CELLS, CELLS, "f4", 16),
    "varp together": lambda: sp.csr_matrix(counts(GENES, GENES, "f8", 17)),
}

UNS = {
    "uns title": lambda: "a títle",
    "uns blank": lambda: "",
    "uns numbers": lambda: {"int": 3, "float": 0.5, "bool": True},
    "uns nothing": lambda: None,
    "uns neighbors": lambda: {"params": {"n": 15, "metric": "cosine", "deep": {"er": [1, 2]}}},
    "uns hollow": dict,
    "uns variance": lambda: np.linspace(0, 1, 5),
    "uns order": lambda: np.array(["b", "a", "ß"], dtype=object),
    "uns steps": lambda: ["one", "two"],
    "uns type_colors": lambda: np.array(["#000001", "#000002", "#000003"], dtype=object),
    "uns table": _frame_of_strings,
    "uns graph": lambda: {"connectivities": _graph(18)},
    "uns rank": lambda: {
        "names": np.array([("g1", "g2"), ("g3", "g4")], dtype=[("T", "O"), ("B", "O")])
    },
    "uns scores": lambda: np.array([(1.0, 2), (3.0, 4)], dtype=[("a", "f4"), ("b", "i8")]),
    "uns palette": lambda: _category(["x", "y", "x"], ["y", "x"]),
    "uns gaps": lambda: pd.array([1, None], dtype="Int64"),
    "uns a/b": lambda: "slash",
    "uns größe": lambda: 1.5,
}


def _odd_start() -> Any:
    obs_names = [["A/1", "B 2", "ü", "東", "dup"][n % 5] for n in range(CELLS)]
    var_names = ["gène", "HLA/DRA", "dup", "dup", "a.b", "dup", "dup-1"]
    adata = made(sp.csc_matrix(counts(CELLS, GENES, "f8")), obs_names, var_names)
    adata.obs.index.name, adata.var.index.name = "barcode", "gène"
    return adata


NAMES = {
    "obs a/b": lambda: np.arange(CELLS),
    "obs name": lambda: _cycled(["n1", "n2"]),
    "obs index": lambda: np.arange(CELLS)[::-1],
    "obs var": lambda: np.arange(CELLS) / 2,
    "obs my column": lambda: np.arange(CELLS) % 2 == 0,
    'obs say "x"': lambda: np.arange(CELLS),
    "obs a.b": lambda: np.arange(CELLS),
    "obs A.B": lambda: np.arange(CELLS) + 1,
    "layers l/m": lambda: counts(CELLS, GENES, "f4", 1),
    "layers größe": lambda: sp.csr_matrix(counts(CELLS, GENES, "i4", 2)),
    "layers X": lambda: counts(CELLS, GENES, "f4", 3),
    "obsm var": lambda: counts(CELLS, 2, "f4", 4),
    "obsm p/q": lambda: counts(CELLS, 2, "f4", 5),
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


def _dense_of(dtype: str) -> Callable[[], Any]:
    return lambda: counts(CELLS, GENES, dtype, 22)


TYPES = {
    "raw": _dense_raw,
    "layers long": _long_indices,
    "layers unsorted": _unsorted,
    "layers doubled": _doubled,
    "layers zeros": lambda: sp.csr_matrix(
        (np.array([0, 2], "f4"), ([0, 3], [1, 2])), shape=(CELLS, GENES)
    ),
    "layers sparse_bool": lambda: sp.csr_matrix(counts(CELLS, GENES, "i1", 23) > 0),
    "layers sparse_int8": lambda: sp.csc_matrix(counts(CELLS, GENES, "i1", 24)),
    "layers sparse_uint16": lambda: sp.csr_matrix(counts(CELLS, GENES, "u2", 25)),
    "layers fortran": lambda: np.asfortranarray(counts(CELLS, GENES, "f4", 26)),
    "layers complex": lambda: counts(CELLS, GENES, "c8", 27),
    **{
        f"layers {dtype}": _dense_of(dtype)
        for dtype in ("i1", "u1", "i2", "u4", "i8", "u8", "f2", "f8", ">f4")
    },
}


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
    "obs n": lambda: _cell_numbers() % 37,
    "obs score": lambda: (_cell_numbers() % 11) / 4,
    "obs is_good": lambda: _cell_numbers() % 3 == 0,
    "obs type": lambda: _category(_cycled(["T", "B", "NK", None], BLOCK_CELLS), ["NK", "T", "B"]),
    "obs barcode": lambda: [f"b{n}" for n in range(BLOCK_CELLS)],
    "layers by_gene": lambda: sp.csc_matrix(_blocks().X),
    "layers dense": lambda: (
        (np.arange(BLOCK_CELLS * BLOCK_GENES) % 7).reshape(BLOCK_CELLS, BLOCK_GENES).astype("f4")
    ),
    "obsm X_pca": lambda: (np.arange(BLOCK_CELLS * 3) % 5).reshape(BLOCK_CELLS, 3) / 2,
    "var n_cells": lambda: np.arange(BLOCK_GENES),
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
    "uns": Kind(_dense(), {**_pick(COLUMNS, "obs type"), **UNS}),
    "names": Kind(_odd_start, NAMES),
    "types": Kind(_dense("f2"), TYPES),
    "blocks": Kind(_blocks, BLOCKS),
    "no_cells": Kind(_empty, {}),
    "no_genes": Kind(_no_genes, _pick(COLUMNS, "obs n", "obs type", "obs barcode")),
    "no_x": Kind(_no_x, {**_pick(COLUMNS, "obs n"), **_pick(MATRICES, "layers scaled")}),
}
"""All AnnData by name; each version of anndata writes them in all forms that it has."""
