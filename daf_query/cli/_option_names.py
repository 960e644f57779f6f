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

_FORMS: Final = (
    (re.compile(r"""\bempty=\{\('([^']*)', '([^']*)'\): [^}]*\}"""), r"--empty \1/\2=VALUE"),
    (
        re.compile(r"""\bempty=\{\('([^']*)', '([^']*)', '([^']*)'\): [^}]*\}"""),
        r"--empty \1/\2/\3=VALUE",
    ),
    (re.compile(r"""\bempty=\{'([^']*)': [^}]*\}"""), r"--empty \1=VALUE"),
    (re.compile(r'\b(join|merge)="(\w+)"'), r"--\1 \2"),
    (re.compile(r"\bparams=\{'([^']*)': [^}]*\}"), r"--param \1=..."),
    (re.compile(r"\bparams=(?= has)"), "--param"),
    (re.compile(r"\bprefix=True"), "--prefix"),
    (re.compile(r'\bduplicates="make_unique"'), "--make-unique"),
    (re.compile(r"\bnames=\[\.\.\.\]"), "--names"),
    (re.compile(r"\b(merge|empty)=(?=[ ,;]|$)"), r"--\1"),
    (re.compile(r"\banother dataset_axis\b, or dataset_property=False"), "another --dataset-axis"),
    (re.compile(r"\banother dataset_axis\b"), "another --dataset-axis"),
    (re.compile(r"""\bconnect\('([^']*)', overlay="([^"]*)"\)"""), r"daf annotate \1 \2"),
    (re.compile(r"\bconnect\('([^']*)', overlay='([^']*)'\)"), r"pass \1 --overlay \2"),
)
"""How arguments and calls are written in messages, and on the command line."""

_ARGUMENT: Final = re.compile(
    r"(?<![\w'\"-])(rows|columns|obs_is|var_is|X_is|fill|name|key)=(?![\w'\"=])"
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
        return _ARGUMENT.sub(
            lambda match: f"--{match[1].replace('_', '-')}", option_forms(str(error))
        )
    if remedy.argument in _SENTENCES:
        remedy = errors.Remedy("", _SENTENCES[remedy.argument])
    elif remedy.argument in _OPTIONS:
        remedy = dataclasses.replace(remedy, argument=_OPTIONS[remedy.argument])
    return error.sentence(remedy)


def option_forms(text: str) -> str:
    """Return what `concatenate` says, in an error or its report, in the words of the command line.

    >>> option_forms("pass empty={('cell', 'age'): ...}, or prefix=True")
    'pass --empty cell/age=VALUE, or --prefix'
    """
    for pattern, form in _FORMS:
        text = pattern.sub(form, text)
    return text
