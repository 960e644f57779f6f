"""Exit codes of the command."""

from __future__ import annotations

import signal
from typing import Final

DONE: Final = 0
FAILED: Final = 1
"""The request failed, or `verify` found an error; wrong usage is 2, as argparse has it."""
DATA_LOST: Final = 3
"""A repair is done, and something is lost or damaged: the output names it."""
INTERRUPTED: Final = 128 + signal.SIGINT
