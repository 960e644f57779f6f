"""``python -m tests.corpus``: check every file of the corpus, and print a table of what passed.

A row is a version of anndata and a form; a cell is how many of its files pass a check, of how many.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from tests.corpus.checks import CHECKS, Opened, checks_of
from tests.corpus.files import CorpusFile, unpacked, versions

SECONDS: Final[dict[str, float]] = defaultdict(float)
"""How much processor time each check took."""


def main() -> None:
    """Check the versions that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", help="those to check; all by default")
    parser.add_argument("--checks", nargs="+", choices=[*CHECKS], default=[*CHECKS])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[str] = []
    print(f"{'anndata':8} {'form':20}" + "".join(f"{name:>11}" for name in options.checks))
    with tempfile.TemporaryDirectory() as folder:
        for version in options.versions or versions():
            files: dict[str, list[CorpusFile]] = defaultdict(list)
            for file in unpacked(version, Path(folder)):
                files[file.form].append(file)
            for form, those in files.items():
                passed, of = Counter[str](), Counter[str]()
                for file in those:
                    problems = checked(file, options.checks)
                    of.update(list(problems))
                    passed.update(name for name in problems if not problems[name])
                    lines += [
                        f"{file} {name}: {line}" for name in problems for line in problems[name]
                    ]
                cells = [
                    f"{passed[name]}/{of[name]}" if of[name] else "-" for name in options.checks
                ]
                print(
                    f"{version:8} {form:20}" + "".join(f"{cell:>11}" for cell in cells), flush=True
                )
    print("seconds  " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in SECONDS.items()))
    print("\n".join(lines))
    sys.exit(bool(lines))


def checked(file: CorpusFile, names: list[str]) -> dict[str, list[str]]:
    """Return what each check finds in a file, of those that concern it; an error is a finding."""
    opened = Opened(file)
    found: dict[str, list[str]] = {}
    for name in checks_of(file):
        if name not in names:
            continue
        started = time.process_time()
        try:
            found[name] = CHECKS[name](opened)
        except Exception as error:  # noqa: BLE001 - the table says which
            found[name] = [f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"]
        SECONDS[name] += time.process_time() - started
    return found


if __name__ == "__main__":
    main()
