"""The engine and its worker: what may be read, limits, second tries, both kinds of child process."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT MAX(x) FROM r"
# One C call that no progress handler interrupts: minutes on any machine.
ONE_CALL = "SELECT INSTR(PRINTF('%.*c', 40000000, 'a'), PRINTF('%.*c', 20000000, 'a') || 'b')"
DATA = """
    CREATE TABLE shown (id INTEGER PRIMARY KEY, tenant INTEGER, n INTEGER);
    CREATE TABLE secret (id INTEGER PRIMARY KEY, n INTEGER);
    CREATE TABLE plain (n INTEGER);
    CREATE INDEX secret_n ON secret (n);
    CREATE VIEW mine AS SELECT id, n FROM shown WHERE tenant = 1;
    CREATE VIEW leak AS SELECT n FROM secret;
    INSERT INTO shown VALUES (1, 1, 10), (2, 2, 20), (3, 1, 30);
    INSERT INTO secret VALUES (1, 10), (2, 99);
    INSERT INTO plain VALUES (1), (2), (3);
"""


def question(sql, **more):
    contract = scorer.read_contract(more.pop("contract", {}))
    return scorer.Question("Q01", "?", "", sql, contract, **more)


class WithData(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.path = os.path.join(folder.name, "data.db")
        with contextlib.closing(sqlite3.connect(cls.path)) as connection:
            connection.executescript(DATA)
        uri = scorer.file_uri(cls.path) + "?mode=ro"
        cls.databases = {"": [scorer.Database(uri, cls.path, cls.path)]}
        cls.desk = scorer.Scorer(cls.databases, scorer.STANDARD)
        cls.desk.__enter__()
        cls.addClassCleanup(cls.desk.__exit__)

    def grade(self, reference, candidate, settings=scorer.STANDARD, **more):
        """The outcome from one worker for the whole class, replaced only when it is spent.

        Answers here are often right by luck, so nothing is tried on variants.
        """
        self.desk.settings = settings._replace(variants=0)
        reason, detail = scorer.screen(candidate)
        pair = question(reference, **more), scorer.Answer(candidate, 1, reason, detail)
        return self.desk.score([pair])[0]


class NarrowedTables(WithData):
    """A question that names `tables` lets nothing else be read, however it is reached."""

    REFUSED = (
        ("plain select", "SELECT COUNT(*) FROM secret"),
        ("count only", "SELECT COUNT(*) FROM shown, secret"),
        ("natural join", "SELECT COUNT(*) FROM shown NATURAL JOIN secret"),
        ("using", "SELECT COUNT(*) FROM shown JOIN secret USING (id)"),
        ("index only", "SELECT COUNT(*) FROM shown WHERE n IN (SELECT n FROM secret)"),
        ("exists", "SELECT 3 WHERE EXISTS (SELECT 1 FROM secret)"),
        ("through a view", "SELECT COUNT(*) FROM leak"),
        ("in a CTE", "WITH s AS (SELECT n FROM secret) SELECT COUNT(*) FROM s"),
        ("compound", "SELECT 3 UNION SELECT COUNT(*) FROM secret"),
        ("other case", "SELECT COUNT(*) FROM SECRET"),
        ("schema", "SELECT COUNT(*) FROM sqlite_master"),
        ("schema by its other name", "SELECT COUNT(*) FROM sqlite_schema"),
        ("a leading semicolon", ";SELECT COUNT(*) FROM shown NATURAL JOIN secret"),
        ("a CTE that borrows a name", "WITH shown AS (SELECT n FROM secret) SELECT COUNT(*) FROM shown"),
        ("the same behind a semicolon", ";WITH shown AS (SELECT n FROM secret) SELECT 3 FROM shown"),
        ("a CTE in a view's name", "WITH mine AS (SELECT n FROM secret) SELECT COUNT(*) FROM mine"),
        ("schema by natural join", "SELECT COUNT(*) FROM shown NATURAL JOIN sqlite_master"),
    )
    ALLOWED = (
        ("the table", "SELECT COUNT(*) FROM shown"),
        ("other case", "SELECT COUNT(*) FROM SHOWN"),
        ("itself joined", "SELECT COUNT(*) FROM shown a JOIN shown b USING (id)"),
        ("a CTE of a hidden name", "WITH secret AS (SELECT id FROM shown) SELECT COUNT(*) FROM secret"),
        ("JSON", "SELECT COUNT(*) FROM json_each('[1, 2, 3]')"),
        ("no table", "SELECT 3"),
    )

    def test_refused(self):
        for name, sql in self.REFUSED:
            with self.subTest(name):
                outcome = self.grade("SELECT COUNT(*) FROM shown", sql, tables=("shown",))
                self.assertEqual(outcome.reason, "forbidden", outcome.detail)
                free = self.grade("SELECT COUNT(*) FROM shown", sql)
                self.assertIn(free.verdict, ("PASS", "FAIL"))  # it is the narrowing that refuses

    def test_a_query_that_cannot_be_planned(self):
        """What is wrong with it is said; it is not let through."""
        outcome = self.grade("SELECT 1", "SELECT nothing FROM shown", tables=("shown",))
        self.assertEqual(outcome.reason, "sql_error", outcome.detail)

    def test_allowed(self):
        for name, sql in self.ALLOWED:
            with self.subTest(name):
                outcome = self.grade("SELECT COUNT(*) FROM shown", sql, tables=("shown",))
                self.assertEqual(outcome.reason, "", outcome.detail)

    def test_a_view_may_be_all_there_is(self):
        tables = ("mine",)
        right = self.grade("SELECT SUM(n) FROM mine", "SELECT TOTAL(n) FROM mine", tables=tables)
        self.assertEqual(right.reason, "", right.detail)
        wrong = self.grade("SELECT SUM(n) FROM mine", "SELECT SUM(n) FROM shown", tables=tables)
        self.assertEqual(wrong.reason, "forbidden", wrong.detail)


class References(WithData):
    """A reference that does not run is never the tool's fault and never a PASS."""

    def test_broken_references(self):
        quick = scorer.Settings(timeout=1, reference_timeout=1)
        few = scorer.Settings(max_rows=2)
        for name, sql, settings in (
            ("no such table", "SELECT * FROM nowhere", scorer.STANDARD),
            ("syntax", "SELEC 1", scorer.STANDARD),
            ("forbidden", "DELETE FROM shown", scorer.STANDARD),
            ("two statements", "SELECT 1; SELECT 2", scorer.STANDARD),
            ("empty", "-- nothing", scorer.STANDARD),
            ("too slow", ENDLESS, quick),
            ("one long call", ONE_CALL, quick),
            ("too many rows", "SELECT n FROM shown", few),
        ):
            # What is wrong with a candidate's own text shows before anything runs.
            same = "SELECT 1" if name in ("two statements", "empty") else sql
            for candidate in (same, "SELECT 1"):
                with self.subTest(name, candidate=candidate):
                    outcome = self.grade(sql, candidate, settings)
                    self.assertEqual((outcome.verdict, outcome.reason), ("ERROR", "reference_error"))
                    self.assertTrue(outcome.detail[0].startswith("reference_error: "))

    def test_a_contract_that_does_not_fit(self):
        outcome = self.grade("SELECT n FROM shown", "SELECT 1", contract={"optional": "m"})
        self.assertEqual(outcome.reason, "reference_error", outcome.detail)


