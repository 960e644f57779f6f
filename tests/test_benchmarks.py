"""Tests that the benchmarks run, on little data; nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.benchmarks

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize(
    ("script", "lines"),
    [("run.py", 14), ("archive.py", 12), ("packed.py", 21), ("query.py", 15), ("matrix.py", 19)],
)
def test_the_benchmarks_run(script: str, lines: int) -> None:
    """Each comparison finds both sides equal, and prints a line."""
    found = subprocess.run(
        [sys.executable, str(FOLDER / script), "--small"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.count(" x\n") == lines


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
    assert found.stdout.count(" x\n") + found.stdout.count("is not installed") == 5
    assert found.stdout.count("ours, ") == 3


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
