"""Variants: lucky answers are found out, right ones are not, and what a variant is made of."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import unittest
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import measure_variants as measure
from calling import build, call, last_line

import make_messy_schema
import score_nl2sql as scorer

HERE = Path(__file__).parent
CASES = json.loads((HERE / "lucky_cases.json").read_text(encoding="utf-8"))
LONG = bool(os.environ.get("NL2SQL_LONG"))
needs_real_set = unittest.skipUnless(measure.GEOGRAPHY.exists(), "the real set is not at hand")
NEW_SQLITE = sqlite3.sqlite_version_info >= (3, 39)


def runs_here(case):
    """Whether this SQLite knows what the case needs: STRICT came with 3.37, RIGHT JOIN with 3.39."""
    text = " ".join([*case["schema"], case["reference"], case["candidate"]]).upper()
    return NEW_SQLITE or not re.search(r"\bSTRICT\b|\b(RIGHT|FULL)\b", text)


def question_of(case, **more):
    contract = scorer.read_contract(case.get("contract", {}))
    return scorer.Question(case["id"], "?", "", case["reference"], contract, db=case["id"], **more)


def outcomes(cases, folder, variants=scorer.VARIANTS, workers=2):
    """The outcome of each case, each on a database of its own."""
    databases, pairs = {}, []
    for case in cases:
        path = os.path.join(folder, f"{len(databases)}.sqlite")
        if not os.path.exists(path):
            build(path, case["schema"])
        databases[case["id"]] = [scorer.Database(scorer.file_uri(path) + "?mode=ro", path, path)]
        pairs.append((question_of(case), scorer.Answer(case["candidate"], 1)))
    with scorer.Scorer(databases, scorer.Settings(variants=variants), workers) as desk:
        return desk.score(pairs)


def told(outcome):
    return outcome.counterexample is not None


class Plain:
    """A guard and a voice for queries of a test's own."""

    limit = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


