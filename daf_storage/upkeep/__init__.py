"""Operations on whole data sets: verify, repair, copy and convert, reorder, index, serve.

**Nouns.** A *finding* is something that `verify` objects to; a *repair report* lists what `repair`
did and what was lost.

Must not know AnnData, SQL or queries.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
