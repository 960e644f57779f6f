"""Sessions: data sets that are connected, and all that can be asked of them.

**Nouns.** A *session* is some *sources* (data sets, several as one, tables of your own) behind one
engine.  What it offers is in parts by subject: SQL, matrices, writing.  Its methods are thin: they
say what is asked, and call the package that answers.

Must not know the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