class Limits(WithData):
    def test_time(self):
        """Both ends of the limit: the progress handler's, and the parent's for one long call."""
        for name, sql in (("progress handler", ENDLESS), ("kill", ONE_CALL)):
            with self.subTest(name):
                begun = time.monotonic()
                outcome = self.grade("SELECT 1", sql, scorer.Settings(timeout=0.5))
                self.assertEqual(outcome.reason, "timeout", outcome.detail)
                self.assertLess(time.monotonic() - begun, 20)

    def test_five_times_a_slow_reference(self):
        """A candidate may take five times what its reference took, if that is more."""
        rows = ENDLESS.replace("MAX(x)", "x")
        slow = f"SELECT COUNT(*) FROM plain a, ({rows} LIMIT 200000) b"
        settings = scorer.Settings(timeout=0.01)
        outcome = self.grade(slow, f"{slow} -- same", settings)
        self.assertEqual(outcome.reason, "", outcome.detail)

    def test_rows_cells_and_text(self):
        for name, sql, settings in (
            ("rows", "SELECT n FROM shown", scorer.Settings(max_rows=2)),
            ("cell", "SELECT REPLACE(PRINTF('%.*c', 30000000, 'x'), 'x', 'xx')", scorer.STANDARD),
            ("text", "SELECT 1 -- " + "x" * scorer.SQL_LIMIT, scorer.STANDARD),
        ):
            with self.subTest(name):
                outcome = self.grade("SELECT 1", sql, settings)
                self.assertEqual(outcome.reason, "too_large", outcome.detail)

    def test_exactly_as_many_rows_as_allowed(self):
        settings = scorer.Settings(max_rows=3)
        outcome = self.grade("SELECT n FROM shown", "SELECT n FROM shown", settings)
        self.assertEqual(outcome.reason, "")


