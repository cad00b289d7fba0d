"""The command line on question sets: their data, dumps, test suites, zips, frozen rows, selection.

As in test_cli.py `main` is called in this process where a process of its own is not the point.
"""

import contextlib
import csv
import functools
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
import zlib
from pathlib import Path
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "tests")]
import calling  # noqa: E402
from calling import Ended, environment, folder_of_its_own, last_line, workers_kept  # noqa: E402

import score_nl2sql as scorer  # noqa: E402

SCORER = os.path.join(ROOT, "score_nl2sql.py")
SAMPLES = os.path.join(ROOT, "tests", "samples")
POSIX = os.name == "posix"
LINUX = sys.platform.startswith("linux")
VERDICT = re.compile(r"^  (PASS |FAIL |ERROR|SKIP ) (\S+)(?:  .*)?$")
FOLDER = "nl2sql-run-"  # of private folders
FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ENDLESS = f"{FOREVER} SELECT COUNT(*) FROM n"
PASSWORD = "open sesame 7"
SERIES = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"


def call(*argv, **options):
    """The command in this process; answers here are often right by luck, so without variants."""
    alone = ("--variants", "0") if "--answers" in argv and "--variants" not in argv else ()
    return calling.call(*argv, *alone, **options)


def start(*argv, env=None, **options):
    """The command in a process of its own, in a group of its own, that hears Ctrl-C."""
    words = [sys.executable, SCORER, *map(str, argv)]
    if POSIX:
        options["preexec_fn"] = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        options["start_new_session"] = True
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=environment(**(env or {})), **{**pipes, **options})


def finished(process, timeout=20):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Ended(process.returncode, out.decode(), err.decode())


def shown(report):
    """Verdict and the lines below it by id."""
    found, at = {}, None
    for line in report.splitlines():
        match = VERDICT.match(line)
        if match:
            at = match[2]
            found[at] = (match[1].strip(), [])
        elif line.startswith(" " * 10) and at:
            found[at][1].append(line.strip())
        else:
            at = None
    return found


def warnings_of(report):
    return [line for line in report.splitlines() if line.startswith("warning: ")]


class Scratch(unittest.TestCase):
    """An empty folder as the current one for each test; private folders are made in a second one."""

    @classmethod
    def setUpClass(cls):
        cls.base = folder_of_its_own(cls, "nl2sql-sets-")
        cls.temporary = cls.base / "temporary"
        cls.temporary.mkdir()
        for patch in (
            mock.patch.dict(os.environ, {"TMPDIR": str(cls.temporary)}),
            mock.patch.object(tempfile, "tempdir", None),
        ):
            patch.start()
            cls.addClassCleanup(patch.stop)
        workers_kept(cls)

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(dir=str(self.base)))
        os.chdir(self.folder)

    def tearDown(self):
        self.assertEqual(os.listdir(self.temporary), [], "left in the temporary folder")

    def put(self, name, content=""):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return name

    def database(self, name, *values, column="a", table="t"):
        """A database with one table of one column."""
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(name)) as connection, connection:
            connection.execute(f"CREATE TABLE {table} ({column})")
            connection.executemany(f"INSERT INTO {table} VALUES (?)", [(value,) for value in values])
        return name

    def wal(self, name, *values, state="closed"):
        """A database in WAL mode: closed, with a -wal that was left, or open in another process now."""
        self.database(name)
        insert = f"INSERT INTO t VALUES {', '.join(f'({value!r})' for value in values)}"
        code = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA journal_mode = WAL').fetchall()"
        code += "; c.execute(sys.argv[2]); c.commit(); print(flush=True); sys.stdin.read(); os._exit(0) if sys.argv[3] == 'left' else c.close()"
        words = [sys.executable, "-c", code, name, insert, state]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        if state == "open":
            self.addCleanup(process.communicate)
        else:
            process.communicate()
        return name

    def questions(self, *questions, name="questions.json"):
        """Questions Q1 .. of what is not the usual about each."""
        return self.put(name, json.dumps([{"id": f"Q{i}", "question": f"text {i}?", **q} for i, q in enumerate(questions, 1)]))

    def answers(self, *sqls, name="answers.jsonl"):
        lines = [json.dumps({"id": f"Q{i}", "sql": sql}) for i, sql in enumerate(sqls, 1)]
        return self.put(name, "\n".join(lines) + "\n")

    def score(self, questions, sqls, *argv, **options):
        argv = ("--questions", self.questions(*questions), "--answers", self.answers(*sqls), *argv)
        return call(*argv, **options)

    def result_of(self, sql, *argv):
        """What --show-reference says of one query on the database X."""
        ended = call("--questions", self.questions({"sql": sql, "db_id": "X"}), "--show-reference", *argv)
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        return ended.out.partition("-> ")[2]

    def assertRefused(self, ended, *words, most=1000):
        self.assertEqual(ended.code, 2, ended)
        self.assertEqual(ended.out, "")
        self.assertNotIn("Traceback", ended.err)
        self.assertEqual(len(ended.err.splitlines()), 1, ended.err)
        self.assertTrue(ended.err.startswith("score_nl2sql.py: "), ended.err)
        self.assertLess(len(ended.err), most)
        for word in words:
            self.assertIn(word.casefold(), ended.err.casefold())

    def assertVerdicts(self, ended, *verdicts):
        """Of Q1, Q2 and so on; `PASS vacuous` wants the reason too."""
        self.assertIn(ended.code, (0, 1), ended)
        found = shown(ended.out)
        reasons = {id: lines[0].partition(":")[0] if lines else "" for id, (_, lines) in found.items()}
        reasons = {id: "" if reason == "accepted" else reason for id, reason in reasons.items()}
        self.assertEqual([f"{v} {reasons[id]}".strip() for id, (v, _) in found.items()], list(verdicts), ended.out)

    def assertScore(self, ended, score, code=0):
        self.assertEqual(ended.code, code, ended)
        self.assertEqual(last_line(ended.out), f"execution accuracy: {score}", ended)


def contents(folder):
    """Names and bytes of all that is in a folder."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
        found[str(path.relative_to(folder))] = kind, hashlib.sha256(path.read_bytes()).hexdigest() if kind == "file" else ""
    return found


# ---- data ----------------------------------------------------------------------------------------

PLACES = ("X/X.sqlite", "X/X.sqlite3", "X/X.db", "X.sqlite", "X.sqlite3", "X.db", "X/X.sql", "X/schema.sql", "X.sql")


class Databases(Scratch):
    def place(self, name):
        """A database or a dump whose only value is its own name."""
        path = f"root/{name}"
        if name.endswith(".sql"):
            return self.put(path, f"CREATE TABLE t (a);\nINSERT INTO t VALUES ('{name}');\n")
        return self.database(path, name)

    def test_each_layout(self):
        for name in PLACES:
            with self.subTest(name):
                shutil.rmtree("root", True)
                self.place(name)
                self.assertIn(f"('{name}')", self.result_of("SELECT a FROM t", "--db-root", "root"))

    def test_precedence_is_the_documented_order(self):
        for name in PLACES:
            self.place(name)
        for name in PLACES:
            with self.subTest(name):
                self.assertIn(f"('{name}')", self.result_of("SELECT a FROM t", "--db-root", "root"))
                os.unlink(f"root/{name}")

    def test_the_only_database_of_its_folder_may_have_another_name(self):
        self.place("X/data.sqlite")
        self.assertIn("('X/data.sqlite')", self.result_of("SELECT a FROM t", "--db-root", "root"))
        self.place("X/more.sqlite")
        questions = self.questions({"sql": "SELECT a FROM t", "db_id": "X"})
        self.assertRefused(call("--questions", questions, "--show-reference", "--db-root", "root"), "X")

    def test_a_suite_database_does_not_take_the_place_of_the_database(self):
        """X.sqlite or a dump is the database of X; another *.sqlite in folder X is its test suite."""
        for name in ("X.sqlite", "X.db", "X/X.sql", "X/schema.sql", "X.sql"):
            with self.subTest(name):
                shutil.rmtree("root", True)
                self.place(name)
                self.place("X/other1.sqlite")
                self.assertIn(f"('{name}')", self.result_of("SELECT a FROM t", "--db-root", "root"))

    def test_a_directory_is_no_database(self):
        for directory, file in (("X/X.sqlite", "X/X.db"), ("X/X.sqlite", "X/X.sql"), ("X.sqlite", "X.db"), ("X/y.sqlite", "X/X.sqlite")):
            with self.subTest(directory):
                shutil.rmtree("root", True)
                self.place(file)
                os.makedirs(f"root/{directory}", exist_ok=True)
                argv = ("--db-root", "root", "--suite")
                ended = self.score([{"sql": "SELECT a FROM t", "db_id": "X"}], ["SELECT a FROM t"], *argv)
                self.assertScore(ended, "1/1 (100%)")
        shutil.rmtree("root")
        os.makedirs("root/X/X.sqlite")
        self.assertRefused(call("--questions", "questions.json", "--show-reference", "--db-root", "root"), "X")

    def test_ids_that_are_no_names_of_files(self):
        self.database("secret.sqlite", 1)
        self.database("root/a/b.sqlite", 1)
        self.database("root/a/b/b.sqlite", 1)
        self.database("root/root.sqlite", 1)
        outside = self.database("outside/outside.sqlite", 1)
        absolute = os.path.abspath(outside)[: -len(".sqlite")]
        for id in ("..", ".", "../secret", "a/b", "a\\b", "/", absolute, "C:x", "C:\\x", "~", "*", "X\0", "\0", "x" * 300, "x" * 5000, "\ud800", "\udcff"):
            with self.subTest(id=id[:20]):
                self.questions({"sql": "SELECT a FROM t", "db_id": id})
                for mode in (("--show-reference",), ("--list",), ("--answers", self.answers("SELECT 1"))):
                    self.assertRefused(call("--questions", "questions.json", "--db-root", "root", *mode), "root")

    @unittest.skipUnless(POSIX, "Windows has no such names")
    def test_ids_of_any_letters(self):
        for id in ("caf\u00e9 \u2603", "a.b", "-x", "X; DROP TABLE t", "a%20b?c#d", "'q'"):
            with self.subTest(id):
                for path in (f"root/{id}/{id}.sqlite", f"root/{id}.sql"):
                    shutil.rmtree("root", True)
                    if path.endswith(".sql"):
                        self.put(path, "CREATE TABLE t (a); INSERT INTO t VALUES (1);")
                    else:
                        self.database(path, 1)
                    ended = self.score([{"sql": "SELECT a FROM t", "db_id": id}], ["SELECT 1"], "--db-root", "root")
                    self.assertScore(ended, "1/1 (100%)")

    def test_an_empty_id_is_none(self):
        self.database("root/X.sqlite", 1)
        for id in ("", "  ", None):
            self.questions({"sql": "SELECT a FROM t", "db_id": id}, {"sql": "SELECT a FROM t", "db_id": "X"})
            self.assertRefused(call("--questions", "questions.json", "--list", "--db-root", "root"), "Q1", "--db")

    @unittest.skipUnless(POSIX, "links need rights on Windows")
    def test_links(self):
        self.database("elsewhere/data.sqlite", "linked")
        os.mkdir("root")
        for name in ("X", "X/X.sqlite", "X.sqlite", "X/X.sql"):
            with self.subTest(name):
                shutil.rmtree("root")
                os.makedirs("root/X" if "/" in name else "root")
                if name == "X":
                    os.symlink("../elsewhere", "root/X")
                elif name.endswith(".sql"):
                    self.put("dump.sql", "CREATE TABLE t (a); INSERT INTO t VALUES ('linked');")
                    os.symlink("../../dump.sql", "root/X/X.sql")
                else:
                    os.symlink(os.path.abspath("elsewhere/data.sqlite"), f"root/{name}")
                self.assertIn("('linked')", self.result_of("SELECT a FROM t", "--db-root", "root"))
        for target in ("nowhere", "X.sqlite"):  # dangling, and a loop
            with self.subTest(target):
                shutil.rmtree("root")
                os.mkdir("root")
                os.symlink(target, "root/X.sqlite")
                self.assertRefused(call("--questions", "questions.json", "--show-reference", "--db-root", "root"), "X")

    def test_missing_databases_are_named_on_one_line(self):
        self.database("root/A/A.sqlite", 1)
        self.questions(*({"sql": "SELECT 1", "db_id": id} for id in ("A", "B", "C", "B")))
        for mode in (("--show-reference",), ("--list",), ("--answers", self.answers("SELECT 1"))):
            ended = call("--questions", "questions.json", "--db-root", "root", *mode)
            self.assertRefused(ended, "root", "B", "C", "Q2", "Q3", "Q4")
            self.assertNotIn(" A ", ended.err)
        self.assertScore(
            call("--questions", "questions.json", "--db-root", "root", "--answers", "answers.jsonl", "--only", "Q1"), "1/1 (100%)  [1 of 4 questions]"
        )
        self.questions(*({"sql": "SELECT 1", "db_id": f"missing{i}"} for i in range(500)))
        self.assertRefused(call("--questions", "questions.json", "--db-root", "root", "--list"), "missing0", "more")

    def test_which_option_is_missing_or_too_many(self):
        self.database("x.sqlite", 1)
        one, two = {"sql": "SELECT a FROM t", "db_id": "X"}, {"sql": "SELECT a FROM t", "db_id": "Y"}
        self.questions(one, two, name="two.json")
        self.questions(one, name="one.json")
        self.answers("SELECT 1", "SELECT 1")
        self.put("one.txt", "SELECT 1\n")
        rows = [
            ("ids and no option", "two.json", (), ("X", "Y", "--db-root")),
            ("one id and no option", "one.json", (), ("X", "--db")),
            ("one file for two ids", "two.json", ("--db", "x.sqlite"), ("X", "Y", "--db-root")),
            ("both options", "one.json", ("--db", "x.sqlite", "--db-root", "."), ("--db", "--db-root")),
            ("no such folder", "one.json", ("--db-root", "nowhere"), ("nowhere",)),
            ("a file as the folder", "one.json", ("--db-root", "x.sqlite"), ("x.sqlite",)),
            ("no such file", "one.json", ("--db", "nowhere.db"), ("nowhere.db",)),
            ("a folder as the file", "one.json", ("--db", "."), (".",)),
            ("suite and one file", "one.json", ("--db", "x.sqlite", "--suite"), ("--suite", "--db-root")),
        ]
        for name, questions, argv, words in rows:
            with self.subTest(name):
                self.assertRefused(call("--questions", questions, "--answers", "one.txt", *argv), *words)
        self.assertScore(call("--questions", "one.json", "--answers", "one.txt", "--db", "x.sqlite"), "1/1 (100%)")
        part = call("--questions", "two.json", "--answers", "answers.jsonl", "--db", "x.sqlite", "--limit", "1")
        self.assertScore(part, "1/1 (100%)  [1 of 2 questions]")
        self.assertRefused(call("--answers", "answers.jsonl", "--db-root", "."), "--db-root", "--questions")

    def test_files_that_are_no_database(self):
        questions = self.questions({"sql": "SELECT a FROM t", "db_id": "X"})
        self.answers("SELECT a FROM t")
        good = Path(self.database("good.sqlite", *range(3000))).read_bytes()
        for name, data in (("empty", b""), ("text", b"CREATE TABLE t (a);\n"), ("magic", good[:16] + b"\xff" * 200), ("cut", good[:5000])):
            for place in ("root/X/X.sqlite", "root/X.db"):
                with self.subTest(name, place=place):
                    shutil.rmtree("root", True)
                    self.put(place, data)
                    ended = call("--questions", questions, "--answers", "answers.jsonl", "--db-root", "root")
                    self.assertEqual(ended.code, 2, ended)
                    self.assertEqual(len(ended.err.splitlines()), 1, ended.err)
                    self.assertNotIn("default", ended.err)
                    self.assertNotIn("Traceback", ended.err)
                    if name in ("empty", "text"):
                        self.assertRefused(ended, place)

    @unittest.skipUnless(POSIX and os.getuid() != 0, "root may read all")
    def test_files_that_may_not_be_read(self):
        questions = self.questions({"sql": "SELECT a FROM t", "db_id": "X"})
        for place in ("root/X/X.sqlite", "root/X.sql"):
            with self.subTest(place):
                shutil.rmtree("root", True)
                self.put(place, "CREATE TABLE t (a);")
                os.chmod(place, 0)
                self.assertRefused(call("--questions", questions, "--show-reference", "--db-root", "root"), "X", "permission")

    @unittest.skipUnless(POSIX, "FIFOs")
    def test_a_fifo_is_no_database_and_nobody_waits_for_it(self):
        questions = self.questions({"sql": "SELECT a FROM t", "db_id": "X"})
        os.makedirs("root/X")
        os.mkfifo("root/X/X.sqlite")
        with start("--questions", questions, "--show-reference", "--db-root", "root") as process:
            try:
                ended = finished(process, 3)
            except subprocess.TimeoutExpired:
                self.fail("it waits for a FIFO")
        self.assertRefused(ended, "X")

    def test_databases_stay_as_they_are(self):
        self.database("root/plain/plain.sqlite", 1)
        self.database("root/plain/other.sqlite", 1)
        self.wal("root/closed/closed.sqlite", 1)
        self.wal("root/left.sqlite", 1, state="left")
        self.wal("root/open/open.db", 1, state="open")
        self.wal("root/plain/wal.sqlite", 1, state="left")
        self.put("root/dump/schema.sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1);")
        ids = ("plain", "closed", "left", "open", "dump")
        questions = self.questions(*({"sql": "SELECT a FROM t", "db_id": id} for id in ids))
        self.answers("SELECT 1", "SELECT 1", "SELECT a FROM t", "SELECT 1", "DELETE FROM t")
        argv = ("--questions", questions, "--db-root", "root")
        before = contents("root")
        self.assertTrue(os.path.getsize("root/left.sqlite-wal") and os.path.getsize("root/open/open.db-wal"))
        for mode in (("--answers", "answers.jsonl", "--suite"), ("--show-reference",), ("--list",)):
            with self.subTest(mode[0]):
                ended = call(*argv, *mode)
                self.assertEqual(ended.code, 0, ended)
                self.assertEqual(contents("root"), before)
                if mode[0] == "--answers":
                    self.assertVerdicts(ended, "PASS", "PASS", "PASS", "PASS", "ERROR forbidden")
        self.assertEqual(ended.out.count("\nplain  "), 1, ended.out)
        sizes = {line.split()[0]: line.split()[1:] for line in ended.out.splitlines() if line.split()[:1] and line.split()[0] in ids}
        self.assertEqual(sizes, {id: ["1", "1", "0"] for id in ids})
        self.assertEqual(contents("root"), before)


# ---- dumps ---------------------------------------------------------------------------------------

T = "CREATE TABLE t (a, b);\n"
TRIGGER = """
PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE t (a, b); -- a comment; with a semicolon, and 'a quote
CREATE TABLE log (entry TEXT DEFAULT ';');
/* CREATE TRIGGER x; BEGIN */
CREATE TRIGGER kept AFTER INSERT ON t WHEN NEW.a > 0 BEGIN
  INSERT INTO log VALUES ('one; ' || CASE WHEN NEW.a = 1 THEN 'END;' ELSE '-- two' END);
  UPDATE t SET b = 'seen' WHERE a = NEW.a;
