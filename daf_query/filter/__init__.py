"""Diagnoses of conditions on one axis.

**Nouns.** A *question* is the condition of a predicate or of a SELECT, in *conjuncts*, which AND
joins.  A *diagnosis* counts the rows that each conjunct leaves; its *hints* say of each *term*, an
expression and the constants that it is compared with, why there are none.

Must not know matrix slices or sessions.
"""

from daf_query.filter._diagnose import diagnose
from daf_query.filter._diagnosis import Conjunct, Diagnosis
from daf_query.filter._question import cached_hints

__all__ = ["Conjunct", "Diagnosis", "cached_hints", "diagnose"]
