"""Tests of ``%%daf`` cells, in a shell of IPython."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from daf_query import DafSession, connect
from daf_storage import ZarrDaf, copy_all, errors
from tests.support import data_set


def _daf() -> Any:
    return data_set(
        name="tiny",
        cell={"name": ["A", "B", "C"], "age": [1, 2, 3], "donor": ["N1", "N2", "N2"]},
        gene=["CD8A", "CD3E", "CST3"],
        matrices={("cell", "gene", "X"): [[0, 1, 2], [3, 4, 5], [6, 7, 8]]},
    )


def _matchers(shell: Any) -> list[Any]:
    """Return what completes the cells of the extension."""
    matchers = shell.Completer.custom_matchers
    names = [getattr(each, "matcher_identifier", None) for each in matchers]
    return [name for name in names if name == "daf_query.cells"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a shell with the extension, which writes no history, and leaves modules alone."""
    config = Config()
    config.HistoryManager.enabled = False
    folder = str(tmp_path_factory.mktemp("ipython"))
    main = sys.modules["__main__"]
    shell = InteractiveShell.instance(config=config, ipython_dir=folder)
    shell.run_line_magic("load_ext", "daf_query")
    yield shell
    shell.run_line_magic("unload_ext", "daf_query")
    assert all("daf" not in magics for magics in shell.magics_manager.magics.values())
    assert not _matchers(shell)
    shell.restore_sys_module_state()
    InteractiveShell.clear_instance()
    sys.modules["__main__"] = main


@pytest.fixture
def shell(loaded: Any) -> Iterator[Any]:
    """Return the shell, with no variable but a session."""
    before = set(loaded.user_ns)
    loaded.push({"db": connect(_daf())})
    yield loaded
    for name in set(loaded.user_ns) - before:
        del loaded.user_ns[name]


def _run(shell: Any, cell: str) -> tuple[Any, Any]:
    """Run a cell, and return its result and what it showed."""
    with capture_output() as shown:
        result = shell.run_cell(cell)
    return result, shown


def test_a_cell_shows_its_rows(shell: Any) -> None:
    """As a page, and as text; the session need not be named."""
    for line in ("%%daf db", "%%daf"):
        result, shown = _run(shell, f"{line}\nSELECT name FROM cell\nWHERE age > 2;\n")
        assert result.success
        (output,) = shown.outputs
        assert "<td>C</td>" in output.data["text/html"]
        assert "C" in output.data["text/plain"]


@pytest.mark.parametrize(
    ("form", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("arrow", pa.Table)]
)
def test_rows_become_a_frame(shell: Any, form: str, kind: type) -> None:
    """The value of the cell, or a variable, which is not shown."""
    cell = f"%%daf db --to {form}"
    result, _ = _run(shell, f"{cell}\nSELECT age FROM cell")
    assert isinstance(result.result, kind)
    result, shown = _run(shell, f"%%daf --to={form} db -o frame\nSELECT age FROM cell")
    assert (result.result, shown.outputs) == (None, [])
    assert isinstance(shell.user_ns["frame"], kind)
    _run(shell, "%%daf --output rows\nSELECT age FROM cell ORDER BY age")
    assert shell.user_ns["rows"].to_pydict() == {"age": [1, 2, 3]}


