"""Data sets that are made of other data sets, without a copy: chains of several, views of one.

**Nouns.** A *chain* is several data sets as one, of which the last that has a property counts; its
*bases* are all but the last, which alone is written.

Must not know paths, files or formats: it is given open data sets.
"""

from daf_storage.combined._chains import chain_reader, chain_writer, owning_reader, owning_writer

__all__ = ["chain_reader", "chain_writer", "owning_reader", "owning_writer"]
