"""Tests of the mutation tests: that mutations are made where they should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.covering import measure
from tests.mutants.mutations import Mutation, mutations
from tests.mutants.trying import try_all


def changed(body: str) -> list[str]:
    """Return what the lines of a function's body become."""
    source = "def f(a, b):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return [one.after.strip() for one in mutations("x.py", source)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = b < 3", ["a = b <= 3", "a = b < 4"]),
        ("if a is None: pass", ["if a is not None: pass"]),
        ("a = b and a", ["a = (b or a)"]),
        ("a = not b", ["a = (b)"]),
        ("a = a + b", ["a = (a - b)"]),
        ("a += 1", ["pass", "a += 2"]),
        ("f(a, b)", ["pass"]),
        ("return a", ["return None"]),
        ("return False", ["return True"]),
        ("return 0", ["return 1", "return None"]),
        ("raise KeyError('x')", ["pass"]),
        ("while a: b", ["while (not (a)): b"]),
        ("a = True", ["a = False"]),
        ("'a docstring'", []),
        ("a: int = 5", ["a: int = 6"]),
    ],
)
def test_the_changes_of_a_line(before: str, after: list[str]) -> None:
    """Comparisons, operators, constants, conditions, returns and calls, one change at a time."""
    assert sorted(changed(before)) == sorted(after)


def test_a_mutation_changes_its_line_alone() -> None:
    """Every other line stays, also where the line has letters of several bytes."""
    source = "def f(a):\n    b = 'é' if a > 1 else 'x'\n    return b\n"
    found = mutations("x.py", source)
    assert {one.line for one in found} == {2, 3}
    for one in found:
        before, after = source.splitlines(), one.apply(source).splitlines()
        assert [i for i in range(3) if before[i] != after[i]] == [one.line - 1]
    assert "b = 'é' if a >= 1 else 'x'" in [one.after.strip() for one in found]


SMALL = {
    "daf_storage/__init__.py": "",
    "daf_query/__init__.py": "",
    "daf_query/small.py": """\
def is_small(number):
    while number > 100:
        number -= 1
    return number < 3


def rarely_tested(number):
    return number + 1
""",
    "tests/query/test_small.py": """\
import os
from daf_query.small import is_small, rarely_tested

def test_small():
    assert is_small(2) is True

def test_large():
    assert is_small(102) is False

def test_flaky():
    assert rarely_tested(1) == 2 and "MEASURING" in os.environ

def test_flaky_too():
    assert rarely_tested(1) == 2 and "MEASURING" in os.environ
""",
    "pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n",
}


@pytest.mark.sampled(0)
def test_small_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Noticed, survived, hanging, rarely_tested; a test that fails anyway notices nothing."""
    for name, text in SMALL.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    mutants = Path(__file__).with_name("mutants")
    (tmp_path / "tests" / "mutants").symlink_to(mutants)
    (tmp_path / "tests" / "__init__.py").touch()
    folder = tmp_path / "build"
    plugins = ("xdist.plugin", "pytest_cov.plugin")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others import big libraries
    monkeypatch.setenv("PYTEST_PLUGINS", ",".join(plugins))
    monkeypatch.setenv("MEASURING", "1")
    assert measure(tmp_path, folder, jobs=0) == 0
    monkeypatch.delenv("MEASURING")
    file = tmp_path / "daf_query" / "small.py"
    file.write_text("import os\n\n\n" + SMALL["daf_query/small.py"])
    lines = file.read_text().splitlines()

    def mutation(line: int, before: str, after: str) -> Mutation:
        whole = lines[line - 1]
        assert before in whole
        return Mutation("daf_query/small.py", line, whole, whole.replace(before, after))

    tried = [
        mutation(7, "3", "2"),
        mutation(7, "3", "4"),
        mutation(6, "1", "0"),
        mutation(11, "+", "-"),
    ]
    monkeypatch.setattr("tests.mutants.trying.LIMIT_SECONDS", 1.5)
    monkeypatch.setattr(
        "tests.mutants.trying.IMPORTED_ONCE", ("pytest", "_hypothesis_pytestplugin")
    )
    before = file.read_text()
    found = {one.mutation: one for one in try_all(tried, tmp_path, folder, jobs=1)}
    assert [found[one].is_noticed for one in tried] == [True, False, True, False]
    assert found[tried[0]].by == "tests/query/test_small.py::test_small"
    assert found[tried[2]].by == "limit reached"
    assert not found[tried[3]].by  # tried on the tests of its package, as no test executes it
    assert " mutants again" in capsys.readouterr().out
    assert file.read_text() == before
