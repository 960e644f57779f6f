"""The program of a worker: ``python -m tests.torture.work``, started by the supervisor."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from tests.torture.campaigns import CAMPAIGNS
from tests.torture.pranks import PRANKS
from tests.torture.worker import work

if __name__ == "__main__":
    campaigns, seed, first, folder, report = sys.argv[1:]
    cases = {name: (CAMPAIGNS | PRANKS)[name]() for name in campaigns.split(",")}
    with suppress(BrokenPipeError):
        work(cases, int(seed), int(first), Path(folder), int(report))
