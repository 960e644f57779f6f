"""The query engine in forked processes: its threads stay in the process that started them."""

from __future__ import annotations

from typing import Final

from daf_storage.spi import ThreadedLibrary

ENGINE: Final = ThreadedLibrary("the query engine", start="a data set was connected for SQL")
"""DataFusion, whose threads start with its first context."""
