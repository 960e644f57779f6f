"""The prompt of ``daf sql``: it reads SQL and commands, and shows what they answer.

Lines are read with history, completion and colours, by prompt_toolkit.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query._formats import ROW_FORMATS
from daf_query._provenance import refuse_own_files
from daf_query._row_files import Rows
from daf_query.cli import _output as outputs
from daf_query.cli._options import longest_axes
from daf_query.cli._output import coloured, described, has_colours, pager, print_table
from daf_query.completion import SqlCompleter
from daf_query.session import DafSession
from daf_query.syntax import is_ended, placeholders, quoted_name, statements
from daf_storage import errors
from daf_storage._terminal_text import visible_name
from daf_storage.base import optional_import

_Run: TypeAlias = "Callable[[_Prompt, str], None]"
"""Runs a command with its argument."""
MODES: Final = ("table", *(each.name for each in ROW_FORMATS.values() if each.is_text))
_LEAVING: Final = ("quit", "exit")
"""Words that leave the prompt, also without a dot."""
_SWITCH: Final = ("on", "off")
_COLUMNS: Final = """SELECT table_schema, table_name, column_name, data_type
FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position"""
_SUFFIXES: Final = ", ".join(f".{name}" for name in (*ROW_FORMATS, "txt"))
_COMMANDS: Final[dict[str, tuple[str, str, _Run]]] = {}
"""How each is written, what it does, and what runs it."""
_STYLE: Final = {
    "pygments.keyword": "bold ansigreen",
    "pygments.name.builtin": "ansigreen",
    "pygments.literal.string": "ansimagenta",
    "pygments.literal.string.symbol": "ansicyan",
    "pygments.literal.number": "ansimagenta",
    "pygments.comment": "italic",
}
"""Colours of the terminal's own palette, which can be read on a dark and on a light ground."""


def require_prompt() -> Any:
    """Return prompt_toolkit, or raise an error that says what to install."""
    optional_import("pygments", extra="prompt")
    return optional_import("prompt_toolkit", extra="prompt")


def run_prompt(session: DafSession, *, output: str | None, **settings: Any) -> None:
    """Read from the terminal until its end, and answer.

    Raises
    ------
    MissingDependencyError
        The extra ``prompt`` is not installed.
    """
    prompt = _Prompt(session, **settings)
    if output is not None:
        prompt.set_output(output)
    read = _line_reader(prompt.completer)
    lengths = longest_axes(session)
    shown = ", ".join(f"{length:,} {visible_name(axis)}" for length, _, axis in lengths[:4])
    names = ", ".join(map(visible_name, session._connections.names))  # noqa: SLF001 - our own
    print(f"daf sql: {names}: {shown}{', ...' if len(lengths) > 4 else ''}")
    print("a semicolon ends a statement, .help lists commands, Ctrl-D leaves")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # each ends a line, or a query
    with contextlib.suppress(EOFError):
        while True:
            try:
                line = read()
            except KeyboardInterrupt:  # of the line
                continue
            prompt.answer(line)


def _line_reader(completer: SqlCompleter) -> Callable[[], str]:
    """Return what reads from the terminal; KeyboardInterrupt is Ctrl-C, and EOFError Ctrl-D."""
    toolkit = require_prompt()
    bindings = toolkit.key_binding.KeyBindings()

    @bindings.add("enter", filter=toolkit.filters.has_focus("DEFAULT_BUFFER"))  # type: ignore[untyped-decorator] # it has no types here
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif _is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    if has_colours(sys.stdout):
        lexer = optional_import("pygments.lexers.sql", extra="prompt").SqlLexer
        colours = {
            "lexer": toolkit.lexers.PygmentsLexer(lexer),
            "style": toolkit.styles.Style.from_dict(_STYLE),
            "include_default_pygments_style": False,
        }
    else:
        colours = {"color_depth": toolkit.output.ColorDepth.DEPTH_1_BIT}
    session = toolkit.PromptSession(
        "daf> ",
        multiline=True,
        prompt_continuation=lambda *_: "...> ",
        completer=_Completer(completer),
        complete_in_thread=True,
        complete_while_typing=True,
        history=_history(toolkit.history),
        key_bindings=bindings,
        **colours,
    )
    read: Callable[[], str] = session.prompt
    return read


def _is_complete(text: str) -> bool:
    """Return whether Enter runs what is typed: a command, or statements with their semicolon.

    >>> _is_complete("SELECT ';'"), _is_complete("SELECT 1;"), _is_complete(".tables")
    (False, True, True)
    """
    plain = text.strip()
    return plain.startswith(".") or plain.lower() in _LEAVING or is_ended(text)


