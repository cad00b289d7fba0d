"""The trap-laden database: its content, what it promises, and that every trap bites.

The long test (scale 100) runs only when the environment variable NL2SQL_LONG is 1.
"""
from __future__ import annotations

import contextlib
import hashlib
import io
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import make_messy_schema as schema  # noqa: E402  (the program lies beside tests/, not in a package)
from score_nl2sql import QUESTIONS  # noqa: E402

# Published: whoever builds the same seed and scale gets these, on every Python and platform.
DIGESTS = {
    (schema.DEFAULT_SEED, 1.0): "b473bc98289092b55f46f843b3e3586215ba56125aa53352839feb71d825f4e0",
    (7, 0.5): "c1417028a80ea58536b7db0ad4ad23dda59945a08e8184ae98ecd82bbd7ef3be",
    (7, 1.5): "55dac121e50c0e2a19b68e8276e1f47ef1f5ed3a68e926514efe903db2e7de2f",
}
OLD = b"SQLite format 3\0precious"  # what a file that --force may replace begins with
SEEDS = (schema.DEFAULT_SEED, *range(50))

COLUMNS = {
    "customers_v2": "customer_id INTEGER, external_ref TEXT, full_name TEXT, email TEXT, "
                    "country TEXT, plan_tier TEXT, acquisition_channel TEXT, signup_date TEXT, "
                    "is_deleted INTEGER, ltv_estimate REAL, updated_at TEXT",
    "customers": "customer_id INTEGER, name TEXT, email TEXT, signup_date TEXT, status TEXT",
    "orders": "order_id INTEGER, customer_id INTEGER, user_id INTEGER, external_ref TEXT, "
              "status TEXT, total_amount REAL, void_flag INTEGER, created_at TEXT, "
              "booked_at TEXT, closed_at TEXT",
    "order_items": "item_id INTEGER, order_id INTEGER, sku TEXT, qty INTEGER, "
                   "unit_price_cents INTEGER",
}

MAY_BE_NULL = {("orders", "closed_at"), ("orders", "external_ref")}

COUNTED = "void_flag = 0 AND LOWER(status) IN ('complete', 'completed')"
A_DAY = "'[12][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'"
A_TIME = A_DAY[:-1] + " [0-2][0-9]:[0-5][0-9]:[0-5][0-9]'"

