"""How a new data set is packed, from the options of the command line."""

from __future__ import annotations

import argparse
from typing import Any

from daf_storage import Packing
from daf_storage.errors import InvalidInputError


def packing_of(options: argparse.Namespace, **defaults: Any) -> bool | Packing:
    """Return how to pack; a codec, a level or a size of chunks alone asks for it, too."""
    chosen = {
        "codec": options.codec,
        "level": options.level,
        "chunk_kb": options.chunk_kb,
    }
    given: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
    return Packing(**{**defaults, **given}) if options.packed or given else False


def counts_of(options: argparse.Namespace) -> Any:
    """Return the types of counts: one of the main matrix, or several by the names of matrices.

    >>> counts_of(argparse.Namespace(counts_as=["X=uint16", "spliced=uint8"]))
    {'X': 'uint16', 'spliced': 'uint8'}
    """
    pairs = [(name, kind) for name, _, kind in (w.rpartition("=") for w in options.counts_as)]
    if len(pairs) == 1 and not pairs[0][0]:
        return pairs[0][1]
    if any(not name for name, _ in pairs):
        raise InvalidInputError(
            "--counts-as: of several types, each needs the name of its matrix, such as X=uint16"
        )
    return dict(pairs) or None
