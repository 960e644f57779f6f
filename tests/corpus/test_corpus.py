"""Tests of AnnData files of all versions of anndata: in place and imported; anndata is the judge.

A part of the corpus, for time; ``python -m tests.corpus`` checks all of it.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession
from tests.corpus.checks import CHECKS, Opened, checks_of
from tests.corpus.files import CorpusFile, unpacked, versions

OLDEST, NEWEST = versions()[0], versions()[-1]

SLICED = ("h5ad-gzip", "h5ad-lzf", "zarr3-sharded")


def chosen(file: CorpusFile) -> set[str]:
    """Return which checks a file is to pass here: each form, each kind and each version has some."""
    place = (file.form, file.kind)
    if file.version == NEWEST:
        if place == ("h5ad", "main"):
            return set(CHECKS) - {"importing"}
        if place == ("h5ad", "names"):
            return {"sql", "genes", "attaching"}
        if file.kind == "blocks":
            return {"slices"} if file.form in SLICED else set()
        if place == ("zarr3", "uns"):
            return {"opening"}
        return {"alike"} if file.form == "h5ad" or place == ("zarr3", "nullable") else set()
    if file.version == OLDEST:
        return {"opening", "alike"} if file.form in ("h5ad", "zarr2") else set()
    if place in (("h5ad", "main"), ("h5ad", "concatenated")):
        return {"alike"}
    return {"attaching"} if place in (("zarr2", "nullable"), ("zarr2", "names")) else set()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the files are unpacked."""
    return tmp_path_factory.mktemp("corpus")


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", versions())
def test_files_of_a_version(version: str, folder: Path) -> None:
    """What is in place and what is imported equals what anndata reads, in SQL, slices and genes as columns."""
    problems = []
    for file in unpacked(version, folder, lambda file: bool(chosen(file))):
        opened = Opened(file)
        names = chosen(file) & set(checks_of(file))
        problems += [f"{file} {name}: {line}" for name in names for line in CHECKS[name](opened)]
    assert not problems


@pytest.fixture(scope="module")
def sessions(folder: Path) -> list[tuple[DafSession, Any]]:
    """Return sessions over files of several chunks, and X as anndata reads it."""
    forms = ("h5ad", "zarr2", "zarr3-small-shards")
    with warnings.catch_warnings(action="ignore"):
        files = unpacked(NEWEST, folder, lambda file: file.kind == "blocks" and file.form in forms)
        return [(Opened(file).session, Opened(file).adata.X.toarray()) for file in files]


@given(st.data())
def test_any_selection(sessions: list[tuple[DafSession, Any]], data: st.DataObject) -> None:
    """Rows and columns by position, in any order and repeated, and rows by a filter."""
    session, dense = data.draw(st.sampled_from(sessions))
    height, width = dense.shape
    columns = data.draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=5))
    rows: Any = data.draw(st.lists(st.integers(0, height - 1), min_size=1, max_size=40))
    expected = dense[rows]
    if data.draw(st.booleans()):
        least, most = sorted(rows[0:1] + rows[-1:])
        rows, expected = f'"index" BETWEEN {least} AND {most} AND n < 30', dense[least : most + 1]
        expected = expected[np.arange(least, most + 1) % 37 < 30]
    found = session.matrix("obs", "var", "X", rows=rows, columns=columns)
    assert found.to_numpy().tolist() == expected[:, columns].tolist()
