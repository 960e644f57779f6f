r"""The table of messages: calls and commands, and what each of them says.

``tables/*.txt`` has rows by subject.  A table begins with ``scene NAME``, which makes data sets in a
folder of their own (`scenes`), and goes there.  Then come rows, each a call and what is expected:

``>>> db.matrix("cell", "gene", "Xs")``
    A call of Python, continued by ``...``; below it ``MatrixNotFoundError: PATTERN``, the class and a
    regular expression that is in the message.  Without that the call has to succeed.  ``warns CLASS:
    PATTERN`` is a warning, in a line; there have to be these and no others, or ``warns nothing``.
``$ daf sql tiny.daf.zarr "SELECT 1"``
    A command, continued after ``\``, perhaps behind ``NAME=value`` for the environment.  Below it
    ``! PATTERN`` is in what it prints on standard error, ``> PATTERN`` in its output, ``| LINE`` are
    all the lines of its output, and ``exit N`` is its exit code: else 1 if there is a ``!``, or 0.
    ``traceback`` says that there is one.

Calls that fail, one or several after each other, have changed nothing: neither the files of the folder
nor the data set ``daf``.
"""
