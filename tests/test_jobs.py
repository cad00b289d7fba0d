"""The worker pool: verdicts do not depend on it, and nothing is left however a run ends."""

import contextlib
import csv
import ctypes
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from typing import NamedTuple
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

SCRIPT = os.path.join(ROOT, "score_nl2sql.py")
long = unittest.skipUnless(os.environ.get("NL2SQL_LONG"), "NL2SQL_LONG=1 runs it")
LINUX = sys.platform == "linux"
STUCK = 40  # seconds after which a command counts as hung
MB = 1_000_000


def count(n=None):
    """The beginning of a query over the numbers from 1, up to `n` or without an end."""
    limit = "" if n is None else f" LIMIT {n}"
    return f"WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r{limit}) "


ENDLESS = count() + "SELECT MAX(x) FROM r"
# Minutes in one C call, which no progress handler interrupts; each needs less than a share.
ONE_CALL = {
    "instr": "SELECT INSTR(PRINTF('%.*c', 9000000, 'a'), PRINTF('%.*c', 4000000, 'a') || 'b')",
    "like": "SELECT PRINTF('%.*c', 9000000, 'a') LIKE '%' || PRINTF('%.*c', 40000, 'a') || 'b'",
    "glob": "SELECT PRINTF('%.*c', 9000000, 'a') GLOB '*' || PRINTF('%.*c', 40000, 'a') || 'b'",
    "trim": "SELECT TRIM(PRINTF('%.*c', 9000000, 'x'), REPLACE(PRINTF('%.*c', 9000, 'y'), 'y', 'yz') || 'x')",
}


def hungry(megabytes, name="n"):
    """A query that sorts so many texts of 1 MB, and counts them."""
    texts = count(megabytes) + "SELECT PRINTF('%.*c', 1000000, 'k') AS y, x % 7 AS m FROM r"
    return f"SELECT COUNT(*) AS {name} FROM (SELECT y || m AS z FROM ({texts}) ORDER BY z)"


def question(id, sql, **more):
    contract = scorer.read_contract(more.pop("contract", {}))
    return scorer.Question(id, "?", "", sql, contract, **more)


def pair(asked, sql):
    reason, detail = scorer.screen(sql)
    return asked, scorer.Answer(sql, 1, reason, detail)


def verdicts(outcomes):
    """What must not depend on the pool."""
    return [(o.question.id, o.verdict, o.reason, o.detail, o.traps, o.accepted) for o in outcomes]


# -- processes


def stat_of(pid):
    """A process's state, parent and processor ticks, None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1]), int(fields[11]) + int(fields[12])


def children(parent):
    """The living children of a process, each with its processor ticks."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = stat_of(name)
        if stat is not None and stat[1] == parent and stat[0] not in "ZX":
            found[int(name)] = stat[2]
    return found


def reads_database(pid):
    """Whether a process has a database open, as a worker has while it works on a question."""
    with contextlib.suppress(OSError):
        folder = f"/proc/{pid}/fd"
        files = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
        return any(file.endswith((".sqlite", "copy.db")) for file in files)
    return False


def until(condition, seconds=20):
    """Whether a condition came true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def hearing():
    """What a shell starts in the background is deaf to interrupts; what is tested must hear."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


