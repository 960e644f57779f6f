"""Tests of the project itself: its doors, names, words and sizes."""
