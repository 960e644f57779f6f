"""One program that measures the daily tasks of daf-query beside other systems: ``python -m benchmarks``.

Its nouns: a *data set* comes from a seeded generator; a *work* is a task on it (a filter and the slice
of the matrix, a group by) in a mode (in an open session, with opening, the first of a process, with a
cold cache); a *system* is an adapter that prepares a data set and answers tasks.  Each measurement has
a process of its own.  No time counts before the answer equals that of the others.
"""
