"""``python -m daf_query.cli`` is ``daf``."""

from daf_query.cli import run

if __name__ == "__main__":
    run()
