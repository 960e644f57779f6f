"""The rows of the table of messages, and what is wrong with one."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from daf_query.cli import main
from tests.support import contents

TABLES = Path(__file__).parent / "tables"
OWN = main.__code__.co_filename.rpartition("daf_query/")[0] + "daf_"


@dataclass(frozen=True)
class Row:
    """A call, and what is expected of it."""

    place: str
    call: str
    expected: tuple[str, ...]

    @property
    def is_command(self) -> bool:
        """Whether it is one of the command line."""
        return self.call.startswith("$ ")

    @property
    def status(self) -> int:
        """The exit code of a command, or 1 of a call that raises."""
        signs = [line.partition(" ")[0] for line in self.expected]
        if "exit" in signs:
            return int(self.expected[signs.index("exit")][5:])
        return int("!" in signs if self.is_command else any(sign != "warns" for sign in signs))


@dataclass(frozen=True)
class Scene:
    """The rows that are tried one after the other, and what they are tried with."""

    name: str
    rows: tuple[Row, ...]


def scenes_of(table: str) -> Iterator[Scene]:
    """Yield the scenes of a table."""
    name, rows = "", list[Row]()
    for number, block in _blocks((TABLES / f"{table}.txt").read_text()):
        if block[0].startswith("scene "):
            if rows:
                yield Scene(name, tuple(rows))
            name, rows = block[0].removeprefix("scene "), []
        else:
            rows.append(_row(f"{table}.txt, line {number}", block))
    yield Scene(name, tuple(rows))


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each call with what is expected of it, and the number of its first line."""
    start, block = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith((">>> ", "$ ", "scene ")):
            if block:
                yield start, block
            start, block = number, [line]
        elif line and not line.startswith("#"):
            block.append(line)
    yield start, block


def _row(place: str, block: list[str]) -> Row:
    call, rest = [block[0]], block[1:]
    while rest and (rest[0].startswith("... ") or call[-1].endswith("\\")):
        call.append(rest.pop(0))
    if call[0].startswith("$ "):
        return Row(place, " ".join(part.removesuffix("\\").strip() for part in call), tuple(rest))
    return Row(place, "\n".join(part[4:] for part in call), tuple(rest))


def problems(
    scene: Scene, names: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> Iterator[str]:
    """Try the rows of a scene in the working directory; yield what is not as expected."""
    for is_to_fail, rows in groupby(scene.rows, lambda row: row.status in (1, 2)):
        before = _state(names) if is_to_fail else {}
        for row in rows:
            for problem in _command(row, capfd) if row.is_command else _call(row, names):
                yield f"{row.place}\n  {row.call}\n  {problem}"
        if is_to_fail and (changed := before.items() ^ _state(names).items()):
            yield f"{row.place}\n  {row.call}\n  or above: fails, and changes {sorted(dict(changed))}"


def _state(names: dict[str, Any]) -> dict[str, str]:
    """Return the files of the working directory, and what the data set has."""
    files = {str(path): path.stat() for path in Path().rglob("*") if path.is_file()}
    stored = {"daf": repr(contents(names["daf"]))} if "daf" in names else {}
    return {name: str((stat.st_size, stat.st_mtime_ns)) for name, stat in files.items()} | stored


def _call(row: Row, names: dict[str, Any]) -> list[str]:
    warns = [line[6:] for line in row.expected if line.startswith("warns ")]
    wanted = " ".join(line for line in row.expected if not line.startswith("warns "))
    with warnings.catch_warnings(record=True, action="always") as warned:
        try:
            exec(row.call, names)  # noqa: S102 - of our own
        except Exception as error:  # noqa: BLE001 - it is compared with what is expected
            return [] if _is_said(wanted, error) else [f"says {type(error).__name__}: {error}"]
    found = ["says nothing"] if wanted else []
    found += [f"warns at {each.filename}" for each in warned if each.filename.startswith(OWN)]
    said = [each.message for each in warned if isinstance(each.message, Warning)]
    if warns and (warns != ["nothing"] if not said else not _are_said(warns, said)):
        found.append(f"warns {said}")
    return found


def _is_said(wanted: str, raised: BaseException) -> bool:
    """Return whether something is of a class, and has a pattern in its message."""
    kind, _, pattern = wanted.partition(": ")
    kinds = [each.__name__ for each in type(raised).__mro__]
    return kind in kinds and re.search(pattern, str(raised)) is not None


def _are_said(warns: list[str], said: list[Warning]) -> bool:
    """Return whether the warnings are those that are expected, in their order."""
    return len(warns) == len(said) and all(map(_is_said, warns, said))


def _command(row: Row, capfd: pytest.CaptureFixture[str]) -> list[str]:
    words = shlex.split(row.call.removeprefix("$ "))
    start = words.index("daf")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for setting in words[:start]:
            patch.setenv(*setting.split("=", 1))
        warnings.simplefilter("ignore")
        try:
            code: Any = main(words[start + 1 :])
        except SystemExit as ended:
            code = ended.code
    out, err = capfd.readouterr()
    lines = [line.partition(" ")[::2] for line in row.expected]
    found = [] if code == row.status else [f"exit code {code}: {err}"]
    for sign, text in (("!", err), (">", out)):
        patterns = [rest for each, rest in lines if each == sign]
        found += [f"{sign} {each!r} is not in {text!r}" for each in patterns if not re.search(each, text)]  # fmt: skip
    printed = [rest for sign, rest in lines if sign == "|"]
    if printed and printed != out.splitlines():
        found.append(f"prints {out!r}")
    if ("Traceback" in err) != ("traceback" in row.expected) or (
        code == 1 and "daf: error: " not in err and not out
    ):
        found.append(f"is no sentence: {err}")
    return found


def subjects() -> list[str]:
    """Return the names of the tables."""
    return sorted(path.stem for path in TABLES.glob("*.txt"))
