"""Tests of planning: NULL as a constant in filters, and reports of one query among others."""

from __future__ import annotations
