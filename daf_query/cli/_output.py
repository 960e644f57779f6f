"""The output of commands: exit codes, colours, the pager, tables, JSON, files, and sentences.

Colours are for a terminal; none in pipes and files, and none where ``NO_COLOR`` is set.  The pager
is that of ``PAGER``, or less.  Rows are written as they come.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import re
import shutil
import signal
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeAlias

from daf_query._formats import FILE_FORMATS, ROW_FORMATS, FileFormat
from daf_query.cli._later import display, pa, provenance, pydoc, row_files, sql, stores
from daf_storage import DafError, errors
from daf_storage._terminal_text import text_width, visible, visible_name

if TYPE_CHECKING:
    from daf_query._row_files import Format, Rows
    from daf_query.session import DafSession
    from daf_query.sql import QueryResult
    from daf_storage import ShowProgress

OutputFormat: TypeAlias = "Format | Literal['table']"
"""How rows are printed or written."""
Style: TypeAlias = Literal["heading", "faint", "error"]
"""What is set apart."""

DONE: Final = 0
FAILED: Final = 1
"""The request failed, or `verify` found an error; wrong usage is 2, as argparse has it."""
DATA_LOST: Final = 3
"""A repair is done, and something is lost or damaged: the output names it."""
LEFT_OUT: Final = 4
"""It is done, without those data sets of a pattern that cannot be opened: stderr names them."""
INTERRUPTED: Final = 128 + signal.SIGINT

_CODES: Final = {"heading": "1", "faint": "2", "error": "1;31"}
_BLANKS: Final = str.maketrans("\n\t", "  ")
_STANDARD_OUTPUT: Final = 1
_TERMINAL_ROWS: Final = 40
_PAGED_ROWS: Final = 10_000
_MAX_CELL: Final = 60
_MOST_COUNTED: Final = 10_000
"""Rows of a table are counted so far, so that its first rows do not wait for all."""


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours that nobody has switched off."""
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return not is_plain and stream.isatty()


def coloured(text: str, style: Style, stream: TextIO) -> str:
    """Return text as it is printed on a stream."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if has_colours(stream) else text


def pager_of(options: Namespace) -> str | None:
    """Return the pager of a command; None if it was refused."""
    return None if options.no_pager else pager()


def pager() -> str | None:
    """Return the command of the pager; None where there is none, or ``PAGER`` is empty or cat."""
    if not (sys.stdout.isatty() and sys.stdin is not None and sys.stdin.isatty()):
        return None
    is_dumb = os.environ.get("TERM") == "dumb"  # less asks for a key before it shows anything
    chosen = os.environ.get("PAGER", "" if is_dumb else "less").strip()
    program = chosen.split(maxsplit=1)[0] if chosen else ""
    is_there = program not in ("", "cat") and shutil.which(program) is not None
    return chosen if is_there else None


def print_table(lines: Sequence[str], command: str | None) -> None:
    """Print the lines of a table, the first in bold; in a pager if there is one and need be."""
    size = shutil.get_terminal_size()
    is_wide = any(text_width(line) > size.columns for line in lines)
    lines = [coloured(lines[0], "heading", sys.stdout), *lines[1:]]
    if command is None or (len(lines) < size.lines and not is_wide):
        print(*lines, sep="\n")
        return
    sys.stdout.flush()
    os.environ.setdefault("LESS", "RSX")  # colours, long lines cut, and it stays on the screen
    pydoc.pipepager("\n".join(lines) + "\n", command)


def aligned(
    names: Sequence[str], rows: Iterable[Sequence[str]], is_number: Sequence[bool]
) -> list[str]:
    """Return the lines of a table, numbers to the right.

    >>> aligned(["type", "n"], [["B", "12"]], [False, True])
    ['type   n', '----  --', 'B     12']
    """
    listed = [[visible(cell).translate(_BLANKS) for cell in row] for row in (names, *rows)]
    widths = [max(map(text_width, column)) for column in zip(*listed, strict=True)]
    lines = []
    for row in (listed[0], ["-" * width for width in widths], *listed[1:]):
        cells = []
        for cell, width, to_right in zip(row, widths, is_number, strict=True):
            blanks = " " * (width - text_width(cell))
            cells.append(blanks + cell if to_right else cell + blanks)
        lines.append("  ".join(cells).rstrip())
    return lines


def cell_text(value: Any) -> str:
    """Return a value as people read it in a table.

    >>> cell_text(None), cell_text(True), cell_text(1228.43219)
    ('NULL', 'true', '1228.43')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_large = 1e6 <= abs(value) < 1e15
        return f"{value:.1f}" if is_large else f"{value:.6g}"
    return str(value)


