"""Right answers pass and wrong ones fail, each with its trap: the table candidates.json."""

import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import make_messy_schema as maker  # noqa: E402
import score_nl2sql as scorer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
BY_ID = {question.id: question for question in scorer.QUESTIONS}


def load_table():
    with open(os.path.join(HERE, "candidates.json"), encoding="utf-8") as file:
        return json.load(file)


class Candidates(unittest.TestCase):
    """One worker scores the whole table."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        path = os.path.join(cls.folder.name, "messy.db")
        maker.build(path)
        cls.table = load_table()
        with scorer.readable(path) as database, scorer.Scorer({"": [database]}, scorer.STANDARD) as desk:
            cls.right = [(case, cls.score(desk, case)) for case in cls.table["right"]]
            cls.wrong = [(case, cls.score(desk, case)) for case in cls.table["wrong"]]

    @staticmethod
    def score(desk, case):
        pair = BY_ID[case["question"]], scorer.Answer(case["sql"], 1)
        return desk.score([pair])[0]

    def test_enough_of_each(self):
        for kind in ("right", "wrong"):
            for question in BY_ID:
                with self.subTest(kind=kind, question=question):
                    found = [c for c in self.table[kind] if c["question"] == question]
                    self.assertGreaterEqual(len(found), 5)
                    self.assertEqual(len({c["sql"] for c in found}), len(found))

    def test_right_ones_pass(self):
        for case, outcome in self.right:
            with self.subTest(question=case["question"], style=case["style"]):
                self.assertEqual(outcome.reason, "", outcome.detail)

    def test_right_ones_are_right_on_variants_too(self):
        for case, outcome in self.right:
            with self.subTest(question=case["question"], style=case["style"]):
                self.assertGreater(outcome.variants, 0, outcome.unvaried)
                self.assertIsNone(outcome.counterexample, outcome.detail)

    def test_wrong_ones_fail_and_name_their_traps(self):
        for case, outcome in self.wrong:
            with self.subTest(question=case["question"], style=case["style"]):
                self.assertEqual(outcome.verdict, "FAIL", outcome.detail)
                self.assertEqual(sorted(outcome.traps), sorted(case["traps"]), outcome.detail)
                for name in outcome.traps:
                    self.assertIn(name, outcome.detail[1])

    def test_the_trap_queries_themselves(self):
        named = {(c["question"], name) for c, _ in self.wrong for name in c["traps"]}
        self.assertGreater(len(named), 60)


GEOGRAPHY = os.path.join(os.path.dirname(ROOT), "shared", "data", "geography")


@unittest.skipUnless(os.path.isdir(GEOGRAPHY), "the geography set is not here")
class Geography(unittest.TestCase):
    """A real set of 246 questions: its references as answers."""

    @classmethod
    def setUpClass(cls):
        cls.path = os.path.join(GEOGRAPHY, "geography.sqlite")
        with open(os.path.join(GEOGRAPHY, "questions.json"), "rb") as file:
            data = file.read()
        cls.records = json.loads(data)
        cls.questions = scorer.read_questions(data, "questions.json").questions

    def score(self, pairs, jobs=2):
        databases = {"": [scorer.Database(scorer.file_uri(self.path) + "?mode=ro", "", self.path)]}
        with scorer.Scorer(databases, scorer.STANDARD, jobs) as desk:
            return desk.score(pairs)

    def test_it_is_read(self):
        self.assertEqual([q.id for q in self.questions], [str(r["question_id"]) for r in self.records])
        self.assertEqual([q.sql for q in self.questions], [r["query"] for r in self.records])
        self.assertEqual({q.db for q in self.questions}, {"geography"})

    def test_references_as_answers(self):
        """By each form of answers and number of workers: 244 run and pass, 2 do not run at all."""
        lines = "".join(f"{r['query']}\n" for r in self.records)
        keyed = {str(r["question_id"]): f"{r['query']}{scorer.BIRD_MARK}geography" for r in self.records}
        shuffled = dict(sorted(keyed.items(), key=lambda item: item[0][::-1]))
        for form, text, jobs in (("spider", lines, 1), ("bird", json.dumps(shuffled), 8)):
            with self.subTest(form=form, jobs=jobs):
                answers = scorer.read_answers(text.encode(), self.questions)
                self.assertEqual(answers.form, form)
                outcomes = self.score([(q, answers.by_id[q.id]) for q in self.questions], jobs)
                self.assertEqual([o.question.id for o in outcomes], [q.id for q in self.questions])
                self.assertEqual(sum(o.passed for o in outcomes), 244)
                broken = [o.question.id for o in outcomes if o.reason == "reference_error"]
                self.assertEqual(broken, ["38", "222"])

    def test_declared_variants(self):
        """Each passes, or its FAIL shows what sets it apart: a river that the reference repeats."""
        pairs = [
            (question._replace(id=f"{question.id}.{i}"), scorer.Answer(sql, 1))
            for question, record in zip(self.questions, self.records)
            for i, sql in enumerate(record["variants"])
        ]
        self.assertGreater(len(pairs), 10)
        outcomes = self.score(pairs)
        apart = {o.question.id: o for o in outcomes if not o.passed}
        self.assertEqual(set(apart), {"38.0", "94.0"})
        self.assertEqual(apart["38.0"].reason, "reference_error")
        self.assertEqual(apart["94.0"].reason, "duplicates")
        self.assertIn("got 1 row, wanted 4 rows; missing ('missouri') x3", apart["94.0"].detail[0])
        reasons = {o.question.id: o.reason for o in outcomes}
        for id in ("54.0", "116.0", "116.1"):  # right on any data
            self.assertEqual(reasons[id], "", id)


if __name__ == "__main__":
    unittest.main()
