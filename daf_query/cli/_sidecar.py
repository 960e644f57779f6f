"""Sidecars on the command line: ``daf index atlas.h5ad``."""

from __future__ import annotations

import argparse
import warnings

from daf_query.cli._sidecar_status import sidecar_line
from daf_query.cli._summary import progress_of
from daf_query.index import accelerated, refreshed
from daf_storage import SidecarWarning, open_daf, remove_sidecar
from daf_storage.spi import visible_name


def sidecar_command(options: argparse.Namespace) -> None:
    """Write, refresh or remove the sidecar of a file that is read in place."""
    if options.refresh or options.remove:  # the remedies that the warning names
        warnings.simplefilter("ignore", SidecarWarning)
    with open_daf(options.path, sidecar=options.into) as daf:
        if options.remove:
            is_removed = remove_sidecar(daf)
            said = "removed" if is_removed else "there was none"
            text = f"the sidecar of {options.path}: {said}"
        elif options.refresh:
            text = sidecar_line(refreshed(daf, progress=progress_of(options)))
        else:
            indexes = {options.axis: options.vectors or None} if options.axis else {}
            status = accelerated(
                daf,
                options.matrix,
                indexes=indexes,
                path=options.into,
                max_bytes=options.max_bytes,
                progress=progress_of(options),
            )
            text = sidecar_line(status)
    if not options.quiet:
        print(visible_name(text))


def is_of_sidecar(options: argparse.Namespace) -> bool:
    """Return whether options say that a sidecar is meant."""
    return bool(options.matrix or options.refresh or options.remove or options.into is not None)
