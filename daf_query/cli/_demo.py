"""The command `demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from daf_query.demo import run_demo


def demo_command(options: argparse.Namespace) -> None:
    """Run the demonstration."""
    run_demo(Path(options.target), options.run)
