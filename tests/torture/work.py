"""The program of a worker: ``python -m tests.torture.work``, started by the supervisor."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from tests.torture.campaigns import CAMPAIGNS
from tests.torture.pranks import PRANKS
from tests.torture.worker import work

if __name__ == "__main__":
    campaign, seed, first, folder, report = sys.argv[1:]
    case = (CAMPAIGNS | PRANKS)[campaign]()
    with suppress(BrokenPipeError):
        work(case, campaign, int(seed), int(first), Path(folder), int(report))
