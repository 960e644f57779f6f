"""Tests of what is said of a slice before it is read: equal to what is read then, and what it takes."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daf_query import DafSession, MatrixSlice, connect
from daf_query.cli import main
from daf_storage import DafWriter, ZarrDaf, errors
from daf_storage.base import DOWNLOADS
from tests.support import create, data_set, is_mapped, recorded_calls, recorded_reads, served

N_CELLS, N_GENES = 1000, 200


def matrix(density: float = 0.1) -> Any:
    """Return a random CSC array."""
    random = np.random.default_rng(0)
    return sp.random_array((N_CELLS, N_GENES), density=density, rng=random, format="csc")


def filled(daf: Any) -> Any:
    """Return a data set with a dense and a sparse matrix in both layouts."""
    data_set(daf, cell={"name": N_CELLS, "age": np.arange(N_CELLS)}, gene=N_GENES)
    daf.set_matrix("cell", "gene", "d", matrix().toarray())
    daf.set_matrix("cell", "gene", "s", matrix())
    return daf


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a data set; no test changes it."""
    path = tmp_path_factory.mktemp("explain") / "x.daf.zarr"
    filled(create(path))
    return path


@pytest.fixture(scope="module")
def db(path: Path) -> DafSession:
    """Return a session over it."""
    return connect(path)


def positions(length: int) -> st.SearchStrategy[list[int] | None]:
    """Return None for all entries, or any positions in any order, duplicates too."""
    some = st.lists(st.integers(0, length - 1), max_size=2 * length) if length else st.nothing()
    return st.none() | some


@st.composite
def members(draw: st.DrawFn, number: int, columns: list[str]) -> DafWriter:
    """Return a data set with a small matrix, of which both layouts are stored or one is."""
    n_rows = draw(st.integers(1, 4))
    numbers = draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n_rows * len(columns)))
    dtype = draw(st.sampled_from([np.float32, np.int64, np.uint8, np.bool_]))
    values: Any = np.resize(np.array(numbers, dtype), (n_rows, len(columns)))
    daf = data_set(name=f"run{number}", r=[f"r{number}{i}" for i in range(n_rows)], c=columns)
    stored = sp.csc_array(values) if draw(st.booleans()) else values
    daf.set_matrix("r", "c", "m", stored, relayout=draw(st.booleans()))
    return daf


@st.composite
def slices(draw: st.DrawFn) -> MatrixSlice:
    """Return a slice of one data set, of three with equal columns, or of three with others."""
    kind = draw(st.sampled_from(["one", "equal", "others"]))
    columns = [f"c{i}" for i in range(draw(st.integers(1, 5)))]
    own = st.permutations(columns) if kind == "others" else st.just(columns)
    dafs = [
        draw(members(number, draw(own)[number % len(columns) * (kind == "others") :]))
        for number in range(1 if kind == "one" else 3)
    ]
    options: dict[str, Any] = {"join": "outer", "along": "r"}
    db = connect(dafs[0] if kind == "one" else dafs)
    whole = db.matrix("r", "c", "m", **options)
    rows, chosen = (draw(positions(length)) for length in whole.shape)
    fill = draw(st.sampled_from([None, 0, 2]))
    return db.matrix("r", "c", "m", rows=rows, columns=chosen, fill_value=fill, **options)


def sparse_bytes(values: Any) -> int:
    """Return the memory of a CSR array."""
    return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes)


