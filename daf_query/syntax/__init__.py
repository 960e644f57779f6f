"""SQL text as tokens and as a tree with places; nothing else reads SQL.

**Nouns.** A *token* is a word, a literal or an operator of the text.  A *statement* is a text that
was parsed, once; it is kept by its text.  Its *queries* and *scopes* say which *sources* (tables,
subqueries, functions) the names of each SELECT can mean.  A *rule* is given a statement and yields
*edits*: parts of the text and what stands there instead.  Nothing is ever written out from the
tree, so comments and spelling stay, and places of errors can be mapped back.

Must not know data sets, tables or the engine.
"""

from daf_query.syntax._predicates import clauses_of as clauses_of
from daf_query.syntax._predicates import condition_of as condition_of
from daf_query.syntax._predicates import conjuncts_of as conjuncts_of
from daf_query.syntax._predicates import is_condition as is_condition
from daf_query.syntax._predicates import python_edits as python_edits
from daf_query.syntax._spark import backticked as backticked
from daf_query.syntax._spark import to_local as to_local
from daf_query.syntax._spark import to_spark as to_spark
from daf_query.syntax._spark import with_definitions as with_definitions
from daf_query.syntax._statement import Constant as Constant
from daf_query.syntax._statement import Statement as Statement
from daf_query.syntax._statement import Term as Term
from daf_query.syntax._statement import is_select as is_select
from daf_query.syntax._statement import parsed as parsed
from daf_query.syntax._statement import term_of as term_of
from daf_query.syntax._statement import terms_of as terms_of
from daf_query.syntax._tokens import Edit as Edit
from daf_query.syntax._tokens import Placeholder as Placeholder
from daf_query.syntax._tokens import Token as Token
from daf_query.syntax._tokens import WrappedSql as WrappedSql
from daf_query.syntax._tokens import edited as edited
from daf_query.syntax._tokens import error_at as error_at
from daf_query.syntax._tokens import is_ended as is_ended
from daf_query.syntax._tokens import joined_names as joined_names
from daf_query.syntax._tokens import line_and_column as line_and_column
from daf_query.syntax._tokens import list_items as list_items
from daf_query.syntax._tokens import one_statement as one_statement
from daf_query.syntax._tokens import place_of as place_of
from daf_query.syntax._tokens import placeholders as placeholders
from daf_query.syntax._tokens import plain_name as plain_name
from daf_query.syntax._tokens import quoted_name as quoted_name
from daf_query.syntax._tokens import quoted_string as quoted_string
from daf_query.syntax._tokens import real_divisions as real_divisions
from daf_query.syntax._tokens import shortened as shortened
from daf_query.syntax._tokens import span_at as span_at
from daf_query.syntax._tokens import span_of_name as span_of_name
from daf_query.syntax._tokens import statements as statements
from daf_query.syntax._tokens import syntax_error as syntax_error
from daf_query.syntax._tokens import tokens_of as tokens_of
from daf_query.syntax._tokens import unopened_bracket as unopened_bracket
from daf_query.syntax._tokens import unquoted_name as unquoted_name
from daf_query.syntax._tokens import without_direction as without_direction
from daf_query.syntax._tokens import without_name as without_name
from daf_query.syntax._tokens import words_at as words_at
from daf_query.syntax._tree import Node as Node
from daf_query.syntax._tree import Number as Number
from daf_query.syntax._tree import Query as Query
from daf_query.syntax._tree import Scope as Scope
from daf_query.syntax._tree import Source as Source
from daf_query.syntax._tree import arguments_of as arguments_of
from daf_query.syntax._tree import constant_of as constant_of
from daf_query.syntax._tree import function_name as function_name
from daf_query.syntax._tree import identifiers_of as identifiers_of
from daf_query.syntax._tree import is_query as is_query
from daf_query.syntax._tree import item_of as item_of
from daf_query.syntax._tree import kind_of as kind_of
from daf_query.syntax._tree import name_of as name_of
from daf_query.syntax._tree import string_of as string_of
from daf_query.syntax._tree import subscript_of as subscript_of
from daf_query.syntax._tree import values_of as values_of
from daf_query.syntax._tree import walk as walk
from daf_query.syntax._tree import whole_number_of as whole_number_of
