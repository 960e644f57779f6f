"""SQL text as tokens and as a tree with places; nothing else reads SQL.

**Nouns.** A *token* is a word, a literal or an operator of the text.  A *statement* is a text that
was parsed, once; it is kept by its text.  Its *queries* and *scopes* say which *sources* (tables,
subqueries, functions) the names of each SELECT can mean.  A *rule* is given a statement and yields
*edits*: parts of the text and what stands there instead.  Nothing is ever written out from the
tree, so comments and spelling stay, and places of errors can be mapped back.

Must not know data sets, tables or the engine.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
