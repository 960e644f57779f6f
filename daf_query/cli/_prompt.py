"""The prompt of ``daf sql``: it reads SQL and commands, and shows what they answer.

Lines are read with history, completion and colours, by prompt_toolkit.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from daf_query._formats import ROW_FORMATS
from daf_query._provenance import refuse_own_files
from daf_query._row_files import Rows, format_of
from daf_query.cli import _output
from daf_query.cli._failures import failure_sentence
from daf_query.cli._terminal import (
    coloured,
    coloured_table,
    described,
    has_colours,
    pager,
    print_lines,
)
from daf_query.completion import SqlCompleter
from daf_query.session import DafSession
from daf_query.sql import QueryResult, error_place, listed_tables
from daf_query.syntax import is_ended, placeholders, quoted_name, statements
from daf_storage import errors
from daf_storage._terminal_text import visible, visible_name
from daf_storage.base import optional_import

PromptMode: TypeAlias = Literal["table", "csv", "tsv", "json", "ndjson"]
"""How rows are shown."""

MODES: Final = ("table", *(each.name for each in ROW_FORMATS.values() if each.is_text))


@dataclass(slots=True)
class PromptSettings:
    """How the prompt shows rows; one of the few objects that change."""

    mode: PromptMode = "table"
    """How rows are shown."""
    timer: bool = False
    """Whether the time of each query is shown."""
    output: Path | None = None
    """The file for the rows of the next query."""
    max_rows: int | None = None
    """How many rows of a table are shown; None: as many as fit the pager or the screen, 0: all."""
    pager: str | None = None
    """The command that shows what is long."""
    params: Mapping[str, Any] = field(default_factory=dict)
    """Values of ``$name``."""


ReadLine: TypeAlias = Callable[[], str]
"""Reads what is typed; raises KeyboardInterrupt for Ctrl-C and EOFError for Ctrl-D."""

LEAVING: Final = ("quit", "exit")
"""Words that leave the prompt, also without a dot."""

_PROMPT: Final = "daf> "
_CONTINUATION: Final = "...> "
_EXTRA: Final = "prompt"
_STYLE: Final = {
    "pygments.keyword": "bold ansigreen",
    "pygments.name.builtin": "ansigreen",
    "pygments.literal.string": "ansimagenta",
    "pygments.literal.string.symbol": "ansicyan",
    "pygments.literal.number": "ansimagenta",
    "pygments.comment": "italic",
}
"""Colours of the terminal's own palette, which can be read on a dark and on a light ground."""


def require_prompt() -> None:
    """Raise an error that says what to install, if something is missing."""
    for module in ("prompt_toolkit", "pygments"):
        optional_import(module, extra=_EXTRA)


