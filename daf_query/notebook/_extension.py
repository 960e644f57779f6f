"""The extension of IPython: ``%%daf`` cells and ``%daf`` directives."""

from __future__ import annotations

from typing import Any, Final

import daf_query.notebook._line as lines
from daf_query.notebook._completion import CellCompleter
from daf_query.notebook._line import session_of
from daf_query.session import connect
from daf_query.sql import QueryResult
from daf_query.syntax import placeholders
from daf_storage import errors

_NAME: Final = "daf"


def load_ipython_extension(shell: Any) -> None:
    """Add ``%%daf`` and ``%daf`` to a notebook; IPython calls it for ``%load_ext daf_query``.

    Parameters
    ----------
    shell
        The shell of IPython, ``get_ipython()``.
    """
    magic = DafMagic(shell)
    shell.register_magic_function(magic.run, magic_kind="line_cell", magic_name=_NAME)
    magic.completer.install()


def unload_ipython_extension(shell: Any) -> None:
    """Take ``%%daf`` and ``%daf`` away again; IPython calls it for ``%unload_ext daf_query``.

    Parameters
    ----------
    shell
        The shell of IPython, ``get_ipython()``.
    """
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(_NAME, None)
    CellCompleter.remove(shell)


class DafMagic:
    """What ``%%daf`` and ``%daf`` do in a shell of IPython."""

    def __init__(self, shell: Any) -> None:
        self.completer = CellCompleter(shell)
        """Completes the SQL of cells."""
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
            return self._directive(line) if cell is None else self._cell(line, cell)
        except (errors.DafError, KeyboardInterrupt) as error:
            raise in_one_sentence(error) from None

    def _directive(self, line: str) -> None:
        word, _, rest = line.strip().partition(" ")
        if word != "connect":
            raise errors.InvalidInputError(
                f"write {lines.CONNECT_USAGE!r}, or a cell of SQL: {lines.CELL_USAGE}"
            )
        asked = lines.connect_line(rest)
        session = connect(asked.path, mode=asked.mode, overlay=asked.overlay)  # type: ignore[arg-type]  # the mode was checked
        self._shell.push({asked.name: session})
        print(f"{asked.name} = {session!r} with the tables {', '.join(session.tables())}")  # noqa: T201 - a directive says what it did

    def _cell(self, line: str, cell: str) -> Any:
        asked = lines.cell_line(line)
        query = cell.strip().removesuffix(";")
        if not query:
            raise errors.InvalidInputError(f"there is no SQL in the cell: {lines.CELL_USAGE}")
        session = session_of(self._shell, asked.session)
        result = session.sql(query, params=self._params(query, asked.params) or None)
        rows = result if asked.form is None else _rows(result, asked.form)
        if asked.output is not None:
            self._shell.push({asked.output: rows})
            return None
        if asked.form is not None:
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


def _rows(result: QueryResult, form: lines.Form) -> Any:
    if form == "pandas":
        return result.to_pandas()
    return result.to_polars() if form == "polars" else result.to_arrow_table()


def in_one_sentence(error: BaseException) -> BaseException:
    """Return an error that IPython shows without the lines of the program that raised it."""

    def sentence() -> list[str]:
        return [f"{type(error).__name__}: {str(error) or 'the query was interrupted'}"]

    error._render_traceback_ = sentence  # type: ignore[attr-defined]
    return error
