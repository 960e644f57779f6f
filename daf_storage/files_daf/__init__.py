"""The family's own format: a directory of plain files, each property a few of them.

**Nouns.** A *document* is the small file that says what a property is (``NAME.json``, or the
``AXIS.txt`` that holds the entries of an axis); the *parts* beside it hold its data.
``metadata.json`` repeats all documents, for readers over HTTP.  `FilesTree` presents the files as
groups and arrays, over a directory, a ZIP archive or a server.

Must not know which path means which data set, verification or copying.
Source: docs/reference/format.md, "FilesDaf".
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