def test_parameters_are_variables(shell: Any) -> None:
    """By their names, lists too; or those of a mapping; nothing of it is SQL."""
    shell.push({"least": 1, "donors": ["N2", "'; DROP TABLE cell"], "mine": {"least": 2}})
    query = "SELECT name FROM cell WHERE age > $least AND donor IN $donors"
    _run(shell, f"%%daf -o rows\n{query}")
    assert shell.user_ns["rows"].to_pydict() == {"name": ["B", "C"]}
    _run(shell, "%%daf -o rows --params mine\nSELECT name FROM cell WHERE age > $least")
    assert shell.user_ns["rows"].to_pydict() == {"name": ["C"]}


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("%%daf db\nSELECT agee FROM cell", "VectorNotFoundError: .*agee.*age"),
        ("%%daf db\nSELECT 1 / (age - age) FROM cell", "QueryError: .*[Dd]ivide by zero"),
        ("%%daf\nSELEC 1", "QueryError: "),
        (
            "%%daf\nSELECT name FROM cell WHERE age > $most",
            r"parameter \$most, and there is no variable",
        ),
        ("%%daf nope\nSELECT 1", "there is no 'nope'; there are the sessions db"),
        ("%%daf x\nSELECT 1", "the variable 'x' is no session"),
        ("%%daf --too pandas\nSELECT 1", "unrecognized arguments: --too"),
        ("%%daf db\n\n", "no SQL in the cell"),
        ("%%daf\nSELECT $x, $beta, $alpha", r"the parameter \$alpha, and there is no variable"),
        ("%%daf --params nope\nSELECT 1", "--params: there is no variable 'nope'"),
        ("%%daf a b\nSELECT 1", r"InvalidInputError: .*arguments: b; write %%daf \[SESSION\]"),
        ("%%daf --to excel\nSELECT 1", "InvalidInputError: .*--to: invalid choice: 'excel'"),
        ("%%daf -o 1x\nSELECT 1", "InvalidInputError: .*'1x' is no name of a variable"),
        ("%%daf --params a-b\nSELECT 1", "InvalidInputError: .*'a-b' is no name of a variable"),
        ("%%daf a-b\nSELECT 1", "InvalidInputError: .*'a-b' is no name of a variable"),
        ("%%daf -o\nSELECT 1", "InvalidInputError: .*expected one argument"),
        ("%%daf 'open\nSELECT 1", "InvalidInputError: .*cannot read"),
        ("%daf connect", r"InvalidInputError: .*write %daf connect PATH \[NAME\]"),
        ("%daf connect a b c", r"InvalidInputError: .*write %daf connect PATH \[NAME\]"),
        ("%daf connect a 1x", "InvalidInputError: .*'1x' is no name of a variable"),
        ("%daf connect a --mode w", "InvalidInputError: .*argument --mode: invalid choice: 'w'"),
        ("%daf connect a --to arrow", "InvalidInputError: .*unrecognized arguments: --to"),
        ("%daf disconnect", "write %daf connect PATH"),
        ("%daf connect nothing.daf.zarr", "SourceNotFoundError: .*nothing.daf.zarr"),
    ],
)
def test_an_error_is_one_sentence(
    shell: Any, cell: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cell fails, so that a notebook that is executed stops; no line of the program is shown."""
    shell.push({"x": 1})
    result = shell.run_cell(cell)
    assert isinstance(result.error_in_exec, errors.DafError)
    shown = capsys.readouterr()
    printed = (shown.out + shown.err).strip()
    assert re.search(sentence, printed), printed
    assert "Traceback" not in printed
    assert ".py" not in printed
    assert len(printed.splitlines()) <= 3  # a syntax error shows the place


def test_numbered_parameters_are_no_variables(shell: Any) -> None:
    """Nor is what stands in a string."""
    shell.push({"zeta": 1})
    assert _run(shell, "%%daf -o rows\nSELECT $zeta + 1 AS x, '$no' AS y")[0].success
    assert shell.user_ns["rows"].to_pydict() == {"x": [2], "y": ["$no"]}


def test_which_session_is_asked(shell: Any) -> None:
    """The only one, or ``db``; of several others one has to be named."""
    shell.push({"one": connect(_daf()), "two": connect(_daf())})
    assert _run(shell, "%%daf\nSELECT 1 AS x")[0].success
    del shell.user_ns["db"]
    result, _ = _run(shell, "%%daf\nSELECT 1 AS x")
    assert "which session? there are the sessions one, two" in str(result.error_in_exec)


def test_a_data_set_is_connected(shell: Any, tmp_path: Path) -> None:
    """As a variable; its tables are named."""
    path = tmp_path / "my data.daf.zarr"
    with ZarrDaf(path, "w") as daf:
        copy_all(_daf(), daf)
    result, shown = _run(shell, f"%daf connect '{path}' --mode=r+ tiny")
    assert result.success
    assert "tiny = DafSession(my data) with the tables cell, gene" in shown.stdout
    assert _run(shell, "%%daf tiny -o rows\nSELECT count(*) AS n FROM cell")[0].success
    assert shell.user_ns["rows"].to_pydict() == {"n": [3]}
    shell.user_ns["tiny"].close()


def _completed(shell: Any, cell: str) -> list[str]:
    """Return what IPython offers where a bar stands in a cell, each in its place."""
    before, _, after = cell.partition("|")
    with provisionalcompleter():
        found = list(shell.Completer.completions(before + after, len(before)))
    return [before[: each.start] + each.text for each in found]


def test_the_sql_is_completed(shell: Any) -> None:
    """Tables, columns and genes, in any line, of the session that is named; nothing of Python."""
    start = "%%daf db --to pandas\nSELECT age,\n  "
    assert _completed(shell, f"{start}don| FROM cell") == [f"{start}donor"]
    found = _completed(shell, f"{start}X['CD|\nFROM cell")
    assert found == [f"{start}X['CD3E']", f"{start}X['CD8A']"]
    assert _completed(shell, f"{start}age FROM ce|") == [f"{start}age FROM cell"]
    assert _completed(shell, "%%daf\nSEL|") == ["%%daf\nSELECT"]
    assert _completed(shell, "%%daf nope\nSEL|") == []
    assert _completed(shell, "%%daf --to\nSEL|") == []
    assert all("donor" not in each for each in _completed(shell, "don|"))


def test_variables_are_completed(shell: Any) -> None:
    """Parameters of the SQL by the variables of the notebook, but for those of IPython."""
    shell.push({"least": 1, "lest": 2, "Input": 3})
    start = "%%daf db\nSELECT age FROM cell WHERE age > $"
    assert _completed(shell, f"{start}le|") == [f"{start}least", f"{start}lest"]
    assert _completed(shell, f"{start}In|") == [f"{start}Input"]


def test_rows_that_are_not_shown_are_counted(shell: Any) -> None:
    """In text, as on the page."""
    for count, more in ((10, None), (11, "11"), (2000, "more than 1,000")):
        sql = f"%%daf db\nSELECT value FROM generate_series(1, {count})"
        text = _run(shell, sql)[1].outputs[0].data["text/plain"]
        assert (
            text.rpartition("\n")[2] == f"the first 10 of {more} rows"
            if more
            else "rows" not in text
        )


def test_an_interrupted_cell_is_one_sentence(
    shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cell fails, and shows none of the lines of the program."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DafSession, "sql", interrupted)
    result = shell.run_cell("%%daf db\nSELECT 1")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    shown = capsys.readouterr()
    assert (shown.out + shown.err).strip() == "KeyboardInterrupt: the query was interrupted"