def table_lines(rows: Rows, *, max_rows: int | None, option: str = "--max-rows") -> list[str]:
    """Return rows as an aligned table; numbers to the right, at most ``max_rows`` of them.

    Parameters
    ----------
    option
        What shows all.
    """
    if rows.schema.names == sql.PLAN_COLUMNS:
        return list(_plan_lines(rows))
    rows = rows.plain()
    shown: list[list[str]] = []
    total = 0
    most = math.inf if max_rows is None else max(max_rows, _MOST_COUNTED)
    for batch in rows.batches:
        total += batch.num_rows
        page = batch if max_rows is None else batch.slice(0, max_rows - len(shown))
        shown.extend([_cell(value) for value in row] for row in row_files.lists_of(page))
        if total > most:
            break
    types = pa.types
    is_number = [types.is_integer(t) or types.is_floating(t) for t in rows.schema.types]
    lines = aligned(rows.schema.names, shown, is_number)
    if total > len(shown):
        count = f"{total:,}" if total <= most else f"more than {most:,}"
        lines.append(f"... {count} rows; {len(shown)} shown, {option} 0 shows all")
    elif not shown:
        lines.append("(no rows)")
    return lines


def _plan_lines(rows: Rows) -> Iterator[str]:
    """Yield the lines of a plan, of which a table would show the first words."""
    for batch in rows.batches:
        for row in batch.to_pylist():
            yield f"{row['plan_type']}:"
            yield from (f"  {visible(line)}" for line in str(row["plan"]).rstrip().split("\n"))


def _cell(value: Any) -> str:
    text = cell_text(value)
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def shown_rows(max_rows: int | None, pager: str | None) -> int | None:
    """Return how many rows of a table are printed; None for all."""
    if max_rows is None and sys.stdout.isatty():
        return _TERMINAL_ROWS if pager is None else _PAGED_ROWS
    return max_rows or None


def format_of(output: str | None, among: Mapping[str, FileFormat] = ROW_FORMATS) -> OutputFormat:
    """Return the format that a file name asks for; a table for standard output."""
    if output is None or Path(output).suffix == ".txt":
        return "table"
    found: OutputFormat = row_files.format_of(Path(output), None, among)
    return found


def file_of(output: str | None) -> str | None:
    """Return the file to write to; None for standard output, also if that is named."""
    if output is None or output == "-":
        return None
    is_folder = Path(output).is_dir()  # of a slice in Zarr
    return (
        output if is_folder or stores.find_output(output).descriptor != _STANDARD_OUTPUT else None
    )


def refuse_binary(file_format: str) -> None:
    """Refuse to print what no terminal shows."""
    is_text = any(each.is_text for each in FILE_FORMATS if each.name == file_format)
    if not is_text and sys.stdout.isatty():
        raise errors.InvalidInputError(
            f"{file_format} is binary; write it to a file with -o FILE, or into a pipe"
        )


def print_rows(
    rows: Rows, file_format: OutputFormat, *, max_rows: int | None = None, pager: str | None = None
) -> None:
    """Print rows, as a table or for programs; on a terminal, visibly."""
    if file_format == "table":
        print_table(table_lines(rows, max_rows=shown_rows(max_rows, pager)), pager)
        return
    refuse_binary(file_format)
    sys.stdout.flush()
    is_terminal = sys.stdout.isatty()
    if not is_terminal and hasattr(sys.stdout, "buffer"):  # a notebook's output has none
        row_files.write_rows(rows, file_format, sys.stdout.buffer)
        return
    written = io.BytesIO()
    row_files.write_rows(rows, file_format, written)
    text = written.getvalue().decode()
    sys.stdout.write(visible(text) if is_terminal else text)


