"""Summaries that commands print: sizes, written files, and whether to show progress."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from daf_storage import ShowProgress
from daf_storage.spi import find_output, readable_bytes


def described(path: str) -> str:
    """Return a file that was written, with its size if it has one."""
    if Path(path).is_dir():
        return f"{path} ({readable_bytes(size_bytes(path))})"
    output = find_output(path)
    if not output.is_regular:
        return path
    return f"{path} ({readable_bytes(output.path.stat().st_size)})"


def size_bytes(path: str) -> int:
    """Return how many bytes a data set has on disk."""
    container = Path(path.split("#/", 1)[0])
    if container.is_file():
        return container.stat().st_size
    return sum(
        (Path(parent) / name).stat().st_size
        for parent, _, names in os.walk(container)
        for name in names
    )


def progress_of(options: argparse.Namespace) -> ShowProgress:
    """Return whether a command shows a progress bar."""
    return "never" if options.quiet else "auto"