def column_bytes(column: Any) -> int:
    """Return the memory of an Arrow column; of a dictionary, of its codes."""
    array = column.combine_chunks()
    array = getattr(array, "indices", array)
    width = array.type.bit_width
    return -(-len(array) // 8) if width == 1 else len(array) * width // 8


@given(part=slices())
def test_the_figures_are_those_of_the_forms(part: MatrixSlice) -> None:
    """Where the number of elements is exact, so is the memory; else both are upper bounds."""
    before = part.explain()
    values = part.load().values()
    after = part.explain()
    found = {
        "numpy": part.to_numpy().nbytes,
        "scipy": sparse_bytes(part.to_scipy()),
        "arrow": sum(map(column_bytes, part.to_arrow().columns)),
    }
    assert before.memory_bytes["numpy"] == found["numpy"]
    assert all(before.memory_bytes[form] >= size for form, size in found.items())
    assert (before.rows, before.columns) == part.shape
    if part.is_sparse:
        assert after.is_exact
        assert after.stored_elements == values.nnz
        assert after.result_bytes == sparse_bytes(values)
        assert before.stored_elements >= values.nnz
        assert all(after.memory_bytes[form] == size for form, size in found.items())
        if before.is_exact:
            assert before.stored_elements == values.nnz
            assert before.memory_bytes == after.memory_bytes
    else:
        assert before.is_exact
        assert before.stored_elements == before.rows * before.columns
        assert before.result_bytes == values.nbytes


@pytest.mark.usefixtures("tiny_chunks")
@pytest.mark.parametrize("name", ["d", "s"])
def test_packed_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The bytes to read are those of the compressed chunks, each once."""
    daf = ZarrDaf(tmp_path / "x.daf.zarr", "w", packed=True)
    data_set(daf, cell=30, gene=20)
    values = matrix(0.4)[:30, :20].T.tocsc()
    stored = values if name == "s" else values.toarray()
    daf.set_matrix("gene", "cell", name, stored, relayout=False)
    with recorded_reads(monkeypatch) as reads:
        part = connect(tmp_path / "x.daf.zarr").matrix(
            "cell", "gene", name, rows=[2, 3, 17], columns=[1, 5, 6]
        )
        before = reads.n_bytes
        explanation = part.explain()
        indexes_bytes = reads.n_bytes - before
        part.load()
        read_bytes = reads.n_bytes - before - indexes_bytes  # they are read once
    assert read_bytes == explanation.read_bytes > 0
    assert explanation.read_is_exact


@pytest.mark.parametrize(
    ("suffix", "packed"),
    [(".daf.zarr", False), (".daf.zarr", True), (".daf.zarr.zip", False), (".daf.zarr.zip", True)],
)
@pytest.mark.parametrize("name", ["d", "s"])
def test_the_requests_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, packed: Any, name: str
) -> None:
    """A server gets about as many requests as was said, and sends about as many bytes."""
    path = tmp_path / f"x{suffix}"
    daf = ZarrDaf(path, "w", packed=packed)
    data_set(daf, cell=6000, gene=N_GENES)
    values = sp.vstack([matrix(0.3)] * 6).T.tocsc()
    stored = values if name == "s" else values.toarray()
    daf.set_matrix("gene", "cell", name, stored, relayout=False)
    daf.close()
    rows = [*range(0, 6000, 1500), *range(40, 80)]
    with served(path) as server:
        part = connect(server.url).matrix("cell", "gene", name, rows=rows)
        explanation = part.explain()
        requests = recorded_calls(monkeypatch, (DOWNLOADS, "request"), bool)
        parts = recorded_calls(monkeypatch, (DOWNLOADS, "add"), int)
        part.load()
        received = sum(parts)
    assert explanation.requests is not None
    assert len(requests) > 2
    assert abs(explanation.requests - len(requests)) <= 1
    # As if nothing had been downloaded before, as the column pointers have.
    assert 0 <= explanation.read_bytes - received <= 1 << 16
    if not suffix.endswith(".zip"):  # in an archive, other entries lie in the same blocks
        assert (explanation.requests, explanation.read_bytes) == (len(requests), received)


@pytest.mark.parametrize(
    ("file", "chosen", "problem"),
    [
        ("rowval/0", {"columns": [1]}, ""),  # turns out when it is read
        ("colptr/0", {"columns": [1]}, "colptr"),
        ("colptr/0", {"rows": [1]}, "colptr"),  # of a layout that is not looked at
        ("colptr/.zarray", {"rows": [1]}, "colptr"),
    ],
)
@pytest.mark.filterwarnings("ignore::daf_query.DamagedLayoutWarning")
def test_a_damaged_layout_is_named(
    tmp_path: Path, file: str, chosen: dict[str, Any], problem: str
) -> None:
    """With what is wrong with it, as far as its values were not needed to see that."""
    filled(create(tmp_path / "x.daf.zarr")).close()
    (tmp_path / "x.daf.zarr/matrices/cell/gene/s" / file).write_bytes(b"\xff" * 160_000)
    part = connect(tmp_path / "x.daf.zarr").matrix("cell", "gene", "s", **chosen)
    first, other = part.load().explain().layouts
    assert (first.by, first.state, other.by, other.state) == ("cell", "chosen", "gene", "damaged")
    assert problem in (other.problem or "")
    assert "by gene: not read, it is damaged" in repr(part.explain())


def test_what_a_page_shows_of_the_values(path: Path, db: DafSession) -> None:
    """A part of many that were read; nothing of a server, or where a row is large."""
    assert "a sample of 50,000 of 200,000" in db.matrix("cell", "gene", "d").load()._repr_html_()
    with served(path) as server:
        page = connect(server.url).matrix("cell", "gene", "d")._repr_html_()
    assert "on a server, not read yet" in page
    wide = data_set(cell=1, gene=600_000, matrices={("cell", "gene", "d"): np.ones((1, 600_000))})
    page = connect(wide).matrix("cell", "gene", "d")._repr_html_()
    assert "not read yet; too much to look at quickly" in page


def test_nothing_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Explaining a slice, and refusing it, reads column pointers alone; the first use all, once."""
    with recorded_reads(monkeypatch) as reads:
        session = connect(path)
        session.matrix("cell", "gene", "s", rows="age > 7").explain()
        with pytest.raises(errors.BudgetError):
            session.matrix("cell", "gene", "s", rows="age > 7", max_bytes=1)
        found = {key for key in reads.chunks() if "matrices" in key}
        assert found == {"matrices/cell/gene/s/colptr/0", "matrices/gene/cell/s/colptr/0"}
        session = connect(path)
        reads.clear()
        part = session.matrix("cell", "gene", "d", rows="age > 990")
        assert reads.chunks() == ["vectors/cell/age/0"]
        part.to_numpy()
        part.to_scipy()
        assert reads.chunks().count("matrices/gene/cell/d/0.0") == 1


@pytest.mark.parametrize("name", ["d", "s"])
@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        ([1, 2, 3], None, ("gene", "cell")),
        (None, [1, 2, 3], ("cell", "gene")),
        ("age < 500", [7], ("cell", "gene")),
        ([7], "index < 150", ("gene", "cell")),
    ],
)
def test_the_cheaper_layout_is_read(
    db: DafSession, name: str, rows: Any, columns: Any, expected: tuple[str, str]
) -> None:
    """The layout whose columns are the fewer wanted bytes."""
    info = db.matrix("cell", "gene", name, rows=rows, columns=columns).plan.stored.info
    assert (info.rows_axis, info.columns_axis) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_ranges_of_a_dense_matrix_are_views(path: Path, db: DafSession) -> None:
    """Neighbouring rows and all columns are a view of the mapped file."""
    values = db.matrix("cell", "gene", "d", rows=slice(10, 20)).to_numpy()
    address = values.__array_interface__["data"][0]
    assert is_mapped(address, path / "matrices/gene/cell/d/0.0")
    assert not values.flags.writeable


