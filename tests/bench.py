"""What the scorer costs, as ratios and differences within one run: python tests/bench.py

Machines are noisy, so each figure is the best of several rounds, taken in turn with its floor.
"""

import argparse
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, nullcontext

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

ROWS = 1_000_000
IN_ORDER = "SELECT id, name, amount, n FROM t"
OTHER_ORDER = "SELECT id, name, amount, n FROM t ORDER BY id DESC"
ONE_APART = "SELECT id, name, CASE id WHEN 777777 THEN 0.5 ELSE amount END AS amount, n FROM t"
ONE_NAME_APART = "SELECT id, CASE id WHEN 777777 THEN '?' ELSE name END AS name, amount, n FROM t"
REVERSED_APART = ONE_APART + " ORDER BY id DESC"


def seconds(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def best(works, rounds):
    """The best time of each piece of work, all of them taken in turn."""
    times = [[] for _ in works]
    for _ in range(rounds):
        for work, found in zip(works, times):
            found.append(seconds(work))
    return [min(found) for found in times]


def run(*command, cwd):
    done = subprocess.run(command, cwd=cwd, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode() or f"{command} left with {done.returncode}")
    return done.stdout.decode()


def big_database(folder):
    path = os.path.join(folder, "big.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount REAL, n INTEGER)")
    rows = ((i, f"name {i * 7919 % 5003}", i * 0.37, i % 97) for i in range(ROWS))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


def ten_questions(folder, rounds):
    """Seconds beyond a bare interpreter with sqlite3, the ten references as answers."""
    answers = os.path.join(folder, "answers.sql")
    with open(answers, "w", encoding="utf-8") as file:
        for question in scorer.QUESTIONS:
            file.write(f"-- {question.id}: {question.text}\n{question.sql};\n\n")
    program = os.path.join(ROOT, "score_nl2sql.py")
    run(sys.executable, os.path.join(ROOT, scorer.MAKER), cwd=folder)
    floor, ours = best(
        [
            lambda: run(sys.executable, "-c", "import sqlite3", cwd=folder),
            lambda: run(sys.executable, program, "--answers", answers, "--variants", "0", cwd=folder),
        ],
        rounds * 5,
    )
    print(f"ten questions: {ours:.3f} s, bare interpreter {floor:.3f} s: +{ours - floor:.3f} s (0.15)")


def first_rewrites(folder):
    """For each of the ten questions, the first of its rewrites, as an answers file."""
    with open(os.path.join(ROOT, "tests", "rewrites.json"), encoding="utf-8") as file:
        rows = json.load(file)
    first = {row["question"]: row["sql"] for row in reversed(rows) if row["question"].startswith("Q")}
    path = os.path.join(folder, "rewrites.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(first, file)
    return path


def variants(folder, rounds):
    """What the variants of the ten questions add to a run, and what one costs on a real set."""
    program = os.path.join(ROOT, "score_nl2sql.py")
    command = [sys.executable, program, "--answers", first_rewrites(folder)]
    told = run(*command, cwd=folder)
    assert f"test-suite accuracy: 10/10 (100%)  [{scorer.VARIANTS} variants" in told, told[-400:]
    works = [lambda n=n: run(*command, "--variants", n, cwd=folder) for n in ("0", str(scorer.VARIANTS))]
    floor, ours = best(works, rounds * 5)
    print(f"ten questions, {scorer.VARIANTS} variants each: +{ours - floor:.3f} s (0.3)")
    data = os.path.join(os.path.dirname(ROOT), "shared", "data", "geography")
    if os.path.isdir(data):
        print(f"geography: {1000 * seconds_of_a_variant(data):.2f} ms a variant (2)")


def seconds_of_a_variant(data):
    """On one worker, the rewrites of the real set's references: no variant tells them apart."""
    with open(os.path.join(data, "questions.json"), "rb") as file:
        by_id = {f"geography:{q.id}": q for q in scorer.read_questions(file.read(), "questions.json").questions}
    with open(os.path.join(ROOT, "tests", "rewrites.json"), encoding="utf-8") as file:
        rows = [row for row in json.load(file) if row["question"] in by_id]
    pairs = [(by_id[row["question"]]._replace(id=row["id"]), scorer.Answer(row["sql"], 1)) for row in rows]
    times, tried = [], 0
    with scorer.readable(os.path.join(data, "geography.sqlite")) as database:
        for number in (0, scorer.VARIANTS):
            settings = scorer.Settings(variants=number)
            with scorer.Scorer({"": [database]}, settings) as desk:
                desk.score(pairs[:1])  # the worker is up
                begun = time.perf_counter()
                outcomes = desk.score(pairs)
                times.append(time.perf_counter() - begun)
                tried = sum(outcome.variants for outcome in outcomes)
    return (times[1] - times[0]) / tried


def large_database(folder, rows=8_000_000):
    """What variants add to a question on about a gigabyte, which is sampled."""
    path = os.path.join(folder, "large.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT)")
        connection.execute(
            "CREATE TABLE sale (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer (id),"
            " sku TEXT, qty INTEGER, price REAL, status TEXT, sold_at TEXT, note TEXT)"
        )
        count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {})"
        connection.execute(
            f"{count.format(300_000)} INSERT INTO customer SELECT i, 'name ' || i, 'city ' || i % 500 FROM n"
        )
        connection.execute(
            f"{count.format(rows)} INSERT INTO sale SELECT i, 1 + i * 7919 % 300000, 'SKU-' || i % 9973, i % 9,"
            " ROUND(i % 10007 * 0.37, 2), CASE i % 5 WHEN 0 THEN 'void' ELSE 'paid' END,"
            " datetime('2022-01-01', '+' || i % 1500000 || ' minutes'),"
            " 'a note about sale number ' || i || ', of no further interest' FROM n"
        )
        connection.commit()
    question = scorer.Question("L1", "?", "", "SELECT COUNT(*) FROM sale WHERE id <= 1000 AND status <> 'void'")
    sql = "SELECT COUNT(*) FROM sale s JOIN customer c ON c.id = s.customer_id WHERE s.id <= 1000 AND status = 'paid'"
    times = []
    with scorer.readable(path) as database:
        for number in (0, scorer.VARIANTS):
            settings = scorer.Settings(variants=number)
            with scorer.Scorer({"": [database]}, settings) as desk:
                begun = time.perf_counter()
                (outcome,) = desk.score([(question, scorer.Answer(sql, 1))])
                times.append(time.perf_counter() - begun)
                assert outcome.passed and outcome.counterexample is None, outcome
    size = os.path.getsize(path) / 1e9
    print(f"a database of {size:.2f} GB: variants add {times[1] - times[0]:.2f} s to a question (2)")


class Pair:
    """Two queries on one database: plain sqlite3 that fetches both, and the worker's own code."""

    def __init__(self, path, reference, candidate, contract=None):
        self.path, self.reference, self.candidate = path, reference, candidate
        self.contract = contract or scorer.Contract(order="ignore")
        self.reason = ""

    def floor(self):
        connection = sqlite3.connect(self.path)
        for sql in (self.reference, self.candidate):
            connection.execute(sql).fetchall()
        connection.close()

    def ours(self):
        uri = scorer.file_uri(self.path) + "?mode=ro"
        engine = scorer.SqliteEngine(uri, (), scorer.MAX_ROWS, nullcontext())
        want, got = engine.run(self.reference, 600), engine.run(self.candidate, 600)
        self.reason = scorer.compare(want, got, self.contract).reason
        engine.close()


def pairs(path, rounds):
    for name, candidate, reason, bound in (
        ("a million rows, equal", IN_ORDER, "", 1.5),
        ("in another order", OTHER_ORDER, "", 1.5),
        ("one number apart", ONE_APART, "rows", 4),
        ("one name apart", ONE_NAME_APART, "rows", 4),
        ("one number apart, reversed", REVERSED_APART, "rows", None),
    ):
        pair = Pair(path, IN_ORDER, candidate)
        floor, ours = best([pair.floor, pair.ours], rounds)
        assert pair.reason == reason, (name, pair.reason)
        told = f" ({bound})" if bound else ""
        print(f"{name}: {ours:.2f} s, fetching both {floor:.2f} s: {ours / floor:.2f} times{told}")


def peak(path):
    """Peak memory of a fresh process that compares two equal results of a million rows."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2]);"
        "import bench; p = bench.Pair(sys.argv[3], bench.IN_ORDER, bench.OTHER_ORDER); p.ours();"
        "print(p.reason or 'equal', open('/proc/self/status').read())"
    )
    here = os.path.join(ROOT, "tests")
    command = [sys.executable, "-c", code, here, ROOT, path]
    told = subprocess.run(command, capture_output=True, text=True).stdout
    used = int(re.search(r"VmHWM:\s+(\d+) kB", told).group(1)) // 1024
    print(f"peak memory, a million rows in another order: {told.split()[0]}, {used} MB (100)")


def columns(rounds):
    """26 columns in another order against the same in position, 200 rows."""
    from random import Random

    random = Random(7)
    names = [f"c{i}" for i in range(26)]
    rows = [tuple(int(random.random() * 9) for _ in names) for _ in range(200)]
    order = sorted(range(26), key=lambda i: i * 11 % 26)
    want = scorer.Result.of(names, rows)
    moved = scorer.Result.of([f"x{i}" for i in order], [tuple(r[i] for i in order) for r in rows])
    contract = scorer.Contract(order="ignore", columns="any")
    for result in (want, moved):
        assert scorer.compare(want, result, contract).matched
    floor, ours = best(
        [
            lambda: scorer.compare(want, want, contract),
            lambda: scorer.compare(want, moved, contract),
        ],
        rounds * 3,
    )
    print(f"26 columns in another order: +{1000 * (ours - floor):.1f} ms (50)")
    flags = [tuple(int(random.random() < 0.5) for _ in names) for _ in range(200)]
    wrong = [tuple(1 - row[0] if i == 77 and j == 0 else row[j] for j in order) for i, row in enumerate(flags)]
    left, right = scorer.Result.of(names, flags), scorer.Result.of(names, wrong)
    spider = scorer.read_contract({"preset": "spider"})._replace(order="ignore")
    assert scorer.compare(left, right, spider).reason == "rows"
    (ours,) = best([lambda: scorer.compare(left, right, spider)], rounds * 3)
    print(f"26 columns of flags, one wrong row: {1000 * ours:.1f} ms (200)")


# -- a set of the usual size: many questions over a dozen small databases

PATTERNS = (
    "SELECT COUNT(*) FROM city WHERE state = '{state}'",
    "SELECT name FROM city WHERE state = '{state}' AND people > {number}",
    "SELECT c.name FROM city c WHERE c.people = (SELECT MAX(people) FROM city WHERE state = '{state}')",
    "SELECT s.name, SUM(c.people) FROM state s JOIN city c ON c.state = s.name GROUP BY s.name HAVING COUNT(*) > {few}",
    "SELECT river.name FROM river WHERE river.state IN (SELECT name FROM state WHERE area > {number}) ORDER BY river.length DESC",
    "SELECT DISTINCT state FROM river WHERE length > {number} ORDER BY state",
)


def small_database(path, seed):
    """A database of the size of geography's: three tables, about 64 kB."""
    from random import Random

    chance = Random(seed)
    states = [f"state {seed}-{i}" for i in range(50)]
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE state (name TEXT PRIMARY KEY, area INTEGER, capital TEXT)")
        db.execute("CREATE TABLE city (name TEXT, state TEXT REFERENCES state, people INTEGER)")
        db.execute("CREATE TABLE river (name TEXT, state TEXT REFERENCES state, length INTEGER)")
        db.executemany(
            "INSERT INTO state VALUES (?, ?, ?)",
            [(s, chance.randrange(10**6), f"capital of {s}") for s in states],
        )
        for table, rows in (("city", 600), ("river", 500)):
            db.executemany(
                f"INSERT INTO {table} VALUES (?, ?, ?)",
                [(f"{table} {i}", chance.choice(states), chance.randrange(10**6)) for i in range(rows)],
            )
        db.commit()
    return states


def small_set(folder, questions=1000, databases=12):
    """The files of a Spider-style set with its references as predictions; pairs of path and SQL."""
    from random import Random

    chance = Random(3)
    records, pairs = [], []
    places = []
    for i in range(databases):
        place = os.path.join(folder, f"db{i}")
        os.mkdir(place)
        path = os.path.join(place, f"db{i}.sqlite")
        places.append((path, small_database(path, i)))
    for i in range(questions):
        path, states = places[i * databases // questions]
        sql = PATTERNS[i % len(PATTERNS)].format(
            state=chance.choice(states), number=chance.randrange(10**6), few=chance.randrange(20)
        )
        name = os.path.basename(path)[: -len(".sqlite")]
        records.append({"question": f"question {i}?", "query": sql, "db_id": name})
        pairs.append((path, sql))
    with open(os.path.join(folder, "dev.json"), "w", encoding="utf-8") as file:
        json.dump(records, file)
    with open(os.path.join(folder, "predicted.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{sql}\n" for _, sql in pairs)
    return pairs


def plain_pairs(pairs):
    """The floor: both queries of each pair in plain sqlite3, in one process."""
    connections = {path: sqlite3.connect(path) for path in dict.fromkeys(path for path, _ in pairs)}
    for path, sql in pairs:
        for _ in range(2):
            connections[path].execute(sql).fetchall()
    for connection in connections.values():
        connection.close()


def whole_set(folder, rounds):
    """1,000 pairs over a dozen databases, start-up included, against plain sqlite3."""
    folder = os.path.join(folder, "set")
    os.mkdir(folder)
    pairs = small_set(folder)
    program = os.path.join(ROOT, "score_nl2sql.py")
    command = [sys.executable, program, "--questions", "dev.json", "--db-root", "."]
    command += ["--answers", "predicted.txt"]
    told = run(*command, cwd=folder)
    assert "execution accuracy: 1000/1000 (100%)" in told, told[-300:]
    floor, ours = best([lambda: plain_pairs(pairs), lambda: run(*command, cwd=folder)], rounds * 3)
    bound = 3 * floor + 0.3
    print(f"1,000 pairs, 12 databases: {ours:.3f} s, plain sqlite3 {floor:.3f} s ({bound:.3f})")
    if os.path.exists("/proc/self/status"):
        print(f"peak memory of its largest process: {largest(command, folder)} MB (100 a worker)")


def geography(rounds):
    """A real set, where it is at hand, with its own references as predictions."""
    data = os.path.join(os.path.dirname(ROOT), "shared", "data", "geography")
    if not os.path.isdir(data):
        return
    path, questions = os.path.join(data, "geography.sqlite"), os.path.join(data, "questions.json")
    with open(questions, encoding="utf-8") as file:
        queries = [record["query"] for record in json.load(file)]
    with tempfile.TemporaryDirectory() as folder:
        answers = os.path.join(folder, "answers.txt")
        with open(answers, "w", encoding="utf-8") as file:
            file.writelines(f"{sql}\n" for sql in queries)
        program = os.path.join(ROOT, "score_nl2sql.py")
        command = [sys.executable, program, "--questions", questions, "--db", path, "--answers", answers]
        runs = [(path, sql) for sql in queries if runs_at_all(path, sql)]
        floor, ours = best([lambda: plain_pairs(runs), lambda: run(*command, cwd=folder)], rounds * 5)
    print(f"geography, 246 pairs: {ours:.3f} s, plain sqlite3 {floor:.3f} s ({3 * floor + 0.3:.3f})")


def runs_at_all(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute(sql).fetchall()
        except sqlite3.Error:
            return False
    return True


def largest(command, folder):
    """The peak memory of the largest process of a run, in MB."""
    code = (
        "import os, resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    return int(run(sys.executable, "-c", code, *command, cwd=folder)) // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="try a gigabyte too")
    args = parser.parse_args()
    rounds = args.rounds
    print(f"Python {scorer.python_version()}, SQLite {sqlite3.sqlite_version}; bounds in brackets")
    with tempfile.TemporaryDirectory() as folder:
        ten_questions(folder, rounds)
        variants(folder, rounds)
        large_database(folder, 8_000_000 if args.large else 200_000)
        whole_set(folder, rounds)
        geography(rounds)
        path = big_database(folder)
        pairs(path, rounds)
        if os.path.exists("/proc/self/status"):
            peak(path)
    columns(rounds)


if __name__ == "__main__":
    main()