class Lucky(unittest.TestCase):
    """The table of lucky and right answers."""

    @classmethod
    def setUpClass(cls):
        cls.cases = list(filter(runs_here, CASES))
        with TemporaryDirectory() as folder:
            cls.found = outcomes(cls.cases, folder)

    def test_table(self):
        for case, outcome in zip(self.cases, self.found):
            with self.subTest(case["id"], kind=case["kind"], why=case["why"]):
                self.assertEqual(outcome.verdict, scorer.PASS, outcome.detail)
                shown = (case["reference"], case["candidate"], outcome.detail, outcome.unvaried)
                self.assertEqual(told(outcome), case["lucky"], shown)
                self.assertEqual(outcome.reason == "coincidence", case["lucky"])

    def test_there_is_something_to_tell(self):
        self.assertGreater(sum(case["lucky"] for case in self.cases), 140)
        self.assertGreater(sum(not case["lucky"] for case in self.cases), 160)

    def test_counterexamples_are_small(self):
        rows = sorted(sum(len(rows) for _, _, rows in o.counterexample.tables) for o in self.found if told(o))
        self.assertLessEqual(rows[len(rows) // 2], 3, "the median number of rows")
        self.assertLessEqual(rows[-1], 70, "the most rows: one case asks for 28 of them")

    def test_their_scripts_show_the_two_results(self):
        for case, outcome in zip(self.cases, self.found):
            if told(outcome):
                with self.subTest(case["id"]):
                    self.check_script(outcome)

    def check_script(self, outcome):
        """The script runs, breaks no constraint, and its two queries return what was told."""
        script, _, queries = scorer.counterexample_sql(outcome).partition("-- reference\n")
        reference, _, candidate = queries.partition("-- candidate\n")
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(script)
            self.assertEqual(database.execute("PRAGMA foreign_key_check").fetchall(), [])
            example = outcome.counterexample
            want = sorted(map(repr, database.execute(reference).fetchall()))
            got = sorted(map(repr, database.execute(candidate).fetchall()))
        if example.comparison.reason != "order":
            self.assertNotEqual(want, got)
        if len(want) == example.comparison.want_count <= scorer.SAMPLE_ROWS:
            self.assertEqual(want, sorted(map(repr, example.want)))

    @unittest.skipUnless(LONG, "many variants of each case")
    def test_right_ones_on_many(self):
        right = [case for case in self.cases if not case["lucky"]]
        with TemporaryDirectory() as folder:
            for case, outcome in zip(right, outcomes(right, folder, 400)):
                with self.subTest(case["id"], why=case["why"]):
                    self.assertFalse(told(outcome), (case["reference"], case["candidate"], outcome.detail))


class Rewrites(unittest.TestCase):
    """Rewrites that are equivalent by SQL's rules, over the ten questions and a real set."""

    def check(self, variants):
        with TemporaryDirectory() as folder:
            found = measure.rewrites(folder)
            for (kind, _, question, sql), outcome in zip(found, measure.flagged(found, variants)):
                with self.subTest(kind, question=question.id, sql=sql):
                    self.assertEqual(outcome.verdict, scorer.PASS, outcome.detail)
                    self.assertFalse(told(outcome), outcome.detail)
                    self.assertEqual((outcome.variants, outcome.unvaried), (variants, ""))
        self.assertGreaterEqual(len(found), 120)

    def test_none_is_flagged(self):
        self.check(scorer.VARIANTS)

    @unittest.skipUnless(LONG, "many variants of each rewrite")
    def test_none_is_flagged_on_many(self):
        self.check(400)


@needs_real_set
class RealSet(unittest.TestCase):
    """What the default finds of the mutants that the data of a real set lets through."""

    @classmethod
    def setUpClass(cls):
        cls.path = measure.GEOGRAPHY / "geography.sqlite"
        cls.questions, cls.records = measure.geography()

    def test_a_third_of_the_survivors(self):
        survivors = measure.surviving(self.path, measure.mutants(self.questions))
        self.assertGreater(len(survivors), 400)
        first = measure.found_by(self.path, survivors, scorer.VARIANTS)
        by_default = sum(variant is not None for variant in first)
        self.assertGreaterEqual(3 * by_default, len(survivors))
        if LONG:
            many = measure.found_by(self.path, survivors, measure.MANY)
            self.assertGreaterEqual(by_default, 0.9 * sum(variant is not None for variant in many))

    def test_declared_equivalents(self):
        """Those that differ on a variant take one row, or repeat it, where the reference's maximum ties."""
        pairs = measure.declared(self.questions, self.records)
        agree = [o for o in measure.tried(self.path, pairs, scorer.VARIANTS) if o.passed]
        self.assertEqual(len(agree), 11)
        apart = {outcome.question.id.partition("/")[0]: outcome for outcome in agree if told(outcome)}
        self.assertEqual(sorted(apart), ["100", "151", "154", "220", "91"])
        for id, outcome in apart.items():
            with self.subTest(id):
                counts = outcome.counterexample.comparison
                self.assertEqual({counts.want_count, counts.got_count}, {1, 2}, outcome.detail)


class TenQuestions(unittest.TestCase):
    """Answers that are right on the ten questions' data, or on data like it, by luck."""

    @classmethod
    def setUpClass(cls):
        folder = TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.db = os.path.join(folder.name, "ten.db")
        make_messy_schema.build(cls.db)
        cls.by_id = {question.id: question for question in scorer.QUESTIONS}

    def grade(self, id, sql, db=None):
        outcome = scorer.grade(id, sql, db or self.db)
        self.assertEqual(outcome.verdict, scorer.PASS, (sql, outcome.detail))
        return outcome

    def test_hard_coded_answers(self):
        for question in scorer.QUESTIONS:
            with closing(sqlite3.connect(self.db)) as database:
                rows = database.execute(question.sql).fetchall()
            values = ", ".join(f"({', '.join(map(scorer.sql_literal, row))})" for row in rows)
            with self.subTest(question.id):
                self.assertTrue(told(self.grade(question.id, f"VALUES {values}")))

    def test_filters_that_the_data_does_not_exercise(self):
        """Each condition of each reference left out, on data changed so that it makes no difference."""
        changes = {
            "is_deleted": "UPDATE customers_v2 SET is_deleted = 0",
            "void_flag": "UPDATE orders SET void_flag = 0",
            "status": "UPDATE orders SET status = 'complete'",
            "booked_at": "UPDATE orders SET booked_at = '2025-01-' || substr(booked_at, 9)",
            "closed_at": "UPDATE orders SET closed_at = NULL WHERE void_flag = 0",
            "plan_tier": "UPDATE customers_v2 SET plan_tier = 'enterprise'",
            "signup_date": "UPDATE customers_v2 SET signup_date = '2025' || substr(signup_date, 5)",
            "customer_id = 1": "UPDATE orders SET customer_id = 1",
        }
        tried = 0
        with TemporaryDirectory() as folder:
            for number, (name, change) in enumerate(changes.items()):
                db = os.path.join(folder, f"{number}.db")
                make_messy_schema.build(db)
                build(db, [change])
                for question in scorer.QUESTIONS:
                    for mutant in scorer.mutants(question.sql):
                        if mutant.kind == "condition" and name in mutant.change and " ON" not in mutant.change:
                            outcome = scorer.grade(question.id, mutant.sql, db)
                            if outcome.passed:
                                tried += 1
                                with self.subTest(question.id, change=mutant.change):
                                    self.assertTrue(told(outcome), outcome.unvaried)
        self.assertGreater(tried, 15)

    def test_lucky_ties(self):
        """The best channel by a figure that ties, or that another column happens to agree with."""
        question = self.by_id["Q07"]
        figure = "SUM(o.total_amount) / COUNT(DISTINCT c.customer_id)"
        before, _, after = question.sql.partition(f"ORDER BY {figure} DESC")
        self.assertTrue(after)
        rows = [
            (f"CAST({figure} / 4000 AS INTEGER) DESC", True),
            (f"ROUND({figure} / 1000) DESC, c.acquisition_channel", True),
            ("2 DESC", False),
        ]
        for order, lucky in rows:
            with self.subTest(order):
                self.assertEqual(told(self.grade("Q07", f"{before}ORDER BY {order}{after}")), lucky)

    def test_the_references_are_not_tried(self):
        for question in scorer.QUESTIONS:
            outcome = self.grade(question.id, f"-- mine\n{question.sql}  ;\n")
            self.assertEqual((outcome.variants, outcome.unvaried, told(outcome)), (0, "", False))

    def test_right_ones(self):
        outcome = self.grade("Q08", "SELECT SUM(closed_at IS NULL) FROM orders WHERE void_flag = 0")
        self.assertEqual((outcome.reason, outcome.variants), ("", scorer.VARIANTS))


class Making(unittest.TestCase):
    """What a variant is made of: checked against the data that it comes from."""

    def plan(self, case, folder):
        path = os.path.join(folder, f"{case['id']}.sqlite")
        build(path, case["schema"])
        engine = scorer.SqliteEngine(scorer.file_uri(path) + "?mode=ro", (), 10**6, Plain())
        self.addCleanup(engine.close)
        job = {"candidate": case["candidate"], "id": case["id"]}
        for sql in (case["reference"], case["candidate"]):
            with contextlib.suppress(scorer.QueryError):
                engine.run(sql, 5)
        plan, memory, shown = scorer._neighbours(engine, scorer.Survey(), [case["reference"]], job)
        self.addCleanup(memory.close)
        return plan, memory, shown

    def test_rules_of_the_data(self):
        cases = [case for case in CASES if runs_here(case)][:: 1 if LONG else 7]
        with TemporaryDirectory() as folder:
            for case in cases:
                with self.subTest(case["id"]):
                    try:
                        plan, memory, shown = self.plan(case, folder)
                    except scorer.Unvaried:
                        continue
                    for number in range(30):
                        self.check(plan, memory, shown, number)

    def test_the_same_in_every_process(self):
        """No order of a set or of hashes decides what is drawn."""
        code = (
            "import sys, tempfile; sys.path[:0] = sys.argv[1:]; import test_variants as t\n"
            "making = t.Making('test_rules_of_the_data')\n"
            "with tempfile.TemporaryDirectory() as folder:\n"
            "    for case in [case for case in t.CASES if t.runs_here(case)][::40]:\n"
            "        plan, _, _ = making.plan(case, folder)\n"
            "        print(case['id'], [plan.rows(number) for number in range(8)])\n"
        )
        told = set()
        for seed in ("0", "1", "2", "3"):
            command = [sys.executable, "-c", code, str(HERE), str(HERE.parent)]
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            told.add(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual(len(told), 1)
        self.assertGreater(len(told.pop()), 1000)

    def check(self, plan, memory, shown, number):
        drawn = plan.rows(number)
        self.assertEqual(drawn, plan.rows(number), "drawn again")
        rows = scorer.repaired(memory.fill(drawn), plan.tables)
        self.assertLessEqual(max(map(len, rows.values())), 300)
        with closing(sqlite3.connect(":memory:")) as database:
            for statement in shown:
                database.execute(statement)
            for table in plan.tables:
                columns = ", ".join(scorer.quoted_name(column.name) for column in table.columns)
                marks = ", ".join("?" * len(table.columns))
                into = f"INSERT INTO {scorer.quoted_name(table.name)} ({columns}) VALUES ({marks})"
                database.executemany(into, rows[table.name])  # UNIQUE, NOT NULL and CHECK hold
            self.assertEqual(database.execute("PRAGMA foreign_key_check").fetchall(), [])
        for table in plan.tables:
            self.check_table(plan, table, rows)

    def check_table(self, plan, table, rows):
        mine = rows[table.name]
        for key in table.keys:
            values = [tuple(row[i] for i in key) for row in mine]
            values = [value for value in values if None not in value]
            self.assertEqual(len(values), len(set(values)), (table.name, key))
        for link in table.links:
            there = {tuple(row[j] for j in link.keys) for row in rows[link.parent]}
            for row in mine:
                target = tuple(row[i] for i in link.columns)
                self.assertTrue(None in target or target in there, (table.name, link))
        for i, column in enumerate(table.columns):
            cells = [row[i] for row in mine]
            if not column.nulls:
                self.assertNotIn(None, cells, column.name)
            if column.closed and i not in plan.pointing[table.name]:
                known = {*column.values, *plan.allowed.get((table.name, i), ()), None}
                self.assertLessEqual(set(cells), known, column.name)
            if column.form:
                self.assertLessEqual({type(cell) for cell in cells if cell is not None}, KINDS[column.form])
            if column.form == "date":
                for cell in filter(None, cells):
                    self.assertEqual(scorer.mask_of(cell), column.format.mask)
                    self.assertTrue(scorer._is_day(cell), cell)

    def test_what_a_column_shows(self):
        rows = [
            # cells, form, closed, nulls, unique
            ([1, 2, 3, 4], "integer", False, False, False),  # four of a range of four: too few to tell
            (list(range(1, 21)), "integer", False, False, True),
            ([10, 900, 45_000, 7, 123_456], "integer", False, False, False),  # a measure that does not repeat
            (["a", "b", "c"], "text", False, False, True),
            (["paid", "open", "void"] * 3, "text", True, False, False),
            ([0, 1, 1, 0, 0, 1], "integer", True, False, False),
            ([1.5, 2.5, None], "real", False, True, False),
            (["2024-01-05", "2024-02-06"] * 9, "date", False, False, False),
            (["2024-01-05", "2024-02-30"] * 9, "text", True, False, False),
            ([b"x", b"y"], "", False, False, False),
            ([1, "a", 2.0], "", False, False, False),
            ([None, None], "", False, True, False),
            ([], "", False, False, False),
        ]
        for cells, form, closed, nulls, unique in rows:
            with self.subTest(cells=cells[:5]):
                column = scorer.column_of("c", cells)
                self.assertEqual(
                    (column.form, column.closed, column.nulls, column.unique), (form, closed, nulls, unique)
                )

    def test_one_value_has_a_neighbour(self):
        rows = [
            ([1] * 5, [0, 1]), ([0] * 5, [0, 1]), ([7] * 5, [7, 8]), ([2.5] * 5, [2.5, 3.5]), (["EUR"] * 5, ["EUR", "EUS"]),
            (["2024-02-28"] * 5, ["2024-02-28", "2024-02-29"]), (["2024-12-31 10:00:00"] * 3, ["2024-12-31 10:00:00", "2025-01-01 10:00:00"]),
            (["v9"] * 4, ["v8", "v9"]), (["z-"] * 4, ["y-", "z-"]), (["9999-12-31"] * 3, ["9999-12-31"]), ([b"a"] * 3, [b"a"]),
            (["--"] * 3, ["--"]), ([""] * 3, [""]),
        ]  # fmt: skip
        for cells, values in rows:
            with self.subTest(cells=cells[0]):
                self.assertEqual(list(scorer.column_of("c", cells).values), values)

    def test_values_about_a_literal(self):
        numbers, prices = list(range(0, 200, 7)), [1.25, 19.99, 250.0, 80.5]
        days = ["2024-01-05", "2024-06-30", "2025-02-01"]
        times = ["2024-01-05 08:30:00", "2024-06-30 23:59:59", "2025-02-01 00:00:00"]
        rows = [
            (numbers, 50, [49, 50, 51]),
            (numbers, 49.5, [48, 49, 50]),
            (numbers, 10**6, []),  # further away than the data is wide
            (prices, 100, [99.99, 100.0, 100.01]),
            (days, "2024-03-01", ["2024-02-29", "2024-03-01", "2024-03-02"]),
            (days, "2024", ["2023-12-31", "2024-01-01", "2024-12-31", "2025-01-01"]),
            (days, 2024, ["2023-12-31", "2024-01-01", "2024-12-31", "2025-01-01"]),
            (days, "2024-12", ["2024-11-30", "2024-12-01", "2024-12-31", "2025-01-01", "2023-12-01", "2025-12-01"]),
            (days, "soon", []),
            (days, "2024-02-31", []),
            (
                times,
                "2024-03-01",
                ["2024-02-29 23:59:59", "2024-03-01 00:00:00", "2024-03-02 00:00:00", "2024-03-01 12:30:00"],
            ),
            (["Oslo", "Rome", "Bath Spa", "Ely"], "Bonn", ["Bonn"]),
            (["oslo", "rome", "bath spa", "ely"], "Bonn", []),  # all lower case
            (["oslo", "rome", "ely", "bath"], "OSLO", ["oslo"]),
            (["a@x.org", "bo@y.org", "c@z.net"], "x.org", []),  # each has one @
            (["AB-12", "CD-34", "EF-56"], "GH-78", ["GH-78"]),
            (["AB-12", "CD-34", "EF-56"], "GH-7", []),
            ([20240105, 20240630, 20250201], 20240301, [20240229, 20240301, 20240302]),
        ]
        for cells, literal, expected in rows:
            with self.subTest(cells=cells[0], literal=literal):
                column = scorer.column_of("c", [*cells, cells[0]])
                self.assertEqual(scorer.telling(column, literal, from_reference=False), expected)

    def test_patterns(self):
        rows = [
            ("a%", "abc", True), ("a%", "bac", False), ("%c", "abc", True), ("%c", "abcd", False), ("%b%", "abc", True), ("a_c", "abc", True),
            ("a_c", "abbc", False), ("a%c%e", "abcde", True), ("a%c%e", "abced", False), ("ab%ab", "ab", False), ("ab%ab", "abab", True), ("%", "", True),
            ("ABC", "abc", True), ("_%_", "a", False), ("_%_", "ab", True), ("a.c", "abc", False), ("%a_", "xxab", True),
            ("%a" * 30 + "%b", "a" * 60, False),
        ]  # fmt: skip
        for pattern, text, expected in rows:
            with self.subTest(pattern, text=text), closing(sqlite3.connect(":memory:")) as database:
                self.assertEqual(scorer._Like(pattern, glob=False).matches(text), expected)
                if len(pattern) < 20:
                    self.assertEqual(bool(database.execute("SELECT ? LIKE ?", (text, pattern)).fetchone()[0]), expected)
        self.assertFalse(scorer._Like("A*", glob=True).matches("abc"))
        self.assertTrue(scorer._Like("a?c*", glob=True).matches("abcd"))

    def test_numbers_below_the_data(self):
        """A bound that only the candidate names does not make amounts negative; the reference's may."""
        amounts = scorer.column_of("amount", [5, 10, 200, 35, 35])
        self.assertEqual(scorer.telling(amounts, 0, from_reference=False), [1])
        self.assertEqual(scorer.telling(amounts, 0, from_reference=True), [-1, 0, 1])

    def test_a_single_value_beside_a_bound_of_the_reference(self):
        ones, day = scorer.column_of("n", [1] * 9), scorer.column_of("day", ["2024-01-05"] * 9)
        self.assertEqual(scorer.telling(ones, 2, from_reference=True, bounds=True), [1, 2])
        self.assertEqual(scorer.telling(ones, 2, from_reference=False), [])
        self.assertEqual(len(scorer.telling(day, "2024-02-01", from_reference=True, bounds=True)), 3)

    def test_a_closed_domain_takes_what_the_reference_names(self):
        status = scorer.column_of("status", ["paid", "open"] * 5)
        self.assertEqual(scorer.telling(status, "void", from_reference=True, named=True), ["void"])
        self.assertEqual(scorer.telling(status, "void", from_reference=True), [])
        self.assertEqual(scorer.telling(status, "Paid", from_reference=True, named=True), ["paid"])


KINDS = {"integer": {int}, "real": {int, float}, "text": {str}, "date": {str}}


class Behaviour(unittest.TestCase):
    """Through the command: what is printed, what is tried, and what is not."""

    def setUp(self):
        self.folder = TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.db = os.path.join(self.folder.name, "shop.db")
        build(
            self.db,
            [
                "CREATE TABLE city (name TEXT PRIMARY KEY, people INTEGER NOT NULL, country TEXT NOT NULL)",
                "INSERT INTO city VALUES ('Oslo', 700, 'NO'), ('Bergen', 280, 'NO'), ('Rome', 2800, 'IT')",
                "INSERT INTO city VALUES ('Turin', 840, 'IT'), ('Bari', 320, 'IT'), ('Milan', 1370, 'IT')",
            ],
        )

    def score(self, reference, candidate, *options, db=None, **keys):
        questions = os.path.join(self.folder.name, "set.json")
        record = {"id": "Q1", "question": "which?", "sql": reference, **keys}
        Path(questions).write_text(json.dumps([record]), encoding="utf-8")
        answers = os.path.join(self.folder.name, "answers.json")
        Path(answers).write_text(json.dumps({"Q1": candidate}), encoding="utf-8")
        return call("--questions", questions, "--db", db or self.db, "--answers", answers, *options)

    LARGEST = "SELECT name FROM city WHERE people = (SELECT MAX(people) FROM city)"
    LUCKY = "SELECT name FROM city ORDER BY people DESC LIMIT 1"

    def test_what_is_printed(self):
        ended = self.score(self.LARGEST, self.LUCKY)
        lines = ended.out.splitlines()
        self.assertIn("  PASS  Q1  which?", lines)
        detail = next(line for line in lines if "coincidence: on" in line)
        self.assertRegex(
            detail, r"^ {10}coincidence: on a variant \(city: 2 rows\): got 1 row, wanted 2 rows; missing "
        )
        self.assertIn("coincidence: 1 (Q1), right on this database only", lines)
        self.assertEqual(
            lines[-2:],
            [f"test-suite accuracy: 0/1 (0%)  [{scorer.VARIANTS} variants, seed 1]", "execution accuracy: 1/1 (100%)"],
        )
        self.assertIn(f"|variants:{scorer.VARIANTS}|seed:1|", ended.out)
        self.assertEqual(ended.code, 0)

    def test_verbose_shows_rows_and_a_script(self):
        ended = self.score(self.LARGEST, self.LUCKY, "-v")
        block = ended.out.partition("counterexample (variant ")[2]
        self.assertIn("city (name, people, country)", block)
        self.assertIn("wanted: (", block)
        self.assertIn("got: (", block)
        script = block.partition("for sqlite3:\n")[2].partition("\n\n")[0]
        script = "\n".join(line[14:] for line in script.splitlines())
        self.assertIn("CREATE TABLE city (name TEXT PRIMARY KEY", script)
        data, _, queries = script.partition("-- reference")
        with closing(sqlite3.connect(":memory:")) as database:
            database.executescript(data)
            counts = [
                len(database.execute(sql).fetchall())
                for sql in queries.split(";")[:2]
                for sql in [sql.replace("-- candidate", "")]
            ]
        self.assertEqual(sorted(counts), [1, 2])

    def test_off(self):
        ended = self.score(self.LARGEST, self.LUCKY, "--variants", "0")
        self.assertNotIn("coincidence", ended.out)
        self.assertNotIn("test-suite", ended.out)
        self.assertIn("|variants:0|", ended.out)

    def test_another_number(self):
        ended = self.score(self.LARGEST, self.LARGEST.replace("name", "city.name"), "--variants", "7")
        self.assertIn("test-suite accuracy: 1/1 (100%)  [7 variants, seed 1]", ended.out)

    def test_table(self):
        ended = self.score(self.LARGEST, self.LUCKY, "--csv", "-")
        self.assertIn("\naccuracy_on_variants,0/1\n", ended.out)
        self.assertEqual(last_line(ended.out), "execution_accuracy,1/1")

    def test_fail_under_is_about_execution_accuracy(self):
        self.assertEqual(self.score(self.LARGEST, self.LUCKY, "--fail-under", "100").code, 0)

    def test_the_contract_holds_on_variants(self):
        """What the contract forgives on the data it forgives on a variant."""
        rows = [
            ("SELECT name, people FROM city", "SELECT people, name FROM city", {}, False),
            ("SELECT DISTINCT country FROM city", "SELECT country FROM city", {"duplicates": "ignore"}, False),
            ("SELECT name FROM city ORDER BY people", "SELECT name FROM city ORDER BY people, name", {}, False),
            (
                "SELECT AVG(people) AS a FROM city",
                "SELECT ROUND(AVG(people), 2) AS a FROM city",
                {"decimals": 2},
                False,
            ),
            (
                "SELECT name FROM city ORDER BY people",
                "SELECT name FROM city ORDER BY people, name",
                {"order": "exact"},
                False,
            ),
            (
                "SELECT name FROM city ORDER BY people, name",
                "SELECT name FROM city ORDER BY people",
                {"order": "exact"},
                True,
            ),
            (
                "SELECT country FROM city WHERE people > 2000",
                "SELECT DISTINCT country FROM city WHERE people > 2000",
                {},
                True,
            ),
        ]
        for reference, candidate, contract, lucky in rows:
            with self.subTest(candidate, contract=contract):
                ended = self.score(reference, candidate, contract=contract)
                self.assertIn("  PASS ", ended.out)
                self.assertEqual("coincidence: on a variant" in ended.out, lucky, ended.out)

    def test_presets_hold_on_variants(self):
        reference, candidate = (
            "SELECT country FROM city WHERE people > 2000",
            "SELECT DISTINCT country FROM city WHERE people > 2000",
        )
        for preset, lucky in (("bird", False), ("spider", True)):
            with self.subTest(preset):
                ended = self.score(reference, candidate, "--contract", preset)
                self.assertEqual("coincidence: on a variant" in ended.out, lucky, ended.out)

    def test_one_accepted_query_is_enough(self):
        both = [self.LARGEST, "SELECT name FROM city ORDER BY people DESC, name LIMIT 1"]
        ended = self.score(both, "SELECT c.name FROM city c ORDER BY c.people DESC, c.name ASC LIMIT 1")
        self.assertNotIn("coincidence", ended.out)
        self.assertIn("test-suite accuracy: 1/1", ended.out)

    def test_parameters_are_bound_there_too(self):
        reference = "SELECT name FROM city WHERE people >= :least"
        for candidate, lucky in (
            ("SELECT name FROM city WHERE NOT people < :least", False),
            ("SELECT name FROM city WHERE people > :least - 100", True),
        ):
            with self.subTest(candidate):
                ended = self.score(reference, candidate, params={"least": 500})
                self.assertIn("  PASS ", ended.out)
                self.assertEqual("coincidence: on a variant" in ended.out, lucky, ended.out)

    def test_no_result_counts_as_one(self):
        """NULL, 0 and no row are no difference where the reference has none of them to tell."""
        rows = [
            (
                "SELECT COUNT(*) FROM city WHERE people > 500",
                "SELECT SUM(CASE WHEN people > 500 THEN 1 ELSE 0 END) FROM city",
            ),
            ("SELECT SUM(people) FROM city", "SELECT TOTAL(people) FROM city"),
            (
                "SELECT SUM(people) FROM city WHERE country = 'IT'",
                "SELECT SUM(people) FROM city WHERE country = 'IT' GROUP BY country",
            ),
        ]
        for reference, candidate in rows:
            with self.subTest(candidate):
                ended = self.score(reference, candidate)
                self.assertIn("test-suite accuracy: 1/1", ended.out)

    def test_errors_on_a_variant_are_no_difference(self):
        """A candidate that breaks on odd data only, or takes for ever there."""
        fails = "SELECT CASE WHEN (SELECT COUNT(*) FROM city) = 6 THEN name ELSE json(name) END FROM city WHERE country = 'IT'"
        endless = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE (SELECT COUNT(*) FROM city) <> 6)"
            " SELECT name FROM city WHERE country = 'IT' AND (SELECT COUNT(*) FROM n) > 0"
        )
        for candidate in (fails, endless):
            with self.subTest(candidate):
                ended = self.score("SELECT name FROM city WHERE country = 'IT'", candidate)
                self.assertIn("  PASS ", ended.out)
                self.assertNotIn("coincidence", ended.out)

    def test_what_cannot_be_tried(self):
        rows = [
            (
                "SELECT COUNT(*) FROM sqlite_master",
                "SELECT COUNT(name) FROM sqlite_master",
                "a query reads the schema itself",
            ),
            ("SELECT 1", "SELECT 2 - 1", "no table is read"),
        ]
        for reference, candidate, why in rows:
            with self.subTest(candidate):
                ended = self.score(reference, candidate)
                self.assertIn(f"not tried on variants: 1 (Q1): {why}", ended.out)

    def test_large_tables_are_sampled(self):
        with closing(sqlite3.connect(self.db)) as database:
            database.execute("CREATE TABLE big (id INTEGER PRIMARY KEY, g TEXT NOT NULL)")
            numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100001)"
            database.execute(f"{numbers} INSERT INTO big SELECT i, 'g' || i % 7 FROM n")
            database.commit()
        ended = self.score("SELECT COUNT(*) FROM big WHERE g = 'g3'", "SELECT SUM(g = 'g3') FROM big")
        self.assertIn("what variants know of large tables is a sample: big", ended.out)
        self.assertIn("test-suite accuracy: 1/1", ended.out)

    def test_views_are_made_as_well(self):
        build(
            self.db,
            [
                "CREATE VIEW italy AS SELECT * FROM city WHERE country = 'IT'",
                "CREATE VIEW big AS SELECT name FROM italy WHERE people > 800",
            ],
        )
        for candidate, lucky in (
            ("SELECT name FROM italy WHERE people > 800", False),
            ("SELECT name FROM italy WHERE people > 700", True),
        ):
            with self.subTest(candidate):
                ended = self.score("SELECT name FROM big", candidate)
                self.assertIn("  PASS ", ended.out)
                self.assertEqual("coincidence: on a variant" in ended.out, lucky, ended.out)

    def test_the_database_is_left_alone(self):
        before = Path(self.db).read_bytes()
        self.score(self.LARGEST, self.LUCKY)
        self.assertEqual(Path(self.db).read_bytes(), before)
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["answers.json", "set.json", "shop.db"])

    def test_an_alternative_that_does_not_fit_accepts_nothing(self):
        both = ["SELECT name, people FROM city WHERE country = 'IT'", "SELECT name FROM city WHERE people > 300"]
        ended = self.score(
            both,
            "SELECT name, people FROM city WHERE name IN ('Rome', 'Turin', 'Bari', 'Milan')",
            contract={"order": "ignore", "decimals.people": 2},
        )
        self.assertIn("coincidence: on a variant", ended.out)

    def test_json_tables(self):
        ended = self.score(
            "SELECT name FROM city WHERE people IN (700, 320)",
            "SELECT name FROM city WHERE people IN (SELECT value FROM json_each('[320, 700]')) AND name <> 'Ulm'",
        )
        self.assertIn("coincidence: on a variant", ended.out)

    def test_numbers_beyond_all_bounds(self):
        for literal in ("1e999", "9" * 400, str(2**63 - 1)):
            with self.subTest(literal[:9]):
                ended = self.score(
                    "SELECT name FROM city WHERE people > 500",
                    f"SELECT name FROM city WHERE people > 500 AND people < {literal}",
                )
                self.assertIn("  PASS ", ended.out)
                self.assertNotIn("took its worker down", ended.out)

    def test_long_calls_end(self):
        """One C call that takes for ever on a variant costs its question some seconds, not its verdict."""
        slow = "length(replace(printf('%.*c', 9000000, 'x'), 'x', 'xxxxx'))"
        candidate = f"SELECT CASE (SELECT COUNT(*) FROM city) WHEN 6 THEN 4 ELSE {slow} END"
        ended = self.score("SELECT COUNT(*) FROM city WHERE country = 'IT'", candidate)
        self.assertIn("execution accuracy: 1/1", ended.out)

    def test_candidates_with_bytes_that_are_no_text(self):
        candidate = "SELECT name FROM city WHERE people > 400 AND name <> CAST(x'ff' AS TEXT) AND name <> x'ff'"
        ended = self.score("SELECT name FROM city WHERE people > 400", candidate)
        self.assertIn("  PASS ", ended.out)
        self.assertNotIn("not tried", ended.out)

    def test_text_that_is_not_utf_8(self):
        build(self.db, ["INSERT INTO city VALUES (CAST(x'476FE96C' AS TEXT), 500, 'FR')"])
        ended = self.score("SELECT name FROM city WHERE people > 400", "SELECT name FROM city WHERE people >= 401")
        self.assertIn("  PASS ", ended.out)
        self.assertNotIn("not tried", ended.out)


