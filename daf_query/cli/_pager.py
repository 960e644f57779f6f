"""The pager for what is longer or wider than the terminal: that of ``PAGER``, or less."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from daf_storage.spi import text_width

_ESCAPES: Final = re.compile(r"\x1b\[[\d;]*m")
_LESS: Final = "RSX"
"""Colours, long lines cut at the edge, and what was seen stays on the screen."""


def pager_of(options: argparse.Namespace) -> str | None:
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


def print_lines(lines: Sequence[str], command: str | None) -> None:
    """Print lines, in a pager if there is one and they do not fit."""
    if command is None or _fits(lines):
        print(*lines, sep="\n")
        return
    sys.stdout.flush()
    environment = {"LESS": _LESS, **os.environ}
    with (
        _undisturbed(),
        subprocess.Popen(  # noqa: S602 - PAGER is a line of the shell, which the user wrote
            command, shell=True, stdin=subprocess.PIPE, env=environment, encoding="utf-8"
        ) as process,
        contextlib.suppress(BrokenPipeError),  # it was left before its end
    ):
        process.communicate("\n".join(lines) + "\n")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Leave Ctrl-C to the pager."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fits(lines: Sequence[str]) -> bool:
    size = shutil.get_terminal_size()
    is_short = len(lines) < size.lines
    return is_short and all(text_width(_ESCAPES.sub("", line)) <= size.columns for line in lines)
