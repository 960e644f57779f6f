"""Install packages with pip into the environment of this Python, and say how far that is.

A script for the Makefile.  pip itself either lists each file that it looks at, or says nothing
for minutes.  The arguments are those of ``pip install``.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from threading import Thread
from typing import Final

_SITE: Final = Path(sysconfig.get_path("purelib"))
_INSTALLING: Final = "Installing collected packages: "
_FOUND: Final = ("Collecting ", "Processing ", "Obtaining ")


def main(arguments: list[str]) -> int:
    """Run pip, and return its exit code; what it said is shown if it failed."""
    start, before = time.monotonic(), _packages()
    said: list[str] = []
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:
        reader = Thread(target=lambda: said.extend(pip.stdout or ()))
        reader.start()
        shown = 0.0
        while reader.is_alive():
            reader.join(0.2)
            now = time.monotonic() - start
            if now - shown >= (1 if sys.stdout.isatty() else 10):
                shown = now
                _show(f"{_state(said, before)}, {now:.0f} s")
    if pip.returncode:
        print("".join(said), file=sys.stderr)
        return pip.returncode
    size = sum(each.lstat().st_size for each in _SITE.rglob("*")) / 1e9
    new = _packages() - before
    _show(f"{new} packages in {time.monotonic() - start:.0f} s; all take {size:.1f} GB", end="\n")
    return 0


def _packages() -> int:
    return len(list(_SITE.glob("*.dist-info")))


def _state(said: list[str], before: int) -> str:
    for line in said:
        if line.startswith(_INSTALLING):
            count = line.count(",") + 1
            return f"packages installed: {min(count, max(0, _packages() - before))} of {count}"
    return f"packages found: {sum(line.startswith(_FOUND) for line in said)}"


def _show(text: str, end: str = "") -> None:
    """Write over the last line of a terminal, or a line of a log."""
    if sys.stdout.isatty():
        print(f"\r  {text}\x1b[K", end=end, flush=True)
    else:
        print(f"  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
