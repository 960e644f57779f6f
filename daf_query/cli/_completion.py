"""Shell completion of the commands, options and files of ``daf``."""

from __future__ import annotations

import argparse
from typing import Any, Final

from daf_storage.spi import optional_import

_FILES: Final = {
    "PATH",
    "FILE",
    "FILE.sql",
    "NAME=FILE",
    "IN.h5ad",
    "OUT.h5ad",
    "OUT",
    "SRC",
    "DST",
}


def completion_of(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion of a parser as a script of a shell.

    Raises
    ------
    MissingDependencyError
        The extra ``completion`` is not installed.
    """
    shtab = optional_import("shtab", extra="completion")
    _complete_files(parser, shtab.FILE)
    return str(shtab.complete(parser, shell))


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Say which arguments are files."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for command in action.choices.values():
                _complete_files(command, files)
        elif action.metavar in _FILES:
            action.complete = files  # type: ignore[attr-defined] # what shtab looks for