END;
INSERT INTO t VALUES (1, 'x');
INSERT INTO t VALUES (2, 'it''s; /* not */ a comment');
COMMIT;
"""


class Dumps(Scratch):
    def load(self, text, *argv, sql="SELECT a FROM t"):
        """A run on the dump X.sql."""
        self.put("root/X.sql", text)
        questions = self.questions({"sql": sql, "db_id": "X"})
        return call("--questions", questions, "--show-reference", "--db-root", "root", *argv)

    def test_what_loads(self):
        e = "\u00e9"
        numbered = "CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b);\nINSERT INTO t VALUES (7, 8);\n"
        numbered += "DELETE FROM sqlite_sequence;\nINSERT INTO sqlite_sequence VALUES ('t', 9);\n"
        rows = [
            ("a trigger", TRIGGER, "SELECT group_concat(entry, '|') FROM log", "('one; END;|one; -- two')"),
            ("what the trigger did", TRIGGER, "SELECT COUNT(*) FROM t WHERE b = 'seen'", "(2)"),
            ("no semicolon at the end", T + "INSERT INTO t VALUES (7, 8)", "SELECT a FROM t", "(7)"),
            ("rolled back", T + "BEGIN; INSERT INTO t VALUES (7, 8); ROLLBACK;", "SELECT COUNT(*) FROM t", "(0)"),
            ("empty statements", ";;\n" + T + ";; -- x;\n;INSERT INTO t VALUES (7, 8);;", "SELECT a FROM t", "(7)"),
            ("UTF-8 with a mark", b"\xef\xbb\xbf" + (T + f"INSERT INTO t VALUES ('{e}', 1);").encode(), "SELECT a FROM t", f"('{e}')"),
            ("UTF-16", (T + f"INSERT INTO t VALUES ('{e}', 1);").encode("utf-16"), "SELECT a FROM t", f"('{e}')"),
            ("Latin-1", (T + f"INSERT INTO t VALUES ('{e}', 1);").encode("latin-1"), "SELECT a FROM t", f"('{e}')"),
            ("CRLF", TRIGGER.replace("\n", "\r\n"), "SELECT COUNT(*) FROM log", "(2)"),
            (
                "views, indexes, changes",
                T + "CREATE VIEW v AS SELECT a FROM t; CREATE UNIQUE INDEX i ON t (a); ALTER TABLE t ADD c; INSERT INTO t VALUES (7, 8, 9); ANALYZE; REINDEX;",
                "SELECT a FROM v",
                "(7)",
            ),
            ("other quotes", 'CREATE TABLE "t" (`a`, [b;]); INSERT INTO "t" VALUES (7, \';\');', "SELECT a FROM t", "(7)"),
            (
                "PRAGMAs do nothing",
                "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA user_version = 3;\n" + T + "INSERT INTO t VALUES (7, 8);",
                "SELECT a FROM t",
                "(7)",
            ),
            (
                "keys that refer to nothing yet",
                "CREATE TABLE t (a REFERENCES u (a), b); INSERT INTO t VALUES (7, 8); CREATE TABLE u (a PRIMARY KEY);",
                "SELECT a FROM t",
                "(7)",
            ),
            ("numbers of its own", numbered, "SELECT a FROM t", "(7)"),
        ]
        for name, text, sql, want in rows:
            with self.subTest(name):
                ended = self.load(text, sql=sql)
                self.assertEqual((ended.code, ended.err), (0, ""), ended)
                self.assertIn(want, ended.out)

    def test_a_transaction_that_stays_open(self):
        """Such a dump may be a cut one: its data are there, or it is refused by name."""
        for begin in ("BEGIN;\n", "SAVEPOINT s;\n"):
            with self.subTest(begin):
                ended = self.load(begin + T + "INSERT INTO t VALUES (7, 8);\n")
                if ended.code:
                    self.assertRefused(ended, "root/X.sql")
                    self.assertNotIn("died", ended.err)
                else:
                    self.assertIn("(7)", ended.out)

    def test_the_sample_dumps_score(self):
        root = ("--db-root", os.path.join(SAMPLES, "database"))
        before = contents(SAMPLES)
        ended = call("--questions", f"{SAMPLES}/questions.sql", "--answers", f"{SAMPLES}/answers.sql", *root)
        self.assertScore(ended, "4/5 (80%)")
        self.assertEqual(contents(SAMPLES), before)

    def test_what_does_not_load_names_file_and_line(self):
        mysql = "-- MySQL dump 10.13\n/*!40101 SET NAMES utf8 */;\nDROP TABLE IF EXISTS `t`;\n"
        mysql += "CREATE TABLE `t` (\n  `a` int(11) NOT NULL AUTO_INCREMENT\n) ENGINE=InnoDB;\n"
        rows = [
            ("MySQL", mysql, 4),
            ("MySQL's quotes", T + "INSERT INTO t VALUES ('it\\'s', 1);\nUNLOCK TABLES;\n", 2),
            ("MySQL's locks", T + "LOCK TABLES `t` WRITE;\n", 2),
            ("PostgreSQL", "--\n-- PostgreSQL database dump\n--\n\nSET statement_timeout = 0;\nCREATE TABLE t (a integer);\n", 5),
            ("PostgreSQL's COPY", "CREATE TABLE t (a integer);\nCOPY t (a) FROM stdin;\n1\n2\n\\.\n", 2),
            ("a command of the shell", ".open '/tmp/x'\n" + T, 1),
            ("an open string", T + "\nINSERT INTO t VALUES ('abc, 1);\nINSERT INTO t VALUES (2, 2);\n", 3),
            ("half a statement", T + "INSERT INTO t VALUES (1, 2);\nINSERT INTO t VALUES (3,\n", 3),
            ("a key twice", "CREATE TABLE t (a PRIMARY KEY);\nINSERT INTO t VALUES (1);\nINSERT INTO t VALUES (1);\n", 3),
            ("a NUL", T + "INSERT INTO t VALUES ('a\0b', 1);\n", 2),
            ("two transactions", "BEGIN;\nBEGIN;\n", 2),
        ]
        for name, text, line in rows:
            with self.subTest(name):
                self.assertRefused(self.load(text), "root/X.sql", f"line {line}:")

    def test_half_a_trigger_is_not_dropped(self):
        """Nor may it swallow what follows it without a word."""
        begun = "CREATE TRIGGER g AFTER INSERT ON t BEGIN\n  DELETE FROM t WHERE a = 0;\n"
        for name, text in (
            ("at the end", T + begun),
            ("before data", T + begun + "INSERT INTO t VALUES (1, 2);\n"),
            ("its first line", T + "CREATE TRIGGER g AFTER INSERT ON t BEGIN"),
        ):
            with self.subTest(name):
                self.assertRefused(self.load(text, sql="SELECT 1"), "root/X.sql", "line 2")

    def test_a_dump_of_nothing_is_told(self):
        for name, text in (("empty", ""), ("comments", "-- nothing\n/* here */\n;;\n")):
            with self.subTest(name):
                self.assertRefused(self.load(text, sql="SELECT 1"), "root/X.sql")

    def test_what_is_hostile_is_refused_and_reaches_no_file(self):
        before = sorted(os.listdir(self.folder))
        here = self.folder
        rows = [
            ("ATTACH", T + f"ATTACH '{here}/evil.db' AS e;\nCREATE TABLE e.x (a);", 2),
            ("ATTACH in memory", T + "ATTACH ':memory:' AS e;", 2),
            ("ATTACH by another name", T + f"ATTACH DATABASE 'file:{here}/evil.db?mode=rwc' AS e;", 2),
            ("VACUUM INTO", T + f"INSERT INTO t VALUES (1, 2);\nVACUUM INTO '{here}/evil.db';", 3),
            ("load_extension", T + "SELECT load_extension('evil');", 2),
            ("load_extension in a view", T + "CREATE VIEW v AS SELECT load_extension('evil') AS a;\nSELECT a FROM v;", 3),
            (
                "load_extension in a trigger",
                T + "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT load_extension('evil'); END;\nINSERT INTO t VALUES (1, 2);",
                3,
            ),
            ("writable schema", T + "PRAGMA writable_schema = ON;\nUPDATE sqlite_master SET sql = 'CREATE TABLE t (a, b, c)';", 3),
            ("a row of the schema", T + "PRAGMA writable_schema = 1;\nINSERT INTO sqlite_master VALUES ('table', 'z', 'z', 2, 'CREATE TABLE z (a)');", 3),
            ("2 GB", T + "INSERT INTO t VALUES (zeroblob(2000000000), 1);", 2),
            ("writefile", T + f"SELECT writefile('{here}/evil.db', 'x');", 2),
            ("readfile", T + "INSERT INTO t VALUES (readfile('/etc/passwd'), 1);", 2),
            ("fts3_tokenizer", T + "SELECT fts3_tokenizer('simple', x'00');", 2),
            ("a virtual table", "CREATE VIRTUAL TABLE t USING fts5 (a);", 1),
        ]
        for name, text, line in rows:
            with self.subTest(name):
                ended = self.load(text)
                # A trigger or a view may be refused where it is made or where it is used.
                self.assertRefused(ended, "root/X.sql")
                self.assertRegex(ended.err, rf"line ({line}|{max(1, line - 1)}):")
                self.assertEqual(sorted(os.listdir(self.folder)), sorted({*before, "questions.json", "root"}))

    def test_what_asks_for_too_much_ends(self):
        doubled = "WITH RECURSIVE n(i, s) AS (SELECT 1, 'abcdefgh' UNION ALL SELECT i + 1, s || s FROM n WHERE i < 60) SELECT s, i FROM n;"
        rows = [
            ("endless rows", T + f"INSERT INTO t {FOREVER} SELECT i, i FROM n;", ("1",), "not done after 1 s"),
            ("a text that doubles", T + f"INSERT INTO t {doubled}", ("30",), ""),
        ]
        for name, text, limit, words in rows:
            with self.subTest(name):
                begun = time.monotonic()
                self.assertRefused(self.load(text, "--reference-timeout", *limit), "root/X.sql", words)
                self.assertLess(time.monotonic() - begun, 20)

    def test_a_large_one_stays_in_the_private_copy(self):
        text = T + f"INSERT INTO t {SERIES.format(60_000)} SELECT i, printf('%1000d', i) FROM n;"
        ended = self.load(text, sql="SELECT COUNT(*) FROM t")
        self.assertIn("(60000)", ended.out)
        self.assertEqual(sorted(os.listdir(self.folder)), ["questions.json", "root"])

    def test_the_copy_is_private_and_read_only(self):
        seen = []

        def look(found, *_):
            for folder in Path(self.temporary).iterdir():
                seen.extend((path.stat().st_mode & 0o777) for path in (folder, *folder.rglob("*.sqlite")))
            return "0" * 64

        with mock.patch.object(scorer, "databases_digest", look):
            self.put("root/X.sql", T)
            ended = self.score([{"sql": "SELECT 1", "db_id": "X"}], ["SELECT 1"], "--db-root", "root")
        self.assertScore(ended, "1/1 (100%)")
        if POSIX:
            self.assertEqual(seen, [0o700, 0o400])

    def test_candidates_cannot_write_into_it(self):
        self.put("root/X.sql", T + "INSERT INTO t VALUES (1, 2);")
        questions = [{"sql": "SELECT COUNT(*) FROM t", "db_id": "X"}] * 3
        ended = self.score(questions, ["DELETE FROM t", "SELECT 1", "INSERT INTO t VALUES (3, 4) RETURNING 1"], "--db-root", "root", "--jobs", "1")
        self.assertVerdicts(ended, "ERROR forbidden", "PASS", "ERROR forbidden")

    def test_a_dump_as_the_only_database(self):
        self.put("x.sql", TRIGGER)
        self.assertScore(self.score([{"sql": "SELECT a FROM t"}], ["SELECT 2 UNION SELECT 1"], "--db", "x.sql"), "1/1 (100%)")

    def test_one_dump_for_many_questions_and_several_dumps(self):
        for id in ("X", "Y", "Z"):
            self.put(f"root/{id}.sql", f"CREATE TABLE t (a); INSERT INTO t VALUES ('{id}');")
        questions = [{"sql": "SELECT a FROM t", "db_id": id} for id in "XYZXY"]
        ended = self.score(questions, [f"SELECT '{id}'" for id in "XYZXY"], "--db-root", "root")
        self.assertScore(ended, "5/5 (100%)")


class PrivateFolders(Scratch):
    """What is left behind, and what the next start removes."""

    def setUp(self):
        super().setUp()
        self.tmp = self.folder / "tmp"
        self.tmp.mkdir()
        self.env = {"TMPDIR": str(self.tmp)}

    def begin(self, dump, sql="SELECT 1"):
        self.put("root/X.sql", dump)
        questions = self.questions({"sql": "SELECT 1", "db_id": "X"})
        argv = ("--questions", questions, "--answers", self.answers(sql), "--db-root", "root")
        return start(*argv, "--timeout", "100", "--reference-timeout", "100", env=self.env)

    def wait(self, process, ready):
        """Until `ready` says yes of the private folder; that folder."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and process.poll() is None:
            for folder in self.tmp.glob(FOLDER + "*"):
                if ready(folder):
                    time.sleep(0.2)
                    return folder
            time.sleep(0.02)
        process.kill()
        return self.fail(f"no private folder: {process.communicate()}")

    def loading(self, folder):
        return any(path.stat().st_size for path in folder.glob("*.sqlite"))

    def loaded(self, folder):
        return any(path.stat().st_mode & 0o777 == 0o400 for path in folder.glob("*.sqlite"))

    @staticmethod
    def alive(group):
        """Whether a process of a group runs; one that has ended may wait long for init to say so."""
        if not LINUX:
            with contextlib.suppress(ProcessLookupError):
                return os.killpg(group, 0) is None
            return False
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, pgrp = entry.read_text().rpartition(")")[2].split()[:3]
                if int(pgrp) == group and state != "Z":
                    return True
        return False

    def assertNoneAlive(self, group):
        deadline = time.monotonic() + 3
        while self.alive(group):
            if time.monotonic() > deadline:
                os.killpg(group, signal.SIGKILL)
                self.fail("a process was left")
            time.sleep(0.05)

    @unittest.skipUnless(POSIX, "signals")
    def test_interrupted_and_ended_runs_leave_nothing(self):
        endless = T + f"INSERT INTO t {FOREVER} SELECT i, i FROM n;"
        rows = [
            ("Ctrl-C while a dump loads", endless, "SELECT 1", self.loading, signal.SIGINT, 130),
            ("SIGTERM while a dump loads", endless, "SELECT 1", self.loading, signal.SIGTERM, -signal.SIGTERM),
            ("Ctrl-C while a query runs", T, ENDLESS, self.loaded, signal.SIGINT, 130),
            ("SIGTERM while a query runs", T, ENDLESS, self.loaded, signal.SIGTERM, -signal.SIGTERM),
        ]
        for name, dump, sql, ready, number, code in rows:
            with self.subTest(name), self.begin(dump, sql) as process:
                self.wait(process, ready)
                process.send_signal(number)
                ended = finished(process, 10)
                self.assertNoneAlive(process.pid)
                self.assertEqual(ended.code, code, ended)
                self.assertNotIn("Traceback", ended.err)
                self.assertEqual(os.listdir(self.tmp), [])
                self.assertIn("interrupted", ended.out + ended.err)

    @unittest.skipUnless(POSIX, "signals")
    def test_a_killed_run_leaves_no_process(self):
        for name, dump, sql, ready in (
            ("while a dump loads", T + f"INSERT INTO t {FOREVER} SELECT i, i FROM n;", "SELECT 1", self.loading),
            ("while a query runs", T, ENDLESS, self.loaded),
        ):
            with self.subTest(name), self.begin(dump, sql) as process:
                folder = self.wait(process, ready)
                process.kill()
                finished(process)
                self.assertNoneAlive(process.pid)
                shutil.rmtree(folder)

    @unittest.skipUnless(POSIX, "signals and locks")
    def test_what_a_killed_run_left_goes_with_the_next_start(self):
        self.put("small/X.sql", T)
        old = time.time() - 61
        argv = ("--questions", "questions.json", "--show-reference", "--db-root", "small")
        others = [self.tmp / f"{FOLDER}file", self.tmp / "nl2sql-other", self.tmp / f"x{FOLDER}y", self.tmp / f"{FOLDER}link"]
        target = self.folder / "target"

        def next_start():
            with mock.patch.object(tempfile, "tempdir", None):
                ended = call(*argv, env=self.env)
            self.assertEqual(ended.code, 0, ended)

        with self.begin(T, ENDLESS) as process:
            folder = self.wait(process, self.loaded)
            os.utime(folder, (old, old))
            next_start()
            self.assertTrue(folder.exists(), "a living run's folder is gone")
            process.kill()
            finished(process)
        self.assertTrue(folder.exists())
        self.assertNoneAlive(process.pid)
        others[0].write_text("a file")
        for other in others[1:3]:
            other.mkdir()
            (other / "lock").touch()
        target.mkdir()
        (target / "lock").touch()
        os.symlink(target, others[3])
        young = self.tmp / f"{FOLDER}young"
        young.mkdir()
        os.utime(folder)
        next_start()
        self.assertTrue(folder.exists(), "it is younger than a minute")
        for path in (folder, *others[:3], target):
            os.utime(path, (old, old))
        os.utime(others[3], (old, old), follow_symlinks=False)
        next_start()
        self.assertFalse(folder.exists(), "it is old, and nobody holds it")
        self.assertEqual(sorted(self.tmp.iterdir()), sorted([*others, young]))
        self.assertTrue((target / "lock").exists())

    def test_a_folder_with_other_content_is_not_ours(self):
        """A run that died before it could lock left an empty folder."""
        mine = self.tmp / f"{FOLDER}of-mine"
        empty = self.tmp / f"{FOLDER}empty"
        for folder in (mine, empty):
            folder.mkdir()
        (mine / "thesis.txt").write_text("years of work")
        for folder in (mine, empty):
            os.utime(folder, (time.time() - 3600,) * 2)
        self.put("root/X.sql", T)
        self.questions({"sql": "SELECT 1", "db_id": "X"})
        with mock.patch.object(tempfile, "tempdir", None):
            ended = call("--questions", "questions.json", "--show-reference", "--db-root", "root", env=self.env)
        self.assertEqual(ended.code, 0, ended)
        self.assertTrue((mine / "thesis.txt").exists())
        self.assertFalse(empty.exists())


