"""The command ``daf``: import, info, sql, extract, export and demo.

Exit codes: 0 done, 1 the request failed (one line on stderr says why), 2 wrong usage.
"""

from daf_query.cli._main import main, run

__all__ = ["main", "run"]
