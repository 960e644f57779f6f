"""Secondary indexes: they may return false positives, never false negatives.

**Nouns.** A *sorted index* lists the rows of strings by their hashes; an *R-tree* finds the rows
whose box meets another one.  An index is *stored* beside the data with the *fingerprint* of what it
was built from, verified before it is used, and not used if it is stale or, with one warning,
damaged.

Must not know tables, SQL or DataFusion.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