def save_rows(
    result: QueryResult, file_format: OutputFormat, path: Path, *, progress: ShowProgress
) -> None:
    """Write the rows of a query; the file appears when it is complete."""
    if file_format != "table":
        result.save(path, format=file_format, progress=progress)
        return
    lines = table_lines(result.rows(), max_rows=None)
    with stores.open_output(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def show_or_save(
    session: DafSession, result: QueryResult, options: Namespace, file_format: OutputFormat
) -> None:
    """Print the rows of an answer, or write them to a file, as the options of a command say."""
    output = file_of(options.output)
    if output is None:
        is_described = file_format != "table" and ROW_FORMATS[file_format].is_described
        rows = result.rows(provenance=None if is_described else False)
        print_rows(rows, file_format, max_rows=options.max_rows, pager=pager_of(options))
    else:
        provenance.refuse_own_files(session._connections.data_sets(), output)  # noqa: SLF001 - our own
        save_rows(result, file_format, Path(output), progress=options.progress)


def print_json(record: Any, **how: Any) -> None:
    """Print a record for programs."""
    print(visible(json.dumps(record, **{"indent": 2, **how})))  # the same JSON


def report(
    options: Namespace,
    text: object,
    *,
    details: Iterable[object] = (),
    to: TextIO | None = None,
    **record: Any,
) -> None:
    """Say what a command has done: a sentence, unless it is to be quiet, or JSON for programs.

    Parameters
    ----------
    details
        What is printed before the sentence in any case.
    to
        Where the sentence goes, if not to standard output.
    """
    if options.format == "json":
        print_json(record)
        return
    for each in details:
        print(visible_name(each))
    if text and options.progress == "auto":
        print(visible(text), file=to)


def print_report(found: Any, file_format: str | None) -> None:
    """Print what a command has found, as text or as JSON."""
    if file_format not in (None, "table", "text", "json"):
        raise errors.InvalidInputError(f"a plan is printed as a table or json, not {file_format}")
    if file_format == "json":
        print_json(found.as_dict() if hasattr(found, "as_dict") else found.to_dict())
    else:
        print(visible(found))


def described(path: str) -> str:
    """Return a file that was written, with its size if it has one."""
    is_there = Path(path).is_dir() or stores.find_output(path).is_regular
    return f"{path} ({display.readable_bytes(size_bytes(path))})" if is_there else path


def size_bytes(path: str) -> int:
    """Return how many bytes a data set has on disk."""
    container = Path(path.partition("#/")[0])
    files = container.rglob("*") if container.is_dir() else [container]
    return sum(file.stat().st_size for file in files if file.is_file())


def command_line(*words: str) -> str:
    """Return a command as a shell takes it; strings of SQL stay as they are.

    >>> print(command_line("diagnose", "my pbmc.h5ad", "obs", "type = 'T'"))
    daf diagnose "my pbmc.h5ad" obs "type = 'T'"
    """
    return " ".join(["daf", *map(errors.in_shell, words)])


_ARGUMENTS: Final = (
    *("rows", "columns", "obs_is", "var_is", "X_is", "fill", "name", "key", "merge", "empty"),
    *("port", "host", "max_bytes", "skip_broken", "by", "where", "weights", "stratify", "groups"),
    *("rows_axis", "columns_axis"),
)
_QUOTED: Final = "'([^']*)'"
_FORMS: Final[Mapping[str, Any]] = {
    re.escape(errors.REPLACE): "--overwrite",
    r'\bduplicates="make_unique"': "--make-unique",
    r"\bempty=\{(\([^)]*\)|'[^']*'): [^}]*\}": lambda found: (
        f"--empty {'/'.join(re.findall(_QUOTED, found[1]))}=VALUE"
    ),
    r"\b(join|merge)=[\"'](\w+)[\"']": r"--\1 \2",
    r"\b(rows|columns|by|where|weights|stratify|groups|reference)=([\"'])": r"--\1 \2",
    r"\b(rows|columns)_axis='([^']*)'": r"--\1-axis \2",
    r"\bparams=\{'([^']*)': [^}]*\}": r"--param \1=...",
    r"\bparams=(?= has)": "--param",
    r"\bsay which format\b": "say which format with --format",
    r"\bprefix=True": "--prefix",
    r"\bis_log1p=False": "--counts",
    r"\bcolumns=\{'([^']*)': '([^']*)'\}": r"--columns \1=\2",
    r"\b(of|pass) split=(?= )": r"\1 --share",
    r"\{'[^']*': [\d.]+(, '[^']*': [\d.]+)*\}": lambda found: re.sub(
        r"'([^']*)': ([\d.]+),?", r"--share \1=\2", found[0][1:-1]
    ),
    re.escape(errors.SKIP_BROKEN): "--skip-broken",
    r"\bnames=\[\.\.\.\]": "--names",
    r"\banother dataset_axis\b(, or dataset_property=False)?": "another --dataset-axis",
    r"\bpass a list: (rows|columns)=\[('[^'\"$`\\]+')\]": r'write --\1 "\2,"',
    r"\bconnect\('([^']*)', overlay='([^']*)'\)": r"pass \1 --overlay \2",
    rf"(?<![\w'\"-])({'|'.join(_ARGUMENTS)})=(?=[ ,;:]|$)": lambda found: (
        f"--{found[1].replace('_', '-')}"
    ),
}
"""How arguments and calls are written in messages, and on the command line."""
_BESIDE: Final = r"(\(daf import (.+) OUT\.daf\.zarr\))(, or write beside it: )connect\(.+\)"
_OVERLAYS: Final = {
    "annotate": r"\1\3daf annotate \2 mine.daf.zarr ...",
    "save-axis": r"\1\3daf save-axis \2 ... --overlay mine.daf.zarr",
    "save-vector": r"\1\3daf save-vector \2 ... --overlay mine.daf.zarr",
}
"""The commands that write beside an AnnData, and how."""
_DIAGNOSING: Final = re.compile(r"(.*): (\w+= .*; )db\.diagnose\((.*)\)(.*)")


_IN_PROMPT: Final = {
    "with -o FILE": "with .output FILE",
    ", or say which format with --format": "",
    "pass --param": "start daf sql with --param",
}
"""What the prompt says otherwise, which has no options."""


def option_forms(text: str, command: str = "") -> str:
    """Return a message of the packages in the words of the command line, or of a command.

    >>> option_forms("pass empty={('cell', 'age'): ...}, or prefix=True")
    'pass --empty cell/age=VALUE, or --prefix'
    >>> option_forms("rows= on axis 'cell': no vector 'a'")
    "--rows on axis 'cell': no vector 'a'"
    """
    if (found := _DIAGNOSING.match(text)) is not None:  # what is asked there stays as it is
        path, before, arguments, after = found.groups()
        written = command_line("diagnose", path, *ast.literal_eval(f"({arguments})"))
        return option_forms(before) + visible_name(written) + after  # in one line
    for pattern, form in (*_FORMS.items(), (_BESIDE, _OVERLAYS.get(command, r"\1"))):
        text = re.sub(pattern, form, text)
    return text


def failure_sentence(error: Exception, command: str = "") -> str:
    """Return what is printed of an error; of the engine's, which raises plain ones, the core.

    What writes a file names it; an error of the system without a name is of standard output.

    Examples
    --------
    >>> failure_sentence(errors.path_exists("x.daf.zarr"))
    'x.daf.zarr exists already; pass --overwrite to replace it, or name another path'
    >>> failure_sentence(MemoryError())
    'not enough memory for the result; ask for fewer rows or columns'
    """
    if isinstance(error, DafError):  # some are errors of the system, too
        remedy = error.remedy
        if remedy is not None and remedy.argument == errors.ALLOW_WRITE:  # there is no such option
            remedy = errors.Remedy("", "write its rows to a file with -o FILE")
        return option_forms(str(error) if remedy is None else error.sentence(remedy), command)
    if isinstance(error, OSError):
        where = "" if error.filename is not None else "standard output"
        return str(errors.from_os_error(error, where))
    if isinstance(error, MemoryError):
        return "not enough memory for the result; ask for fewer rows or columns"
    return sql.strip_prefixes(str(error)) or type(error).__name__


def print_failure(
    error: Exception | str, command: str = "", *, written: str = "", in_prompt: bool = False
) -> None:
    """Print an error in one line; details on a terminal only, tracebacks on request only.

    Parameters
    ----------
    command
        The name of the one that failed.
    written
        The SQL that it may be in: its place is marked in the details.
    in_prompt
        Whether it is of what was typed there: details are printed in any case.
    """
    if os.environ.get("DAF_DEBUG", "0") not in ("", "0"):
        traceback.print_exc()
    sentence = error if isinstance(error, str) else failure_sentence(error, command)
    for outside, form in _IN_PROMPT.items() if in_prompt else ():
        sentence = sentence.replace(outside, form)
    first, *details = visible(sentence).split("\n")
    place = sql.error_place(error, written) if written and isinstance(error, DafError) else None
    if place is not None:
        marked = [f"  {line}" for line in visible(place.mark(written)).split("\n")]
        details = marked if isinstance(error, errors.QueryError) else details + marked
    title = "error:" if in_prompt else "daf: error:"
    print(f"{coloured(title, 'error', sys.stderr)} {first}", file=sys.stderr)
    if details and (in_prompt or sys.stderr.isatty()):
        print(*details, sep="\n", file=sys.stderr)
