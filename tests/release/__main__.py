"""Install the wheel in a fresh environment of each supported Python, and use it there.

``python -m tests.release dist`` prints a line for each Python; one that is not on this machine is
named, too.  The exit code is 1 if something fails, or no Python was found.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.release.pythons import installed_pythons, supported_versions
from tests.release.use import USER_SCRIPT, USER_TYPES

_CONTENTS = ("daf_query/py.typed", "daf_storage/py.typed", "daf_query/explore/static/index.html")


def main(folder: Path) -> int:
    """Test the distributions of a folder."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        print(f"{folder}: there are {len(wheels)} wheels, and one is tested; run make dist")
        return 1
    failures = _missing_contents(wheels[0])
    pythons = installed_pythons(supported_versions())
    for version, python in pythons.items():
        if python is None:
            print(f"Python {version}: not on this machine, not tested")
            continue
        problem = _problem(python, wheels[0])
        print(f"Python {version}: {problem or 'passed'} ({python})", flush=True)
        failures += [problem] if problem else []
    is_tested = any(pythons.values())
    if not is_tested:
        print("no supported Python is on this machine")
    return 1 if failures or not is_tested else 0


def _missing_contents(wheel: Path) -> list[str]:
    """Print and return what the wheel has to contain, and does not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    missing = [f"{wheel.name} has no {name}" for name in _CONTENTS if name not in names]
    for line in missing:
        print(line)
    return missing


def _problem(python: Path, wheel: Path) -> str:
    """Return what fails with a Python; nothing if all works."""
    with tempfile.TemporaryDirectory(prefix="daf-release-") as folder:
        environment = Path(folder, "venv")
        scripts = environment / "bin"
        (Path(folder) / "use.py").write_text(USER_SCRIPT)
        (Path(folder) / "types.txt").write_text(USER_TYPES)
        steps: list[tuple[list[str | Path], str]] = [
            ([python, "-m", "venv", environment], ""),
            ([scripts / "python", "-m", "pip", "install", "--quiet", wheel, "mypy"], ""),
            ([scripts / "daf", "--version"], f"daf {wheel.name.split('-')[1]}"),
            ([scripts / "daf", "--help"], "daf sql"),
            ([scripts / "daf-query", "--help"], "daf sql"),
            ([scripts / "python", "use.py"], "{'name': ['B']}"),
            ([scripts / "daf", "info", "made.daf.zarr"], "cell"),
            ([scripts / "python", "-m", "mypy", "--strict", "use.py"], "Success"),
            ([scripts / "python", "-m", "mypy", "types.txt"], "DafSession"),
            ([scripts / "python", "-m", "pip", "check"], "No broken requirements"),
        ]
        for command, expected in steps:
            done = subprocess.run(
                [str(word) for word in command],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
            )
            is_typed = "types.txt" in command
            if (done.returncode and not is_typed) or expected not in done.stdout:
                output = (done.stdout + done.stderr).strip()[-2000:]
                return f"FAILED: {' '.join(map(str, command))}\n{output}\n"
    return ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").resolve()))
