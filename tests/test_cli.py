"""The command line as a user and a script meet it: files, streams, exit codes, words.

Where a real process is not the point, `main` is called in this one with its streams replaced;
the runs that need a process start together, two at a time, and each test looks at one of them.
"""

import contextlib
import csv
import functools
import hashlib
import io
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from calling import (  # noqa: E402
    Ended,
    call,
    environment,
    folder_of_its_own,
    last_line,
    stream,
    workers_kept,
    written,
)

import make_messy_schema  # noqa: E402
import score_nl2sql as scorer  # noqa: E402

SCORER = ROOT / "score_nl2sql.py"
POSIX = os.name == "posix"
LINUX = sys.platform.startswith("linux")
VERDICT = re.compile(r"^  (PASS |FAIL |ERROR|SKIP ) (Q\d\d)  (.+)$")
STRAY = re.compile(r"^\s*(PASS|FAIL|ERROR|SKIP)\b")
REASONS = {
    "FAIL": {"rows", "duplicates", "columns", "order", "type", "invariant"},
    "ERROR": {
        "sql_error", "timeout", "forbidden", "multiple_statements", "too_large", "crash",
        "ambiguous_sql", "reference_error",
    },
    "SKIP": {"no_sql"},
    "PASS": {"coincidence", "vacuous"},
}  # fmt: skip

TEXTS = {
    "Q01": "How many active customers do we have?",
    "Q02": "What was total revenue in Q1 2025?",
    "Q03": "How many customers placed an order in 2025?",
    "Q04": "What is the average order value for completed orders?",
    "Q05": "What is total revenue by plan tier?",
    "Q06": "What is the total value of all order items?",
    "Q07": "Which acquisition channel has the highest revenue per customer?",
    "Q08": "How many orders have not been closed yet?",
    "Q09": "What is the actual lifetime revenue of customer 1, based on their orders?",
    "Q10": "How many enterprise customers signed up in 2025?",
}
IDS = list(TEXTS)
SQL = {question.id: question.sql for question in scorer.QUESTIONS}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
NOT_ONE_LINE = "SELECT 'x' || char(10) || '  PASS  Q02  forged' || char(10) || 'execution accuracy'"
FEW = "CASE WHEN (SELECT COUNT(*) FROM orders) < 100"  # as on a variant
STRANGE = "SELECT 'a' || char(0) || char(27) || '[31m' || char(65534) || ']]>' AS n"
SNOWMAN = "SELECT 'na\u00efve \u2603' AS n"

# Seven pass, one fails, one is broken, one is left out.
MIXED = {
    **{q: SQL[q] for q in ("Q01", "Q02", "Q03", "Q04", "Q05", "Q08", "Q09")},
    "Q06": "SELECT SUM(qty * unit_price_cents) FROM order_items;",
    "Q07": "SELECT channel FROM customers_v2;",
}
MIXED_VERDICTS = ["PASS"] * 5 + ["FAIL", "ERROR", "PASS", "PASS", "SKIP"]
MIXED_SCORES = "accuracy_on_variants,7/10\nexecution_accuracy,7/10\n"
DATA_ALONE = ("--variants", "0")  # where being right by luck is beside the point



shared = {}


def setUpModule():
    folder = tempfile.mkdtemp(prefix="nl2sql-cli-")
    unittest.addModuleCleanup(shutil.rmtree, folder, True)
    shared["database"] = os.path.join(folder, "nl2sql-eval.db")
    make_messy_schema.build(shared["database"])


def answers_text(sql, ids=IDS):
    return "".join(f"-- {q}: {TEXTS[q]}\n{sql.get(q, '')}\n\n" for q in ids)


def start(*argv, script=SCORER, python=(), env=None, **options):
    words = [sys.executable, *python, script, *argv]
    return subprocess.Popen(
        list(map(str, words)),
        env=environment(**(env or {})),
        **{
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            **options,
        },
    )


def run(*argv, stdin=None, encoding="utf-8", timeout=60, **options):
    """The command in a process of its own; TimeoutExpired, and its end, after `timeout` seconds."""
    if stdin is not None:
        options["stdin"] = subprocess.PIPE
    with start(*argv, **options) as process:
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    texts = (b.decode(encoding).replace("\r\n", "\n") for b in (out or b"", err or b""))
    return Ended(process.returncode, *texts)


def verdicts(report):
    """Verdict by id, as the report's lines give it."""
    found = (VERDICT.match(line) for line in report.splitlines())
    return {m[2]: m[1].strip() for m in found if m}


def details(report):
    """Per id the lines that stand below its verdict line, up to the first that is not indented."""
    found, at = {}, None
    for line in report.splitlines():
        match = VERDICT.match(line)
        if match:
            at = match[2]
            found[at] = []
        elif line.startswith(" ") and at:
            found[at].append(line)
        else:
            at = None
    return found


def signature_of(report):
    lines = [line for line in report.splitlines() if "|" in line and "python" in line.lower()]
    return lines[0] if len(lines) == 1 else f"{len(lines)} signature lines"


