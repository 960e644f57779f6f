"""How a new data set is packed, from the options of the command line."""

from __future__ import annotations

import argparse

from daf_storage import Packing


def packing_of(options: argparse.Namespace) -> bool | Packing:
    """Return how to pack; a codec or a level alone asks for it, too."""
    if not options.packed and options.codec is None and options.level is None:
        return False
    level = -1 if options.level is None else options.level
    return Packing(options.codec or Packing().codec, level)
