"""Tests of the notebooks of the gallery."""
