"""The sessions that the variables of a notebook hold."""

from __future__ import annotations

from typing import Any

from daf_query.session import DafSession
from daf_storage import errors


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
