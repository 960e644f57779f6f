"""Slices of matrices: choose entries of two axes, then read their elements and no others.

**Nouns.** A *selector* is what the caller passed for a selection of one axis (SQL, names,
positions, a mask).  A *matrix slice* returns the elements of two selections as numpy, scipy, Arrow,
pandas, AnnData or a file; a *companion* is another matrix over the same axes that an AnnData of
the slice has too.  A *member* is a data set of a slice, which has one in the usual case.  Of
several, one axis is *concatenated*: its entries are those of the first member, then those of the
second, and so on.  The other is *aligned*: its entries are the same where their names are.  A
*join* says which names an aligned axis has: those that all members have (``inner``), or those of
any (``outer``); what a member lacks is *filled*.

Must not know sessions, profiles or the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