class Scratch(unittest.TestCase):
    """A temporary folder as the current one, with the database and some answers files in it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = folder_of_its_own(cls, "nl2sql-cli-")
        shutil.copy(shared["database"], "nl2sql-eval.db")
        cls.put("mixed.sql", answers_text(MIXED))
        cls.put("right.sql", answers_text(SQL))
        cls.put("none.sql", answers_text({}))
        with contextlib.closing(sqlite3.connect("bare.db")) as connection:
            connection.execute("CREATE TABLE something_else (x)")
        workers_kept(cls)

    @classmethod
    def put(cls, name, content):
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        Path(name).write_bytes(data)
        return name

    def path(self, name):
        """A new name in the folder, for something that a test makes."""
        folder = tempfile.mkdtemp(dir=str(self.folder))
        return Path(folder, name)

    def assertRefused(self, ended, *words):
        self.assertEqual(ended.code, 2, ended)
        self.assertEqual(ended.out, "")
        self.assertNotIn("Traceback", ended.err)
        for word in words:
            self.assertIn(word.lower(), ended.err.lower())
        self.assertEqual(len(ended.err.splitlines()), 1, ended.err)
        self.assertTrue(ended.err.strip())

    def assertScored(self, ended, code=0):
        self.assertEqual(ended.code, code, ended)
        self.assertNotIn("Traceback", ended.err)
        self.assertTrue(last_line(ended.out).startswith("execution accuracy: "), ended)


# ---- the template --------------------------------------------------------------------------------


class InitAnswers(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.made = call("--init-answers", "template.sql")
        cls.text = Path("template.sql").read_text(encoding="utf-8")

    def test_says_what_it_wrote_and_what_next(self):
        self.assertEqual((self.made.code, self.made.err), (0, ""))
        first = self.made.out.splitlines()[0]
        self.assertIn("template.sql", first)
        self.assertIn("--answers template.sql", self.made.out)

    @unittest.skipUnless(POSIX, "quoting as a POSIX shell reads it")
    def test_the_next_command_can_be_copied(self):
        """Commands that the program tells the user to run survive a path with a space."""
        rows = [
            ("after --init-answers", ("--init-answers", "my answers.sql"), "my answers.sql"),
            ("no answers file", ("--answers", "no answers.sql"), "no answers.sql"),
            (
                "no database",
                ("--answers", "none.sql", "--db", "no data.db"),
                "no data.db",
            ),
        ]
        for name, argv, path in rows:
            with self.subTest(name):
                ended = call(*argv)
                said = [line for line in (ended.out + ended.err).splitlines() if " --" in line]
                self.assertIn(shlex.quote(path), "\n".join(said).replace(f"{path}: ", ""))

    def test_opens_with_the_advice(self):
        opening = self.text.partition("-- Q01:")[0]
        self.assertRegex(opening, "(?i)exactly")
        self.assertRegex(opening, "(?is)without.*mending")
        for line in opening.splitlines():
            self.assertRegex(line, r"^(--.*)?$")

    def test_marker_and_trap_per_question(self):
        lines = self.text.splitlines()
        for question, text in TEXTS.items():
            with self.subTest(question):
                at = lines.index(f"-- {question}: {text}")
                self.assertRegex(lines[at + 1], r"^--   watch for: \S")
                self.assertEqual(lines[at + 2], "", "room for the SQL")
        self.assertEqual(sum(line.startswith("-- Q") for line in lines), 10)

    def test_nothing_else_is_in_the_template(self):
        for line in self.text.splitlines():
            self.assertRegex(line, r"^(--.*)?$")
        self.assertTrue(self.text.endswith("\n"))
        self.assertNotIn("\r", self.text)

    def test_refuses_to_overwrite(self):
        for name, old in (("mine.sql", b"\xffmy work\r\n"), ("empty.sql", b"")):
            with self.subTest(name):
                self.put(name, old)
                self.assertRefused(call("--init-answers", name), name, "exists")
                self.assertEqual(Path(name).read_bytes(), old)

    def test_leaves_no_temporary_file(self):
        path = self.path("t.sql")
        call("--init-answers", path)
        self.assertEqual(os.listdir(path.parent), ["t.sql"])
        self.put(path, b"old")
        call("--init-answers", path)
        self.assertEqual(os.listdir(path.parent), ["t.sql"])

    def test_a_dash_is_no_file_name(self):
        """It is standard output here as elsewhere, or refused: `--answers -` reads no file."""
        ended = call("--init-answers", "-")
        self.assertFalse(os.path.exists("-"))
        self.assertTrue(ended.code == 2 or f"-- Q01: {TEXTS['Q01']}\n" in ended.out, ended)

    def test_a_fresh_template_is_ten_skips(self):
        ended = call("--answers", "template.sql")
        self.assertScored(ended)
        self.assertEqual(verdicts(ended.out), dict.fromkeys(IDS, "SKIP"))
        self.assertNotIn("warning", (ended.out + ended.err).lower())
        self.assertEqual(last_line(ended.out), "execution accuracy: 0/10 (0%)")

    def test_references_in_the_template_score_all(self):
        text = self.text
        for question, sql in SQL.items():
            marker = re.escape(f"-- {question}: ")
            text = re.sub(f"({marker}.*\n.*\n)", lambda m, s=sql: f"{m[1]}{s};\n", text)
        self.put("filled.sql", text)
        ended = call("--answers", "filled.sql")
        self.assertScored(ended)
        self.assertEqual(verdicts(ended.out), dict.fromkeys(IDS, "PASS"), ended.out)
        self.assertEqual(last_line(ended.out), "execution accuracy: 10/10 (100%)")
        self.assertNotIn("warning", (ended.out + ended.err).lower())


# ---- the report ----------------------------------------------------------------------------------


class Report(Scratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.ended = call("--answers", "mixed.sql")
        cls.lines = cls.ended.out.splitlines()
        cls.right = call("--answers", "right.sql")

    def test_scored_is_0_and_quiet_on_stderr(self):
        self.assertScored(self.ended)
        self.assertEqual(self.ended.err, "")

    def test_first_line(self):
        self.assertEqual(self.lines[0], "scoring mixed.sql (commented) against nl2sql-eval.db")

    def test_verdict_lines(self):
        found = [VERDICT.match(line) for line in self.lines]
        rows = [(m[1].strip(), m[2], m[3]) for m in found if m]
        self.assertEqual(rows, [(v, q, TEXTS[q]) for v, q in zip(MIXED_VERDICTS, IDS)])
        self.assertIn("  PASS  Q01  How many active customers do we have?", self.lines)
        self.assertIn("  ERROR Q07  " + TEXTS["Q07"], self.lines)

    def test_detail_lines(self):
        for question, lines in details(self.ended.out).items():
            verdict = MIXED_VERDICTS[IDS.index(question)]
            with self.subTest(question):
                self.assertLessEqual(len(lines), 2)
                self.assertEqual(bool(lines), verdict != "PASS")
                for line in lines:
                    self.assertRegex(line, r"^ {10}[a-z_]+: \S")
                    self.assertIn(line.strip().partition(":")[0], REASONS[verdict])

    def test_a_fail_says_rows_got_and_wanted_and_the_trap(self):
        shown = " ".join(details(self.ended.out)["Q06"])
        for piece in ("got 1", "wanted 1", "missing (", "unexpected (", "x1", "cents"):
            self.assertIn(piece, shown)

    def test_no_other_line_begins_with_a_verdict_word(self):
        for line in self.lines:
            if not VERDICT.match(line):
                self.assertNotRegex(line, STRAY)

    def test_skipped_and_broken_are_named(self):
        rest = [line for line in self.lines if not line.startswith(" ")]
        self.assertTrue(any("skipped" in line and "Q10" in line for line in rest), rest)
        self.assertTrue(any("Q07" in line and "Q10" not in line for line in rest), rest)

    def test_order_of_the_last_lines(self):
        patterns = (
            "skipped",
            r"95%.*interval|interval.*95%",
            r"\|.*python",
            "--tool",
            "^test-suite accuracy",
            "^execution",
        )
        at = [
            [i for i, line in enumerate(self.lines) if re.search(pattern, line, re.I)]
            for pattern in patterns
        ]
        self.assertEqual([len(found) for found in at], [1] * 6, at)
        self.assertEqual(at, sorted(at))
        self.assertEqual(at[-1], [len(self.lines) - 1])

    def test_last_two_lines(self):
        self.assertEqual(self.lines[-2], "test-suite accuracy: 7/10 (70%)  [40 variants, seed 1]")
        self.assertEqual(self.lines[-1], "execution accuracy: 7/10 (70%)")
        self.assertTrue(self.ended.out.endswith("(70%)\n"))

    def test_without_variants_there_is_no_line_of_them(self):
        ended = call("--answers", "mixed.sql", *DATA_ALONE)
        lines = [x.replace("variants:0|", "variants:40|") for x in ended.out.splitlines()]
        self.assertEqual(lines, [*self.lines[:-2], self.lines[-1]])

    def test_interval(self):
        rows = [
            ("7/10", self.ended, "39.7", "89.2"),
            ("10/10", self.right, "72.2", "100"),
            ("0/10", call("--answers", "none.sql"), "0", "27.8"),
        ]
        for name, ended, low, high in rows:
            with self.subTest(name):
                line = [x for x in ended.out.splitlines() if "95%" in x][0]
                low, high = re.escape(low), re.escape(high)
                self.assertRegex(line, rf"(?<![\d.]){low}(\.0)?%?\D+{high}(\.0)?%?(?!\d)")
                self.assertIn("wilson", line.lower())

    def test_attempted_is_a_second_labelled_number(self):
        """Two of four answered, both right: 2/4, two skips said, 2 of 2 attempted beside it."""
        self.put("two.sql", answers_text({"Q01": SQL["Q01"], "Q02": SQL["Q02"]}))
        ended = call("--answers", "two.sql", "--only", "Q01-Q04")
        self.assertTrue(last_line(ended.out).startswith("execution accuracy: 2/4 (50%)"))
        attempted = [x for x in ended.out.splitlines() if "attempted" in x]
        self.assertEqual(len(attempted), 1)
        self.assertRegex(attempted[0], r"skipped.*2.*\b2 of 2 attempted")

    def test_tool(self):
        for name, argv in (("given", ("--tool", "Acme 2.1")), ("not given", ())):
            with self.subTest(name):
                ended = call("--answers", "none.sql", "--only", "Q01", *argv)
                line = [x for x in ended.out.splitlines() if "version" in x.lower()]
                self.assertEqual(len(line), 1, ended.out)
                self.assertRegex(line[0], "(?i)tool.*version.*date")
                self.assertIn("Acme 2.1" if argv else "--tool", line[0])

    def test_a_name_cannot_forge_a_line(self):
        rows = [("tool", ["--tool", "A\n  PASS  Q01  x\nexecution accuracy: 10/10 (100%)\x1b[31m"])]
        name = "mixed.sql"
        if POSIX:
            name = "m\n  PASS  Q01  x"
            shutil.copy("mixed.sql", name)
        rows.append(("answers file", []))
        for label, argv in rows:
            with self.subTest(label):
                ended = call("--answers", name if label == "answers file" else "mixed.sql", *argv)
                self.assertEqual(len(ended.out.splitlines()), len(self.lines))
                self.assertEqual(list(verdicts(ended.out).values()), MIXED_VERDICTS)
                self.assertNotIn("\x1b", ended.out)
                self.assertEqual(last_line(ended.out), "execution accuracy: 7/10 (70%)")

    def test_what_comes_back_is_escaped(self):
        sql = {**SQL, "Q01": NOT_ONE_LINE, "Q02": STRANGE, "Q03": 'SELECT "a\nPASS  Q04" FROM x',
               "Q05": SQL["Q05"].replace("c.plan_tier,", f"{FEW} THEN ({STRANGE}) ELSE c.plan_tier END,", 1),
               "Q08": f"SELECT {FEW} THEN ({NOT_ONE_LINE}) ELSE ({SQL['Q08']}) END AS n"}  # fmt: skip
        self.put("strange.sql", answers_text(sql))
        ended = call("--answers", "strange.sql", "--csv", "strange.csv")
        want = dict.fromkeys(IDS, "PASS")
        want.update(Q01="FAIL", Q02="FAIL", Q03="ERROR")
        self.assertEqual(verdicts(ended.out), want)
        table = Path("strange.csv").read_text(encoding="utf-8")
        for name, text in (("report", ended.out), ("CSV", table)):
            with self.subTest(name):
                self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f\ufffe]")
                self.assertIn("]]>", text, "nothing is lost behind the NUL")
        for question, lines in details(ended.out).items():
            self.assertLessEqual(len(lines), 2)
            self.assertEqual("coincidence: on a variant" in "".join(lines), question in ("Q05", "Q08"))
        self.assertEqual(len(table.splitlines()), 14)
        shown = call("--answers", "strange.sql", "-v").out
        self.assertEqual(verdicts(shown), want)
        self.assertIn("counterexample (variant ", shown)
        self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f\ufffe]")

    def test_four_different_reasons(self):
        """A wrong row, an unknown column, an endless query, a broken reference."""
        shutil.copy("nl2sql-eval.db", "no-items.db")
        with contextlib.closing(sqlite3.connect("no-items.db")) as connection:
            connection.execute("DROP TABLE order_items")
        self.put(
            "four.sql",
            answers_text({"Q01": "SELECT 0", "Q02": "SELECT nope FROM orders", "Q06": SQL["Q06"],
                          "Q08": ENDLESS, "Q09": SQL["Q09"]}),
        )  # fmt: skip
        argv = ("--only", "Q01,Q02,Q06,Q08,Q09", "--timeout", "0.2", "--csv", "four.csv")
        ended = call("--answers", "four.sql", "--db", "no-items.db", *argv)
        want = {"Q01": "rows", "Q02": "sql_error", "Q06": "reference_error", "Q08": "timeout"}
        shown = details(ended.out)
        with open("four.csv", encoding="utf-8", newline="") as file:
            table = {row[0]: row for row in csv.reader(file) if row}
        for question, reason in want.items():
            with self.subTest(question):
                self.assertTrue(shown[question][0].startswith(" " * 10 + reason + ":"), shown)
                self.assertTrue(table[question][3].startswith(reason + ":"), table[question])
        self.assertIn("of the 4 whose reference runs: 1", self.line_with(ended, "whose reference"))
        self.assertTrue(last_line(ended.out).startswith("execution accuracy: 1/5 (20%)"))
        self.assertEqual(ended.code, 0)

    def line_with(self, ended, words):
        found = [line for line in ended.out.splitlines() if words in line]
        self.assertEqual(len(found), 1, ended.out)
        return found[0]

    def test_reference_error(self):
        """A database without the tables: the reference and the candidate fail alike."""
        ended = call("--answers", "right.sql", "--db", "bare.db")
        self.assertEqual(ended.code, 2)  # nothing was scored, and a script must not think so
        self.assertIn("bare.db: no reference runs on it", ended.err)
        self.assertEqual(verdicts(ended.out), dict.fromkeys(IDS, "ERROR"))
        for lines in details(ended.out).values():
            self.assertTrue(lines[0].startswith(" " * 10 + "reference_error: "), lines)
        self.assertIn("of the 0 whose reference runs: 0", self.line_with(ended, "whose reference"))
        self.assertEqual(last_line(ended.out), "execution accuracy: 0/10 (0%)")

    def test_warnings(self):
        rows = [
            ("prose first", "Here you are:\n" + answers_text(SQL), ["warning"]),
            ("unknown id", answers_text(SQL) + "-- Q11: more\nSELECT 1\n", ["warning", "Q11",
                                                                           "did you mean"]),
            ("Latin-1", answers_text({**SQL, "Q01": "-- caf\u00e9\n" + SQL["Q01"]})
             .encode("latin-1"), ["warning", "latin-1"]),
            ("no marker", "SELECT 1;\n", ["warning"]),
        ]  # fmt: skip
        for name, content, words in rows:
            with self.subTest(name):
                self.put("warned.sql", content)
                ended = call("--answers", "warned.sql")
                self.assertScored(ended)
                verdict = "SKIP" if name == "no marker" else "PASS"
                self.assertEqual(verdicts(ended.out), dict.fromkeys(IDS, verdict))
                for word in words:
                    self.assertIn(word.lower(), (ended.out + ended.err).lower())

    def test_empty_answers(self):
        for name, content in (("empty", b""), ("byte-order mark", b"\xef\xbb\xbf"), ("nl", b"\n")):
            with self.subTest(name):
                self.put("empty-answers.sql", content)
                ended = call("--answers", "empty-answers.sql")
                self.assertScored(ended)
                self.assertEqual(verdicts(ended.out), dict.fromkeys(IDS, "SKIP"))

    def test_answers_that_are_not_one(self):
        """Statements, semicolons and markers: what is scored and what is an ERROR."""
        right = SQL["Q01"]
        rows = [
            ("two statements", f"{right}; SELECT 2", "multiple_statements", ()),
            ("two semicolons", f"{right};;", "", ()),
            ("a comment behind", f"{right}; -- done", "", ()),
            ("only comments", "-- nothing\n/* yet */ ;", "no_sql", ()),
            ("a string with both", f"{right} AND email <> 'a; -- b' /* ; */;", "", ()),
        ]
        for name, sql, reason, _ in rows:
            with self.subTest(name):
                self.put("one.sql", answers_text({"Q01": sql}))
                ended = call("--answers", "one.sql", "--only", "Q01", *DATA_ALONE)
                shown = " ".join(details(ended.out)["Q01"]).strip()
                self.assertEqual(shown.partition(":")[0], reason, ended.out)

    def test_a_marker_twice_names_both_lines(self):
        self.put("twice.sql", f"-- Q01: a\nSELECT 1;\n-- Q1: b\n{SQL['Q01']};\n")
        ended = call("--answers", "twice.sql", "--only", "Q01")
        shown = " ".join(details(ended.out)["Q01"])
        self.assertRegex(shown, r"ambiguous_sql: .*\b1\b.*\b3\b")


class Signature(Scratch):
    def test_same_measure_same_line(self):
        shutil.copytree(".", "copy", ignore=shutil.ignore_patterns("copy"))
        data = bytearray(Path("nl2sql-eval.db").read_bytes())
        data[24:28], data[92:100] = b"\0\1\2\3", b"\0\1\2\3\0\4\5\6"
        self.put("touched.db", bytes(data))
        first = signature_of(call("--answers", "mixed.sql").out)
        rows = [
            ("another file and folder", ("--db", Path("copy", "nl2sql-eval.db"))),
            ("SQLite's own counters", ("--db", "touched.db")),
            ("tool, -v, colour", ("--tool", "x", "-v", "--color", "always")),
            ("the default variants", ("--variants", "40")),
            ("nothing answered", ()),
        ]
        for name, argv in rows:
            with self.subTest(name):
                answers = "none.sql" if name == "nothing answered" else "right.sql"
                again = signature_of(call("--answers", answers, *argv).out)
                self.assertEqual(again, first)

    def test_another_measure_another_line(self):
        make_messy_schema.build("other.db", seed=99)
        first = signature_of(call("--answers", "none.sql").out)
        for name, argv in (
            ("data", ("--db", "other.db")),
            ("questions", ("--only", "Q01")),
            ("variants", ("--variants", "39")),
            ("no variants", DATA_ALONE),
        ):
            with self.subTest(name):
                self.assertNotEqual(signature_of(call("--answers", "none.sql", *argv).out), first)

    def test_what_it_holds(self):
        line = signature_of(call("--answers", "right.sql").out)
        data = bytearray(Path("nl2sql-eval.db").read_bytes())
        data[24:28], data[92:100] = bytes(4), bytes(8)
        digest = hashlib.sha256(data).hexdigest()
        python = ".".join(map(str, sys.version_info[:3]))
        self.assertIn(digest[:8], line)
        self.assertRegex(line, r"\|variants:40\|seed:1\|")
        self.assertTrue(line.endswith(f"sqlite:{sqlite3.sqlite_version}|python:{python}"), line)
        for path in (str(self.folder), self.folder.name, ".sql", ".db", os.sep + "t"):
            self.assertNotIn(path, line)
        self.assertNotRegex(line, r"\d\d:\d\d|20\d\d-\d\d", "a clock")


# ---- figures -------------------------------------------------------------------------------------


class Figures(unittest.TestCase):
    def test_percent(self):
        rows = [
            (0, 10, "0%"),
            (10, 10, "100%"),
            (1, 3, "33.3%"),
            (2, 3, "66.7%"),
            (7, 10, "70%"),
            (2, 4, "50%"),
        ]
        for passed, total, want in rows:
            with self.subTest(passed=passed, total=total):
                self.assertEqual(scorer.percent(passed, total), want)

    def test_100_percent_only_when_all_passed(self):
        for passed, total in ((1999, 2000), (10**6 - 1, 10**6), (10**18 - 1, 10**18), (9, 10)):
            with self.subTest(passed=passed, total=total):
                shown = scorer.percent(passed, total)
                self.assertNotIn("100", shown)
                self.assertLess(float(shown.rstrip("%")), 100)


# ---- choosing and showing ------------------------------------------------------------------------


class Selecting(Scratch):
    def test_which_questions(self):
        rows = [
            ("two ids", ("--only", "Q01,Q05"), "Q01 Q05"),
            ("short and lower", ("--only", "q1"), "Q01"),
            ("range", ("--only", "Q02-Q04"), "Q02 Q03 Q04"),
            ("short range and id, spaces", ("--only", " q9 - q10 , Q1"), "Q01 Q09 Q10"),
            ("twice", ("--only", "Q03,q3,Q03-Q03"), "Q03"),
            ("text", ("-k", "revenue"), "Q02 Q05 Q07 Q09"),
            ("text in another case", ("-k", "PLAN TIER"), "Q05"),
            ("both", ("--only", "Q01-Q05", "-k", "revenue"), "Q02 Q05"),
        ]
        for name, argv, want in rows:
            with self.subTest(name):
                ended = call("--answers", "right.sql", *argv)
                self.assertScored(ended)
                ids = want.split()
                self.assertEqual(verdicts(ended.out), dict.fromkeys(ids, "PASS"))
                part = rf"\b{len(ids)}( of |/)10\b"
                last = last_line(ended.out)
                self.assertTrue(
                    last.startswith(f"execution accuracy: {len(ids)}/{len(ids)} (100%)"), last
                )
                self.assertRegex(last, part)
                self.assertEqual(
                    ended.out.splitlines()[-2],
                    f"test-suite accuracy: {len(ids)}/{len(ids)} (100%)  [40 variants, seed 1]",
                )
                self.assertRegex(signature_of(ended.out), part)

    def test_all_ten_chosen_is_a_whole_run(self):
        ended = call("--answers", "none.sql", "--only", "Q01-Q10")
        self.assertEqual(last_line(ended.out), "execution accuracy: 0/10 (0%)")

    def test_other_answers_are_not_run(self):
        self.put("slow.sql", answers_text({"Q01": SQL["Q01"], "Q02": ENDLESS}))
        ended = call("--answers", "slow.sql", "--only", "Q01")
        self.assertEqual(verdicts(ended.out), {"Q01": "PASS"})
        self.assertNotIn("warning", ended.out.lower())

    def test_quiet(self):
        rows = [
            ("plain", "mixed.sql", (), "execution accuracy: 7/10 (70%)\n"),
            ("warnings too", "prose.sql", (), "execution accuracy: 10/10 (100%)\n"),
            ("with CSV", "mixed.sql", ("--csv", "q.csv"), "execution accuracy: 7/10 (70%)\n"),
        ]
        self.put("prose.sql", "Sure!\n" + answers_text(SQL))
        for name, answers, argv, want in rows:
            with self.subTest(name):
                self.assertEqual(call("--answers", answers, "-q", *argv), (0, want, ""))
        self.assertTrue(Path("q.csv").read_text().endswith(f"\n\n{MIXED_SCORES}"))

    def test_verbose(self):
        plain = call("--answers", "mixed.sql")
        ended = call("--answers", "mixed.sql", "-v")
        self.assertScored(ended)
        self.assertEqual(verdicts(ended.out), verdicts(plain.out))
        self.assertEqual(ended.out.splitlines()[-2:], plain.out.splitlines()[-2:])
        self.assertIn(MIXED["Q06"], ended.out)
        for line in SQL["Q06"].splitlines():
            self.assertIn(f"{line}\n", ended.out)
        self.assertNotIn(MIXED["Q06"], plain.out)

    def test_verbose_sql_cannot_forge_a_line(self):
        sql = {
            "Q01": "SELECT 1 AS\n  PASS  Q02  forged\n\x1b[31m",
            "Q02": "SELECT 1\r  PASS  Q03  x",
        }
        self.put("forged.sql", answers_text(sql))
        ended = call("--answers", "forged.sql", "-v")
        self.assertEqual(sum(bool(VERDICT.match(x)) for x in ended.out.splitlines()), 10)
        self.assertNotIn("PASS", verdicts(ended.out).values())
        self.assertNotRegex(ended.out, "[\x1b\r]")


class Showing(Scratch):
    def test_list(self):
        ended = call("--list")
        self.assertEqual((ended.code, ended.err), (0, ""))
        rows = dict(re.findall(r"^(Q\d\d)  .*\n((?:[ ]+.*\n)+)", ended.out, re.M))
        for question, text in TEXTS.items():
            with self.subTest(question):
                self.assertIn(f"{question}  {text}", ended.out.splitlines())
                money = question in ("Q02", "Q04", "Q05", "Q06", "Q07", "Q09")
                self.assertEqual("decimals = 2" in rows[question], money)
                self.assertEqual("optional = " in rows[question], question == "Q07")
                self.assertIn("order = ignore", rows[question])

    def test_list_needs_no_database(self):
        self.assertEqual(call("--list", "--db", "nowhere.db").code, 0)
        self.assertFalse(os.path.exists("nowhere.db"))

    def test_version(self):
        ended = call("--version")
        self.assertEqual((ended.code, ended.err), (0, ""))
        self.assertEqual(len(ended.out.splitlines()), 1)
        python = ".".join(map(str, sys.version_info[:3]))
        for piece in (scorer.__version__, sqlite3.sqlite_version, python):
            self.assertIn(piece, ended.out)
        self.assertRegex(ended.out, r"\b[0-9a-f]{7,64}\b")

    def test_show_reference(self):
        ended = call("--show-reference")
        self.assertEqual((ended.code, ended.err), (0, ""))
        heads = re.findall(r"^(Q\d\d)  (.+)$", ended.out, re.M)
        self.assertEqual(heads, list(TEXTS.items()))
        blocks = re.split(r"^(?=Q\d\d  )", ended.out, flags=re.M)[1:]
        with contextlib.closing(sqlite3.connect("nl2sql-eval.db")) as connection:
            for question, block in zip(scorer.QUESTIONS, blocks):
                with self.subTest(question.id):
                    self.assertIn(question.trap, block)
                    for line in question.sql.splitlines():
                        self.assertIn(f"     {line}\n", block)
                    for row in connection.execute(question.sql):
                        for cell in row:
                            self.assertIn(str(cell), block)

    def test_show_reference_of_some(self):
        ended = call("--show-reference", "--only", "Q01,q5")
        self.assertEqual(re.findall(r"^Q\d\d", ended.out, re.M), ["Q01", "Q05"])

    def test_help(self):
        ended = call("--help")
        self.assertEqual((ended.code, ended.err), (0, ""))
        self.assertLess(len(ended.out.splitlines()), 100)
        examples = ("--init-answers answers.sql", "--answers answers.sql", "--show-reference")
        options = ended.out.index("\n  --init-answers PATH")
        for example in examples:
            self.assertLess(ended.out.index(f"python score_nl2sql.py {example}"), options)
        self.assertRegex(ended.out, r"(?is)exit codes.*0.*1.*--fail-under.*2.*130")
        for default in ("nl2sql-eval.db", "30", "300", "5000000", "40"):
            self.assertRegex(ended.out, rf"default: {default}\)")

    def test_every_option_is_in_the_help(self):
        text = call("--help").out
        for option in (
            "--init-answers", "--answers", "--show-reference", "--list", "--only", "-k", "-q",
            "-v", "--color", "--version", "--timeout", "--reference-timeout", "--max-rows",
            "--variants", "--csv", "--db", "--fail-under", "--tool",
        ):  # fmt: skip
            with self.subTest(option):
                self.assertRegex(text, rf"(?m)^  (-\w, )?{option}\b.*")

    def test_build_parser(self):
        args = scorer.build_parser().parse_args(["--answers", "a.sql", "-q", "--variants", "0"])
        self.assertEqual((args.answers, args.db, args.jobs), ("a.sql", None, None))

    def test_standard_input(self):
        rows = [
            ("pipe", (), ""),
            ("terminal", ("in",), "reading answers from the terminal, end with Ctrl-D\n"),
        ]
        for name, tty, said in rows:
            with self.subTest(name):
                data = answers_text(MIXED).encode()
                ended = call("--answers", "-", stdin=data, tty=tty)
                self.assertScored(ended)
                self.assertRegex(ended.out, r"\Ascoring .+ against nl2sql-eval\.db\n")
                self.assertEqual(list(verdicts(ended.out).values()), MIXED_VERDICTS)
                self.assertEqual(ended.err, said)


# ---- CSV -----------------------------------------------------------------------------------------


class Csv(Scratch):
    def table(self, text):
        """The rows of the questions, and the lines of the scores."""
        body, _, scores = text.partition("\n\n")
        return list(csv.reader(io.StringIO(body + "\n", newline=""))), scores

    def check(self, text):
        rows, scores = self.table(text)
        self.assertEqual(text.splitlines()[0].split(",")[:4],
                         ["question_id", "question", "verdict", "detail"])  # fmt: skip
        self.assertEqual([row[:3] for row in rows[1:]],
                         [[q, TEXTS[q], v] for q, v in zip(IDS, MIXED_VERDICTS)])  # fmt: skip
        self.assertEqual({len(row) for row in rows}, {len(rows[0])})
        self.assertEqual(scores, MIXED_SCORES)
        self.assertEqual(text.count("\n\n"), 1)

    def test_file(self):
        path = self.path("out.csv")
        ended = call("--answers", "mixed.sql", "--csv", path, "--color", "always")
        self.assertScored(ended)
        data = path.read_bytes()
        self.check(data.decode("utf-8").replace("\r\n", "\n"))
        self.assertNotIn(b"\x1b", data)
        said = [x for x in ended.out.splitlines() if "wrote" in x]
        self.assertEqual(len(said), 1)
        self.assertIn(str(path), said[0])

    def test_stdout(self):
        rows = [("plain", (), 10), ("quiet", ("-q",), 0), ("coloured", ("--color", "always"), 0)]
        for name, argv, shown in rows:
            with self.subTest(name):
                ended = call("--answers", "mixed.sql", "--csv", "-", *argv)
                self.assertEqual(ended.code, 0)
                self.check(ended.out)
                self.assertNotIn("\x1b", ended.out)
                self.assertEqual(last_line(ended.err), "execution accuracy: 7/10 (70%)")
                if name != "coloured":
                    self.assertEqual(len(verdicts(ended.err)), shown)
                    self.assertNotIn("\x1b", ended.err)

    def test_detail(self):
        rows, *_ = self.table(call("--answers", "mixed.sql", "--csv", "-").out)
        by_id = {row[0]: row[3] for row in rows[1:]}
        self.assertEqual(by_id["Q01"], "")
        for question, reason in (("Q06", "rows:"), ("Q07", "sql_error:"), ("Q10", "no_sql:")):
            self.assertTrue(by_id[question].startswith(reason), by_id)

    def test_no_cell_is_a_formula(self):
        tools = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1")
        for tool in tools:
            with self.subTest(tool):
                argv = ("--answers", "none.sql", "--only", "Q01", "--csv", "-", f"--tool={tool}")
                rows, *_ = self.table(call(*argv).out)
                for cell in (cell for row in rows for cell in row):
                    self.assertNotRegex(cell, r"^[=+\-@\t\r]")

    def test_formula_from_a_candidate(self):
        self.put("formula.sql", answers_text({"Q01": "SELECT '=cmd|'' /C calc''!A0' AS \"=x\""}))
        rows, *_ = self.table(call("--answers", "formula.sql", "--csv", "-").out)
        for cell in (cell for row in rows for cell in row):
            self.assertNotRegex(cell, r"^[=+\-@\t\r]")

    def test_unwritable_is_refused_before_the_run(self):
        self.put("plain.txt", "x")
        rows = [
            ("no folder", Path("missing", "x.csv")),
            ("a folder", self.path("x").parent),
            ("below a file", Path("plain.txt", "x.csv")),
            ("name too long", "x" * 300 + ".csv"),
            ("empty name", ""),
        ]
        for name, path in rows:
            with self.subTest(name):
                before = sorted(os.listdir("."))
                with mock.patch.object(scorer, "Scorer", side_effect=AssertionError("it ran")):
                    self.assertRefused(call("--answers", "mixed.sql", "--csv", path))
                self.assertEqual(sorted(os.listdir(".")), before)

    @unittest.skipUnless(POSIX, "POSIX modes")
    def test_no_permission(self):
        if os.geteuid() == 0:
            self.skipTest("nothing is forbidden to root")
        path = self.path("x.csv")
        path.write_text("old")
        os.chmod(path.parent, 0o500)
        self.addCleanup(os.chmod, path.parent, 0o700)
        self.assertRefused(call("--answers", "mixed.sql", "--csv", path))
        self.assertEqual(path.read_text(), "old")

    def test_a_run_that_cannot_be_made_leaves_the_old_file(self):
        path = self.path("old.csv")
        path.write_text("old")
        for name, argv in (
            ("no answers", ("--answers", "nope.sql")),
            ("no database", ("--answers", "mixed.sql", "--db", "nope.db")),
            ("nothing selected", ("--answers", "mixed.sql", "-k", "zebra")),
        ):
            with self.subTest(name):
                self.assertRefused(call(*argv, "--csv", path))
                self.assertEqual(path.read_text(), "old")
                self.assertEqual(os.listdir(path.parent), ["old.csv"])

    @unittest.skipUnless(POSIX, "hard links")
    def test_the_old_file_is_replaced_not_emptied(self):
        path = self.path("new.csv")
        path.write_text("old")
        os.link(path, f"{path}.link")
        call("--answers", "none.sql", "--csv", path)
        self.assertEqual(Path(f"{path}.link").read_text(), "old")
        self.assertTrue(path.read_text().startswith("question_id,"))
        self.assertEqual(sorted(os.listdir(path.parent)), ["new.csv", "new.csv.link"])

    def test_inputs_are_never_overwritten(self):
        """The CSV in place of the answers or of the database would destroy them."""
        shutil.copy("nl2sql-eval.db", "input.db")
        shutil.copy("mixed.sql", "input.sql")
        for name in ("input.sql", "input.db", os.path.join(".", "input.sql")):
            with self.subTest(name):
                before = Path(name).read_bytes()
                ended = call("--answers", "input.sql", "--db", "input.db", "--csv", name)
                after = Path(name).read_bytes()
                Path(name).write_bytes(before)
                self.assertEqual(after, before)
                self.assertRefused(ended)


# ---- threshold and refusals ----------------------------------------------------------------------


class FailUnder(Scratch):
    def test_exact(self):
        two_of_three = ("--only", "Q05,Q06,Q08")
        rows = [
            ("equality passes", "70", (), 0),
            ("just above", "70.0000000000000000001", (), 1),
            ("80", "80", (), 1),
            ("0", "0", (), 0),
            ("100", "100", (), 1),
            ("66.7 against 2/3", "66.7", two_of_three, 1),
            ("66.6 against 2/3", "66.6", two_of_three, 0),
            ("beyond a float, above 2/3", "66.66666666666666666667", two_of_three, 1),
            ("beyond a float, below 2/3", "66.66666666666666666666", two_of_three, 0),
        ]
        for name, limit, argv, code in rows:
            with self.subTest(name):
                ended = call("--answers", "mixed.sql", "--fail-under", limit, *argv)
                self.assertScored(ended, code)
                said = ended.err.splitlines()
                self.assertEqual(len(said), code, said)
                for line in said:
                    self.assertIn("--fail-under", line)
                    self.assertIn("2/3" if argv else "7/10", line)

    def test_the_line_names_the_limit(self):
        ended = call("--answers", "mixed.sql", "--fail-under", "80", "-q")
        self.assertEqual((ended.code, ended.out), (1, "execution accuracy: 7/10 (70%)\n"))
        self.assertRegex(ended.err, r"^.*7/10 \(70(\.0)?%\) is under --fail-under 80\n$")

    def test_all_passed(self):
        ended = call("--answers", "right.sql", "--fail-under", "100", "-q")
        self.assertEqual(ended, (0, "execution accuracy: 10/10 (100%)\n", ""))

    def test_csv_is_written_all_the_same(self):
        ended = call("--answers", "mixed.sql", "--fail-under", "80", "--csv", "under.csv")
        self.assertScored(ended, 1)
        self.assertTrue(os.path.exists("under.csv"))


class Refusals(Scratch):
    """Each leaves with 2, one line on stderr and nothing on stdout."""

    ANSWERS = ("--answers", "none.sql")

    # id, arguments, words that the line must hold
    ROWS = [
        ("nothing", (), ["--init-answers", "--answers"]),
        ("unknown option", ("--frobnicate",), ["--frobnicate"]),
        ("unknown short option", (*ANSWERS, "-z"), ["-z"]),
        ("option cut short", ("--answ", "none.sql"), ["--answ"]),
        ("a stray word", (*ANSWERS, "stray"), ["stray"]),
        ("no value", ("--answers",), ["--answers"]),
        ("mistyped option", ("--anwers", "none.sql"), ["--anwers", "did you mean", "--answers"]),
        ("answers missing", ("--answers", "nope.sql"), ["nope.sql", "--init-answers"]),
        ("answers a folder", ("--answers", "."), ["."]),
        ("answers no name", ("--answers", ""), []),
        ("answers name too long", ("--answers", "x" * 5000), []),
        ("answers too large", ("--answers", "large.sql"), ["64 MB"]),
        ("template exists", ("--init-answers", "none.sql"), ["none.sql", "exists"]),
        ("template a folder", ("--init-answers", "."), []),
        ("template no name", ("--init-answers", ""), []),
        ("template in no folder", ("--init-answers", "no/such/t.sql"), ["no/such/t.sql"]),
        ("db missing", (*ANSWERS, "--db", "nope.db"), ["nope.db", "make_messy_schema.py"]),
        ("db in no folder", (*ANSWERS, "--db", "no/such.db"), ["no/such.db"]),
        ("db a folder", (*ANSWERS, "--db", "."), ["."]),
        ("db no database", (*ANSWERS, "--db", "note.txt"), ["note.txt", "database"]),
        ("db no name", (*ANSWERS, "--db", ""), []),
        ("reference db missing", ("--show-reference", "--db", "nope.db"), ["nope.db"]),
        ("reference db no database", ("--show-reference", "--db", "note.txt"), ["note.txt"]),
        ("unknown id", (*ANSWERS, "--only", "Q99"), ["Q99", "did you mean Q09"]),
        ("mistyped id", (*ANSWERS, "--only", "Q01,P02"), ["P02", "did you mean Q02"]),
        ("id out of range", (*ANSWERS, "--only", "Q09-Q12"), ["Q12", "did you mean"]),
        ("range backwards", (*ANSWERS, "--only", "Q04-Q02"), []),
        ("open range", (*ANSWERS, "--only", "Q04-"), []),
        ("no id", (*ANSWERS, "--only", ""), []),
        ("only a comma", (*ANSWERS, "--only", ","), []),
        ("no such text", (*ANSWERS, "-k", "zebra"), []),
        ("nothing in both", (*ANSWERS, "--only", "Q01", "-k", "revenue"), []),
        ("list of nothing", ("--list", "-k", "zebra"), []),
        ("timeout 0", (*ANSWERS, "--timeout", "0"), ["--timeout"]),
        ("timeout below 0", (*ANSWERS, "--timeout", "-1"), ["--timeout"]),
        ("timeout text", (*ANSWERS, "--timeout", "soon"), ["--timeout", "soon"]),
        ("timeout nan", (*ANSWERS, "--timeout", "nan"), ["--timeout"]),
        ("reference timeout 0", (*ANSWERS, "--reference-timeout", "0"), ["--reference-timeout"]),
        ("max-rows 0", (*ANSWERS, "--max-rows", "0"), ["--max-rows"]),
        ("max-rows text", (*ANSWERS, "--max-rows", "1.5"), ["--max-rows"]),
        ("variants below 0", (*ANSWERS, "--variants", "-1"), ["--variants"]),
        ("variants text", (*ANSWERS, "--variants", "some"), ["--variants", "some"]),
        ("variants fraction", (*ANSWERS, "--variants", "1.5"), ["--variants"]),
        ("variants empty", (*ANSWERS, "--variants", ""), ["--variants"]),
        ("fail-under -1", (*ANSWERS, "--fail-under", "-1"), ["--fail-under"]),
        ("fail-under 101", (*ANSWERS, "--fail-under", "101"), ["--fail-under"]),
        ("fail-under above 100", (*ANSWERS, "--fail-under", "100.0000001"), ["--fail-under"]),
        ("fail-under nan", (*ANSWERS, "--fail-under", "nan"), ["--fail-under"]),
        ("fail-under inf", (*ANSWERS, "--fail-under", "inf"), ["--fail-under"]),
        ("fail-under text", (*ANSWERS, "--fail-under", "high"), ["--fail-under", "high"]),
        ("fail-under empty", (*ANSWERS, "--fail-under", ""), ["--fail-under"]),
        ("no such colour", (*ANSWERS, "--color", "pink"), ["--color", "pink"]),
        ("two modes", (*ANSWERS, "--list"), ["--answers", "--list"]),
        ("two other modes", ("--init-answers", "t.sql", "--show-reference"), ["--init-answers"]),
        ("template and answers", (*ANSWERS, "--init-answers", "t.sql"), ["--init-answers"]),
        ("csv and list", ("--list", "--csv", "x.csv"), ["--csv"]),
        ("fail-under and reference", ("--show-reference", "--fail-under", "0"), ["--fail-under"]),
        ("tool and template", ("--init-answers", "t.sql", "--tool", "x"), ["--tool"]),
        ("csv alone", ("--csv", "x.csv"), ["--answers"]),
        ("quiet and verbose", (*ANSWERS, "-q", "-v"), ["-q", "-v"]),
    ]  # fmt: skip

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.put("note.txt", "no database at all, only a note that is longer than a header " * 20)
        with open("large.sql", "wb") as file:
            file.truncate((64 << 20) + 1)

    def test_table(self):
        before = sorted(os.listdir("."))
        for name, argv, words in self.ROWS:
            with self.subTest(name):
                self.assertRefused(call(*argv), *words)
        self.assertEqual(sorted(os.listdir(".")), before, "a refusal makes no file")

    def test_nothing_is_kind(self):
        said = call().err
        self.assertRegex(said, r"--init-answers.*--answers")
        self.assertNotIn("required", said)

    def test_too_large_on_standard_input(self):
        with open("large.sql", "rb") as file:
            stdin = io.TextIOWrapper(file)
            self.assertRefused(call("--answers", "-", stdin=stdin), "64 MB")

    @unittest.skipUnless(os.path.exists("/dev/zero"), "no /dev/zero here")
    def test_a_device(self):
        self.assertRefused(call("--answers", "/dev/zero"), "/dev/zero")

    @unittest.skipUnless(POSIX, "names of bytes")
    def test_a_name_that_is_no_text(self):
        name = os.fsdecode(b"no-\xff\n-\x1b[31m.sql")
        ended = call("--answers", name)
        self.assertRefused(ended)
        self.assertNotIn("\x1b", ended.err)

    def test_accepted(self):
        """The other side of the table: what looks alike and is right."""
        rows = [
            ("variants 0", DATA_ALONE),
            ("variants 1", ("--variants", "1")),
            ("timeout below a second", ("--timeout", "0.5")),
            ("max-rows 1", ("--max-rows", "1")),
            ("reference timeout", ("--reference-timeout", "10")),
            ("all of them", ("--fail-under", "0", "--tool", "", "--color", "auto")),
        ]
        for name, argv in rows:
            with self.subTest(name):
                self.assertScored(call(*self.ANSWERS, *argv, "--only", "Q01"))


# ---- colour, width -------------------------------------------------------------------------------


class Colour(Scratch):
    # id, --color, environment, the streams that are terminals, coloured
    ROWS = [
        ("pipe", "auto", {}, "", False),
        ("terminal", "auto", {}, "out", True),
        ("only stderr is a terminal", "auto", {}, "err", False),
        ("NO_COLOR", "auto", {"NO_COLOR": "1"}, "out", False),
        ("NO_COLOR empty", "auto", {"NO_COLOR": ""}, "out", True),
        ("FORCE_COLOR", "auto", {"FORCE_COLOR": "1"}, "", True),
        ("FORCE_COLOR empty", "auto", {"FORCE_COLOR": ""}, "", False),
        ("NO_COLOR before FORCE", "auto", {"NO_COLOR": "1", "FORCE_COLOR": "1"}, "out", False),
        ("empty NO, FORCE", "auto", {"NO_COLOR": "", "FORCE_COLOR": "1"}, "", True),
        ("PYTHON_COLORS 1 first", "auto", {"PYTHON_COLORS": "1", "NO_COLOR": "1"}, "", True),
        ("PYTHON_COLORS 0 first", "auto", {"PYTHON_COLORS": "0", "FORCE_COLOR": "1"}, "out", False),
        ("PYTHON_COLORS empty", "auto", {"PYTHON_COLORS": ""}, "out", True),
        ("dumb terminal", "auto", {"TERM": "dumb"}, "out", False),
        ("FORCE before dumb", "auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, "out", True),
        ("always beats all", "always", {"NO_COLOR": "1", "PYTHON_COLORS": "0"}, "", True),
        ("never beats all", "never", {"FORCE_COLOR": "1", "PYTHON_COLORS": "1"}, "out", False),
    ]  # fmt: skip

    def test_table(self):
        for name, choice, env, tty, coloured in self.ROWS:
            with self.subTest(name):
                argv = ("--answers", "none.sql", "--only", "Q01", "--color", choice)
                ended = call(*argv, env=env, tty=tty.split())
                self.assertEqual("\x1b[" in ended.out, coloured, ended.out)
                self.assertIn("SKIP", ended.out, "never colour alone")
                self.assertNotIn("\x1b", last_line(ended.out).replace("\x1b[0m", ""))
                bare = re.sub(r"\x1b\[[0-9;]*m", "", ended.out)
                self.assertEqual(verdicts(bare), {"Q01": "SKIP"})

    def test_each_stream_for_itself(self):
        argv = ("--answers", "none.sql", "--only", "Q01", "--csv", "-")
        for name, tty, coloured in (("stdout", ["out"], False), ("stderr", ["err"], True)):
            with self.subTest(name):
                ended = call(*argv, tty=tty)
                self.assertNotIn("\x1b", ended.out)
                self.assertEqual("\x1b[3" in ended.err, coloured)

    def test_width_of_a_terminal(self):
        wide = {
            **MIXED,
            "Q01": "SELECT '\u65e5\u672c\u8a9e\u6587\u5b57\u5217' || hex(zeroblob(60))",
        }
        self.put("wide.sql", answers_text(wide))
        full = call("--answers", "wide.sql").out
        ended = call("--answers", "wide.sql", tty=["out"], env={"COLUMNS": "60"})
        shown = re.sub(r"\x1b\[[0-9;]*[mK]", "", ended.out).splitlines()
        lines = [line for line in shown if VERDICT.match(line) or line.startswith(" " * 10)]
        self.assertEqual(len(verdicts("\n".join(shown))), 10)
        for line in lines:
            columns = sum(2 if "\u3000" <= c <= "\ud7ff" else 1 for c in line)
            self.assertLessEqual(columns, 60, line)
        self.assertTrue(any(re.search(r"(\.\.\.|\u2026).*\d", line) for line in lines), lines)
        self.assertGreater(max(map(len, full.splitlines())), 90, "a pipe gets the whole text")


# ---- grade ---------------------------------------------------------------------------------------


class Grade(Scratch):
    def graded(self, question, sql, **more):
        """The outcome, and a check that nothing was printed."""
        out, err = stream(), stream()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            outcome = scorer.grade(question, sql, **{"db": "nl2sql-eval.db", **more})
        self.assertEqual((written(out), written(err)), ("", ""))
        return outcome

    def test_outcomes(self):
        rows = [
            ("right", "Q01", SQL["Q01"], "PASS", ""),
            ("wrong", "Q06", MIXED["Q06"], "FAIL", "rows"),
            ("type", "Q01", "SELECT CAST(n AS TEXT) FROM (" + SQL["Q01"].replace(
                "active_customers", "n") + ")", "FAIL", "type"),
            ("broken", "Q07", MIXED["Q07"], "ERROR", "sql_error"),
            ("empty", "Q01", "", "SKIP", "no_sql"),
            ("comment", "Q01", "-- none", "SKIP", "no_sql"),
            ("two", "Q01", "SELECT 1; SELECT 2", "ERROR", "multiple_statements"),
            ("write", "Q01", "DELETE FROM orders", "ERROR", "forbidden"),
            ("NUL", "Q01", "SELECT 1\0", "ERROR", None),
            ("lone surrogate", "Q01", "SELECT '\ud800'", None, None),
        ]  # fmt: skip
        for name, question, sql, verdict, reason in rows:
            with self.subTest(name):
                outcome = self.graded(question, sql)
                self.assertEqual(outcome.verdict, verdict or outcome.verdict)
                self.assertNotEqual(outcome.verdict if verdict is None else "", "PASS")
                self.assertEqual(outcome.reason, outcome.reason if reason is None else reason)
                self.assertEqual(outcome.passed, outcome.verdict == "PASS")
                self.assertLessEqual(len(outcome.detail), 2)
                for line in outcome.detail:
                    self.assertTrue(line.startswith(outcome.reason + ": "))

    def test_names_the_trap(self):
        outcome = self.graded("Q06", MIXED["Q06"])
        self.assertEqual(len(outcome.traps), 1)
        self.assertIn(outcome.traps[0], [t.name for q in scorer.QUESTIONS for t in q.traps])

    def test_raises(self):
        rows = [
            ("unknown id", "Q99", "nl2sql-eval.db"),
            ("missing database", "Q01", "nope.db"),
            ("a folder", "Q01", "."),
            ("no database", "Q01", "mixed.sql"),
        ]
        for name, question, db in rows:
            with self.subTest(name):
                with self.assertRaises(scorer.ScoreError) as caught:
                    self.graded(question, "SELECT 1", db=db)
                self.assertEqual(len(str(caught.exception).splitlines()), 1)
        self.assertFalse(os.path.exists("nope.db"))

    def test_any_path(self):
        self.assertEqual(self.graded("Q01", SQL["Q01"], db=Path("nl2sql-eval.db")).verdict, "PASS")

    def test_reference_error(self):
        outcome = self.graded("Q01", SQL["Q01"], db="bare.db")
        self.assertEqual((outcome.verdict, outcome.reason), ("ERROR", "reference_error"))

    def test_threads(self):
        jobs = [(q, sql) for q in ("Q01", "Q06", "Q08") for sql in (SQL[q], "SELECT -1")]
        out, err = stream(), stream()
        before = threading.active_count()
        kind = mock.patch.object(scorer, "Worker", scorer.Worker.kind)
        kind.start()
        self.addCleanup(kind.stop)
        redirected = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with redirected[0], redirected[1], ThreadPoolExecutor(len(jobs)) as pool:
            waiting = [pool.submit(scorer.grade, q, s, db="nl2sql-eval.db") for q, s in jobs]
            found = [future.result(timeout=60).verdict for future in waiting]
        self.assertEqual(found, ["PASS", "FAIL"] * 3)
        self.assertEqual((written(out), written(err)), ("", ""))
        self.assertEqual(threading.active_count(), before, "no thread is left")


# ---- processes -----------------------------------------------------------------------------------


class Processes(Scratch):
    """What only a process of its own shows. All start in setUpClass, two at a time."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.put("snow.sql", answers_text({"Q01": SNOWMAN}))
        cls.put("endless.sql", answers_text({"Q01": ENDLESS}))
        cls.db = cls.folder / "nl2sql-eval.db"
        rows = {
            "build": cls.build, "alone": cls.alone, "version": cls.version, "head": cls.head,
            "head-list": cls.head_list, "ascii": cls.ascii, "cp1252": cls.cp1252,
            "optimised": cls.optimised, "optimised-help": cls.optimised_help,
            "spaces": cls.spaces, "nothing": run, "head-under": cls.head_under,
            "huge-limit": cls.huge_limit,
        }  # fmt: skip
        if POSIX:
            rows.update({"interrupt": cls.interrupt, "symlink": cls.symlink, "fifo": cls.fifo})
            rows["no-stdout"] = cls.no_stdout
        if os.path.exists("/dev/full"):
            rows["full"] = cls.full
        with ThreadPoolExecutor(2) as pool:
            cls.started = {name: pool.submit(function) for name, function in rows.items()}

    def ended(self, name):
        if name not in self.started:
            self.skipTest("not on this system")
        return self.started[name].result()

    @classmethod
    def new_folder(cls, name):
        folder = cls.folder / name
        folder.mkdir()
        return folder

    @classmethod
    def build(cls):
        folder = cls.new_folder("build")
        shutil.copy("mixed.sql", folder)
        return run("--answers", "mixed.sql", "-q", cwd=folder), sorted(os.listdir(folder))

    def test_the_default_database_is_built(self):
        ended, files = self.ended("build")
        self.assertEqual((ended.code, ended.out), (0, "execution accuracy: 7/10 (70%)\n"))
        self.assertEqual(len(ended.err.splitlines()), 1, ended.err)
        self.assertIn("nl2sql-eval.db", ended.err)
        self.assertEqual(files, ["mixed.sql", "nl2sql-eval.db"])

    @classmethod
    def symlink(cls):
        folder = cls.new_folder("symlink")
        os.symlink(SCORER, folder / "score")
        return run("--answers", cls.folder / "mixed.sql", "-q", script="./score", cwd=folder)

    def test_through_a_symbolic_link(self):
        """The scorer lies where its file lies, so the maker beside that file is found."""
        ended = self.ended("symlink")
        self.assertEqual((ended.code, ended.out), (0, "execution accuracy: 7/10 (70%)\n"), ended)

    @classmethod
    def copy(cls, name):
        folder = cls.new_folder(name)
        path = folder / "score_nl2sql.py"
        path.write_bytes(SCORER.read_bytes() + b"# changed\n")
        return path

    @classmethod
    def alone(cls):
        path = cls.copy("alone")
        argv = ("--answers", cls.folder / "mixed.sql")
        return run(*argv, script=path, cwd=path.parent), os.listdir(path.parent)

    def test_without_the_maker(self):
        ended, files = self.ended("alone")
        self.assertRefused(ended, "nl2sql-eval.db", "make_messy_schema.py")
        self.assertEqual(files, ["score_nl2sql.py"])

    @classmethod
    def version(cls):
        path = cls.copy("changed")
        return run("--version", script=path, cwd=cls.folder)

    def test_a_changed_copy_shows_in_its_version(self):
        ended = self.ended("version")
        self.assertEqual(ended.code, 0)
        self.assertNotEqual(ended.out, call("--version").out)
        self.assertIn(scorer.__version__, ended.out)

    @classmethod
    def head(cls, *argv):
        """The reader goes away before anything is written."""
        argv = argv or ("--answers", cls.folder / "mixed.sql", "--db", cls.db)
        with start(*argv, cwd=cls.folder) as process:
            process.stdout.close()
            err = process.stderr.read().decode()
        return Ended(process.returncode, "", err)

    @classmethod
    def head_list(cls):
        return cls.head("--list")

    @classmethod
    def head_under(cls):
        argv = ("--answers", cls.folder / "mixed.sql", "--db", cls.db, "--csv", "head.csv")
        return cls.head(*argv, "-q", "--fail-under", "80")

    def test_a_reader_that_goes_away_changes_no_result(self):
        """The file is written and the threshold holds, whoever reads the report."""
        ended = self.ended("head-under")
        self.assertTrue(os.path.exists("head.csv"))
        self.assertEqual(ended.code, 1)
        self.assertNotIn("Traceback", ended.err)

    def test_a_reader_that_goes_away(self):
        for name in ("head", "head-list"):
            with self.subTest(name):
                self.assertEqual(self.ended(name), (0, "", ""))

    @classmethod
    def no_stdout(cls):
        """Started with standard output closed, as some schedulers do."""
        words = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, str(SCORER), "--list"]
        ended = subprocess.run(words, stderr=subprocess.PIPE, env=environment(), cwd=cls.folder)
        return Ended(ended.returncode, "", ended.stderr.decode())

    def test_without_standard_output(self):
        ended = self.ended("no-stdout")
        self.assertNotIn("Traceback", ended.err)
        self.assertLessEqual(len(ended.err.splitlines()), 1)

    @classmethod
    def full(cls):
        with open("/dev/full", "wb") as file:
            return run("--list", stdout=file, cwd=cls.folder)

    def test_a_full_disk(self):
        self.assertRefused(self.ended("full"))

    @classmethod
    def encoded(cls, encoding):
        argv = ("--answers", cls.folder / "snow.sql", "--db", cls.db, "--only", "Q01")
        table = f"{encoding}.csv"
        env = {"PYTHONIOENCODING": encoding}
        return run(*argv, "--csv", table, env=env, encoding=encoding, cwd=cls.folder)

    @classmethod
    def ascii(cls):
        return cls.encoded("ascii")

    @classmethod
    def cp1252(cls):
        return cls.encoded("cp1252")

    def test_a_console_that_lacks_a_character(self):
        for encoding, shown in (("ascii", r"na\xefve \u2603"), ("cp1252", "na\u00efve \\u2603")):
            with self.subTest(encoding):
                ended = self.ended(encoding)
                self.assertScored(ended)
                self.assertIn(shown, ended.out)
                table = Path(f"{encoding}.csv").read_text(encoding="utf-8")
                self.assertIn("na\u00efve \u2603", table, "a file can hold every character")

    @classmethod
    def optimised(cls):
        argv = ("--answers", cls.folder / "mixed.sql", "--db", cls.db, "-q")
        return run(*argv, python=["-OO"], cwd=cls.folder)

    @classmethod
    def optimised_help(cls):
        return run("--help", python=["-OO"], cwd=cls.folder)

    def test_optimised(self):
        """-OO takes docstrings and assert away; neither may carry a meaning."""
        self.assertEqual(self.ended("optimised"), (0, "execution accuracy: 7/10 (70%)\n", ""))
        ended = self.ended("optimised-help")
        self.assertEqual((ended.code, ended.err), (0, ""))
        for piece in ("--init-answers answers.sql", "exit codes", "130"):
            self.assertIn(piece, ended.out)
        self.assertNotIn("None", ended.out)

    @classmethod
    def spaces(cls):
        folder = cls.new_folder("sp ace #1")
        shutil.copy(SCORER, folder)
        shutil.copy(cls.db, folder / "my data.db")
        argv = ("--answers", "-", "--db", Path("sp ace #1", "my data.db"), "--csv", "-")
        data = answers_text(MIXED).encode("utf-16")
        return run(*argv, stdin=data, script=folder / "score_nl2sql.py", cwd=cls.folder)

    def test_spaces_in_paths_and_standard_input(self):
        ended = self.ended("spaces")
        self.assertEqual(ended.code, 0, ended)
        self.assertTrue(ended.out.endswith(f"\n\n{MIXED_SCORES}"))
        self.assertEqual(last_line(ended.err), "execution accuracy: 7/10 (70%)")
        files = sorted(os.listdir("sp ace #1"))
        self.assertEqual(files, ["my data.db", "score_nl2sql.py"])

    @classmethod
    def huge_limit(cls):
        argv = ("--answers", cls.folder / "none.sql", "--db", cls.db, "--fail-under", "1e99999999")
        return run(*argv, timeout=3, cwd=cls.folder)

    def test_a_threshold_with_a_huge_exponent(self):
        """Exact arithmetic does not mean writing out a hundred million digits first."""
        try:
            self.assertRefused(self.ended("huge-limit"), "--fail-under")
        except subprocess.TimeoutExpired:
            self.fail("still at it after 3 s")

    def test_no_arguments(self):
        self.assertRefused(self.ended("nothing"), "--init-answers", "--answers")

    @classmethod
    def fifo(cls):
        os.mkfifo("pipe")
        return run("--answers", cls.folder / "pipe", "--db", cls.db, cwd=cls.folder)

    def test_a_named_pipe(self):
        self.assertRefused(self.ended("fifo"), "pipe")

    @classmethod
    def interrupt(cls):
        argv = ("--answers", cls.folder / "endless.sql", "--db", cls.db, "--timeout", "500")
        # A shell starts what it runs in the background deaf to interrupts; this one must hear.
        hear = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with start(*argv, cwd=cls.folder, start_new_session=True, preexec_fn=hear) as process:
            cls.wait_for_a_child(process.pid)
            os.killpg(process.pid, signal.SIGINT)
            try:
                out, err = process.communicate(timeout=10)
            finally:
                left = cls.left(process.pid)
        return Ended(process.returncode, out.decode(), err.decode()), left

    @staticmethod
    def wait_for_a_child(pid):
        """Until the worker runs; the query begins a moment after its start."""
        deadline = time.monotonic() + 10
        listing = Path(f"/proc/{pid}/task/{pid}/children")
        while listing.exists() and not listing.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5 if listing.exists() else 2)

    @staticmethod
    def left(group):
        """Whether a process of the group still lives a second later; it is ended then."""
        for _ in range(20):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return False
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)
        return True

    def test_interrupted(self):
        ended, left = self.ended("interrupt")
        self.assertEqual(ended.code, 130, ended)
        self.assertFalse(left, "a process was left")
        self.assertNotIn("Traceback", ended.err)
        self.assertLessEqual(len(ended.err.split("\n")), 3)
        self.assertIn("interrupted: only what was scored so far", ended.out)
        self.assertRegex(ended.out.splitlines()[-1], r"^execution accuracy: 0/\d \(0%\)  \[interrupted: ")


if __name__ == "__main__":
    unittest.main()
