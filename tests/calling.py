"""Calling the command in this process, with its streams replaced; shared by the tests of it."""

import contextlib
import io
import os
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import score_nl2sql as scorer

CLEARED = ("NO_COLOR", "FORCE_COLOR", "PYTHON_COLORS", "TERM", "COLUMNS", "PYTHONIOENCODING", "NL2SQL_PASSWORD")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def stream(terminal=False, data=b""):
    kind = Terminal if terminal else io.TextIOWrapper
    return kind(io.BytesIO(data), encoding="utf-8", newline="")


def written(text_stream):
    text_stream.flush()
    return text_stream.buffer.getvalue().decode("utf-8").replace("\r\n", "\n")


def environment(**extra):
    kept = {name: value for name, value in os.environ.items() if name not in CLEARED}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **extra}


def call(*argv, stdin=None, tty=(), env=None):
    """`main(argv)` in this process; `tty` names the streams that are terminals."""
    out, err = stream("out" in tty), stream("err" in tty)
    stdin = stdin if hasattr(stdin, "read") else stream("in" in tty, stdin or b"")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment(**(env or {})), clear=True))
        stack.enter_context(mock.patch.object(sys, "stdin", stdin))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            code = scorer.main([str(word) for word in argv])
        except SystemExit as stop:
            code = stop.code
    return Ended(code, written(out), written(err))


def build(path, statements):
    """A database made by these statements, or changed by them."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def last_line(text):
    return text.rstrip("\n").rpartition("\n")[2]


class Workers:
    """Keeps the workers of finished calls for later calls of the same kind, which saves their start.

    Calls of one process are what is saved on; processes that tests start run as the program does.
    """

    def __init__(self, kind):
        self.kind, self.idle = kind, []

    def __call__(self, *args, **named):
        key = (args, tuple(sorted(named.items())))
        for i, (other, worker) in enumerate(self.idle):
            if other == key:
                del self.idle[i]
                return worker
        worker = self.kind(*args, **named)
        worker.close = lambda: self.idle.append((key, worker))
        return worker

    def end(self):
        for _, worker in self.idle:
            self.kind.close(worker)
        self.idle.clear()


def folder_of_its_own(case, prefix):
    """A new folder, the current one until the tests of a class are done."""
    before = os.getcwd()
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))
    case.addClassCleanup(shutil.rmtree, folder, True)
    case.addClassCleanup(os.chdir, before)
    os.chdir(folder)
    return folder


def workers_kept(case):
    """Calls of a class share their workers."""
    workers = Workers(scorer.Worker)
    patch = mock.patch.object(scorer, "Worker", workers)
    patch.start()
    case.addClassCleanup(workers.end)
    case.addClassCleanup(patch.stop)
    return workers
