"""The command `info`."""

from __future__ import annotations

import argparse
import json

from daf_query.cli._sidecar_status import as_dict, described
from daf_storage import open_daf, open_overlay


def info_command(options: argparse.Namespace) -> None:
    """Print what a data set holds."""
    base = open_daf(options.path)
    with base if options.overlay is None else open_overlay(base, options.overlay, "r") as daf:
        if options.diagram:
            print(daf.diagram())
        elif options.format == "json":
            print(json.dumps({**daf.summary().as_dict(), **as_dict(base)}, indent=2))
        else:
            print(daf.description() + described(base))
