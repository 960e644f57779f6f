"""Tests of the digest by which two stored matrices are compared."""

from __future__ import annotations

import numpy as np

from daf_storage.data import _digest


def test_numbers_are_scattered_as_splitmix64_does() -> None:
    """Multiplied and shifted, as Python's own integers are."""
    bits = 2**64 - 1
    numbers = [0, 1, 2, 0x9E3779B97F4A7C15, 2**63, bits]
    expected = []
    for number in numbers:
        mixed = ((number ^ number >> 30) * 0xBF58476D1CE4E5B9) & bits
        mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & bits
        expected.append(mixed ^ mixed >> 31)
    assert _digest._mix(np.array(numbers, np.uint64)).tolist() == expected
    assert expected[3] == 0xE220A8397B1DCDAF  # the first number of the generator begun at 0
