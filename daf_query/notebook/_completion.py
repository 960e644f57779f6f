"""Completion in cells that begin with ``%%daf``."""

from __future__ import annotations

import re
from typing import Any, Final

from daf_query.completion import SqlCompleter
from daf_query.notebook._line import FORMS, OPTIONS, cell_line, session_of, sessions_of
from daf_query.session import DafSession
from daf_query.syntax import placeholders
from daf_storage import errors
from daf_storage.base import optional_import

_FIRST_LINE: Final = re.compile(r"\s*%%daf\b([^\n]*)(\n|$)")
_CONNECT: Final = "connect"
_IDENTIFIER: Final = "daf_query.cells"
_DIRECTIVE: Final = re.compile(r"\s*%daf\s+(\w*)$")
_WORD: Final = re.compile(r"[^\s=]*$")


class CellCompleter:
    """Completes the cells of a shell of IPython: sessions and options, then SQL."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def install(self) -> None:
        """Begin to complete; in place of one that was installed before."""
        self.remove(self._shell)
        completer = optional_import("IPython.core.completer", extra="notebook")

        def matches(context: Any) -> dict[str, Any]:
            return self._matches(context)

        matcher = completer.context_matcher(identifier=_IDENTIFIER)(matches)
        self._shell.Completer.custom_matchers.append(matcher)

    @staticmethod
    def remove(shell: Any) -> None:
        """Complete no more."""
        matchers = shell.Completer.custom_matchers
        matchers[:] = [
            each for each in matchers if getattr(each, "matcher_identifier", None) != _IDENTIFIER
        ]

    def _matches(self, context: Any) -> dict[str, Any]:
        """Return what IPython asks of a matcher; of other cells nothing."""
        cell = context.full_text
        lines = cell.split("\n")
        directive = _DIRECTIVE.match(lines[context.cursor_line][: context.cursor_position])
        if _FIRST_LINE.match(cell) is not None:
            place = sum(len(line) + 1 for line in lines[: context.cursor_line])
            fragment, words = self.completions(cell, place + context.cursor_position)
        elif directive is not None and _CONNECT.startswith(directive.group(1)):
            fragment, words = directive.group(1), [(_CONNECT, "directive")]
        else:
            return {"completions": []}
        simple = optional_import("IPython.core.completer", extra="notebook").SimpleCompletion
        return {
            "completions": [simple(word, type=kind) for word, kind in words],
            "matched_fragment": fragment,
            "suppress": True,
            "ordered": True,
        }

    def completions(self, cell: str, cursor: int) -> tuple[str, list[tuple[str, str]]]:
        """Return what is typed, and what may stand for it: words, and what each is."""
        found = _FIRST_LINE.match(cell)
        if found is None:
            return "", []
        if cursor <= found.end(1):
            return self._of_line(cell[found.start(1) : cursor])
        session = self._session(found.group(1))
        if session is None:
            return "", []
        sql, place = cell[found.end() :], cursor - found.end()
        values = placeholders(sql[:place])
        if values and values[-1].stop == place:
            begun = values[-1].written[1:]
            return begun, self._variables(begun)
        known = SqlCompleter(session).completions(sql, place)
        start = known[0].start if known else place
        words = [(each.text, str(each.kind)) for each in known if each.start == start]
        return sql[start:place], words

    def _session(self, line: str) -> DafSession | None:
        """Return the session of the cell; None if its line is not finished, or wrong."""
        try:
            return session_of(self._shell, cell_line(line).session)
        except errors.InvalidInputError:
            return None

    def _of_line(self, before: str) -> tuple[str, list[tuple[str, str]]]:
        """Return what may stand in the line: options, their values, and sessions."""
        word = _WORD.search(before)
        fragment = "" if word is None else word.group()
        last = before[: len(before) - len(fragment)].rstrip(" =").rsplit(" ", 1)[-1]
        if last == "--to":
            known = [(form, "form") for form in FORMS]
        elif last in OPTIONS:
            return fragment, self._variables(fragment)
        else:
            known = [(name, "session") for name in sessions_of(self._shell)]
            known += [(option, "option") for option in OPTIONS]
        return fragment, [(name, kind) for name, kind in known if name.startswith(fragment)]

    def _variables(self, begun: str) -> list[tuple[str, str]]:
        """Return the variables of the notebook that begin with something; not those of IPython."""
        hidden = self._shell.user_ns_hidden
        return [
            (name, "variable")
            for name in self._shell.user_ns
            if name.startswith(begun) and not name.startswith("_") and name not in hidden
        ]
