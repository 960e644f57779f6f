"""The sessions that the variables of a notebook hold."""

from __future__ import annotations

from typing import Any

from daf_query.session import DafSession


def sessions_of(shell: Any) -> dict[str, DafSession]:
    """Return the sessions of a notebook by their variables; not those of its outputs."""
    return {
        name: value
        for name, value in list(shell.user_ns.items())
        if isinstance(value, DafSession) and not name.startswith("_")
    }
