"""The smoke test of a release: ``python -m tests.release dist`` installs what was built."""
