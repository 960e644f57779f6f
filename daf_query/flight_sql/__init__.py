"""Flight SQL: the tables of a session for tools of other languages, over a network.

**Nouns.** The *server* listens and says who may ask; its *service* answers the calls of Flight.  A
*command* is a message of Flight SQL, in the encoding of Protocol Buffers.  A *ticket* is a query
under seal, for its rows.  A *run* is a query that is computed in a thread of its own, within the
*limits*.  A *status* is an error as clients get it.

Must not know the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
