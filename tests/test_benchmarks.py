"""Tests that the benchmarks run, on little data; nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import _answers, _plans, _runner, _systems, _works
from benchmarks._data import MatrixData, TableData
from benchmarks._environments import ENVIRONMENTS
from benchmarks._systems._base import Place, System

pytestmark = pytest.mark.benchmarks

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize(
    "data", [MatrixData(600, 300, 30), TableData(2_000)], ids=["matrix", "table"]
)
@pytest.mark.filterwarnings("ignore")  # those of anndata and zarr about what they write
def test_local_systems_answer_alike(tmp_path: Path, data: MatrixData | TableData) -> None:
    """Each system that needs no environment of its own does all works, with one answer."""
    source = data.make(tmp_path)
    works = _works.MATRIX if data.kind == "matrix" else _works.TABLE
    answers: dict[str, dict[str, Any]] = {}
    for info in _systems.INFOS.values():
        if info.environment or data.kind not in info.kinds:
            continue
        place = Place(data, source, tmp_path / info.name)
        place.folder.mkdir()
        system = _systems.make(info.name)
        if not system.in_place:
            system.prepare(place)
        system.open(place)
        for work in works:
            answer = _answers.described(system.run(work))
            expected = answers.setdefault(work.task, answer)
            assert _answers.difference(answer, expected) is None, (info.name, work)
        system.close()
    assert answers.keys() == {work.task for work in works}
    filtered = answers.get("filter_slice", {"shape": [1]})
    assert filtered["shape"][0] > 0


def test_systems_are_listed() -> None:
    """Each has an adapter, which imports nothing of what it measures before it is asked to, and its environment."""
    for info in _systems.INFOS.values():
        assert isinstance(_systems.make(info.name), System)
        assert info.environment is None or info.environment in ENVIRONMENTS
    planned = {name for part in _plans.parts("full") for name in part.systems}
    assert planned == _systems.INFOS.keys()


def test_answers_are_compared_exactly() -> None:
    """Only floats of small answers may differ, and by little."""
    matrix = sp.csr_matrix(np.eye(3))
    assert _answers.difference(*map(_answers.described, (matrix, matrix.tocsc()))) is None
    assert _answers.difference(*map(_answers.described, (matrix, 2 * matrix))) is not None
    mean, near, far = ({"mean": [value]} for value in (0.1, 0.1 * (1 + 1e-12), 0.1 * (1 + 1e-6)))
    assert _answers.difference(mean, near) is None
    assert _answers.difference(mean, far) is not None
    long = np.zeros(5_000)
    wrong = long + 1e-300
    assert _answers.difference(*map(_answers.described, (long, wrong))) is not None


def test_the_program_runs(tmp_path: Path) -> None:
    """It measures each work in processes of their own, and writes a table, a JSON and a picture."""
    command = [sys.executable, "-m", "benchmarks", "--tiny", "--build", str(tmp_path)]
    command += ["--results", str(tmp_path), "--systems", "daf", "limit", "duckdb", "h5py"]
    subprocess.run(command, capture_output=True, text=True, check=True, cwd=FOLDER.parent)
    written = json.loads((tmp_path / "tiny.json").read_text())
    assert {result["problem"] for result in written["results"]} == {None}
    measured = {(row["work"], row["system"]) for row in written["results"] if row["median_seconds"]}
    works = [work.key for work in (*_works.MATRIX, *_works.TABLE)]
    assert {(work, "daf") for work in works} <= measured
    assert (tmp_path / "tiny.md").read_text().count("\n| ") > len(works)
    assert (tmp_path / "tiny.png").stat().st_size > 10_000


def test_another_answer_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a process that ends without one; the others are measured all the same."""
    said: dict[str, dict[str, Any]] = {
        "limit": {"times": [1.0], "answer": {"n": [1]}},
        "daf": {"times": [1.0], "answer": {"n": [2]}},
        "duckdb": {"problem": "the process ended"},
        "polars": {"times": [2.0], "answer": {"n": [1]}},
    }

    def answer_of(command: list[str], _: object) -> dict[str, Any]:
        request = json.loads(command[-1])
        return {} if request["work"] == "prepare-prepare" else dict(said[request["system"]])

    monkeypatch.setattr(_runner, "_answer_of", answer_of)
    runner = _runner.Runner(tmp_path, _runner.Limits(1, 1, 1))
    runner.run(_runner.Part(TableData(2_000), tuple(said), (_works.TABLE[0],)))
    results = {row.system: row for row in runner.results if row.work.mode == "warm"}
    assert "another answer" in results["daf"].problem
    assert [results[name].median for name in said] == [1.0, None, None, 2.0]