# What an honest answer may rely on: queries that count the exceptions.
PROMISES = {
    "is_deleted is 0 or 1":
        "SELECT COUNT(*) FROM customers_v2 WHERE is_deleted IS NULL OR is_deleted NOT IN (0, 1)",
    "void_flag is 0 or 1":
        "SELECT COUNT(*) FROM orders WHERE void_flag IS NULL OR void_flag NOT IN (0, 1)",
    "plan tiers have one spelling":
        "SELECT COUNT(*) FROM customers_v2 WHERE plan_tier IS NULL "
        "OR plan_tier NOT IN ('free', 'starter', 'pro', 'enterprise')",
    "channels have one spelling":
        "SELECT COUNT(*) FROM customers_v2 WHERE acquisition_channel IS NULL "
        "OR acquisition_channel NOT IN "
        "('organic', 'paid_search', 'referral', 'partner', 'email', 'social')",
    "status has six spellings":
        "SELECT COUNT(*) FROM orders WHERE status IS NULL OR status NOT IN "
        "('complete', 'completed', 'COMPLETE', 'pending', 'cancelled', 'refunded')",
    "created_at is a time": f"SELECT COUNT(*) - SUM(created_at GLOB {A_TIME}) FROM orders",
    "booked_at is a time": f"SELECT COUNT(*) - SUM(booked_at GLOB {A_TIME}) FROM orders",
    "closed_at is a time or NULL":
        f"SELECT COUNT(closed_at) - SUM(closed_at GLOB {A_TIME}) FROM orders",
    "updated_at is a time": f"SELECT COUNT(*) - SUM(updated_at GLOB {A_TIME}) FROM customers_v2",
    "signup_date is a day": f"SELECT COUNT(*) - SUM(signup_date GLOB {A_DAY}) FROM customers_v2",
    "so it is in the old table": f"SELECT COUNT(*) - SUM(signup_date GLOB {A_DAY}) FROM customers",
    "times exist in the calendar":
        "SELECT COUNT(*) FROM orders WHERE DATETIME(booked_at) IS NOT booked_at "
        "OR DATETIME(created_at) IS NOT created_at OR DATETIME(closed_at) IS NOT closed_at",
    "the dates of an order follow each other":
        "SELECT COUNT(*) FROM orders WHERE created_at > booked_at OR booked_at > closed_at",
    "nobody orders before signing up":
        "SELECT COUNT(*) FROM orders o JOIN customers_v2 c USING (customer_id) "
        "WHERE o.created_at < c.signup_date",
    "every order's customer exists":
        "SELECT COUNT(*) FROM orders WHERE customer_id IS NULL "
        "OR customer_id NOT IN (SELECT customer_id FROM customers_v2)",
    "every item's order exists":
        "SELECT COUNT(*) FROM order_items WHERE order_id IS NULL "
        "OR order_id NOT IN (SELECT order_id FROM orders)",
    "amounts are positive, in whole cents":
        "SELECT COUNT(*) FROM orders WHERE total_amount IS NULL OR total_amount <= 0 "
        "OR ROUND(total_amount, 2) <> total_amount",
    "quantities and prices are positive":
        "SELECT COUNT(*) FROM order_items WHERE NOT (qty > 0 AND unit_price_cents > 0)",
    "addresses are nobody's":
        "SELECT COUNT(*) FROM (SELECT email FROM customers_v2 UNION ALL "
        "SELECT email FROM customers) "
        "WHERE email NOT LIKE '%@example.com' AND email NOT LIKE '%@example.org'",
    "customer 1 is live":
        "SELECT 1 - COUNT(*) FROM customers_v2 WHERE customer_id = 1 AND is_deleted = 0",
    "customer 1 has counted orders in more than one spelling":
        f"SELECT COUNT(DISTINCT status) < 2 FROM orders WHERE customer_id = 1 AND {COUNTED}",
    "orders with user_id 1 belong to others":
        "SELECT COUNT(*) FROM orders WHERE user_id = 1 AND customer_id = 1",
}

