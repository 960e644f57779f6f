"""Conditions on one axis, as people write them.

**Nouns.** A *predicate* is a condition, maybe with ORDER BY and LIMIT.  Its *token tree* has its
brackets; *conjuncts* are what AND joins.  An *edit* writes one of Python's *spellings* as SQL.  A
*diagnosis* counts the rows that each conjunct leaves; its *hints* say of each *term*, an expression
and the constants that it is compared with, why there are none.

Must not know matrix slices or sessions.
"""

from daf_query.filter._cached_hints import cached_hints
from daf_query.filter._diagnose import diagnose
from daf_query.filter._diagnosis import Conjunct, Diagnosis
from daf_query.filter._operands import value_types
from daf_query.filter._python_spelling import as_sql, python_edits
from daf_query.filter._token_tree import clauses_of
from daf_query.filter._type_mismatch import type_mismatches

__all__ = [
    "Conjunct",
    "Diagnosis",
    "as_sql",
    "cached_hints",
    "clauses_of",
    "diagnose",
    "python_edits",
    "type_mismatches",
    "value_types",
]
