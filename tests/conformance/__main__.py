"""``make conformance``: how many queries of the table are right on each path, and which are not."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from tests.conformance.cases import PATHS, cases_of, subjects
from tests.conformance.forms import Forms
from tests.conformance.outcomes import disagreements, outcomes


def main() -> None:
    """Print a line for each path, and what is not as the table says."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("subjects", nargs="*", help="files of queries/ (default: all)")
    parser.add_argument("--path", action="append", choices=PATHS, help="only this path")
    arguments = parser.parse_args()
    chosen = arguments.subjects or subjects()
    for subject in chosen:
        for line in disagreements(subject):
            print(f"{line}\n")
    with tempfile.TemporaryDirectory() as folder:
        forms = Forms(Path(folder))
        found = [
            outcome
            for subject in chosen
            for path in arguments.path or PATHS
            for outcome in outcomes(forms, path, subject, in_turn=False)
        ]
    for outcome in found:
        if not outcome.is_as_marked:
            print(f"{outcome}\n")
    n_queries = sum(not case.creates for subject in chosen for case in cases_of(subject))
    print(f"{n_queries} queries\n{'':20}{'asked':>8}{'equal':>8}{'refused':>8}{'known wrong':>13}")
    for path in arguments.path or PATHS:
        counts = Counter(outcome.kind for outcome in found if outcome.path == path)
        numbers = f"{counts['equal']:8}{counts['refused']:8}{counts['different']:13}"
        print(f"{path:20}{counts.total():8}{numbers}")


if __name__ == "__main__":
    main()
