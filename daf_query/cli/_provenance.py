"""The command `provenance`."""

from __future__ import annotations

import argparse
import json
import sys

from daf_query._provenance import provenance
from daf_query.cli._exit_codes import DONE, FAILED
from daf_storage.spi import visible


def provenance_command(options: argparse.Namespace) -> int:
    """Print the provenance of a file as JSON; fail if it has none."""
    record = provenance(options.path)
    if record is None:
        print(f"daf: error: {options.path} does not say where it comes from", file=sys.stderr)
        return FAILED
    print(visible(json.dumps(record, ensure_ascii=False, indent=2)))  # the same JSON
    return DONE