# ---- test suites ---------------------------------------------------------------------------------


class Suites(Scratch):
    def suite(self, sql, answer, *argv, **question):
        questions = [{"sql": sql, "db_id": "X", **question}] if sql else [{"db_id": "X", **question}]
        return self.score(questions, [answer], "--db-root", "root", "--suite", *argv)

    def assertSuite(self, ended, share):
        self.assertEqual(ended.out.splitlines()[-2], f"test-suite accuracy: {share}  [databases]", ended.out)

    def test_a_pass_that_a_database_overturns(self):
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 1)
        self.database("root/X/other2.sqlite", 2)
        ended = self.suite("SELECT a FROM t", "SELECT 1", "--csv", "scores.csv", "--fail-under", "100")
        self.assertScore(ended, "1/1 (100%)")
        self.assertVerdicts(ended, "PASS coincidence")
        (detail,) = shown(ended.out)["Q1"][1]
        self.assertIn("other2.sqlite", detail)
        self.assertNotIn("other1", detail)
        self.assertSuite(ended, "0/1 (0%)")
        record = next(csv.DictReader(io.StringIO(Path("scores.csv").read_text())))
        self.assertEqual((record["verdict"], record["reason"]), ("PASS", "coincidence"))
        self.assertIn("other2.sqlite", record["detail"])
        self.assertIn("\nexecution_accuracy,1/1\n", Path("scores.csv").read_text())

    def test_only_where_it_is_asked_for(self):
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 2)
        self.put("root/X/broken.sqlite", b"no database")
        ended = self.score([{"sql": "SELECT a FROM t", "db_id": "X"}], ["SELECT 1"], "--db-root", "root")
        self.assertVerdicts(ended, "PASS")
        self.assertNotIn("test-suite", ended.out)

    def test_a_candidate_that_is_right_everywhere_or_wrong_at_once(self):
        self.database("root/X/X.sqlite", 1)
        for i in range(3):
            self.database(f"root/X/other{i}.sqlite", i)
        questions = [{"sql": "SELECT a FROM t", "db_id": "X"}] * 4
        ended = self.score(questions, ["SELECT a FROM t", "SELECT 5", "SELECT b FROM t", "SELECT 1"], "--db-root", "root", "--suite")
        self.assertVerdicts(ended, "PASS", "FAIL rows", "ERROR sql_error", "PASS coincidence")
        self.assertSuite(ended, "1/4 (25%)")
        self.assertScore(ended, "2/4 (50%)")
        self.assertEqual(warnings_of(ended.out), [])

    def test_a_candidate_that_does_not_run_there(self):
        self.database("root/X/X.sqlite", 1)
        with contextlib.closing(sqlite3.connect("root/X/X.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE u AS SELECT a FROM t")
        self.database("root/X/other1.sqlite", 1)
        ended = self.suite("SELECT a FROM t", "SELECT a FROM u")
        self.assertVerdicts(ended, "PASS coincidence")
        self.assertIn("other1.sqlite", shown(ended.out)["Q1"][1][0])
        self.assertSuite(ended, "0/1 (0%)")

    def test_a_reference_that_does_not_run_there(self):
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/strange.sqlite", 1, table="other")
        ended = self.suite("SELECT a FROM t", "SELECT 1")
        self.assertVerdicts(ended, "PASS")
        self.assertEqual(len(warnings_of(ended.out)), 1, ended.out)
        for word in ("Q1", "strange.sqlite"):
            self.assertIn(word, warnings_of(ended.out)[0])
        self.assertSuite(ended, "1/1 (100%)")
        self.database("root/X/then.sqlite", 2)
        ended = self.suite("SELECT a FROM t", "SELECT 1")
        self.assertVerdicts(ended, "PASS coincidence")
        self.assertEqual(len(warnings_of(ended.out)), 1, ended.out)

    def test_none_is_there(self):
        for place in ("root/X/X.sqlite", "root/X.sqlite", "root/X.sql"):
            with self.subTest(place):
                shutil.rmtree("root", True)
                if place.endswith(".sql"):
                    self.put(place, "CREATE TABLE t (a); INSERT INTO t VALUES (1);")
                else:
                    self.database(place, 1)
                ended = self.suite("SELECT a FROM t", "SELECT 1")
                self.assertVerdicts(ended, "PASS")
                self.assertEqual([line.endswith(" X") for line in warnings_of(ended.out)], [True], ended.out)

    def test_beside_a_flat_database(self):
        self.database("root/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 2)
        ended = self.suite("SELECT a FROM t", "SELECT 1")
        self.assertVerdicts(ended, "PASS coincidence")

    def test_one_in_wal_mode_keeps_its_name(self):
        self.database("root/X/X.sqlite", 1)
        self.wal("root/X/other1.sqlite", 2, state="open")
        before = contents("root")
        ended = self.suite("SELECT a FROM t", "SELECT 1")
        self.assertVerdicts(ended, "PASS coincidence")
        self.assertIn("other1.sqlite", shown(ended.out)["Q1"][1][0])
        self.assertEqual(contents("root"), before)

    def test_rows_alone_cannot_be_tried_elsewhere(self):
        """Frozen rows are those of one database; a suite that is there is not told to be missing."""
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 2)
        ended = self.suite("", "SELECT a FROM t", columns=["a"], rows=[[1]])
        self.assertVerdicts(ended, "PASS")
        self.assertNotIn("no test-suite databases for X", ended.out)

    def test_alternatives_and_vacuous_passes(self):
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 2)
        ended = self.suite(["SELECT a FROM t", "SELECT a, 1 AS one FROM t"], "SELECT a, 1 AS one FROM t")
        self.assertVerdicts(ended, "PASS")
        self.assertSuite(ended, "1/1 (100%)")
        ended = self.suite("SELECT a FROM t WHERE a = 2", "SELECT a FROM t WHERE a = 3")
        self.assertVerdicts(ended, "PASS coincidence")

    def test_beside_variants(self):
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 1)
        self.database("root/X/other2.sqlite", 2)
        questions = [{"sql": "SELECT a FROM t", "db_id": "X"}, {"sql": "SELECT a FROM t WHERE a > 0", "db_id": "X"}]
        argv = ("--db-root", "root", "--suite", "--variants", "40", "--csv", "s.csv")
        ended = self.score(questions, ["SELECT 1", "SELECT a FROM t"], *argv)
        self.assertVerdicts(ended, "PASS coincidence", "PASS coincidence")
        first, second = (lines for _, lines in shown(ended.out).values())
        self.assertEqual([word in line for line, word in zip(first, ("on a variant (", "other2.sqlite"))], [True, True], first)
        self.assertEqual([line.partition(" (")[0] for line in second], ["coincidence: on a variant"])
        self.assertEqual(
            ended.out.splitlines()[-3:],
            ["test-suite accuracy: 0/2 (0%)  [40 variants, seed 1]", "test-suite accuracy: 1/2 (50%)  [databases]", "execution accuracy: 2/2 (100%)"],
        )
        scores = ["accuracy_on_variants,0/2", "test_suite_accuracy,1/2", "execution_accuracy,2/2"]
        self.assertEqual(Path("s.csv").read_text().splitlines()[-4:], ["", *scores])

    def test_with_a_part_a_file_and_quiet(self):
        self.database("root/X/X.sqlite", 1)
        self.database("root/X/other1.sqlite", 1)
        ended = self.score([{"sql": "SELECT a FROM t", "db_id": "X"}] * 2, ["SELECT 1"] * 2, "--db-root", "root", "--suite", "--limit", "1", "--csv", "s.csv")
        self.assertSuite(ended, "1/1 (100%)")
        self.assertScore(ended, "1/1 (100%)  [1 of 2 questions]")
        ended = self.suite("SELECT a FROM t", "SELECT 1", "-q")
        self.assertEqual(ended.out, "execution accuracy: 1/1 (100%)\n")