class Sorting(WithData):
    """Rows that tie on the reference's own sort keys may swap, shown or hidden."""

    ROWS = (
        ("hidden key", "SELECT n FROM shown ORDER BY tenant", "SELECT n FROM shown ORDER BY tenant, n DESC", ""),
        ("hidden key broken", "SELECT n FROM shown ORDER BY tenant", "SELECT n FROM shown ORDER BY n", "order"),
        ("by number", "SELECT tenant, n FROM shown ORDER BY 1", "SELECT tenant, n FROM shown ORDER BY 1, 2 DESC", ""),
        ("by alias", "SELECT tenant AS t, n FROM shown ORDER BY t", "SELECT tenant, n FROM shown ORDER BY 1, 2 DESC", ""),
        (
            "aggregate",
            "SELECT tenant FROM shown GROUP BY tenant ORDER BY SUM(n) DESC",
            "SELECT tenant FROM shown GROUP BY tenant ORDER BY tenant",
            "",
        ),
        ("distinct is strict", "SELECT DISTINCT n FROM shown ORDER BY n", "SELECT n FROM shown ORDER BY n DESC", "order"),
        ("comment", "SELECT n -- all\nFROM shown ORDER BY tenant -- ties", "SELECT n FROM shown ORDER BY 1 = 2", "order"),
    )

    def test_ties(self):
        for name, reference, candidate, reason in self.ROWS:
            with self.subTest(name):
                self.assertEqual(self.grade(reference, reference).reason, "")
                outcome = self.grade(reference, candidate)
                self.assertEqual(outcome.reason, reason, outcome.detail)

    def test_keys_that_cannot_be_read(self):
        """That is no reason to call a reference broken: sequence is then strict, and it is said."""
        reference = "SELECT tenant AS t, n FROM shown ORDER BY t + 0"  # t has no meaning as a column
        candidate = "SELECT tenant, n FROM shown ORDER BY tenant, n DESC"
        self.assertEqual(self.grade(reference, reference).reason, "")
        outcome = self.grade(reference, candidate)
        self.assertEqual(outcome.reason, "order", outcome.detail)
        self.assertIn("cannot be told", outcome.detail[0])

    def test_keys_whose_reading_took_the_worker_down(self):
        """The question is asked once more without them."""
        asked = question("SELECT n FROM shown ORDER BY tenant")
        job = self.desk._job(asked, "SELECT n FROM shown ORDER BY tenant, n DESC")
        for ties, reason in ((True, ""), (False, "order")):
            reply = self.desk.slots[0].ask({**job, "ties": ties})
            self.assertEqual(reply["reason"], reason)


class SecondTries(WithData):
    """A candidate whose wall time ran out first is tried once more, alone, after all others."""

    def run_with(self, replies):
        """Outcomes and the order of asking, with a worker that gives prepared replies."""
        asked = []

        class Prepared:
            sqlite_version = "3"
            deadline = float("inf")
            ended = False

            def __init__(self, *_):
                pass

            def ask(self, job):
                asked.append(job["candidate"])
                return {"phase": "candidate", "seconds": SECONDS, **replies[job["candidate"]].pop(0)}

            def kill(self):
                return 0

            close = kill

        SECONDS = {"reference": 0.1, "candidate": 0.1}
        original, scorer.Worker = scorer.Worker, Prepared
        try:
            with scorer.Scorer({"": [scorer.Database("", "", "")]}, scorer.STANDARD) as desk:
                pairs = [
                    (question("SELECT 1")._replace(id=f"Q{i:02}"), scorer.Answer(sql, 1))
                    for i, sql in enumerate(replies, 1)
                ]
                return [o.reason for o in desk.score(pairs)], asked
        finally:
            scorer.Worker = original

    def test_wall_time_first_is_asked_again_last(self):
        late = {"reason": "timeout", "note": "", "final": False, "spent": True}
        final = {**late, "final": True}
        good = {"reason": ""}
        reasons, asked = self.run_with(
            {"a": [dict(late), dict(good)], "b": [dict(final)], "c": [dict(late), dict(late)], "d": [good]}
        )
        self.assertEqual(asked, ["a", "b", "c", "d", "a", "c"])
        self.assertEqual(reasons, ["", "timeout", "timeout", ""])

    def test_processor_time_is_final(self):
        """An endless query that had the processor to itself is not tried twice."""
        begun = time.process_time()
        uri = scorer.file_uri(self.path) + "?mode=ro"
        engine = scorer.SqliteEngine(uri, (), 10, contextlib.nullcontext())
        with self.assertRaises(scorer.QueryError) as caught:
            engine.run(ENDLESS, 0.3)
        engine.close()
        self.assertEqual(caught.exception.reason, "timeout")
        self.assertEqual(caught.exception.final, time.process_time() - begun >= 0.27)


