"""Reading question sets and predictions: two tables, hardness, and files with broken bytes.

A row of questions_cases.json has a file ("text", "hex", or "parts" and "repeat" of text and times)
and what is understood of it ("questions", only the fields that matter), or fragments of the one-line
"error". A row of predictions_cases.json has the questions as [id, text, db] too. Where both reading
and refusing are right, "any" or "any_ok" says so; "or_warning" is either the error or a warning.
"""

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LONG = bool(os.environ.get("NL2SQL_LONG"))
SECONDS = 20  # of processor time: what grows with the square of a file takes minutes


def table(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return json.load(file)


def data_of(row):
    if "hex" in row:
        return bytes.fromhex(row["hex"])
    pieces = row.get("parts") or [row.get("repeat") or [row.get("text"), 1]]
    return "".join(text * times for text, times in pieces).encode("utf-8", "surrogatepass")


def plain(sql):
    """SQL without what may stand around it."""
    return sql.replace("\r\n", "\n").strip(" \t\r\n\f\v\ufeff").rstrip("; \t\r\n\f\v\ufeff")


def frozen_rows(question):
    return [{"columns": list(f.columns), "rows": [list(r) for r in f.rows]} for f in question.frozen]


SHOWN = {
    "sql": lambda q: plain(q.sql),
    "alternatives": lambda q: [plain(sql) for sql in q.alternatives],
    "traps": lambda q: [trap.name for trap in q.traps],
    "tables": lambda q: list(q.tables),
    "frozen": frozen_rows,
    "params": lambda q: dict(q.params),
}
WANTED = {
    "sql": plain,
    "alternatives": lambda sqls: [plain(sql) for sql in sqls],
    "contract": scorer.read_contract,
}


class Rows(unittest.TestCase):
    def run_row(self, row, read, is_good, check):
        """Reads a row's file; what comes of it, error or not, must be what the row says."""
        begun = time.process_time()
        try:
            result = read()
        except scorer.ScoreError as error:
            self.check_error(row, str(error), is_good)
            return
        finally:
            self.assertLess(time.process_time() - begun, SECONDS)
        either = row.get("any") or (row.get("any_ok") and not is_good)
        if row.get("or_warning") and "error" in row:
            self.check_warnings({"warnings": row["error"]}, result.warnings)
        elif not either:
            self.assertTrue(is_good, f"read, wanted an error: {result!r}"[:600])
            dropped = row.get("or_dropped_warning")
            if not (dropped and any(dropped in warning for warning in result.warnings)):
                check(result)
        if row.get("all_skip"):
            self.assertEqual({a.reason for a in result.by_id.values()}, {"no_sql"})
        self.check_warnings(row, result.warnings)

    def check_error(self, row, text, is_good):
        self.assertNotIn("\n", text)
        self.assertNotIn("\r", text)
        self.assertLess(len(text), row.get("max_error", 600))
        if "error" in row and not row.get("any_ok"):
            for fragment in row["error"]:
                self.assertIn(fragment.casefold(), text.casefold())
        else:
            self.assertTrue("error" in row or row.get("any") or row.get("any_ok"), text[:400])

    def check_warnings(self, row, warnings):
        self.assertLessEqual(len(warnings), row.get("max_warnings", len(warnings)))
        if row.get("no_warnings"):
            self.assertEqual(list(warnings), [])
        shown = "\n".join(warnings).casefold()
        for fragment in row.get("warnings", ()):
            self.assertIn(fragment.casefold(), shown[:5000])


class QuestionSets(Rows):
    def test_table(self):
        rows = table("questions_cases.json")
        self.assertGreater(len(rows), 390)
        for row in rows:
            with self.subTest(row["name"]):
                is_good = "questions" in row or "questions_count" in row
                self.run_row(row, lambda row=row: self.read(row), is_good, lambda found, row=row: self.check(row, found))

    def read(self, row):
        found = scorer.read_questions(data_of(row), row["file"])
        scorer.questions_digest(found.questions)  # what every run does with them
        scorer.contracts_digest(found.questions)
        scorer.render_questions(found.questions).encode("utf-8", "backslashreplace")
        return found

    def check(self, row, found):
        if "questions_count" in row:
            self.assertEqual(len(found.questions), row["questions_count"])
            return
        self.assertEqual(len(found.questions), len(row["questions"]), [q.id for q in found.questions])
        for want, got in zip(row["questions"], found.questions):
            for key, value in want.items():
                if key == "wordings":
                    have = {code: got.wordings.get(code) for code in value}
                else:
                    have = SHOWN.get(key, lambda q, key=key: getattr(q, key))(got)
                self.assertEqual(have, WANTED.get(key, lambda value: value)(value), (got.id, key))

    def test_contracts_of_any_columns_survive_the_way_to_the_worker(self):
        """Names with commas, spaces and words that mean something else."""
        for keys in (
            {"order": ["a, b desc", "c desc"]},
            {"order": ["n desc asc", "m asc desc"]},
            {"optional": ["a, b", "c"], "alias.x": ["p, q"]},
            {"top": "3 with ties by n desc, m"},
            {"time": ["a, b"], "date": "d in UTC"},
            {"preset": "spider"},
            {"preset": "bird"},
        ):
            with self.subTest(keys=keys):
                contract = scorer.read_contract(keys)
                again = json.loads(json.dumps(scorer.contract_keys(contract)))
                self.assertEqual(scorer.read_contract(again), contract)


class Predictions(Rows):
    def test_table(self):
        rows = table("predictions_cases.json")
        self.assertGreater(len(rows), 300)
        for row in rows:
            with self.subTest(row["name"]):
                questions = [
                    scorer.Question(id, text, "", "SELECT 1", db=db) for id, text, db in row["questions"]
                ]
                data, form = data_of(row), row.get("form", "auto")
                self.run_row(
                    row,
                    lambda data=data, q=questions, form=form: scorer.read_answers(data, q, form),
                    "answers" in row,
                    lambda found, row=row, q=questions: self.check(row, q, found),
                )

    def check(self, row, questions, found):
        if not row.get("form_any"):
            self.assertEqual(found.form, row["form_is"])
        self.assertIn(row.get("pairing", ""), found.pairing)
        self.assertEqual(set(found.by_id), {question.id for question in questions})
        for id, want in row["answers"].items():
            got = found.by_id[id]
            if want is None or isinstance(want, dict):
                self.assertEqual(got.reason, "no_sql" if want is None else want["reason"], got)
            else:
                lines = got.sql.split("\n")
                if row.get("trim_comments"):
                    lines = [line for line in lines if not line.startswith("--")]
                self.assertEqual((got.reason, "\n".join(lines).strip()), ("", want.strip()))


class Hardness(unittest.TestCase):
    def test_table(self):
        rows = table("hardness.json")
        self.assertGreater(len(rows), 200)
        for row in rows:
            with self.subTest(row["sql"]):
                self.assertEqual(scorer.hardness(row["sql"]), row["hardness"], row["why"])

    def test_any_text_has_a_class(self):
        chance = random.Random(5)
        words = ["SELECT", "FROM", "WHERE", "(", ")", ",", "AND", "OR", "NOT", "LIKE", "BETWEEN", "CASE", "END", "UNION", "ORDER", "BY", "'", '"', "--", "/*", "a", "1", "=", ";"]
        for _ in range(3000):
            sql = " ".join(chance.choice(words) for _ in range(chance.randrange(25)))
            self.assertIn(scorer.hardness(sql), ("easy", "medium", "hard", "extra"))


SAMPLES = os.path.join(HERE, "samples")


class BrokenFiles(unittest.TestCase):
    """Flipped, cut, doubled and moved bytes give a reading or one clear line."""

    def mutated(self, chance, data):
        data = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            a, b = sorted(chance.randrange(len(data) + 1) for _ in range(2))
            how = chance.randrange(6)
            if how == 0 and data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            elif how == 1:
                del data[a : min(b, a + 40)]
            elif how == 2:
                data[a:a] = data[a : min(b, a + 60)]
            elif how == 3:
                data = data[:b]
            elif how == 4:
                data[a:a] = chance.choice(
                    (b"\x00", b"\xff\xfe", b"{", b"[", b'"', b"'", b"\n\n", b"```\n", b"-- Q01: ", b"/*", b"\\ud800", b"1e999", b"\t", b"null")
                )
            else:
                data[a:b] = data[a:b][::-1]
        return bytes(data)

    def files(self):
        return [name for name in sorted(os.listdir(SAMPLES)) if os.path.isfile(os.path.join(SAMPLES, name))]

    def test_ten_thousand(self):
        """Half as question sets, half as answers; the time is the reading's own."""
        chance = random.Random(11)
        names = self.files()
        self.assertGreater(len(names), 8)
        times = 10_000 if LONG else 2_000
        read = refused = 0
        for i in range(times):
            name = names[i % len(names)]
            with open(os.path.join(SAMPLES, name), "rb") as file:
                data = self.mutated(chance, file.read())
            with self.subTest(name=name, data=data):
                try:
                    if i % 2:
                        found = scorer.read_questions(data, name)
                        scorer.questions_digest(found.questions)
                        scorer.render_questions(found.questions)
                    else:
                        form = chance.choice(("auto", "auto", *scorer.ANSWER_FORMS))
                        scorer.read_answers(data, scorer.QUESTIONS[:3], form)
                    read += 1
                except scorer.ScoreError as error:
                    self.assertNotIn("\n", str(error))
                    refused += 1
        self.assertGreater(min(read, refused), times // 10)

    def test_whole_runs(self):
        """The command itself on broken files: scored, or one line; never a traceback."""
        chance = random.Random(13)
        pairs = [("questions.sql", "answers.sql"), ("questions.json", "predictions.jsonl"), ("spider_dev.json", "spider_predicted.txt")]
        pairs += [("bird_dev.json", "bird_predict.json"), ("questions.json", "chat.md"), ("spider_gold.sql", "spider_predicted.txt")]
        codes = []
        with tempfile.TemporaryDirectory() as folder:
            for i in range(300 if LONG else 36):
                paths = []
                for j, name in enumerate(pairs[i % len(pairs)]):
                    with open(os.path.join(SAMPLES, name), "rb") as file:
                        data = file.read()
                    paths.append(os.path.join(folder, name))
                    with open(paths[-1], "wb") as file:
                        file.write(self.mutated(chance, data) if i % 3 != j else data)
                shutil.copy(os.path.join(SAMPLES, "months.csv"), folder)
                out, err = io.StringIO(), io.StringIO()
                root = os.path.join(SAMPLES, "database")
                with self.subTest(pair=pairs[i % len(pairs)], run=i):
                    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                        code = scorer.main(["--questions", paths[0], "--db-root", root, "--answers", paths[1], "--timeout", "2"])
                    self.assertIn(code, (0, 2))
                    codes.append(code)
                    self.assertLessEqual(err.getvalue().count("\n"), 1)
                    if code == 0:
                        self.assertRegex(out.getvalue().splitlines()[-1], r"^execution accuracy: \d+/\d+ \(")
                    else:
                        self.assertRegex(err.getvalue(), r"^score_nl2sql\.py: .+")
        self.assertGreater(min(codes.count(0), codes.count(2)), len(codes) // 10)

    def test_csv(self):
        chance = random.Random(12)
        for _ in range(500):
            data = self.mutated(chance, b'id,"name",n\n1,"a, b",2.5\n2,,\n3,"say ""hi""",-7\n')
            try:
                frozen = scorer.read_csv_rows(data, "rows.csv")
                self.assertTrue(all(len(row) == len(frozen.columns) for row in frozen.rows))
            except scorer.ScoreError as error:
                self.assertNotIn("\n", str(error))


if __name__ == "__main__":
    unittest.main()
