"""Examples and errors that docstrings leave out, from `examples.txt`.

A method of a reader or of a result is shown by one line on a small data set; that data set, and
what to import, would be six more lines in each of two hundred docstrings.  A test runs all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("examples.txt")


_KEYS: Final = ("raises", "returns", "not run")


@dataclass(frozen=True, slots=True)
class Example:
    """What is shown for a name, or a member of a class."""

    name: str
    code: str
    """A session at a prompt, which starts after `SETUP`; empty if the docstring has one."""
    errors: tuple[str, ...] | None
    """Names in `daf_storage.errors`, none if it has no errors of its own; None if not stated."""
    returns: str
    """What it returns, in a sentence; empty if the docstring says it."""
    reason_not_run: str | None
    """Why no test runs it."""


@cache
def setup_code() -> str:
    """Return the session with which all examples start."""
    introduction = FILE.read_text().split("\n## ")[0]
    return introduction[introduction.index(">>> ") :].rstrip() + "\n"


@cache
def examples() -> dict[str, Example]:
    """Return the examples by name."""
    sections = FILE.read_text().split("\n## ")[1:]
    listed = [_example(section) for section in sections]
    by_name = {example.name: example for example in listed}
    assert len(by_name) == len(listed), "a name has two sections"  # noqa: S101  # for the build
    return by_name


def _example(section: str) -> Example:
    name, _, body = section.partition("\n")
    lines = body.split("\n")
    stated = {
        key: value
        for line in lines
        for key, colon, value in [line.partition(": ")]
        if colon and key in _KEYS
    }
    code = "\n".join(line for line in lines if line.partition(": ")[0] not in _KEYS)
    errors = tuple(stated["raises"].split()) if "raises" in stated else None
    return Example(
        name=name.strip(),
        code=code.strip(),
        errors=() if errors == ("-",) else errors,
        returns=stated.get("returns", ""),
        reason_not_run=stated.get("not run"),
    )