class Children(WithData):
    """Both kinds of child process serve alike, and end with their parent."""

    def job(self, sql):
        desk = scorer.Scorer(self.databases, scorer.STANDARD)
        return desk._job(question("SELECT SUM(n) FROM shown"), sql)

    @unittest.skipUnless(sys.platform == "linux", "stops a process and reads its processor time")
    def test_a_stopped_worker_is_asked_again(self):
        """Time that passed while the machine did something else is not the candidate's."""
        slot = scorer._Slot(scorer.MEMORY_LIMIT, False)
        job = {**self.job(ENDLESS), "timeout": 0.5}
        for _ in range(3):
            self.assertEqual(watched(slot, job)["reason"], "timeout")
        stop = threading.Timer(0.1, os.kill, (slot.worker.child.pid, signal.SIGSTOP))
        stop.start()
        reply = watched(slot, job)
        stop.join()
        self.assertEqual((reply["reason"], reply["final"]), ("timeout", False))
        self.assertEqual(reply["phase"], "candidate")

    def test_both_kinds(self):
        for fork in (False, True):
            worker = scorer.Worker(scorer.MEMORY_LIMIT, fork)
            with self.subTest(fork=fork):
                if fork and sys.platform == "linux" and threading.active_count() == 1:
                    self.assertIsInstance(worker.child, scorer._Forked)
                reasons = [
                    worker.ask(self.job(sql))["reason"]
                    for sql in ("SELECT 60", "SELECT 61", "DROP TABLE shown", "SELECT 60.0")
                ]
                self.assertEqual(reasons, ["", "rows", "forbidden", ""])
                self.assertEqual(worker.sqlite_version, sqlite3.sqlite_version)
                worker.close()

    def test_no_fork_beside_threads(self):
        stop = threading.Event()
        thread = threading.Thread(target=stop.wait)
        thread.start()
        try:
            worker = scorer.Worker(scorer.MEMORY_LIMIT, True)
            self.assertIsInstance(worker.child, scorer._Spawned)
            worker.close()
        finally:
            stop.set()
            thread.join()

    def test_closing_at_once(self):
        for fork in (False, True):
            with self.subTest(fork=fork):
                for _ in range(5):
                    scorer.Worker(scorer.MEMORY_LIMIT, fork).close()

    @unittest.skipUnless(hasattr(signal, "SIGKILL"), "needs POSIX signals")
    def test_a_killed_worker_costs_its_own_question(self):
        worker = scorer.Worker(scorer.MEMORY_LIMIT)
        worker.ask(self.job("SELECT 60"))
        os.kill(worker.child.pid, signal.SIGKILL)
        reply = worker.ask(self.job("SELECT 60"))
        self.assertEqual(reply["reason"], "crash")
        self.assertIn("signal 9", reply["note"])
        self.assertTrue(reply["spent"])

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_a_spawned_worker_dies_with_its_parent(self):
        code = """
            import sys, os
            sys.path.insert(0, sys.argv[1])
            import score_nl2sql as scorer
            worker = scorer.Worker(scorer.MEMORY_LIMIT)
            print(worker.child.pid, flush=True)
            question = scorer.Question("Q01", "?", "", "SELECT 1")
            database = scorer.Database(scorer.file_uri(sys.argv[2]) + "?mode=ro", "", "")
            desk = scorer.Scorer({"": [database]}, scorer.STANDARD)
            worker.ask(desk._job(question, sys.argv[3]))
        """
        for name, sql in (("endless", ENDLESS), ("one call", ONE_CALL)):
            with self.subTest(name):
                parent = subprocess.Popen(
                    [sys.executable, "-c", textwrap.dedent(code), ROOT, self.path, sql],
                    stdout=subprocess.PIPE,
                )
                with parent:
                    worker = int(parent.stdout.readline())
                    time.sleep(0.5)
                    self.assertTrue(alive(worker))
                    parent.kill()
                end = time.monotonic() + 5
                while alive(worker) and time.monotonic() < end:
                    time.sleep(0.02)
                self.assertFalse(alive(worker))


