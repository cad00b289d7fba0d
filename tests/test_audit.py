"""The audit of references: a table of question sets, each with the findings that it must have."""

import json
import os
import re
import sqlite3
import sys
import tempfile
import unittest
from pathlib import Path

import measure_variants as measure
from calling import build, call, last_line

import make_messy_schema

HERE = Path(__file__).parent
CASES = json.loads((HERE / "audit_cases.json").read_text(encoding="utf-8"))
LINE = re.compile(r"^  (\S+) +(\w+): (.*)$")


def findings(text):
    """The words that were found for each question, and the whole lines."""
    found = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            found.setdefault(match[1], []).append((match[2], line))
    return found


def fits(condition):
    """Whether a row is meant for this SQLite."""
    operator, version = re.fullmatch(r"(<|>=)([\d.]+)", condition).groups()
    ours, other = sqlite3.sqlite_version_info, tuple(map(int, version.split(".")))
    return ours < other if operator == "<" else ours >= other


class Cases(unittest.TestCase):
    """Every row of the table, all rows with the same options in one run."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            groups = {}
            cls.rows = [row for row in CASES if fits(row.get("sqlite", ">=3.0"))]
            for row in cls.rows:
                groups.setdefault(tuple(row.get("args", ())), []).append(row)
                build(os.path.join(folder, f"{row['id']}.sqlite"), row["schema"])
            cls.found = {}
            for args, rows in groups.items():
                questions = [{**row["question"], "id": row["id"], "db_id": row["id"]} for row in rows]
                path = os.path.join(folder, "set.json")
                Path(path).write_text(json.dumps(questions), encoding="utf-8")
                ended = call("--questions", path, "--db-root", folder, "--audit", *args)
                cls.found.update(findings(ended.out))

    def test_findings(self):
        for row in self.rows:
            found = self.found.get(row["id"], [])
            words = {word for word, _ in found} - {"blind_spot"}
            with self.subTest(row["id"], sql=row["question"].get("sql"), why=row["why"]):
                self.assertEqual(words, set(row["findings"]), found)
                for shown in row["shows"]:
                    self.assertIn(shown.lower(), "\n".join(line for _, line in found).lower())

    def test_blind_spots(self):
        for row in self.rows:
            found = [line for word, line in self.found.get(row["id"], []) if word == "blind_spot"]
            if row["blind"] is not None:
                with self.subTest(row["id"], sql=row["question"].get("sql"), why=row["why"]):
                    self.assertEqual(bool(found), row["blind"], found)


class TenQuestions(unittest.TestCase):
    """The references that ship with the command, on data of several seeds."""

    def test_clean(self):
        with tempfile.TemporaryDirectory() as folder:
            for seed, scale in ((make_messy_schema.DEFAULT_SEED, 1), (1, 0.5), (7, 0.5)):
                path = os.path.join(folder, f"{seed}.db")
                make_messy_schema.build(path, seed=seed, scale=scale)
                with self.subTest(seed=seed):
                    ended = call("--db", path, "--audit")
                    self.assertEqual(ended.code, 0)
                    self.assertEqual(ended.out, f"auditing 10 questions on {path}\n\n10 questions: nothing found\n")


class RealSet(unittest.TestCase):
    """A real set: each line of the expected output was checked by hand."""

    @unittest.skipUnless(measure.GEOGRAPHY.exists(), "the real set is not at hand")
    def test_expected_output(self):
        questions, data = measure.GEOGRAPHY / "questions.json", measure.GEOGRAPHY / "geography.sqlite"
        for jobs in ("1", "2") if os.environ.get("NL2SQL_LONG") else ("2",):
            ended = call("--questions", questions, "--db", data, "--audit", "--jobs", jobs)
            self.assertEqual(ended.code, 1, "two references do not run")
            expected = (HERE / "geography_audit.txt").read_text(encoding="utf-8")
            self.assertEqual(ended.out.replace(str(data), "geography.sqlite"), expected)


class Command(unittest.TestCase):
    """What the mode prints, refuses and leaves alone."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.db = os.path.join(self.folder, "x.sqlite")
        build(
            self.db,
            [
                "CREATE TABLE pet (name TEXT PRIMARY KEY, age INTEGER NOT NULL, kind TEXT NOT NULL)",
                "INSERT INTO pet VALUES ('Rex', 4, 'dog'), ('Mia', 9, 'cat'), ('Odo', 9, 'dog'), ('Pip', 2, 'cat')",
            ],
        )

    def audit(self, *sqls, options=(), **keys):
        path = os.path.join(self.folder, "set.json")
        records = [{"id": f"A{i}", "question": "?", "sql": sql, **keys} for i, sql in enumerate(sqls, 1)]
        Path(path).write_text(json.dumps(records), encoding="utf-8")
        return call("--questions", path, "--db", self.db, "--audit", *options)

    def test_lines_and_summary(self):
        ended = self.audit("SELECT nam FROM pet", "SELECT name FROM pet ORDER BY age DESC LIMIT 1", "SELECT COUNT(*) FROM pet")
        self.assertEqual(
            ended.out.splitlines(),
            [
                f"auditing 3 questions on {self.db}",
                "",
                "  A1  sql_error: no such column: nam; the nearest name is name",
                "  A2  tie: LIMIT 1 cuts through a tie: ('Odo') would do as well",
                "  A2  row_order: the same rows inserted the other way round give another result: ('Mia') and ('Odo')",
                "",
                "row_order: 1",
                "sql_error: 1",
                "tie: 1",
                "",
                "3 questions: 3 findings about 2 of them; 1 reference broken",
            ],
        )
        self.assertEqual((ended.code, ended.err), (1, ""))

    def test_clean(self):
        ended = self.audit("SELECT COUNT(*) FROM pet")
        self.assertEqual((ended.code, last_line(ended.out)), (0, "1 question: nothing found"))

    def test_findings_alone_are_no_failure(self):
        self.assertEqual(self.audit("SELECT name FROM pet WHERE age > 90").code, 0)

    def test_quiet(self):
        ended = self.audit("SELECT name FROM pet WHERE age > 90", options=("-q",))
        self.assertEqual(ended.out, "1 question: 1 finding about 1 of them\n")

    def test_a_part(self):
        ended = self.audit("SELECT nam FROM pet", "SELECT COUNT(*) FROM pet", options=("--only", "A2"))
        self.assertEqual(last_line(ended.out), "1 question: nothing found")

    def test_without_variants_blind_spots_stay_untold(self):
        sql = "SELECT COUNT(*) FROM pet WHERE age > 4"
        self.assertIn("blind_spot", self.audit(sql.replace("4", "7")).out)
        self.assertNotIn("blind_spot", self.audit(sql.replace("4", "7"), options=("--variants", "0")).out)

    def test_verdicts_are_no_others(self):
        """What the audit finds fault with is scored as before."""
        answers = os.path.join(self.folder, "answers.json")
        Path(answers).write_text(json.dumps({"A1": 'SELECT name FROM pet WHERE kind = "dog"'}), encoding="utf-8")
        self.assertIn("quoted_text", self.audit('SELECT name FROM pet WHERE kind = "dog"').out)
        ended = call("--questions", os.path.join(self.folder, "set.json"), "--db", self.db, "--answers", answers)
        self.assertEqual(last_line(ended.out), "execution accuracy: 1/1 (100%)")

    def test_refusals(self):
        rows = [
            (("--audit", "--answers", "a.sql"), "--answers and --audit are different things to do"),
            (("--audit", "--list"), "--list and --audit are different things to do"),
            (("--audit", "--csv", "x.csv"), "--csv goes with --answers"),
            (("--audit", "--fail-under", "50"), "--fail-under goes with --answers"),
        ]
        for options, text in rows:
            with self.subTest(options):
                ended = call(*options)
                self.assertEqual(ended.code, 2)
                self.assertIn(text, ended.err)

    def test_the_data_is_left_alone(self):
        before = Path(self.db).read_bytes()
        self.audit("SELECT name FROM pet ORDER BY age DESC LIMIT 1", "DELETE FROM pet")
        self.assertEqual(Path(self.db).read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.folder)), ["set.json", "x.sqlite"])


if __name__ == "__main__":
    sys.exit(unittest.main())