# ---- zips ----------------------------------------------------------------------------------------


def zip_crypto(data, password, check):
    """Encrypted as PKWARE did it in 1989: a header of twelve bytes, then the data."""
    crc = zlib.crc32
    keys = [0x12345678, 0x23456789, 0x34567890]

    def step(key, byte):
        return crc(bytes((byte,)), key ^ 0xFFFFFFFF) ^ 0xFFFFFFFF

    def update(byte):
        keys[0] = step(keys[0], byte)
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = step(keys[2], keys[1] >> 24)

    for byte in password:
        update(byte)
    out = bytearray()
    for byte in bytes(range(11)) + bytes((check,)) + data:
        key = (keys[2] | 2) & 0xFFFF
        out.append(byte ^ (key * (key ^ 1) >> 8 & 0xFF))
        update(byte)
    return bytes(out)


def zipped(files, password=None, method=8, flags=0, declared=None, local=None):
    """A zip of files by name; `declared` changes the sizes that its directory tells, `local` names."""
    body, directory = bytearray(), bytearray()
    for name, data in files.items():
        data = data.encode("utf-8") if isinstance(data, str) else data
        crc, packed = zlib.crc32(data), data
        if method == 8:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            packed = packer.compress(data) + packer.flush()
        if password is not None:
            packed = zip_crypto(packed, password.encode(), crc >> 24)
        flag = 0x800 | flags | (password is not None)
        said = (declared or {}).get(name, len(data))
        at, raw = len(body), name.encode("utf-8")
        head = struct.pack("<HHHHHII", 20, flag, method, 0, 33, crc, len(packed))
        body += b"PK\3\4" + head + struct.pack("<IHH", len(data), len(raw), 0) + (local or {}).get(name, raw) + packed
        rest = struct.pack("<IHHHHHII", said, len(raw), 0, 0, 0, 0, 0, at)
        directory += b"PK\1\2" + struct.pack("<H", 20) + head + rest + raw
    count, size, at = len(files), len(directory), len(body)
    return bytes(body + directory) + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count, count, size, at, 0)


