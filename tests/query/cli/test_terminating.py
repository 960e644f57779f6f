"""Tests of commands that are ended by a signal or killed: nothing half done stays behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import util
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import pytest

from daf_query import cli
from daf_query.cli import main
from daf_storage import convert, errors, import_h5ad, open_daf, verify
from tests import seams
from tests.limits import without_exchange
from tests.support import PBMC, contents, create, filled, there

LIBRARIES = [
    *("anndata", "datafusion", "h5py", "pandas", "pyarrow.dataset", "scipy.sparse", "zarr"),
    *("daf_storage.h5ad", "daf_storage.upkeep", __name__),
]
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(LIBRARIES)


@pytest.fixture(scope="module", autouse=True)
def _fork_server() -> None:
    """Keep its socket out of the folder of these tests, which goes before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TMPDIR", raising=False)
        patch.setattr(tempfile, "tempdir", None)
        util.get_temp_dir()


def pausing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function say that it has done its work, and wait then."""

    def paused(*args: Any, **kwargs: Any) -> Any:
        found = function(*args, **kwargs)
        os.write(2, b"ready\n")
        time.sleep(60)
        return found

    return paused


def run_paused(errors: Connection, arguments: list[str], ignored: int) -> None:
    """Run a command that waits when it has written the better part of its work."""
    os.dup2(errors.fileno(), 2)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - to the end of the process
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if ignored:
        signal.signal(ignored, signal.SIG_IGN)
    for place in seams.PAUSES:
        pytest.MonkeyPatch().setattr(place, pausing(seams.real(place)))
    sys.argv = ["daf", *arguments]
    cli.run()


class Paused:
    """A command that has written the better part of its work, and waits then."""

    def __init__(self, *arguments: object, ignoring: int = 0) -> None:
        reading, writing = FORKS.Pipe(duplex=False)
        request = (writing, [str(one) for one in arguments], ignoring)
        self._process = FORKS.Process(target=run_paused, args=request)
        self._process.start()
        writing.close()
        self.stderr = os.fdopen(os.dup(reading.fileno()))
        line = self.stderr.readline()
        assert line == "ready\n", line + self.stderr.read()

    def wait(self, seconds: float) -> int | None:
        """Return the exit code, None if it runs on."""
        self._process.join(seconds)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Let the process have a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(there(self._process.pid), number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join(60)
        self.stderr.close()


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
def test_signals_leave_nothing_behind(folder: Path, command: str) -> None:
    """The exit code is the signal's, one line says why, and the folder is what it was."""
    before = everything(folder)
    code, said = (130, "interrupted") if "import" in command else (143, "ended by SIGTERM")
    with Paused(*commands(folder)[command]) as process:
        assert everything(folder) != before
        while process.wait(0.001) is None:
            process.send_signal(code - 128)
        assert (process.wait(60), process.stderr.read()) == (code, f"daf: error: {said}\n")
    assert everything(folder) == before


def test_nohup_is_respected(folder: Path) -> None:
    """A signal that is ignored when the command starts stays ignored."""
    with Paused(*commands(folder)["convert"], ignoring=signal.SIGHUP) as process:
        process.send_signal(signal.SIGHUP)
        assert process.wait(0.3) is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


@pytest.mark.parametrize("command", ["import", "import zip", "convert", "replace", "sql"])
def test_after_a_kill_the_next_one_clears_away(folder: Path, command: str) -> None:
    """Not before its process is dead; until then it is not offered as something that is there."""
    arguments = [str(one) for one in commands(folder)[command]]
    before = everything(folder)
    with Paused(*arguments) as process:
        if command == "import":
            with pytest.raises(errors.SourceNotFoundError, match="^((?!daf-tmp).)*$"):
                open_daf(folder / "nothing.daf.zarr")
        process.send_signal(signal.SIGKILL)
    assert everything(folder) != before
    assert main([*arguments, "--quiet"]) == 0
    assert not [name for name in everything(folder) if "daf-tmp" in name]
    assert verify(folder / "data.daf.zarr") == []


@pytest.mark.parametrize("command", ["import", "import zip", "import hdf5", "replace"])
def test_repair_clears_away(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the target has never come to be; a living process is left alone."""
    before = everything(folder)
    arguments = commands(folder)[command]
    target = next(str(one) for one in reversed(arguments) if not str(one).startswith("-"))
    with Paused(*arguments) as process:
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