def test_data_in_place_are_measured() -> None:
    """Four forms, each with seven tasks; answers of other ways to read them are compared."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "attach.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" again ") == 4 * 7
    assert found.stdout.count("    backed   ") == 3 * 7
    assert found.stdout.count("DuckDB does not read") == 2


def test_training_is_measured() -> None:
    """Beside scipy; and beside annbatch and scDataset, or it says that they are not installed."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "training.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" x\n") + found.stdout.count("is not installed") == 3
    assert found.stdout.count("ours, ") == 3


def test_gathering_is_measured() -> None:
    """Ten slices, each compared with scipy's, and the constants of their costs."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "gather.py"), "--small", "--fit"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("\n") == 1 + 10 + 7 + 1
    assert done.stdout.count("_ns ") == 7


def test_imports_are_measured() -> None:
    """Three ways to store the elements, within two memories each; layouts are compared."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.imports", "--small", "--repeats", "1"],
        capture_output=True,
        text=True,
        check=True,
        cwd=FOLDER.parent,
    )
    assert done.stdout.count(" MiB | ") == 6


def test_the_explorer_is_measured() -> None:
    """Two forms, each with ten questions."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "explore.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count(" bytes ") == 2 * 10


def test_the_doors_are_measured() -> None:
    """It prints a line for each."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "doors.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" modules: ") == 11


def test_every_pair_of_formats_is_equal() -> None:
    """It prints the matrix of all ordered pairs, each compared with what was put in."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "formats.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" ok") == 9 * 9
    assert found.stdout.count(" equal\n") == 9


def test_the_benchmark_of_zarr_tables_runs() -> None:
    """Without the other package, our two ways are compared."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "zarr_search.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count("  -\n") == 9


def test_analytic_queries_are_measured() -> None:
    """All systems give equal answers, and each query has its times and ratios."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "analytics.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = found.stdout.splitlines()
    assert len(lines) == 2 + 16 + 1
    assert lines[-1].startswith("| geometric mean |")


def test_archives_are_measured() -> None:
    """Beside directories, plain writes and zipfile."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "archive.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" x\n") == 12


def test_the_remote_benchmark_runs() -> None:
    """It counts requests and bytes of three tasks in two formats."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "remote.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" ms\n") == 1 + 6


def test_the_benchmark_of_names_runs() -> None:
    """Each step takes some time and memory."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "names.py"), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" GB\n") == 5


@pytest.mark.skipif(not (FOLDER.parent / ".git").exists(), reason="there is no earlier revision")
def test_two_revisions_are_compared() -> None:
    """Both give the same answers, and each task has a line with its ratio."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "compare.py"), "HEAD", "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" x\n") == 15


def test_the_benchmark_of_many_files_runs(tmp_path: Path) -> None:
    """Each task is done in every way, with equal answers."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / "many_files.py"), "--small", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" GB\n") == 4 + 3 + 8


def test_the_benchmark_of_scale_runs(tmp_path: Path) -> None:
    """The session, Sail and Dask answer alike; of one data set, the partitions of the others are none."""
    command = [sys.executable, str(FOLDER / "scale_out.py"), "--small", "--folder", str(tmp_path)]
    measured = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = measured.stdout.splitlines()
    assert measured.stdout.count(" processor seconds") == 3 * 3
    [pruned] = [line for line in lines if line.startswith("one data set") and " dask " in line]
    assert " 2 partitions," in pruned


@pytest.mark.parametrize("form", ["archive", "directory"])
def test_the_benchmark_of_many_members_runs(tmp_path: Path, form: str) -> None:
    """Each step has its processor seconds and its memory."""
    command = [sys.executable, str(FOLDER / "many_members.py"), "--small", "--form", form]
    command += ["--folder", str(tmp_path)]
    measured = subprocess.run(command, capture_output=True, text=True, check=True)
    assert measured.stdout.count(" processor seconds, ") == 7
    assert measured.stdout.startswith("connect")
