"""The prompt of ``daf sql``: it reads SQL and commands, and shows what they answer."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from daf_query._row_files import BINARY, Rows, save_rows
from daf_query.cli import _output
from daf_query.cli._colours import coloured, coloured_table
from daf_query.cli._failures import failure_sentence
from daf_query.cli._pager import print_lines
from daf_query.cli._prompt_commands import PromptCommands
from daf_query.cli._prompt_line import LEAVING, ReadLine, line_reader
from daf_query.cli._prompt_settings import PromptSettings
from daf_query.cli._summary import described
from daf_query.completion import SqlCompleter
from daf_query.session import DafSession
from daf_query.sql import QueryResult, error_place
from daf_query.syntax import placeholders, statements
from daf_storage import errors
from daf_storage.spi import visible, visible_name

_MOST_COUNTED: Final = 10_000
"""Rows of a table are counted so far, so that its first rows do not wait for all."""
_PLAN: Final = ["plan_type", "plan"]


def run_prompt(session: DafSession, settings: PromptSettings) -> None:
    """Read from the terminal until its end.

    Raises
    ------
    MissingDependencyError
        The extra ``prompt`` is not installed.
    """
    completer = SqlCompleter(session)
    read = line_reader(completer)
    print(f"daf sql: {_connected(session)}")
    print("a semicolon ends a statement, .help lists commands, Ctrl-D leaves")
    Prompt(session, settings, completer).run(read)


def _connected(session: DafSession) -> str:
    """Return what is connected, in a line."""
    lengths: list[tuple[int, str]] = []
    for tables in session._connections.schemas.values():  # noqa: SLF001 - our own
        lengths += [(tables.axis_length(axis), axis) for axis in sorted(tables.axes_set())]
    lengths.sort(key=lambda each: -each[0])
    shown = ", ".join(f"{length:,} {visible_name(axis)}" for length, axis in lengths[:4])
    shown += ", ..." if len(lengths) > 4 else ""
    names = ", ".join(map(visible_name, session._connections.names))  # noqa: SLF001 - our own
    return f"{names}: {shown}"


class Prompt:
    """Runs what is typed, one statement after the other; errors are printed, and it goes on."""

    def __init__(
        self, session: DafSession, settings: PromptSettings, completer: SqlCompleter
    ) -> None:
        self._session = session
        self._settings = settings
        self._completer = completer
        self._commands = PromptCommands(session, settings)

    def run(self, read: ReadLine) -> None:
        """Run all that is read."""
        while True:
            try:
                line = read()
            except KeyboardInterrupt:  # of the line
                continue
            except EOFError:
                return
            try:
                self.answer(line)
            except EOFError:
                return

    def answer(self, line: str) -> None:
        """Run a command, or statements until one fails or is cancelled.

        Raises
        ------
        EOFError
            It asks to leave.
        """
        plain = line.strip()
        if plain.removesuffix(";").rstrip().lower() in LEAVING:
            raise EOFError
        written = plain
        try:
            if plain.startswith("."):
                self._commands.run(plain)
                return
            for written in statements(line):
                self._execute(written)
        except KeyboardInterrupt:
            print("cancelled", file=sys.stderr)
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            self._report(error, written)
        finally:
            self._completer.forget()

    def _execute(self, sql: str) -> None:
        began = time.perf_counter()
        output = self._settings.output
        provenance = None if output is not None and _is_binary(output) else False
        rows = self._planned(sql).rows(provenance=provenance)
        if output is not None:
            self._settings.output = None
            _write(rows, output)
            seconds = time.perf_counter() - began
            print(f"wrote {described(str(output))}")
        elif self._settings.mode == "table":
            lines = self._lines(rows)
            seconds = time.perf_counter() - began
            print_lines(coloured_table(lines, sys.stdout), self._settings.pager)
        else:
            _output.print_rows(rows, self._settings.mode)
            seconds = time.perf_counter() - began
        sys.stdout.flush()
        if self._settings.timer:
            print(coloured(f"time: {seconds:.3f} s", "faint", sys.stdout))

    def _planned(self, sql: str) -> QueryResult:
        """Plan a statement, with the values of those parameters that it has."""
        names = {each.name for each in placeholders(sql)}
        given: Mapping[str, Any] = {
            name: value for name, value in self._settings.params.items() if name in names
        }
        return self._session.sql(sql, params=given or None)

    def _lines(self, rows: Rows) -> list[str]:
        if rows.schema.names == _PLAN:
            return list(map(visible, _plan_lines(rows)))
        settings = self._settings
        return _output.table_lines(
            rows,
            max_rows=_output.shown_rows(settings.max_rows, settings.pager),
            max_counted=_MOST_COUNTED,
            option=".maxrows",
        )

    def _report(self, error: Exception, written: str) -> None:
        """Print an error, and mark its place."""
        if os.environ.get("DAF_DEBUG"):
            traceback.print_exc()
        sentence = failure_sentence(error)
        place = None if written.startswith(".") else error_place(error, written)
        if place is not None and isinstance(error, errors.QueryError):
            sentence = sentence.partition("\n")[0]
        print(f"{coloured('error:', 'error', sys.stderr)} {visible(sentence)}", file=sys.stderr)
        if place is not None:
            for line in place.mark(written).split("\n"):
                print(f"  {visible(line)}", file=sys.stderr)


def _is_binary(path: Path) -> bool:
    return _output.format_of(str(path)) in BINARY


def _write(rows: Rows, path: Path) -> None:
    """Write rows to a file, which appears when it is complete."""
    file_format = _output.format_of(str(path))
    if file_format == "table":
        _output.save_lines(_output.table_lines(rows, max_rows=None), path)
    else:
        save_rows(rows, path, file_format)


def _plan_lines(rows: Rows) -> Iterator[str]:
    """Yield the lines of a plan, which a table would put into one."""
    for batch in rows.batches:
        for row in batch.to_pylist():
            yield f"{row['plan_type']}:"
            yield from (f"  {line}" for line in str(row["plan"]).rstrip().split("\n"))
