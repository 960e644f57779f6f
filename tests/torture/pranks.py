"""Campaigns that fail on purpose, so that tests can see that the harness notices."""

from __future__ import annotations

import os
import time

import numpy as np

from daf_storage import errors
from tests.torture.tally import LossError, WrongAnswerError
from tests.torture.worker import MEMORY_BYTES, Case


def _raising(error: Exception) -> Case:
    def case(*_: object) -> None:
        raise error

    return case


def _hog(*_: object) -> None:
    np.ones(2 * MEMORY_BYTES, "u1")


PRANKS: dict[str, Case] = {
    "prank crash": lambda *_: os.abort(),
    "prank hang": lambda *_: time.sleep(1000),
    "prank hog": _hog,
    "prank wrong": _raising(WrongAnswerError("1 instead of 2")),
    "prank lose": _raising(LossError("vectors/cell/age")),
    "prank refuse": _raising(errors.CorruptDataError("an error of ours, where none may be")),
    "prank fine": lambda *_: None,
}
