"""Samplers for training: which entries a loop sees, how often, and in which split.

**Nouns.** A *sampler* is a value: chosen entries of an axis with weights and splits.  A *share* is
the part of them that a split gets.  A *stratum* keeps the shares within itself; a *group*, such as
a donor, is in one split as a whole.

Must not know sessions or the command line; packages of others that train are imported when they are
used.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
