"""Tests of what is released: metadata, the files of a project, and the smoke test of its wheel.

``make dist`` builds the distributions and installs them; that takes minutes and is not done here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.release import __main__ as smoke
from tests.release.pythons import installed_pythons, supported_versions

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT: dict[str, Any] = PYPROJECT["project"]


def test_the_version_is_in_one_place() -> None:
    """The changelog begins with it; nothing else repeats it."""
    version = PROJECT["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    headings = re.findall(r"^## (.+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == version
    assert "version:" not in (ROOT / "CITATION.cff").read_text().replace("cff-version:", "")
    for package in ("daf_query", "daf_storage"):
        assert f'"{version}"' not in (ROOT / package / "__init__.py").read_text()


def test_classifiers() -> None:
    """Each supported Python from the lowest on, that it has types, whom it is for, and about what."""
    classifiers = PROJECT["classifiers"]
    versions = supported_versions()
    assert PROJECT["requires-python"] == f">={versions[0]}"
    minors = [int(version.removeprefix("3.")) for version in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert "Typing :: Typed" in classifiers
    for start in ("Intended Audience :: ", "Topic :: ", "Development Status :: "):
        assert any(each.startswith(start) for each in classifiers)


def test_the_sdist_has_what_the_tests_read() -> None:
    """All that is committed, but for what is about the repository alone."""
    included = {
        path.removeprefix("/")
        for path in PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    }
    assert all((ROOT / path).exists() for path in included)
    if not (ROOT / ".git").exists():
        pytest.skip("this is no repository")
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    committed = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert committed - included <= {".gitignore", "pyproject.toml"}  # which hatch adds


def test_extras() -> None:
    """``all`` has each extra but those that are large or for other implementations."""
    extras = PROJECT["optional-dependencies"]
    [everything] = extras["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    apart = {"all", "demo", "spark", "testing", "training"}
    assert named == set(extras) - apart


def test_targets_of_the_guide() -> None:
    """The commands that it names are in the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text())) <= targets
    assert "dist" in targets


def test_what_has_to_pass() -> None:
    """The guide lists the commands of ``.ci/run``, in their order."""
    lines = re.findall(
        r"^(?:target|side_by_side) (.+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE
    )
    commands = " ".join(lines).split()
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    assert ", ".join(f"`make {each}`" for each in commands[:-1]) in " ".join(guide.split())
    assert f"and `make {commands[-1]}`." in guide


def test_the_readme_is_a_landing_page() -> None:
    """It is short, and shows a query before anything else."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 110
    first = text[text.index("```") :]
    assert first.startswith("```console\n$ daf sql pbmc.h5ad ")
    assert "\\" not in first.splitlines()[1]


def test_ratios_of_the_readme() -> None:
    """What it says of other systems is what was measured last."""
    measured: dict[tuple[str, str], str] = {}
    systems: list[str] = []
    results = [ROOT / "benchmarks/results" / name for name in ("daily.md", "peers.md")]
    for line in "\n".join(each.read_text() for each in results).splitlines():
        task, *cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        systems = cells if "daf-query" in cells else systems
        for system, cell in zip(systems, cells, strict=False):
            measured.setdefault((system, task), cell.replace("*", ""))
    rows = {"scanpy, `backed`": "anndata, backed", "DuckDB on Parquet": "DuckDB on Parquet"}
    rows["TileDB-SOMA"] = "TileDB-SOMA"
    text = (ROOT / "README.md").read_text()
    for title, system in rows.items():
        [said] = re.findall(rf"^\| {re.escape(title)} \| (.*?) \|", text, re.MULTILINE)
        for task, _, ratio in (each.rpartition(": ") for each in said.split("; ")):
            assert measured[system, task] == ratio


@pytest.mark.parametrize("code", [0, 3])
def test_installing_says_how_far_it_is(tmp_path: Path, code: int) -> None:
    """What pip says is shown if it fails, and else what came of it, without its warnings."""
    (tmp_path / "pip.py").write_text(
        "import sys\n"
        "print('WARNING: Location is ignored', file=sys.stderr)\n"
        "print('Collecting numpy')\n"
        "print('Installing collected packages: numpy')\n"
        f"sys.exit({code})\n"
    )
    command = [sys.executable, str(ROOT / "requirements/install.py"), "numpy"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert ("Collecting numpy" in done.stderr) == (code != 0)
    assert "WARNING" not in done.stdout
    assert ("0 packages in" in done.stdout) == (code == 0)


def test_pythons_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of pyenv is taken, the newest; one that is not there is said, and is no success."""
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for version in ("3.11.2", "3.11.7"):
        python = tmp_path / "versions" / version / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
    pythons = installed_pythons(["3.11", "3.12"])
    assert pythons == {"3.11": tmp_path / "versions" / "3.11.7" / "bin" / "python", "3.12": None}
    monkeypatch.setattr(smoke, "installed_pythons", lambda _: {"3.12": None})
    monkeypatch.setattr(smoke, "_CONTENTS", ())
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w"):
        pass
    assert smoke.main(tmp_path) == 1
    assert "Python 3.12: not on this machine, not tested" in capsys.readouterr().out


def test_a_wheel_without_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It fails, by the name of the file; so does a folder without a wheel."""
    assert smoke.main(tmp_path) == 1
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w") as archive:
        archive.writestr("daf_query/py.typed", "")
        archive.writestr("daf_storage/py.typed", "")
    monkeypatch.setattr(smoke, "installed_pythons", lambda _: {"3.11": Path("python")})
    monkeypatch.setattr(smoke, "_problem", lambda *_: "")
    assert smoke.main(tmp_path) == 1
    assert "has no daf_query/explore/static/index.html" in capsys.readouterr().out
