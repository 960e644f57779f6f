"""Cells of SQL in notebooks: ``%load_ext daf_query``.

**Nouns.** A *cell* begins with ``%%daf`` and is SQL, asked of a session that a variable of the
notebook holds.  Its *line* has the options.  A *directive* such as ``%daf connect PATH`` is a line
of its own.

Must not know how queries are planned or pages are made.
"""

from daf_query.notebook._extension import load_ipython_extension, unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
