"""The command ``daf``: a parser, a function for each command, and what they print.

**Nouns.** A *command* opens data sets, asks, and prints or writes the answer.  Exit codes: 0 done,
1 the request failed (one line on stderr says why), 2 wrong usage, 3 repaired, but data was lost,
4 done, but some data sets of a pattern were left out.

Must not know DataFusion, stores or trees; nothing imports it.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING

from daf_query.cli._output import INTERRUPTED
from daf_storage._lazy import lazy_names

if TYPE_CHECKING:
    from daf_query.cli._main import main

__all__ = ["main", "run"]

_GARBAGE = 200_000
"""New objects before garbage is looked for, more than a query makes; Python's own number is 700."""

__getattr__, __dir__, _ = lazy_names(__name__, {"daf_query.cli._main": ("main",)})


def run() -> None:
    """Run the command of ``sys.argv`` and end the process with its exit code.

    Ctrl-C has one too, also while modules are imported, which takes a command most of its time.  A
    seventh of that went into looking for garbage, of which imports make none.
    """
    gc.set_threshold(_GARBAGE, 20, 20)
    try:
        importlib.import_module("daf_query.cli._main").run_command()
    except KeyboardInterrupt:
        print("daf: error: interrupted", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)
