"""Tests that every code block of the README and the docs runs and prints what it says.

``console`` blocks are commands (``$ daf ...``) with their output; ``pycon`` blocks are Python
sessions.  Both run in order, per page, in a folder that holds ``pbmc.h5ad`` and, except in the
tutorial and the README, ``pbmc.daf.zarr``.  ``...`` in an output stands for anything.  A comment above a block says what is
special: ``<!-- not run: reason -->``; ``<!-- run where NAME is installed -->``, of packages that are not everywhere;
``<!-- typed -->`` into a prompt; ``<!-- served -->`` by a process, until it is interrupted.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from daf_query.cli import main
from tests.support import PBMC, write_certificate
from tests.torture.campaigns import CAMPAIGNS

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
GALLERY = ROOT / "docs" / "gallery"
"""Notebooks, which run in kernels: `tests/gallery`."""
ESCAPES = re.compile(r"\x1b\[[\d;]*m")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STARTS_EMPTY = {"README.md", "first-steps.md"}
DATA = {"text", "json", "mermaid", ""}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    reason: str | None
    mark: str
    """What the comment above it says."""


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page, with the reason not to run them if there is one."""
    text = page.read_text()
    for match in FENCE.finditer(text):
        above = text[: match.start()].rstrip().rsplit("\n", 1)[-1]
        comment = re.fullmatch(r"\s*<!-- (.+) -->", above)
        mark = comment.group(1) if comment else ""
        reason = re.fullmatch("not run: (.+)", mark)
        package = re.fullmatch(r"run where (\w+) is installed", mark)
        indent = match.group(1)
        body = "".join(
            line.removeprefix(indent) for line in match.group(3).splitlines(keepends=True)
        )
        line = text.count("\n", 0, match.start()) + 1
        not_run = reason.group(1) if reason else None
        if package is not None and find_spec(package.group(1)) is None:
            not_run = f"{package.group(1)} is not installed"
        yield Block(match.group(2), body, line, not_run, mark)


def check_output(expected: str, found: str, where: str) -> None:
    """Compare an output, with ``...`` for anything."""
    checker = doctest.OutputChecker()
    assert checker.check_output(expected, found, FLAGS), (
        f"{where}\nexpected:\n{expected}\nfound:\n{found}"
    )


