"""Modules that commands need when they run, imported then: most take longer than a command.

The stub beside this file names them.
"""

from daf_storage._lazy import stubbed_modules

globals().update(stubbed_modules("daf_query.cli", "_later.pyi"))