# What is messy, as queries and the least that they must return.
MESS = {
    ("soft-deleted customers", 40):
        "SELECT COUNT(*) FROM customers_v2 WHERE is_deleted = 1",
    ("estimates that are wrong, in percent", 90):
        "SELECT AVG(ABS(v.ltv_estimate - COALESCE((SELECT SUM(total_amount) FROM orders o "
        f"WHERE o.customer_id = v.customer_id AND {COUNTED}), 0)) > 1) * 100 "
        "FROM customers_v2 v",
    ("ids in both customer tables", 150):
        "SELECT COUNT(*) FROM customers JOIN customers_v2 USING (customer_id)",
    ("ids in the old table only", 40):
        "SELECT COUNT(*) FROM customers WHERE customer_id NOT IN "
        "(SELECT customer_id FROM customers_v2)",
    ("sign-up dates that disagree", 50):
        "SELECT COUNT(*) FROM customers o JOIN customers_v2 v USING (customer_id) "
        "WHERE o.signup_date <> v.signup_date",
    ("spellings of completed", 3):
        f"SELECT COUNT(DISTINCT status) FROM orders WHERE {COUNTED}",
    ("dates in different quarters, in percent", 20):
        "SELECT AVG(STRFTIME('%Y', a) * 4 + (STRFTIME('%m', a) - 1) / 3 "
        "<> STRFTIME('%Y', b) * 4 + (STRFTIME('%m', b) - 1) / 3) * 100 "
        "FROM (SELECT created_at AS a, COALESCE(closed_at, booked_at) AS b FROM orders)",
    ("user_ids that are some other customer's id", 1000):
        "SELECT COUNT(*) FROM orders WHERE user_id IN (SELECT customer_id FROM customers_v2) "
        "AND user_id <> customer_id",
    ("user_ids that are no customer's id", 50):
        "SELECT COUNT(*) FROM orders "
        "WHERE user_id NOT IN (SELECT customer_id FROM customers_v2)",
    ("external_refs that several customers share", 2):
        "SELECT COUNT(*) FROM (SELECT external_ref FROM customers_v2 GROUP BY 1 "
        "HAVING COUNT(*) > 1)",
    ("external_refs on orders of several customers", 20):
        "SELECT COUNT(*) FROM (SELECT external_ref FROM orders WHERE external_ref IS NOT NULL "
        "GROUP BY 1 HAVING COUNT(DISTINCT customer_id) > 1)",
    ("old completed orders that were never closed", 50):
        f"SELECT COUNT(*) FROM orders WHERE {COUNTED} AND closed_at IS NULL "
        "AND booked_at < '2025'",
    ("heavy accounts", 3):
        "SELECT COUNT(*) FROM (SELECT 1 FROM orders GROUP BY customer_id "
        "HAVING COUNT(*) > 40)",
    ("orders of deleted customers", 100):
        "SELECT COUNT(*) FROM orders JOIN customers_v2 USING (customer_id) "
        "WHERE is_deleted = 1",
    ("orders whose items do not sum to the total, in percent", 90):
        "SELECT AVG(ABS(total_amount - paid) > 0.01) * 100 FROM orders JOIN (SELECT order_id, "
        "SUM(qty * unit_price_cents) / 100.0 AS paid FROM order_items GROUP BY 1) "
        "USING (order_id)",
    ("orders booked in 2025, in percent", 35):
        "SELECT AVG(booked_at LIKE '2025%') * 100 FROM orders",
    ("customer 1's void orders", 1):
        "SELECT COUNT(*) FROM orders WHERE customer_id = 1 AND void_flag = 1",
    ("customer 1's pending orders", 1):
        "SELECT COUNT(*) FROM orders WHERE customer_id = 1 AND status = 'pending'",
    ("customer 1's refunded orders", 1):
        "SELECT COUNT(*) FROM orders WHERE customer_id = 1 AND status = 'refunded'",
    ("odd cents of all items", 30):
        "SELECT SUM(qty * unit_price_cents) % 100 FROM order_items",
    **{(f"counted orders booked at {moment}", 2):
        f"SELECT COUNT(*) FROM orders WHERE {COUNTED} AND booked_at = '{moment}'"
       for moment in ("2024-12-31 23:59:59", "2025-01-01 00:00:00", "2025-03-31 23:59:59",
                      "2025-04-01 00:00:00", "2025-12-31 23:59:59", "2026-01-01 00:00:00")},
    **{(f"enterprise customers who signed up on {day}", 3):
        "SELECT COUNT(*) FROM customers_v2 WHERE is_deleted = 0 AND plan_tier = 'enterprise' "
        f"AND signup_date = '{day}'" for day in ("2025-01-01", "2025-12-31")},
}

# Answers that logic makes equal: both compare with something that is never there.
TWINS = {("Q08", frozenset(("equals NULL", "empty text")))}


def database(seed: int = schema.DEFAULT_SEED, scale: float = 1.0) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    schema.fill(connection, seed, scale)
    return connection


def one(connection: sqlite3.Connection, sql: str) -> int | float:
    return connection.execute(sql).fetchone()[0]


# How far a trap is from the reference. A margin is a share of the reference's figure, or, for Q06's
# whole dollars, dollars; what is too close to be noticed gives 0.


def count_margin(want: int, got: int) -> float:
    return abs(got - want) / want if abs(got - want) >= 3 else 0.0


def tier_margin(want: list[tuple], got: list[tuple]) -> float:
    """The widest of the tiers' margins: one wrong figure makes the answer wrong."""
    found = dict(got)
    return max(abs(found.get(tier, 0) - figure) / figure for tier, figure in want)


def channel_margin(connection: sqlite3.Connection, want: str, sql: str) -> float:
    """The lead of the wrong channel over its runner-up."""
    assert sql.endswith(" LIMIT 1"), sql
    (first, figure), (_, second) = connection.execute(sql[:-1] + "2").fetchall()
    return figure / second - 1 if first != want else 0.0