def watched(slot, job):
    """The reply to one job, as a run asks for it: with somebody who looks at the clock."""
    work = scorer._Queue({("", ""): job})
    work.run([slot])
    return work.replies["", ""]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def listening():
    """What a shell starts in the background is deaf to interrupts; what is tested must hear."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@unittest.skipUnless(os.name == "posix", "needs POSIX signals")
class AskedToEnd(unittest.TestCase):
    def test_the_private_copy_goes_too(self):
        """A WAL database in use is read from a copy, which no way of ending leaves behind."""
        with tempfile.TemporaryDirectory() as folder:
            path, answers, private = (os.path.join(folder, n) for n in ("w.db", "a.sql", "tmp"))
            os.mkdir(private)
            with open(answers, "w", encoding="utf-8") as file:
                file.write(f"-- Q01: x\n{ENDLESS}\n")
            writer = sqlite3.connect(path)
            writer.executescript("PRAGMA journal_mode = WAL; CREATE TABLE customers_v2 (is_deleted)")
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                with self.subTest(number.name):
                    child = subprocess.Popen(
                        [sys.executable, os.path.join(ROOT, "score_nl2sql.py")]
                        + ["--answers", answers, "--db", path, "--only", "Q01"],
                        env={**os.environ, "TMPDIR": private},
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        preexec_fn=listening,
                    )
                    self.addCleanup(child.kill)  # where a check fails it would live on
                    end = time.monotonic() + 10
                    while not os.listdir(private) and time.monotonic() < end:
                        time.sleep(0.02)
                    self.assertTrue(os.listdir(private))
                    time.sleep(0.3)
                    child.send_signal(number)
                    wanted = 130 if number == signal.SIGINT else -number
                    self.assertEqual(child.wait(10), wanted)
                    self.assertEqual(os.listdir(private), [])
            writer.close()


class Traps(WithData):
    def test_names_and_columns(self):
        """A trap is named by what it returns; the contract speaks of the reference's column names."""
        traps = (
            scorer.Trap("all", "counts all", "SELECT COUNT(*), SUM(n) FROM shown"),
            scorer.Trap("broken", "does not run", "SELECT * FROM nowhere"),
            scorer.Trap("endless", "never ends", "SELECT 1"),
        )
        reference = "SELECT COUNT(*) AS k, SUM(n) AS total FROM mine"
        contract = {"optional": "total", "order": "ignore"}
        for sql, named in (
            ("SELECT 3", ("all",)),
            ("SELECT 60, 3", ()),
            ("SELECT 3, 60", ("all",)),
            ("SELECT 1", ("endless",)),
        ):
            with self.subTest(sql):
                outcome = self.grade(reference, sql, contract=contract, traps=traps)
                self.assertEqual(outcome.verdict, "FAIL")
                self.assertEqual(outcome.traps, named)

    def test_a_trap_that_kills_the_worker(self):
        traps = (scorer.Trap("bomb", "takes the worker down", ONE_CALL),)
        settings = scorer.Settings(timeout=0.5)
        outcome = self.grade("SELECT 1", "SELECT 2", settings, traps=traps)
        self.assertEqual((outcome.reason, outcome.traps), ("rows", ()))
        self.assertIn("1 that could not be tried", outcome.detail[1])

    def test_traps_together_have_a_limit(self):
        """On a large database a trap query may be slow; the verdict does not wait for all of them."""
        traps = tuple(scorer.Trap(f"slow {i}", "never ends", ENDLESS) for i in range(5))
        settings = scorer.Settings(timeout=0.3)
        begun = time.monotonic()
        outcome = self.grade("SELECT 1", "SELECT 2", settings, traps=traps)
        self.assertEqual((outcome.reason, outcome.traps), ("rows", ()))
        self.assertIn("5 that could not be tried", outcome.detail[1])
        self.assertLess(time.monotonic() - begun, 20)


if __name__ == "__main__":
    unittest.main()
