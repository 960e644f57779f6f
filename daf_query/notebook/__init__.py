"""Cells of SQL in notebooks: ``%load_ext daf_query``.

**Nouns.** A *cell* begins with ``%%daf`` and is SQL, asked of a session that a variable of the
notebook holds.  Its *line* has the options.  A *directive* such as ``%daf connect PATH`` is a line
of its own.

Must not know how queries are planned or pages are made.
"""

from __future__ import annotations

import argparse
import re
import shlex
from typing import Any, Final, NoReturn

from IPython.core.completer import SimpleCompletion, context_matcher

from daf_query.completion import SqlCompleter
from daf_query.session import DafSession, connect
from daf_query.syntax import placeholders
from daf_storage import errors

_NAME: Final = "daf"
_IDENTIFIER: Final = "daf_query.cells"
_TO: Final = {"pandas": "to_pandas", "polars": "to_polars", "arrow": "to_arrow_table"}
"""What the rows of a cell become, and the method that makes it."""
_FIRST_LINE: Final = re.compile(r"\s*%%daf\b([^\n]*)\n")


class _Line(argparse.ArgumentParser):
    """Reads the line of a cell or a directive; what is wrong is an error of this software."""

    def __init__(self, usage: str) -> None:
        super().__init__(usage=usage, add_help=False, allow_abbrev=False)

    def read(self, line: str) -> argparse.Namespace:
        """Return what a line asks for."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise errors.InvalidInputError(f"cannot read {line!r}: {error}") from None
        return self.parse_intermixed_args(words)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and how it is written."""
        raise errors.InvalidInputError(f"{message}; write {self.usage}")


def _variable(name: str) -> str:
    if not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{name!r} is no name of a variable")
    return name