def margin(connection: sqlite3.Connection, question_id: str, want: list[tuple],
           trap: str, sql: str) -> float:
    if question_id == "Q07":
        return channel_margin(connection, want[0][0], sql)
    got = connection.execute(sql).fetchall()
    if question_id == "Q05":
        return tier_margin(want, got)
    right, wrong = want[0][0], got[0][0] or 0
    if (question_id, trap) == ("Q06", "whole dollars"):
        return abs(wrong - right) if abs(wrong - right) <= 0.70 else 0.0
    if isinstance(right, int):
        return count_margin(right, wrong)
    return abs(wrong - right) / right


def least(question_id: str, trap: str) -> float:
    """The least margin that a reader would notice."""
    if question_id == "Q07":
        return 0.03
    return 0.299 if (question_id, trap) == ("Q06", "whole dollars") else 0.01


def toothless(seed: int, scale: float = 1.0) -> list[str]:
    """The traps of a database that do not bite; empty as it should be."""
    connection = database(seed, scale)
    # Indexes change no result; without one the "first order" trap is quadratic in the scale.
    connection.execute("CREATE INDEX by_customer ON orders(customer_id)")
    connection.execute("CREATE INDEX by_order ON order_items(order_id)")
    found = []
    for question in QUESTIONS:
        want = connection.execute(question.sql).fetchall()
        if question.id == "Q07" and channel_margin(connection, "", question.sql) < 0.03:
            found.append("Q07: the right channel has no clear lead")
        for trap in question.traps:
            gap = margin(connection, question.id, want, trap.name, trap.sql)
            if gap < least(question.id, trap.name):
                found.append(f"{question.id}, {trap.name}: {gap:.4f}")
    connection.close()
    return found


