"""Campaigns that fail on purpose, so that tests can see that the harness notices."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from daf_storage import errors
from tests.torture.tally import LossError, WrongAnswerError
from tests.torture.worker import MEMORY_BYTES, Case


def _crash(_folder: Path, _rng: random.Random) -> None:
    os.abort()


def _hang(_folder: Path, _rng: random.Random) -> None:
    time.sleep(1000)


def _hog(_folder: Path, _rng: random.Random) -> None:
    np.ones(2 * MEMORY_BYTES, "u1")


def _wrong(_folder: Path, _rng: random.Random) -> None:
    raise WrongAnswerError("1 instead of 2")


def _lose(_folder: Path, _rng: random.Random) -> None:
    raise LossError("vectors/cell/age")


def _refuse(_folder: Path, _rng: random.Random) -> None:
    raise errors.CorruptDataError("an error of ours, where none may be")


def _fine(folder: Path, rng: random.Random) -> None:
    (folder / "x").write_bytes(rng.randbytes(8))


def _always(case: Case) -> Callable[[], Case]:
    return lambda: case


PRANKS: dict[str, Callable[[], Case]] = {
    "prank crash": _always(_crash),
    "prank hang": _always(_hang),
    "prank hog": _always(_hog),
    "prank wrong": _always(_wrong),
    "prank lose": _always(_lose),
    "prank refuse": _always(_refuse),
    "prank fine": _always(_fine),
}
