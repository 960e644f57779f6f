"""Modules that a session needs when it is asked, imported then: connecting needs none of them.

The stub beside this file names them.
"""

from daf_storage._lazy import stubbed_modules

globals().update(stubbed_modules("daf_query.session", "_later.pyi"))
