"""The command: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import _machine, _plans, _report
from benchmarks._environments import ROOT
from benchmarks._runner import Limits, Runner
from benchmarks._systems import INFOS


def main() -> None:
    """Measure, and write the results."""
    options = _options()
    size: _plans.Size = "tiny" if options.tiny else "full" if options.full else "daily"
    limits = {
        "tiny": Limits(1, 0.1, 120),
        "daily": Limits(7, 1.5, 90),
        "full": Limits(15, 30, 1_800),
    }[size]
    if options.minutes:
        limits = replace(limits, deadline=time.monotonic() + 60 * options.minutes)
    machine = _machine.described()
    runner = Runner(options.build, limits)
    report = _report.Report(options.results, size, machine, runner)
    chosen = {
        name
        for name, info in INFOS.items()
        if (not options.systems or name in options.systems)
        and not (options.local and info.environment)
    }
    for part in _plans.parts(size):
        if not any(name in part.data.key for name in options.data):
            continue
        systems = tuple(name for name in part.systems if name in chosen)
        if not systems:
            continue
        runner.run(replace(part, systems=systems))
        report.write()
    print(f"\n{report.markdown}, {report.markdown.with_suffix('.json').name} and pictures")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--tiny", action="store_true", help="tiny data, to see that it works")
    sizes.add_argument("--full", action="store_true", help="all data sets, for some hours")
    parser.add_argument(
        "--local", action="store_true", help="no peers with environments of their own"
    )
    parser.add_argument("--systems", nargs="+", choices=INFOS, help="only these")
    parser.add_argument(
        "--data",
        nargs="+",
        default=[""],
        help="only data sets whose folder's name contains one of these",
    )
    parser.add_argument("--minutes", type=float, help="start no measurement after so long")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build", help="for data and environments"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "benchmarks" / "results",
        help="where results are written",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
