"""Tests of the documentation site: what `make docs` needs, without a build."""

from __future__ import annotations

import doctest
import inspect
import io
import re
import tomllib
import zlib
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import daf_query
import daf_storage

pytest.importorskip("sphinx")
pytest.importorskip("numpydoc")

from numpydoc.docscrape import NumpyDocString

from docs._site import (
    api_pages,
    check,
    completeness,
    diagrams,
    foreign_names,
    pages,
    sql_functions,
)
from docs._site.common_parameters import COMMON_PARAMETERS
from docs._site.docstrings import completed, undescribed
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


def test_pages_of_names_that_are_gone_are_deleted(tmp_path: Path) -> None:
    """And pages that are the same are not touched, so that a second build is fast."""
    (tmp_path / "daf_query.gone.rst").write_text("gone")
    api_pages.write(tmp_path)
    assert not (tmp_path / "daf_query.gone.rst").exists()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    api_pages.write(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_types_and_constants_say_what_they_are() -> None:
    """By the docstring below their definition."""
    silent = [
        name.full_name
        for name in public_names()
        if name.category == "data" and not any(api_pages.docstring_of_data(name))
    ]
    assert silent == []


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


def test_a_name_without_an_example_is_noticed() -> None:
    """And one without its parameters, its result or its errors."""

    def read(odd: str) -> int:
        """Read it."""
        raise NotImplementedError

    found = list(completeness._of_value(read, "read", is_class=False))
    assert [gap.split("; ")[0] for gap in found] == [
        "the parameter 'odd' is not described",
        "what it returns is not described",
        "its errors are not described",
        "no example",
    ]


def test_members_that_are_not_shown_are_members() -> None:
    """Of the classes that the list names."""
    classes = {name.name: name.value for name in public_names() if isinstance(name.value, type)}
    for class_name, members in INNER_MEMBERS.items():
        assert [name for name in members.split() if not hasattr(classes[class_name], name)] == []


def test_examples_are_of_public_names() -> None:
    """No section is left over from a name that is gone."""
    known = {name.name for name in public_names()}
    known |= {f"{name.name}.{member}" for name in public_names() for member in name.members}
    assert sorted(set(examples()) - known) == []


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


def test_a_docstring_is_completed() -> None:
    """With the parameters that it leaves out, in their places, and with what is returned."""

    def read(axis: str, name: str, *, odd: int = 0) -> list[str]:
        """Return the names.

        Parameters
        ----------
        name
            A special name.
        """
        raise NotImplementedError

    lines = "\n".join(completed(read, (inspect.getdoc(read) or "").split("\n")))
    assert lines.index("axis : ``str``") < lines.index("A special name") < lines.index("Returns")
    assert "The names." in lines
    assert "odd" not in lines, "no description is made up"


@pytest.mark.parametrize("project", foreign_names.PROJECTS)
def test_foreign_names_exist(project: str) -> None:
    """In the installed packages; some are defined elsewhere and exported under this name."""
    for name in foreign_names.PROJECTS[project].names:
        module, _, last = name.rpartition(".")
        if project == "scanpy":  # its import takes seconds
            spec = find_spec(project)
            assert spec is not None
            assert spec.origin is not None
            sources = Path(spec.origin).parent.rglob("*.py")
            assert any(f"def {last}(" in path.read_text() for path in sources), name
        else:
            assert hasattr(import_module(module), last), name


def test_an_inventory_can_be_read() -> None:
    """In the format that Sphinx reads."""
    content = foreign_names.inventory("zarr", foreign_names.PROJECTS["zarr"])
    *header, body = content.split(b"\n", 4)
    assert header[0] == b"# Sphinx inventory version 2"
    assert (
        zlib.decompress(body).splitlines()[0]
        == b"zarr.Array py:class 1 api/zarr/array/#zarr.Array -"
    )


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
        known = set(rows.to_pydict()["n"])
    assert {call.partition("(")[0] for call in sql_functions.OURS} <= known


def test_results_of_benchmarks_become_sections(tmp_path: Path) -> None:
    """With their pictures, and without links to files that are no pages."""
    folder = tmp_path / "results"
    folder.mkdir()
    assert pages.benchmark_results(folder) == ""
    (folder / "daily.md").write_text(
        "# Daily\n\n[run](../run.py) ![plot](daily.png)\n\n## Memory\n"
    )
    (folder / "daily.png").touch()
    (folder / "daily-memory.png").touch()
    assert pages.benchmark_results(folder).split() == [
        *("##", "Daily", "run", "![plot](../../benchmarks/results/daily.png)", "###", "Memory"),
        "![daily-memory](../../benchmarks/results/daily-memory.png)",
    ]


def test_every_extra_is_on_the_page_of_the_installation() -> None:
    """And no other."""
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    page = (DOCS / "tutorial" / "installation.md").read_text()
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(re.findall("`(.*?)`", " ".join(rows))) == sorted(extras)


def test_graphs_are_drawn_with_all_arrows_down() -> None:
    """Each node stands once, below all that point to it; other diagrams are not drawn."""
    arrows = diagrams.graph_of("graph TD\n    a --> b\n    b --> c\n    a --> c\n    d --> c\n")
    layers = diagrams.layers_of(arrows)
    depth = {name: row for row, layer in enumerate(layers) for name in layer}
    assert sorted(depth) == ["a", "b", "c", "d"]
    assert all(depth[above] < depth[below] for above, below in arrows)
    picture = diagrams.svg_of(arrows)
    assert picture.count("<rect") == len(depth)
    assert picture.count("marker-end") == len(arrows)
    assert diagrams.graph_of("erDiagram\n    a --> b\n") == []


def test_the_first_sentence_of_a_page_is_prose() -> None:
    """Not an item of a list, and not the head of a design note."""
    publish_doctree = pytest.importorskip("docutils.core").publish_doctree
    document = publish_doctree("- item\n\nProblem. Files are large. They grow.\n\nMore.\n")
    assert pages.first_sentence(document) == "Files are large"
    assert pages.first_sentence(publish_doctree("- item\n")) == ""
