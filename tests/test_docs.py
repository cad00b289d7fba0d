"""The README is run: each console block's command gives the output that stands below it.

`python tests/test_docs.py --write` puts the present output into the README.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "README.md")
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

BLOCK = re.compile(r"```console\n\$ (.+)\n((?:.*\n)*?)```\n")
# What differs from machine to machine, and with each change of the file.
VOLATILE = re.compile(r"(scorer:[\d.]+\+)[0-9a-f]+|((?:sqlite|python):)[\d.]+")


def read_readme():
    with open(README, encoding="utf-8") as file:
        return file.read()


def fresh_copy(folder):
    """What somebody gets who clones the repository."""
    for name in ("score_nl2sql.py", "make_messy_schema.py", "README.md", "LICENSE"):
        shutil.copy(os.path.join(ROOT, name), folder)
    for name in ("answers", "samples"):
        shutil.copytree(os.path.join(ROOT, "tests", name), os.path.join(folder, "tests", name))


def run(command, folder):
    """What a command of the README prints, standard error included."""
    words = shlex.split(command)
    if words[0] != "python":
        raise AssertionError(f"no command of ours: {command}")
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, *words[1:]],
        cwd=folder,
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout.decode("utf-8"), done.returncode


def settled(text):
    return VOLATILE.sub(lambda m: (m[1] or m[2]) + "*", text)


class Readme(unittest.TestCase):
    def test_console_blocks(self):
        blocks = BLOCK.findall(read_readme())
        self.assertGreaterEqual(len(blocks), 6)
        with tempfile.TemporaryDirectory() as folder:
            fresh_copy(folder)
            for command, shown in blocks:
                with self.subTest(command):
                    printed, code = run(command, folder)
                    self.assertEqual(code, 0, printed)
                    self.assertEqual(settled(shown), settled(printed))

    def test_python_block(self):
        """The example says in a comment what it prints first."""
        code = re.search(r"```python\n(.*?)```", read_readme(), re.S)[1]
        with tempfile.TemporaryDirectory() as folder:
            fresh_copy(folder)
            run("python make_messy_schema.py", folder)
            with open(os.path.join(folder, "example.py"), "w", encoding="utf-8") as file:
                file.write(code)
            printed, status = run("python example.py", folder)
            self.assertEqual(status, 0, printed)
            self.assertEqual(printed.splitlines()[0], re.search(r"# (FAIL .*)", code)[1])
            self.assertIn("missing", printed)

    def test_every_option_exists(self):
        help_text = scorer.build_parser().format_help()
        for option in set(re.findall(r"`[^`\n]*?(--[a-z][a-z-]+)", read_readme())):
            with self.subTest(option):
                maker_only = option in ("--seed", "--scale", "--out", "--force")
                self.assertTrue(maker_only or option in help_text)

    def test_every_reason_is_explained(self):
        readme = read_readme()
        for reason in filter(None, scorer.VERDICTS):
            with self.subTest(reason):
                self.assertIn(f"| `{reason}` |", readme)

    def test_the_ten_questions_stand_there(self):
        readme = read_readme()
        for question in scorer.QUESTIONS:
            with self.subTest(question.id):
                self.assertIn(f"| {question.id} | {question.text} |", readme)

    def test_credits_and_licences(self):
        with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
            licence = file.read()
        for text in (read_readme(), licence):
            self.assertIn("InfiniSynapse", text)
            self.assertIn("CC BY 4.0", text)
            self.assertIn("infinisynapse.com/use-cases/nl2sql", text)


def write():
    with tempfile.TemporaryDirectory() as folder:
        fresh_copy(folder)
        text = BLOCK.sub(
            lambda m: f"```console\n$ {m[1]}\n{run(m[1], folder)[0]}```\n", read_readme()
        )
    with open(README, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