class TestContent(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.db = database()
        cls.addClassCleanup(cls.db.close)

    def test_published_digests(self) -> None:
        for (seed, scale), digest in DIGESTS.items():
            with self.subTest(seed=seed, scale=scale), \
                    contextlib.closing(database(seed, scale)) as db:
                self.assertEqual(schema.content_digest(db), digest)

    def test_digest_is_what_the_documentation_says(self) -> None:
        lines = []
        for table, columns in COLUMNS.items():
            names = [column.split()[0] for column in columns.split(", ")]
            lines.append(f"{table}({','.join(names)})")
            lines += map(repr, sorted(self.db.execute(f"SELECT * FROM {table}")))
        text = "".join(line + "\n" for line in lines)
        self.assertEqual(schema.content_digest(self.db), hashlib.sha256(text.encode()).hexdigest())

    def test_the_only_chance_is_random(self) -> None:
        class OnlyRandom:
            def __init__(self, seed: int) -> None:
                self.random = random_class(seed).random

        random_class = random.Random
        with mock.patch.object(schema.random, "Random", OnlyRandom), \
                contextlib.closing(database()) as db:
            self.assertEqual(schema.content_digest(db), schema.content_digest(self.db))

    def test_seeds_and_scales_differ(self) -> None:
        digests = set(DIGESTS.values())
        with contextlib.closing(database(8, 0.5)) as db:
            digests.add(schema.content_digest(db))
        self.assertEqual(len(digests), len(DIGESTS) + 1)

    def test_schema(self) -> None:
        made = self.db.execute("SELECT type, name FROM sqlite_master ORDER BY rowid").fetchall()
        self.assertEqual(made, [("table", table) for table in COLUMNS])
        for table, columns in COLUMNS.items():
            with self.subTest(table):
                info = self.db.execute(f"PRAGMA table_info({table})").fetchall()
                self.assertEqual(", ".join(f"{row[1]} {row[2]}" for row in info), columns)
                keys = [] if table == "customers" else [info[0][1]]
                self.assertEqual([row[1] for row in info if row[5]], keys)
                self.assertEqual([row for row in info if row[3] or row[4] is not None], [])

    def test_cells_have_the_type_of_their_column(self) -> None:
        for table, columns in COLUMNS.items():
            for column in columns.split(", "):
                name, kind = column.split()
                kinds = {row[0] for row in self.db.execute(
                    f"SELECT DISTINCT TYPEOF({name}) FROM {table} WHERE {name} IS NOT NULL")}
                nulls = one(self.db, f"SELECT COUNT(*) - COUNT({name}) FROM {table}")
                with self.subTest(table=table, column=name):
                    self.assertEqual(kinds, {kind.lower()})
                    self.assertEqual(nulls > 0, (table, name) in MAY_BE_NULL)

    def test_sizes(self) -> None:
        for table, low, high in (("customers_v2", 300, 500), ("customers", 200, 400),
                                 ("orders", 2000, 4000), ("order_items", 4000, 9000)):
            with self.subTest(table):
                rows = one(self.db, f"SELECT COUNT(*) FROM {table}")
                self.assertTrue(low <= rows <= high, rows)

    def test_promises(self) -> None:
        for seed, scale in ((schema.DEFAULT_SEED, 1.0), (3, 0.5), (4, 1.5)):
            with contextlib.closing(database(seed, scale)) as db:
                for promise, sql in PROMISES.items():
                    with self.subTest(promise, seed=seed, scale=scale):
                        self.assertEqual(one(db, sql), 0)

    def test_mess(self) -> None:
        for (mess, enough), sql in MESS.items():
            with self.subTest(mess):
                self.assertGreaterEqual(one(self.db, sql), enough)

    def test_scales_that_cannot_be_used(self) -> None:
        for scale in (0, -1, 0.49, 10_001, float("nan"), float("inf"), float("-inf")):
            with self.subTest(scale=scale), contextlib.closing(sqlite3.connect(":memory:")) as db:
                with self.assertRaisesRegex(schema.SchemaError, "--scale must be"):
                    schema.fill(db, 1, scale)
                self.assertEqual(one(db, "SELECT COUNT(*) FROM sqlite_master"), 0)


class TestTraps(unittest.TestCase):
    def test_every_trap_bites_at_every_seed(self) -> None:
        # Half the time goes to Python and half to queries of a millisecond, over which threads
        # would only quarrel. Spawned, not forked: other tests may have left threads running.
        workers = min(4, os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            for seed, found in zip(SEEDS, pool.map(toothless, SEEDS, chunksize=4)):
                with self.subTest(seed=seed):
                    self.assertEqual(found, [])

    def test_every_trap_bites_at_other_scales(self) -> None:
        for scale in (0.5, 1.49, 1.5):
            with self.subTest(scale=scale):
                self.assertEqual(toothless(schema.DEFAULT_SEED, scale), [])

    def test_wrong_answers_tell_their_trap(self) -> None:
        """No two traps of a question give the same result, but for twins."""
        with contextlib.closing(database()) as db:
            for question in QUESTIONS:
                seen: dict[tuple, str] = {}
                for trap in question.traps:
                    result = tuple(sorted(db.execute(trap.sql)))
                    other = seen.setdefault(result, trap.name)
                    twins = (question.id, frozenset((other, trap.name))) in TWINS
                    with self.subTest(question.id, trap=trap.name):
                        self.assertTrue(other == trap.name or twins, f"same result as {other}")

    def test_every_channel_leads_somewhere(self) -> None:
        """Q07 cannot be won by a guess that some trap would not also name."""
        question = next(q for q in QUESTIONS if q.id == "Q07")
        with contextlib.closing(database()) as db:
            wrong = {db.execute(trap.sql).fetchone()[0] for trap in question.traps}
            right = db.execute(question.sql).fetchone()[0]
        self.assertEqual(len(wrong | {right}), 6)
        self.assertNotIn(right, wrong)

    @unittest.skipUnless(os.environ.get("NL2SQL_LONG") == "1", "long: set NL2SQL_LONG=1")
    def test_every_trap_bites_at_scale_10_and_100(self) -> None:
        for seed, scale in ((schema.DEFAULT_SEED, 10.0), (schema.DEFAULT_SEED, 100.0)):
            with self.subTest(scale=scale):
                self.assertEqual(toothless(seed, scale), [])


class TestBuild(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "made.db"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def refuse(self, pattern: str, path: Path | str, **options: object) -> None:
        with self.assertRaisesRegex(schema.SchemaError, pattern) as caught:
            schema.build(path, **options)
        self.assertNotIn("\n", str(caught.exception))

    def test_what_is_made(self) -> None:
        made = schema.build(self.out)
        self.assertEqual(self.names(), ["made.db"])
        self.assertLess(self.out.stat().st_size, 2_000_000)
        with contextlib.closing(sqlite3.connect(str(self.out))) as db:
            for table, rows in made.rows.items():
                self.assertEqual(one(db, f"SELECT COUNT(*) FROM {table}"), rows)
            self.assertEqual(one(db, "PRAGMA integrity_check"), "ok")
            self.assertEqual(one(db, "PRAGMA journal_mode"), "delete")
            self.assertEqual(schema.content_digest(db), made.digest)
        self.assertEqual(made.digest, DIGESTS[schema.DEFAULT_SEED, 1.0])
        self.assertEqual((made.path, made.seed, made.scale),
                         (str(self.out), schema.DEFAULT_SEED, 1.0))

    def test_same_file_twice(self) -> None:
        schema.build(self.out, seed=3)
        schema.build(self.folder / "again.db", seed=3)
        self.assertEqual(self.out.read_bytes(), (self.folder / "again.db").read_bytes())

    def test_names_that_are_special_to_sqlite(self) -> None:
        names = ["a b.db", "c#d.db", "e%20f.db", "file:g.db", ":memory:", "é.db"]
        names += [] if os.name == "nt" else ["h?mode=memory.db"]
        for name in names if os.name != "nt" else [n for n in names if ":" not in n]:
            with self.subTest(name):
                schema.build(self.folder / name, scale=0.5)
                self.assertEqual(self.names(), [name])
                (self.folder / name).unlink()

    def test_no_overwriting_without_force(self) -> None:
        self.out.write_bytes(b"precious")
        self.refuse("exists already: add --force", self.out)
        self.assertEqual(self.out.read_bytes(), b"precious")
        self.refuse("is no database, so --force does not replace it", self.out, force=True)
        self.assertEqual(self.out.read_bytes(), b"precious")
        self.out.write_bytes(b"SQLite format 3\0")
        schema.build(self.out, scale=0.5, force=True)
        self.assertEqual(self.out.read_bytes()[:6], b"SQLite")
        self.assertEqual(self.names(), ["made.db"])

    def test_refusals(self) -> None:
        (self.folder / "sub").mkdir()
        cases = (
            ("is not a regular file", self.folder / "sub", {"force": True}),
            ("is not a regular file", f"{self.folder / 'new'}/", {}),
            ("does not exist: create it", self.folder / "none" / "made.db", {}),
            ("needs the name of a file", "", {}),
            ("needs the name of a file", "a\0b", {}),
            ("--seed must be 0 or more", self.out, {"seed": -1}),
            ("--scale must be", self.out, {"scale": 0.1}),
        )
        for pattern, path, options in cases:
            with self.subTest(pattern, path=path):
                self.refuse(pattern, path, **options)
                self.assertEqual(self.names(), ["sub"])

    def test_leftovers_of_another_database(self) -> None:
        for ending in ("-wal", "-journal"):
            leftover = Path(f"{self.out}{ending}")
            leftover.write_bytes(b"pages")
            with self.subTest(ending):
                self.refuse("is in use", self.out, force=True)
                self.assertEqual(self.names(), [leftover.name])
            leftover.unlink()

    def test_nothing_stays_behind(self) -> None:
        """Whatever goes wrong, and wherever: the folder is as it was."""
        self.out.write_bytes(OLD)
        broken = {
            "a full disk": ("content_digest", sqlite3.OperationalError("database or disk is full")),
            "a file in use": ("os.replace", PermissionError(13, "in use")),
        }
        for what, (name, error) in broken.items():
            with self.subTest(what), mock.patch(f"make_messy_schema.{name}", side_effect=error):
                self.refuse("cannot write .*made.db: ", self.out, force=True)
                self.assertEqual(self.names(), ["made.db"])
        self.assertEqual(self.out.read_bytes(), OLD)

    def test_interrupted_halfway(self) -> None:
        def lines(block: schema.Block, cents: int) -> None:
            raise KeyboardInterrupt

        with mock.patch.object(schema.Block, "items", lines), \
                self.assertRaises(KeyboardInterrupt):
            schema.build(self.out)
        self.assertEqual(self.names(), [])

    @unittest.skipIf(os.name == "nt" or getattr(os, "geteuid", int)() == 0,
                     "needs a user whom the file system refuses")
    def test_folder_that_cannot_be_written(self) -> None:
        self.folder.chmod(0o500)
        self.addCleanup(self.folder.chmod, 0o700)
        self.refuse("cannot write", self.out)
        self.assertEqual(self.names(), [])


class TestCommandLine(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = os.path.join(folder.name, "made.db")

    def call(self, *args: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = schema.main(args)
        return code, out.getvalue(), err.getvalue()

    def test_report(self) -> None:
        code, out, err = self.call("--out", self.out, "--seed", "7", "--scale", "0.5")
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[0], f"made {self.out} (seed 7, scale 0.5)")
        self.assertEqual([line.split()[0] for line in lines[1:-1]], list(COLUMNS))
        self.assertEqual(lines[-1], f"content digest: {DIGESTS[7, 0.5]}")

    def test_user_errors(self) -> None:
        Path(self.out).write_bytes(OLD)
        cases = (
            ((), "exists already"), (("--scale", "x"), "--scale"),
            (("--scale", "nan", "--force"), "--scale"), (("--scale", "0", "--force"), "--scale"),
            (("--scale", "1e300", "--force"), "--scale"), (("--seed", "1.5"), "--seed"),
            (("--seed", "-1", "--force"), "--seed"),
            (("--sed", "1"), "--sed"), (("extra",), "extra"),
        )
        for args, word in cases:
            with self.subTest(args):
                code, out, err = self.call("--out", self.out, *args)
                self.assertEqual((code, out), (2, ""))
                self.assertRegex(err, rf"\Amake_messy_schema.py: [^\n]*{word}[^\n]*\n\Z")
                self.assertEqual(Path(self.out).read_bytes(), OLD)

    def test_interrupt(self) -> None:
        with mock.patch.object(schema, "fill", side_effect=KeyboardInterrupt):
            code, out, err = self.call("--out", self.out)
        self.assertEqual((code, out), (130, ""))
        self.assertEqual(err, "make_messy_schema.py: interrupted, nothing written\n")
        self.assertEqual(os.listdir(os.path.dirname(self.out)), [])

    def test_two_processes_agree(self) -> None:
        """Neither the hash secret nor the optimisation level changes the content."""
        for secret, level in (("1", "-B"), ("2", "-BOO")):
            with self.subTest(secret):
                done = subprocess.run(
                    [sys.executable, level, str(ROOT / "make_messy_schema.py"), "--out", self.out,
                     "--force"], env={**os.environ, "PYTHONHASHSEED": secret},
                    capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn(DIGESTS[schema.DEFAULT_SEED, 1.0], done.stdout)

    @unittest.skipUnless(os.environ.get("NL2SQL_LONG") == "1", "long: set NL2SQL_LONG=1")
    def test_memory_at_scale_100(self) -> None:
        try:
            import resource  # noqa: F401  (not on Windows)
        except ImportError:
            self.skipTest("no way to measure memory here")
        # ru_maxrss of a process begins with what its parent had when it was forked.
        program = ("import resource, sys, make_messy_schema as schema\n"
                   "schema.build(sys.argv[1], scale=100)\n"
                   "try:\n"
                   "    status = open('/proc/self/status').read()\n"
                   "    print(status.partition('VmHWM:')[2].split()[0])\n"
                   "except OSError:\n"
                   "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)")
        done = subprocess.run([sys.executable, "-B", "-c", program, self.out], cwd=str(ROOT),
                              stdout=subprocess.PIPE, text=True, timeout=600)
        self.assertEqual(done.returncode, 0)
        unit = 1 if sys.platform == "darwin" else 1024
        self.assertLess(int(done.stdout) * unit, 200_000_000)


if __name__ == "__main__":
    unittest.main()