_CELL: Final = _Line("%%daf [SESSION] [--to pandas|polars|arrow] [-o NAME] [--params NAME]")
_CELL.add_argument("session", nargs="?", type=_variable)
_CELL.add_argument("--to", choices=tuple(_TO))
_CELL.add_argument("--output", "-o", type=_variable)
_CELL.add_argument("--params", type=_variable)
_OPENING: Final = _Line("%daf connect PATH [NAME] [--mode r|r+] [--overlay PATH]")
_OPENING.add_argument("directive", choices=("connect",))
_OPENING.add_argument("path")
_OPENING.add_argument("name", nargs="?", type=_variable, default="db")
_OPENING.add_argument("--mode", choices=("r", "r+"))
_OPENING.add_argument("--overlay")


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%daf`` and ``%daf`` to a notebook; IPython calls it for ``%load_ext daf_query``.

    Parameters
    ----------
    shell
        The shell of IPython, ``get_ipython()``.
    """
    unload_ipython_extension(shell)
    magic = _Magic(shell)
    shell.register_magic_function(magic.run, magic_kind="line_cell", magic_name=_NAME)
    matcher = context_matcher(identifier=_IDENTIFIER)(lambda context: magic.matches(context))  # noqa: PLW0108 - it gets attributes
    shell.Completer.custom_matchers.append(matcher)


def unload_ipython_extension(shell: Any) -> None:
    """Take ``%%daf`` and ``%daf`` away again; IPython calls it for ``%unload_ext daf_query``.

    Parameters
    ----------
    shell
        The shell of IPython, ``get_ipython()``.
    """
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(_NAME, None)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [
        each for each in matchers if getattr(each, "matcher_identifier", None) != _IDENTIFIER
    ]


class _Magic:
    """What ``%%daf`` and ``%daf`` do in a shell of IPython."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def run(self, line: str, cell: str | None = None) -> Any:
        """Ask a cell of SQL, or follow a directive.

        ``%%daf [SESSION] [--to pandas|polars|arrow] [-o NAME] [--params NAME]``: the lines below
        are SQL, in which ``$name`` is the variable ``name`` of the notebook.  The session is a
        variable too; it need not be named where there is only one, or one is called ``db``.

        ``%daf connect PATH [NAME] [--mode r|r+] [--overlay PATH]`` opens a data set as the session
        NAME, by default ``db``.
        """
        try:
            if cell is not None:
                return self._cell(_CELL.read(line), cell.strip().removesuffix(";"))
            options = _OPENING.read(line)
            session = connect(options.path, mode=options.mode, overlay=options.overlay)
            self._shell.push({options.name: session})
            tables = ", ".join(session.tables())
            print(f"{options.name} = {session!r} with the tables {tables}")  # noqa: T201 - it says what it did
        except (errors.DafError, KeyboardInterrupt) as error:
            sentence = f"{type(error).__name__}: {str(error) or 'the query was interrupted'}"
            # Which IPython shows without the lines of the program that raised it.
            error._render_traceback_ = lambda: [sentence]  # type: ignore[union-attr]
            raise error from None

    def _cell(self, options: argparse.Namespace, query: str) -> Any:
        if not query:
            raise errors.InvalidInputError(f"there is no SQL in the cell; write {_CELL.usage}")
        params = self._params(query, options.params)
        result = self._session(options.session).sql(query, params=params or None)
        rows = result if options.to is None else getattr(result, _TO[options.to])()
        if options.output is not None:
            self._shell.push({options.output: rows})
            return None
        if options.to is not None:
            return rows
        # Shown here rather than returned: an error of the rows is one sentence, too.
        self._shell.display_pub.publish(result._shown())  # noqa: SLF001 - our own
        return None

    def _params(self, query: str, name: str | None) -> dict[str, Any]:
        """Return the values of the parameters of a query: variables of the notebook."""
        variables = self._shell.user_ns
        if name is not None:
            if name not in variables:
                raise errors.InvalidInputError(f"--params: there is no variable {name!r}")
            values: dict[str, Any] = variables[name]
            return values
        names = {each.name for each in placeholders(query)}
        lacking = sorted(each for each in names if each.isidentifier() and each not in variables)
        if lacking:
            raise errors.InvalidInputError(
                f"the query has the parameter ${lacking[0]}, and there is no variable "
                f"{lacking[0]!r}"
            )
        return {each: variables[each] for each in names if each in variables}

    def _sessions(self) -> dict[str, DafSession]:
        """Return the sessions of the notebook by their variables; not those of its outputs."""
        return {
            name: value
            for name, value in list(self._shell.user_ns.items())
            if isinstance(value, DafSession) and not name.startswith("_")
        }

    def _session(self, name: str | None) -> DafSession:
        """Return the session that a cell is asked of: a variable, ``db``, or the only one."""
        sessions = self._sessions()
        only = next(iter(sessions)) if len(sessions) == 1 else "db"
        found = sessions.get(only if name is None else name)
        if found is not None:
            return found
        problem = "which session?" if name is None else f"there is no {name!r};"
        if name in self._shell.user_ns:
            problem = f"the variable {name!r} is no session;"
        listed = f"there are the sessions {', '.join(sorted(sessions))}"
        raise errors.InvalidInputError(
            f"{problem} {listed if sessions else 'open one: %daf connect PATH'}"
        )

    def matches(self, context: Any) -> dict[str, Any]:
        """Return what IPython asks of a matcher; of other cells nothing."""
        cell = context.full_text
        lines = cell.split("\n")[: context.cursor_line]
        cursor = sum(len(line) + 1 for line in lines) + context.cursor_position
        first = _FIRST_LINE.match(cell)
        if first is None or cursor < first.end():
            return {"completions": []}
        fragment, words = self._completions(
            first.group(1), cell[first.end() :], cursor - first.end()
        )
        return {
            "completions": [SimpleCompletion(word, type=kind) for word, kind in words],
            "matched_fragment": fragment,
            "suppress": True,
            "ordered": True,
        }

    def _completions(self, line: str, sql: str, place: int) -> tuple[str, list[tuple[str, str]]]:
        """Return what is typed in a cell, and what may stand for it: words, and what each is."""
        try:
            session = self._session(_CELL.read(line).session)
        except errors.InvalidInputError:  # the line is not finished, or wrong
            return "", []
        values = placeholders(sql[:place])
        if values and values[-1].stop == place:
            begun = values[-1].written[1:]
            return begun, self._variables(begun)
        offered = SqlCompleter(session).completions(sql, place)
        start = offered[0].start if offered else place
        return sql[start:place], [(e.text, str(e.kind)) for e in offered if e.start == start]

    def _variables(self, begun: str) -> list[tuple[str, str]]:
        """Return the variables of the notebook that begin with something; not those of IPython."""
        hidden = self._shell.user_ns_hidden
        return [
            (name, "variable")
            for name in self._shell.user_ns
            if name.startswith(begun) and not name.startswith("_") and name not in hidden
        ]
