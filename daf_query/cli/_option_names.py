"""Messages of errors with the options of the command line in place of arguments in Python.

Messages write an argument as ``name=``; one whose remedy is to pass an argument has it apart.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from daf_storage import DafError, errors

_OPTIONS: Final = {
    errors.REPLACE: "--overwrite",
    "port=": "--port",
    "host=": "--host",
    errors.MAX_BYTES: "--max-bytes",
    'duplicates="make_unique"': "--make-unique",
}
"""What stands on the command line for an argument that a remedy names."""

_SENTENCES: Final = {errors.ALLOW_WRITE: "write its rows to a file with -o FILE"}
"""What to do instead where the command line has no such option."""

_ARGUMENT: Final = re.compile(
    r"(?<![\w'\"-])(rows|columns|obs_is|var_is|X_is|fill|name)=(?![\w'\"=])"
)


def in_options(error: DafError) -> str:
    """Return the message of an error in the words of the command line.

    >>> in_options(errors.path_exists("x.daf.zarr"))
    'x.daf.zarr exists already; pass --overwrite to replace it, or name another path'
    >>> in_options(errors.QueryError("rows= on axis 'cell': no vector 'a'"))
    "--rows on axis 'cell': no vector 'a'"
    """
    remedy = error.remedy
    if remedy is None:
        return _ARGUMENT.sub(lambda match: f"--{match[1].replace('_', '-')}", str(error))
    if remedy.argument in _SENTENCES:
        remedy = errors.Remedy("", _SENTENCES[remedy.argument])
    elif remedy.argument in _OPTIONS:
        remedy = dataclasses.replace(remedy, argument=_OPTIONS[remedy.argument])
    return error.sentence(remedy)