class Orphans:
    """Adopts what the processes that are started here leave behind, so that it can be seen."""

    def __init__(self):
        self.own = set()  # what Popen looks after
        self.before = set()

    def adopt(self, on):
        ctypes.CDLL(None).prctl(36, int(on), 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        self.before = set(children(os.getpid()))

    def left(self, seconds=2.0):
        """The processes that are still there after so long; they are ended."""
        end = time.monotonic() + seconds
        while True:
            alive = set(children(os.getpid())) - self.own - self.before
            if not alive or time.monotonic() > end:
                break
            time.sleep(0.01)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        self._bury()
        return sorted(alive)

    def _bury(self):
        for name in filter(str.isdigit, os.listdir("/proc")):
            stat = stat_of(name)
            if stat is not None and stat[1] == os.getpid() and int(name) not in self.own | self.before:
                with contextlib.suppress(OSError):
                    os.waitpid(int(name), 0 if stat[0] == "Z" else os.WNOHANG)


orphans = Orphans()


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    left: list
    files: list  # in its folder for temporary files

    @property
    def last(self):
        return self.out.rstrip("\n").rpartition("\n")[2]


class Program:
    """The command, or another program, in a session of its own.

    `before` is Python that runs in it once the scorer is imported as `s`; `main` replaces the
    command itself.
    """

    def __init__(self, *args, before="", main="sys.exit(s.run_as_program())", **more):
        self.tmp = tempfile.mkdtemp(prefix="nl2sql-jobs-")
        dropped = ("COLUMNS", "LINES", "FORCE_COLOR", "PYTHON_COLORS", "TZ", "NL2SQL_PASSWORD")
        env = {name: value for name, value in os.environ.items() if name not in dropped}
        env.update({"TMPDIR": self.tmp, "PYTHONWARNINGS": "default", **more.pop("env", {})})
        command = [SCRIPT]
        if before or not main.startswith("sys.exit(s.run"):
            top = f"import sys; sys.path.insert(0, {ROOT!r})\nimport os, signal, time\nimport score_nl2sql as s\n"
            command = ["-c", top + textwrap.dedent(before) + "\n" + textwrap.dedent(main)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.child = subprocess.Popen(
            [sys.executable, "-B", *command, *map(str, args)],
            **{**pipes, "preexec_fn": hearing, "start_new_session": True, "env": env, **more},
        )
        self.pid = self.child.pid
        orphans.own.add(self.pid)

    def workers_busy(self, number):
        """Waits until so many workers have read their database for longer than a quick query does."""
        begun = {}

        def busy():
            now = children(self.pid)
            for pid, ticks in now.items():
                if reads_database(pid):
                    begun.setdefault(pid, ticks)
                else:
                    begun.pop(pid, None)
            return sum(now.get(pid, 0) - ticks >= 3 for pid, ticks in begun.items()) >= number

        until(busy, STUCK)
        return children(self.pid)

    def end(self):
        """Waits for its end; a program that does not end is ended and tells so by its code."""
        try:
            out, err = self.child.communicate(timeout=STUCK)
            code = self.child.returncode
        except subprocess.TimeoutExpired:
            self.child.kill()
            out, err = self.child.communicate()
            code = 999
        left = orphans.left()
        orphans.own.discard(self.pid)
        files = os.listdir(self.tmp)
        shutil.rmtree(self.tmp, True)
        return Ended(code, *((data or b"").decode("utf-8", "replace") for data in (out, err)), left, files)


def write_set(name, rows, variants=0):
    """A set and its answers, from (id, db, reference, candidate, more); the options for them.

    Answers here are often right by luck, so nothing is tried on variants unless that is the point.
    """
    with open(f"{name}.jsonl", "w", encoding="utf-8") as asked, open(f"{name}.answers", "w", encoding="utf-8") as told:
        for id, db, reference, candidate, *more in rows:
            record = {"id": id, "question": "?", "sql": reference, "db_id": db}
            record.update(*more)
            print(json.dumps(record), file=asked)
            if candidate is not None:
                print(json.dumps({"id": id, "sql": candidate}), file=told)
    files = "--questions", f"{name}.jsonl", "--answers", f"{name}.answers"
    return *files, "--db-root", "dbs", "--variants", variants


def scored_rows(path):
    """The lines of a CSV without the seconds columns."""
    with open(path, encoding="utf-8", newline="") as file:
        return [row[:8] + row[10:] for row in csv.reader(file)]


class WithData(unittest.TestCase):
    """A temporary folder as the current one, with two databases in it."""

    @classmethod
    def setUpClass(cls):
        before = os.getcwd()
        cls.folder = os.path.realpath(tempfile.mkdtemp(prefix="nl2sql-jobs-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.addClassCleanup(os.chdir, before)
        os.chdir(cls.folder)
        if LINUX:
            orphans.adopt(True)
            cls.addClassCleanup(orphans.adopt, False)
        cls.make("shop", "CREATE TABLE item (id INTEGER PRIMARY KEY, kind TEXT, price REAL);"
                 "INSERT INTO item VALUES (1,'pot',2.5),(2,'pot',4),(3,'pan',9),(4,'pan',9),(5,'lid',1)")
        cls.make("lab", "CREATE TABLE probe (id INTEGER PRIMARY KEY, kind INTEGER, note TEXT);"
                 f"INSERT INTO probe {count(60)} SELECT x, x % 3, 'note ' || x FROM r")
        cls.path = os.path.join("dbs", "lab", "lab.sqlite")
        cls.databases = {"": [scorer.Database(scorer.file_uri(cls.path) + "?mode=ro", cls.path, cls.path)]}
        # Interrupts are raised here and must be heard, whoever started the tests.
        old = signal.signal(signal.SIGINT, signal.default_int_handler)
        cls.addClassCleanup(signal.signal, signal.SIGINT, old)

    @classmethod
    def make(cls, name, script):
        os.makedirs(os.path.join("dbs", name))
        with contextlib.closing(sqlite3.connect(os.path.join("dbs", name, f"{name}.sqlite"))) as connection:
            connection.executescript(script)

    def score(self, pairs, jobs=1, timeout=20.0, watch=lambda _: None, variants=0, **limits):
        """The outcomes of one run in this process; whether it was interrupted is in self.desk."""
        settings = scorer.Settings(timeout=timeout, variants=variants, **limits)
        with scorer.Scorer(self.databases, settings, jobs) as self.desk:
            return self.desk.score(pairs, watch)

    def assertClean(self, ended, code=0):
        """It ended as it should and left nothing."""
        self.assertEqual((ended.code, ended.left, ended.files), (code, [], []), ended)
        self.assertNotIn("Traceback", ended.err)

    def assertRefused(self, ended, *words):
        """One line that says what was wrong, exit code 2, nothing left."""
        self.assertEqual((ended.code, ended.out, ended.left), (2, "", []), ended)
        self.assertEqual(len(ended.err.splitlines()), 1, ended.err)
        self.assertTrue(ended.err.startswith("score_nl2sql.py: "), ended.err)
        for word in words:
            self.assertIn(word, ended.err)


def tapped(hear):
    """Workers whose messages are heard, as they arrive, by a function of the worker and the message.

    `made` of what comes back holds all workers that were started.
    """

    class Tapped(scorer.Worker):
        made = []

        def __init__(self, *args, **named):
            super().__init__(*args, **named)
            self.made.append(self)

        def ask(self, job):
            self.job = job
            return super().ask(job)

        def _next(self):
            message = super()._next()
            hear(self, message)
            return message

    return Tapped


# A candidate whose worker dies each time; nothing in SQL does that on demand. The second time the
# worker tells at once which query runs.
CRASHING = """
class Crashing(s.Worker):
    tries = 0
    def ask(self, job):
        self.falls = "/* crash */" in job["candidate"]
        Crashing.tries += self.falls
        if self.falls and Crashing.tries == 1 and self.sqlite_version:
            os.kill(self.child.pid, signal.SIGSEGV)
        return super().ask(job)
    def _next(self):
        message = super()._next()
        if self.falls and (message.get("phase") == "candidate" or Crashing.tries == 1 and "sqlite" in message):
            os.kill(self.child.pid, signal.SIGSEGV)
        return message
s.Worker = Crashing
s.GRACE = 0.5  # the time of the tests
"""
SPAWNED = "sys.platform = 'elsewhere'"  # where no process is forked

TRAPS = [
    {"name": "all", "why": "counts all", "sql": "SELECT COUNT(*) FROM item"},
    {"name": "broken", "why": "does not run", "sql": "SELECT * FROM nowhere"},
]
MIX = (
    ("P01", "shop", "SELECT id, kind FROM item", "SELECT id, kind FROM item ORDER BY id DESC", ""),
    ("P02", "lab", "SELECT id FROM probe ORDER BY kind", "SELECT id FROM probe ORDER BY kind, id DESC", ""),
    ("P03", "lab", ["SELECT 1", "SELECT 2"], "SELECT 2", ""),
    ("P04", "shop", "SELECT MAX(id) FROM item WHERE id > 9", "SELECT NULL", "vacuous"),
    ("P05", "lab", "SELECT 80 AS n", hungry(80), ""),
    ("P06", "shop", count(400_000) + "SELECT MAX(x) FROM r", "SELECT 400000", ""),
    ("F01", "shop", "SELECT id FROM item", "SELECT id + 1 FROM item", "rows"),
    ("F02", "shop", "SELECT kind FROM item", "SELECT DISTINCT kind FROM item", "duplicates"),
    ("F03", "lab", "SELECT id FROM probe", "SELECT id, kind FROM probe", "columns"),
    ("F04", "lab", "SELECT id FROM probe ORDER BY id", "SELECT id FROM probe ORDER BY id DESC", "order"),
    ("F05", "lab", "SELECT id FROM probe", "SELECT CAST(id AS TEXT) FROM probe", "type"),
    ("F06", "shop", "SELECT COUNT(*) FROM item WHERE id < 3", "SELECT 5", "rows", {"traps": TRAPS}),
    ("E01", "shop", "SELECT 1", "SELECT nothing FROM item", "sql_error"),
    ("E02", "lab", "SELECT 1", "DROP TABLE probe", "forbidden"),
    ("E03", "lab", "SELECT 1", "SELECT load_extension('x')", "forbidden"),
    ("E04", "shop", "SELECT 1", "SELECT 1; SELECT 2", "multiple_statements"),
    ("E05", "lab", "SELECT 1", count(60_000) + "SELECT x FROM r", "too_large"),
    ("E06", "shop", "SELECT 1", "SELECT REPLACE(PRINTF('%.*c', 9000000, 'x'), 'x', 'xxxxxx')", "too_large"),
    ("E07", "lab", "SELECT 1", ENDLESS, "timeout"),
    ("E08", "shop", "SELECT 1", ONE_CALL["like"], "timeout"),
    ("E09", "lab", "SELECT 1", f"{ENDLESS} /* crash */", "crash"),
    ("E10", "shop", "SELECT nothing FROM item", "SELECT 1", "reference_error"),
    ("S01", "lab", "SELECT 1", None, "no_sql"),
    ("S02", "shop", "SELECT 1", "  ", "no_sql"),
    ("P99", "shop", "SELECT price FROM item", "SELECT price FROM item", ""),
)  # fmt: skip


LUCK = (
    ("L01", "shop", "SELECT COUNT(*) FROM item", "SELECT 5", "coincidence"),
    ("L02", "shop", "SELECT id FROM item WHERE price > 2", "SELECT id FROM item WHERE price > 2.4", "coincidence"),
    ("L03", "shop", "SELECT price FROM item WHERE kind = 'lid'", "SELECT DISTINCT price FROM item WHERE kind = 'lid'", "coincidence"),
    (
        "L04", "shop", "SELECT kind FROM item GROUP BY kind ORDER BY SUM(price) DESC",
        "SELECT kind FROM item GROUP BY kind ORDER BY MAX(price) DESC", "coincidence",
    ),
    ("L05", "lab", "SELECT COUNT(*) FROM probe WHERE id <= 60", "SELECT COUNT(id) FROM probe", "coincidence"),
    ("L06", "shop", "SELECT MAX(id) FROM item WHERE id > 9", "SELECT NULL", "coincidence"),
    ("L07", "shop", ["SELECT 5, 5", "SELECT COUNT(*) FROM item"], "SELECT 3 + 2", "coincidence"),
    (
        "L08", "shop", "SELECT COUNT(*) FROM item",  # it needs more than a share of memory there
        f"SELECT CASE WHEN (SELECT COUNT(*) FROM item) = 5 THEN 5 ELSE ({hungry(110)}) END", "coincidence",
    ),
    ("R01", "shop", "SELECT kind, COUNT(*) FROM item GROUP BY kind", "SELECT kind, SUM(1) FROM item GROUP BY kind", ""),
    ("R02", "shop", "SELECT MAX(price) FROM item", "SELECT price FROM item ORDER BY price DESC LIMIT 1", ""),
    ("R03", "lab", "SELECT id FROM probe ORDER BY kind", "SELECT id FROM probe ORDER BY kind, id DESC", ""),
    ("R04", "shop", "SELECT MAX(id) FROM item WHERE id > 9", "SELECT MAX(id) FROM item WHERE NOT id <= 9", "vacuous"),
    ("R05", "shop", "SELECT 1", "SELECT COUNT(*) FROM sqlite_master", ""),
    ("F01", "shop", "SELECT id FROM item", "SELECT id + 1 FROM item", "rows"),
    ("E01", "lab", "SELECT COUNT(*) FROM probe", "SELECT nothing FROM probe", "sql_error"),
)  # fmt: skip


@unittest.skipUnless(LINUX, "reads /proc")
class Agreement(WithData):
    """Verdicts, reasons, details and their order do not depend on the number of workers."""

    def check(self, rows, options, runs, before=""):
        """Each run, by its number of workers and their kind, ends as the rows say, and as the first did."""
        seen = []
        # Two at a time: a busy machine changes no verdict either.
        for two in runs:
            started = [
                Program(*options, "--jobs", jobs, "--csv", f"{jobs}.csv", before=before + kind)
                for jobs, kind in two
            ]
            for (jobs, _), ended in zip(two, [program.end() for program in started]):
                with self.subTest(jobs=jobs):
                    self.assertClean(ended)
                    self.assertEqual(ended.err, "")
                    table = scored_rows(f"{jobs}.csv")
                    found = [(row[0], row[4]) for row in table[1 : len(rows) + 1]]
                    self.assertEqual(found, [(row[0], row[4]) for row in rows])
                    # Somebody may be working on the scorer meanwhile.
                    report = re.sub(r"scorer:[^|]*|wrote \d\.csv|\d+\.\d{3} s", "", ended.out)
                    seen = seen or [table, report]
                    self.assertEqual([table, report], seen)
        return seen[1]

    def test_any_number_and_both_kinds_of_worker(self):
        options = *write_set("mix", [row[:4] + row[5:] for row in MIX]), "--timeout", "0.3", "--max-rows", "50000"
        runs = (("1", ""), ("2", "")), (("3", ""), ("4", SPAWNED)), (("8", ""),)
        self.check(MIX, options, runs, CRASHING)

    def test_on_variants(self):
        """Nor do counterexamples, which -v shows to the last row."""
        options = *write_set("luck", [row[:4] + row[5:] for row in LUCK], 40), "-v"
        report = self.check(LUCK, options, ((("1", ""), ("2", SPAWNED)), (("3", ""), ("8", ""))))
        lucky = sum(row[4] == "coincidence" for row in LUCK)
        self.assertEqual(report.count("counterexample (variant "), lucky)

    def test_a_limit_that_was_measured(self):
        """Five times what a slow reference took is another number each time; no detail may show it."""
        asked = question("Q1", count(300_000) + "SELECT MAX(x) FROM r")
        first, second = (verdicts(self.score([pair(asked, ENDLESS)], timeout=0.05)) for _ in range(2))
        self.assertEqual(first[0][2], "timeout", first)
        self.assertEqual(first, second)


class Time(WithData):
    """Limits of one question delay and change no other."""

    def quick(self, number):
        return [pair(question(f"Q{i:03}", f"SELECT {i}"), f"SELECT {i}") for i in range(number)]

    def test_an_endless_query_delays_nobody(self):
        """All others are done while it still runs; on Ctrl-C it alone is missing."""
        pairs = self.quick(201)
        pairs[3] = pair(pairs[3][0], ENDLESS)
        begun = time.monotonic()
        seen = []

        def watch(standing):
            seen.append(standing)
            if standing.done >= 200:
                signal.raise_signal(signal.SIGINT)

        outcomes = self.score(pairs, 8, 600.0, watch)
        self.assertTrue(self.desk.interrupted)
        self.assertEqual([o.question.id for o in outcomes], [q.id for q, _ in pairs if q.id != "Q003"])
        self.assertEqual({o.reason for o in outcomes}, {""})
        self.assertEqual((seen[-1].done, seen[-1].total, seen[-1].passed, seen[-1].slowest), (200, 201, 200, "Q003"))
        self.assertTrue(all(a.done <= b.done for a, b in zip(seen, seen[1:])))
        spent = time.monotonic() - begun
        self.assertTrue(all(0 <= standing.seconds <= spent for standing in seen))

    def test_run_after_run(self):
        pairs = self.quick(200)
        pairs[3] = pair(pairs[3][0], ENDLESS)
        for timeout in (1.0, 0.3):
            outcomes = self.score(pairs, 8, timeout)
            self.assertEqual([o.question.id for o in outcomes], [q.id for q, _ in pairs])
            wrong = {o.question.id: o.reason for o in outcomes if o.reason}
            self.assertEqual(wrong, {"Q003": "timeout"})

    def test_one_long_call_is_ended_near_its_limit(self):
        pairs = self.quick(12)
        for i, sql in enumerate(ONE_CALL.values()):
            pairs[i] = pair(pairs[i][0], sql)
        begun = time.monotonic()
        outcomes = self.score(pairs, 4, 0.5)
        self.assertLess(time.monotonic() - begun, 25)  # the calls themselves take minutes
        self.assertEqual([o.reason for o in outcomes], ["timeout"] * 4 + [""] * 8)
        self.assertEqual({o.detail for o in outcomes[:4]}, {("timeout: not done after 0.5 s",)})

    @unittest.skipUnless(LINUX, "stops processes")
    def test_a_reference_that_had_to_wait(self):
        """While the machine did something else the candidate was not given more time."""
        shown = count(500_000) + "SELECT MAX(x) FROM r"
        longer = count(9_000_000) + "SELECT MAX(x) - 8500000 FROM r"
        held = []

        def hold(worker, message):
            if message.get("phase") == "reference" and "ago" in message and not held:
                held.append(worker.child.pid)
                os.kill(worker.child.pid, signal.SIGSTOP)
                threading.Timer(0.5, os.kill, (worker.child.pid, signal.SIGCONT)).start()

        with mock.patch.object(scorer, "Worker", tapped(hold)):
            outcome = self.score([pair(question("Q1", shown), longer)], timeout=0.1)[0]
        if not held:
            self.skipTest("the reference was too quick to be stopped")
        self.assertEqual(outcome.reason, "timeout")  # it takes some 18 times as long


class Memory(WithData):
    """A share of the memory decides nothing: what needs more is tried with all of it."""

    WHOLE = 384 * scorer.MIB  # in place of 768: a share of 48, and half the time

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        pairs = [pair(asked, sql) for asked, sql, _ in cls.rows()]
        alone, shared = (verdicts(cls.score(cls, pairs, jobs, memory=cls.WHOLE)) for jobs in (1, 8))
        cls.alone, cls.shared = ({found[0]: found[1:] for found in each} for each in (alone, shared))

    @classmethod
    def rows(cls):
        """Questions, candidates and reasons, between others that need little."""
        for i, (n, sql, reason) in enumerate(
            (
                (80, hungry(80), ""),
                (200, hungry(200), ""),
                (1, hungry(500), "too_large"),
                (10, hungry(10), ""),
            )
        ):
            yield question(f"candidate {i}", f"SELECT {n} AS n"), sql, reason
            yield question(f"small {i}", f"SELECT {i}"), f"SELECT {i}", ""
        yield question("reference 1", hungry(80)), "SELECT 80", ""
        yield question("reference 2", hungry(500)), "SELECT 500", "reference_error"
        asked = question("alternative 1", "SELECT 7", alternatives=(hungry(60), "SELECT 8"))
        yield asked, "SELECT 60", ""
        yield asked._replace(id="alternative 2"), "SELECT 8", ""
        traps = (scorer.Trap("lure", "why", hungry(60)),)
        yield question("trap", "SELECT 7", traps=traps), "SELECT 60", "rows"
        for n in (6, 7, 8, 9, 10):
            reference = (
                "SELECT id FROM probe WHERE id < 4"
                f" ORDER BY id = 1, CASE WHEN id = 1 THEN PRINTF('%.*c', {n * MB}, 'k') END"
            )
            tied = "SELECT id FROM probe WHERE id < 4 ORDER BY id = 1, id DESC"
            yield question(f"sort keys {n}", reference), tied, ""
        for n in (4, 9, 11, 13, 15):
            cells = f"{count(3)} SELECT PRINTF('%.*c', {n * MB}, 'k') || x FROM r"
            yield question(f"cells {n}", "SELECT 1"), cells, "rows"

    def check(self, name):
        for asked, _, reason in self.rows():
            if asked.id.startswith(name):
                with self.subTest(asked.id):
                    self.assertEqual(self.alone[asked.id][1], reason, self.alone[asked.id])
                    self.assertEqual(self.shared[asked.id], self.alone[asked.id])

    @long
    def test_candidates(self):
        self.check("candidate")

    def test_their_neighbours(self):
        self.check("small")

    @long
    def test_references(self):
        self.check("reference")

    def test_alternatives(self):
        """An accepted alternative that needs more than a share is no broken reference."""
        self.check("alternative")

    def test_traps(self):
        self.check("trap")

    @long
    def test_sort_keys(self):
        """At some size a reference fits into a share, and its result beside its sort keys does not."""
        self.check("sort keys")

    @long
    def test_wide_cells(self):
        """Whichever allocation fails first, in SQLite or in Python: it is a want of memory."""
        self.check("cells")


@unittest.skipUnless(LINUX, "sends signals to workers")
class FromOutside(WithData):
    """What happens to a worker from outside costs a restart, and is not held against a candidate."""

    def hit(self, pairs, phase, number, jobs=1, change=None, **limits):
        """The outcomes where a worker is hit once, when it says that a phase has begun."""
        struck = []

        def strike(worker, message):
            if message.get("phase") == phase and "ago" in message and not struck:
                message.update(change or {})
                struck.append(worker.child.pid)
                os.kill(worker.child.pid, number)

        workers = tapped(strike)
        with mock.patch.object(scorer, "Worker", workers):
            outcomes = self.score(pairs, jobs, **limits)
        self.assertEqual(len(struck), 1, "the phase was not seen")
        self.restarts = len(workers.made) - jobs
        return outcomes

    @long
    def test_during_a_candidate(self):
        slow = count(1_000_000) + "SELECT MAX(x) FROM r"
        pairs = [pair(question(f"Q{i}", "SELECT 1000000"), slow if i == 2 else "SELECT 1000000") for i in range(8)]
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP):
            with self.subTest(number.name):
                outcomes = self.hit(pairs, "candidate", number, 3, timeout=0.4 if number == signal.SIGSTOP else 20)
                self.assertEqual([o.question.id for o in outcomes], [q.id for q, _ in pairs])
                if number == signal.SIGSTOP:  # its limit is near what it needs
                    self.assertEqual({o.reason for i, o in enumerate(outcomes) if i != 2}, {""})
                else:
                    self.assertEqual({o.reason for o in outcomes}, {""})
                self.assertLessEqual(self.restarts, 2)

    def test_between_questions(self):
        """Dead before it is asked: that is noticed at once and costs nobody a verdict."""
        pairs = [pair(question(f"Q{i}", "SELECT 1"), "SELECT 1") for i in range(4)]
        with scorer.Scorer(self.databases, scorer.STANDARD, 2) as desk:
            for slot in desk.slots:
                os.kill(slot.worker.child.pid, signal.SIGKILL)
            self.assertEqual([o.reason for o in desk.score(pairs)], [""] * 4)

    def test_while_sort_keys_are_read(self):
        """Tied rows may swap, whatever happened to the worker that looked which rows tie."""
        slow = count(400_000) + "SELECT MAX(x) * 0 FROM r"
        reference = f"SELECT id FROM probe ORDER BY ({slow}) + kind"
        asked = pair(question("Q1", reference), "SELECT id FROM probe ORDER BY kind, id DESC")
        self.assertEqual(self.hit([asked], "sort keys", signal.SIGKILL)[0].reason, "")

    def test_while_a_trap_is_tried(self):
        slow = count(900_000) + "SELECT COUNT(*) * 0 + 2 FROM r"
        asked = pair(question("Q1", "SELECT 1", traps=(scorer.Trap("lure", "why", slow),)), "SELECT 2")
        self.assertEqual(self.hit([asked], "trap", signal.SIGKILL)[0].traps, ("lure",))

    def test_while_variants_are_tried(self):
        """Once more, from the first on: the same counterexample as without it."""
        slow = count(50_000) + "SELECT MAX(x) * 0 FROM r"
        asked = pair(question("Q1", "SELECT COUNT(*) FROM probe WHERE kind > 0"), f"SELECT 40 + ({slow})")
        first = self.score([asked], variants=40)[0]
        self.assertEqual(first.reason, "coincidence")
        again = self.hit([asked], "variants", signal.SIGKILL, variants=40)[0]
        self.assertEqual((again.detail, again.counterexample), (first.detail, first.counterexample))

    @long
    def test_while_results_are_compared(self):
        """Stopped as long as a comparison may take: that was not the candidate's time."""
        wide = count(25_000) + "SELECT x, x * 7 % 13, 'a' || x, {}, x % 5 FROM r"
        asked = pair(question("Q1", wide.format("x * 3"), contract={"order": "ignore"}), wide.format("x * 3.5"))
        outcome = self.hit([asked], "compare", signal.SIGSTOP, change={"limit": 0.4})[0]
        self.assertEqual(outcome.reason, "rows")


class Messages(WithData):
    """Whatever is said between parent and worker arrives, or fails soon and in words."""

    def test_long_replies(self):
        """Samples of both results at their largest: 20 rows, 100 columns, 200 characters of 12 bytes."""
        face = "'" + "\U0001f600" * 200 + "'"
        columns = ", ".join(f"{face} || x AS c{i}" for i in range(100))
        wide = f"{{}} SELECT {columns} FROM r"
        first, second = count(20), count(20).replace("SELECT 1 ", "SELECT 101 ")
        asked = question("Q1", wide.format(first))
        outcome = self.score([pair(asked, wide.format(second))])[0]
        self.assertEqual(outcome.reason, "rows", outcome.detail)
        self.assertEqual((len(outcome.comparison.missing), len(outcome.comparison.unexpected)), (20, 20))

    def test_long_jobs(self):
        """Megabytes on the way to a worker, while it starts and when it is up."""
        long = "SELECT 1 -- " + "x" * 3_900_000
        wide = "SELECT 1 -- " + "\u4e2d" * 1_300_000  # six bytes a character on the way
        pairs = [pair(question(f"Q{i}", "SELECT 1"), sql) for i, sql in enumerate((long, wide, long, "SELECT 1"))]
        self.assertEqual([o.reason for o in self.score(pairs, 2)], [""] * 4)

    @unittest.skipUnless(LINUX, "memory is limited on Linux")
    def test_a_job_that_does_not_fit_into_a_worker(self):
        """It ends the worker at once. One that waits on would be missed for minutes, and outlive its parent."""
        rows = tuple((i, "x" * 7000) for i in range(3000))
        asked = question("Q1", "", frozen=(scorer.Frozen(("i", "t"), rows),))
        job = scorer.Scorer(self.databases, scorer.STANDARD)._job(asked, "SELECT 1")
        worker = scorer.Worker(4 * scorer.MIB)
        timer = threading.Timer(10, worker.child.stop)
        timer.start()
        begun = time.monotonic()
        try:
            worker.ask(job)
        finally:
            timer.cancel()
            worker.kill()
        self.assertLess(time.monotonic() - begun, 9)

    def test_a_worker_that_fails(self):
        """Both kinds end alike, in order, however many threads they have."""
        main = """
            for fork in (True, False):
                print(s.Worker(s.MEMORY_LIMIT, fork).ask({"reference_timeout": 20})["note"])
        """
        ended = Program(main=main).end()
        self.assertEqual(ended.out.splitlines(), ["its worker died (exit code 1)"] * 2)

    def test_both_kinds_have_the_same_surroundings(self):
        """A worker that replaces another reads times in the same zone, by the same zone data."""
        local = "SELECT datetime('2024-01-01 00:00:00', 'localtime') AS d"
        main = f"""
            database = s.Database(s.file_uri({self.path!r}) + "?mode=ro", "", "")
            local = s.Question("L", "", "", "", frozen=(s.Frozen(("d",), (("2024-01-01 08:00:00",),)),))
            dated = s.Question("D", "", "", "SELECT '2024-01-01T23:30:00Z' AS d", s.Contract(date={{"d": "Europe/Rome"}}))
            pairs = [(local, s.Answer({local!r})), (dated, s.Answer("SELECT '2024-01-02' AS d"))]
            for fork in (True, False):
                with s.Scorer({{"": [database]}}, s.STANDARD, 1, fork) as desk:
                    print([o.reason for o in desk.score(pairs)])
        """
        for env in ({"TZ": "Asia/Taipei"}, {"PYTHONTZPATH": "/nonexistent"}):
            with self.subTest(env):
                ended = Program(main=main, env=env).end()
                forked, spawned = ended.out.splitlines()
                self.assertEqual(forked, spawned)


@unittest.skipUnless(LINUX, "looks for processes in /proc")
class Endings(WithData):
    """No process and no file is left, however a run ends."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        calls = list(ONE_CALL.values())
        rows = [(f"Q{i:02}", "lab", f"SELECT {i}", f"SELECT {i}") for i in range(12)]
        rows += [(f"Q{i:02}", "lab", "SELECT 1", ENDLESS if i % 2 else calls[i % 4]) for i in range(12, 24)]
        cls.busy = *write_set("busy", rows), "--timeout", "60", "--jobs", "8"
        cls.quick = *write_set("quick", rows[:12]), "--jobs", "8"
        # A database in use is read from a private copy.
        os.makedirs(os.path.join("wal", "lab"))
        cls.writer = sqlite3.connect(os.path.join("wal", "lab", "lab.sqlite"))
        cls.addClassCleanup(cls.writer.close)
        cls.writer.executescript("PRAGMA journal_mode = WAL; CREATE TABLE probe (id); INSERT INTO probe VALUES (1)")

    def copied(self, options):
        return [option if option != "dbs" else "wal" for option in options]

    def test_by_a_signal(self):
        for name, number, group, code, before in (
            ("Ctrl-C", signal.SIGINT, True, 130, ""),
            ("to the parent", signal.SIGINT, False, 130, ""),
            ("terminated", signal.SIGTERM, False, -signal.SIGTERM, ""),
            ("hung up", signal.SIGHUP, True, -signal.SIGHUP, SPAWNED),
            ("killed", signal.SIGKILL, False, -signal.SIGKILL, ""),
            ("killed, spawned", signal.SIGKILL, False, -signal.SIGKILL, SPAWNED),
        ):
            killed = number == signal.SIGKILL
            program = Program(*(self.busy if killed else self.copied(self.busy)), before=before)
            busy = program.workers_busy(8)
            (os.killpg if group else os.kill)(program.pid, number)
            ended = program.end()
            with self.subTest(name):
                self.assertEqual(len(busy), 8)
                self.assertClean(ended, code)
                if not killed:
                    self.assertEqual(ended.last, "execution accuracy: 12/12 (100%)  [interrupted: 12 of 24 questions]")

    def test_by_itself(self):
        with open("bad.answers", "w", encoding="utf-8") as file:
            file.write('{"id": "Q00", "sql": "SELECT 1"}\n{"id": "nobody", "sql": "SELECT 1"}\n')
        bad = ["bad.answers" if option == "quick.answers" else option for option in self.quick]
        missing = ["nowhere" if option == "dbs" else option for option in self.quick]
        for name, options, code in (("done", self.quick, 0), ("answers", bad, 2), ("data", missing, 2)):
            with self.subTest(name):
                self.assertClean(Program(*options).end(), code)

    def test_nobody_reads_the_report(self):
        program = Program(*self.quick)
        program.child.stdout.close()
        program.child.stdout = None
        self.assertClean(program.end())

    @long
    def test_a_second_signal_while_it_cleans_up(self):
        """A closing terminal sends SIGHUP more than once. The private copy goes all the same."""
        before = """
            import shutil
            remove = shutil.rmtree
            def interrupted(*args, **named):
                shutil.rmtree = remove
                os.kill(os.getpid(), int(os.environ["SECOND"]))
                time.sleep(0.02)
                return remove(*args, **named)
            shutil.rmtree = interrupted
        """
        for number, code in ((signal.SIGINT, 130), (signal.SIGHUP, -signal.SIGHUP)):
            program = Program(*self.copied(self.busy), before=before, env={"SECOND": str(int(number))})
            program.workers_busy(8)
            os.kill(program.pid, number)
            ended = program.end()
            with self.subTest(number.name):
                self.assertEqual((ended.left, ended.files), ([], []))
                self.assertIn(ended.code, (code, -signal.SIGINT))

    @long
    def test_a_second_signal_any_time(self):
        for pause in (0.0, 0.004):
            program = Program(*self.busy)
            program.workers_busy(4)
            for _ in range(2):
                os.killpg(program.pid, signal.SIGINT)
                time.sleep(pause)
            ended = program.end()
            with self.subTest(pause):
                self.assertEqual((ended.left, ended.files), ([], []))
                self.assertIn(ended.code, (130, -signal.SIGINT))

    def test_a_signal_to_a_worker_that_was_just_forked(self):
        """It must not end as the parent would: clean up the parent's files and report on its own."""
        before = """
            fork, forks = os.fork, []
            def forked():
                pid = fork()
                forks.append(pid)
                if len(forks) == 2 and pid == 0:
                    os.kill(os.getpid(), int(os.environ["NUMBER"]))
                return pid
            os.fork = forked
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                ended = Program(*self.copied(self.quick), before=before, env={"NUMBER": str(int(number))}).end()
                self.assertClean(ended)
                self.assertEqual(ended.last, "execution accuracy: 12/12 (100%)")
                self.assertEqual((ended.err, ended.out.count("execution accuracy")), ("", 1))

    @long
    def test_nohup(self):
        """A program that is told to outlive its terminal does."""

        def deaf():
            hearing()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        slow = write_set("slow", [("Q01", "lab", "SELECT 1", count(6_000_000) + "SELECT 1 FROM r LIMIT 1 OFFSET 5999999")])
        program = Program(*slow, preexec_fn=deaf)
        program.workers_busy(1)
        os.kill(program.pid, signal.SIGHUP)
        ended = program.end()
        self.assertClean(ended)
        self.assertEqual(ended.last, "execution accuracy: 1/1 (100%)")

    @long
    def test_a_host_that_forks(self):
        """A copy of the parent holds the worker's pipes open; the worker ends with its parent all the same."""
        main = f"""
            database = s.Database(s.file_uri({self.path!r}) + "?mode=ro", "", "")
            with s.Scorer({{"": [database]}}, s.Settings(timeout=60)) as desk:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                desk.score([(s.Question("Q", "", "", "SELECT 1"), s.Answer({ENDLESS!r}))])
        """
        program = Program(main=main, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        worker = max(program.workers_busy(1).items(), key=lambda item: item[1])[0]
        os.kill(program.pid, signal.SIGKILL)
        program.child.wait()
        gone = until(lambda: (stat_of(worker) or "Z")[0] in "ZX", 3)
        orphans.left(0)  # the copy
        program.end()
        self.assertTrue(gone)


@unittest.skipUnless(LINUX, "looks for processes in /proc")
class Interrupted(WithData):
    """Ctrl-C ends a run at once, and what is reported is what a full run would say."""

    def interrupt(self):
        os.kill(os.getpid(), signal.SIGINT)

    def test_the_report(self):
        """On a terminal, with a real Ctrl-C: 12 of 200 are done, which the progress line tells."""
        rows = [(f"Q{i:03}", "shop" if i % 2 else "lab", "SELECT 1", ENDLESS) for i in range(200)]
        for i in range(12):
            rows[i] = (*rows[i][:3], f"SELECT {int(i % 4 != 3)}")
        options = *write_set("many", rows, 40), "--timeout", "600", "--jobs", "2", "--csv", "many.csv"
        with Terminal(100) as terminal:
            program = Program(*options, stderr=terminal.end, preexec_fn=terminal.controlling)
            terminal.read_until(program, b"12/200 done")
            terminal.type(b"\x03")
            ended = program.end()
        self.assertClean(ended, 130)
        self.assertIn("interrupted: only what was scored so far", ended.out.splitlines())
        self.assertEqual(ended.last, "execution accuracy: 9/12 (75%)  [interrupted: 12 of 200 questions]")
        table = scored_rows("many.csv")
        self.assertEqual(
            [(row[0], row[2]) for row in table[1:13]],
            [(f"Q{i:03}", "FAIL" if i % 4 == 3 else "PASS") for i in range(12)],
        )
        scores = [["accuracy_on_variants", "9/12"], ["execution_accuracy", "9/12"]]
        self.assertEqual(table[13:], [[], *scores, ["interrupted", "12 of 200"]])

    def test_before_anything_is_done(self):
        rows = [(f"Q{i}", "lab", "SELECT 1", ENDLESS) for i in range(4)]
        program = Program(*write_set("none", rows), "--timeout", "600", "--csv", "none.csv")
        program.workers_busy(1)
        os.killpg(program.pid, signal.SIGINT)
        ended = program.end()
        self.assertClean(ended, 130)
        self.assertEqual(ended.last, "execution accuracy: 0/0 (0%)  [interrupted: 0 of 4 questions]")
        self.assertEqual(scored_rows("none.csv")[-1], ["interrupted", "0 of 4"])

    def test_verdicts_that_were_not_final(self):
        """What a full run would try again with more memory is left out, not reported as it stands."""
        pairs = [
            pair(question("Q1", "SELECT 80 AS n"), hungry(80)),
            pair(question("Q2", "SELECT 1"), "SELECT 1"),
            pair(question("Q3", "SELECT 1"), ENDLESS),
        ]

        def watch(standing):
            if standing.done >= 2:
                signal.raise_signal(signal.SIGINT)

        outcomes = self.score(pairs, 8, 600.0, watch)
        self.assertEqual(verdicts(outcomes)[0][:3], ("Q2", "PASS", ""))
        self.assertEqual(len(outcomes), 1)

    def test_while_a_trap_is_tried(self):
        """No worker is started any more."""
        workers = tapped(lambda _, message: self.interrupt() if message.get("phase") == "trap" else None)
        asked = question("Q1", "SELECT 1", traps=(scorer.Trap("endless", "never ends", ENDLESS),))
        with mock.patch.object(scorer, "Worker", workers):
            outcomes = self.score([pair(asked, "SELECT 2")], timeout=600.0)
        self.assertTrue(self.desk.interrupted)
        self.assertEqual((outcomes, len(workers.made)), ([], 1))

    def test_while_a_worker_is_replaced(self):
        """One that is just being started is ended too, or asked nothing."""
        test = self

        class Slow(scorer.Worker):
            made = 0

            def __init__(self, *args, **named):
                Slow.made += 1
                if Slow.made == 2:
                    test.interrupt()
                    time.sleep(0.5)
                super().__init__(*args, **named)

        pairs = [pair(question("Q1", "SELECT 1"), count(60_000) + "SELECT x FROM r"), pair(question("Q2", "SELECT 1"), ENDLESS)]
        with mock.patch.object(scorer, "Worker", Slow):
            begun = time.monotonic()
            outcomes = self.score(pairs, timeout=6.0, max_rows=1000)
        self.assertLess(time.monotonic() - begun, 5)
        self.assertEqual([o.reason for o in outcomes], ["too_large"])

    def test_while_workers_are_started(self):
        """Those that were started are ended, though a notebook keeps the exception and all it holds."""
        made = []

        class Third(scorer.Worker):
            def __init__(self, *args, **named):
                made.append(self)
                if len(made) == 3:
                    raise KeyboardInterrupt
                super().__init__(*args, **named)

        desk = scorer.Scorer(self.databases, scorer.STANDARD, 3)
        with mock.patch.object(scorer, "Worker", Third), self.assertRaises(KeyboardInterrupt), desk:
            self.fail("it is not entered")
        self.assertEqual((len(made), orphans.left()), (3, []))

    def test_while_threads_are_started(self):
        begin = threading.Thread.start
        started = []

        def start(thread):
            begin(thread)
            started.append(thread)
            if len(started) == 1:
                self.interrupt()

        pairs = [pair(question(f"Q{i}", "SELECT 1"), ENDLESS) for i in range(3)]
        with mock.patch.object(threading.Thread, "start", start):
            self.assertEqual(self.score(pairs, 3, 600.0), [])
        self.assertTrue(self.desk.interrupted)

    @long
    def test_at_any_moment(self):
        """An interrupt wherever Python looks for one: the run ends, as interrupted, and its threads with it."""
        main = """
            import faulthandler, threading
            class Prepared:
                sqlite_version, deadline, ended, stopped = "3", float("inf"), False, False
                def __init__(self, *args, **named):
                    self.over = threading.Lock()
                    self.over.acquire()
                def ask(self, job):
                    self.over.acquire(timeout=60)
                    return {"reason": "timeout", "phase": "candidate", "final": True, "spent": True}
                def stop(self):
                    try:
                        self.over.release()
                    except RuntimeError:
                        pass
                def kill(self):
                    self.ended = True
                    self.stop()
                    return 0
                close = kill
            s.Worker, s.LOOK = Prepared, 0.001
            left = 0
            def trace(frame, event, _):
                # Where a function is entered or left is where Python looks for signals.
                global left
                if event in ("call", "return") and frame.f_code is not watch.__code__:
                    left -= 1
                    if left == 0:
                        raise KeyboardInterrupt
                return trace
            def watch(_):
                if sys.gettrace() is None:
                    sys.settrace(trace)
            pairs = [(s.Question(f"Q{i}", "", "", "SELECT 1"), s.Answer("SELECT 1")) for i in range(2)]
            for moment in range(1, 50):
                faulthandler.dump_traceback_later(10, exit=True)
                left = moment
                with s.Scorer({"": [s.Database("", "", "")]}, s.STANDARD, 2) as desk:
                    try:
                        outcomes = desk.score(pairs, watch)
                    finally:
                        sys.settrace(None)
                if outcomes or not desk.interrupted or threading.active_count() > 1:
                    print(moment, outcomes, desk.interrupted, threading.active_count())
            faulthandler.cancel_dump_traceback_later()
            print("done", left)
        """
        ended = Program(main=main).end()
        self.assertClean(ended)
        self.assertEqual(ended.out.strip(), "done 0")

    def test_another_exception(self):
        """A watcher that fails ends the run; nobody goes on asking."""
        asked = []
        workers = tapped(lambda worker, _: asked.append(worker.job["candidate"]))

        def watch(standing):
            if standing.done >= 2:
                raise OSError(5, "the terminal is gone")

        slow = count(200_000) + "SELECT MAX(x) FROM r"
        pairs = [pair(question(f"Q{i}", "SELECT 1"), slow) for i in range(60)]
        with mock.patch.object(scorer, "Worker", workers), mock.patch("sys.stderr", io.StringIO()):
            with self.assertRaises(OSError):
                self.score(pairs, 2, watch=watch)
            before = len(asked)
            until(lambda: threading.active_count() == 1, 15)
        self.assertEqual((threading.active_count(), orphans.left()), (1, []))
        self.assertLessEqual(len(asked) - before, 2)

    def test_a_mistake_in_a_thread(self):
        """A question that was lost is never left out silently."""
        ask = scorer.Worker.ask

        def failing(worker, job):
            if job["candidate"] == "SELECT 2":
                raise RuntimeError("a mistake")
            return ask(worker, job)

        pairs = [pair(question(f"Q{i}", "SELECT 1"), f"SELECT {i}") for i in range(4)]
        hook = mock.patch.object(threading, "excepthook", lambda _: None)
        with mock.patch.object(scorer.Worker, "ask", failing), hook, self.assertRaises((RuntimeError, scorer.ScoreError)):
            self.score(pairs, 2)
        self.assertEqual(orphans.left(), [])


class Hosts(WithData):
    """grade() inside programs of all kinds."""

    def descriptors(self):
        return len(os.listdir("/proc/self/fd")) if LINUX else 0

    def test_many_threads_at_once(self):
        """The right outcomes, no output, no fork beside threads, and nothing grows with the calls."""
        questions = [question(f"Q{i}", f"SELECT {i}") for i in range(8)]
        scorer.grade("Q1", "SELECT 1", self.path, questions=questions)
        before = self.descriptors(), threading.active_count()
        wrong = []

        def work(number):
            for turn in range(7):
                sql = f"SELECT {number if turn % 2 else 99}"
                outcome = scorer.grade(f"Q{number}", sql, self.path, questions=questions)
                if outcome.passed != bool(turn % 2):
                    wrong.append(outcome)

        # As pytest captures: in place of the streams, and with nothing to read.
        captured = io.StringIO()
        no_fork = mock.patch("os.fork", create=True, side_effect=AssertionError("forked"))
        out, err = contextlib.redirect_stdout(captured), contextlib.redirect_stderr(captured)
        with out, err, mock.patch("sys.stdin", None), no_fork:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(captured.getvalue(), "")
        self.assertEqual((self.descriptors(), threading.active_count()), before)
        if LINUX:
            self.assertEqual(orphans.left(), [])

    @long
    @unittest.skipUnless(LINUX, "sends signals to a group")
    def test_a_host_with_its_own_interrupts(self):
        """Its Ctrl-C reaches the whole group, a starting worker too, and is not the candidate's doing."""
        main = f"""
            heard = []
            signal.signal(signal.SIGINT, lambda *_: heard.append(1))
            questions = [s.Question("Q", "", "", "SELECT 1")]
            import threading
            class Struck(s.Worker):
                pause = 0.0
                def __init__(self, *args, **named):
                    super().__init__(*args, **named)
                    threading.Timer(Struck.pause, os.killpg, (0, signal.SIGINT)).start()
            s.Worker = Struck
            found = []
            def work():
                for Struck.pause in (0.0, 0.005, 0.01, 0.02):
                    found.append(s.grade("Q", "SELECT 1", {self.path!r}, questions=questions).reason)
            work()
            thread = threading.Thread(target=work)
            thread.start()
            while thread.is_alive():
                thread.join(0.05)
            print(found, len(heard) > 3)
        """
        ended = Program(main=main).end()
        self.assertClean(ended)
        self.assertEqual(ended.out.strip(), f"{[''] * 8} True")

    @unittest.skipUnless(LINUX, "forks on Linux only")
    def test_no_fork_once_threads_were_started(self):
        """A thread that was joined may still be there; Python 3.12 warns of a fork beside it, and rightly."""
        before = """
            import threading
            begin, fork = threading.Thread.start, os.fork
            started = []
            def start(thread):
                started.append(thread)
                begin(thread)
            def forked():
                if started:
                    sys.stderr.write("forked beside threads\\n")
                return fork()
            threading.Thread.start, os.fork = start, forked
        """
        rows = [("Q1", "lab", "SELECT 80", hungry(80)), ("Q2", "lab", "SELECT 1", "SELECT 1")]
        ended = Program(*write_set("again", rows), "--jobs", "2", before=before).end()
        self.assertClean(ended)
        self.assertEqual(ended.last, "execution accuracy: 2/2 (100%)")
        self.assertEqual(ended.err, "")

    @unittest.skipUnless(LINUX, "reads /proc")
    def test_workers_have_none_of_the_parents_files(self):
        """A candidate cannot write to the report, not even through a hole in SQLite."""
        rows = [(f"Q{i}", "lab", "SELECT 1", ENDLESS) for i in range(2)]
        options = *write_set("files", rows), "--timeout", "600", "--jobs", "2"
        for name, before in (("forked", ""), ("spawned", SPAWNED)):
            with open("report", "wb") as out, open("errors", "wb") as err, open("secret", "w+b") as secret:
                os.dup2(secret.fileno(), 4500)  # far above what is usually looked at
                program = Program(*options, before=before, stdin=secret, stdout=out, stderr=err, pass_fds=(4500,))
                os.close(4500)
                workers = program.workers_busy(2)
                held = {
                    os.path.basename(os.readlink(f"/proc/{pid}/fd/{fd}"))
                    for pid in workers for fd in os.listdir(f"/proc/{pid}/fd")
                }  # fmt: skip
                os.kill(program.pid, signal.SIGINT)
                ended = program.end()
            with self.subTest(name):
                self.assertEqual(len(workers), 2)
                self.assertEqual({n for n in held if not n.startswith("pipe:")}, {"null", "lab.sqlite"})
                self.assertClean(ended, 130)


class Terminal:
    """A pseudo-terminal of so many columns."""

    def __init__(self, columns):
        self.columns, self.data = columns, b""

    def __enter__(self):
        import fcntl
        import pty
        import termios

        self.master, self.end = pty.openpty()
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, self.columns, 0, 0))
        return self

    def __exit__(self, *_):
        for number in (self.master, self.end):
            with contextlib.suppress(OSError):
                os.close(number)

    def controlling(self):
        """Runs in a child: makes this its session's terminal, whose Ctrl-C is a signal."""
        import fcntl
        import termios

        hearing()
        fcntl.ioctl(self.end, termios.TIOCSCTTY, 0)

    def read_until(self, program, words):
        """Reads until some words came, or the program has ended."""
        import select

        end = time.monotonic() + STUCK
        while words not in self.data and time.monotonic() < end:
            if select.select([self.master], [], [], 0.05)[0]:
                self.data += os.read(self.master, 65536)
            elif program.child.poll() is not None:
                break

    def type(self, keys):
        os.write(self.master, keys)

    def lines(self):
        """What was written, cut where a line is begun anew."""
        return self.data.decode().split("\r")[1:]


@unittest.skipUnless(LINUX, "opens pseudo-terminals")
class ProgressLine(WithData):
    def options(self, id="Q{}", timeout=0.5):
        rows = [(id.format(i), "lab", "SELECT 1", "SELECT 1" if i else ENDLESS) for i in range(5)]
        return *write_set(f"progress-{len(id)}-{timeout}", rows), "--timeout", timeout, "--jobs", "2"

    def test_on_a_terminal(self):
        """One line that is rewritten, no wider than the terminal, and cleared at the end."""
        long = "a-name-that-does-not-fit-into-one-narrow-line-{}"
        with Terminal(50) as narrow, Terminal(100) as quiet:
            started = [
                (narrow, Program(*self.options(long, timeout=1.5), stderr=narrow.end)),
                (quiet, Program(*self.options(timeout=0.3), "-q", stderr=quiet.end)),
            ]
            for terminal, program in started:
                terminal.read_until(program, b"no such words")
                self.assertClean(program.end())
        self.assertEqual(quiet.data, b"")
        self.assertNotIn(b"\n", narrow.data)
        lines = narrow.lines()
        self.assertGreater(len(lines), 3)
        self.assertTrue(all(line.endswith("\x1b[K") for line in lines))
        self.assertEqual(lines[-1], "\x1b[K")
        self.assertLessEqual(max(len(line) for line in lines) - len("\x1b[K"), 50)
        self.assertTrue(any(line.startswith("4/5 done, 100% passed, a-name") for line in lines), lines)

    def test_words(self):
        """How much is done, the share, what runs longest, and the time left where that can be told."""
        for standing, elapsed, words in (
            (scorer.Standing(0, 9, 0, "", 0.0), 0.3, "0/9 done"),
            (scorer.Standing(50, 200, 25, "Q7", 2.0), 10.0, "50/200 done, 50% passed, Q7 running 2 s, about 30 s left"),
            (scorer.Standing(200, 200, 200, "", 0.0), 10.0, "200/200 done, 100% passed"),
        ):
            self.assertEqual(scorer.progress_line(standing, elapsed), words)

    def test_on_no_terminal(self):
        ended = Program(*self.options()).end()
        self.assertClean(ended)
        self.assertEqual(ended.err, "")

    def test_a_terminal_that_goes_away(self):
        """There is nobody left to be told; the run goes on."""
        with Terminal(100) as terminal:
            program = Program(*self.options(), stderr=terminal.end)
            os.close(terminal.end)
            terminal.read_until(program, b"done")
            os.close(terminal.master)
            ended = program.end()
        self.assertClean(ended)
        self.assertEqual(ended.last, "execution accuracy: 4/5 (80%)")


@unittest.skipUnless(LINUX, "limits processes and files")
class Starts(WithData):
    """A worker that cannot be started is one line and exit code 2, not a verdict."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        rows = [(f"Q{i}", "lab", "SELECT 1", "SELECT 1") for i in range(8)]
        cls.options = *write_set("eight", rows), "--jobs", "4"
        os.chmod(cls.folder, 0o755)

    def assertRefusedOrScored(self, ended, refused):
        """One or the other, and nothing in between."""
        if refused or ended.code:
            self.assertRefused(ended)
        else:
            self.assertClean(ended)
            self.assertEqual(ended.last, "execution accuracy: 8/8 (100%)")

    @long
    def test_no_more_files(self):
        for files in range(8, 20, 3):
            with self.subTest(files):
                before = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"
                self.assertRefusedOrScored(Program(*self.options, before=before).end(), files == 8)

    @long
    @unittest.skipUnless(LINUX and os.getuid() == 0, "becomes another user")
    def test_no_more_processes(self):
        """The n-th worker, or a thread of the parent, is refused by the system."""
        # Another user, for whom the limit counts, who may still read all files.
        before = """
            import ctypes, resource
            n = int(os.environ["ALLOWED"])
            resource.setrlimit(resource.RLIMIT_NPROC, (n, n))
            libc = ctypes.CDLL(None)
            libc.prctl(8, 1, 0, 0, 0)  # PR_SET_KEEPCAPS
            os.setgid(64077 + n)
            os.setuid(64077 + n)
            files = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(files, files, 0, 0, 0, 0))
        """
        for n in (1, 13, 13):
            with self.subTest(n):  # four workers of three threads each, then the parent's own
                ended = Program(*self.options, before=before, env={"ALLOWED": str(n)}).end()
                self.assertRefusedOrScored(ended, n < 2)

    @long
    def test_no_interpreter(self):
        with open("aborts", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nkill -ABRT $$\n")
        os.chmod("aborts", 0o755)
        for name, executable in (
            ("gone", "/nonexistent/python"),
            ("unknown", ""),
            ("none", None),
            ("not Python", "/bin/false"),
            ("another program", "/bin/echo"),
            ("one that aborts", os.path.abspath("aborts")),
        ):
            with self.subTest(name):
                before = f"sys.platform = 'elsewhere'; sys.executable = {executable!r}"
                self.assertRefused(Program(*self.options, before=before).end())

    def test_no_interpreter_in_a_host(self):
        questions = [question("Q", "SELECT 1")]
        for executable in ("/nonexistent/python", "/bin/false", None):
            named = mock.patch.object(sys, "executable", executable)
            with self.subTest(executable), named, self.assertRaises(scorer.ScoreError):
                scorer.grade("Q", "SELECT 1", self.path, questions=questions)
        self.assertEqual(orphans.left(), [])

    def test_no_interpreter_for_a_second_worker(self):
        """Forked workers need none; one that replaces another does."""
        rows = [("Q1", "lab", "SELECT 1", count(60_000) + "SELECT x FROM r"), ("Q2", "lab", "SELECT 1", "SELECT 1")]
        options = *write_set("second", rows), "--jobs", "1", "--max-rows", "1000"
        self.assertRefused(Program(*options, before="sys.executable = '/nonexistent/python'").end())

    def test_children_that_nobody_waits_for(self):
        """Where SIGCHLD is ignored, as some parents leave it, the system buries children itself."""

        def careless():
            hearing()
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        for name, before in (("forked", ""), ("spawned", SPAWNED)):
            with self.subTest(name):
                ended = Program(*self.options, before=before, preexec_fn=careless).end()
                self.assertClean(ended)
                self.assertEqual(ended.last, "execution accuracy: 8/8 (100%)")

    def test_without_proc(self):
        """Where /proc is not mounted, limits are coarser, and verdicts the same."""
        before = """
            import builtins
            def without(function):
                def refused(path=".", *args, **named):
                    if str(path).startswith("/proc"):
                        raise FileNotFoundError(2, "No such file or directory", path)
                    return function(path, *args, **named)
                return refused
            os.listdir, os.scandir, builtins.open = map(without, (os.listdir, os.scandir, open))
        """
        ended = Program(*self.options, before=before).end()
        self.assertClean(ended)
        self.assertEqual(ended.last, "execution accuracy: 8/8 (100%)")

    @long
    def test_closed_streams(self):
        """Pipes to workers may then get the numbers of the streams; verdicts are the same."""
        rows = [("Q1", "lab", "SELECT 1", hungry(80)), ("Q2", "lab", "SELECT 1", "SELECT 1"), ("Q3", "lab", "SELECT 1", "X")]
        options = *write_set("closed", rows), "--jobs", "2", "--csv", "closed.csv"
        for closed in ((0,), (0, 2), (0, 1, 2)):

            def close(numbers=closed):
                hearing()
                for number in numbers:
                    os.close(number)

            with self.subTest(closed=closed):
                with contextlib.suppress(OSError):
                    os.remove("closed.csv")
                ended = Program(*options, preexec_fn=close).end()
                self.assertEqual(ended.left, [])
                self.assertEqual([row[4] for row in scored_rows("closed.csv")[1:4]], ["rows", "", "sql_error"])


if __name__ == "__main__":
    unittest.main()
