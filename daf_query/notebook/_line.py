"""The line of a cell and of a directive: what its words mean, and the sessions that they name."""

from __future__ import annotations

import difflib
import shlex
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from daf_query.session import DafSession
from daf_storage import errors

Form: TypeAlias = Literal["pandas", "polars", "arrow"]
"""What the rows of a cell become."""

FORMS: Final = get_args(Form)
OPTIONS: Final = ("--to", "--output", "-o", "--params")
"""The options of a cell."""

CELL_USAGE: Final = "%%daf [SESSION] [--to pandas|polars|arrow] [-o NAME] [--params NAME]"
CONNECT_USAGE: Final = "%daf connect PATH [NAME] [--mode r|r+] [--overlay PATH]"


@dataclass(frozen=True, slots=True)
class CellLine:
    """What the first line of a cell asks for."""

    session: str | None = None
    """The variable of the session; None if it is not named."""
    form: Form | None = None
    """What the rows become; None for a query result."""
    output: str | None = None
    """The variable that they are assigned to."""
    params: str | None = None
    """The variable with the values of parameters; by default ``$name`` is the variable ``name``."""


@dataclass(frozen=True, slots=True)
class ConnectLine:
    """What ``%daf connect`` asks for."""

    path: str
    """A path, a pattern or a URL."""
    name: str = "db"
    """The variable that the session is assigned to."""
    mode: str | None = None
    """How it is opened."""
    overlay: str | None = None
    """A data set of one's own on top of it."""


def cell_line(line: str) -> CellLine:
    """Return what the first line of a cell asks for.

    Raises
    ------
    InvalidInputError
        It is written wrongly; the message says how to write it.

    Examples
    --------
    >>> cell_line("db --to pandas -o frame")
    CellLine(session='db', form='pandas', output='frame', params=None)
    """
    words, options = _split(line, {"--to": "to", "-o": "o", "--output": "o", "--params": "params"})
    if len(words) > 1:
        raise errors.InvalidInputError(
            f"%%daf takes one session, not {' '.join(words)!r}; the SQL is in the lines below: "
            f"{CELL_USAGE}"
        )
    form = options.get("to")
    if form is not None and form not in FORMS:
        raise errors.InvalidInputError(f"--to is pandas, polars or arrow, not {form!r}")
    for option in ("o", "params"):
        _check_variable(options.get(option))
    session = words[0] if words else None
    _check_variable(session)
    return CellLine(session, form, options.get("o"), options.get("params"))  # type: ignore[arg-type]  # one of the forms


def connect_line(line: str) -> ConnectLine:
    """Return what ``%daf connect`` asks for.

    Raises
    ------
    InvalidInputError
        It is written wrongly; the message says how to write it.

    Examples
    --------
    >>> connect_line("'my data.h5ad' pbmc")
    ConnectLine(path='my data.h5ad', name='pbmc', mode=None, overlay=None)
    """
    words, options = _split(line, {"--mode": "mode", "--overlay": "overlay"})
    if not words or len(words) > 2:
        raise errors.InvalidInputError(f"write it so: {CONNECT_USAGE}")
    name = words[1] if len(words) > 1 else "db"
    _check_variable(name)
    mode = options.get("mode")
    if mode not in (None, "r", "r+"):
        raise errors.InvalidInputError(f"--mode is r or r+, not {mode!r}")
    return ConnectLine(words[0], name, mode, options.get("overlay"))


def _split(line: str, known: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the words of a line, and the values of its options."""
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise errors.InvalidInputError(f"cannot read {line!r}: {error}") from None
    words: list[str] = []
    options: dict[str, str] = {}
    rest = iter(parts)
    for part in rest:
        if not part.startswith("-"):
            words.append(part)
            continue
        key, equal, value = part.partition("=")
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise errors.InvalidInputError(
                f"there is no option {key}{hint}; there are {', '.join(known)}"
            )
        found = value if equal else next(rest, None)
        if not found:
            raise errors.InvalidInputError(f"{key} needs a value")
        options[known[key]] = found
    return words, options


def _check_variable(name: str | None) -> None:
    if name is not None and not name.isidentifier():
        raise errors.InvalidInputError(f"{name!r} is no name of a variable")


def sessions_of(shell: Any) -> dict[str, DafSession]:
    """Return the sessions of a notebook by their variables; not those of its outputs."""
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if isinstance(value, DafSession) and not name.startswith("_")
    }


def session_of(shell: Any, name: str | None) -> DafSession:
    """Return the session that a cell is asked of: that of a variable, ``db``, or the only one.

    Raises
    ------
    InvalidInputError
        There is none of this name; or there are several, and none was named.
    """
    known = sessions_of(shell)
    if name is not None:
        if name in known:
            return known[name]
        is_there = name in shell.user_ns
        problem = f"the variable {name!r} is no session" if is_there else f"there is no {name!r}"
        raise errors.InvalidInputError(f"{problem}; {_listed(known)}")
    if len(known) == 1 or "db" in known:
        return known["db"] if "db" in known else next(iter(known.values()))
    raise errors.InvalidInputError(f"which session? {_listed(known)}")


def _listed(known: dict[str, DafSession]) -> str:
    if not known:
        return "open one: %daf connect PATH"
    return f"there are the sessions {', '.join(sorted(known))}"
