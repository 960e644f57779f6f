"""The command line of the torture harness; see the package."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.torture.campaigns import CAMPAIGNS
from tests.torture.tally import Tally, Verdict
from tests.torture.worker import run_case, supervise

_SHOWN = 60


def run_campaigns(names: list[str], seed: int, *, seconds: float, most: float) -> Tally:
    """Run campaigns side by side, all of them within about ``seconds``."""
    tally = Tally()
    jobs = os.cpu_count() or 1
    share = seconds * jobs / len(names)
    with ThreadPoolExecutor(jobs) as pool:
        work = partial(supervise, seed=seed, tally=tally, seconds=share, most=most)
        list(pool.map(work, [[name] for name in names]))
    return tally


def main() -> int:
    """Run what was asked for, print the tally, and return 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=13.0, help="for all campaigns together")
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other cases")
    parser.add_argument(
        "--most", type=int, default=math.inf, help="at most so many cases of each campaign"
    )
    parser.add_argument("--only", nargs="*", default=sorted(CAMPAIGNS), choices=sorted(CAMPAIGNS))
    parser.add_argument("--case", help="repeat one case, CAMPAIGN:NUMBER, in this process")
    arguments = parser.parse_args()
    if arguments.case:
        return _repeat(arguments.case, arguments.seed)
    start = time.monotonic()
    tally = run_campaigns(
        arguments.only, arguments.seed, seconds=60 * arguments.minutes, most=arguments.most
    )
    for failure in tally.failures[:_SHOWN]:
        print(failure)
    if len(tally.failures) > _SHOWN:
        print(f"... and {len(tally.failures) - _SHOWN:,} more")
    print(tally.table())
    print(f"seed {arguments.seed}, {time.monotonic() - start:.0f} s")
    return 1 if tally.failures else 0


def _repeat(case: str, seed: int) -> int:
    campaign, _, number = case.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="daf-torture-") as folder:
        verdict, detail = run_case(
            CAMPAIGNS[campaign], Path(folder) / number, f"{campaign}:{seed}:{number}"
        )
    print(verdict.value, detail)
    return int(verdict is not Verdict.FINE)


if __name__ == "__main__":
    sys.exit(main())
