"""Tests of commands that are ended by a signal or killed: nothing half done stays behind."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

import pytest

from daf_query.cli import main
from daf_storage import convert, errors, import_h5ad, open_daf, verify
from tests import seams
from tests.limits import without_exchange
from tests.support import PBMC, contents, create, filled

SERVER = """
import json, os, signal, socket, sys, time
import anndata, datafusion, h5py, pandas, pyarrow.dataset, scipy.sparse, zarr
from daf_query import cli
from daf_query import _row_files
from daf_storage.data import _assembled
from daf_storage.h5ad import _export, _import
from daf_storage.upkeep import _copy

def pausing(function):
    def paused(*args, **kwargs):
        found = function(*args, **kwargs)
        print("ready", file=sys.stderr, flush=True)
        time.sleep(60)
        return found
    return paused

for owner, name in (
    (_copy, "_differences"),
    (_import._Import, "_copy_matrix"),
    (_export._Exporter, "_write"),
    (_row_files, "write_rows"),
    (_assembled, "_write_matrix"),
):
    setattr(owner, name, pausing(getattr(owner, name)))
requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, descriptors, _, _ = socket.recv_fds(requests, 1 << 16, 1)
    if not message:
        break
    request = json.loads(message)
    child = os.fork()
    if child == 0:
        os.dup2(descriptors[0], 2)
        if request["number"] == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        elif request["number"]:
            signal.signal(request["number"], signal.Handlers(request["handler"]))
        sys.argv = ["daf", *request["arguments"]]
        cli.run()
    os.close(descriptors[0])
    requests.sendall(b"%d\\n" % child)
    requests.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Runs one command after the other, each in a fork that has the libraries already."""


class Paused:
    """A command that has written the better part of its work, and waits then."""

    def __init__(self, requests: socket.socket, request: dict[str, Any]) -> None:
        errors, writing = os.pipe()
        socket.send_fds(requests, [json.dumps(request).encode()], [writing])
        os.close(writing)
        self._answers = requests
        self.stderr = os.fdopen(errors)
        self._process = self._answer()
        line = self.stderr.readline()
        assert line == "ready\n", line + self.stderr.read()
        self._exit_code: int | None = None

    def _answer(self) -> int:
        number = b""
        while not number.endswith(b"\n"):
            number += self._answers.recv(1)
        return int(number)

    def wait(self, seconds: float) -> int:
        """Return the exit code."""
        if self._exit_code is None:
            if not select.select([self._answers], [], [], seconds)[0]:
                raise TimeoutError
            self._exit_code = self._answer()
        return self._exit_code

    def send_signal(self, number: int) -> None:
        """Let the process have a signal."""
        os.kill(self._process, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
        self.wait(60)
        self.stderr.close()


class Commands(Protocol):
    """Starts commands."""

    def __call__(self, *arguments: object, heeding: int = 0, ignoring: int = 0) -> Paused:
        """Start a command that is paused; it heeds or ignores a signal from its start."""


@pytest.fixture(scope="module")
def paused() -> Iterator[Commands]:
    """Start commands in forks of one process."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", SERVER, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]), ours:
        theirs.close()

        def start(*arguments: object, heeding: int = 0, ignoring: int = 0) -> Paused:
            handler = signal.SIG_IGN if ignoring else signal.SIG_DFL
            request = {
                "arguments": [str(one) for one in arguments],
                "number": ignoring or heeding,
                "handler": int(handler),
            }
            return Paused(ours, request)

        yield start
        ours.shutdown(socket.SHUT_RDWR)


def commands(folder: Path) -> dict[str, list[object]]:
    """Return commands that write, each to a target of its own."""
    data = folder / "data.daf.zarr"
    return {
        "import": ["import", PBMC, folder / "new.daf.zarr"],
        "import zip": ["import", PBMC, folder / "new.daf.zarr.zip"],
        "import hdf5": ["import", PBMC, folder / "new.h5df"],
        "convert": ["convert", data, folder / "new.daf.zarr"],
        "convert zip": ["convert", data, folder / "new.daf.zarr.zip"],
        "replace": ["convert", data, folder / "old.daf.zarr", "--overwrite"],
        "sql": ["sql", data, "SELECT * FROM cell", "-o", folder / "new.csv"],
        "reorder": ["reorder", data, "cell", "--by", "age DESC"],
        "export": ["export", folder / "atlas.daf.zarr", folder / "new.h5ad"],
    }


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the commands work on."""
    folder = tmp_path_factory.mktemp("prepared")
    filled(folder / "data.daf.zarr").close()
    create(folder / "old.daf.zarr").close()
    import_h5ad(PBMC, folder / "atlas.daf.zarr", relayout=False)
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    return Path(shutil.copytree(prepared, tmp_path / "x"))


def everything(folder: Path) -> list[str]:
    """Return all paths below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("command", commands(Path()))
def test_sigterm_leaves_nothing_behind(paused: Commands, folder: Path, command: str) -> None:
    """The exit code is 143, one line says why, and the folder is what it was."""
    before = everything(folder)
    with paused(*commands(folder)[command]) as process:
        assert everything(folder) != before
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert process.stderr.read() == "daf: error: ended by SIGTERM\n"
    assert everything(folder) == before


