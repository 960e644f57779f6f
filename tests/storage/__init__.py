"""Tests of daf_storage, a folder for each of its packages."""
