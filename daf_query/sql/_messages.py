"""Errors of the engine in the words of the data sets: one table of what is recognised.

The engine reports errors as text, which is matched for messages and for nothing else.  What a
message needs beyond it is asked of the tree of the query, and of the tables: places, types, which
axes and vectors there are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from daf_query import syntax
from daf_query._runs import EnginePanic
from daf_query.scan import plain_type
from daf_query.sql._names import FailedQuery, missing_column, missing_table, parts_of_name
from daf_storage import DafError, errors
from daf_storage._terminal_text import text_width
from daf_storage.base import install_command

STRINGS: Final = (pa.string(), pa.large_string(), pa.string_view())
"""The types of strings."""


def _usage(call: str, said: str = "", predicates: str = "'age > 60', 'is_marker'") -> str:
    return f"{call}){said}, or with a predicate for each axis: {call}, {predicates})"


_BY: Final = ", where the last is what the rows are grouped by"

USAGES: Final[Mapping[str, str]] = {
    "matrix": _usage("matrix('cell', 'gene', 'X'"),
    "profile": _usage("profile('cell', 'gene', 'X', 'bulk_labels'", _BY),
    "markers": _usage("markers('cell', 'gene', 'X', 'bulk_labels'", _BY),
    "totals": _usage("totals('cell', 'gene', 'X'", predicates="NULL, 'is_mito'"),
}
"""How each table function is called."""

Match: TypeAlias = "re.Match[str]"
Said: TypeAlias = "DafError | str | None"
"""An error, the text of a QueryError, or None if it is another one."""


@dataclass(frozen=True, slots=True)
class Message:
    """What the engine may say, and what is said instead."""

    recognised: str
    """A regular expression."""
    says: str | Callable[[FailedQuery, Match], Said]
    """A text, with groups of the expression; what begins with ``;`` or ``:`` is added to its."""
    operators: Collection[str] = ()
    """Where the tree has one of these, and no other, the place of its operands is shown."""

    def of(self, failed: FailedQuery) -> Said:
        """Return what is said of a query; None if it is another error."""
        match = re.search(self.recognised, failed.text, re.DOTALL)
        if match is None:
            return None
        if callable(self.says):
            return self.says(failed, match)
        said = self.says.format(**match.groupdict())
        nodes = [node for node in failed.nodes("op") if node["op"] in self.operators]
        for node in nodes if len(nodes) == 1 else ():
            return _at_node(failed, node, said)
        return f"{syntax.shortened(strip_prefixes(failed.text))}{said}" if said[0] in ";:" else said


def translated(error: Exception, failed: FailedQuery) -> DafError:
    """Return an error of planning or running a query in the words of the data sets."""
    if isinstance(error, EnginePanic):
        source = ", ".join(tables.location for tables in failed.tables.schemas.values())
        query = syntax.shortened(failed.query)
        return errors.QueryError(f"{source}: {error}; write the query in another way: {query}")
    if isinstance(error, DafError):
        return error
    if isinstance(error, UnicodeEncodeError):
        found = error.object[error.start : error.start + 1]
        return errors.QueryError(f"the query has {found!r}, which is no Unicode; write it in UTF-8")
    failed.text = str(error)
    said = next(filter(None, (message.of(failed) for message in MESSAGES)), None)
    if said is not None:
        return said if isinstance(said, DafError) else errors.QueryError(said)
    try:
        syntax.one_statement(failed.query)
    except errors.QueryError as of_the_text:  # none, or several: it says where
        return of_the_text
    return errors.QueryError(syntax.shortened(strip_prefixes(failed.text)))


def _at_node(failed: FailedQuery, node: object, reason: str) -> errors.QueryError:
    place = failed.statement.span(node)[0]
    return syntax.error_at(reason, failed.query, place, title="SQL error")


def strip_prefixes(text: str) -> str:
    """Return an engine's message without the names of the layers that it came through.

    >>> strip_prefixes("DataFusion error: Arrow error: External error: Cast error: no")
    'Cast error: no'
    """
    if match := _NO_SIGNATURE.search(text):
        return match.group(0)
    text = _CALL_FOR_HELP.sub("", text)
    return _PREFIXES.sub("", text).strip().replace("While expanding wildcard, ", "")


_PREFIXES: Final = re.compile(
    r"^(?:DataFusion error: |Arrow error: |External error: |Error during planning: |"
    r"Schema error: |Execution error: |Internal error: |This feature is not implemented: |"
    r"[^\n]+\n\s*caused by\n\s*)*"
)
_CALL_FOR_HELP: Final = re.compile(
    r"\.?\s*This issue was likely caused by a bug in DataFusion's code\..*$", re.DOTALL
)
_NO_SIGNATURE: Final = re.compile(
    r"No function matches the given name and argument types .*?\. "
    r"You might need to add explicit type casts\."
)
_PLACE: Final = re.compile(r"\s*(?:at|near) Line: (?P<line>\d+), Column: (?P<column>\d+)")


def unknown_in_result(error: Exception, columns: Collection[str]) -> DafError | None:
    """Return the error for a column or a table that a result lacks; None if it is another error."""
    if re.search(_NO_TABLE, str(error)):
        return errors.QueryError(_NO_SUBQUERY)
    match = re.search(_NO_FIELD, str(error), re.DOTALL)
    if match is None:
        return None
    name = parts_of_name(match["field"])[-1]
    has = errors.choices(name, columns)
    return errors.VectorNotFoundError(f"the result has no column {name!r}; it has {has}")


def _ours(_: FailedQuery, match: Match) -> Said:
    """Return an error of ours, of which the engine hands on the name and the message."""
    named = getattr(errors, match["error"], None)
    if not (isinstance(named, type) and issubclass(named, DafError)):
        return None
    quote, message = match.groupdict().get("quote"), match["message"]
    with suppress(SyntaxError, ValueError):
        message = str(ast.literal_eval(f"{quote}{message}{quote}")) if quote else message
    return named(message)


def _syntax(failed: FailedQuery, match: Match) -> DafError:
    """Return an error that shows where the parser stopped."""
    problem, query = match["problem"], failed.query
    place, at = _PLACE.search(problem), len(query)
    if place is not None:
        at = syntax.place_of(query, int(place["line"]), int(place["column"]))
    reason = _PLACE.sub("", problem).replace('\\"', '"')
    return syntax.error_at(reason + _syntax_hint(failed, at), query, at)


def _syntax_hint(failed: FailedQuery, place: int) -> str:
    """Return what to write instead of the words at a place; empty if nothing is known."""
    before, found = syntax.words_at(failed.query, place)
    gap = " " * failed.query[:place].endswith(" ")
    for column in failed.columns(failed.axes()) if before and found else ():
        if f"{before}{gap}{found}".casefold() in column.casefold():
            return f"; put the whole name in double quotes: {syntax.quoted_name(column)}"
    for (left, right), hint in _SYNTAX.items():
        if left in ("", before) and right in ("", found):
            return f"; {hint}"
    return ""


_LIST: Final = "after IN comes a list: write IN ('a', 'b'), or IN $names with a parameter"
_SYNTAX: Final[Mapping[tuple[str, str], str]] = {
    ("", "SUMMARIZE"): "'daf describe PATH AXIS' prints what each vector is like",
    ("IS", "NONE"): "None is NULL: write IS NULL, or IS NOT NULL",
    ("NOT", "NONE"): "None is NULL: write IS NULL, or IS NOT NULL",
    ("IS", ""): "IS is for NULL, TRUE and FALSE; compare with a value by =",
    ("", "\u2018"): "quotes are straight here: write 'T'",
    ("*", "*"): "for a power write power(x, y)",
    ("", "!"): "write NOT",
    ("(", ")"): "a list of IN has at least one value",
    (",", ")"): "a list does not end in a comma",
    ("IN", ""): _LIST,
}
"""What the parser stopped at, behind what; an empty word is any."""


def _refused(_: FailedQuery, match: Match) -> DafError:
    return errors.with_remedy(
        errors.ReadOnlyError(
            f"the query was refused: {match['name']} changes something, and queries only read "
            "unless asked otherwise"
        ),
        errors.Remedy("pass ", errors.ALLOW_WRITE, " to sql() if you mean it"),
    )


def _limit_by(failed: FailedQuery, _: Match) -> Said:
    is_by = any(node["limit_by"] for node in failed.nodes("limit_by"))
    return _NO_LIMIT_BY if is_by else None


def _missing_table_function(_: FailedQuery, match: Match) -> str:
    has = f"there is {'; '.join(USAGES.values())}{errors.nearest(match['name'], USAGES)}"
    hint = "a file is a table: write FROM 'samples.csv'" if "read_" in match["name"] else has
    return f"there is no table function {match['name']!r}; {hint}"


_FUNCTIONS: Final = {
    "average": "avg(x)",
    "count_if": "count(*) FILTER (WHERE x > 0)",
    "first": "first_value(x ORDER BY y)",
    "group_concat": "string_agg(x, ', ')",
    "if": "CASE WHEN x > 0 THEN y ELSE z END",
    "max_by": "first_value(x ORDER BY y DESC)",
    "min_by": "first_value(x ORDER BY y)",
    "mod": "x % y",
    "quantile": "quantile_cont(x, 0.9)",
    "std": "stddev(x)",
    "regexp_matches": "regexp_like(x, '^CD')",
    "strftime": "to_char(x, '%Y-%m-%d')",
    "typeof": "arrow_typeof(x)",
    "isnull": "x IS NULL",
    "strlen": "length(x)",
    "log1p": "ln(1 + x)",
    "list": "array_agg(x)",
    "arg_max": "first_value(x ORDER BY y DESC)",
    "arg_min": "first_value(x ORDER BY y)",
}
"""Functions of other engines, and what to write."""
_METHODS: Final = {
    "startswith": "starts_with({column}, {arguments})",
    "endswith": "ends_with({column}, {arguments})",
    "contains": "{column} ~ {arguments}, a regular expression, or contains({column}, {arguments})",
    "match": "{column} ~ '^...', a regular expression",
    "strip": "trim({column})",
    "len": "length({column})",
    "isin": "{column} IN (...)",
    "isna": "{column} IS NULL",
    "notna": "{column} IS NOT NULL",
    "between": "{column} BETWEEN ... AND ...",
}
"""Methods of pandas and Python, and what to write."""


def _missing_function(failed: FailedQuery, match: Match) -> Said:
    name = match["name"]
    if name in USAGES:
        return f"{name}() is a table: write it after FROM, {USAGES[name]}"
    if written := (_METHODS | _FUNCTIONS).get(name):
        return f"there is no function {name!r}; write {written.format(column='x', arguments='y')}"
    if name.startswith("st_") and "Did you mean 'st_" not in failed.text:
        return (
            f"there is no function {name!r}; those of shapes come from geodatafusion: "
            f"geodatafusion.register_all(db.context); install it with: {install_command('spatial')}"
        )
    for node in failed.nodes("name", "args"):
        parts = syntax.values_of(node["name"])
        if len(parts) > 1 and ".".join(parts).lower() == name:
            first, last = (node["name"][place]["Identifier"] for place in (0, -1))
            pair = failed.statement.brackets_after(last)
            advice = _METHODS.get(parts[-1], f"a function of SQL: {parts[-1]}({{column}})")
            arguments = failed.query[pair.opening + 1 : pair.closing] or "..."
            instead = advice.format(column=parts[0], arguments=arguments)
            reason = f"columns have no methods here; write {instead}"
            return _at_node(failed, first, reason)
    return strip_prefixes(failed.text).replace(".\nDid you mean", "; did you mean")


def _ambiguous(failed: FailedQuery, match: Match) -> str:
    name = syntax.unquoted_name(match["name"])
    if name.endswith("']"):
        return f"{name} is to be left out of SELECT * of several tables; write a.*, b.* instead"
    for scope, node in failed.statement.nodes:
        is_name = scope is not None and "quote_style" in node and node["value"] == name
        sources = scope.sources if scope is not None and is_name else ()
        having = [
            ".".join(map(syntax.plain_name, each.written))
            for each in sources
            if not (columns := failed.columns_of(each)) or name in columns
        ]
        if len(having) > 1:
            choices = " or ".join(f"{each}.{match['name']}" for each in having)
            return f"{name!r} is a column of {' and '.join(having)}; write {choices}"
    return f"{name!r} is a column of several tables; write it with the name of one, as in cell.name"


_BITS: Final = (
    "& and | are for bits of whole numbers, and bind tighter than comparisons; join conditions by "
    "AND and OR (where rows are chosen, & and | join conditions in brackets, too: "
    "(a > 1) & (b < 2))"
)
_TILDE: Final = (
    "~ in front of a value is no operator; write NOT (where rows are chosen, ~ negates a condition "
    "in brackets, too: ~(a > 1))"
)
_NO_ZERO: Final = "Divide by zero error; write x / nullif(y, 0), which is NULL there"
_NO_LIMIT_BY: Final = (
    "LIMIT n BY is no SQL here; number the rows of each group in a subquery, by "
    "row_number() OVER (PARTITION BY x ORDER BY y) AS n, and write WHERE n <= 1 around it"
)
_NO_SUBQUERY: Final = "a result has no tables that a subquery could name: write it in the query"
_NO_RANGE: Final = "; write ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW behind its ORDER BY"
_ONE_UNIT: Final = "; write arrow_cast(t, 'Timestamp(ns, \"UTC\")') for each of the two times"
_NO_SERIES: Final = "generate_series() and range() after FROM take constants, whole numbers"
_NO_FIELD_OF: Final = (
    """; ['name'] is for a matrix over the axis of the table, as in "gene.X"['name']"""
)
_ORDERS: Final = ("Lt", "LtEq", "Gt", "GtEq", "Eq", "NotEq")


def _chain(failed: FailedQuery, _: Match) -> Said:
    """Return the error of ``a < b < c``."""
    for node in failed.nodes("op", "left"):
        left = node["left"].get("BinaryOp", {"op": ""})
        if node["op"] in _ORDERS and left["op"] in _ORDERS:
            middle = left["right"].get("BinaryOp", {"op": ""})["op"]
            chain = "comparisons are no chain in SQL: write a < b AND b < c, or b BETWEEN a AND c"
            reason = _BITS if middle in ("BitwiseAnd", "BitwiseOr") else chain
            return _at_node(failed, node, reason)
    return None


def _wrong_type(failed: FailedQuery, _: Match) -> Said:
    """Return the error of a column that is compared with a constant of another type."""
    for scope, node in failed.statement.nodes:
        if syntax.kind_of(node) not in ("BinaryOp", "InList", "Between"):
            continue
        for term in syntax.terms_of(failed.statement, node):
            parts = syntax.identifiers_of(term.node)
            type_ = None if parts is None else failed.type_of(scope, syntax.values_of(parts))
            said = "" if type_ is None else mismatch(term, type_)
            if said:
                return _at_node(failed, term.node, said)
    return None


def mismatch(term: syntax.Term, arrow_type: pa.DataType) -> str:
    """Return what to write where a term compares values of two types; empty if it does not."""
    name = term.expression
    arrow_type = plain_type(arrow_type)
    no_strings = [each for each in term.values if not isinstance(each, str)]
    others = [each for each in term.values if not _is_numeral(each)]
    if term.form not in ("equal", "order"):
        return ""
    if pa.types.is_boolean(arrow_type) and not all(isinstance(c, bool) for c in term.values):
        return f"{name} is true or false: write {name}, or NOT {name}"
    if is_number(arrow_type) and others:
        return f"{others[0]!r} is no number, and {name} holds {arrow_type}"
    if arrow_type in STRINGS and no_strings:
        given, kind = no_strings[0], "BOOLEAN" if isinstance(no_strings[0], bool) else "DOUBLE"
        said = f"{name} holds strings, and {given} is no string: write '{given}'"
        return f"{said}, or compare TRY_CAST({name} AS {kind})"
    return ""


def is_number(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _is_numeral(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _division(failed: FailedQuery, _: Match) -> Said:
    """Return the error of a division by zero: of the constant, or of the only one there may be."""
    nodes = [node for node in failed.nodes("op", "left") if node["op"] in ("Divide", "Modulo")]
    found = [each for each in nodes if not syntax.whole_number_of(each["right"])]
    zeros = [each for each in found if syntax.whole_number_of(each["right"]) == 0]
    for node in zeros or found if zeros or len(found) == 1 else ():
        return _at_node(failed, node, _NO_ZERO)
    return _NO_ZERO


_NO_TABLE: Final = r"table '(?P<table>[^']+)' not found"
_NO_FIELD: Final = r"No field named (?P<field>.+?)\.(?: Did you mean|\s|$)"
_BOOLEAN: Final = r"for comparison operation Boolean"
_TYPES: Final = (
    r"Cannot cast string|Failed to coerce types|Cannot infer common argument type for comparison"
    r"|Can not find compatible types to compare"
)
_OURS: Final = (
    r"type: <class 'daf_storage\.errors\.(?P<error>\w+)'>, value: \w+\((?P<quote>[\"'])"
    r"(?P<message>(?:\\.|(?!(?P=quote)).)*)(?P=quote)"
)
_NO_VALUE: Final = (
    r"does not support logical expression (?:Exists|InSubquery|SetComparison)\("
    r"|In/Exist/SetComparison subquery can only be used in"
    r"|difference in schemas: .*\b(?:ANY|ALL)\b.*\bWHEN EXISTS THEN Boolean"
    r"|No field named \".*(?:[<>=] (?:ANY|ALL)\b|\b(?:IN|EXISTS) \(<subquery>\))"
)
_TWICE: Final = r"(?:duplicate|and) (?:un)?qualified field name "
_NAME: Final = r'(?P<name>(?:"[^"]*"|[^\s"])+)'
_TIMES: Final = "; times are written '2024-01-31' or '2024-01-31 18:30:00'"

MESSAGES: Final = (
    Message(_OURS, _ours),
    Message(r"(?:Parser|Tokenizer)Error\(\"(?P<problem>.*)\"\)", _syntax),
    Message(r"(?:DDL|DML|Statement) not supported: (?P<name>\w+)", _refused),
    Message(_NO_TABLE, missing_table),
    Message(
        _NO_VALUE,
        "IN, EXISTS, ANY and ALL of a subquery are answered in WHERE and HAVING alone: the engine "
        "does not compute them as values; as a column, count, as in "
        "(SELECT count(*) FROM gene WHERE gene.name = cell.marker) > 0, or compare with one "
        "value, as in age > (SELECT min(age) FROM donor)",
    ),
    Message(
        r"expression ScalarSubquery\(|Correlated scalar subquery",
        "a subquery of one value that names columns of the query around it is answered in SELECT "
        "and WHERE, where it is an aggregate, compares them by = with AND, and has no LIMIT and no "
        "window; else write a join, or a WITH of its values",
    ),
    Message(
        r"Can't cast value (?P<value>\d{19,}) to type Int64",
        "{value} is too large for a BIGINT, as LIMIT and OFFSET take it; the largest is "
        "9223372036854775807",
    ),
    Message(
        "No field named __quantified|null_aware anti join only supports single",
        "NOT IN (SELECT ...) is not answered where the subquery names columns of the query around "
        "it; write NOT EXISTS (SELECT 1 FROM ... WHERE ...), which passes over NULL",
    ),
    Message(rf"LIMIT BY clause|{_NO_FIELD}", _limit_by),
    Message(_NO_FIELD, lambda failed, match: missing_column(failed, match["field"])),
    Message(r"table function '(?P<name>[^']*)' not found", _missing_table_function),
    Message(r"Invalid function '(?P<name>[^']*)'", _missing_function),
    Message(r"Ambiguous reference to unqualified field (?P<name>.+?)\s*$", _ambiguous),
    Message("not implemented: TOP$", "TOP is no SQL here; write LIMIT at the end of the query"),
    Message("Divide by zero", _division),
    Message(
        r"'daf_checked_size\((?P<type>.+), Int64, Int64, Int64\)'",
        "a size, as in repeat('x', n), lpad(name, n) or generate_series(1, n), is a whole number, "
        "not {type}; write CAST(n AS BIGINT)",
    ),
    Message(_BOOLEAN, _chain),
    Message(
        "support logical expression (?:Aggregate|Window)Function",
        "aggregates and windows are columns of a SELECT: name one there by AS, and filter or sort "
        "in a query around it (groups by HAVING); of a result, select() takes windows alone",
    ),
    Message("FD pruning unexpectedly removed", "sort() needs a column to sort by"),
    Message("Cannot run range queries on datatype", _NO_RANGE),
    Message(r"Unsupported (?P<word>LIMIT|OFFSET) expr", "{word} takes a constant, a whole number"),
    Message(r"Argument #\d must be an INTEGER.* got (?:Alias|Column|Scalar)", _NO_SERIES),
    Message(r"coerce arithmetic expression Timestamp\(\S+ \S+ - Timestamp\(\S+ \S", _ONE_UNIT),
    Message("Error parsing timestamp|comparison operation Timestamp", _TIMES),
    Message(_TYPES, _wrong_type),
    Message("common type for bitwise operation", _BITS, ("BitwiseAnd", "BitwiseOr")),
    Message("unary operator BitwiseNot", _TILDE, ("BitwiseNot",)),
    Message("node in sqltorel: RLike", "REGEXP and RLIKE are no SQL here; write name ~ 'pattern'"),
    Message(r"Unsupported ast node (?P<name>\w+)", "{name} is nothing that the engine knows"),
    Message("Dot access not supported", "a field is in brackets, as in point['x']"),
    Message("Operator DIV", "for a whole quotient write floor(x / y)", ("DuckIntegerDivide",)),
    Message("binary operator: PGOverlap", "&& is not SQL here; write AND", ("PGOverlap",)),
    Message("string concat operation Boolean", "|| joins strings; write OR", ("StringConcat",)),
    Message(
        r"variable \[\"@(?P<name>\w+)\"\] has no type",
        "@{name} is a variable of Python: write ${name}, and pass params={{'{name}': ...}}",
    ),
    Message("non-boolean predicate", "; a condition is true or false, as in n_genes > 0"),
    Message("Cannot access field at argument 1", _NO_FIELD_OF),
    Message(
        "Source table contains",
        "; an entry of a matrix, as in X['name'], is one more: name columns by AS in SELECT",
    ),
    Message(
        "Too many columns! The subquery should",
        "a subquery after IN, or whose value is compared, has one column; name one in its SELECT",
    ),
    Message(
        rf"{_TWICE}(?=\S*\(){_NAME}",
        "the query has two columns called '{name}'; name them with AS. The engine takes aggregates "
        "that differ only by a CAST for the same column: write arrow_cast(x, 'Float64') instead",
    ),
    Message(
        _TWICE + _NAME,
        "the query has two columns called '{name}'; name them with AS, or write * EXCEPT ({name}); "
        "what ORDER BY sorts by, as in ORDER BY t.{name}, may be one of them",
    ),
    Message(
        "Column in SELECT must be in GROUP BY",
        "; add it to GROUP BY (GROUP BY ALL takes all that are no aggregates), or aggregate it",
    ),
    Message(
        "SQL error: RecursionLimitExceeded",
        ": brackets are too deep within each other; write inner ones as WITH name AS (...)",
    ),
    Message(
        "Resources exhausted",
        "; a query has three quarters of the memory, or what its service allows: filter before "
        "joining, or join by a key of which each value occurs once on one side",
    ),
    Message("Table '.*already exists", "; write CREATE OR REPLACE, or DROP it first"),
    Message(rf"{_PREFIXES.pattern}(?P<error>[A-Z]\w+Error): (?P<message>.*)$", _ours),
)
"""What is recognised, in this order, and what is said."""


@dataclass(frozen=True, slots=True)
class ErrorPlace:
    """Where in SQL something is wrong."""

    line: int
    """From 1."""
    column: int
    """From 1."""
    length: int
    """How many characters are wrong."""

    def mark(self, sql: str) -> str:
        r"""Return the line of the SQL, with a mark below the place.

        >>> print(ErrorPlace(2, 3, 4).mark("SELECT name,\n  agee FROM cell"))
          agee FROM cell
          ^^^^
        >>> print(ErrorPlace(1, 13, 2).mark("SELECT '细', 细胞 FROM cell"))
        SELECT '细', 细胞 FROM cell
                     ^^^^
        """
        lines = sql.split("\n")
        line = lines[self.line - 1] if self.line <= len(lines) else ""
        start = self.column - 1
        tabs = re.sub(r"[^\t]+", lambda part: " " * text_width(part[0]), line[:start].ljust(start))
        marked = line[start : start + self.length].ljust(self.length)
        return f"{line}\n{tabs}{'^' * text_width(marked)}"


_NAMED: Final = re.compile(
    r"(?:has no (?:vector|column|entry)|there is no (?:table|axis|table function|function)|"
    r"Invalid function) '(?P<name>(?:[^'\\]|\\.)*)'"
)
"""How messages name what the SQL has."""


def error_place(error: BaseException, sql: str) -> ErrorPlace | None:
    r"""Return the place of what is wrong; None where it is unknown.

    >>> error = errors.VectorNotFoundError("x: axis 'cell' has no vector 'agee'")
    >>> error_place(error, "SELECT name,\n  agee FROM cell")
    ErrorPlace(line=2, column=3, length=4)
    """
    if not isinstance(error, DafError):
        return None
    if isinstance(error, errors.QueryError) and error.line and error.column:
        start, stop = syntax.span_at(sql, syntax.place_of(sql, error.line, error.column))
        return ErrorPlace(error.line, error.column, stop - start)
    if match := _NAMED.search(str(error)):
        name = match["name"].replace("\\'", "'").replace("\\\\", "\\")
        if span := syntax.span_of_name(sql, name):
            return ErrorPlace(*syntax.line_and_column(sql, span[0]), span[1] - span[0])
    return None