def test_nohup_is_respected(paused: Commands, folder: Path) -> None:
    """A signal that is ignored when the command starts stays ignored."""
    with paused(*commands(folder)["convert"], ignoring=signal.SIGHUP) as process:
        process.send_signal(signal.SIGHUP)
        with pytest.raises(TimeoutError):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


@pytest.mark.parametrize("command", ["import", "import zip", "convert", "replace", "sql"])
def test_after_a_kill_the_next_one_clears_away(
    paused: Commands, folder: Path, command: str
) -> None:
    """Not before its process is dead; until then it is not offered as something that is there."""
    arguments = [str(one) for one in commands(folder)[command]]
    before = everything(folder)
    with paused(*arguments) as process:
        if command == "import":
            with pytest.raises(errors.SourceNotFoundError) as caught:
                open_daf(folder / "nothing.daf.zarr")
            assert "daf-tmp" not in str(caught.value)
        process.send_signal(signal.SIGKILL)
    assert everything(folder) != before
    assert main([*arguments, "--quiet"]) == 0
    assert not [name for name in everything(folder) if "daf-tmp" in name]
    assert verify(folder / "data.daf.zarr") == []


@pytest.mark.parametrize("command", ["import", "import zip", "import hdf5", "replace"])
def test_repair_clears_away(
    paused: Commands, folder: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the target has never come to be; a living process is left alone."""
    before = everything(folder)
    arguments = commands(folder)[command]
    target = next(str(one) for one in reversed(arguments) if not str(one).startswith("-"))
    with paused(*arguments) as process:
        assert main(["repair", target]) == (0 if command == "replace" else 1)
        assert everything(folder) != before
        process.send_signal(signal.SIGKILL)
    if command == "replace":
        assert "was killed" in str(verify(target)[0])
    capsys.readouterr()
    assert main(["repair", target]) == 0
    assert "cleared away what a killed program had left" in capsys.readouterr().out
    assert everything(folder) == before


# Two at once


def import_pbmc(path: Path) -> object:
    """Import real data."""
    return import_h5ad(PBMC, path, relayout=False)


TARGETS = ["new.daf.zarr", "new.daf.zarr.zip", "new.h5df"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("name", TARGETS)
def test_the_second_of_two_imports_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, *, exchange: bool
) -> None:
    """What the first has made stays, and the second leaves nothing behind."""
    if not exchange:
        without_exchange(monkeypatch)
    path, run = folder / name, seams.real(seams.IMPORT_RUN)

    def overtaken(self: Any) -> Any:
        found = run(self)
        monkeypatch.setattr(seams.IMPORT_RUN, run)
        convert(folder / "data.daf.zarr", path)
        return found

    monkeypatch.setattr(seams.IMPORT_RUN, overtaken)
    before = set(os.listdir(folder))
    with pytest.raises(errors.ExistsError, match="another program has put something here"):
        import_pbmc(path)
    assert set(os.listdir(folder)) == before | {name}
    assert contents(open_daf(path)) == contents(open_daf(folder / "data.daf.zarr"))


def test_what_came_to_be_meanwhile_is_not_replaced_unless_it_is_a_data_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to overwrite a data set, a convert does not overwrite what has taken its place."""
    path, compare = folder / "old.daf.zarr", seams.real(seams.COMPARE)

    def overtaken(*args: Any) -> list[str]:
        found = list(compare(*args))
        shutil.rmtree(path)
        path.mkdir()
        (path / "thesis.txt").write_text("...")
        return found

    monkeypatch.setattr(seams.COMPARE, overtaken)
    with pytest.raises(errors.NotADafError):
        convert(folder / "data.daf.zarr", path, if_exists="replace")
    assert os.listdir(path) == ["thesis.txt"]


# Links


LINKED: dict[str, Callable[[Path, Path], object]] = {
    "convert": lambda source, path: convert(
        source, path, if_exists="replace" if path.exists() else "error"
    ),
    "import": lambda _, path: import_h5ad(
        PBMC, path, relayout=False, if_exists="replace" if path.exists() else "error"
    ),
    "w": lambda _, path: open_daf(path, "w").close(),
    "w+": lambda _, path: open_daf(path, "w+").close(),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("way", "name"),
    [(way, name) for way in LINKED for name in TARGETS if way != "import" or name == TARGETS[0]],
)
def test_a_link_stays_a_link(folder: Path, name: str, way: str) -> None:
    """Where it leads is made, and then replaced or emptied."""
    (folder / "disk").mkdir()
    link = folder / name
    link.symlink_to(f"disk/real.{name.split('.', 1)[1]}")
    for _ in range(2):
        LINKED[way](folder / "data.daf.zarr", link)
        assert link.is_symlink()
        assert not (folder / "disk" / f"real.{name.split('.', 1)[1]}").is_symlink()
        assert os.listdir(folder / "disk") == [f"real.{name.split('.', 1)[1]}"]
        with open_daf(link) as daf:
            assert bool(daf.axes_set()) == (way in ("convert", "import"))
        if way == "w":
            with open_daf(link, "r+") as writer:
                writer.set_scalar("gone", 1)  # type: ignore[attr-defined]
