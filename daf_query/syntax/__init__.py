"""SQL text as tokens and as a tree with places; nothing else reads SQL.

**Nouns.** A *token* is a word, a literal or an operator of the text.  A *statement* is a text that
was parsed, once; it is kept by its text.  Its *queries* and *scopes* say which *sources* (tables,
subqueries, functions) the names of each SELECT can mean.  A *rule* is given a statement and yields
*edits*: parts of the text and what stands there instead.  Nothing is ever written out from the
tree, so comments and spelling stay, and places of errors can be mapped back.

Must not know data sets, tables or the engine.
"""

from daf_query.syntax._edits import Edit, edited, place_before
from daf_query.syntax._errors import WrappedSql, error_at, shortened, syntax_error
from daf_query.syntax._fragments import (
    Placeholder,
    constants_in_text,
    is_condition,
    is_ended,
    is_select,
    joined_names,
    line_and_column,
    list_items,
    one_statement,
    place_of,
    placeholders,
    real_divisions,
    span_at,
    span_of_name,
    statements,
    unopened_bracket,
    without_direction,
    without_name,
    words_at,
)
from daf_query.syntax._names import identifier, quoted_name, unquoted_name
from daf_query.syntax._nodes import (
    Node,
    Number,
    arguments_of,
    constant_of,
    function_name,
    identifiers_of,
    is_query,
    kind_of,
    name_of,
    string_of,
    subscript_of,
    values_of,
    walk,
    whole_number_of,
)
from daf_query.syntax._predicates import clauses_of, condition_of, conjuncts_of, python_edits
from daf_query.syntax._scopes import Query, Scope, Source
from daf_query.syntax._spark import backticked, to_local, to_spark, with_definitions
from daf_query.syntax._statement import Statement, UnparsedError, parsed
from daf_query.syntax._terms import Term, terms_of
from daf_query.syntax._tokens import Token, tokens_of

__all__ = [
    "Edit",
    "Node",
    "Number",
    "Placeholder",
    "Query",
    "Scope",
    "Source",
    "Statement",
    "Term",
    "Token",
    "UnparsedError",
    "WrappedSql",
    "arguments_of",
    "backticked",
    "clauses_of",
    "condition_of",
    "conjuncts_of",
    "constant_of",
    "constants_in_text",
    "edited",
    "error_at",
    "function_name",
    "identifier",
    "identifiers_of",
    "is_condition",
    "is_ended",
    "is_query",
    "is_select",
    "joined_names",
    "kind_of",
    "line_and_column",
    "list_items",
    "name_of",
    "one_statement",
    "parsed",
    "place_before",
    "place_of",
    "placeholders",
    "python_edits",
    "quoted_name",
    "real_divisions",
    "shortened",
    "span_at",
    "span_of_name",
    "statements",
    "string_of",
    "subscript_of",
    "syntax_error",
    "terms_of",
    "to_local",
    "to_spark",
    "tokens_of",
    "unopened_bracket",
    "unquoted_name",
    "values_of",
    "walk",
    "whole_number_of",
    "with_definitions",
    "without_direction",
    "without_name",
    "words_at",
]
