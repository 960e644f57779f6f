"""Tests of the page of a data set: what it shows of the values, and how little it reads for that."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from daf_storage import MemoryDaf, ZarrDaf, convert, open_daf
from daf_storage.data import data_set_section
from daf_storage.display import PreviewBudget
from daf_storage.trees import PlainArray
from tests.support import data_set, edited_bytes, recorded_reads, served

ROWS = 60_000
HOSTILE = "<img src=x onerror=alert(1)>"


def _fill(daf: Any, rows: int) -> None:
    rng = np.random.default_rng(3)
    data_set(daf, cell=pa.array(np.arange(rows).astype(str)), gene=20)
    for name in ("age", "score"):
        daf.set_vector("cell", name, rng.integers(0, 90, rows).astype("f8"))
    daf.set_vector("cell", "type", np.array(["T", "B", "NK"])[np.arange(rows) % 3])
    daf.set_vector("cell", "marker", sp.csr_array(([1.5], ([0], [1])), shape=(1, rows)))
    daf.set_matrix("cell", "gene", "X", sp.random_array((rows, 20), density=0.1, rng=rng))
    daf.set_matrix("cell", "gene", "dense", np.ones((rows, 20), "f4"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return data sets of some megabytes, plain and packed."""
    folder = tmp_path_factory.mktemp("large")
    paths = {"plain": folder / "a.daf.zarr", "packed": folder / "b.daf.zarr"}
    with ZarrDaf(paths["plain"], "w") as daf:
        _fill(daf, ROWS)
    convert(paths["plain"], paths["packed"], packed=True)
    return paths


@pytest.fixture
def mapped_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many bytes are looked at of each mapped array, none of which is read as a whole."""
    sizes: list[int] = []
    spans = PlainArray.read_spans

    def counted_spans(self: PlainArray, *arguments: Any) -> Any:
        parts = spans(self, *arguments)
        sizes.extend(part.nbytes for part in parts)
        return parts

    monkeypatch.setattr(PlainArray, "read_spans", counted_spans)
    monkeypatch.setattr(PlainArray, "read_strings", mock.Mock(side_effect=AssertionError))
    return sizes


@pytest.mark.parametrize("form", ["plain", "packed"])
def test_little_is_read_of_a_large_data_set(
    form: str, large: dict[str, Path], mapped_bytes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows of each vector and matrix: bytes are counted as they are read."""
    with recorded_reads(monkeypatch) as reads, open_daf(large[form]) as daf:
        page = daf._repr_html_()
    assert re.search(r"(T|B|NK) [\d,]+, (T|B|NK) [\d,]+, ", page)
    assert len(re.findall("[▁▂▃▄▅▆▇█]{8,}", page)) >= 2
    assert 0 < reads.n_bytes + sum(mapped_bytes) < 1_000_000  # of 8 MB
    assert "a sample of 4,096 of 60,000" in page


def test_what_is_not_looked_at(large: dict[str, Path]) -> None:
    """What is on a server, what would take long, and what has too many vectors, is named."""
    with served(large["packed"]) as server, open_daf(server.url) as daf:
        assert daf._repr_html_().count("on a server: values are not looked at") == 6
    with open_daf(large["plain"]) as daf:
        section = data_set_section(daf.summary(), daf, PreviewBudget(100))
    assert section.count("too much to look at quickly") == 6
    for count in (200, 201):
        many = MemoryDaf()
        many.add_axis("cell", ["A", "B"], vectors={f"v{n:03}": n for n in range(count)})
        many.set_matrix("cell", "cell", "all", sp.csc_array(np.ones((2, 2), bool)))
        page = many._repr_html_()
        assert f"{count - 100} more: v100, v101, " in page
        assert f"v199{', …' * (count > 200)}</div>" in page


def test_small_data_are_shown_exactly() -> None:
    """All values are looked at; counts, ranges and missing values are those of pandas."""
    daf = data_set(cell={"name": ["A", "B", "C", "D"], "age": [1.5, np.nan, 4000.25, 2.5]})
    daf.set_vector("cell", "type", ["T", "", "T", "B"], empty_is_missing=True)
    page = daf._repr_html_()
    assert "1.5 to 4,000" in page
    assert "T 2, B 1" in page
    assert page.count("1 missing") == 2
    assert "sample" not in page
    assert "A, B, C, …" in page


def test_hostile_names_and_values_are_escaped() -> None:
    """Of axes, vectors, matrices, scalars, entries and the path."""
    daf = MemoryDaf(name=HOSTILE)
    daf.add_axis(HOSTILE.replace("/", ""), [HOSTILE, "b"])
    axis = next(iter(daf.axes_set()))
    daf.set_vector(axis, HOSTILE, [HOSTILE] * 2)
    daf.set_matrix(axis, axis, HOSTILE, np.eye(2))
    daf.set_scalar(HOSTILE, HOSTILE)
    page = daf._repr_html_()
    assert "<img" not in page
    assert page.count("&lt;img") >= 6


def test_a_damaged_vector_does_not_hide_the_others(tmp_path: Path) -> None:
    """It says what is wrong in its place."""
    path = tmp_path / "a.daf.zarr"
    data_set(
        ZarrDaf(path, "w"), cell={"name": ["A", "B"], "bad": ["x", "y"], "good": [5, 6]}
    ).close()
    with edited_bytes(path / "vectors/cell/bad/0") as data:
        data[4:8] = b"\xff\xff\xff\x0f"
    page = open_daf(path)._repr_html_()
    assert "cannot be read" in page
    assert "5 to 6" in page
