"""What a session needs when it is asked, imported then: to connect takes a third of it.

The stub beside this file names the modules.  Must not be imported by what they are.
"""

from daf_storage._lazy import stubbed_modules

globals().update(stubbed_modules("daf_query.session", "_later.pyi"))
