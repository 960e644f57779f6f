"""Pictures of commands in a terminal: real output, in a pseudo-terminal, as SVG.

pyte keeps the screen as a terminal would, and rich draws it.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pexpect
import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

_ROWS: Final = 30
_QUERY: Final = """SELECT bulk_labels, count(*) AS cells, avg("gene_raw.X"['NKG7']) AS nkg7"""
_COLOURS: Final = {"brown": "yellow", "brightbrown": "bright_yellow", "default": None}
# Fonts of the reader's machine: rich's own format loads some from the web.
_FORMAT: Final = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

Step = tuple[str, str]
"""What is typed, and what the screen shows thereafter."""


def take(folder: Path, data: Path) -> None:
    """Take the pictures; the commands run beside the data set."""
    scenes: dict[str, tuple[int, list[str], list[Step]]] = {
        "terminal-info": (118, ["info", data.name, "--values"], []),
        "terminal-describe": (144, ["describe", data.name, "cell"], []),
        "terminal-prompt": (
            96,
            ["sql", data.name],
            [
                (f"{_QUERY}\\n", "...>"),
                ("FROM cell GROUP BY bulk_labels ORDER BY nkg7 DESC LIMIT 4;\\n", "CD4+"),
                ("""SELECT name FROM cell WHERE "gene_raw.X"['CD8""", "CD8B"),
            ],
        ),
    }
    for name, (columns, arguments, steps) in scenes.items():
        screen = _after(arguments, steps, data.parent, columns)
        (folder / f"{name}.svg").write_text(_svg(screen, name, " ".join(["daf", *arguments])))


def _after(arguments: list[str], steps: Sequence[Step], folder: Path, columns: int) -> pyte.Screen:
    """Return the screen after a command has ended, or answered what was typed."""
    screen = pyte.Screen(columns, _ROWS)
    stream = pyte.ByteStream(screen)
    stream.feed(f"$ daf {' '.join(arguments)}\r\n".encode())
    environment = {"TERM": "xterm-256color", "PAGER": "cat", "PROMPT_TOOLKIT_NO_CPR": "1"}
    process = pexpect.spawn(
        sys.executable,
        ["-m", "daf_query.cli", *arguments],
        cwd=folder,
        env={**os.environ, **environment, "XDG_STATE_HOME": str(folder)},  # no history
        dimensions=(_ROWS, columns),
        timeout=60,
    )
    process.logfile_read = SimpleNamespace(write=stream.feed, flush=int)
    if not steps:
        process.expect(pexpect.EOF)
    for typed, shown in [("", "daf>"), *steps] if steps else []:
        process.send(typed.replace("\\n", "\r"))
        process.expect_exact(shown)
        process.expect([pexpect.TIMEOUT, pexpect.EOF], timeout=2)  # what else belongs to it
    process.close(force=True)
    return screen


def _svg(screen: pyte.Screen, name: str, title: str) -> str:
    """Return the screen, without the empty lines at its end."""
    used = max(row for row, line in enumerate(screen.display) if line.strip()) + 1
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    for row in range(used):
        line = Text(no_wrap=True, overflow="ignore")
        characters = [screen.buffer[row][column] for column in range(screen.columns)]
        for style, run in itertools.groupby(characters, _style):
            line.append("".join(character.data for character in run), style)
        line.rstrip()
        console.print(line, crop=False)
    console.print()
    svg = console.export_svg(title=title, code_format=_FORMAT, unique_id=name)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def _style(character: Any) -> Style:
    return Style(
        color=_colour(character.fg),
        bgcolor=_colour(character.bg),
        bold=character.bold,
        reverse=character.reverse,
        underline=character.underscore,
    )


def _colour(name: str) -> str | None:
    if name in _COLOURS:
        return _COLOURS[name]
    if len(name) == 6 and all(letter in "0123456789abcdefABCDEF" for letter in name):
        return f"#{name}"
    return name.replace("bright", "bright_")
