"""The shape of the single file: contents and banners agree, nothing reads upwards, pure stays pure."""

import ast
import os
import re
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

PROGRAMS = ("score_nl2sql.py", "make_messy_schema.py")
BANNER = re.compile(r"^# ---- (\d+)\. (.+?) -+$", re.M)
CONTENTS = re.compile(r"^# +(\d+)\. (.+)$", re.M)
PURE = range(4, 9)  # and 13, 14
IMPURE = ("open", "print", "input", "os", "sys", "time", "subprocess", "sqlite3")
LONGEST = 70
# Standard modules by name, for Pythons that cannot list theirs (before 3.10).
STANDARD = set(getattr(sys, "stdlib_module_names", ()))


def source(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def sections():
    """Number, first and last line of each bannered section of the scorer."""
    text = source("score_nl2sql.py")
    begins = [(int(m[1]), text.count("\n", 0, m.start()) + 1) for m in BANNER.finditer(text)]
    ends = [line - 1 for _, line in begins[1:]] + [text.count("\n") + 1]
    return [(number, first, last) for (number, first), last in zip(begins, ends)]


def section_of(line):
    return next((n for n, first, last in sections_once if first <= line <= last), 1)


sections_once = sections()


class Shape(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trees = {name: ast.parse(source(name)) for name in PROGRAMS}
        cls.tree = cls.trees["score_nl2sql.py"]

    def functions(self):
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield name, node

    def test_contents_and_banners_agree(self):
        text = source("score_nl2sql.py")
        banners = [(m[1], m[2]) for m in BANNER.finditer(text)]
        contents = [(m[1], m[2]) for m in CONTENTS.finditer(text) if m[1] != "1"]
        self.assertGreater(len(banners), 12)
        self.assertEqual(contents, banners)
        numbers = [int(number) for number, _ in banners]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_nothing_reads_upwards(self):
        """A section uses only names that it or a section above it defines."""
        home = {}
        for node in self.tree.body:
            names = [getattr(node, "name", None)]
            if isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [t.id for t in targets if isinstance(t, ast.Name)]
            for name in filter(None, names):
                home.setdefault(name, section_of(node.lineno))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id in home:
                with self.subTest(name=node.id, line=node.lineno):
                    self.assertLessEqual(home[node.id], section_of(node.lineno))

    def test_pure_sections(self):
        for node in ast.walk(self.tree):
            number = section_of(getattr(node, "lineno", 1))
            if number not in PURE and number not in (13, 14):
                continue
            with self.subTest(line=getattr(node, "lineno", None)):
                if isinstance(node, ast.Name):
                    allowed = node.id == "sys" and number == 7  # sys.maxsize, sys.modules
                    self.assertTrue(node.id not in IMPURE or allowed, node.id)
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    modules = [a.name for a in node.names] + [getattr(node, "module", "") or ""]
                    self.assertFalse(set(modules) & set(IMPURE), modules)

    def test_only_the_standard_library(self):
        if not STANDARD:
            self.skipTest("this Python cannot list its modules")
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                modules = []
                if isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    modules = [node.module or ""]
                for module in modules:
                    with self.subTest(program=name, module=module):
                        self.assertIn(module.split(".")[0], STANDARD)

    def test_functions_are_short_and_hinted(self):
        lengths = []
        for name, node in self.functions():
            length = node.end_lineno - node.lineno + 1
            lengths.append(length)
            with self.subTest(program=name, function=node.name):
                self.assertTrue(length <= LONGEST or node.name == "build_parser", length)
                self.assertIsNotNone(node.returns)
                for argument in node.args.args + node.args.kwonlyargs:
                    if argument.arg not in ("self", "cls"):
                        self.assertIsNotNone(argument.annotation, argument.arg)
        self.assertLessEqual(sorted(lengths)[len(lengths) // 2], 12)

    def test_an_old_python_can_read_far_enough_to_refuse(self):
        for name in PROGRAMS:
            with self.subTest(name):
                ast.parse(source(name), feature_version=(3, 8))
                self.assertIn("Python 3.9 or newer is needed", source(name))

    def test_no_broad_except(self):
        for name, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ExceptHandler):
                    with self.subTest(program=name, line=node.lineno):
                        caught = getattr(node.type, "id", "bare" if node.type is None else "")
                        self.assertNotIn(caught, ("bare", "Exception", "BaseException"))

    def test_one_place_prints(self):
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self.assertNotEqual(node.func.id, "print", node.lineno)

    def test_no_class_looks_like_a_test(self):
        for tree in self.trees.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.assertFalse(node.name.startswith("Test"), node.name)

    def test_what_other_sections_call_has_a_docstring(self):
        """A function or class that another section uses says in a line what comes back."""
        used = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name):
                used.setdefault(node.id, set()).add(section_of(node.lineno))
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                elsewhere = used.get(node.name, set()) - {section_of(node.lineno)}
                if elsewhere and not node.name.startswith("_"):
                    with self.subTest(name=node.name):
                        self.assertTrue(ast.get_docstring(node))

    def test_the_top_level_of_the_repository(self):
        allowed = {"score_nl2sql.py", "make_messy_schema.py", "README.md", "LICENSE", "tests"}
        found = {n for n in os.listdir(ROOT) if not n.startswith(".")}
        self.assertLessEqual(found - {"__pycache__", scorer.DEFAULT_DB}, allowed)


QUESTION_TEXTS = {
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


class TenQuestions(unittest.TestCase):
    def test_texts_letter_for_letter(self):
        self.assertEqual({q.id: q.text for q in scorer.QUESTIONS}, QUESTION_TEXTS)

    def test_each_has_its_traps(self):
        for question in scorer.QUESTIONS:
            with self.subTest(question.id):
                self.assertGreaterEqual(len(question.traps), 3)
                names = [trap.name for trap in question.traps]
                self.assertEqual(len(set(names)), len(names))
                self.assertEqual(len({trap.sql for trap in question.traps}), len(names))
                self.assertTrue(all(trap.why and trap.name for trap in question.traps))

    def test_contracts_survive_the_way_to_the_worker(self):
        for question in scorer.QUESTIONS:
            with self.subTest(question.id):
                keys = scorer.contract_keys(question.contract)
                self.assertEqual(scorer.read_contract(keys), question.contract)
                self.assertEqual(keys["order"], "ignore")


if __name__ == "__main__":
    unittest.main()