def run_console(block: Block, where: str) -> None:
    """Run the commands of a block and compare what they print."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"{where}: a console block starts with a command"
    for part in parts[1:]:
        command, expected = split_command(part)
        words = shlex.split(command)
        assert words[0] == "daf", f"{where}: only daf commands run here: {command}"
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(words[1:])
            except SystemExit as end:
                code = int(end.code or 0)
        assert (code == 0) == (not err.getvalue()), f"{where}: {command}: {err.getvalue()}"
        check_output(expected, out.getvalue() + err.getvalue(), f"{where}: {command}")


def run_typed(block: Block, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Type the lines of a block into the prompt that its command opens."""
    command, _, session = block.text.removeprefix("$ daf ").partition("\n")
    prompts = re.compile(r"^(?:daf>|\.\.\.>) (.*)\n", re.MULTILINE)
    keys = "".join(f"{line}\r" for line in prompts.findall(session))
    out = io.StringIO()
    for stream in (sys.stdin, out):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("PAGER", "cat")
    with (
        create_pipe_input() as typed,
        create_app_session(input=typed, output=DummyOutput()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        typed.send_text(f"{keys}\x04")
        assert main(shlex.split(command)) == 0
    check_output(prompts.sub("", session), ESCAPES.sub("", out.getvalue()), where)


def run_served(block: Block, where: str) -> None:
    """Start the servers of a block at a free port, run its other commands, and interrupt it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    text = re.sub(r"(?<=[ /])0(\.0\.0\.)0", r"127\g<1>1", block.text)
    text = re.sub(r"(--port |127\.0\.0\.1:)\d+", rf"\g<1>{port}", text)
    for path in re.findall(r"\w+\.h5ad", text):
        shutil.copy(PBMC, path)
    if "--tls-cert" in text:
        write_certificate(Path.cwd())
        Path("token.txt").write_text("correct-horse-battery-staple\n")
    prefix = "" if block.language == "sh" else r"\$ "
    with contextlib.ExitStack() as servers:
        for part in re.split(f"^{prefix}(?=daf )", text, flags=re.MULTILINE)[1:]:
            command, expected = split_command(part)
            words = shlex.split(command.removesuffix(" &\n"))
            if words[1] in {"serve", "explore"}:
                servers.enter_context(serving(words, port, expected, where))
            else:
                with contextlib.redirect_stdout(io.StringIO()):
                    assert main(words[1:]) == 0, f"{where}: {command}"


@contextlib.contextmanager
def serving(words: list[str], port: int, expected: str, where: str) -> Iterator[None]:
    """Run a command that prints what is expected, and ends in order when it is interrupted."""
    words = [sys.executable, "-m", "daf_query.cli", *words[1:]]
    process = subprocess.Popen(
        words if "--port" in words else [*words, "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": "true"},
        # Tests that run in the background of a shell ignore interrupts, and so would the server.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - only a signal is set
    )
    try:
        assert process.stdout is not None
        shown = process.stdout.readline()
        while "Ctrl-C" not in shown:
            line = process.stdout.readline()
            assert line, f"{where}: it ended: {shown}"
            shown += line
        check_output(expected or "...", shown, where)
        yield
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0, where
    finally:
        process.kill()


def split_command(part: str) -> tuple[str, str]:
    """Return the command, which goes on while quotes are open or a line ends in a backslash."""
    lines = part.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        command = "".join(lines[:count]).replace("\\\n", " ")
        with contextlib.suppress(ValueError):
            shlex.split(command)
            if not lines[count - 1].endswith("\\\n"):
                return command, "".join(lines[count:])
    raise AssertionError(f"this command does not end: {part}")


def run_pycon(block: Block, names: dict[str, Any], where: str) -> None:
    """Run a Python session and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
    assert test.examples, f"{where}: a pycon block holds no example"
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, report.getvalue()


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data set that most pages start with, made as the tutorial says."""
    folder = tmp_path_factory.mktemp("docs")
    path = folder / "pbmc.daf.zarr"
    assert (
        main(["import", str(PBMC), str(path), "--obs-is", "cell", "--var-is", "gene", "--quiet"])
        == 0
    )
    return path


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent != GALLERY],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: Path
) -> None:
    """In order, with the output that the page shows."""
    if "import geodatafusion" in page.read_text():
        pytest.importorskip("geodatafusion")
    run_page(page, tmp_path, monkeypatch, imported)


def run_page(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, imported: Path
) -> dict[str, Any]:
    """Run the blocks of a page in a folder, and return the names that its sessions leave."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    # Pages are sessions at a prompt; pyspark takes a worker of pytest-xdist for its own doctests.
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    shutil.copy(PBMC, folder / "pbmc.h5ad")
    if page.name not in STARTS_EMPTY:
        shutil.copytree(imported, folder / "pbmc.daf.zarr")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.reason is not None or block.language in DATA:
            continue
        if block.mark == "typed":
            run_typed(block, where, monkeypatch)
        elif block.mark == "served":
            run_served(block, where)
        elif block.language == "console":
            run_console(block, where)
        elif block.language == "pycon":
            run_pycon(block, names, where)
        else:
            raise AssertionError(f"{where}: a {block.language} block has to run or say why not")
    return names


def expression() -> pd.DataFrame:
    """Return the genes of ``raw``, a row for each cell, by its type and its name."""
    with warnings.catch_warnings(action="ignore"):
        adata = anndata.read_h5ad(PBMC)
    values = adata.raw.X.toarray().astype("float64")
    rows = [adata.obs["bulk_labels"].astype(str), adata.obs_names]
    return pd.DataFrame(values, rows, adata.raw.var_names)


def test_what_a_sparse_matrix_does_not_store_counts_in_recipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, imported: Path
) -> None:
    """Totals of all cells, and means of all cells of a type, are those that pandas computes."""
    names = run_page(ROOT / "docs/how-to/long-form.md", tmp_path, monkeypatch, imported)
    genes = expression()
    totals = names["totals"].set_index("name")["total"]
    np.testing.assert_allclose(
        totals[genes.index.get_level_values(1)], genes[["CST3", "NKG7"]].sum(axis=1)
    )
    types = names["types"].set_index("type")
    by_type = genes["NKG7"].groupby(level=0)
    np.testing.assert_allclose(types["mean"], by_type.mean()[types.index])
    assert types["cells"].tolist() == by_type.size()[types.index].tolist()


def test_links_lead_somewhere() -> None:
    """Relative links between the pages and to files exist."""
    for page in [*PAGES, *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_picture_is_shown_and_described() -> None:
    """Each file in docs/images is on a page, with words in its place for who cannot see it."""
    shown = {
        Path(target).name
        for page in PAGES
        for words, target in re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", page.read_text())
        if len(words.split()) > 2
    }
    pictures = {path.name for path in (ROOT / "docs" / "images").iterdir()}
    assert pictures - shown == set()
    assert not any(
        "://" in address
        for path in (ROOT / "docs" / "images").glob("*.svg")
        for address in re.findall(r"""(?:href=|url\()["']?([^"')]+)""", path.read_text())
    )


def test_promises_name_tests_that_exist() -> None:
    """Each test file and each campaign that stands behind a promise is there."""
    text = (ROOT / "docs/explanation/trust.md").read_text()
    files = set(re.findall(r"`((?:[a-z/]+/)?test_\w+\.py)`", text))
    assert len(files) > 20
    assert [name for name in sorted(files) if not (ROOT / "tests" / name).is_file()] == []
    campaigns = {name.split(" ")[0] for name in CAMPAIGNS} | {"full disk"}
    named = {
        name
        for line in re.findall(r"torture: ([^|;]+)", text)
        for name in re.findall(r"`([^`]+)`", line)
    }
    assert named - campaigns - {"foreign exceptions"} == set()
