"""The SQL of a command: an argument, a file, or standard input; and values for its parameters."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from typing import Any, Final

from daf_query.syntax import one_statement
from daf_storage import errors

STANDARD_INPUT: Final = "-"
_SHOWN: Final = 20


def query_of(options: argparse.Namespace) -> str:
    """Return the query of ``daf sql``, which is given in one of three ways."""
    if options.query is not None and options.query != STANDARD_INPUT:
        return one_statement(options.query)
    path = options.query if options.file is None else options.file
    return one_statement(read_text(path), source="standard input" if path == "-" else path)


def read_text(path: str) -> str:
    """Return the text of a file, or of standard input for ``-``.

    Raises
    ------
    SourceNotFoundError
        There is no such file.
    InvalidInputError
        It is not UTF-8.
    """
    where = "standard input" if path == STANDARD_INPUT else path
    with (
        errors.os_errors(where),
        open(0 if path == STANDARD_INPUT else path, "rb", closefd=path != STANDARD_INPUT) as file,
    ):
        data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise errors.InvalidInputError(
            f"{where}: this is not UTF-8 text (byte {error.start:,}); save the file as UTF-8"
        ) from error


def named_table(given: str) -> tuple[str | None, str]:
    """Return the name and the path of a table: ``NAME=FILE`` or ``FILE``.

    >>> named_table("samples=data/s.csv"), named_table("s.csv")
    (('samples', 'data/s.csv'), (None, 's.csv'))
    """
    name, separator, path = given.partition("=")
    return (name, path) if separator else (None, given)


def named_values(given: Iterable[str], *, option: str = "--param") -> dict[str, Any] | None:
    """Return the values of parameters: ``NAME=VALUE``, of which the value may be JSON.

    >>> named_values(["least=60", "donor=N3", 'code="60"', "types=[1, 2]"])
    {'least': 60, 'donor': 'N3', 'code': '60', 'types': [1, 2]}

    Raises
    ------
    InvalidInputError
        There is no name, or a name is given twice.
    """
    values: dict[str, Any] = {}
    for each in given:
        name, separator, value = each.partition("=")
        name = name.removeprefix("$")
        if not separator or not name:
            raise errors.InvalidInputError(f"{option} {each}: write NAME=VALUE")
        if name in values:
            raise errors.InvalidInputError(f"{option} {name} is given twice")
        values[name] = value_of(value)
    return values or None


def fill_value_of(text: str | None) -> Any:
    """Return what stands where a data set lacks a column; ``nan`` is a number.

    >>> fill_value_of("NaN"), fill_value_of("0"), fill_value_of(None)
    (nan, 0, None)
    """
    if text is None:
        return None
    return math.nan if text.lower() == "nan" else value_of(text)


def value_of(text: str) -> Any:
    """Return what JSON means; any other text is itself.

    Raises
    ------
    InvalidInputError
        It is nested too deeply to be read.
    """
    try:
        return json.loads(text, parse_constant=str)  # NaN and Infinity are no JSON
    except ValueError:
        return text
    except RecursionError:
        raise errors.InvalidInputError(
            f"the value {text[:_SHOWN]}... is JSON that is nested too deeply; give a number, a "
            "string, or a list of them"
        ) from None