class _Completer:
    """Completions as prompt_toolkit has them."""

    def __init__(self, completer: SqlCompleter) -> None:
        self._completer = completer
        self._made: Any = require_prompt().completion.Completion

    def get_completions(self, document: Any, event: Any) -> Iterator[Any]:
        """Yield the completions of what is typed; before a word begins, only if asked for."""
        text, cursor = document.text, document.cursor_position
        is_begun = cursor > 0 and not text[cursor - 1].isspace() and text[cursor - 1] not in "(,;"
        if text.lstrip().startswith(".") or not (is_begun or event.completion_requested):
            return
        with contextlib.suppress(Exception):  # what goes wrong, the query says when it runs
            for each in self._completer.completions(text, cursor):
                place = each.start - cursor
                yield self._made(each.text, place, display=each.name, display_meta=each.kind)


def _history(module: Any) -> Any:
    """Return what was typed, in this run and earlier ones; in memory if the file cannot be."""
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        folder = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
        path = folder / "daf" / "sql_history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except (OSError, RuntimeError):  # no such home, or it is read-only
        return module.InMemoryHistory()
    return module.FileHistory(str(path))


def _dot(usage: str, summary: str) -> Callable[[_Run], _Run]:
    """Make the method below a command, which is written like this, and does that."""

    def added(run: _Run) -> _Run:
        _COMMANDS[usage.partition(" ")[0]] = usage, summary, run
        return run

    return added


