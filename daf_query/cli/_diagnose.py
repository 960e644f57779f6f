"""The command `diagnose`."""

from __future__ import annotations

import argparse
import json

from daf_query.cli._query_text import named_values
from daf_query.session import connect
from daf_storage.spi import visible


def diagnose_command(options: argparse.Namespace) -> None:
    """Print how many rows each part of a predicate leaves, and why."""
    with connect(options.path, mode="r", overlay=options.overlay) as session:
        diagnosis = session.diagnose(
            options.axis, options.predicate, params=named_values(options.param)
        )
    is_json = options.format == "json"
    print(json.dumps(diagnosis.to_dict(), indent=2) if is_json else visible(diagnosis))
