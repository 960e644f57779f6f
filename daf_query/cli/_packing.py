"""How a new data set is packed, from the options of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from daf_storage import Packing


def packing_of(options: argparse.Namespace) -> bool | Packing:
    """Return how to pack; a codec, a level or a size of chunks alone asks for it, too."""
    chosen = {
        "codec": options.codec,
        "level": options.level,
        "chunk_kb": options.chunk_kb,
    }
    given: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
    return Packing(**given) if options.packed or given else False


def counts_of(options: argparse.Namespace, main: str) -> dict[str, Any] | None:
    """Return the types of counts by the name of the matrix; without a name, of the main one.

    >>> counts_of(argparse.Namespace(counts_as=["uint16", "spliced=uint8"]), "X")
    {'X': 'uint16', 'spliced': 'uint8'}
    """
    pairs = (word.rpartition("=") for word in options.counts_as)
    return {name or main: kind for name, _, kind in pairs} or None