class ZipCase(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = Path(cls.database(cls, str(cls.base / "one.sqlite"), 1)).read_bytes()

    def setUp(self):
        super().setUp()
        self.put("a.txt", "SELECT 1\n")

    def set_text(self, **more):
        return json.dumps([{"id": "Q1", "question": "text?", "sql": "SELECT a FROM t", **more}])

    def run_zip(self, data, *argv, env=None, mode=("--answers", "a.txt"), tty=()):
        self.put("set.zip", data)
        ended = call("--questions", "set.zip", *mode, *argv, env=env, tty=tty)
        for text in (ended.out, ended.err):
            self.assertNotIn(PASSWORD, text)
            self.assertNotIn(FOLDER, text, "a private folder's name says nothing to anybody")
        return ended


class Zips(ZipCase):
    def test_what_is_read(self):
        d = self.data
        whole, about = self.set_text(), self.set_text(db_id="d")
        dump = "CREATE TABLE t (a); INSERT INTO t VALUES (1);"
        rows = [
            ("one database and no ids", {"q.json": whole, "data.sqlite": d}),
            ("one dump and no ids", {"q.json": whole, "data.sql": dump}),
            ("a folder per id", {"q.json": about, "d/d.sqlite": d, "e/e.sqlite": d}),
            ("flat", {"q.json": about, "d.db": d}),
            ("a dump", {"q.json": about, "d/schema.sql": dump}),
            ("a dump, flat", {"q.json": about, "d.sql": dump}),
            ("all in folders", {"exam/2025/q.json": about, "exam/2025/database/d/d.sqlite": d}),
            ("all in one folder", {"exam/q.json": about, "exam/d.sqlite": d}),
            ("all in one folder, a dump", {"exam/q.json": about, "exam/d.sql": dump}),
            ("flat in a folder of databases", {"exam/q.json": about, "exam/database/d.sqlite": d}),
            ("what macOS adds", {"q.json": about, "d.sqlite": d, "__MACOSX/._q.json": "x", "._d.sqlite": b"x", ".DS_Store": b"x", "__MACOSX/d/._q.json": "x"}),
            ("folders as entries", {"exam/": b"", "exam/q.json": about, "exam/d/": b"", "exam/d/d.sqlite": d}),
            ("texts beside it", {"q.json": about, "d.sqlite": d, "README.md": "# read me", "notes.txt": "no SQL here\n", "tables.json": '[{"db_id": "d"}]'}),
            ("JSON Lines", {"q.jsonl": json.dumps({"question": "w?", "sql": "SELECT a FROM t", "db_id": "d"}), "d.sqlite": d}),
            ("commented SQL", {"q.sql": "-- Q1: w?\n--   db: d\nSELECT a FROM t;\n", "d.sqlite": d}),
            ("commented SQL and a dump", {"q.sql": "-- Q1: w?\n--   db: d\nSELECT a FROM t;\n", "d/schema.sql": dump}),
            ("gold.txt", {"gold.txt": "SELECT a FROM t\td\n", "d/d.sqlite": d}),
            ("gold.sql", {"gold.sql": "SELECT a FROM t\td\n", "d/d.sqlite": d}),
            ("rows in a file", {"exam/q.json": self.set_text(sql=None, rows="r.csv"), "exam/r.csv": "a\n1\n", "exam/x.sqlite": d}),
            ("rows in a folder", {"exam/q.json": self.set_text(sql=None, rows="rows/r.csv"), "exam/rows/r.csv": "a\n1\n", "exam/x.sqlite": d}),
        ]
        for name, files in rows:
            for password in (None, PASSWORD):
                with self.subTest(name, sealed=bool(password)):
                    ended = self.run_zip(zipped(files, password), env={"NL2SQL_PASSWORD": PASSWORD})
                    self.assertScore(ended, "1/1 (100%)")
                    self.assertIn("set.zip", ended.out.splitlines()[1])

    def test_its_data_may_lie_outside(self):
        self.database("x.sqlite", 1)
        self.database("root/d/d.sqlite", 1)
        self.assertScore(self.run_zip(zipped({"q.json": self.set_text()}), "--db", "x.sqlite"), "1/1 (100%)")
        about = zipped({"q.json": self.set_text(db_id="d")})
        self.assertScore(self.run_zip(about, "--db-root", "root"), "1/1 (100%)")
        self.assertRefused(self.run_zip(about), "d", "--db")

    def test_stored_and_other_compressions(self):
        files = {"q.json": self.set_text(), "x.sqlite": self.data}
        for password in (None, PASSWORD):
            ended = self.run_zip(zipped(files, password, method=0), "--password", PASSWORD)
            self.assertScore(ended, "1/1 (100%)")
        for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            with zipfile.ZipFile("made.zip", "w", method) as archive:
                for name, data in files.items():
                    archive.writestr(name, data)
            ended = self.run_zip(Path("made.zip").read_bytes())
            if ended.code:  # zip -e makes neither
                self.assertRefused(ended, "set.zip")
            else:
                self.assertScore(ended, "1/1 (100%)")

    def test_passwords(self):
        sealed = zipped({"q.json": self.set_text(), "x.sqlite": self.data}, PASSWORD)
        right, wrong, env = ("--password", PASSWORD), ("--password", "wr0ng-w0rd"), {"NL2SQL_PASSWORD": PASSWORD}
        for name, argv, environ in (("option", right, {}), ("environment", (), env), ("option first", right, {"NL2SQL_PASSWORD": "wr0ng"})):
            with self.subTest(name):
                self.assertScore(self.run_zip(sealed, *argv, env=environ), "1/1 (100%)")
        for name, argv, environ, words in (
            ("none", (), {}, ("set.zip", "--password", "NL2SQL_PASSWORD")),
            ("empty", (), {"NL2SQL_PASSWORD": ""}, ("set.zip", "--password")),
            ("wrong", wrong, {}, ("set.zip", "password", "wrong")),
            ("wrong in the environment", (), {"NL2SQL_PASSWORD": "wr0ng-w0rd"}, ("set.zip", "password", "wrong")),
            ("the option beats the environment", wrong, env, ("set.zip", "password", "wrong")),
        ):
            for mode in (("--answers", "a.txt"), ("--list",), ("--init-answers", "-"), ("--show-reference",)):
                with self.subTest(name, mode=mode[0]):
                    ended = self.run_zip(sealed, *argv, env=environ, mode=mode)
                    self.assertRefused(ended, *words)
                    self.assertNotIn("wr0ng", ended.err)
        self.assertScore(self.run_zip(zipped({"q.json": self.set_text(), "x.sqlite": self.data}), *right), "1/1 (100%)")

    def test_a_wrong_password_whose_check_byte_fits(self):
        """One in 256 does; what comes out is noise, and the password is what was wrong."""
        long_set = "-- Q1: text?\n--   db: d\nSELECT a FROM t;\n" + "-- and many words more\n" * 4000
        for name, files in (
            ("JSON", {"q.json": self.set_text(), "x.sqlite": self.data}),
            ("commented SQL", {"q.sql": "-- Q1: text?\nSELECT a FROM t;\n"}),
            ("a long one", {"q.sql": long_set}),
        ):
            for method in (8, 0):
                data = zipped(files, PASSWORD, method)
                words = (word for word in map("w{}".format, range(20_000)) if self.fits(data, word))
                for word in (next(words), next(words)):
                    with self.subTest(name, method=method, word=word):
                        self.assertRefused(self.run_zip(data, "--password", word), "set.zip", "password", "wrong")

    def fits(self, data, word):
        """Whether the check byte of a zip's first entry comes out right under a password."""
        length = struct.unpack("<H", data[26:28])[0]
        head = data[30 + length : 42 + length]
        # Encrypting is xor with a stream that depends on the plain bytes: decrypt byte by byte.
        plain = bytearray()
        keys = [0x12345678, 0x23456789, 0x34567890]
        table = zipfile.crctable if hasattr(zipfile, "crctable") else CRC_TABLE

        def update(byte):
            keys[0] = keys[0] >> 8 ^ table[(keys[0] ^ byte) & 0xFF]
            keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
            keys[2] = keys[2] >> 8 ^ table[(keys[2] ^ keys[1] >> 24) & 0xFF]

        for byte in word.encode():
            update(byte)
        for byte in head:
            key = (keys[2] | 2) & 0xFFFF
            plain.append(byte ^ (key * (key ^ 1) >> 8 & 0xFF))
            update(plain[-1])
        return plain[11] == data[17]

    def test_passwords_of_other_letters(self):
        for password in ("\u00e9\u2603", " spaced ", "-x", "a" * 300):
            with self.subTest(password):
                data = zipped({"q.json": self.set_text(), "x.sqlite": self.data}, password)
                self.assertScore(self.run_zip(data, f"--password={password}"), "1/1 (100%)")

    @unittest.skipUnless(shutil.which("zip"), "no zip command")
    def test_what_the_zip_command_makes(self):
        self.put("q.json", self.set_text())
        self.put("x.sqlite", self.data)
        subprocess.run(["zip", "-q", "-e", "-P", PASSWORD, "made.zip", "q.json", "x.sqlite"], check=True)
        data = Path("made.zip").read_bytes()
        self.assertScore(self.run_zip(data, "--password", PASSWORD), "1/1 (100%)")
        self.assertRefused(self.run_zip(data), "--password")
        self.assertRefused(self.run_zip(data, "--password", PASSWORD + "x"), "wrong")

    def test_other_ciphers(self):
        files = {"q.json": self.set_text(), "x.sqlite": self.data}
        for name, data in (("AES", zipped(files, PASSWORD, 99)), ("strong", zipped(files, PASSWORD, flags=0x40))):
            with self.subTest(name):
                self.assertRefused(self.run_zip(data, "--password", PASSWORD), "set.zip", "cipher", "zip -e")

    def test_what_is_no_zip_or_a_damaged_one(self):
        data = zipped({"q.json": self.set_text(), "x.sqlite": self.data})
        sealed = zipped({"q.json": self.set_text(), "x.sqlite": self.data}, PASSWORD)
        with zipfile.ZipFile("lzma.zip", "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("q.json", self.set_text(question="w" * 2000))
        lzma = bytearray(Path("lzma.zip").read_bytes())
        lzma[70:76] = b"\xff" * 6
        # The only entry begins in the comment behind the directory, with nothing of its data there.
        short = bytearray(zipped({"q.json": self.set_text()}, PASSWORD, 0))
        head = bytes(short[: 30 + len("q.json")])
        at = short.index(b"PK\1\2") + 42
        short[at : at + 4] = struct.pack("<I", len(short))
        short[-2:] = struct.pack("<H", len(head))
        rows = [
            ("no end", data[:-30]),
            ("the first bytes", data[:60]),
            ("the magic alone", b"PK\3\4"),
            ("other words", b"PK\3\4 is how a zip begins\n"),
            ("the end alone", b"PK\5\6and more"),
            ("a hole", data[:40] + bytes(20) + data[60:]),
            ("sealed, a hole", sealed[:60] + bytes(20) + sealed[80:]),
            ("LZMA", bytes(lzma)),
            ("a name that is no UTF-8", zipped({"q.json": self.set_text()}, local={"q.json": b"\xff.json"})),
            ("an unknown compression", zipped({"q.json": self.set_text()}, method=77)),
            ("a sealed entry without its data", bytes(short) + head),
            ("a smaller size", zipped({"q.json": self.set_text(), "x.sqlite": self.data}, declared={"x.sqlite": 100})),
        ]
        for name, broken in rows:
            with self.subTest(name):
                self.assertRefused(self.run_zip(broken, "--password", PASSWORD), "set.zip")

    def test_what_is_too_long_to_read_is_not_cut(self):
        """64 MB, as for any set; the rest of a longer one may not be lost without a word."""
        long_set = self.set_text().encode() + b" " * (65 * 1024**2) + b"more"
        self.assertRefused(self.run_zip(zipped({"q.json": long_set, "x.sqlite": self.data})), "set.zip")

    def test_changed_bytes_give_a_reading_or_one_line(self):
        chance = random.Random(7)
        files = {"ex/q.json": json.dumps([{"question": "w", "db_id": "d", "rows": "r.csv"}]), "ex/d/d.sqlite": self.data[:9000], "ex/r.csv": "a\n1\n"}
        made = [zipped(files), zipped(files, PASSWORD), zipped(files, PASSWORD, 0), zipped(files, None, 0)]
        for i in range(400):
            data = bytearray(made[i % 4])
            at = chance.choice((0, data.index(b"PK\1\2"), len(data) - 22, chance.randrange(len(data))))
            for _ in range(chance.randrange(1, 4)):
                data[min(len(data) - 1, at + chance.randrange(60))] = chance.choice((0, 1, 255, chance.randrange(256)))
            data[:4] = b"PK\3\4"
            with self.subTest(i):
                ended = self.run_zip(bytes(data), "--password", PASSWORD, mode=("--list",))
                if ended.code:
                    self.assertRefused(ended, "set.zip")

    def test_not_one_set(self):
        one, other = self.set_text(), "-- B1: text?\nSELECT 1;\n"
        rows = [
            ("nothing", {}, ()),
            ("a database alone", {"x.sqlite": self.data}, ()),
            ("other texts", {"README.md": "# read me", "x.sqlite": self.data}, ()),
            ("two of JSON", {"q.json": one, "p.json": one, "x.sqlite": self.data}, ("q.json", "p.json")),
            ("two of SQL", {"q.sql": other, "p.sql": other, "x.sqlite": self.data}, ("q.sql", "p.sql")),
            ("one of each", {"q.json": one, "p.sql": other, "x.sqlite": self.data}, ("q.json", "p.sql")),
            ("in two folders", {"a/q.json": one, "b/q.json": one}, ("a/q.json", "b/q.json")),
        ]
        for name, files, words in rows:
            for password in (None, PASSWORD):
                with self.subTest(name, sealed=bool(password)):
                    self.assertRefused(self.run_zip(zipped(files, password), "--password", PASSWORD), "set.zip", "question set", *words)

    def test_an_error_in_the_set_names_both_files(self):
        for name, text, words in (
            ("q.json", '[{"id": "Q1", "sql": "SELECT 1"}]', ("question",)),
            ("q.sql", "-- Q1: text?\n--   dv: x\nSELECT 1;\n", ("line 2", "dv")),
        ):
            with self.subTest(name):
                self.assertRefused(self.run_zip(zipped({f"ex/{name}": text})), "set.zip", f"ex/{name}", *words)

    def test_an_error_in_its_data_names_the_zip(self):
        about = self.set_text(db_id="d")
        rows = [
            ("a dump", {"q.json": about, "d/schema.sql": "CREATE TABLE t (a);\nSET x = 1;\n"}, ("d/schema.sql", "line 2")),
            ("no database", {"q.json": about, "d/d.sqlite": b"no database at all"}, ("d/d.sqlite",)),
            ("an empty one", {"q.json": about, "d/d.sqlite": b""}, ("d/d.sqlite",)),
            ("missing", {"q.json": about, "e/e.sqlite": self.data}, ("d", "Q1")),
            ("several and no ids", {"q.json": self.set_text(), "d.sqlite": self.data, "e.sqlite": self.data}, ("Q1",)),
            ("no rows", {"e/q.json": self.set_text(rows="r.csv"), "x.sqlite": self.data}, ("r.csv",)),
            ("rows outside", {"e/q.json": self.set_text(rows="../r.csv"), "r.csv": "a\n1\n", "x.sqlite": self.data}, ("r.csv",)),
            ("ragged rows", {"q.json": self.set_text(rows="r.csv"), "r.csv": "a,b\n1\n", "x.sqlite": self.data}, ("r.csv",)),
        ]
        for name, files, words in rows:
            with self.subTest(name):
                self.assertRefused(self.run_zip(zipped(files)), "set.zip", *words)

    def test_names_that_lead_elsewhere(self):
        """Nothing is written outside the private folder; what cannot be unpacked is one line."""
        about = self.set_text(db_id="d")
        before = contents(self.base)
        names = (
            "../d.sqlite",
            "../../d/d.sqlite",
            f"{self.folder}/d.sqlite",
            "/d.sqlite",
            "..\\..\\d.sqlite",
            "C:\\d\\d.sqlite",
            "a/../../../d.sqlite",
            "d/../d.sqlite",
            "./d.sqlite",
            "d/C:x.sqlite",
            "d/" + "x" * 300 + ".sqlite",
            "d//d.sqlite",
        )
        for name in names:
            with self.subTest(name):
                ended = self.run_zip(zipped({"q.json": about, name: self.data}))
                if ended.code:
                    self.assertRefused(ended)
        for more in (
            {"a/d/d.sqlite": self.data, "b/d/d.sqlite": self.data},
            {"d.sqlite": self.data, "d.sqlite/x.sqlite": self.data},
            {"d.sqlite/x.sqlite": self.data, "d.sqlite": self.data},
        ):
            with self.subTest(more=list(more)):
                ended = self.run_zip(zipped({"q.json": about, **more}))
                if ended.code:
                    self.assertRefused(ended, "set.zip")
        new = set(contents(self.base)) - set(before)
        self.assertEqual({os.path.basename(path) for path in new}, {"set.zip"})

    def test_bombs_by_their_declared_size(self):
        limit = 2 * 1024**3
        for size in (limit + 1, 0xFFFFFFF0):
            for password in (None, PASSWORD):
                with self.subTest(size, sealed=bool(password)):
                    files = {"q.json": self.set_text(), "x.sqlite": self.data}
                    data = zipped(files, password, declared={"x.sqlite": size})
                    self.assertRefused(self.run_zip(data, "--password", PASSWORD), "set.zip", "2048 MB")
        halves = zipped({"q.json": self.set_text(), "x.sqlite": self.data, "y.sqlite": self.data}, declared={"x.sqlite": limit - 10, "y.sqlite": 100})
        self.assertRefused(self.run_zip(halves), "set.zip", "2048 MB")

    def test_from_standard_input(self):
        data = zipped({"q.json": self.set_text(), "x.sqlite": self.data})
        ended = call("--questions", "-", "--answers", "a.txt", stdin=data)
        if ended.code:
            self.assertRefused(ended, "zip")
        else:
            self.assertScore(ended, "1/1 (100%)")


CRC_TABLE = [zlib.crc32(bytes((i,)), 0xFFFFFFFF) ^ 0xFFFFFFFF for i in range(256)]


class Sealed(ZipCase):
    """What of an encrypted set may be written: ids, verdicts and counts. The rest holds `hush`."""

    QUESTIONS = [
        {
            "id": "S1", "question": "hush one?", "db_id": "d", "sql": ["SELECT hushcol FROM hushtab WHERE b = 1", "SELECT 'hush alternative'"],
            "trap": "hush trap", "traps": [{"name": "hush name", "why": "hush why", "sql": "SELECT hushcol FROM hushtab WHERE b = 2"}],
            "evidence": "hush evidence", "params": {"hushparam": "hush value"}, "tables": ["hushtab"], "reviewed": "hush reviewed",
            "contract": {"order": "by hushcol", "alias.hushcol": "hushother"}, "contracts": "hush key", "version": "hush version",
        },
        {"id": "S2", "question": "hush two?", "db_id": "d", "sql": "SELECT hushcol FROM hushmissing"},
        {"id": "S3", "question": "hush three?", "db_id": "d", "rows": "hush.csv"},
        {"id": "S4", "question": "hush four?", "db_id": "d", "sql": "SELECT hushcol FROM hushtab", "rows": [["hush row"]], "columns": ["hushcol"]},
        {
            "id": "S5", "question": {"en": "hush five?", "it": "hush cinque?"}, "db_id": "d", "difficulty": "hard",
            "sql": "SELECT hushcol FROM hushtab ORDER BY b",
        },
        {"id": "S6", "question": "hush six?", "db_id": "d", "sql": "SELECT 1 AS one"},
    ]  # fmt: skip
    CANDIDATES = [
        "SELECT hushcol FROM hushtab WHERE b = 2",
        "SELECT 'hush'",
        "SELECT hushcol, b FROM hushtab",
        "SELECT 'hush'",
        "SELECT hushcol FROM hushtab ORDER BY b DESC",
        "SELECT 1",
    ]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        path = str(cls.base / "hush.sqlite")
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE hushtab (hushcol, b)")
            connection.execute("INSERT INTO hushtab VALUES ('hush data', 1), ('hush other', 2)")
        cls.files = {"q.json": json.dumps(cls.QUESTIONS), "d/d.sqlite": Path(path).read_bytes(), "hush.csv": "hushcol\nhush data\n"}
        cls.sealed = zipped(cls.files, PASSWORD)

    def setUp(self):
        super().setUp()
        lines = [json.dumps({"id": f"S{i}", "sql": sql}) for i, sql in enumerate(self.CANDIDATES, 1)]
        self.put("a.jsonl", "\n".join(lines))

    def run_sealed(self, *argv, mode=("--answers", "a.jsonl"), data=None, tty=()):
        return self.run_zip(data or self.sealed, "--password", PASSWORD, *argv, mode=mode, tty=tty)

    def assertHushed(self, *texts):
        for text in texts:
            self.assertEqual([line for line in text.splitlines() if "hush" in line], [])

    def test_the_report_and_the_table(self):
        for argv in ((), ("-v",), ("--suite",), ("--color", "always"), ("--only", "S1")):
            with self.subTest(argv):
                ended = self.run_sealed(*argv, "--csv", "scores.csv")
                self.assertEqual(ended.code, 0, ended)
                self.assertHushed(ended.out, ended.err, Path("scores.csv").read_text())
        ended = self.run_sealed("--csv", "scores.csv")
        self.assertEqual([verdict for verdict, _ in shown(ended.out).values()], ["FAIL", "ERROR", "FAIL", "ERROR", "FAIL", "PASS"])
        self.assertScore(ended, "1/6 (16.7%)")
        text = Path("scores.csv").read_text()
        records = list(csv.DictReader(io.StringIO(text.partition("\n\n")[0])))
        self.assertEqual([record["question_id"] for record in records], ["S1", "S2", "S3", "S4", "S5", "S6"])
        self.assertEqual([record["verdict"] for record in records], ["FAIL", "ERROR", "FAIL", "ERROR", "FAIL", "PASS"])
        self.assertEqual([record["reason"] for record in records], ["rows", "reference_error", "columns", "reference_error", "order", ""])
        self.assertEqual((records[0]["rows_got"], records[0]["rows_wanted"]), ("1", "1"))
        self.assertEqual({record["question"] + record["traps"] for record in records}, {""})
        self.assertEqual([record["db_id"] for record in records], ["d"] * 6)
        self.assertEqual(records[4]["difficulty"], "hard")
        self.assertTrue(text.endswith("\nexecution_accuracy,1/6\n"))

    def test_the_table_on_standard_output(self):
        for tty in ((), ("out",), ("err",)):
            with self.subTest(tty):
                ended = self.run_sealed("--csv", "-", tty=tty)
                self.assertHushed(ended.out)
                self.assertIn("S1,,FAIL,", ended.out)
                if "err" not in tty:
                    self.assertHushed(ended.err)

    def test_a_terminal_shows_all_and_files_do_not(self):
        ended = self.run_sealed("--csv", "scores.csv", tty=("out",))
        for word in ("hush one?", "hush data", "hush name"):
            self.assertIn(word, ended.out)
        self.assertHushed(Path("scores.csv").read_text())

    def test_the_list(self):
        ended = self.run_sealed(mode=("--list",))
        self.assertEqual(ended.code, 0, ended)
        self.assertHushed(ended.out, ended.err)
        for id in ("S1", "S6"):
            self.assertIn(f"\n{id}", ended.out)
        self.assertIn("hush one?", self.run_sealed(mode=("--list",), tty=("out",)).out)

    def test_the_template(self):
        for mode in (("--init-answers", "t.sql"), ("--init-answers", "-")):
            for tty in ((), ("out",)):
                with self.subTest(mode, tty=tty):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink("t.sql")
                    ended = self.run_sealed(mode=mode, tty=tty)
                    self.assertEqual(ended.code, 0, ended)
                    text = ended.out if mode[1] == "-" else Path("t.sql").read_text()
                    self.assertHushed(ended.out, ended.err, text)
                    self.assertRegex(text, r"\n-- S1:\s*\n")
        self.run_sealed(mode=("--init-answers", "t.sql"))
        ended = call("--questions", "set.zip", "--password", PASSWORD, "--answers", "t.sql")
        self.assertEqual({verdict for verdict, _ in shown(ended.out).values()}, {"SKIP"})

    def test_reveal(self):
        ended = self.run_sealed("--reveal", "--csv", "scores.csv")
        for text in (ended.out, Path("scores.csv").read_text()):
            for word in ("hush one?", "hush data", "hush name"):
                self.assertIn(word, text)
        self.assertIn("hush one?", self.run_sealed("--reveal", mode=("--list",)).out)
        self.assertIn("hush one?", self.run_sealed("--reveal", mode=("--init-answers", "-")).out)
        self.assertIn("hush data", self.run_sealed("--reveal", mode=("--show-reference",)).out)

    def test_references_are_for_a_terminal(self):
        ended = self.run_sealed(mode=("--show-reference",))
        self.assertRefused(ended, "set.zip", "--reveal")
        self.assertHushed(ended.err)
        self.assertIn("hush data", self.run_sealed(mode=("--show-reference",), tty=("out",)).out)

    def test_no_error_tells_either(self):
        for id, argv in (
            ("a reference that does not run", ("--only", "S2")),
            ("rows that disagree", ("--only", "S4")),
            ("both", ("--only", "S2,S4")),
            ("quiet", ("--only", "S4", "-q")),
        ):
            with self.subTest(id):
                ended = self.run_sealed(*argv)
                self.assertEqual((ended.code, len(ended.err.splitlines())), (2, 1), ended)
                self.assertHushed(ended.out, ended.err)
        for name, argv in (("language", ("--lang", "xx")), ("only", ("--only", "S9")), ("text", ("-k", "nothing like it"))):
            with self.subTest(name):
                ended = self.run_sealed(*argv)
                self.assertRefused(ended)
                self.assertHushed(ended.err)

    def test_counterexamples_do_not_tell_either(self):
        self.put("lucky.jsonl", json.dumps({"id": "S6", "sql": "SELECT CASE MIN(b) WHEN 2 THEN 3 ELSE 1 END FROM hushtab"}))
        argv = ("--only", "S6", "--variants", "40", "--csv", "scores.csv")
        for more in ((), ("-v",), ("--suite",)):
            with self.subTest(more):
                ended = self.run_sealed(*argv, *more, mode=("--answers", "lucky.jsonl"))
                self.assertScore(ended, "1/1 (100%)  [1 of 6 questions]")
                self.assertIn(",coincidence,", Path("scores.csv").read_text())
                self.assertHushed(ended.out, ended.err, Path("scores.csv").read_text())

    def test_warnings_do_not_tell_either(self):
        text = "-- S1: hush text?\n--   db: d\nSELECT hushcol FROM hushtab;\n"
        text += "-- S2: hush two?\n--   db: d\nSELECT '\n-- S3: hush three?\n';\n"
        files = {name: data for name, data in self.files.items() if name != "q.json"}
        data = zipped({**files, "q.sql": text}, PASSWORD)
        for mode in (("--list",), ("--answers", self.put("two.txt", "SELECT 1\nSELECT 1\n"))):
            with self.subTest(mode[0]):
                ended = self.run_sealed(mode=mode, data=data)
                self.assertEqual(ended.code, 0, ended)
                self.assertHushed(ended.out, ended.err)

    def test_in_parts_of_gold_lines_and_texts(self):
        """Where either of two files is sealed, the questions are."""
        lines = "".join(f"SELECT {i} AS hushcol\td\n" for i in range(2))
        texts = json.dumps([{"question": f"hush {i}?", "query": f"SELECT {i} AS hushcol", "db_id": "d"} for i in range(2)])
        self.put("root/d.sqlite", self.data)
        self.put("gold.zip", zipped({"gold.txt": lines}, PASSWORD))
        self.put("dev.zip", zipped({"dev.json": texts}, PASSWORD))
        self.put("gold.sql", lines)
        self.put("dev.json", texts)
        self.put("two.txt", "SELECT 0\nSELECT 7\n")
        for gold, dev in (("gold.sql", "dev.zip"), ("gold.zip", "dev.json"), ("gold.zip", "dev.zip")):
            with self.subTest(gold=gold, dev=dev):
                argv = ("--questions", gold, "--questions", dev, "--password", PASSWORD, "--db-root", "root")
                ended = call(*argv, "--answers", "two.txt", "--csv", "scores.csv")
                self.assertScore(ended, "1/2 (50%)")
                self.assertHushed(ended.out, ended.err, Path("scores.csv").read_text())
                self.assertHushed(call(*argv, "--init-answers", "-").out)

    def test_an_open_zip_is_not_sealed(self):
        ended = self.run_sealed("--csv", "scores.csv", data=zipped(self.files))
        for text in (ended.out, Path("scores.csv").read_text()):
            self.assertIn("hush one?", text)
        self.assertIn("hush data", self.run_sealed(mode=("--show-reference",), data=zipped(self.files)).out)

    def test_what_is_said_of_answers_is_about_the_answers(self):
        self.put("c.sql", "-- S1: hush one?\nSELECT 1;\n-- S9: other\nSELECT 2;\n")
        ended = self.run_sealed(mode=("--answers", "c.sql"))
        self.assertEqual(ended.code, 0, ended)
        self.assertHushed(ended.out, ended.err)


# ---- frozen rows ---------------------------------------------------------------------------------


class FrozenRows(Scratch):
    def one(self, candidate, *argv, csv=None, **question):
        """The only question, on a database with nothing in it."""
        self.database("x.sqlite", 1)
        os.replace("x.sqlite", "empty.sqlite")
        for name, text in (csv or {}).items():
            self.put(name, text)
        return self.score([question], [candidate], "--db", "empty.sqlite", *argv)

    def test_typed_by_the_candidate(self):
        digits = "a\n7\n8\n"
        rows = [
            ("numbers", digits, "SELECT 7 AS a UNION ALL SELECT 8", "PASS"),
            ("reals", "a\n7.0\n8.25\n", "SELECT 7.0 AS a UNION ALL SELECT 8.25", "PASS"),
            ("text of digits", digits, "SELECT '7' AS a UNION ALL SELECT '8'", "PASS"),
            ("text of digits, by place", digits, "SELECT '7' AS other UNION ALL SELECT '8'", "PASS"),
            ("some of each", digits, "SELECT '7' AS a UNION ALL SELECT 8", "FAIL type"),
            ("digits with a zero in front are text", "a\n007\n", "SELECT '007' AS a", "PASS"),
            ("and no number", "a\n007\n", "SELECT 7 AS a", "FAIL type"),
            ("words among digits", "a\n7\nx\n", "SELECT '7' AS a UNION ALL SELECT 'x'", "PASS"),
            ("by the column of that name", "a,b\n1,x\n", "SELECT 'x' AS b, '1' AS a", "PASS"),
            ("text and numbers apart", "a,b\n1,2\n", "SELECT 1 AS a, '2' AS b", "PASS"),
            ("NULL among numbers", "a,b\n7,1\n,2\n", "SELECT 7 AS a, 1 AS b UNION ALL SELECT NULL, 2", "PASS"),
            ("NULL among text", "a,b\n7,1\n,2\n", "SELECT '7' AS a, 1 AS b UNION ALL SELECT NULL, 2", "PASS"),
            ("NULL is not 0", "a,b\n,1\n", "SELECT 0 AS a, 1 AS b", "FAIL rows"),
            ("an empty text where the candidate has one", "a,b\nx,1\n,2\n", "SELECT 'x' AS a, 1 AS b UNION ALL SELECT '', 2", "PASS"),
            ("a quoted empty cell", 'a\n7\n""\n', "SELECT 7 AS a UNION ALL SELECT NULL", "PASS"),
            ("an empty cell alone on its line", "a\n7\n\n8\n", "SELECT 7 AS a UNION ALL SELECT NULL UNION ALL SELECT 8", "PASS"),
            ("the largest integer", "a\n9223372036854775807\n", "SELECT 9223372036854775807 AS a", "PASS"),
            ("one beyond 64 bits", "a\n9999999999999999999\n", "SELECT 9999999999999999999 AS a", "PASS"),
            ("an exponent", "a\n1e3\n", "SELECT 1000.0 AS a", "PASS"),
            ("negative", "a\n-5\n-0.5\n", "SELECT -5 AS a UNION ALL SELECT -0.5", "PASS"),
            ("other rows", digits, "SELECT 7 AS a", "FAIL rows"),
            ("a row twice", digits, "SELECT 7 AS a UNION ALL SELECT 8 UNION ALL SELECT 8", "FAIL duplicates"),
            ("more columns", digits, "SELECT 7 AS a, 1 AS b UNION ALL SELECT 8, 2", "FAIL columns"),
            ("none at all", "a\n", "SELECT 1 AS a WHERE 0", "PASS vacuous"),
            ("none, and some came", "a\n", "SELECT 1 AS a", "FAIL rows"),
        ]
        for name, text, candidate, verdict in rows:
            with self.subTest(name):
                self.assertVerdicts(self.one(candidate, rows="r.csv", csv={"r.csv": text}), verdict)

    def test_how_a_file_may_be_written(self):
        want = "SELECT '\u00e9, \"x\"' || char(10) || 'y' AS a, 2 AS b"
        text = 'a,b\n"\u00e9, ""x""\ny",2\n'
        for name, data in (
            ("UTF-8", text.encode()),
            ("with a mark", b"\xef\xbb\xbf" + text.encode()),
            ("UTF-16", text.encode("utf-16")),
            ("Latin-1", text.encode("latin-1")),
            ("no end of line", text.strip().encode()),
        ):
            with self.subTest(name):
                self.assertVerdicts(self.one(want, rows="r.csv", csv={"r.csv": data}), "PASS")
        self.assertVerdicts(self.one("SELECT 'x' AS a, 2 AS b", rows="r.csv", csv={"r.csv": "a,b\r\nx,2\r\n"}), "PASS")

    def test_contracts(self):
        csv = {"r.csv": "a,b\n1,2.5\n2,1.25\n"}
        forward = "SELECT 1 AS a, 2.5 AS b UNION ALL SELECT 2, 1.25"
        backward = "SELECT 2 AS a, 1.25 AS b UNION ALL SELECT 1, 2.5"
        rough = "SELECT 1 AS a, 2.54 AS b UNION ALL SELECT 2, 1.25"
        rows = [
            ("order is free", {}, backward, "PASS"),
            ("exact", {"order": "exact"}, forward, "PASS"),
            ("not exact", {"order": "exact"}, backward, "FAIL order"),
            ("by a column", {"order": "by a"}, backward, "FAIL order"),
            ("by another", {"order": "by b"}, backward, "PASS"),
            ("decimals", {"decimals": 1}, rough, "PASS"),
            ("no decimals", {}, rough, "FAIL rows"),
            ("decimals of a column", {"decimals.b": 1}, rough, "PASS"),
            ("optional", {"optional": ["b"]}, "SELECT 1 AS a UNION ALL SELECT 2", "PASS"),
            ("names", {"columns": "names"}, "SELECT 2.5 AS b, 1 AS a UNION ALL SELECT 1.25, 2", "PASS"),
        ]
        for name, contract, candidate, verdict in rows:
            with self.subTest(name):
                self.assertVerdicts(self.one(candidate, rows="r.csv", contract=contract, csv=csv), verdict)

    def test_rows_in_the_record(self):
        rows = [
            ("lists", {"columns": ["a", "b"], "rows": [["7", None], ["8", 2.5]]}, "SELECT '7' AS a, NULL AS b UNION ALL SELECT '8', 2.5", "PASS"),
            ("their types count", {"columns": ["a"], "rows": [["7"]]}, "SELECT 7 AS a", "FAIL type"),
            ("an empty text is none", {"columns": ["a"], "rows": [[""]]}, "SELECT NULL AS a", "FAIL rows"),
            ("objects", {"rows": [{"a": 1, "b": "x"}]}, "SELECT 1 AS a, 'x' AS b", "PASS"),
            ("no rows", {"columns": ["a"], "rows": []}, "SELECT 1 AS a WHERE 0", "PASS vacuous"),
        ]
        for name, question, candidate, verdict in rows:
            with self.subTest(name):
                self.assertVerdicts(self.one(candidate, **question), verdict)

    def test_in_a_commented_set(self):
        self.database("x.sqlite", 1)
        self.put("sets/rows/r.csv", "a\n7\n")
        self.put("sets/q.sql", "-- Q1: text?\n--   rows: rows/r.csv\n\n-- Q2: text?\n--   rows: rows/r.csv\nSELECT 7 AS a;\n")
        argv = ("--questions", "sets/q.sql", "--db", "x.sqlite", "--answers", self.answers("SELECT 7", "SELECT 7"))
        self.assertScore(call(*argv), "2/2 (100%)")

    def test_several_files(self):
        csv = {"one.csv": "a\n1\n", "two.csv": "a\n2\n", "three.csv": "a\n3\n"}
        for value in (1, 2, 3, 4):
            with self.subTest(value):
                ended = self.one(f"SELECT {value} AS a", rows=["one.csv", "two.csv", "three.csv"], csv=csv)
                self.assertVerdicts(ended, "PASS" if value < 4 else "FAIL rows")
                lines = "\n".join(shown(ended.out)["Q1"][1])
                for i, name in enumerate(csv, 1):
                    named = name in lines
                    self.assertTrue(named == (i == value) or (i == value == 1), lines)
        self.put("q.sql", "-- Q1: text?\n--   rows: one.csv, two.csv\n")
        ended = call("--questions", "q.sql", "--db", "empty.sqlite", "--answers", self.answers("SELECT 2"))
        self.assertIn("two.csv", shown(ended.out)["Q1"][1][0])

    def test_beside_a_reference(self):
        csv = {"one.csv": "a\n1\n", "two.csv": "a\n2\n"}
        rows = [
            ("they agree", "SELECT 1 AS a", "one.csv", "SELECT 1", "PASS"),
            ("a wrong candidate", "SELECT 1 AS a", "one.csv", "SELECT 2", "FAIL rows"),
            ("one of several agrees", "SELECT 2 AS a", ["one.csv", "two.csv"], "SELECT 2", "PASS"),
            ("and the others are accepted too", "SELECT 2 AS a", ["one.csv", "two.csv"], "SELECT 1", "PASS"),
            ("disagree, candidate as the reference", "SELECT 2 AS a", "one.csv", "SELECT 2", "ERROR reference_error"),
            ("disagree, candidate as the rows", "SELECT 2 AS a", "one.csv", "SELECT 1", "ERROR reference_error"),
            ("none of several agrees", "SELECT 3 AS a", ["one.csv", "two.csv"], "SELECT 3", "ERROR reference_error"),
            ("a reference that does not run", "SELECT b FROM u", "one.csv", "SELECT 1", "ERROR reference_error"),
        ]
        self.database("x.sqlite", 1)
        for name, text in csv.items():
            self.put(name, text)
        for name, sql, files, candidate, verdict in rows:
            with self.subTest(name):
                ended = self.score([{"sql": sql, "rows": files}, {"sql": "SELECT 1"}], [candidate, "SELECT 1"], "--db", "x.sqlite")
                self.assertVerdicts(ended, verdict, "PASS")

    def test_the_order_of_rows_beside_a_reference_that_sorts(self):
        csv = {"r.csv": "a\n2\n1\n"}
        sql = "SELECT 1 AS a UNION ALL SELECT 2 ORDER BY a"
        self.assertVerdicts(self.one(sql, sql=sql, rows="r.csv", csv=csv), "PASS")
        ended = self.one(sql, sql=sql, rows="r.csv", contract={"order": "exact"})
        self.assertIn("reference_error", ended.out)
        self.assertEqual(ended.code, 2)

    def test_what_is_refused(self):
        self.put("../outside.csv", "a\n1\n")
        self.put("sub/inside.csv", "a\n1\n")
        rows = [
            ("missing", "nowhere.csv", None, ("nowhere.csv",)),
            ("above", "../outside.csv", None, ("outside.csv",)),
            ("above and back", "sub/../../outside.csv", None, ("outside.csv",)),
            ("above on Windows", "..\\outside.csv", None, ("outside.csv",)),
            ("absolute", os.path.abspath("sub/inside.csv"), None, ("inside.csv",)),
            ("a folder", "sub", None, ("sub",)),
            ("standard input", "-", None, ("rows",)),
            ("a NUL", "r\0.csv", None, ("csv",)),
            ("no such characters", "\ud800.csv", None, ("csv",)),
            ("empty", "r.csv", "", ("r.csv",)),
            ("a short row", "r.csv", "a,b\n1,2\n3\n", ("r.csv", "row 2", "1 cell")),
            ("a long row", "r.csv", "a,b\n1,2,3\n", ("r.csv", "row 1", "3 cells")),
            ("an open quote", "r.csv", 'a\n"x\n', ("r.csv",)),
            ("one of two", ["r.csv", "nowhere.csv"], "a\n1\n", ("nowhere.csv",)),
        ]
        for name, file, text, words in rows:
            with self.subTest(name):
                csv = {"r.csv": text} if text is not None else {}
                ended = self.one("SELECT 1", rows=file, csv=csv)
                self.assertRefused(ended, "questions.json", *words)

    def test_the_list_names_them(self):
        self.one("SELECT 1", rows="r.csv", csv={"r.csv": "a\n1\n"})
        self.assertIn("r.csv", call("--questions", "questions.json", "--list").out)

    def test_what_is_in_a_file_changes_the_digest(self):
        """Two scores with the same signature measured the same thing."""
        found = set()
        for text in ("a\n1\n", "a\n2\n", "b\n1\n"):
            ended = self.one("SELECT 1", rows="r.csv", csv={"r.csv": text})
            found.add(re.search(r"\|questions:(\w+)\|", ended.out)[1])
        self.assertEqual(len(found), 3)


# ---- alternatives --------------------------------------------------------------------------------


class Alternatives(Scratch):
    def one(self, candidate, sqls, *argv, **question):
        self.database("x.sqlite", 1, 2, 3) if not os.path.exists("x.sqlite") else None
        return self.score([{"sql": sqls, **question}, {"sql": "SELECT 1"}], [candidate, "SELECT 1"], "--db", "x.sqlite", *argv)

    def test_the_one_that_matches_is_named(self):
        sqls = ["SELECT 1", "SELECT 2", "SELECT 3"]
        for value, words in ((1, ""), (2, "alternative 2"), (3, "alternative 3")):
            ended = self.one(f"SELECT {value}", sqls, "--csv", "s.csv")
            self.assertVerdicts(ended, "PASS", "PASS")
            self.assertIn(words, " ".join(shown(ended.out)["Q1"][1]))
            self.assertIn(words, Path("s.csv").read_text())
            self.assertEqual(bool(shown(ended.out)["Q1"][1]), value > 1)
        self.assertVerdicts(self.one("SELECT 4", sqls), "FAIL rows", "PASS")

    def test_in_a_commented_set(self):
        self.database("x.sqlite", 1)
        self.put("q.sql", "-- Q1: text?\nSELECT 1;\n\n-- Q1 or: as good\nSELECT 1, 2;\n")
        ended = call("--questions", "q.sql", "--db", "x.sqlite", "--answers", self.answers("SELECT 1, 2"))
        self.assertScore(ended, "1/1 (100%)")
        self.assertIn("alternative 2", shown(ended.out)["Q1"][1][0])

    def test_one_that_does_not_run(self):
        broken = "SELECT z FROM nowhere"
        rows = [
            ("the first matches", ["SELECT 1", broken], "SELECT 1", "PASS"),
            ("a later one matches", ["SELECT 1", broken, "SELECT 3"], "SELECT 3", "PASS"),
            ("none matches", ["SELECT 1", broken, "SELECT 3"], "SELECT 4", "ERROR reference_error"),
            ("the first does not run, another matches", [broken, "SELECT 2"], "SELECT 2", "PASS"),
            ("the first does not run, none matches", [broken, "SELECT 2"], "SELECT 4", "ERROR reference_error"),
            ("the candidate does not run", ["SELECT 1", broken], "SELECT y", "ERROR sql_error"),
        ]
        for name, sqls, candidate, verdict in rows:
            with self.subTest(name):
                self.assertVerdicts(self.one(candidate, sqls), verdict, "PASS")

    def test_each_has_its_own_order(self):
        free, sorted_ = "SELECT a, 1 AS b FROM t", "SELECT a FROM t ORDER BY a"
        rows = [
            ("free in the second", [sorted_, free], "SELECT a, 1 AS b FROM t ORDER BY a DESC", "PASS"),
            ("sorted in the first", [sorted_, free], "SELECT a FROM t ORDER BY a DESC", "FAIL order"),
            ("sorted in the second, right", [free, sorted_], "SELECT a FROM t ORDER BY a", "PASS"),
            ("ties in the second", ["SELECT 9", "SELECT a FROM t ORDER BY a > 1"], "SELECT a FROM t ORDER BY a > 1, a DESC", "PASS"),
            ("no tie in the second", ["SELECT 9", "SELECT a FROM t ORDER BY a > 1"], "SELECT a FROM t ORDER BY a > 1 DESC", "FAIL"),
        ]
        for name, sqls, candidate, verdict in rows:
            with self.subTest(name):
                ended = self.one(candidate, sqls)
                self.assertEqual(f"{shown(ended.out)['Q1'][0]} {''.join(shown(ended.out)['Q1'][1]).partition(':')[0]}".startswith(verdict), True, ended.out)
                self.assertEqual(shown(ended.out)["Q1"][0], verdict.split()[0])

    def test_a_trap_does_not_take_a_match_away(self):
        traps = [{"name": "two", "why": "counts two", "sql": "SELECT 2"}, {"name": "four", "why": "counts four", "sql": "SELECT 4"}]
        ended = self.one("SELECT 2", ["SELECT 1", "SELECT 2"], traps=traps)
        self.assertVerdicts(ended, "PASS", "PASS")
        ended = self.one("SELECT 4", ["SELECT 1", "SELECT 2"], traps=traps)
        self.assertVerdicts(ended, "FAIL rows", "PASS")
        self.assertIn("trap: four (counts four)", shown(ended.out)["Q1"][1][1])

    def test_a_vacuous_one(self):
        ended = self.one("SELECT a FROM t WHERE a > 5", ["SELECT 1", "SELECT a FROM t WHERE 0"])
        self.assertVerdicts(ended, "PASS vacuous", "PASS")


# ---- languages and selection ---------------------------------------------------------------------


class Languages(Scratch):
    ITALIAN = "Quanti clienti attivi abbiamo?"

    def test_of_the_ten(self):
        for code, text in (
            ("it", self.ITALIAN),
            ("zh-Hant", "\u6211\u5011\u6709\u591a\u5c11\u4f4d\u6d3b\u8e8d\u5ba2\u6236\uff1f"),
            ("en", "How many active customers do we have?"),
        ):
            for way in (code, code.upper()):
                with self.subTest(way):
                    self.assertIn(f"Q01  {text}\n", call("--list", "--lang", way).out)
            self.assertIn(f"-- Q01: {text}\n", call("--init-answers", "-", "--lang", code).out)
        for code in ("fr", "", "english", "zh"):
            with self.subTest(code):
                self.assertRefused(call("--list", "--lang", code), "Q01", "en, it, zh-Hant")

    def test_of_a_set(self):
        self.questions({"question": {"en": "one?", "it": "uno?"}, "sql": "SELECT 1"}, {"question": {"en": "two?"}, "sql": "SELECT 2"}, name="q.json")
        self.assertIn("Q1  one?\n", call("--questions", "q.json", "--list").out)
        self.assertRefused(call("--questions", "q.json", "--list", "--lang", "it"), "Q2", "it")
        self.assertRefused(call("--questions", "q.json", "--list", "--lang", "de"), "Q1", "de")
        self.put("q.sql", "-- Q1: one?\n--   question.it: uno?\nSELECT 1;\n")
        self.assertIn("Q1  uno?\n", call("--questions", "q.sql", "--list", "--lang", "it").out)

    def test_only_the_chosen_questions_need_it(self):
        self.questions({"question": {"en": "one?", "it": "uno?"}, "sql": "SELECT 1"}, {"question": "two?", "sql": "SELECT 2"}, name="q.json")
        ended = call("--questions", "q.json", "--list", "--lang", "it", "--only", "Q1")
        self.assertEqual(ended.code, 0, ended)
        self.assertIn("uno?", ended.out)

    def test_texts_of_any_language_are_markers(self):
        """An unclosed comment costs its own answer alone where the next marker repeats its text."""
        self.database("x.sqlite", 1)
        self.questions(
            {"question": {"en": "how many?", "it": "quanti sono?"}, "sql": "SELECT 1"},
            {"question": {"en": "which one?", "it": "quale di loro?"}, "sql": "SELECT 2"},
            name="q.json",
        )
        self.put("a.sql", "-- Q1: quanti sono?\nSELECT 1 /* open\n\n-- Q2: quale di loro?\nSELECT 2;\n")
        for lang in ((), ("--lang", "it"), ("--lang", "en")):
            with self.subTest(lang):
                ended = call("--questions", "q.json", "--db", "x.sqlite", "--answers", "a.sql", *lang)
                self.assertEqual(shown(ended.out)["Q2"][0], "PASS", ended.out)
                self.assertEqual(warnings_of(ended.out), [])

    def test_italian_answers_to_the_ten(self):
        sql = {question.id: question.sql for question in scorer.QUESTIONS}
        template = call("--init-answers", "-", "--lang", "it").out
        for id, text in sql.items():
            template = re.sub(rf"(-- {id}: .*\n(?:--   .*\n)*)", lambda m, t=text: m[1] + t + ";\n", template)
        self.put("a.sql", template)
        for lang in ((), ("--lang", "it")):
            ended = call("--answers", "a.sql", *lang)
            self.assertScore(ended, "10/10 (100%)")
            self.assertEqual(warnings_of(ended.out), [])
            self.assertEqual(self.ITALIAN in ended.out, bool(lang))


class Selection(Scratch):
    IDS = ("geo-1", "geo-2", "geo-3", "geo-12", "a-b-1", "Q9")

    def setUp(self):
        super().setUp()
        self.database("x.sqlite", 1)
        self.put("q.json", json.dumps([{"id": id, "question": f"about {id}?", "sql": f"SELECT {i}"} for i, id in enumerate(self.IDS)]))
        self.put("a.txt", "".join(f"SELECT {i}\n" for i in range(len(self.IDS))))

    def run_part(self, *argv):
        return call("--questions", "q.json", "--db", "x.sqlite", "--answers", "a.txt", *argv)

    def test_parts(self):
        rows = [
            (("--limit", "2"), "geo-1 geo-2"),
            (("--only", "geo-12"), "geo-12"),
            (("--only", "geo-1"), "geo-1"),
            (("--only", "geo-1-geo-3"), "geo-1 geo-2 geo-3"),
            (("--only", "geo-1 - geo-3"), "geo-1 geo-2 geo-3"),
            (("--only", "geo-2-geo-12"), "geo-2 geo-3 geo-12"),
            (("--only", "geo-12-a-b-1"), "geo-12 a-b-1"),
            (("--only", "a-b-1-Q9"), "a-b-1 Q9"),
            (("--only", "geo-12,geo-1"), "geo-1 geo-12"),
            (("--only", "geo-1", "--only", "Q9"), "geo-1 Q9"),
            (("--only", "GEO-2"), "geo-2"),
            (("-k", "GEO"), "geo-1 geo-2 geo-3 geo-12"),
            (("-k", "about geo-1"), "geo-1 geo-12"),
            (("-k", "geo", "--limit", "3"), "geo-1 geo-2 geo-3"),
            (("-k", "geo", "--only", "geo-3-Q9", "--limit", "1"), "geo-3"),
        ]
        for argv, ids in rows:
            with self.subTest(argv):
                ended = self.run_part(*argv)
                chosen = ids.split()
                self.assertEqual(list(shown(ended.out)), chosen, ended)
                n = len(chosen)
                self.assertScore(ended, f"{n}/{n} (100%)  [{n} of 6 questions]")
                self.assertIn(f"|asked:{n}/6|", ended.out)
                self.assertEqual([line.split()[1] for line in ended.out.splitlines() if line.startswith("  PASS")], chosen)
                self.assertEqual(call("--questions", "q.json", "--list", *argv).out.count("about "), n)

    def test_all_of_them_is_no_part(self):
        for argv in ((), ("--limit", "6"), ("--limit", "99"), ("--only", "geo-1-Q9"), ("-k", "about")):
            with self.subTest(argv):
                ended = self.run_part(*argv)
                self.assertScore(ended, "6/6 (100%)")
                self.assertIn("|asked:6/6|", ended.out)

    def test_the_signature_of_a_part_is_its_own(self):
        found = {re.search(r"\|questions:(\w+)\|", self.run_part(*argv).out)[1] for argv in ((), ("--limit", "2"), ("--only", "geo-2-geo-3"))}
        self.assertEqual(len(found), 3)

    def test_what_is_refused(self):
        rows = [
            (("--only", "geo-9"), ("geo-9",)),
            (("--only", "geo-1-geo-9"), ("geo-9",)),
            (("--only", "geo"), ("geo",)),
            (("--only", "geo-3-geo-1"), ("geo-3-geo-1", "backwards")),
            (("--only", ""), ()),
            (("-k", "nothing"), ("nothing",)),
            (("--limit", "0"), ("--limit",)),
            (("--limit", "-1"), ("--limit",)),
            (("--limit", "x"), ("--limit", "x")),
        ]
        for argv, words in rows:
            with self.subTest(argv):
                self.assertRefused(self.run_part(*argv), *words)

    def test_predictions_by_line_and_by_position_are_for_the_whole_set(self):
        self.assertScore(self.run_part("--only", "geo-12"), "1/1 (100%)  [1 of 6 questions]")
        self.put("short.txt", "SELECT 3\n" * 5)
        self.assertRefused(call("--questions", "q.json", "--db", "x.sqlite", "--answers", "short.txt", "--only", "geo-12"), "5 lines", "6 questions")


# ---- output --------------------------------------------------------------------------------------


class Output(Scratch):
    def setUp(self):
        super().setUp()
        for id in ("X", "Y"):
            self.database(f"root/{id}/{id}.sqlite", 1)
        self.set = [
            {"id": "17", "question": "one?", "sql": "SELECT a FROM t", "db_id": "X", "difficulty": "simple"},
            {"id": "18", "question": "two?", "sql": "SELECT 2", "db_id": "X", "difficulty": "challenging"},
            {"id": "23", "question": "three?", "sql": "SELECT 3", "db_id": "Y", "difficulty": "simple"},
        ]
        self.put("q.json", json.dumps(self.set))
        self.put("lines.txt", "SELECT 1\nSELECT 0\nSELECT 3\n")

    def run_set(self, answers, *argv, **options):
        return calling.call("--questions", "q.json", "--db-root", "root", "--answers", answers, *argv, **options)

    def test_form_and_pairing_in_the_first_line(self):
        mark = "\t----- bird -----\t"
        rows = [
            ("a.sql", "-- 17: one?\nSELECT 1;\n-- 18: two?\nSELECT 0;\n-- 23: three?\nSELECT 3;\n", ("commented",)),
            ("a.txt", "SELECT 1\tX\nSELECT 0\tX\nSELECT 3\tY\n", ("line",)),
            ("id.json", json.dumps({"17": f"SELECT 1{mark}X", "23": f"SELECT 3{mark}Y", "18": "SELECT 0"}), ("key", "by question id")),
            ("position.json", json.dumps({"0": f"SELECT 1{mark}X", "1": "SELECT 0", "2": f"SELECT 3{mark}Y"}), ("key", "by position")),
            (
                "a.jsonl",
                "".join(json.dumps({"id": id, "sql": sql}) + "\n" for id, sql in (("17", "SELECT 1"), (18, "SELECT 0"), ("23", "SELECT 3"))),
                ("records",),
            ),
            ("chat.md", "first\n```sql\nSELECT 1\n```\nthen\n```\nSELECT 0\n```\n~~~\nSELECT 3\n~~~\n", ("fenced", "order")),
        ]
        for name, text, words in rows:
            with self.subTest(name):
                self.put(name, text)
                ended = self.run_set(name)
                first = ended.out.splitlines()[0]
                self.assertRegex(first, rf"^scoring {re.escape(name)} \(.+\) against root$")
                for word in words:
                    self.assertIn(word, first)
                self.assertEqual([verdict for verdict, _ in shown(ended.out).values()], ["PASS", "FAIL", "PASS"], ended.out)
                self.assertIn("q.json", ended.out.splitlines()[1])

    def table(self, out, title):
        """The rows of one breakdown: name, questions, share."""
        lines = out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith(f"  {title} ") and line.endswith("EX %"))
        rows = []
        for line in lines[at + 1 :]:
            if not line.startswith("  "):
                break
            rows.append(line.split())
        return rows

    def test_breakdowns(self):
        out = self.run_set("lines.txt").out
        self.assertEqual(self.table(out, "difficulty"), [["simple", "2", "100%"], ["challenging", "1", "0%"]])
        self.assertEqual(self.table(out, "database"), [["X", "2", "50%"], ["Y", "1", "100%"]])
        lines = out.splitlines()
        signature = next(i for i, line in enumerate(lines) if line.startswith("nl2sql|"))
        self.assertGreater(signature, max(i for i, line in enumerate(lines) if line.endswith("EX %")))

    def test_breakdowns_add_up(self):
        levels = ("easy", "medium", "hard", "extra", "own", "", "simple")
        rated = [{**self.set[i % 3], "id": str(i), "difficulty": levels[i % len(levels)]} for i in range(30)]
        self.put("q.json", json.dumps(rated))
        self.put("lines.txt", "".join(f"SELECT {i % 4}\n" for i in range(30)))
        ended = self.run_set("lines.txt")
        verdicts = [verdict for verdict, _ in shown(ended.out).values()]
        for title in ("difficulty", "database"):
            rows = self.table(ended.out, title)
            self.assertEqual(sum(int(row[-2]) for row in rows), 30)
            right = sum(round(int(row[-2]) * float(row[-1].rstrip("%")) / 100) for row in rows)
            self.assertEqual(right, verdicts.count("PASS"))

    def test_difficulty_by_spiders_rules(self):
        self.put("q.json", json.dumps([{key: value for key, value in q.items() if key != "difficulty"} for q in self.set]))
        out = self.run_set("lines.txt").out
        self.assertEqual(self.table(out, "difficulty"), [["easy", "3", "66.7%"]])

    def test_none_for_the_ten(self):
        self.put("none.sql", call("--init-answers", "-").out)
        out = call("--answers", "none.sql").out
        self.assertNotIn("EX %", out)
        self.assertTrue(last_line(out).startswith("execution accuracy: 0/10"))

    def test_no_table_of_databases_without_ids(self):
        self.database("x.sqlite", 1)
        self.put("q.json", json.dumps([{"question": "w?", "sql": "SELECT 1"}]))
        out = call("--questions", "q.json", "--db", "x.sqlite", "--answers", self.put("one.txt", "SELECT 1\n")).out
        self.assertIn("difficulty", out)
        self.assertNotIn("\n  database ", out)

    def test_columns_of_the_table(self):
        head = "question_id,question,verdict,detail,reason,traps,rows_got,rows_wanted,seconds,reference_seconds,tool,db_id,difficulty"
        self.run_set("lines.txt", "--csv", "s.csv")
        lines = Path("s.csv").read_text().splitlines()
        self.assertEqual(lines[0], head)
        self.assertEqual([line.split(",")[-2:] for line in lines[1:4]], [["X", "simple"], ["X", "challenging"], ["Y", "simple"]])
        self.assertEqual(lines[4:], ["", "accuracy_on_variants,1/3", "execution_accuracy,2/3"])
        self.run_set("lines.txt", "--csv", "s.csv", "--variants", "0")
        self.assertEqual(Path("s.csv").read_text().splitlines()[4:], ["", "execution_accuracy,2/3"])
        self.put("none.sql", call("--init-answers", "-").out)
        out = call("--answers", "none.sql", "--csv", "-").out
        self.assertEqual(out.splitlines()[0], head)

    def test_cells_that_a_spreadsheet_would_run(self):
        self.database("root/=x/=x.sqlite", 1)
        self.put("q.json", json.dumps([{"id": "=1", "question": "@sum?", "sql": "SELECT 1", "db_id": "=x", "difficulty": "-hard"}]))
        self.run_set(self.put("one.txt", "SELECT 1\n"), "--csv", "s.csv")
        cells = next(csv.reader(Path("s.csv").read_text().splitlines()[1:2]))
        self.assertEqual([cells[0], cells[1], cells[-2], cells[-1]], ["'=1", "'@sum?", "'=x", "'-hard"])

    def test_no_input_is_overwritten(self):
        self.put("r.csv", "a\n1\n")
        self.put("frozen.json", json.dumps([{"question": "w?", "rows": "r.csv", "db_id": "X"}]))
        self.put("one.txt", "SELECT 1\n")
        self.put("dump/X.sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1);")
        self.put("gold.sql", "SELECT a FROM t\tX\nSELECT 2\tX\nSELECT 3\tY\n")
        self.put("set.zip", zipped({"q.json": json.dumps(self.set)}))
        rows = [
            ("the questions", ("--questions", "q.json", "--answers", "lines.txt", "--db-root", "root"), "q.json"),
            ("by another way", ("--questions", "q.json", "--answers", "lines.txt", "--db-root", "root"), os.path.abspath("root/../q.json")),
            ("a zip", ("--questions", "set.zip", "--answers", "lines.txt", "--db-root", "root"), "set.zip"),
            ("gold lines", ("--questions", "gold.sql", "--questions", "q.json", "--answers", "lines.txt", "--db-root", "root"), "gold.sql"),
            ("their texts", ("--questions", "gold.sql", "--questions", "q.json", "--answers", "lines.txt", "--db-root", "root"), "q.json"),
            ("the answers", ("--questions", "q.json", "--answers", "lines.txt", "--db-root", "root"), "lines.txt"),
            ("a database", ("--questions", "q.json", "--answers", "lines.txt", "--db-root", "root"), "root/X/X.sqlite"),
            ("a dump", ("--questions", "frozen.json", "--answers", "one.txt", "--db-root", "dump"), "dump/X.sql"),
            ("frozen rows", ("--questions", "frozen.json", "--answers", "one.txt", "--db-root", "root"), "r.csv"),
        ]
        for name, argv, target in rows:
            with self.subTest(name):
                before = Path(target).read_bytes()
                ended = call(*argv, "--csv", target)
                after = Path(target).read_bytes()
                Path(target).write_bytes(before)
                self.assertEqual(after, before, "overwritten")
                self.assertRefused(ended, "--csv", os.path.basename(target))

    def test_standard_input(self):
        lines = Path("lines.txt").read_bytes()
        questions = Path("q.json").read_bytes()
        root = ("--db-root", "root")
        ended = self.run_set("-", stdin=lines)
        self.assertScore(ended, "2/3 (66.7%)")
        self.assertIn("standard input", ended.out.splitlines()[0])
        ended = call("--questions", "-", *root, "--answers", "lines.txt", stdin=questions)
        self.assertScore(ended, "2/3 (66.7%)")
        self.assertIn("standard input", ended.out.splitlines()[1])
        for argv in (("--questions", "-", "--answers", "-"), ("--questions", "-", "--questions", "-", "--answers", "lines.txt")):
            self.assertRefused(call(*argv, *root, stdin=questions), "standard input")
        self.assertRefused(call("--questions", "-", *root, "--answers", "lines.txt", stdin=b""), "standard input")
        self.put("r.csv", "a\n1\n")
        self.put("one.txt", "SELECT 1\n")
        rows = json.dumps([{"question": "w?", "rows": "r.csv", "db_id": "X"}]).encode()
        self.assertScore(call("--questions", "-", *root, "--answers", "one.txt", stdin=rows), "1/1 (100%)")

    def test_gold_lines_and_their_texts(self):
        self.put("gold.sql", "SELECT a FROM t\tX\nSELECT 0\tX\n\nSELECT 3\tY\n")
        for argv in (("gold.sql", "q.json"), ("q.json", "gold.sql")):
            with self.subTest(argv):
                ended = call("--questions", argv[0], "--questions", argv[1], "--db-root", "root", "--answers", "lines.txt")
                self.assertScore(ended, "3/3 (100%)")
                for word in ("one?", "gold.sql", "q.json"):
                    self.assertIn(word, ended.out)
        self.assertScore(call("--questions", "gold.sql", "--db-root", "root", "--answers", "lines.txt"), "3/3 (100%)")

    def test_pairs_that_do_not_fit(self):
        self.put("gold.sql", "SELECT a FROM t\tX\nSELECT 0\tX\nSELECT 3\tY\n")
        self.put("two.json", json.dumps(self.set[:2]))
        self.put("other.json", json.dumps([self.set[0], self.set[2], self.set[1]]))
        rows = [
            (("gold.sql", "two.json"), ("gold.sql", "two.json", "3", "2")),
            (("two.json", "gold.sql"), ("gold.sql", "two.json", "3", "2")),
            (("gold.sql", "other.json"), ("line 2", "X", "Y")),
            (("q.json", "q.json"), ("gold",)),
            (("q.json", "other.json"), ()),
            (("gold.sql", "gold.sql"), ("gold",)),
            (("gold.sql", "q.json", "q.json"), ("--questions",)),
            (("gold.sql", "nowhere.json"), ("nowhere.json",)),
        ]
        for files, words in rows:
            with self.subTest(files):
                options = [word for file in files for word in ("--questions", file)]
                self.assertRefused(call(*options, "--db-root", "root", "--answers", "lines.txt"), *words)

    def test_the_number_of_workers_changes_nothing(self):
        reports = []
        for jobs in ("1", "2"):
            out = self.run_set("lines.txt", "--jobs", jobs).out
            reports.append(out)
        self.assertEqual(reports[0], reports[1])

    def test_the_list_tells_sizes(self):
        out = call("--questions", "q.json", "--db-root", "root", "--list").out
        self.assertRegex(out, r"\nX +1 +1 +0\n")
        self.assertRegex(out, r"\nY +1 +1 +0\n")
        self.assertIn("q.json: JSON, 3 questions", out)


# ---- contracts of published evaluators -----------------------------------------------------------


class Presets(Scratch):
    CASES = [
        # reference, candidate, verdicts: own, spider, bird
        ("SELECT a FROM t", "SELECT DISTINCT a FROM t", "FAIL duplicates", "FAIL", "PASS"),
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC", "FAIL order", "FAIL", "PASS"),
        ("SELECT a, b FROM t", "SELECT b AS x, a AS y FROM t", "FAIL", "PASS", "FAIL"),
        ("SELECT 0.1 + 0.2", "SELECT 0.3", "PASS", "FAIL", "FAIL"),
        ("SELECT 2", "SELECT 2.0", "PASS", "PASS", "PASS"),
        ("SELECT a FROM t", "SELECT a + 1 FROM t", "FAIL rows", "FAIL", "FAIL"),
    ]

    def setUp(self):
        super().setUp()
        with contextlib.closing(sqlite3.connect("x.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE t (a, b)")
            connection.execute("INSERT INTO t VALUES (1, 5), (2, 6), (2, 6)")

    def test_verdicts(self):
        questions = [{"sql": reference} for reference, *_ in self.CASES]
        for preset, at in (("", 2), ("spider", 3), ("bird", 4)):
            with self.subTest(preset or "own"):
                argv = ("--contract", preset) if preset else ()
                ended = self.score(questions, [case[1] for case in self.CASES], "--db", "x.sqlite", *argv)
                self.assertEqual([verdict for verdict, _ in shown(ended.out).values()], [case[at].split()[0] for case in self.CASES], ended.out)

    def test_it_replaces_the_questions_own_and_is_in_the_signature(self):
        question = {"sql": "SELECT 1.04", "contract": {"decimals": 1}}
        signatures = set()
        for argv, verdict in (((), "PASS"), (("--contract", "spider"), "FAIL"), (("--contract", "bird"), "FAIL")):
            ended = self.score([question], ["SELECT 1.0"], "--db", "x.sqlite", *argv)
            self.assertEqual(shown(ended.out)["Q1"][0], verdict, ended.out)
            signatures.add(re.search(r"\|contract:(\w+)\|", ended.out)[1])
        self.assertEqual(len(signatures), 3)
        self.assertRefused(self.score([question], ["SELECT 1"], "--db", "x.sqlite", "--contract", "wikisql"), "wikisql", "spider", "bird")

    def test_traps_are_still_named(self):
        question = {"sql": "SELECT SUM(b) FROM t", "traps": [{"name": "distinct", "why": "drops a row", "sql": "SELECT SUM(DISTINCT b) FROM t"}]}
        for preset in ("spider", "bird"):
            with self.subTest(preset):
                ended = self.score([question], ["SELECT 11"], "--db", "x.sqlite", "--contract", preset)
                self.assertVerdicts(ended, "FAIL rows")
                self.assertIn("trap: distinct (drops a row)", ended.out)

    def test_for_alternatives_and_rows(self):
        questions = [{"sql": ["SELECT 9", "SELECT a FROM t ORDER BY a"]}, {"columns": ["a", "b"], "rows": [[1, 5], [2, 6], [2, 6]]}]
        for preset, wanted in (("spider", ["FAIL", "FAIL"]), ("bird", ["PASS", "PASS"])):
            with self.subTest(preset):
                ended = self.score(questions, ["SELECT a FROM t ORDER BY a DESC", "SELECT DISTINCT a, b FROM t"], "--db", "x.sqlite", "--contract", preset)
                self.assertEqual([verdict for verdict, _ in shown(ended.out).values()], wanted, ended.out)

    def test_on_the_ten(self):
        self.put("a.sql", "".join(f"-- {q.id}: {q.text}\n{q.sql};\n" for q in scorer.QUESTIONS))
        for preset in ("spider", "bird"):
            self.assertScore(call("--answers", "a.sql", "--contract", preset), "10/10 (100%)")

    def test_the_samples(self):
        root = ("--db-root", os.path.join(SAMPLES, "database"))
        for questions, answers, preset, score in (
            ("spider_dev.json", "spider_predicted.txt", "spider", "3/5 (60%)"),
            ("bird_dev.json", "bird_predict.json", "bird", "3/3 (100%)"),
        ):
            with self.subTest(preset):
                argv = ("--questions", f"{SAMPLES}/{questions}", "--answers", f"{SAMPLES}/{answers}", *root)
                self.assertScore(call(*argv, "--contract", preset), score)


if __name__ == "__main__":
    unittest.main()
