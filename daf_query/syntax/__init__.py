"""SQL text as tokens and as a tree with places; nothing else reads SQL.

**Nouns.** A *token* is a word, a literal or an operator of the text.  A *statement* is a text that
was parsed, once; it is kept by its text.  Its *queries* and *scopes* say which *sources* (tables,
subqueries, functions) the names of each SELECT can mean.  A *rule* is given a statement and yields
*edits*: parts of the text and what stands there instead.  Nothing is ever written out from the
tree, so comments and spelling stay, and places of errors can be mapped back.

Must not know data sets, tables or the engine.
"""

from daf_query.syntax._edits import Edit, edited
from daf_query.syntax._guards import check_names, check_nesting
from daf_query.syntax._names import identifier, quoted_name, unquoted_name
from daf_query.syntax._nodes import (
    Node,
    Subscript,
    arguments_of,
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
from daf_query.syntax._scopes import Query, Scope, Source
from daf_query.syntax._statement import Statement, UnparsedError, parsed
from daf_query.syntax._statements import one_statement
from daf_query.syntax._tokens import Token, bracketed, tokens_of, unopened_bracket

__all__ = [
    "Edit",
    "Node",
    "Query",
    "Scope",
    "Source",
    "Statement",
    "Subscript",
    "Token",
    "UnparsedError",
    "arguments_of",
    "bracketed",
    "check_names",
    "check_nesting",
    "edited",
    "function_name",
    "identifier",
    "identifiers_of",
    "is_query",
    "kind_of",
    "name_of",
    "one_statement",
    "parsed",
    "quoted_name",
    "string_of",
    "subscript_of",
    "tokens_of",
    "unopened_bracket",
    "unquoted_name",
    "values_of",
    "walk",
    "whole_number_of",
]
