"""Tests of the documentation site: what `make docs` needs, without a build."""

from __future__ import annotations

import doctest
import inspect
import io
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import daf_query
import daf_storage

pytest.importorskip("sphinx")
pytest.importorskip("numpydoc")

from numpydoc.docscrape import NumpyDocString

from docs._site import api_pages, check, completeness, sql_functions
from docs._site.common_parameters import COMMON_PARAMETERS
from docs._site.docstrings import undescribed
from docs._site.examples import Example, examples, setup_code
from docs._site.public_names import INNER_MEMBERS, error_names, public_names
from docs._site.references import _public

DOCS = Path(__file__).parents[1] / "docs"
LOCK = DOCS.parent / "requirements" / "lock.txt"


def test_every_public_name_has_an_api_page(tmp_path: Path) -> None:
    """With a directive for itself and for each of its public members."""
    api_pages.write(tmp_path)
    for name in public_names():
        page = (tmp_path / f"{name.full_name}.rst").read_text()
        assert name.name in page
        assert [member for member in name.members if f":: {name.name}.{member}\n" not in page] == []
        assert (
            f"   {name.name} <{name.full_name}>" in (tmp_path / f"{name.package}.rst").read_text()
        )
    errors_page = (tmp_path / "daf_storage.errors.rst").read_text()
    assert [error for error in error_names() if f":: {error}\n" not in errors_page] == []


def test_common_parameters_are_parameters() -> None:
    """Each of them is left out by some docstring, so that none describes what is gone."""
    left_out = set()
    for name in public_names():
        values = [name.value, *(getattr(name.value, member) for member in name.members)]
        for value in values:
            if callable(value) and not inspect.ismodule(value):
                try:
                    signature = inspect.signature(value)
                except ValueError:
                    continue
                left_out |= set(undescribed(NumpyDocString(inspect.getdoc(value) or ""), signature))
    assert sorted(set(COMMON_PARAMETERS) - left_out) == []


def test_every_page_of_a_public_name_is_complete() -> None:
    """Signature, parameters, what is returned, errors, and an example that runs."""
    assert completeness.gaps() == []


def test_members_that_are_not_shown_are_members() -> None:
    """Of the classes that the list names."""
    classes = {name.name: name.value for name in public_names() if isinstance(name.value, type)}
    for class_name, members in INNER_MEMBERS.items():
        assert [name for name in members.split() if not hasattr(classes[class_name], name)] == []


def test_examples_are_of_public_names() -> None:
    """No section is left over from a name that is gone."""
    available = {name.name for name in public_names()}
    available |= {f"{name.name}.{member}" for name in public_names() for member in name.members}
    assert sorted(set(examples()) - available) == []


@pytest.mark.parametrize(
    "example", [item for item in examples().values() if item.code], ids=lambda item: item.name
)
def test_an_example_of_the_api_pages_runs(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It prints what is shown, on the small data set with which all start."""
    if example.reason_not_run is not None:
        pytest.skip(example.reason_not_run)
    monkeypatch.chdir(tmp_path)
    code = setup_code() + example.code + "\n"
    test = doctest.DocTestParser().get_doctest(code, {}, example.name, None, 0)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    report = io.StringIO()
    runner.run(test, out=report.write)
    assert runner.failures == 0, report.getvalue()


@pytest.mark.parametrize(
    ("written", "leads_to"),
    [
        ("MatrixSlice", "daf_query.MatrixSlice"),
        ("DafSession.sql", "daf_query.DafSession.sql"),
        ("daf_query.slice._matrix_slice.MatrixSlice", "daf_query.MatrixSlice"),
        ("QueryError", "daf_storage.errors.QueryError"),
        ("DafSession.nothing", None),
        ("numpy.view", None),
    ],
)
def test_references_lead_to_public_names(written: str, leads_to: str | None) -> None:
    """However they are written; names of others do not."""
    assert _public(written) == leads_to


def test_the_check_finds_what_is_wrong(tmp_path: Path) -> None:
    """Links into nowhere, malformed ones, scripts from elsewhere, and names without a page."""
    (tmp_path / "a.html").write_text(
        "<h1 id='top'>A</h1><a href='#top'>ok</a><a href='b.html#here'>ok</a><a href='gone.html'>x</a>"
        "<a href='b.html#gone'>x</a><a href='https:///'>x</a><a href='//host/x'>x</a><a href='ftp://host/'>x</a>"
        "<script src='https://cdn.example/x.js'></script><img src='gone.png'>"
    )
    (tmp_path / "b.html").write_text("<p id='here'>B</p><a href='https://example.org'>ok</a>")
    found = [line for line in check.problems(tmp_path) if line.startswith(("a.html", "b.html"))]
    assert [re.findall("'(.*?)'", line)[0] for line in found] == [
        "//host/x",
        "b.html#gone",
        "ftp://host/",
        "gone.html",
        "https:///",
        "https://cdn.example/x.js",
        "gone.png",
    ]
    assert "daf_query.connect has no page" in check.problems(tmp_path)


def test_every_page_is_in_the_contents() -> None:
    """The index pages of the sections name each page, as a link and in the tree."""
    for index in DOCS.glob("*/index.md"):
        if index.parent.name == "design":
            continue
        text = index.read_text()
        for page in index.parent.glob("*.md"):
            if page != index:
                assert f"\n{page.stem}\n" in text, page
                assert f"({page.name})" in text, page


def test_the_functions_of_sql_are_those_of_the_engine() -> None:
    """The page is what the engine lists; `python -m docs._site.sql_functions` writes it again."""
    if f"datafusion=={version('datafusion')}" not in LOCK.read_text():
        pytest.skip("the page is that of the engine in requirements/lock.txt")
    assert sql_functions.PAGE.read_text() == sql_functions.page()


def test_each_function_that_is_added_is_known_to_the_engine() -> None:
    """The page shows how it is called."""
    with daf_query.connect(daf_storage.MemoryDaf(name="empty")) as session:
        rows = session.sql("SELECT DISTINCT routine_name AS n FROM information_schema.routines")
        available = set(rows.to_pydict()["n"])
    assert {call.partition("(")[0] for call in sql_functions.OURS} <= available


def test_every_extra_is_on_the_page_of_the_installation() -> None:
    """And no other."""
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    page = (DOCS / "tutorial" / "installation.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(re.findall("`(.*?)`", " ".join(rows))) == sorted(extras)