@pytest.mark.parametrize("name", ["d", "s"])
def test_budgets(db: DafSession, name: str) -> None:
    """As many bytes as the result takes are enough; one fewer is refused with the figures."""
    needed = db.matrix("cell", "gene", name, rows="age < 100").explain().result_bytes
    part = db.matrix("cell", "gene", name, rows="age < 100", max_bytes=needed)
    assert part.shape == (100, N_GENES)
    with pytest.raises(errors.BudgetError) as caught:
        db.matrix("cell", "gene", name, rows="age < 100", max_bytes=needed - 1)
    message = str(caught.value)
    assert f"takes {needed:,} bytes of memory, more than the budget of {needed - 1:,}" in message
    assert f"{part.explain().stored_elements:,} elements" in message
    assert "to read" in message
    assert "scipy" in message
    assert message.endswith("choose fewer rows or columns, or pass a larger max_bytes=")


def test_what_it_prints(db: DafSession) -> None:
    """The text and the JSON say the same."""
    explanation = db.matrix("cell", "gene", "s", rows="age < 100").explain()
    lines = repr(explanation).split("\n")
    assert lines[0].endswith("x.daf.zarr: 100 cell x 200 gene, sparse float64")
    found = [line.split()[0] for line in lines[1:]]
    assert found == ["elements", "layout", "layout", "read", "result", "forms"]
    assert "by cell: read, it takes the least time" in lines[2]
    plain = json.loads(json.dumps(explanation.to_dict()))
    assert (plain["rows"], plain["stored_elements"]) == (100, explanation.stored_elements)
    assert plain["layouts"][0] == asdict(explanation.layouts[0])
    assert plain["layouts"][0]["remedy"] == "relayout_matrix()"


class TestCommandLine:
    """``daf extract --dry-run`` and ``--max-bytes``."""

    def test_dry_run(self, path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        """It prints the explanation, as text or JSON, and writes nothing."""
        call = ["extract", str(path), "--matrix", "s", "--rows", "age < 100", "--dry-run"]
        assert main(call) == 0
        expected = connect(path).matrix("cell", "gene", "s", rows="age < 100").explain()
        assert capsys.readouterr().out == f"{expected!r}\n"
        assert main([*call, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == expected.to_dict()
        assert main([*call, "-o", str(tmp_path / "x.h5ad")]) == 0
        assert list(tmp_path.iterdir()) == []
