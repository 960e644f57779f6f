"""Stored matrices: which elements of which layout to read, and how to gather them.

**Nouns.** A *selection* is the chosen positions along one axis.  A *layout* is one of the two
orders in which a matrix may be stored; its *major* axis is the one whose entries are the stored
columns, the *minor* axis the other.  A *slice plan* says what a selection costs in a layout.
*Gathering* reads the elements of a selection from a layout; its *candidates*
are the same elements one major after the other, to be read block by block.  An *estimate* says
before how many there are, and how many bytes and requests that takes.  In a collection,
an axis is *concatenated* (the entries of one after those of another) or *aligned* by name.

Must not know tables, SQL, sessions or the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
