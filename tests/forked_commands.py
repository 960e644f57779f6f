"""Runs commands of daf in forks of one process, which has imported the big libraries once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import IO, Self

_SERVER = """
import json, os, socket, sys
import anndata, datafusion, h5py, pandas, pyarrow.dataset, scipy.sparse
from daf_query import cli

requests = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, descriptors, _, _ = socket.recv_fds(requests, 1 << 16, 3)
    if not message:
        break
    child = os.fork()
    if child == 0:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        sys.argv = ["daf", *json.loads(message)]
        cli.run()
    for descriptor in descriptors:
        os.close(descriptor)
    requests.sendall(b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class ForkedCommands:
    """A process that runs one command after the other, each in a fork of itself.

    A fork has its own standard streams and ends as a command does; what it saves is starting an
    interpreter and importing, which takes longer than most commands.
    """

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        command = [sys.executable, "-c", _SERVER, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()

    def run(
        self, *arguments: object, stdout: IO[bytes] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command with its output in a file, or else in the result."""
        words = [str(argument) for argument in arguments]
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            open(os.devnull, "rb") as nothing,
        ):
            streams = [nothing.fileno(), (stdout or output).fileno(), errors.fileno()]
            socket.send_fds(self._requests, [json.dumps(words).encode()], streams)
            with self._requests.makefile("rb") as answers:
                code = int(answers.readline())
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(words, code, output.read(), errors.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._process.wait()
