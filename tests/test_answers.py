"""Reading answers files: the table answers_cases.json, and properties that hold for any bytes."""

import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import score_nl2sql as scorer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def load_cases():
    with open(os.path.join(HERE, "answers_cases.json"), encoding="utf-8") as file:
        return json.load(file)["cases"]


def data_of(case):
    if "input_hex" in case:
        return bytes.fromhex(case["input_hex"])
    if "parts" in case:
        return "".join(text * times for text, times in case["parts"]).encode("utf-8")
    return case["input"].encode("utf-8")


def trimmed(sql):
    """The SQL without comments, semicolons and white space around it, as the table gives it."""
    found = scorer.statements(sql)
    return sql[found[0][0] : found[-1][1]].rstrip() if found else ""


class AnswersCases(unittest.TestCase):
    def test_table(self):
        for case in load_cases():
            with self.subTest(case["id"]):
                answers = scorer.read_answers(data_of(case), scorer.QUESTIONS)
                self.check_answers(case, answers)
                self.check_warnings(case, answers.warnings)

    def check_answers(self, case, answers):
        for question in scorer.QUESTIONS:
            want = case["answers"].get(question.id, {"skip": True})
            got = answers.by_id[question.id]
            if want.get("skip"):
                self.assertEqual(got.reason, "no_sql", f"{question.id}: {got}"[:500])
            elif "reason" in want:
                self.assertEqual(got.reason, want["reason"], f"{question.id}: {got}"[:500])
                for line in want.get("lines", ()):
                    self.assertRegex(got.detail, rf"\b{line}\b")
            else:
                self.assertEqual(got.reason, "", f"{question.id}: {got}"[:500])
                self.assertEqual(trimmed(got.sql), want["sql"])

    def check_warnings(self, case, warnings):
        shown = "\n".join(warnings).casefold()
        for piece in case.get("warnings", ()):
            self.assertIn(piece.casefold(), shown)
            self.assertTrue(warnings)
        if "warning_count" in case:
            self.assertEqual(len(warnings), case["warning_count"], warnings)


if __name__ == "__main__":
    unittest.main()
