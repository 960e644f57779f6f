"""A corpus of AnnData files: the same data, written by each version of anndata that installs.

``python -m tests.corpus.build`` makes it, ``python -m tests.corpus`` checks all of it and prints a
table.  README.md says what is in it.
"""
