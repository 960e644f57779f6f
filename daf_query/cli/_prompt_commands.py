"""Commands of the prompt, which begin with a dot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa

from daf_query._provenance import refuse_own_files
from daf_query._row_files import Rows, format_of
from daf_query.cli._colours import coloured_table
from daf_query.cli._output import table_lines
from daf_query.cli._pager import pager, print_lines
from daf_query.cli._prompt_settings import MODES, PromptSettings
from daf_query.session import DafSession
from daf_query.sql import listed_tables
from daf_query.syntax import quoted_name
from daf_storage import errors

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
        command = _COMMANDS.get(name)
        if command is None:
            has = ", ".join(_COMMANDS)
            raise errors.InvalidInputError(
                f"there is no command {name!r}; there are {has}{errors.nearest(name, _COMMANDS)}"
            )
        command.run(self, argument.strip())

    def tables(self, argument: str) -> None:
        """List the tables, with their rows where that is known."""
        _no_argument(".tables", argument)
        names = [_query_name(self.session, each.schema, each.name) for each in self._listed()]
        rows = [self._length(each.schema, each.name) for each in self._listed()]
        kinds = [each.type.lower() for each in self._listed()]
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
        self._show_rows(rows.rows())

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
        width = max(len(command.usage) for command in _COMMANDS.values())
        for command in _COMMANDS.values():
            print(f"{command.usage:<{width}}  {command.summary}")
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
        is_axis = tables is not None and name in tables.axes_set() and not tables.has_added(name)
        return tables.axis_length(name) if tables is not None and is_axis else None

    def _show(self, columns: Mapping[str, Any]) -> None:
        table = pa.table(dict(columns))
        self._show_rows(Rows(table.schema, table.to_batches()))

    def _show_rows(self, rows: Rows) -> None:
        lines = table_lines(rows, max_rows=None)
        print_lines(coloured_table(lines, sys.stdout), self.settings.pager)


Action: TypeAlias = Callable[[PromptCommands, str], None]
"""Runs a command with its argument."""


@dataclass(frozen=True, slots=True)
class _Command:
    usage: str
    summary: str
    run: Action


_COMMANDS: Final[Mapping[str, _Command]] = {
    each.usage.split(maxsplit=1)[0]: each
    for each in (
        _Command(".tables", "list the tables", PromptCommands.tables),
        _Command(
            ".schema [TABLE]", "list the columns of a table, or of all", PromptCommands.schema
        ),
        _Command(".matrices", "list the matrices", PromptCommands.matrices),
        _Command(f".mode {'|'.join(MODES)}", "show rows so", PromptCommands.mode),
        _Command(".timer on|off", "show how long queries take", PromptCommands.timer),
        _Command(
            ".output FILE",
            "write the rows of the next query: .csv, .tsv, .parquet, .arrow, .json, .ndjson, .txt",
            PromptCommands.output,
        ),
        _Command(".maxrows N", "show N rows of a table; 0: all", PromptCommands.max_rows),
        _Command(".pager on|off", "show long tables in a pager", PromptCommands.paging),
        _Command(".help", "list the commands", PromptCommands.help),
        _Command(".quit", "leave, as Ctrl-D does", PromptCommands.quit),
    )
}


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
