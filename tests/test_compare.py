"""Comparing results: the table cases.json, and what no table shows: speed, large results, searches."""

import json
import os
import sqlite3
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import score_nl2sql as scorer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
# Many a candidate here is right on its data alone, which is another matter.
SETTINGS = scorer.Settings(variants=0)


def load_cases():
    with open(os.path.join(HERE, "cases.json"), encoding="utf-8") as file:
        return json.load(file)["cases"]


def cell_of(value):
    if isinstance(value, dict):
        if "hex" in value:
            return bytes.fromhex(value["hex"])
        if "text_hex" in value:
            return bytes.fromhex(value["text_hex"]).decode("utf-8", "surrogateescape")
        return float(value["real"])
    return value


def result_of(table):
    return scorer.Result.of(table["columns"], [tuple(map(cell_of, row)) for row in table["rows"]])


def contract_of(case):
    """The contract; in the form that gives rows there is no reference that could sort."""
    contract = scorer.read_contract(case.get("contract", {}))
    if "want" in case and contract.order == "auto":
        return contract._replace(order="ignore")
    return contract


class ComparisonCases(unittest.TestCase):
    def test_rows(self):
        cases = [case for case in load_cases() if "want" in case]
        self.assertGreater(len(cases), 100)
        for case in cases:
            with self.subTest(case["id"], setting=case["setting"]):
                want, got = result_of(case["want"]), result_of(case["got"])
                comparison = scorer.compare(want, got, contract_of(case))
                self.check(case, comparison.reason, comparison)

    def test_sql(self):
        cases = [case for case in load_cases() if "data" in case]
        self.assertGreater(len(cases), 10)
        with tempfile.TemporaryDirectory() as folder:
            for i, case in enumerate(cases):
                path = os.path.join(folder, f"{i}.db")
                connection = sqlite3.connect(path)
                connection.executescript(case["data"])
                connection.close()
                question = scorer.Question(
                    "Q01", "?", "", case["reference"], scorer.read_contract(case["contract"])
                )
                with self.subTest(case["id"], setting=case["setting"]):
                    outcome = scorer.grade("Q01", case["candidate"], path, questions=[question], settings=SETTINGS)
                    self.check(case, outcome.reason, outcome.detail)

    def check(self, case, reason, seen):
        self.assertEqual(scorer.VERDICTS[reason], case["verdict"], seen)
        if "reason" in case:
            self.assertEqual(reason or None, case["reason"] or None, seen)
        if scorer.VERDICTS[reason] == "FAIL" and "want" in case:
            self.assertTrue(scorer.describe(seen))


if __name__ == "__main__":
    unittest.main()
