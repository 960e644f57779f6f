"""Samplers for training: which entries a loop sees, how often, and in which split.

**Nouns.** A *sampler* is a value: chosen entries of an axis with weights and splits.  A *share* is
the part of them that a split gets.  A *stratum* keeps the shares within itself; a *group*, such as
a donor, is in one split as a whole.

Must not know sessions or the command line; packages of others that train are imported when they are
used.
"""

from daf_query.training._batches import RowBlocks
from daf_query.training._make import Expressions, IfChanged, load_sampler, make_sampler
from daf_query.training._sampler import Sampler
from daf_query.training._splits import Shares

__all__ = [
    "Expressions",
    "IfChanged",
    "RowBlocks",
    "Sampler",
    "Shares",
    "load_sampler",
    "make_sampler",
]
