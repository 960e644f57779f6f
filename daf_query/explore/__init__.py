"""The explorer: data sets in a page that the machine serves to its own browser.

**Nouns.** The *server* listens on the loopback address; its *application* answers the page.  The
*guard* asks every request for the token, and refuses other hosts and origins.  The *explored data*
are a session, opened again where the files were replaced.  A *run* computes an answer in a thread
of its own, within the *limits*, and ends when nobody waits for it.  An *embedding* is two columns
that are x and y of the entries of an axis.  A *ticket* is a download that was asked for.

Must not know the command line.
"""

from daf_storage._lazy import stubbed_names

__getattr__, __dir__, __all__ = stubbed_names(__name__)
