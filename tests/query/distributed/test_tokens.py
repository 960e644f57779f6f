"""Tests of tokens: what is equal has one token, in any process."""

from __future__ import annotations

import subprocess
import sys

from daf_query.distributed import token_of
from daf_storage.base import Span

DESCRIBED = "('cell', 1, ('X', b'ab'), Span(0, 3))"


def test_of_equal_values_that_are_other_objects() -> None:
    """A string that stands twice is like two equal ones."""
    shared, twin = "cell, long enough", b"cell, long enough".decode()
    assert token_of((shared, shared)) == token_of((shared, twin))
    assert token_of(1, 2) != token_of(2, 1)
    assert token_of("ab") != token_of("a", "b")


def test_in_another_process() -> None:
    """Hashes of strings differ there, tokens do not."""
    code = f"from tests.query.distributed.test_tokens import *; print(token_of({DESCRIBED}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    described = eval(DESCRIBED, {"Span": Span})  # noqa: S307 - our own
    assert run.stdout.strip() == token_of(described)
