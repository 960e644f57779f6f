"""Data sets that are made of other data sets, without a copy: chains of several, views of one.

**Nouns.** A *chain* is several data sets as one, of which the last that has a property counts; its
*bases* are all but the last, which alone is written.  A *view* is a part of its *base* under other
names; *rules* say which properties it shows, a *selection* which entries of an axis.

Must not know paths, files or formats: it is given open data sets.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
