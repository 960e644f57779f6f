"""Values that are compared with a constant of another type: what to write instead.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from daf_query.filter._operands import ValueType, value_type
from daf_query.filter._terms import Term, string_of, terms_of
from daf_query.syntax import unquoted_name


def type_mismatches(condition: str, schema: pa.Schema) -> list[str]:
    """Return what is wrong with the types of a condition's terms; reads nothing.

    Parameters
    ----------
    schema
        The columns of the table; terms of other expressions are left out.
    """
    terms = ((term, unquoted_name(term.expression)) for term in terms_of(condition))
    known = [(term, schema.field(name).type) for term, name in terms if name in schema.names]
    said = [type_mismatch(term, arrow_type) for term, arrow_type in known]
    return list(dict.fromkeys(filter(None, said)))


def type_mismatch(term: Term, arrow_type: pa.DataType) -> str:
    """Return what to write where a term compares values of different types; empty if it does not.

    >>> type_mismatch(terms_of("old = 1")[0], pa.bool_())
    'old is true or false: write old, or NOT old'
    """
    if term.form not in ("equal", "order"):
        return ""
    name = term.expression
    strings = [string_of(constant) for constant in term.constants]
    expected: Mapping[ValueType, str] = {
        "boolean": f"{name} is true or false: write {name}, or NOT {name}",
        "number": f"{_first_of_no_number(term)} is no number, and {name} holds {arrow_type}",
        "string": f"{name} holds strings, and {_first_number(term)} is a number: "
        f"write '{_first_number(term)}'",
        "unknown": "",
    }
    values = value_type(arrow_type)
    is_wrong = {
        "boolean": any(constant.upper() not in _TRUTHS for constant in term.constants),
        "number": _first_of_no_number(term) != "",
        "string": None in strings,
        "unknown": False,
    }
    return expected[values] if is_wrong[values] else ""


_TRUTHS = ("TRUE", "FALSE")


def _first_number(term: Term) -> str:
    """Return the first constant that is no string."""
    return next((constant for constant in term.constants if string_of(constant) is None), "")


def _first_of_no_number(term: Term) -> str:
    """Return the first constant that is no number, nor a string that is one."""
    for constant in term.constants:
        string = string_of(constant)
        if constant.upper() in _TRUTHS or (string is not None and not _is_numeral(string)):
            return constant
    return ""


def _is_numeral(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
