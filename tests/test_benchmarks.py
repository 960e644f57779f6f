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
    command += ["--results", str(tmp_path), "--systems", "daf", "limit"]
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


PROGRAMS: dict[str, dict[str, int]] = {
    "attach.py --small": {" again ": 4 * 7, "    backed   ": 3 * 7, "DuckDB does not read": 2},
    "gather.py --small --fit": {"\n": 1 + 10 + 7 + 1, "_ns ": 7},
    "-m benchmarks.imports --small --repeats 1": {" MiB | ": 6},
    "explore.py --small": {" bytes ": 2 * 10},
    "doors.py --small": {" modules: ": 11},
    "formats.py --small": {" ok": 3 * 3, " equal\n": 3},
    "zarr_search.py --small": {"  -\n": 9},
    "analytics.py --small": {"\n": 2 + 16 + 1, "| geometric mean |": 1},
    "archive.py --small": {" x\n": 12},
    "remote.py --small": {" ms |\n": 4 * 7},
    "names.py --small": {" GB\n": 5},
    "compare.py HEAD --small": {" x\n": 15},
    "many_files.py --small --form h5ad --folder": {" GB\n": 3 + 2 + 5},
    "many_members.py --small --form archive --folder": {" processor seconds, ": 7},
    "many_members.py --small --form directory --folder": {" processor seconds, ": 7},
}
"""Commands, and how often their output has what stands on a line of it."""


def output_of(command: str, folder: Path) -> str:
    """Return what a program prints; it compares the answers that it measures itself."""
    words = command.split()
    if words[0] != "-m":
        words[0] = str(FOLDER / words[0])
    if words[-1] == "--folder":
        words.append(str(folder))
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, cwd=FOLDER.parent
    )
    return done.stdout


@pytest.mark.parametrize("command", PROGRAMS)
def test_a_program_measures_equal_answers(command: str, tmp_path: Path) -> None:
    """It has a line for each thing that is measured."""
    if command.startswith("compare.py") and not (FOLDER.parent / ".git").exists():
        pytest.skip("there is no earlier revision")
    printed = output_of(command, tmp_path)
    assert {part: printed.count(part) for part in PROGRAMS[command]} == PROGRAMS[command]


def test_training_is_measured(tmp_path: Path) -> None:
    """Beside scipy; and beside annbatch and scDataset, or it says that they are not installed."""
    printed = output_of("training.py --small", tmp_path)
    assert printed.count(" x\n") + printed.count("is not installed") == 3
    assert printed.count("ours, ") == 3


def test_scale_is_measured(tmp_path: Path) -> None:
    """The session, Sail and Dask answer alike; of one data set, the partitions of the others are none."""
    printed = output_of("scale_out.py --small --folder", tmp_path)
    assert printed.count(" processor seconds") == 3 * 3
    lines = printed.splitlines()
    [pruned] = [line for line in lines if line.startswith("one data set") and " dask " in line]
    assert " 2 partitions," in pruned
