"""Verify and repair a data set."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from daf_query.cli._exit_codes import DATA_LOST, DONE
from daf_query.cli._summary import progress_of
from daf_query.index import rebuild_indexes
from daf_storage import repair, verify
from daf_storage.spi import visible_name


def verify_command(options: argparse.Namespace) -> int:
    """Read everything, list what is wrong, and fail if something is."""
    findings = verify(options.path, progress=progress_of(options))
    n_errors = sum(finding.level == "error" for finding in findings)
    if options.format == "json":
        listed = [dataclasses.asdict(finding) for finding in findings]
        print(json.dumps({"path": options.path, "findings": listed}, indent=2))
    else:
        for finding in findings:
            print(visible_name(finding))
        if not options.quiet:
            print(f"{options.path}: {_verdict(n_errors, len(findings) - n_errors)}")
    return 1 if n_errors else 0


def _verdict(n_errors: int, n_warnings: int) -> str:
    if not n_errors + n_warnings:
        return "everything is as it should be"
    counted = ((n_errors, "error"), (n_warnings, "warning"))
    return ", ".join(f"{n:,} {word}{'s' * (n != 1)}" for n, word in counted if n)


def repair_command(options: argparse.Namespace) -> int:
    """Mend the container, say what was done, and fail if something is lost or damaged."""
    report = repair(options.path, progress=progress_of(options))
    is_there = Path(options.path.split("#/", 1)[0]).exists()  # or else only leftovers were
    rebuilt = rebuild_indexes(options.path) if is_there else []
    report = dataclasses.replace(report, done=(*report.done, *rebuilt))
    if options.format == "json":
        print(json.dumps({"path": options.path, **dataclasses.asdict(report)}, indent=2))
        return DONE if report.is_whole else DATA_LOST
    for action in report.done:
        print(visible_name(action))
    for damage in report.lost:
        print(visible_name(f"lost: {damage}"))
    for damage in report.damaged:
        print(visible_name(f"damaged, and left as it is: {damage}"))
    for damage in report.indexes:
        print(visible_name(f"could not be used: {damage}"))
    if not report.is_whole:
        counted = (
            f"{len(listed):,} {word}"
            for listed, word in ((report.lost, "lost"), (report.damaged, "damaged"))
            if listed
        )
        print(
            f"{options.path}: {' and '.join(counted)}; take them from a backup, or write them again"
        )
    elif not options.quiet and not report.done:
        print(f"{options.path}: there is nothing to repair")
    return DONE if report.is_whole else DATA_LOST