def history_path() -> Path:
    """Return the file of the history, in the folder for state of programs."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return folder / "daf" / "sql_history"


def is_complete(text: str) -> bool:
    """Return whether Enter runs what is typed: a command, or statements with their semicolon.

    >>> is_complete("SELECT ';'"), is_complete("SELECT 1;"), is_complete(".tables")
    (False, True, True)
    """
    plain = text.strip()
    return plain.startswith(".") or plain.lower() in LEAVING or is_ended(text)


def line_reader(completer: SqlCompleter) -> ReadLine:
    """Return what reads from the terminal.

    Raises
    ------
    MissingDependencyError
        The extra ``prompt`` is not installed.
    """
    shortcuts = optional_import("prompt_toolkit.shortcuts", extra=_EXTRA)
    session = shortcuts.PromptSession(
        _PROMPT,
        multiline=True,
        prompt_continuation=lambda *_: _CONTINUATION,
        completer=_PromptCompleter(completer),
        complete_in_thread=True,
        complete_while_typing=True,
        history=_history(),
        key_bindings=_key_bindings(),
        **_colours(),
    )
    read: ReadLine = session.prompt
    return read


def _colours() -> dict[str, Any]:
    """Return what makes SQL coloured, or all plain."""
    if not has_colours(sys.stdout):
        depth = optional_import("prompt_toolkit.output", extra=_EXTRA).ColorDepth
        return {"color_depth": depth.DEPTH_1_BIT}
    lexers = optional_import("prompt_toolkit.lexers", extra=_EXTRA)
    styles = optional_import("prompt_toolkit.styles", extra=_EXTRA)
    sql = optional_import("pygments.lexers.sql", extra=_EXTRA)
    return {
        "lexer": lexers.PygmentsLexer(sql.SqlLexer),
        "style": styles.Style.from_dict(_STYLE),
        "include_default_pygments_style": False,
    }


def _key_bindings() -> Any:
    """Return what Enter does: it takes a completion, runs what is complete, or begins a line."""
    bindings = optional_import("prompt_toolkit.key_binding", extra=_EXTRA).KeyBindings()
    filters = optional_import("prompt_toolkit.filters", extra=_EXTRA)
    is_typing = filters.has_focus("DEFAULT_BUFFER")

    @bindings.add("enter", filter=is_typing)  # type: ignore[untyped-decorator] # it has no types here
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


class _PromptCompleter:
    """Completions as prompt_toolkit has them."""

    def __init__(self, completer: SqlCompleter) -> None:
        self._completer = completer
        module = optional_import("prompt_toolkit.completion", extra=_EXTRA)
        self._completion: Any = module.Completion

    def get_completions(self, document: Any, event: Any) -> Iterator[Any]:
        """Yield the completions of what is typed; before a word begins, only if asked for."""
        text, cursor = document.text, document.cursor_position
        if text.lstrip().startswith("."):
            return
        is_begun = cursor > 0 and not text[cursor - 1].isspace() and text[cursor - 1] not in "(,;"
        if not is_begun and not event.completion_requested:
            return
        completions = []
        with contextlib.suppress(Exception):  # what goes wrong, the query says when it runs
            completions = self._completer.completions(text, cursor)
        for each in completions:
            yield self._completion(
                each.text,
                start_position=each.start - cursor,
                display=each.name,
                display_meta=each.kind,
            )


def _history() -> Any:
    """Return what was typed, in this run and earlier ones; in memory if the file cannot be."""
    module = optional_import("prompt_toolkit.history", extra=_EXTRA)
    try:
        path = history_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    except (OSError, RuntimeError):  # no such home, or it is read-only
        return module.InMemoryHistory()
    return module.FileHistory(str(path))


_SWITCH: Final = ("on", "off")


@dataclass(frozen=True, slots=True)
class PromptCommands:
    """The commands of a session, by their names."""

    session: DafSession
    settings: PromptSettings

    def run(self, line: str) -> None:
        """Run a line that begins with a dot.

        Raises
        ------
        InvalidInputError
            There is no such command, or its argument is none that it takes.
        """
        name, _, argument = line.strip().removesuffix(";").partition(" ")
        if name not in _COMMANDS:
            has = ", ".join(_COMMANDS)
            raise errors.InvalidInputError(
                f"there is no command {name!r}; there are {has}{errors.nearest(name, _COMMANDS)}"
            )
        _COMMANDS[name][2](self, argument.strip())

    def tables(self, argument: str) -> None:
        """List the tables, with their rows where that is known."""
        _no_argument(".tables", argument)
        listed = self._listed()
        names = [_query_name(self.session, each.schema, each.name) for each in listed]
        rows = [self._length(each.schema, each.name) for each in listed]
        kinds = [each.type.lower() for each in listed]
        self._show({"table": names, "rows": pa.array(rows, pa.int64()), "type": kinds})

    def schema(self, argument: str) -> None:
        """List the columns of a table, or of all."""
        wanted = argument.replace('"', "")
        columns: list[tuple[str, str, str]] = []
        known = {_query_name(self.session, t.schema, t.name): t for t in self._listed()}
        chosen = [wanted] if wanted in known else [name for name in known if not wanted]
        if not chosen:  # the error of the query says what there is
            table = ".".join(map(quoted_name, wanted.split(".")))
            self.session.sql(f"SELECT * FROM {table}")  # noqa: S608 - it is planned only
        for name in chosen:
            table = f"{quoted_name(known[name].schema)}.{quoted_name(known[name].name)}"
            schema = self.session.sql(f"SELECT * FROM {table}").schema  # noqa: S608 - as above
            columns += [(name, field.name, _type_name(field.type)) for field in schema]
        names = ("table", "column", "type") if len(chosen) > 1 else ("column", "type")
        rows = [row[-len(names) :] for row in columns]
        self._show({name: [row[place] for row in rows] for place, name in enumerate(names)})

    def matrices(self, argument: str) -> None:
        """List the matrices."""
        _no_argument(".matrices", argument)
        columns = "rows_axis, columns_axis, name, type, is_sparse, layouts, elements"
        schema = "schema, " if len(self.session._connections.schemas) > 1 else ""  # noqa: SLF001 - our own
        parts = [
            f"SELECT {schema}{columns} FROM {quoted_name(name)}.matrices"  # noqa: S608 - names of ours
            for name in self.session._connections.schemas  # noqa: SLF001 - our own
        ]
        rows = self.session.sql(" UNION ALL ".join(parts)).sort("rows_axis", "columns_axis", "name")
        _output.show_table(rows.rows(), pager=self.settings.pager)

    def mode(self, argument: str) -> None:
        """Set how rows are shown."""
        if not argument:
            print(self.settings.mode)
            return
        self.settings.mode = _one_of(".mode", argument, MODES)

    def timer(self, argument: str) -> None:
        """Set whether times are shown."""
        self.settings.timer = _one_of(".timer", argument, _SWITCH) == "on"

    def output(self, argument: str) -> None:
        """Set the file for the rows of the next query; without one, they are shown."""
        if not argument or argument == "-":
            self.settings.output = None
            return
        path = Path(argument).expanduser()
        if path.suffix != ".txt":
            format_of(path)  # or an error that says which there are
        refuse_own_files(self.session._connections.data_sets(), path)  # noqa: SLF001 - our own
        self.settings.output = path

    def max_rows(self, argument: str) -> None:
        """Set how many rows of a table are shown."""
        if not argument.isdecimal():
            raise errors.InvalidInputError(
                f".maxrows takes a number of rows, 0 for all; it was given {argument!r}"
            )
        self.settings.max_rows = int(argument)

    def paging(self, argument: str) -> None:
        """Set whether what is long is shown in a pager."""
        self.settings.pager = pager() if _one_of(".pager", argument, _SWITCH) == "on" else None

    def help(self, argument: str) -> None:
        """List the commands."""
        _no_argument(".help", argument)
        width = max(len(usage) for usage, *_ in _COMMANDS.values())
        for usage, summary, _ in _COMMANDS.values():
            print(f"{usage:<{width}}  {summary}")
        print(
            "\nAnything else is SQL, which a semicolon ends. Tab completes, Ctrl-R searches the "
            "history,\nCtrl-C cancels a query or a line, Ctrl-D leaves."
        )

    def quit(self, _: str) -> None:
        """Leave."""
        raise EOFError

    def _listed(self) -> Sequence[Any]:
        return listed_tables(self.session._connections)  # noqa: SLF001 - our own

    def _length(self, schema: str, name: str) -> int | None:
        tables = self.session._connections.schemas.get(schema)  # noqa: SLF001 - our own
        is_axis = tables is not None and name in tables.axes_set() and name not in tables.added
        return tables.axis_length(name) if tables is not None and is_axis else None

    def _show(self, columns: Mapping[str, Any]) -> None:
        table = pa.table(dict(columns))
        rows = Rows(table.schema, table.to_batches())
        _output.show_table(rows, pager=self.settings.pager)


_COMMANDS: Final[Mapping[str, tuple[str, str, Callable[[PromptCommands, str], None]]]] = {
    usage.split(maxsplit=1)[0]: (usage, summary, run)
    for usage, summary, run in (
        (".tables", "list the tables", PromptCommands.tables),
        (".schema [TABLE]", "list the columns of a table, or of all", PromptCommands.schema),
        (".matrices", "list the matrices", PromptCommands.matrices),
        (f".mode {'|'.join(MODES)}", "show rows so", PromptCommands.mode),
        (".timer on|off", "show how long queries take", PromptCommands.timer),
        (
            ".output FILE",
            "write the rows of the next query: .csv, .tsv, .parquet, .arrow, .json, .ndjson, .txt",
            PromptCommands.output,
        ),
        (".maxrows N", "show N rows of a table; 0: all", PromptCommands.max_rows),
        (".pager on|off", "show long tables in a pager", PromptCommands.paging),
        (".help", "list the commands", PromptCommands.help),
        (".quit", "leave, as Ctrl-D does", PromptCommands.quit),
    )
}
"""How each is written, what it does, and what runs it."""


def _no_argument(command: str, argument: str) -> None:
    if argument:
        raise errors.InvalidInputError(f"{command} takes no argument; it was given {argument!r}")


def _one_of(command: str, argument: str, choices: Sequence[Any]) -> Any:
    if argument not in choices:
        raise errors.InvalidInputError(
            f"{command} takes {' or '.join(choices)}; it was given "
            f"{repr(argument) if argument else 'nothing'}"
        )
    return argument


def _query_name(session: DafSession, schema: str, name: str) -> str:
    """Return the shortest name that a query has for a table."""
    schemas = session._connections.schemas  # noqa: SLF001 - our own
    return f"{schema}.{name}" if len(schemas) > 1 and schema in schemas else name


def _type_name(data_type: pa.DataType) -> str:
    is_coded = pa.types.is_dictionary(data_type)
    return f"{data_type.value_type} (categorical)" if is_coded else str(data_type)


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
        output, mode = self._settings.output, self._settings.mode
        result = self._planned(sql)
        if output is not None:
            self._settings.output = None
            _output.to_file(result, _output.format_of(str(output)), output, progress="never")
            seconds = time.perf_counter() - began
            print(f"wrote {described(str(output))}")
        elif mode == "table":
            lines = self._lines(result.rows())
            seconds = time.perf_counter() - began
            print_lines(coloured_table(lines, sys.stdout), self._settings.pager)
        else:
            _output.to_stdout(result, mode, max_rows=None)
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


def _plan_lines(rows: Rows) -> Iterator[str]:
    """Yield the lines of a plan, which a table would put into one."""
    for batch in rows.batches:
        for row in batch.to_pylist():
            yield f"{row['plan_type']}:"
            yield from (f"  {line}" for line in str(row["plan"]).rstrip().split("\n"))
