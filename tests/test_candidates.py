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

    def test_references_as_answers(self):
        with open(os.path.join(GEOGRAPHY, "questions.json"), encoding="utf-8") as file:
            records = json.load(file)
        path = os.path.join(GEOGRAPHY, "geography.sqlite")
        with scorer.readable(path) as database, scorer.Scorer({"": [database]}, scorer.STANDARD) as desk:
            pairs = [
                (scorer.Question(f"Q{i}", r["question"], "", r["query"]), scorer.Answer(r["query"], 1))
                for i, r in enumerate(records)
            ]
            reasons = [outcome.reason for outcome in desk.score(pairs)]
        self.assertEqual(len(reasons), 246)
        self.assertEqual(sum(scorer.VERDICTS[reason] == "PASS" for reason in reasons), 244)
        self.assertEqual(reasons.count("reference_error"), 2)


if __name__ == "__main__":
    unittest.main()