@dataclass(slots=True)
class _Prompt:
    """Answers lines, one after the other; errors are printed, and it goes on."""

    session: DafSession
    mode: Any
    """How rows are shown: one of `MODES`."""
    max_rows: int | None
    """How many rows of a table are shown; None: as many as fit the pager or the screen, 0: all."""
    pager: str | None
    """The command that shows what is long."""
    params: Mapping[str, Any]
    """Values of ``$name``."""
    timer: bool = False
    """Whether the time of each query is shown."""
    output: Path | None = None
    """The file for the rows of the next query."""
    completer: SqlCompleter = field(init=False)
    """What may be typed."""

    def __post_init__(self) -> None:
        self.completer = SqlCompleter(self.session)

    def answer(self, line: str) -> None:
        """Run a command, or statements until one fails or is cancelled.

        Raises
        ------
        EOFError
            It asks to leave.
        """
        plain = line.strip()
        if plain.removesuffix(";").rstrip().lower() in _LEAVING:
            raise EOFError
        written = plain
        try:
            if plain.startswith("."):
                self._command(plain)
                return
            for written in statements(line):
                self._execute(written)
        except KeyboardInterrupt:
            print("cancelled", file=sys.stderr)
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - the engine raises plain Exceptions
            of_sql = "" if written.startswith(".") else written
            outputs.print_failure(error, written=of_sql, in_prompt=True)
        finally:
            self.completer.forget()

    def _execute(self, sql: str) -> None:
        """Run a statement with the values of those parameters that it has, and show its rows."""
        began = time.perf_counter()
        names = {each.name for each in placeholders(sql)}
        params = {name: value for name, value in self.params.items() if name in names}
        lines: list[str] = []
        with _sign_of_life():
            result = self.session.sql(sql, params=params or None)
            output, self.output = self.output, None
            if output is not None:
                outputs.save_rows(result, outputs.format_of(str(output)), output, progress="never")
            elif self.mode == "table":
                lines = outputs.table_lines(
                    result.rows(),
                    max_rows=outputs.shown_rows(self.max_rows, self.pager),
                    option=".maxrows",
                )
        if output is None and self.mode != "table":
            outputs.print_rows(result.rows(), self.mode)
        seconds = time.perf_counter() - began
        if lines:
            print_table(lines, self.pager)
        if output is not None:
            print(f"wrote {described(str(output))}")
        sys.stdout.flush()
        if self.timer:
            print(coloured(f"time: {seconds:.3f} s", "faint", sys.stdout))

    def _command(self, line: str) -> None:
        """Run a line that begins with a dot."""
        name, _, argument = line.removesuffix(";").partition(" ")
        if name not in _COMMANDS:
            raise errors.InvalidInputError(
                f"there is no command {name!r}; there are {', '.join(_COMMANDS)}"
                f"{errors.nearest(name, _COMMANDS)}"
            )
        usage, _, run = _COMMANDS[name]
        argument = argument.strip()
        if argument and usage == name:
            raise errors.InvalidInputError(f"{name} takes no argument; it was given {argument!r}")
        run(self, argument)

    @_dot(".tables", "list the tables")
    def tables(self, _: str) -> None:
        """List the tables, with the lengths of axes."""
        is_alone = len(self.session._connections.schemas) == 1  # noqa: SLF001 - our own
        lengths = {
            axis if is_alone else f"{schema}.{axis}": length
            for length, schema, axis in longest_axes(self.session)
        }
        rows = [{"table": name, "rows": lengths.get(name)} for name in self.session.tables()]
        table = pa.Table.from_pylist(rows, pa.schema({"table": pa.string(), "rows": pa.int64()}))
        self._show(Rows(table.schema, table.to_batches()))

    @_dot(".schema [TABLE]", "list the columns of a table, or of all")
    def schema(self, argument: str) -> None:
        """List the columns of a table, or of all."""
        query = _COLUMNS if not argument else f"DESCRIBE {argument}"
        self._show(self.session.sql(query).rows())

    @_dot(".matrices", "list the matrices")
    def matrices(self, _: str) -> None:
        """List the matrices."""
        schemas = self.session._connections.schemas  # noqa: SLF001 - our own
        columns = "rows_axis, columns_axis, name, type, is_sparse, layouts, elements"
        listed = f"schema, {columns}" if len(schemas) > 1 else columns
        parts = [f"SELECT {listed} FROM {quoted_name(name)}.matrices" for name in schemas]  # noqa: S608 - names of ours
        rows = self.session.sql(" UNION ALL ".join(parts))
        self._show(rows.sort("rows_axis", "columns_axis", "name").rows())

    @_dot(f".mode {'|'.join(MODES)}", "show rows so")
    def set_mode(self, argument: str) -> None:
        """Set how rows are shown."""
        if argument:
            self.mode = _one_of(".mode", argument, MODES)
        else:
            print(self.mode)

    @_dot(".timer on|off", "show how long queries take")
    def set_timer(self, argument: str) -> None:
        """Set whether times are shown."""
        self.timer = _one_of(".timer", argument, _SWITCH) == "on"

    @_dot(".output FILE", f"write the rows of the next query: {_SUFFIXES}")
    def set_output(self, argument: str) -> None:
        """Set the file for the rows of the next query; without one, they are shown."""
        path = Path(argument).expanduser() if argument not in ("", "-") else None
        if path is not None:
            outputs.format_of(str(path))  # or an error that says which there are
            refuse_own_files(self.session._connections.data_sets(), path)  # noqa: SLF001 - our own
        self.output = path

    @_dot(".maxrows N", "show N rows of a table; 0: all")
    def set_max_rows(self, argument: str) -> None:
        """Set how many rows of a table are shown."""
        if not argument.isdecimal():
            raise errors.InvalidInputError(
                f".maxrows takes a number of rows, 0 for all; it was given {argument!r}"
            )
        self.max_rows = int(argument)

    @_dot(".pager on|off", "show long tables in a pager")
    def set_pager(self, argument: str) -> None:
        """Set whether what is long is shown in a pager."""
        self.pager = pager() if _one_of(".pager", argument, _SWITCH) == "on" else None

    @_dot(".help", "list the commands")
    def help(self, _: str) -> None:
        """List the commands."""
        width = max(len(usage) for usage, *_ in _COMMANDS.values())
        for usage, summary, _run in _COMMANDS.values():
            print(f"{usage:<{width}}  {summary}")
        print(
            "\nAnything else is SQL, which a semicolon ends. Tab completes, Ctrl-R searches the "
            "history,\nCtrl-C cancels a query or a line, Ctrl-D leaves."
        )

    @_dot(".quit", "leave, as Ctrl-D does")
    def quit(self, _: str) -> None:
        """Leave."""
        raise EOFError

    def _show(self, rows: Rows) -> None:
        outputs.print_rows(rows, "table", max_rows=0, pager=self.pager)


def _one_of(command: str, argument: str, choices: Sequence[Any]) -> Any:
    if argument not in choices:
        raise errors.InvalidInputError(
            f"{command} takes {' or '.join(choices)}; it was given "
            f"{repr(argument) if argument else 'nothing'}"
        )
    return argument


@contextlib.contextmanager
def _sign_of_life() -> Iterator[None]:
    """Say on a terminal after a second that it goes on, and how to end it."""
    said = ["... Ctrl-C cancels"]
    sign = threading.Timer(1, print, said, {"file": sys.stderr, "flush": True})
    sign.daemon = True
    if sys.stderr.isatty():
        sign.start()
    try:
        yield
    finally:
        sign.cancel()