class Veiled(unittest.TestCase):
    """What is written of a sealed set keeps the counts and tells nothing of the data."""

    def test_counterexamples_stay_inside(self):
        case = next(case for case in CASES if case["lucky"])
        with TemporaryDirectory() as folder:
            (outcome,) = outcomes([case], folder)
        run = scorer.Run((outcome,), "answers", "data", "", 1, "signature", variants=scorer.VARIANTS)
        veiled = scorer.veiled(run)
        text = scorer.render_text(veiled, scorer.Style(verbose=True)) + scorer.render_csv(veiled)
        self.assertEqual((run.held, veiled.held), (0, 0))
        self.assertIn("coincidence: see the sealed set", text)
        for secret in (outcome.sql, case["reference"], "counterexample", "CREATE TABLE", outcome.detail[0]):
            self.assertNotIn(secret, text)


class Text(unittest.TestCase):
    """The functions of section 5 that variants and the audit use."""

    def test_mutants(self):
        rows = [
            (
                "SELECT a FROM t WHERE x > 5",
                {
                    "boundary: >= for >",
                    "comparison: < for >",
                    "boundary: 6 for 5",
                    "condition: without x > 5",
                    "distinct: with DISTINCT",
                },
            ),
            ("SELECT MAX(a) FROM t", {"aggregate: MIN for MAX"}),
            ("SELECT COUNT(DISTINCT a) FROM t", {"distinct: without DISTINCT"}),
            ("SELECT COUNT(*) FROM t", set()),
            ("SELECT 'a > b AND c' AS \"x = y\" FROM t -- x < 1", {"distinct: with DISTINCT"}),
            (
                "SELECT DISTINCT a FROM t ORDER BY a, b DESC LIMIT 3",
                {
                    "distinct: without DISTINCT",
                    "direction: with DESC",
                    "direction: ASC for DESC",
                    "boundary: 4 for 3",
                },
            ),
            (
                "SELECT a FROM t WHERE x BETWEEN 1 AND 2",
                {
                    "distinct: with DISTINCT",
                    "boundary: 2 for 1",
                    "boundary: 3 for 2",
                    "condition: without x BETWEEN 1 AND 2",
                },
            ),
            (
                "SELECT a FROM t WHERE x NOT IN (SELECT y FROM u)",
                {
                    "distinct: with DISTINCT",
                    "comparison: IN for NOT IN",
                    "condition: without x NOT IN (SELECT y FROM u)",
                },
            ),
            (
                "SELECT a FROM t LEFT JOIN u ON t.i = u.i",
                {
                    "distinct: with DISTINCT",
                    "join: JOIN for LEFT JOIN",
                    "comparison: <> for =",
                    "condition: without t.i = u.i",
                },
            ),
            ("SELECT a FROM t JOIN u USING (i)", {"distinct: with DISTINCT", "join: LEFT JOIN for JOIN"}),
            (
                "SELECT a FROM t WHERE x = 1 OR y = 2",
                {
                    "distinct: with DISTINCT",
                    "comparison: <> for =",
                    "boundary: 2 for 1",
                    "boundary: 3 for 2",
                    "and/or: AND for OR",
                },
            ),
            (
                "SELECT ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) FROM t",
                {"distinct: with DISTINCT", "direction: with DESC"},
            ),
        ]
        for sql, expected in rows:
            with self.subTest(sql):
                found = {f"{mutant.kind}: {mutant.change}" for mutant in scorer.mutants(sql)}
                self.assertEqual(found, expected)

    def test_mutants_of_the_ten_run(self):
        with TemporaryDirectory() as folder:
            db = os.path.join(folder, "ten.db")
            make_messy_schema.build(db, scale=0.5)
            with closing(sqlite3.connect(db)) as database:
                for question in scorer.QUESTIONS:
                    for mutant in scorer.mutants(question.sql):
                        with self.subTest(question.id, change=mutant.change):
                            self.assertIsNotNone(database.execute(f"EXPLAIN {mutant.sql}").fetchone())

    def test_broken_ties(self):
        rows = [
            ("SELECT a, b FROM t ORDER BY c LIMIT 2", "SELECT a, b FROM t ORDER BY c , 1, 2 LIMIT 2"),
            (
                "SELECT a FROM (SELECT a FROM t ORDER BY c LIMIT 2) ORDER BY a",
                "SELECT a FROM (SELECT a FROM t ORDER BY c , 1 LIMIT 2) ORDER BY a",
            ),
            (
                "SELECT f(a, b) FROM t ORDER BY c DESC LIMIT 1 OFFSET 2",
                "SELECT f(a, b) FROM t ORDER BY c DESC , 1 LIMIT 1 OFFSET 2",
            ),
        ]
        for sql, expected in rows:
            with self.subTest(sql):
                self.assertEqual(scorer.with_broken_ties(sql)[0], expected)
        for sql in ("SELECT a FROM t LIMIT 2", "SELECT a FROM t ORDER BY a", "SELECT 'ORDER BY a LIMIT 1'"):
            self.assertEqual(scorer.with_broken_ties(sql), [])

    def test_where_a_limit_cuts(self):
        rows = [
            ("SELECT a FROM t LIMIT 3", ("SELECT a FROM t ", [0, 3])), ("SELECT a FROM t LIMIT 3 OFFSET 2;", ("SELECT a FROM t ", [2, 5])),
            ("SELECT a FROM t LIMIT 2, 3 -- x", ("SELECT a FROM t ", [2, 5])), ("SELECT a FROM t LIMIT :n", None), ("SELECT a FROM t", None),
            ("SELECT a FROM (SELECT 1 LIMIT 2)", None),
        ]  # fmt: skip
        for sql, expected in rows:
            with self.subTest(sql):
                self.assertEqual(scorer.limit_of(sql), expected)

    def test_same_tokens(self):
        self.assertTrue(scorer.same_tokens("SELECT  a -- x\nFROM t;", "SELECT a FROM t"))
        self.assertFalse(scorer.same_tokens("SELECT 'a  b'", "SELECT 'a b'"))
        self.assertFalse(scorer.same_tokens("SELECT a FROM t", "SELECT A FROM t"))

    def test_literals(self):
        rows = [
            (None, "NULL"),
            (1, "1"),
            (1.5, "1.5"),
            ("it's", "'it''s'"),
            (b"\x01", "x'01'"),
            ("a\0b", "'a' || char(0) || 'b'"),
            (float("inf"), "9e999"),
            (-(2**63), "-9223372036854775808"),
        ]
        with closing(sqlite3.connect(":memory:")) as database:
            for cell, text in rows:
                with self.subTest(text):
                    self.assertEqual(scorer.sql_literal(cell), text)
                    self.assertEqual(database.execute(f"SELECT {text}").fetchone()[0], cell)


if __name__ == "__main__":
    sys.exit(unittest.main())
