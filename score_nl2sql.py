#!/usr/bin/env python3
# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Score the SQL that an NL2SQL tool wrote: is the answer right, and if not, why?

Each question has a reviewed query, the reference. The tool's query, the candidate, runs on the
same read-only data, and the two results are compared under the question's written contract.

    python score_nl2sql.py --init-answers answers.sql    write a template to paste the SQL into
    python score_nl2sql.py --answers answers.sql         score it
    python score_nl2sql.py --show-reference              look at the reference queries
    python score_nl2sql.py --list                        the questions and their contracts
    python score_nl2sql.py --audit                       check the references and the data

    python score_nl2sql.py --questions dev.json --db-root database --answers predicted.txt

Exit codes: 0 scored, 1 below --fail-under or a broken reference in an audit, 2 usage or the run
could not be made, 130 interrupted.

How two results are matched (the contract; a question may loosen what is said to be loosened)

    rows      a multiset: every row with its multiplicity (`duplicates = ignore`: a set)
    order     where it counts, the sequence must match and rows tied on the sort keys may swap;
              it never counts in the ten questions
    columns   by position; else by name where both use the same distinct names; else by kind:
              columns of different storage kinds may change places, columns of one kind keep their
              order. One alignment serves all rows: cells are never sorted inside a row
    NULL      equals only NULL: never 0, '' or 'NULL'
    numbers   compare as numbers: two integers, or an integer and a float without a fraction,
              exactly; otherwise within 1e-9 of the larger. `decimals = N`: within half a unit of
              the N-th decimal, the bound included, measured on the shortest decimal text
    text      code point by code point; text never equals a number (reason `type`)
    blobs     byte by byte

Presets (--contract) are the rules of published evaluators: `bird` compares sets of rows by
position, `spider` multisets under one permutation of the columns, in sequence where the reference
says `order by`; both by Python's equality.

Verdicts: PASS, FAIL (wrong rows), ERROR (the candidate or its reference did not run), SKIP (no
SQL). Only PASS scores. A reference that does not run is `reference_error`, never PASS or FAIL.
Where several references or frozen rows are accepted, matching one is enough.

Not right by luck: a candidate that passes also runs on small databases like the data (--variants),
and on the further databases of a test suite (--suite). Where it differs there it stays a PASS, with
the reason `coincidence`; test-suite accuracy does not count it. Section 10 has the rules that a
variant keeps to. NULL, 0 and no row are no difference there, nor is a query that does not run.

How SQL that nobody trusts is run: in a child process with limits on time, memory, rows and files,
on a read-only connection that may read and nothing else. Section 11 has the layers.
"""
# ---- 2. contents, imports, version, constants ----------------------------------------------------
#
#  1. docstring: the specification
#  2. contents, imports, version, constants
#  3. errors and records
#  4. the ten questions
#  5. SQL text
#  6. question sets and answers
#  7. comparison
#  8. statistics
#  9. engines
# 10. variants
# 11. worker
# 12. scoring
# 13. evidence
# 14. renderers
# 15. terminal and files
# 16. plug-ins
# 17. command line
#
# A section uses only sections above it. 4 to 8, 13 and 14 are pure: no file, clock, environment or
# database. Data flows one way: questions and answers become jobs; the worker runs reference and
# candidate and compares them; outcomes become a Run; renderers turn the Run into text.

from __future__ import annotations

import itertools
import json
import marshal
import os
import re
import sys
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Optional, Union

if sys.version_info < (3, 9):  # noqa: UP036 - said in words, not by what fails first
    sys.stderr.write("score_nl2sql.py: Python 3.9 or newer is needed, this is an older one\n")
    raise SystemExit(2)

if TYPE_CHECKING:
    import argparse

__version__ = "1.0.0"

# The worker runs this very code: handing it over compiled saves compiling the file a second time.
MODULE_CODE = sys._getframe().f_code

DEFAULT_DB = "nl2sql-eval.db"
MAKER = "make_messy_schema.py"
VARIANTS = 40  # of which 90% of those that 1,000 find are found; tests/measure_variants.py
SEED = 1  # of the variants; part of the signature so that two people can see they used the same

MIB = 1 << 20
ANSWERS_LIMIT = 64 * MIB  # an answers file larger than this is a mistake, not an answers file
SQL_LIMIT = 4_000_000  # characters of one candidate
CELL_LIMIT = 50_000_000  # bytes of one cell
MEMORY_LIMIT = 768 * MIB  # for all workers together
MEMORY_SHARE = 48 * MIB  # the least for one, however many there are
MAX_ROWS = 5_000_000
TIMEOUT = 30.0  # seconds for a candidate, or five times what the reference took if that is more
REFERENCE_TIMEOUT = 300.0
SLOW_FACTOR = 5
INFINITY = float("inf")
REPLY_LIMIT = 16 * MIB  # bytes of one line from a worker

RELATIVE = 1e-9  # how far two floats may lie apart: sums in another order differ in the last digits
SAMPLE_ROWS = 20  # rows of a difference that are kept for the report
SAMPLE_CELLS = 100  # cells of a row, and names of columns, that are kept
SAMPLE_TEXT = 200  # characters of a cell or a name that are kept
SHOWN_TEXT = 60  # characters of a cell that a detail line shows
SHOWN_ROWS = 2  # missing and unexpected rows that a detail line shows; -v shows all that were kept

Row = tuple[Any, ...]
Cell = Any  # None, int, float, str, bytes; Decimal and bool from other engines

# ---- 3. errors and records -----------------------------------------------------------------------
#
# Records are named tuples: frozen like dataclasses, at a tenth of their cost at every start.


class ScoreError(Exception):
    """The run cannot be made. The text is one line that says what was wrong and what to do."""

    exit_code = 2


class Refused(Exception):
    """A cell that the contract's `time` or `date` cannot read."""


class TooLarge(Exception):
    """A result that hit a cap; the text says which."""


class SearchCut(Exception):
    """A search that was ended before it was complete; the text says which."""


PASS, FAIL, ERROR, SKIP = "PASS", "FAIL", "ERROR", "SKIP"

VERDICTS = {
    "rows": FAIL, "duplicates": FAIL, "columns": FAIL, "order": FAIL, "type": FAIL,
    "sql_error": ERROR, "timeout": ERROR, "forbidden": ERROR, "multiple_statements": ERROR,
    "too_large": ERROR, "crash": ERROR, "ambiguous_sql": ERROR, "reference_error": ERROR,
    "no_sql": SKIP, "coincidence": PASS, "vacuous": PASS, "": PASS,
}  # fmt: skip


class Tolerance(NamedTuple):
    """How far two numbers may lie apart; the default is 1e-9 of the larger, integers exactly."""

    decimals: Optional[int] = None
    relative: Optional[float] = None


class SortKey(NamedTuple):
    """A result column by the reference's name, and its direction."""

    name: str
    descending: bool = False


class Top(NamedTuple):
    """The best `number` rows by `keys`, out of all that the reference returns."""

    number: int
    ties: bool
    keys: tuple[SortKey, ...]


class Contract(NamedTuple):
    """The rules under which two results count as the same. The defaults are the strict ones."""

    duplicates: str = "count"  # or "ignore"
    order: Union[str, tuple[SortKey, ...]] = "auto"  # "ignore", "exact" or the keys
    top: Optional[Top] = None
    columns: str = "auto"  # "position", "names", "any"
    optional: tuple[str, ...] = ()
    extra: str = "refuse"  # or "allow"
    alias: Mapping[str, tuple[str, ...]] = {}
    tolerance: Tolerance = Tolerance()
    by_column: Mapping[str, Tolerance] = {}
    text: tuple[str, ...] = ()  # "nocase", "trim"
    time: tuple[str, ...] = ()
    date: Mapping[str, str] = {}  # column: zone, "" for the day as written
    preset: str = ""  # the published evaluator whose rules these are


class Trap(NamedTuple):
    """Wrong SQL that a question lures a tool into."""

    name: str
    why: str
    sql: str


class Frozen(NamedTuple):
    """Rows kept as the right answer, in place of a reference or beside it."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    file: str = ""  # where they are read from; CSV does not tell numbers from text


class Question(NamedTuple):
    """An id, the text to ask, its reference and the contract for comparing results."""

    id: str
    text: str
    trap: str
    sql: str
    contract: Contract = Contract()
    traps: tuple[Trap, ...] = ()
    tables: tuple[str, ...] = ()  # the only ones that may be read, where given
    db: str = ""  # the id of its database, in a set that has several
    difficulty: str = ""
    alternatives: tuple[str, ...] = ()  # further SQL that is accepted
    frozen: tuple[Frozen, ...] = ()
    params: Mapping[str, Cell] = {}  # bound as :NAME in every query of the question
    wordings: Mapping[str, str] = {}  # the text in further languages
    evidence: str = ""  # what is told to the tool beside the question
    version: str = ""
    reviewed: str = ""
    place: str = ""  # where it stands in its file


class QuestionSet(NamedTuple):
    """Questions as a file holds them, the form they were read in, and what to be told about it."""

    questions: tuple[Question, ...]
    name: str = ""  # "" for the ten
    form: str = ""
    warnings: tuple[str, ...] = ()
    sealed: bool = False  # its questions and references go into no file


class Answer(NamedTuple):
    """One candidate as the answers file holds it, or why there is none that could run."""

    sql: str
    line: int = 0  # of the first line of `sql`, from 1
    reason: str = ""
    detail: str = ""


class Answers(NamedTuple):
    """One tool's candidates by question id, and what the reader of the file should be told."""

    by_id: Mapping[str, Answer]
    warnings: tuple[str, ...] = ()
    form: str = "commented"
    pairing: str = ""  # how answers were paired with questions, where that needs saying


class Comparison(NamedTuple):
    """What came of comparing two results; `reason` is empty where they match."""

    reason: str
    note: str = ""  # what the reason word does not say
    want_columns: tuple[str, ...] = ()
    got_columns: tuple[str, ...] = ()
    want_count: int = 0
    got_count: int = 0
    missing: tuple[tuple[Row, int], ...] = ()  # rows with their multiplicity, at most SAMPLE_ROWS
    unexpected: tuple[tuple[Row, int], ...] = ()
    missing_count: int = 0  # rows in all, multiplicities counted
    unexpected_count: int = 0

    @property
    def matched(self) -> bool:
        return not self.reason or self.reason == "vacuous"


class Counterexample(NamedTuple):
    """A small database on which a candidate that passes is told apart from its reference."""

    variant: int  # its number, from 0
    schema: tuple[str, ...]  # the statements that make it
    tables: tuple[tuple[str, tuple[str, ...], tuple[Row, ...]], ...]  # name, columns, rows
    params: Mapping[str, Cell]
    reference: str
    comparison: Comparison
    want: tuple[Row, ...]  # the two results there, at most SAMPLE_ROWS of each
    got: tuple[Row, ...]


class Outcome(NamedTuple):
    """The verdict on one question, its reason word, and the detail lines that explain it."""

    question: Question
    reason: str
    detail: tuple[str, ...] = ()
    sql: str = ""
    line: int = 0
    traps: tuple[str, ...] = ()
    comparison: Optional[Comparison] = None
    seconds: float = 0.0
    reference_seconds: float = 0.0
    accepted: str = ""  # which of several references the candidate matches
    variants: int = 0  # on how many it was tried
    unvaried: str = ""  # why it was tried on none
    sampled: tuple[str, ...] = ()  # large tables of which variants know a sample
    apart: bool = False  # whether a variant tells it from its reference
    counterexample: Optional[Counterexample] = None

    @property
    def verdict(self) -> str:
        return VERDICTS[self.reason]

    @property
    def passed(self) -> bool:
        return self.verdict == PASS


class Finding(NamedTuple):
    """Something that an audit noticed, and what shows it."""

    word: str
    text: str


class Audited(NamedTuple):
    """What an audit has to say of one question."""

    question: Question
    findings: tuple[Finding, ...]
    broken: bool  # its reference does not run


class Settings(NamedTuple):
    """The limits that a run is made under; times in seconds, memory in bytes."""

    timeout: float = TIMEOUT
    reference_timeout: float = REFERENCE_TIMEOUT
    max_rows: int = MAX_ROWS
    memory: int = MEMORY_LIMIT
    variants: int = VARIANTS  # databases that a PASS is tried on beside the data


STANDARD = Settings()


class Run(NamedTuple):
    """One scoring of one tool, with what is needed to compare it with another."""

    outcomes: tuple[Outcome, ...]
    answers_name: str
    db_name: str
    tool: str
    total_questions: int  # of the whole set; more than len(outcomes) where only some were asked
    signature: str
    warnings: tuple[str, ...] = ()
    set_warnings: tuple[str, ...] = ()
    answers_form: str = ""
    set_name: str = ""  # "" for the ten questions
    partial: bool = False  # interrupted: what was not scored is left out
    suite: Optional[int] = None  # questions right on every test-suite database, where asked for
    variants: int = 0  # databases that each PASS was tried on beside the data

    @property
    def passed(self) -> int:
        return sum(o.passed for o in self.outcomes)

    @property
    def held(self) -> int:
        """Those that passed and that no variant tells apart."""
        return sum(o.passed and not o.apart for o in self.outcomes)

    @property
    def total(self) -> int:
        return len(self.outcomes)


# ---- 4. the ten questions ------------------------------------------------------------------------
#
# Texts and ids are the published NL2SQL benchmark of InfiniSynapse, CC BY 4.0, letter for letter
# (infinisynapse.com/use-cases/nl2sql). The SQL, the traps and the translations are this project's.
#
# References keep six decimals, and the contract compares two: a reference that had rounded half a
# cent one way would fail an honest answer that rounds it the other.

COUNT = Contract(order="ignore")
MONEY = Contract(order="ignore", tolerance=Tolerance(decimals=2))

COUNTED = "void_flag = 0 AND LOWER(status) IN ('complete', 'completed')"
IN_Q1 = "booked_at >= '2025-01-01' AND booked_at < '2025-04-01'"
IN_2025 = "booked_at >= '2025-01-01' AND booked_at < '2026-01-01'"
LIVE = "customers_v2 c ON c.customer_id = o.customer_id AND c.is_deleted = 0"


def _revenue(where: str) -> str:
    return f"SELECT ROUND(SUM(total_amount), 6) AS revenue\nFROM orders\nWHERE {where}"


def _buyers(join: str, where: str) -> str:
    figure = "COUNT(DISTINCT c.customer_id) AS customers"
    return f"SELECT {figure}\nFROM orders o JOIN {join}\nWHERE {where}"


def _average(where: str) -> str:
    return f"SELECT ROUND(AVG(total_amount), 6) AS average_order_value\nFROM orders\nWHERE {where}"


def _by_tier(join: str, where: str) -> str:
    return (
        f"SELECT c.plan_tier, ROUND(SUM(o.total_amount), 6) AS revenue\nFROM orders o JOIN {join}"
        f"\nWHERE {where}\nGROUP BY c.plan_tier"
    )


def _best_channel(
    join: str, where: str, figure: str = "SUM(o.total_amount) / COUNT(DISTINCT c.customer_id)"
) -> str:
    return (
        f"SELECT c.acquisition_channel, ROUND({figure}, 6) AS revenue_per_customer"
        f"\nFROM orders o JOIN {join}\nWHERE {where}"
        f"\nGROUP BY c.acquisition_channel\nORDER BY {figure} DESC LIMIT 1"
    )


def _items(figure: str, rest: str = "") -> str:
    return f"SELECT ROUND({figure}, 6) AS total_value\nFROM order_items i{rest}"


def _open(where: str, source: str = "orders o") -> str:
    return f"SELECT COUNT(*) AS open_orders\nFROM {source}\nWHERE {where}"


def _lifetime(where: str) -> str:
    total = "COALESCE(ROUND(SUM(total_amount), 6), 0)"
    return f"SELECT {total} AS lifetime_revenue\nFROM orders\nWHERE {where}"


def _signups(where: str, source: str = "customers_v2 c") -> str:
    return f"SELECT COUNT(*) AS customers\nFROM {source}\nWHERE {where}"


ENTERPRISE = "c.plan_tier = 'enterprise' AND c.is_deleted = 0"
SIGNED_2025 = "c.signup_date >= '2025-01-01' AND c.signup_date < '2026-01-01'"

QUESTIONS = (
    Question(
        "Q01",
        "How many active customers do we have?",
        "two customer tables, and soft-deleted rows in the right one",
        "SELECT COUNT(*) AS active_customers FROM customers_v2 WHERE is_deleted = 0",
        COUNT,
        wordings={"it": "Quanti clienti attivi abbiamo?", "zh-Hant": "我們有多少位活躍客戶？"},
        traps=(
            Trap(
                "soft-deleted", "counts soft-deleted customers", "SELECT COUNT(*) FROM customers_v2"
            ),
            Trap(
                "deprecated table",
                "counts the deprecated customers table",
                "SELECT COUNT(*) FROM customers",
            ),
            Trap(
                "deprecated status",
                "trusts the status column of the deprecated customers table",
                "SELECT COUNT(*) FROM customers WHERE status = 'active'",
            ),
            Trap(
                "both tables",
                "adds the deprecated customers to the live ones",
                "SELECT COUNT(*) FROM (SELECT customer_id FROM customers_v2 WHERE is_deleted = 0 "
                "UNION SELECT customer_id FROM customers)",
            ),
            Trap(
                "both agree",
                "keeps only live customers that the deprecated table knows too",
                "SELECT COUNT(*) FROM customers_v2 v JOIN customers c ON c.customer_id = "
                "v.customer_id WHERE v.is_deleted = 0",
            ),
            Trap(
                "buyers",
                "takes active to mean has placed an order",
                "SELECT COUNT(DISTINCT customer_id) FROM orders",
            ),
            Trap(
                "flag upside down",
                "reads is_deleted the wrong way round",
                "SELECT COUNT(*) FROM customers_v2 WHERE is_deleted = 1",
            ),
        ),
    ),
    Question(
        "Q02",
        "What was total revenue in Q1 2025?",
        "void orders, a status with three spellings, and three dates that disagree",
        _revenue(f"{COUNTED} AND {IN_Q1}"),
        MONEY,
        wordings={
            "it": "Qual è stato il fatturato totale nel primo trimestre del 2025?",
            "zh-Hant": "2025 年第一季的總營收是多少？",
        },
        traps=(
            Trap(
                "void",
                "includes void orders",
                _revenue(f"LOWER(status) IN ('complete', 'completed') AND {IN_Q1}"),
            ),
            Trap(
                "only completed",
                "counts only the spelling 'completed'",
                _revenue(f"void_flag = 0 AND status = 'completed' AND {IN_Q1}"),
            ),
            Trap(
                "only complete",
                "counts only the spelling 'complete'",
                _revenue(f"void_flag = 0 AND status = 'complete' AND {IN_Q1}"),
            ),
            Trap(
                "upper case lost",
                "misses the spelling COMPLETE",
                _revenue(f"void_flag = 0 AND status IN ('complete', 'completed') AND {IN_Q1}"),
            ),
            Trap(
                "any status",
                "includes pending, cancelled and refunded orders",
                _revenue(f"void_flag = 0 AND {IN_Q1}"),
            ),
            Trap(
                "not cancelled",
                "counts pending and refunded orders as revenue",
                _revenue(f"void_flag = 0 AND status <> 'cancelled' AND {IN_Q1}"),
            ),
            Trap(
                "created_at",
                "dates revenue by created_at",
                _revenue(f"{COUNTED} AND {IN_Q1}".replace("booked_at", "created_at")),
            ),
            Trap(
                "closed_at",
                "dates revenue by closed_at",
                _revenue(f"{COUNTED} AND {IN_Q1}".replace("booked_at", "closed_at")),
            ),
            Trap(
                "last day lost",
                "BETWEEN loses the last day of the quarter",
                _revenue(f"{COUNTED} AND booked_at BETWEEN '2025-01-01' AND '2025-03-31'"),
            ),
            Trap(
                "first second lost",
                "leaves out what was booked exactly when the quarter began",
                _revenue(
                    f"{COUNTED} AND booked_at > '2025-01-01 00:00:00' AND booked_at < '2025-04-01'"
                ),
            ),
            Trap(
                "second too many",
                "takes in what was booked exactly when the next quarter began",
                _revenue(f"{COUNTED} AND booked_at BETWEEN '2025-01-01' AND '2025-04-01 00:00:00'"),
            ),
            Trap(
                "any year",
                "takes the first quarter of every year",
                _revenue(f"{COUNTED} AND CAST(STRFTIME('%m', booked_at) AS INTEGER) <= 3"),
            ),
            Trap("all time", "leaves the date out", _revenue(COUNTED)),
            Trap("whole year", "takes all of 2025", _revenue(f"{COUNTED} AND {IN_2025}")),
            Trap(
                "live customers",
                "leaves out the orders of customers deleted since",
                f"SELECT ROUND(SUM(o.total_amount), 6) FROM orders o JOIN {LIVE} WHERE {COUNTED} "
                f"AND {IN_Q1}",
            ),
            Trap(
                "item prices",
                "adds up the items, which do not sum to the order's total",
                "SELECT ROUND(SUM(i.qty * i.unit_price_cents) / 100.0, 6) FROM orders o JOIN "
                f"order_items i ON i.order_id = o.order_id WHERE {COUNTED} AND {IN_Q1}",
            ),
            Trap(
                "fan-out",
                "joins order_items, which repeats each order's total",
                "SELECT ROUND(SUM(o.total_amount), 6) FROM orders o JOIN order_items i ON "
                f"i.order_id = o.order_id WHERE {COUNTED} AND {IN_Q1}",
            ),
            Trap(
                "dollars as cents",
                "divides dollars by 100",
                f"SELECT ROUND(SUM(total_amount) / 100.0, 6) FROM orders WHERE {COUNTED} AND "
                f"{IN_Q1}",
            ),
        ),
    ),
    Question(
        "Q03",
        "How many customers placed an order in 2025?",
        "customer_id against user_id, soft-deleted customers, void orders, three dates",
        _buyers(LIVE, f"o.void_flag = 0 AND {IN_2025}"),
        COUNT,
        wordings={
            "it": "Quanti clienti hanno effettuato un ordine nel 2025?",
            "zh-Hant": "2025 年有多少位客戶下過訂單？",
        },
        traps=(
            Trap(
                "soft-deleted",
                "counts soft-deleted customers",
                _buyers(
                    "customers_v2 c ON c.customer_id = o.customer_id",
                    f"o.void_flag = 0 AND {IN_2025}",
                ),
            ),
            Trap("void", "counts customers whose only orders are void", _buyers(LIVE, IN_2025)),
            Trap(
                "orders",
                "counts orders, not customers",
                f"SELECT COUNT(*) FROM orders o JOIN {LIVE} WHERE o.void_flag = 0 AND {IN_2025}",
            ),
            Trap(
                "user_id join",
                "joins on user_id",
                _buyers(
                    "customers_v2 c ON c.customer_id = o.user_id AND c.is_deleted = 0",
                    f"o.void_flag = 0 AND {IN_2025}",
                ),
            ),
            Trap(
                "user_id",
                "counts distinct user_id",
                f"SELECT COUNT(DISTINCT user_id) FROM orders o WHERE o.void_flag = 0 AND {IN_2025}",
            ),
            Trap(
                "external_ref join",
                "joins on external_ref, which is not unique",
                _buyers(
                    "customers_v2 c ON c.external_ref = o.external_ref AND c.is_deleted = 0",
                    f"o.void_flag = 0 AND {IN_2025}",
                ),
            ),
            Trap(
                "deprecated table",
                "joins the deprecated customers table",
                _buyers(
                    "customers c ON c.customer_id = o.customer_id", f"o.void_flag = 0 AND {IN_2025}"
                ),
            ),
            Trap(
                "only completed orders",
                "leaves out customers with pending, cancelled or refunded orders only",
                _buyers(LIVE, f"{COUNTED} AND {IN_2025}"),
            ),
            Trap(
                "created_at",
                "dates orders by created_at",
                _buyers(LIVE, f"o.void_flag = 0 AND {IN_2025}".replace("booked_at", "created_at")),
            ),
            Trap(
                "closed_at",
                "dates orders by closed_at",
                _buyers(LIVE, f"o.void_flag = 0 AND {IN_2025}".replace("booked_at", "closed_at")),
            ),
            Trap(
                "last day lost",
                "BETWEEN loses the last day of the year",
                _buyers(
                    LIVE, "o.void_flag = 0 AND booked_at BETWEEN '2025-01-01' AND '2025-12-31'"
                ),
            ),
            Trap(
                "second too many",
                "takes in orders booked exactly when 2026 began",
                _buyers(
                    LIVE,
                    "o.void_flag = 0 AND booked_at BETWEEN '2025-01-01' AND '2026-01-01 00:00:00'",
                ),
            ),
            Trap(
                "since 2025",
                "has no upper bound on the date",
                _buyers(LIVE, "o.void_flag = 0 AND booked_at >= '2025-01-01'"),
            ),
        ),
    ),
    Question(
        "Q04",
        "What is the average order value for completed orders?",
        "void orders, and a status with three spellings",
        _average(COUNTED),
        MONEY,
        wordings={
            "it": "Qual è il valore medio degli ordini completati?",
            "zh-Hant": "已完成訂單的平均訂單金額是多少？",
        },
        traps=(
            Trap(
                "void",
                "includes void orders",
                _average("LOWER(status) IN ('complete', 'completed')"),
            ),
            Trap(
                "only completed",
                "counts only the spelling 'completed'",
                _average("void_flag = 0 AND status = 'completed'"),
            ),
            Trap(
                "upper case lost",
                "misses the spelling COMPLETE",
                _average("void_flag = 0 AND status IN ('complete', 'completed')"),
            ),
            Trap(
                "any status",
                "includes pending, cancelled and refunded orders",
                _average("void_flag = 0"),
            ),
            Trap(
                "closed",
                "takes closed_at for completion",
                _average("void_flag = 0 AND closed_at IS NOT NULL"),
            ),
            Trap(
                "per customer",
                "divides by customers, not by orders",
                "SELECT ROUND(SUM(total_amount) / COUNT(DISTINCT customer_id), 6) FROM orders "
                f"WHERE {COUNTED}",
            ),
            Trap(
                "live customers",
                "leaves out the orders of customers deleted since",
                f"SELECT ROUND(AVG(o.total_amount), 6) FROM orders o JOIN {LIVE} WHERE {COUNTED}",
            ),
            Trap(
                "item prices",
                "averages the items' sums, which are not the order's total",
                "SELECT ROUND(SUM(i.qty * i.unit_price_cents) / 100.0 / COUNT(DISTINCT "
                "o.order_id), 6) FROM orders o JOIN order_items i ON i.order_id = o.order_id "
                f"WHERE {COUNTED}",
            ),
            Trap(
                "item cents",
                "averages the items' sums in cents as if they were dollars",
                "SELECT ROUND(SUM(i.qty * i.unit_price_cents) * 1.0 / COUNT(DISTINCT "
                "o.order_id), 6) FROM orders o JOIN order_items i ON i.order_id = o.order_id "
                f"WHERE {COUNTED}",
            ),
            Trap(
                "fan-out",
                "joins order_items, which weighs each order by its items",
                "SELECT ROUND(AVG(o.total_amount), 6) FROM orders o JOIN order_items i ON "
                f"i.order_id = o.order_id WHERE {COUNTED}",
            ),
        ),
    ),
    Question(
        "Q05",
        "What is total revenue by plan tier?",
        "joining on user_id, soft-deleted customers, void orders, a status with three spellings",
        _by_tier(LIVE, COUNTED),
        MONEY,
        wordings={
            "it": "Qual è il fatturato totale per livello di piano?",
            "zh-Hant": "各方案等級的總營收是多少？",
        },
        traps=(
            Trap(
                "soft-deleted",
                "includes soft-deleted customers",
                _by_tier("customers_v2 c ON c.customer_id = o.customer_id", COUNTED),
            ),
            Trap(
                "user_id",
                "joins on user_id",
                _by_tier(
                    "customers_v2 c ON c.customer_id = o.user_id AND c.is_deleted = 0", COUNTED
                ),
            ),
            Trap(
                "external_ref",
                "joins on external_ref, which is not unique",
                _by_tier(
                    "customers_v2 c ON c.external_ref = o.external_ref AND c.is_deleted = 0",
                    COUNTED,
                ),
            ),
            Trap(
                "void",
                "includes void orders",
                _by_tier(LIVE, "LOWER(o.status) IN ('complete', 'completed')"),
            ),
            Trap(
                "only completed",
                "counts only the spelling 'completed'",
                _by_tier(LIVE, "void_flag = 0 AND o.status = 'completed'"),
            ),
            Trap(
                "upper case lost",
                "misses the spelling COMPLETE",
                _by_tier(LIVE, "void_flag = 0 AND o.status IN ('complete', 'completed')"),
            ),
            Trap(
                "any status",
                "includes pending, cancelled and refunded orders",
                _by_tier(LIVE, "void_flag = 0"),
            ),
            Trap(
                "ltv_estimate",
                "adds up the stale ltv_estimate",
                "SELECT plan_tier, ROUND(SUM(ltv_estimate), 6) FROM customers_v2 WHERE is_deleted "
                "= 0 GROUP BY plan_tier",
            ),
            Trap(
                "deprecated table",
                "keeps only customers that the deprecated table knows too",
                _by_tier(
                    LIVE + " JOIN customers d ON d.customer_id = c.customer_id",
                    "o.void_flag = 0 AND LOWER(o.status) IN ('complete', 'completed')",
                ),
            ),
            Trap(
                "item prices",
                "adds up the items, which do not sum to the order's total",
                "SELECT c.plan_tier, ROUND(SUM(i.qty * i.unit_price_cents) / 100.0, 6) FROM "
                f"orders o JOIN {LIVE} JOIN order_items i ON i.order_id = o.order_id WHERE "
                f"{COUNTED} GROUP BY c.plan_tier",
            ),
            Trap(
                "fan-out",
                "joins order_items, which repeats each order's total",
                _by_tier(LIVE + " JOIN order_items i ON i.order_id = o.order_id", COUNTED),
            ),
        ),
    ),
    Question(
        "Q06",
        "What is the total value of all order items?",
        "unit_price_cents is in cents, and items do not sum to the order's total",
        _items("SUM(i.qty * i.unit_price_cents) / 100.0"),
        MONEY,
        wordings={
            "it": "Qual è il valore totale di tutte le righe d'ordine?",
            "zh-Hant": "所有訂單明細的總金額是多少？",
        },
        traps=(
            Trap("cents", "sums cents as dollars", _items("SUM(i.qty * i.unit_price_cents)")),
            Trap(
                "no quantity", "leaves out the quantity", _items("SUM(i.unit_price_cents) / 100.0")
            ),
            Trap(
                "whole dollars",
                "divides whole numbers, which drops the cents",
                _items("SUM(i.qty * i.unit_price_cents) / 100"),
            ),
            Trap(
                "whole dollars per line",
                "divides whole numbers line by line, which drops the cents of each",
                _items("SUM(i.qty * i.unit_price_cents / 100)"),
            ),
            Trap(
                "order totals",
                "adds up the orders' totals, which are not the items' sums",
                "SELECT ROUND(SUM(total_amount), 6) FROM orders",
            ),
            Trap(
                "only counted orders",
                "keeps only items of completed, valid orders",
                _items(
                    "SUM(i.qty * i.unit_price_cents) / 100.0",
                    f" JOIN orders o ON o.order_id = i.order_id WHERE {COUNTED}",
                ),
            ),
            Trap(
                "void left out",
                "leaves out the items of void orders",
                _items(
                    "SUM(i.qty * i.unit_price_cents) / 100.0",
                    " JOIN orders o ON o.order_id = i.order_id WHERE o.void_flag = 0",
                ),
            ),
            Trap(
                "average price",
                "multiplies the summed quantity by the average price",
                _items("SUM(i.qty) * AVG(i.unit_price_cents) / 100.0"),
            ),
        ),
    ),
    Question(
        "Q07",
        "Which acquisition channel has the highest revenue per customer?",
        "revenue per customer, not in total; soft-deleted customers, void orders, user_id, the "
        "stale ltv_estimate",
        _best_channel(LIVE, COUNTED),
        MONEY._replace(optional=("revenue_per_customer",)),
        wordings={
            "it": "Quale canale di acquisizione ha il fatturato per cliente più alto?",
            "zh-Hant": "哪個獲客管道的每客戶營收最高？",
        },
        traps=(
            Trap(
                "total revenue",
                "ranks by total revenue",
                _best_channel(LIVE, COUNTED, "SUM(o.total_amount)"),
            ),
            Trap(
                "average order",
                "divides by orders, not by customers",
                _best_channel(LIVE, COUNTED, "AVG(o.total_amount)"),
            ),
            Trap(
                "ltv_estimate",
                "trusts the stale ltv_estimate",
                "SELECT acquisition_channel, ROUND(AVG(ltv_estimate), 6) FROM customers_v2 WHERE "
                "is_deleted = 0 GROUP BY 1 ORDER BY AVG(ltv_estimate) DESC LIMIT 1",
            ),
            Trap(
                "soft-deleted",
                "includes soft-deleted customers",
                _best_channel("customers_v2 c ON c.customer_id = o.customer_id", COUNTED),
            ),
            Trap(
                "void",
                "includes void orders",
                _best_channel(LIVE, "LOWER(o.status) IN ('complete', 'completed')"),
            ),
            Trap(
                "user_id",
                "joins on user_id",
                _best_channel(
                    "customers_v2 c ON c.customer_id = o.user_id AND c.is_deleted = 0", COUNTED
                ),
            ),
            Trap(
                "external_ref",
                "joins on external_ref, which is not unique",
                _best_channel(
                    "customers_v2 c ON c.external_ref = o.external_ref AND c.is_deleted = 0",
                    COUNTED,
                ),
            ),
            Trap(
                "only completed",
                "counts only the spelling 'completed'",
                _best_channel(LIVE, "void_flag = 0 AND o.status = 'completed'"),
            ),
            Trap(
                "upper case lost",
                "misses the spelling COMPLETE",
                _best_channel(LIVE, "void_flag = 0 AND o.status IN ('complete', 'completed')"),
            ),
            Trap(
                "any status",
                "includes pending, cancelled and refunded orders",
                _best_channel(LIVE, "void_flag = 0"),
            ),
            Trap(
                "idle customers",
                "divides by all customers, those without an order included",
                "SELECT c.acquisition_channel, ROUND(SUM(o.total_amount) / COUNT(DISTINCT "
                "c.customer_id), 6) AS figure FROM customers_v2 c LEFT JOIN orders o ON "
                f"o.customer_id = c.customer_id AND {COUNTED} WHERE c.is_deleted = 0 GROUP BY "
                "c.acquisition_channel ORDER BY SUM(o.total_amount) / COUNT(DISTINCT "
                "c.customer_id) DESC LIMIT 1",
            ),
        ),
    ),
    Question(
        "Q08",
        "How many orders have not been closed yet?",
        "closed_at is NULL for open orders, and void orders are no orders",
        _open("o.closed_at IS NULL AND o.void_flag = 0"),
        COUNT,
        wordings={
            "it": "Quanti ordini non sono ancora stati chiusi?",
            "zh-Hant": "有多少筆訂單尚未結案？",
        },
        traps=(
            Trap("void", "counts void orders", _open("o.closed_at IS NULL")),
            Trap(
                "pending",
                "takes the status pending for not closed",
                _open("o.status = 'pending' AND o.void_flag = 0"),
            ),
            Trap(
                "pending and open",
                "keeps only pending orders among the open ones",
                _open("o.closed_at IS NULL AND o.void_flag = 0 AND o.status = 'pending'"),
            ),
            Trap(
                "not completed",
                "takes every status but completed for not closed",
                _open("o.void_flag = 0 AND LOWER(o.status) NOT IN ('complete', 'completed')"),
            ),
            Trap(
                "equals NULL",
                "compares with = NULL, which is never true",
                _open("o.closed_at = NULL AND o.void_flag = 0"),
            ),
            Trap(
                "empty text",
                "looks for an empty text instead of NULL",
                _open("o.closed_at = '' AND o.void_flag = 0"),
            ),
            Trap(
                "live customers",
                "leaves out the orders of customers deleted since",
                _open("o.closed_at IS NULL AND o.void_flag = 0", f"orders o JOIN {LIVE}"),
            ),
            Trap(
                "not cancelled",
                "leaves out cancelled and refunded orders that were never closed",
                _open(
                    "o.closed_at IS NULL AND o.void_flag = 0 AND o.status NOT IN ('cancelled', "
                    "'refunded')"
                ),
            ),
            Trap(
                "closed ones",
                "counts the closed orders",
                _open("o.closed_at IS NOT NULL AND o.void_flag = 0"),
            ),
        ),
    ),
    Question(
        "Q09",
        "What is the actual lifetime revenue of customer 1, based on their orders?",
        "ltv_estimate is stale; user_id is somebody else; void and unfinished orders",
        _lifetime(f"customer_id = 1 AND {COUNTED}"),
        MONEY,
        wordings={
            "it": "Qual è l'effettivo fatturato complessivo (lifetime revenue) del cliente 1, "
            "in base ai suoi ordini?",
            "zh-Hant": "依據訂單資料，客戶 1 的實際累計營收（lifetime revenue）是多少？",
        },
        traps=(
            Trap(
                "ltv_estimate",
                "trusts the stale ltv_estimate",
                "SELECT ltv_estimate FROM customers_v2 WHERE customer_id = 1",
            ),
            Trap(
                "user_id", "takes user_id for the customer", _lifetime(f"user_id = 1 AND {COUNTED}")
            ),
            Trap(
                "external_ref",
                "joins on external_ref, which is not unique",
                "SELECT COALESCE(ROUND(SUM(o.total_amount), 6), 0) FROM orders o JOIN "
                "customers_v2 c ON c.external_ref = o.external_ref WHERE c.customer_id = 1 AND "
                f"{COUNTED}",
            ),
            Trap(
                "void",
                "includes void orders",
                _lifetime("customer_id = 1 AND LOWER(status) IN ('complete', 'completed')"),
            ),
            Trap(
                "only completed",
                "counts only the spelling 'completed'",
                _lifetime("customer_id = 1 AND void_flag = 0 AND status = 'completed'"),
            ),
            Trap(
                "upper case lost",
                "misses the spelling COMPLETE",
                _lifetime(
                    "customer_id = 1 AND void_flag = 0 AND status IN ('complete', 'completed')"
                ),
            ),
            Trap(
                "any status",
                "includes pending, cancelled and refunded orders",
                _lifetime("customer_id = 1 AND void_flag = 0"),
            ),
            Trap(
                "everything",
                "adds up every order, void and unfinished included",
                _lifetime("customer_id = 1"),
            ),
            Trap(
                "item prices",
                "adds up the items, which do not sum to the order's total",
                "SELECT COALESCE(ROUND(SUM(i.qty * i.unit_price_cents) / 100.0, 6), 0) FROM "
                "orders o JOIN order_items i ON i.order_id = o.order_id WHERE o.customer_id = 1 "
                f"AND {COUNTED}",
            ),
            Trap(
                "refunds subtracted",
                "subtracts refunded orders",
                "SELECT ROUND(SUM(CASE WHEN status = 'refunded' THEN -total_amount ELSE "
                "total_amount END), 6) FROM orders WHERE customer_id = 1 AND void_flag = 0 AND "
                "(LOWER(status) IN ('complete', 'completed') OR status = 'refunded')",
            ),
        ),
    ),
    Question(
        "Q10",
        "How many enterprise customers signed up in 2025?",
        "two customer tables whose signup dates disagree, and soft-deleted rows",
        _signups(f"{ENTERPRISE} AND {SIGNED_2025}"),
        COUNT,
        wordings={
            "it": "Quanti clienti enterprise si sono registrati nel 2025?",
            "zh-Hant": "2025 年註冊的 enterprise 方案客戶有多少位？",
        },
        traps=(
            Trap(
                "soft-deleted",
                "counts soft-deleted customers",
                _signups(f"c.plan_tier = 'enterprise' AND {SIGNED_2025}"),
            ),
            Trap(
                "deprecated date",
                "takes the signup date from the deprecated customers table",
                _signups(
                    f"{ENTERPRISE} AND d.signup_date >= '2025-01-01' AND d.signup_date < "
                    "'2026-01-01'",
                    "customers_v2 c JOIN customers d ON d.customer_id = c.customer_id",
                ),
            ),
            Trap(
                "both agree",
                "keeps only customers that the deprecated table knows too",
                _signups(
                    f"{ENTERPRISE} AND {SIGNED_2025}",
                    "customers_v2 c JOIN customers d ON d.customer_id = c.customer_id",
                ),
            ),
            Trap(
                "every tier",
                "leaves out the plan tier",
                _signups(f"c.is_deleted = 0 AND {SIGNED_2025}"),
            ),
            Trap(
                "deprecated table",
                "counts sign-ups in the deprecated customers table, which has no plan tier",
                _signups(SIGNED_2025, "customers c"),
            ),
            Trap(
                "updated_at",
                "takes updated_at for the sign-up",
                _signups(
                    f"{ENTERPRISE} AND c.updated_at >= '2025-01-01' AND c.updated_at < '2026-01-01'"
                ),
            ),
            Trap(
                "first order",
                "takes the first order for the sign-up",
                _signups(
                    f"{ENTERPRISE} AND (SELECT MIN(o.booked_at) FROM orders o WHERE o.customer_id "
                    "= c.customer_id) BETWEEN '2025-01-01' AND '2025-12-31 23:59:59'"
                ),
            ),
            Trap(
                "last day lost",
                "leaves out the last day of the year",
                _signups(
                    f"{ENTERPRISE} AND c.signup_date >= '2025-01-01' AND c.signup_date < "
                    "'2025-12-31'"
                ),
            ),
            Trap(
                "first day lost",
                "leaves out the first day of the year",
                _signups(
                    f"{ENTERPRISE} AND c.signup_date > '2025-01-01' AND c.signup_date < "
                    "'2026-01-01'"
                ),
            ),
            Trap(
                "since 2025",
                "has no upper bound on the date",
                _signups(f"{ENTERPRISE} AND c.signup_date >= '2025-01-01'"),
            ),
        ),
    ),
)

# ---- 5. SQL text ---------------------------------------------------------------------------------
#
# SQL is never rewritten: these functions look at it, and say where its parts begin and end.


class Token(NamedTuple):
    """A piece of SQL: `kind` is space, comment, string, name, number or mark."""

    kind: str
    start: int
    end: int
    closed: bool = True  # False for a string, quoted name or comment that nothing ends


# One match per token. Quoted tokens only match their opening here: _close finds the end, so that
# megabytes inside a string cost one search and no regular-expression stack.
TOKEN = re.compile(
    r"""(?P<space>[ \t\n\r\f\ufeff]+)
      | (?P<comment>--[^\n]*)
      | (?P<quoted>/\*|[xX]?'|"|`|\[)
      | (?P<number>\d[\w.]*(?:(?<=[eE])[+-]\w*)?|\.\d\w*(?:(?<=[eE])[+-]\w*)?)
      | (?P<name>[^\W\d][\w$]*)
      | (?P<mark>->>|->|<=|>=|<>|==|!=|<<|>>|\|\||[?:@#$]\w+|.)""",
    re.VERBOSE | re.DOTALL,
)
CLOSERS = {"/*": "*/", "'": "'", '"': '"', "`": "`", "[": "]"}
BLANK = ("space", "comment")
QUERY_WORDS = ("SELECT", "WITH", "VALUES")


def tokens(
    sql: str, start: int = 0, stop: Optional[int] = None, last: Optional[dict[str, int]] = None
) -> Iterator[Token]:
    """The tokens of sql[start:stop], gapless. `last` is a memo for calls with one `stop`."""
    stop = len(sql) if stop is None else stop
    last = {} if last is None else last
    while start < stop:
        found = TOKEN.match(sql, start, stop)
        assert found is not None  # the last alternative takes any character
        kind, end, closed = str(found.lastgroup), found.end(), True
        if kind == "quoted":
            opener = found.group()[-1] if found.group() != "/*" else "/*"
            kind = {"/*": "comment", "'": "string"}.get(opener, "name")
            end, closed = _close(sql, end, stop, CLOSERS[opener], last)
        yield Token(kind, start, end, closed)
        start = end


RUNS = {quote: re.compile(quote + "+") for quote in ("'", '"', "`")}


def _close(sql: str, at: int, stop: int, closer: str, last: dict[str, int]) -> tuple[int, bool]:
    """Where a quoted token ends and whether anything ended it. A doubled quote is no end."""
    if closer not in last:
        last[closer] = sql.rfind(closer, at, stop)
    if closer not in RUNS:
        found = sql.find(closer, at, stop) if at <= last[closer] else -1
        return (found + len(closer), True) if found >= 0 else (stop, False)
    while at <= last[closer]:
        run = RUNS[closer].search(sql, at, stop)
        if run is None:
            break
        at = run.end()
        if (at - run.start()) % 2:  # an even run is nothing but doubled quotes
            return at, True
    return stop, False


# Text in which no statement ends: plain, or strings that are simply closed. Runs are taken at once,
# for megabytes of SQL are a way to keep a reader busy; a thousand pieces at a time, for the regular
# expression keeps a note of each.
RUN = re.compile(r"(?:[^;'\"`\[/-]+|'[^']*'(?!')|-(?!-)|/(?!\*)){1,1000}")
STOPS = re.compile(r"(?:--[^\n]*(?:\n[ \t\n\r\f]*|\Z))+|/\*|'|\"|`|\[|;[; \t\n\r\f]*")
SPACES = " \t\n\r\f\ufeff"
NOT_SPACE = re.compile(f"[^{SPACES}]")


def statements(sql: str) -> list[tuple[int, int]]:
    """Start and end of each real statement: its first to its last token that is not blank."""
    found: list[tuple[int, int]] = []
    begun: Optional[int] = None
    at = end = 0
    last: dict[str, int] = {}
    while at < len(sql):
        run = RUN.match(sql, at)
        if run:
            text = NOT_SPACE.search(sql, at, run.end())
            if text:
                begun = text.start() if begun is None else begun
                end = at + len(run.group().rstrip(SPACES))
            at = run.end()
            continue
        stop = STOPS.match(sql, at)
        assert stop is not None  # what is no run begins with one of these
        mark = stop.group()[0] if stop.group() != "/*" else "/*"
        if mark in CLOSERS:
            begun = at if begun is None and mark != "/*" else begun
            at, _ = _close(sql, stop.end(), len(sql), CLOSERS[mark], last)
            end = at if mark != "/*" else end
            continue
        if mark == ";" and begun is not None:
            found.append((begun, end))
            begun = None
        at = stop.end()
    return found if begun is None else [*found, (begun, end)]


def quoted_name(name: str) -> str:
    """A name as it can stand in any query."""
    return '"' + name.replace('"', '""') + '"'


def same_tokens(sql: str, other: str) -> bool:
    """Whether two queries are the same but for spaces, comments and what ends a statement."""
    found = [
        [word for word in WORDS.findall(without_tail(text)) if word[:2] not in ("--", "/*")]
        for text in (sql, other)
    ]
    return found[0] == found[1]


def without_tail(sql: str) -> str:
    """The SQL without the semicolons, spaces and comments after its last statement."""
    found = statements(sql)
    return sql[: found[-1][1]] if found else ""


def first_word(sql: str) -> str:
    """The first word of the SQL in capitals, "" where it does not begin with one."""
    for token in tokens(sql):
        if token.kind not in BLANK and sql[token.start : token.end] != ";":
            return sql[token.start : token.end].upper() if token.kind == "name" else ""
    return ""


def screen(
    sql: str, line: int = 1, found: Optional[list[tuple[int, int]]] = None
) -> tuple[str, str]:
    """Reason and detail for a candidate that need not run at all, or ("", "").

    `line` is the number of its first line in the answers file, `found` its statements().
    """
    if len(sql) > SQL_LIMIT:
        return "too_large", f"{len(sql):,} characters of SQL; at most {SQL_LIMIT:,} are run"
    found = statements(sql) if found is None else found
    if not found:
        return "no_sql", ""
    if len(found) > 1 and first_word(sql) != "CREATE":  # a trigger's body has semicolons of its own
        at = line + sql.count("\n", 0, found[1][0])
        return "multiple_statements", f"a second statement begins on line {at}; an answer is one"
    return "", ""


def order_terms(sql: str) -> Optional[list[str]]:
    """The terms of the outermost ORDER BY, None where there is none."""
    words = _outer_words(sql) if re.search("(?i)order", sql) else []
    at = [
        i for i, (word, _) in enumerate(words[:-1]) if word == "ORDER" and words[i + 1][0] == "BY"
    ]
    if not at:
        return None
    begin = words[at[-1] + 1][1].end
    ends = [token.start for word, token in words[at[-1] + 2 :] if word in ("LIMIT", ";")]
    stop = ends[0] if ends else len(sql)
    commas = [t.start for word, t in words if word == "," and begin <= t.start < stop]
    edges = [begin, *commas, stop]
    return [sql[a:b].lstrip(",").strip() for a, b in zip(edges, edges[1:])]


def with_broken_ties(sql: str, outermost: bool = False) -> list[str]:
    """The query with its ties at each LIMIT broken one way and the other, [] where it has none.

    Every result column becomes a last sort term there. Used only to see whether a reference cuts
    through a tie, never for a candidate.
    """
    words = [(sql[t.start : t.end].upper(), t) for t in tokens(sql) if t.kind not in BLANK]
    cuts: list[tuple[int, int]] = []  # where a LIMIT stands, and the columns of its SELECT
    open_selects: list[tuple[int, bool]] = [(0, False)]  # columns, and whether it sorts
    listing = [False]
    for i, (word, token) in enumerate(words):
        columns, sorts = open_selects[-1]
        if word == "(":
            open_selects.append((0, False))
            listing.append(False)
        elif word == ")" and len(open_selects) > 1:
            open_selects.pop()
            listing.pop()
        elif token.kind == "name" and word == "SELECT":
            open_selects[-1], listing[-1] = (1, False), True
        elif token.kind == "name" and word in ("FROM", "WHERE", "GROUP", "UNION", "ORDER"):
            listing[-1] = False
            sorts = sorts or (word == "ORDER" and words[i + 1 : i + 2] != [])
            open_selects[-1] = columns, sorts
        elif word == "," and listing[-1]:
            open_selects[-1] = columns + 1, sorts
        elif outermost and len(open_selects) > 1:
            continue
        elif token.kind == "name" and word == "LIMIT" and sorts and columns:
            cuts.append((token.start, columns))
    found = []
    for direction in ("", " DESC") if cuts else ():
        text = sql
        for at, columns in reversed(cuts):
            terms = "".join(f", {n}{direction}" for n in range(1, columns + 1))
            text = f"{text[:at]}{terms} {text[at:]}"
        found.append(text)
    return found


def without_limit(sql: str) -> Optional[str]:
    """The query up to its outermost LIMIT, None where it has none."""
    words = _outer_words(without_tail(sql))
    at = [token.start for word, token in words if word == "LIMIT"]
    return sql[: at[-1]] if at else None


def limit_of(sql: str) -> Optional[tuple[str, list[int]]]:
    """The query up to its outermost LIMIT, and before which rows it cuts; None if that is open."""
    whole = without_limit(sql)
    tail = sql[len(whole or "") :]
    found = re.fullmatch(
        r"(?is)LIMIT\s+(\d+)(?:\s*(,|OFFSET)\s*(\d+))?\s*", without_tail(_without_comments(tail))
    )
    if whole is None or found is None:
        return None
    first, second = int(found[1]), int(found[3] or 0)
    start, number = (first, second) if found[2] == "," else (second, first)
    return whole, [start, start + number]


def _outer_words(sql: str) -> list[tuple[str, Token]]:
    """Words and marks outside all parentheses, in capitals."""
    found = []
    depth = 0
    for token in tokens(sql):
        word = sql[token.start : token.end].upper()
        if token.kind == "mark" and word in "()":
            depth += 1 if word == "(" else -1
        elif depth == 0 and token.kind in ("name", "number", "mark"):
            found.append((word, token))
    return found


# Patterns that are seldom needed stay texts: re compiles them at their first use and keeps them.
SORT_TAIL = r"(?is)\s+(?:ASC|DESC)$|\s+NULLS\s+(?:FIRST|LAST)$"
COLLATION = r"(?is)\s+COLLATE\s+(\w+)$"


def sort_expression(term: str) -> tuple[str, str]:
    """An ORDER BY term without its direction, and the collation that it names in capitals or ""."""
    term = re.sub(SORT_TAIL, "", re.sub(SORT_TAIL, "", _without_comments(term)))
    collation = re.search(COLLATION, term)
    return re.sub(COLLATION, "", term).strip(), collation.group(1).upper() if collation else ""


def _without_comments(sql: str) -> str:
    return "".join(
        " " if token.kind == "comment" else sql[token.start : token.end] for token in tokens(sql)
    ).strip()


def with_columns(sql: str, expressions: Sequence[str]) -> Optional[str]:
    """The query with further result columns, None where that would change what it returns.

    For a single SELECT without DISTINCT: the columns go to the end of its result list. Used only to
    read the sort keys of a reference, never for a candidate.
    """
    words = _outer_words(without_tail(sql))
    names = [word for word, _ in words]
    selects = names.count("SELECT")
    compound = {"UNION", "INTERSECT", "EXCEPT", "VALUES"} & set(names)
    if selects != 1 or compound or "DISTINCT" in names[names.index("SELECT") :][:2]:
        return None
    after = names[names.index("SELECT") :]
    ends = [after.index(word) for word in ("FROM", "WHERE", "GROUP", "ORDER") if word in after]
    at = words[names.index("SELECT") + min(ends)][1].start
    extra = "".join(f", ({expression})" for expression in expressions)
    # On a line of its own: what stands before may end in a comment.
    return f"{sql[:at]}\n{extra}\n{without_tail(sql)[at:]}"


# -- what a query depends on

DIVIDERS = frozenset(
    (
        "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "AND", "OR", "ON",
        "WHEN", "THEN", "ELSE", "END", "JOIN", "UNION", "EXCEPT", "INTERSECT", "VALUES", "USING",
    )
)  # fmt: skip


CLUE_TEXT = 200_000  # characters of a query that are looked at for clues


class Clue(NamedTuple):
    """What stands together in a query between two words such as WHERE, AND and ORDER."""

    word: str  # the word that begins it, in capitals
    names: tuple[str, ...]  # in lower case, without their quotes
    literals: tuple[Cell, ...]
    texts: tuple[str, ...]  # names in double quotes as written: SQLite may take them for text
    operators: tuple[str, ...]


def clues(sql: str, params: Mapping[str, Cell]) -> list[Clue]:
    """The pieces of a query: which literals stand beside which names, bound values among them."""
    found = []
    word, between = "", False
    names: list[str] = []
    literals: list[Cell] = []
    texts: list[str] = []
    operators: list[str] = []
    for token in tokens(sql, 0, min(len(sql), CLUE_TEXT)):
        text = sql[token.start : token.end]
        upper = text.upper()
        if token.kind == "name" and upper in DIVIDERS and not (between and upper == "AND"):
            found.append(Clue(word, tuple(names), tuple(literals), tuple(texts), tuple(operators)))
            word, between = upper, False
            names, literals, texts, operators = [], [], [], []
        elif token.kind == "name":
            between = upper == "BETWEEN" or (between and upper != "AND")
            names.append(unquoted(text).lower())
            if text[0] == '"':
                texts.append(unquoted(text))
            operators += [upper] if upper in ("LIKE", "GLOB", "BETWEEN", "IN") else []
        elif token.kind == "string" and text[0] == "'":
            literals.append(unquoted(text))
        elif token.kind == "number":
            literals += _number(text, operators)
        elif text[1:] in params and text[0] in ":@$":
            literals.append(params[text[1:]])
        elif token.kind == "mark":
            operators.append(text)
    found.append(Clue(word, tuple(names), tuple(literals), tuple(texts), tuple(operators)))
    return found


def unquoted(text: str) -> str:
    """A name or a string without its quotes."""
    if text[0] == "[":
        return text[1:-1]
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "'\"`" else text


def _number(text: str, before: Sequence[str]) -> list[Cell]:
    """A number literal as a list of one, with the minus before it."""
    sign = -1 if before and before[-1] == "-" else 1
    try:
        return [sign * (int(text) if text.isdigit() else float(text))]
    except ValueError:
        return []


# -- what a tool gets wrong


class Mutant(NamedTuple):
    """A query with one thing changed, as a tool gets one thing wrong."""

    kind: str
    change: str
    sql: str


MUTANTS = 300  # of one query at most
OPPOSITES = {
    "=": ("<>",), "==": ("<>",), "<>": ("=",), "!=": ("=",), "<": ("<=", ">"), "<=": ("<", ">="),
    ">": (">=", "<"), ">=": (">", "<="), "MAX": ("MIN",), "MIN": ("MAX",), "SUM": ("AVG",),
    "AVG": ("SUM",), "AND": ("OR",), "OR": ("AND",), "ASC": ("DESC",), "DESC": ("ASC",),
    "INTERSECT": ("UNION",), "EXCEPT": ("UNION",), "LIKE": ("NOT LIKE",), "IN": ("NOT IN",),
}  # fmt: skip
MUTANT_KINDS = {
    "MAX": "aggregate", "MIN": "aggregate", "SUM": "aggregate", "AVG": "aggregate",
    "AND": "and/or", "OR": "and/or", "ASC": "direction", "DESC": "direction",
    "INTERSECT": "set", "EXCEPT": "set",
}  # fmt: skip
CONDITION_ENDS = frozenset(
    (
        "AND", "OR", "WHERE", "ON", "HAVING", "GROUP", "ORDER", "LIMIT", "UNION", "EXCEPT",
        "WINDOW", "INTERSECT", "JOIN", "LEFT", "INNER", "CROSS", "NATURAL", "RIGHT", "FULL",
        ",", ";",
    )
)  # fmt: skip


def mutants(sql: str) -> list[Mutant]:
    """The query with one token changed, or one condition left out, in each way in turn."""
    words = [(sql[t.start : t.end].upper(), t) for t in tokens(sql) if t.kind not in BLANK]
    found = [*_changed_words(sql, words), *_changed_results(sql, words), *_dropped(sql, words)]
    return list(islice({m.sql: m for m in found if m.sql != sql}.values(), MUTANTS))


def _changed_words(sql: str, words: Sequence[tuple[str, Token]]) -> Iterator[Mutant]:
    between = False
    for i, (word, token) in enumerate(words):
        before = words[i - 1][0] if i else ""
        after = words[i + 1][0] if i + 1 < len(words) else ""
        is_call = word not in ("MAX", "MIN", "SUM", "AVG") or after == "("
        is_bound = between and word == "AND"
        between = word == "BETWEEN" or (between and word != "AND")
        if token.kind == "string" or is_bound or not is_call:
            continue
        if before == "NOT" and word in ("IN", "LIKE", "EXISTS", "BETWEEN"):
            start = words[i - 1][1].start
            yield _mutant(sql, start, token.end, "comparison", sql[token.start : token.end])
        else:
            for other in OPPOSITES.get(word, ()):
                kind = MUTANT_KINDS.get(word, "comparison")
                kind = "boundary" if other.strip("=") == word.strip("=") != "" else kind
                yield _mutant(sql, token.start, token.end, kind, other)
        if word == "JOIN":
            yield from _changed_join(sql, words, i)
        elif (
            token.kind == "number" and word.isdigit() and before in OPERATORS + ("LIMIT", "BETWEEN")
        ):
            yield _mutant(sql, token.start, token.end, "boundary", str(int(word) + 1))


def _mutant(sql: str, start: int, end: int, kind: str, new: str) -> Mutant:
    old = " ".join(sql[start:end].split())
    change = (
        f"{new} for {old}" if old and new else f"without {old}" if old else f"with {new.strip()}"
    )
    return Mutant(kind, change, sql[:start] + new + sql[end:])


def _changed_join(sql: str, words: Sequence[tuple[str, Token]], i: int) -> Iterator[Mutant]:
    """LEFT JOIN for JOIN, and JOIN for LEFT JOIN."""
    start = i
    while start and words[start - 1][0] in ("LEFT", "OUTER", "INNER"):
        start -= 1
    kinds = [word for word, _ in words[start:i]]
    if words[start - 1][0] not in ("CROSS", "NATURAL", "RIGHT", "FULL"):
        new = "JOIN" if "LEFT" in kinds else "LEFT JOIN"
        yield _mutant(sql, words[start][1].start, words[i][1].end, "join", new)


def _changed_results(sql: str, words: Sequence[tuple[str, Token]]) -> Iterator[Mutant]:
    """DISTINCT put in or left out, and the directions of ORDER BY terms that name none."""
    depths: list[bool] = []  # per open parenthesis: whether it is within an ORDER BY
    sorting = False
    for i, (word, token) in enumerate(words):
        before = words[i - 1][0] if i else ""
        after = words[i + 1][0] if i + 1 < len(words) else ";"
        if word == "DISTINCT" and (i == 1 or before == "("):
            yield _mutant(sql, token.start, token.end, "distinct", "")
        elif i == 0 and word == "SELECT" and after not in ("DISTINCT", "ALL") and _may_repeat(sql):
            yield _mutant(sql, token.end, token.end, "distinct", " DISTINCT")
        elif word == "(" and before in ("COUNT", "SUM", "AVG") and _is_distinguishable(after):
            new = f"{sql[: token.end]}DISTINCT {sql[token.end :]}"
            yield Mutant("distinct", f"with DISTINCT in {before}", new)
        if word == "(":
            depths.append(sorting)
            sorting = False
        elif word == ")":
            if sorting and before not in ("ASC", "DESC", "BY"):
                yield _mutant(sql, token.start, token.start, "direction", " DESC")
            sorting = depths.pop() if depths else False
        elif word == "BY":
            sorting = before == "ORDER"
        elif word in ("LIMIT", "ROWS", "RANGE", ";", "UNION", "NULLS", ",") and sorting:
            if before not in ("ASC", "DESC"):
                yield _mutant(sql, token.start, token.start, "direction", " DESC ")
            sorting = word == ","
    if sorting and words[-1][0] not in ("ASC", "DESC"):
        end = words[-1][1].end
        yield _mutant(sql, end, end, "direction", " DESC")


def _is_distinguishable(word: str) -> bool:
    """Whether DISTINCT may stand before what begins so, and means something there."""
    return word not in ("DISTINCT", "*", "ALL", ")") and not word.isdigit()


def _may_repeat(sql: str) -> bool:
    """Whether a SELECT returns more than the one row of its aggregates."""
    clauses, _ = _clauses(_upper_words(sql))
    return bool(clauses["GROUP"]) or not _aggregates(clauses["SELECT"])


def _dropped(sql: str, words: Sequence[tuple[str, Token]]) -> Iterator[Mutant]:
    """Each condition that AND joins to others, or that stands alone, left out."""
    for i, (word, _) in enumerate(words):
        if word in ("WHERE", "ON", "HAVING", "AND"):
            end = _condition_end(words, i + 1)
            alone = end == len(words) or words[end][0] != "OR"
            if end > i + 1 and alone and not (word == "AND" and _is_bound(words, i)):
                start, stop = words[i + 1][1].start, words[end - 1][1].end
                change = f"without {' '.join(sql[start:stop].split())}"
                yield Mutant("condition", change, sql[:start] + "1" + sql[stop:])


def _condition_end(words: Sequence[tuple[str, Token]], at: int) -> int:
    """Where a condition that begins at a word ends."""
    depth, between = 0, False
    for i in range(at, len(words)):
        word = words[i][0]
        if word in ("(", "CASE"):
            depth += 1
        elif word in (")", "END"):
            if depth == 0:
                return i
            depth -= 1
        elif depth == 0:
            if between and word == "AND":
                between = False
                continue
            between = between or word == "BETWEEN"
            if word in CONDITION_ENDS:
                return i
    return len(words)


def _is_bound(words: Sequence[tuple[str, Token]], i: int) -> bool:
    """Whether an AND belongs to a BETWEEN."""
    depth = 0
    for word, _ in reversed(words[:i]):
        depth += (word in (")", "END")) - (word in ("(", "CASE"))
        if depth < 0:
            return False
        if depth == 0 and word in ("AND", "OR", "WHERE", "ON", "HAVING", "WHEN"):
            return False
        if depth == 0 and word == "BETWEEN":
            return True
    return False


# -- text from strangers, for people


def visible(text: str) -> str:
    """Text from a stranger on one line: control, format, separator and lone surrogates escaped."""
    if text.isascii() and text.isprintable():
        return text
    import unicodedata

    hidden = ("Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn")
    return "".join(_escape(c) if unicodedata.category(c) in hidden else c for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # a byte that is not UTF-8
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    return short or (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2,000 rows."""
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def cut(text: str, room: int = SHOWN_TEXT) -> str:
    """Text up to a length, and how much was cut."""
    return text if len(text) <= room else f"{text[: room - 12]}... (+{len(text) - room + 12})"


def show_cell(cell: Cell, room: int = SHOWN_TEXT) -> str:
    """A cell as a person reads it: NULL, 12, 'text', x'00ff'."""
    if cell is None:
        return "NULL"
    if isinstance(cell, str):
        return cut("'" + visible(cell[: SAMPLE_TEXT * 2]).replace("'", "''") + "'", room)
    if isinstance(cell, bytes):
        return cut(f"x'{cell[:SAMPLE_TEXT].hex()}'", room)
    return str(cell)


def show_row(row: Row, room: int = SHOWN_TEXT) -> str:
    """A row as a person reads it: (1, 'text'); "no row" where there is none."""
    if not row:
        return "no row"
    shown = ", ".join(show_cell(cell, room) for cell in row[:12])
    return f"({shown}{', ...' if len(row) > 12 else ''})"


# -- hardness

AGGREGATES = ("MAX", "MIN", "COUNT", "SUM", "AVG")
CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT")
OPERATORS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "(", "AND")
COMPOUNDS = ("UNION", "INTERSECT", "EXCEPT")
JOINS = ("JOIN", ",", "NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS")


class Conditions(NamedTuple):
    """What hardness counts in the conditions of a WHERE, a HAVING or the ONs of a FROM."""

    ors: int = 0
    connectors: int = 0
    likes: int = 0
    negated: int = 0
    subqueries: int = 0


def hardness(sql: str) -> str:
    """easy, medium, hard or extra, by the rules that Spider publishes (Yu et al., 2018).

    Counted on the outermost SELECT as Spider's evaluator counts, its slips included: a negated
    condition counts as an aggregate, and so does each AND and OR in a HAVING. What Spider's parser
    cannot read: conditions in parentheses count like others, a common table expression as nested.
    """
    clauses, nested = _clauses(_upper_words(sql))
    items = _split(clauses["SELECT"], ",")
    where, having = _conditions(clauses["WHERE"]), _conditions(clauses["HAVING"])
    joined = _conditions(_join_conditions(clauses["FROM"]))
    every = (where, having, joined)
    part1 = sum(bool(clauses[name]) for name in ("WHERE", "GROUP", "ORDER", "LIMIT"))
    part1 += _tables(clauses["FROM"]) + sum(c.ors + c.likes for c in every)
    part2 = nested + sum(c.subqueries for c in every)
    aggregates = sum(_aggregates(item[:2]) for item in items) + _aggregates(clauses["ORDER"])
    aggregates += where.negated + having.negated + having.connectors
    others = [aggregates > 1, len(items) > 1, where.connectors > 0]
    others.append(len(_split(clauses["GROUP"], ",")) > 1)
    return _hardness_class(part1, part2, sum(others))


def _hardness_class(part1: int, part2: int, others: int) -> str:
    if part2 == 0:
        if part1 <= 1 and others == 0:
            return "easy"
        if (others <= 2 and part1 <= 1) or (part1 <= 2 and others < 2):
            return "medium"
        if (others > 2 and part1 <= 2) or (part1 == 3 and others <= 2):
            return "hard"
    return "hard" if part1 <= 1 and others == 0 and part2 <= 1 else "extra"


# The same tokens as TOKEN's in one go, comments first: a report rates a thousand references.
WORDS = re.compile(
    r"""--[^\n]*|(?s:/\*.*?(?:\*/|\Z))|'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?
      |[^\W\d][\w$]*|\.?\d[\w.]*|<=|>=|<>|==|!=|\|\||\S""",
    re.VERBOSE,
)


def _upper_words(sql: str) -> list[str]:
    """The tokens in capitals, blanks left out, quoted ones as their opening quote alone."""
    found = WORDS.findall(sql)
    words = [word[0] if word[0] in "'\"`[" else word.upper() for word in found]
    return [word for word in words if word[:2] not in ("--", "/*")]


def _clauses(words: Sequence[str]) -> tuple[dict[str, list[str]], int]:
    """The words of each clause of the outermost SELECT, and how many queries stand beside it."""
    clauses: dict[str, list[str]] = {name: [] for name in CLAUSES}
    begun, depth, nested = -1, 0, 0
    for i, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and begun < 0:
            nested += word == "AS"  # of WITH name AS (...)
        if depth == 0 and begun >= 0 and word in COMPOUNDS:
            return clauses, nested + 1
        opens = word in CLAUSES and CLAUSES.index(word) > begun and depth == 0
        opens = opens and (word not in ("GROUP", "ORDER") or words[i + 1 : i + 2] == ["BY"])
        if opens and (begun >= 0 or word == "SELECT"):
            begun = CLAUSES.index(word)
        elif begun >= 0 and word not in ("BY", "DISTINCT", "ALL"):
            clauses[CLAUSES[begun]].append(word)
    return clauses, nested


def _split(words: Sequence[str], at: str) -> list[list[str]]:
    """The words between the separators that stand outside all parentheses."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if word == at and depth == 0:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts if words else []


def _aggregates(words: Sequence[str]) -> int:
    """Calls of an aggregate outside all parentheses."""
    found = depth = 0
    for word, after in zip(words, [*words[1:], ""]):
        found += depth == 0 and word in AGGREGATES and after == "("
        depth += (word == "(") - (word == ")")
    return found


def _tables(words: Sequence[str]) -> int:
    """Tables beyond the first in a FROM."""
    return sum(len(_split(part, "JOIN")) for part in _split(words, ",")) - 1 if words else 0


def _join_conditions(words: Sequence[str]) -> list[str]:
    """The conditions of all ONs, as if AND stood between them."""
    found: list[str] = []
    for part in _split(words, "ON")[1:]:
        depth, end = 0, len(part)
        for i, word in enumerate(part):
            depth += (word == "(") - (word == ")")
            if depth == 0 and word in JOINS:
                end = i
                break
        found += (["AND"] if found else []) + part[:end]
    return found


def _conditions(words: Sequence[str]) -> Conditions:
    """Counts conditions, those in parentheses too; not what stands in subqueries and calls."""
    ors = connectors = likes = negated = subqueries = 0
    closed: list[bool] = []  # per open parenthesis or CASE: whether it holds something else
    before, begun, between = "", False, False
    for word, after in zip(words, [*words[1:], ""]):
        inside = any(closed)
        if word in ("(", "CASE"):
            query = after in QUERY_WORDS
            subqueries += query and begun and not inside
            closed.append(query or word == "CASE" or (begun and before not in OPERATORS))
            begun = begun or word == "CASE"
        elif word in (")", "END"):
            closed = closed[:-1]
        elif not inside and word in ("AND", "OR") and not (between and word == "AND"):
            ors += word == "OR"
            connectors += 1
            begun = between = False
        elif not inside:
            between = word == "BETWEEN" or (between and word != "AND")
            likes += word == "LIKE" and begun
            negated += word == "NOT" and before != "IS" and after != "NULL"
            begun = begun or word != "NOT"
        before = word
    return Conditions(ors, connectors, likes, negated, subqueries)


# ---- 6. question sets and answers ----------------------------------------------------------------
#
# An answers file is a text with a marker line per question and the SQL below it. It is written by
# people in a hurry and by chat tools, so fences, prose and unclosed quotes are all ordinary:
#
#   a marker that repeats its question's own text always begins a new block, so whatever a tool
#   left open costs its own answer only;
#   any other line of a marker's shape begins one too, unless it stands in a string, quoted name or
#   block comment that closes before the next marker that repeats its text;
#   in a block with one Markdown fence the answer is what stands in the fence.

# Besides dashes, what Markdown puts before a heading, a list item, a quotation or bold text.
MARKER_HEAD = re.compile(
    r"[\s\u200b\u2060\ufeff]{0,40}([-‐‑‒–—―−#*>]{0,40})[^\S\r\n]{0,40}[*_]{0,3}(?=[^\s:：])"
)
COLON = re.compile("[:：](?!:)")
ID_LENGTH = 100
FENCE = re.compile(r"`{3,}|~{3,}")
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")


class Marker(NamedTuple):
    """A line of a marker's shape: the question it names and whether it repeats its text."""

    id: Optional[str]
    written: str
    strong: bool
    rest: str  # what stands behind the colon, the question's own text left out


class Piece(NamedTuple):
    """Consecutive lines of a block, inside or outside a fence."""

    first: int  # index of its first line
    stop: int
    fenced: bool


class Block(NamedTuple):
    """What stands between one marker and the next."""

    marker: Optional[Marker]  # None before the first marker
    line: int  # index of the marker's line
    pieces: tuple[Piece, ...]


def decode(data: bytes) -> tuple[str, tuple[str, ...]]:
    """An answers file's text, and a warning where its encoding had to be guessed."""
    for mark, encoding in (
        (b"\xff\xfe\x00\x00", "utf-32"),
        (b"\x00\x00\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(encoding, "replace"), ()
    # Latin letters in UTF-16 without a mark: every other byte is NUL.
    sample = data[:4096]
    if len(sample) >= 4 and max(sample[0::2].count(0), sample[1::2].count(0)) > len(sample) // 3:
        encoding = "utf-16-be" if sample[0::2].count(0) > sample[1::2].count(0) else "utf-16-le"
        return data.decode(encoding, "replace"), (f"no byte-order mark: read as {encoding}",)
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return data.decode("latin-1"), (f"line {line}: not UTF-8; the file was read as Latin-1",)


def _read_commented(text: str, questions: Sequence[Question]) -> Answers:
    """The answers in a commented file. Nothing is dropped without a warning."""
    blocks, doubts = split_blocks(text, questions)
    warnings = list(doubts)
    found: dict[str, Answer] = {}
    marker_lines: dict[str, int] = {}
    lines = line_spans(text)
    for block in blocks:
        if block.marker is None or block.marker.id is None:
            warnings += _left_out(block, text, lines, questions)
            continue
        name, line = block.marker.id, block.line + 1
        if name in found:
            both = f"the marker stands on lines {marker_lines[name]} and {line}; keep one"
            found[name] = Answer("", line, "ambiguous_sql", both)
        else:
            found[name], marker_lines[name] = _answer(block, text, lines), line
    if not found:
        first = questions[0].id if questions else "Q01"
        warnings.append(f"no marker found: an answer stands below a line such as '-- {first}: ...'")
    empty = Answer("", 0, "no_sql", "it has no marker")
    return Answers({q.id: found.get(q.id, empty) for q in questions}, tuple(warnings))


def line_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of every line, its line end included."""
    spans = [match.span() for match in LINE.finditer(text)]
    return [span for span in spans if span[0] < span[1]]


def split_blocks(
    text: str, questions: Sequence[Question]
) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """The blocks of an answers file, in their order, and warnings about lines left inside SQL."""
    lines = line_spans(text)
    starts = [start for start, _ in lines]
    markers, warnings = _markers(text, lines, questions)
    strong = [i for i, marker in markers.items() if marker.strong]
    edges = sorted({0, *strong, len(lines)})
    fences = _lines_with("```|~~~", text, starts)
    reader = _BlockReader(text, lines, markers, sorted({*markers, *fences}))
    for first, stop in zip(edges, edges[1:]):
        reader.read_segment(first, stop)
    return tuple(reader.blocks), (*warnings, *reader.warnings)


def _lines_with(pattern: str, text: str, starts: Sequence[int]) -> list[int]:
    """The lines in which a pattern occurs, each once."""
    found = (bisect_right(starts, match.start()) - 1 for match in re.finditer(pattern, text))
    return list(dict.fromkeys(found))


class _Ids:
    """The ids of a set as markers write them: any capitals, Q1 for Q01, Q17 for 17."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self.exact = {q.id for q in questions}
        self.alike = {_marker_id(q.id): q.id for q in reversed(questions)}
        for q in questions:
            if q.id.isdigit():
                self.alike.setdefault(_marker_id(f"q{q.id}"), q.id)
        self.bare = any(q.id.isdigit() for q in questions)
        self.numbered = any(re.fullmatch(r"[qQ][0-9]+", q.id) for q in questions)
        # What the ids look like that hold letters: a marker for geo-13 is known by geo-12.
        self.shapes = {_shape(q.id) for q in questions if not q.id.isdigit()} - {""}
        self.wordings = {
            q.id: tuple(map(_plain, (q.text, *q.wordings.values()))) for q in questions
        }

    def named(self, written: str) -> Optional[str]:
        return written if written in self.exact else self.alike.get(_marker_id(written))

    def looks_meant(self, written: str) -> bool:
        """Whether something that is no id of the set looks like one."""
        if re.fullmatch(r"[qQ][0-9]+", written):
            return self.numbered
        return _shape(written) in self.shapes


def _marker_id(written: str) -> str:
    return re.sub("(?<![0-9])0+(?=[0-9])", "", written.casefold())


def _is_numbered(id: str) -> bool:
    """Whether an id is letters and a number, which little else is that stands before a colon."""
    return re.fullmatch(r"(?a)[A-Za-z]\w*[0-9]+", id) is not None


def _shape(id: str) -> str:
    """An id with all its numbers made one, "" where it has none."""
    shape = re.sub("[0-9]+", "0", id.casefold())
    return shape if "0" in shape else ""


def _markers(
    text: str, lines: Sequence[tuple[int, int]], questions: Sequence[Question]
) -> tuple[dict[int, Marker], list[str]]:
    """The lines of a marker's shape, and warnings about those that are not taken for one.

    Where a set's ids are not letters and a number, a comment such as "-- 2: then join" looks like
    one; it is none where that question has a marker that repeats its text.
    """
    starts = [start for start, _ in lines]
    ids = _Ids(questions)
    found: dict[int, Marker] = {}
    for i in _lines_with("[:：]", text, starts):
        marker = _marker(text[slice(*lines[i])], ids)
        if marker is not None:
            found[i] = marker
    certain = {marker.id for marker in found.values() if marker.strong}
    warnings = [] if not ids.bare else _strange_numbers(text, lines, found, ids)
    for i, marker in list(found.items()):
        if not marker.strong and marker.id in certain and not _is_numbered(marker.id or ""):
            del found[i]
            warnings.append(
                f"line {i + 1}: is read as a comment, for {cut(marker.written)} has a marker with"
                " its question's text"
            )
    return found, warnings


def _strange_numbers(
    text: str, lines: Sequence[tuple[int, int]], found: Mapping[int, Marker], ids: _Ids
) -> list[str]:
    """Warnings about "-- 18:" where the ids are numbers and 18 is none: it may be a comment."""
    starts = [start for start, _ in lines]
    warnings = []
    for match in re.finditer(r"(?m)^--+[ \t]*(\d{1,18})[ \t]*[:：]", text):
        i = bisect_right(starts, match.start()) - 1
        if i not in found and ids.named(match.group(1)) is None:
            what = f"{match.group(1)} is no question's id, so it is read as a comment"
            warnings.append(f"line {i + 1}: looks like a marker, but {what}")
    return warnings


def _marker(line: str, ids: _Ids) -> Optional[Marker]:
    """The marker that a line is, None where it is none.

    Where an id is not letters and a number, only a comment's two dashes or the question's own text
    make one: "1: first" and "### Q1: first" are how a chat counts, and it counts from 1.
    """
    head = MARKER_HEAD.match(line)
    if head is None:
        return None
    number = re.compile(r"[qQ][0-9]+").match(line, head.end())
    end = (number or head).end() + ID_LENGTH + 50
    for colon in COLON.finditer(line, head.end(), end):
        written = line[head.end() : colon.start()].rstrip()
        if ids.named(written) is None:
            written = written.rstrip("*_").rstrip()
        id = ids.named(written)
        if id is None and not ids.looks_meant(written):
            continue
        rest = re.sub(r"^[*_]{0,3}", "", line[colon.end() :]).strip()
        length = _repeats(rest, ids.wordings[id]) if id is not None else 0
        if (
            not _is_numbered(written if id is None else id)
            and not length
            and not re.fullmatch("--+", head.group(1))
        ):
            return None
        rest = "".join(rest.split(None, length)[length:]) if length else rest
        return Marker(id, written, length > 0, rest)
    return None


def _repeats(rest: str, texts: Iterable[str]) -> int:
    """The words of the question's text, in any language, that a marker repeats; 0 where none."""
    plain = _plain(rest)
    return max((len(text.split()) for text in texts if _begins(plain, text)), default=0)


def _begins(plain: str, text: str) -> bool:
    """Whether a text begins with another one, which does not end inside a word."""
    after = plain[len(text) : len(text) + 1]
    return bool(text) and plain.startswith(text) and not (text[-1].isalnum() and after.isalnum())


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


class _BlockReader:
    """Cuts segments (from one strong marker to the next) into blocks, and blocks into pieces."""

    def __init__(
        self,
        text: str,
        lines: Sequence[tuple[int, int]],
        markers: Mapping[int, Marker],
        events: Sequence[int],
    ) -> None:
        self.text, self.lines, self.markers = text, lines, markers
        self.events = events  # the lines that can be markers or fences: all others change nothing
        self.blocks: list[Block] = []
        self.warnings: list[str] = []
        self.starts = [start for start, _ in lines]
        self.begins = -1, ""  # a piece's first line, and the first word in it
        self.carried = ""  # the fence that opened right before a marker and holds whole blocks

    def read_segment(self, first: int, stop: int) -> None:
        self.last: dict[str, int] = {}
        self.stop = stop
        self.offset = self.lines[stop - 1][1]
        at = first
        while at < stop:
            at = self._read_block(at)

    def _read_block(self, at: int) -> int:
        """Reads the block that begins on line `at`; returns the line where the next one begins."""
        marker = self.markers.get(at)
        body = at if marker is None else at + 1
        fence, carried = self.carried, bool(self.carried)
        pieces: list[Piece] = []
        first = body
        end = self.stop
        self._sql_from(body)
        begin, stop = (bisect_left(self.events, line) for line in (body, self.stop))
        for i in (self.events[k] for k in range(begin, stop)):
            prose = not fence and any(piece.fenced for piece in pieces)
            if i in self.markers and (prose or not self._is_text(i)):
                end = i
                break
            change = self._fence_change(i, fence, first)
            if change is not None:
                pieces.append(Piece(first, i, bool(fence)))
                fence, first, carried = change, i + 1, False
                self._sql_from(first)
        pieces.append(Piece(first, end, bool(fence)))
        # A fence that opens right before a marker holds the blocks from there; any other ends here.
        holds = carried or self._blank(first, end)
        self.carried = fence if fence and holds else ""
        self.blocks.append(Block(marker, at, tuple(pieces)))
        return end

    def _sql_from(self, line: int) -> None:
        start = self.lines[line][0] if line < self.stop else self.offset
        self.tokens = tokens(self.text, start, self.offset, self.last)
        self.token: Optional[Token] = None

    def _token_at(self, offset: int) -> Optional[Token]:
        """The token that stands at an offset, the first character of it excluded."""
        while self.token is None or self.token.end <= offset:
            self.token = next(self.tokens, None)
            if self.token is None:
                return None
        return self.token if self.token.start < offset else None

    def _is_text(self, i: int) -> bool:
        """Whether a marker-like line stands inside a string or comment that closes in time."""
        marker = self.markers[i]
        token = None if marker.strong else self._token_at(self.lines[i][0])
        if token is None or not token.closed or token.kind not in ("string", "name", "comment"):
            return False
        begun = bisect_right(self.starts, token.start)
        self.warnings.append(
            f"line {i + 1}: looks like a marker for {marker.written} but stands inside the"
            f" {'comment' if token.kind == 'comment' else 'quotes'} begun on line {begun}"
        )
        return True

    def _fence_change(self, i: int, fence: str, first: int) -> Optional[str]:
        """The fence that is open after line `i`, None where the line changes nothing."""
        line = self.text[slice(*self.lines[i])].strip()
        found = FENCE.match(line)
        if found is None or "`" in line[found.end() :]:
            return None
        mark, info = found.group(), line[found.end() :]
        if not fence:
            return None if not info and self._fence_in_sql(i, first) else mark
        if info and mark[0] == fence[0]:
            return mark  # the one before was never closed
        closes = mark[0] == fence[0] and (len(mark) >= len(fence))
        return "" if closes and not info else None

    def _fence_in_sql(self, i: int, first: int) -> bool:
        """Whether a fence line is part of a string in plain SQL, not the end of some prose."""
        if self.begins[0] != first:
            self.begins = first, first_word(self._lines(first, i))
        if (
            self.begins[1] not in QUERY_WORDS
            or first_word(self._lines(i + 1, i + 20)) in QUERY_WORDS
        ):
            return False
        token = self._token_at(self.lines[i][0])
        return token is not None and token.closed and token.kind in ("string", "name", "comment")

    def _lines(self, first: int, stop: int) -> str:
        stop = min(stop, self.stop)
        return self.text[self.lines[first][0] : self.lines[stop - 1][1]] if first < stop else ""

    def _blank(self, first: int, stop: int) -> bool:
        a = self.lines[first][0] if first < len(self.lines) else len(self.text)
        b = self.lines[stop][0] if stop < len(self.lines) else len(self.text)
        return not self.text[a:b].strip()


def _text_of(piece: Piece, text: str, lines: Sequence[tuple[int, int]]) -> str:
    return (
        text[lines[piece.first][0] : lines[piece.stop - 1][1]] if piece.first < piece.stop else ""
    )


def _answer(block: Block, text: str, lines: Sequence[tuple[int, int]]) -> Answer:
    """The one candidate of a block, or why there is none."""
    filled = [p for p in block.pieces if p.fenced and statements(_text_of(p, text, lines))]
    if len(filled) > 1:
        where = f"lines {filled[0].first} and {filled[1].first}"  # of the fences themselves
        return Answer(
            "", block.line + 1, "ambiguous_sql", f"two fenced blocks, on {where}; keep one"
        )
    chosen = filled or [p for p in block.pieces if not p.fenced]
    sql = "".join(_text_of(p, text, lines) for p in chosen)
    line = chosen[0].first + 1 if chosen else block.line + 1
    if block.marker is not None and _begins_beside(block.marker, sql):
        sql, line = f"{block.marker.rest}\n{sql}", block.line + 1
    return screened(sql, line, "nothing stands below its marker")


def screened(sql: str, line: int, nothing: str) -> Answer:
    """The answer that some SQL makes; `nothing` says what it means that there is none."""
    reason, detail = screen(sql, line)
    return (
        Answer("", line, reason, nothing)
        if reason == "no_sql"
        else Answer(sql, line, reason, detail)
    )


CTE_HEAD = r"(?is)WITH\s+(RECURSIVE\s+)?\S+\s*(\([^()]*\)\s*)?AS\b"


def _begins_beside(marker: Marker, below: str) -> bool:
    """Whether the SQL begins on the marker's own line, where a paraphrase may stand too."""
    if first_word(marker.rest) not in QUERY_WORDS:
        return False
    if first_word(below) not in QUERY_WORDS:
        return True
    open_ended = marker.rest.count("(") > marker.rest.count(")")
    return open_ended or re.match(CTE_HEAD, marker.rest) is not None


def _left_out(
    block: Block, text: str, lines: Sequence[tuple[int, int]], questions: Sequence[Question]
) -> tuple[str, ...]:
    """The warning about text that belongs to no question."""
    if block.marker is not None:
        written = block.marker.written.upper()[:12]
        near = nearest(written, tuple(q.id for q in questions), 0.0)
        hint = f"did you mean {near}? What follows it is left out"
        return (f"line {block.line + 1}: no question has the id {written}; {hint}",)
    for piece in block.pieces:
        for token in tokens(_text_of(piece, text, lines)):
            if token.kind not in BLANK:
                at = text.count("\n", 0, lines[piece.first][0] + token.start) + 1
                return (f"line {at}: text before the first marker is ignored",)
    return ()


@lru_cache(maxsize=200)
def nearest(written: str, names: tuple[str, ...], least: float = 0.3) -> str:
    """The name that is most like what was written, "" where none is."""
    from difflib import get_close_matches

    return "".join(get_close_matches(written, names, 1, least))


def find_question(written: str, questions: Sequence[Question]) -> Question:
    """The question with an id as people write it: Q01, Q1, q1, 1. Raises ScoreError."""
    found, text = look_up(written, questions), written.strip()
    if found is None:
        ids = tuple(question.id for question in questions)
        near = nearest(text, ids) or nearest(text.upper(), ids)
        hint = f"; did you mean {near}?" if near else ""
        raise ScoreError(f"no question has the id {text!r}{hint}")
    return found


def look_up(written: str, questions: Sequence[Question]) -> Optional[Question]:
    """The question with an id, else the only one whose id is written alike, else None."""
    text = written.strip()
    exact = [question for question in questions if question.id == text]
    alike = [question for question in questions if _loose_id(question.id) == _loose_id(text)]
    return exact[0] if exact else alike[0] if len(alike) == 1 else None


def _loose_id(written: str) -> str:
    numbered = re.fullmatch(r"[qQ]?0*([0-9]{1,18})", written)
    return numbered.group(1) if numbered else written.casefold()


TEMPLATE_HEAD = """\
-- Answers for score_nl2sql.py
--
-- Ask your tool each question exactly as it is written here, in a fresh conversation, with the
-- database schema as its only help. Paste the SQL that it writes below the question, without
-- mending it: a typo, a wrong table or a missing filter is part of the answer.
-- The lines "watch for" are for you: do not show them to the tool. Lines "database", "given" and
-- "evidence", where there are any, belong to the question: show them.
-- Leave the space empty where the tool gave no SQL. Keep the marker lines.
"""


def answers_template(questions: Sequence[Question]) -> str:
    """An answers file to paste SQL into: a marker per question and what to watch for."""
    return TEMPLATE_HEAD + "\n" + "\n".join(map(_template_block, questions))


def _template_block(question: Question) -> str:
    lines = [f"-- {question.id}: {' '.join(question.text.split())}".rstrip()]
    params = ", ".join(f":{name} = {show_cell(cell)}" for name, cell in question.params.items())
    told = [("database", question.db), ("given", params), ("evidence", question.evidence)]
    for name, text in (*told, ("watch for", question.trap)):
        lines += [f"--   {name}: {' '.join(text.split())}"] if text else []
    return "\n".join(lines) + "\n\n\n"


# -- answers in other forms

ANSWER_FORMS = {
    "commented": "commented",
    "spider": "one SQL per line, paired by line",
    "bird": "JSON by key",
    "jsonl": "JSON records",
    "chat": "fenced blocks, paired in their order",
}
BIRD_MARK = "\t----- bird -----\t"
QUERY_START = re.compile(r"(?i)\s*(?:SELECT|WITH|VALUES)\b")
LINE_END = re.compile(r"\r\n|\n|\r")
ID_KEYS = ("id", "question_id")
SQL_KEYS = ("query", "SQL", "sql")


def read_answers(data: bytes, questions: Sequence[Question], form: str = "auto") -> Answers:
    """One tool's answers; `form` is one of ANSWER_FORMS, or "auto" for what the text looks like.

    Raises ScoreError where they cannot be paired with the questions without guessing.
    """
    text, warnings = decode(data)
    form = form_of_answers(text, questions) if form == "auto" else form
    if form not in ANSWER_READERS:
        raise ScoreError(f"no form {form!r}; there are {', '.join(ANSWER_FORMS)}")
    with on_one_line(""):
        answers = ANSWER_READERS[form](text, questions)
    return answers._replace(form=form, warnings=warnings + answers.warnings)


@contextmanager
def on_one_line(prefix: str) -> Iterator[None]:
    """Errors about a stranger's file, short and on one line."""
    try:
        yield
    except ScoreError as error:
        raise ScoreError(prefix + cut(visible(str(error)), 400)) from None


def form_of_answers(text: str, questions: Sequence[Question]) -> str:
    """The one of ANSWER_FORMS that a text looks like."""
    rows = [line for line in LINE_END.split(text) if line.strip()]
    json_form = _json_form(text, rows) if text.lstrip()[:1] in ("{", "[") else ""
    if json_form and (_is_json(rows[0]) or _is_json(text)):
        return json_form
    markers, _ = _markers(text, line_spans(text), questions)
    if any(marker.id is not None for marker in markers.values()):
        return "commented"
    if any(FENCE.match(line.lstrip()) for line in rows):
        return "chat"
    if json_form:
        return json_form
    # Half as many queries as questions are no paste below a lost marker.
    queries = sum(QUERY_START.match(line) is not None for line in rows)
    fits = len(questions) in (len(rows), len(_lines(text)))
    return "spider" if queries and (fits or 2 * queries >= len(questions)) else "commented"


def _json_form(text: str, rows: Sequence[str]) -> str:
    """Whether a JSON text holds records or one object of SQL by key."""
    if text.lstrip()[:1] == "[" or (len(rows) > 1 and _is_json(rows[0])):
        return "jsonl"
    return "jsonl" if _is_json(text) and _is_record(read_json(text)) else "bird"


def _is_json(text: str) -> bool:
    try:
        read_json(text)
    except ScoreError:
        return False
    return True


def _is_record(value: Any) -> bool:
    """Whether a value is one prediction record: an object with an id."""
    return isinstance(value, dict) and not {*ID_KEYS}.isdisjoint(value)


def _lines(text: str) -> list[str]:
    """The lines of a text without their ends; nothing stands after the last line end."""
    lines = LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def _read_lines(text: str, questions: Sequence[Question]) -> Answers:
    """Spider's predictions: a line is the SQL for the question at its place."""
    lines = list(enumerate(_lines(text), 1))
    filled = [(number, line) for number, line in lines if line.strip()]
    if len(lines) != len(questions):
        if len(filled) != len(questions):
            blank = f", {len(filled)} of them not blank," if len(filled) != len(lines) else ""
            raise ScoreError(
                f"{counted(len(lines), 'line')}{blank} for {counted(len(questions), 'question')};"
                " one SQL per line is meant, in the order of the questions"
            )
        lines = filled
    ids = _database_ids([line for _, line in lines], {q.db for q in questions if q.db})
    found = {}
    for question, (number, line), id in zip(questions, lines, ids):
        sql = line[: line.rindex("\t")] if id else line
        _check_database(f"line {number}", id, question)
        found[question.id] = screened(sql, number, "its line is blank")
    return Answers(found)


# SQL that ends like this goes on behind the tab.
OPEN_END = re.compile(
    r"(?i)(?:\b(?:SELECT|DISTINCT|ALL|FROM|JOIN|ON|WHERE|AND|OR|NOT|IN|LIKE|BETWEEN|IS|BY|HAVING|LIMIT"
    r"|OFFSET|AS|WHEN|THEN|ELSE|CASE|UNION|EXCEPT|INTERSECT)|[,=<>(+|])\s*\Z|\A\s*\Z"
)


def _database_ids(lines: Sequence[str], known: set[str]) -> list[str]:
    """What stands behind the last tab of each line, where that is a database id; "" where not.

    A single word behind a tab is one where every line has such a word, or where some line names a
    database that is `known`.
    """
    ids = [_id_behind(line, known) for line in lines]
    every = all(id or not line.strip() for id, line in zip(ids, lines))
    return ids if every or not known.isdisjoint(ids) else [""] * len(lines)


def _id_behind(line: str, known: set[str]) -> str:
    sql, tab, tail = line.rpartition("\t")
    word = tail.strip()
    plain = re.fullmatch(r"[^\s'\"]+", word) and not OPEN_END.search(sql)
    return word if tab and (word in known or plain) else ""


def _check_database(place: str, written: str, question: Question) -> None:
    if written and question.db and written != question.db:
        raise ScoreError(
            f"{place}: is for the database {written}, but question {question.id} is about"
            f" {question.db}; the answers are paired with the wrong questions"
        )


def _read_bird(text: str, questions: Sequence[Question]) -> Answers:
    """BIRD's predictions: one JSON object, SQL by the question's id or by its position."""
    record = read_json(text)
    if not isinstance(record, JsonObject):
        raise ScoreError(f"one JSON object of key and SQL is meant, not {kind_of(record)}")
    if record.twice is not None:
        raise ScoreError(f"the key {record.twice!r} stands twice; keep one")
    by_id = {question.id: question for question in questions}
    by_position = {str(i): question for i, question in enumerate(questions)}
    strange = [key for key in record if key not in by_id]
    warnings: tuple[str, ...] = ()
    if not strange:
        paired, pairing = by_id, "paired by question id"
        if record.keys() == by_position.keys() and by_id != by_position:
            warnings = ("the keys are ids and positions as well; they were read as ids",)
    elif record.keys() == by_position.keys():
        paired, pairing = by_position, "paired by position"
    else:
        shown = listed([repr(cut(key)) for key in strange])
        raise ScoreError(
            f"{shown} {'is' if len(strange) == 1 else 'are'} no question's id (the first"
            f" is {questions[0].id!r}), and the {counted(len(record), 'key')} are not just 0 to"
            f" {len(questions) - 1}, the positions, either"
        )
    found = {q.id: Answer("", 0, "no_sql", "it has no key") for q in questions}
    for key, value in record.items():
        found[paired[key].id] = _json_answer(f"key {key!r}", value, paired[key])
    return Answers(found, warnings, pairing=pairing)


def _json_answer(place: str, value: Any, question: Question, line: int = 0) -> Answer:
    """The answer that a JSON value is; 0 and null are BIRD's way to say that there is none."""
    if value is None or (value == 0 and not isinstance(value, (bool, str))):
        return Answer("", line, "no_sql", f"its SQL is {json.dumps(value)}")
    if not isinstance(value, str):
        raise ScoreError(f"{place}: SQL as a text is meant, not {kind_of(value)}")
    sql, mark, database = value.rpartition(BIRD_MARK)
    _check_database(place, database.strip() if mark else "", question)
    return screened(sql if mark else value, line or 1, "its SQL is blank")


def _read_records(text: str, questions: Sequence[Question]) -> Answers:
    """Predictions as records of id and SQL."""
    known, ids = {q.id: q for q in questions}, _Ids(questions)
    found = {q.id: Answer("", 0, "no_sql", "it has no record") for q in questions}
    places: dict[str, str] = {}
    for place, record in json_records(text):
        if not isinstance(record, dict):
            raise ScoreError(f"{place}: an object with id and sql is meant, not {kind_of(record)}")
        reader = _Record(record, place)
        written = reader.id()
        keys = [key for key in ("sql", "SQL", "query") if key in record]
        if written is None or not keys:
            reader.fail("sql" if written else "id", "is missing; a record is {'id': .., 'sql': ..}")
        if any(record[key] != record[keys[0]] for key in keys):
            reader.fail(" and ".join(keys), "hold different SQL; keep the tool's alone")
        named = ids.named(written)
        if named is None:
            near = nearest(written, tuple(known))
            hint = f"; did you mean {near}?" if near else ""
            raise ScoreError(f"{place}: no question has the id {written!r}{hint}")
        question = known[named]
        if question.id in places:
            raise ScoreError(
                f"the id {question.id!r} stands at {places[question.id]} and at {place}; keep one"
            )
        places[question.id] = place
        line = int(place[5:]) if place.startswith("line ") else 0
        found[question.id] = _json_answer(f"{place}: {keys[0]}", record[keys[0]], question, line)
    return Answers(found)


def _read_chat(text: str, questions: Sequence[Question]) -> Answers:
    """A chat without markers: a fenced block per answer, in the order of the questions.

    Blocks that say or look that they hold something else, such as a result, are not counted.
    """
    fenced = _fenced_sql(text)
    blocks = [(sql, line) for sql, line, is_sql in fenced if is_sql]
    if len(blocks) != len(questions):
        others = (
            f" and {counted(len(fenced) - len(blocks), 'other')}"
            if len(fenced) > len(blocks)
            else ""
        )
        raise ScoreError(
            f"{counted(len(blocks), 'fenced block')} of SQL{others} for"
            f" {counted(len(questions), 'question')}; one block per answer is meant, or a marker"
            f" above each ('-- {questions[0].id}: ...')"
        )
    pairs = zip(questions, blocks)
    return Answers({q.id: screened(sql, line, "its block is empty") for q, (sql, line) in pairs})


def _fenced_sql(text: str) -> list[tuple[str, int, bool]]:
    """The fenced blocks of a text without markers, their first lines, and whether each is SQL."""
    blocks, _ = split_blocks(text, ())
    lines = line_spans(text)
    found = []
    for piece in (piece for block in blocks for piece in block.pieces if piece.fenced):
        sql = _text_of(piece, text, lines)
        info = text[slice(*lines[piece.first - 1])].strip(" \t\r\n`~").casefold()
        found.append(
            (
                sql,
                piece.first + 1,
                "sql" in info or first_word(sql) in QUERY_WORDS or not sql.strip(),
            )
        )
    return found


ANSWER_READERS: dict[str, Callable[[str, Sequence[Question]], Answers]] = {
    "commented": _read_commented,
    "spider": _read_lines,
    "bird": _read_bird,
    "jsonl": _read_records,
    "chat": _read_chat,
}

# -- JSON


class JsonObject(dict[str, Any]):
    """A JSON object that remembers a key that stood in it twice."""

    twice: Optional[str] = None


def _json_object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        found.twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return found


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


@lru_cache(maxsize=2)  # what a text is was found out by reading it
def read_json(text: str) -> Any:
    """A JSON value, not to be changed. Raises ScoreError that says where the text is broken."""
    try:
        return json.loads(text, object_pairs_hook=_json_object, parse_constant=_no_json)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ScoreError(f"{where}: no JSON: {error.msg[:1].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise ScoreError("JSON nested so deep that it cannot be read") from None
    except ValueError as error:
        what = "a number of thousands of digits" if "digits" in str(error) else str(error)
        raise ScoreError(f"no JSON: {what}") from None


def unpacked(cell: Any) -> Cell:
    """A cell as JSON carries it: blobs and infinities, which JSON lacks, in small objects."""
    if isinstance(cell, dict):
        return bytes.fromhex(cell["hex"]) if "hex" in cell else float(cell["real"])
    return cell


def packed(cell: Cell) -> Any:
    """A cell as unpacked() reads it."""
    if isinstance(cell, bytes):
        return {"hex": cell.hex()}
    if isinstance(cell, float) and cell in (INFINITY, -INFINITY):
        return {"real": str(cell)}
    return cell


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    if isinstance(value, str):
        return "a text"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return "a number"


def json_records(text: str) -> list[tuple[str, Any]]:
    """The values of a JSON list, or of JSON Lines, and the place of each. Raises ScoreError."""
    if text.lstrip()[:1] == "[":
        return [(f"record {i}", record) for i, record in enumerate(read_json(text))]
    lines = [(i, line) for i, line in enumerate(LINE_END.split(text), 1) if line.strip()]
    if len(lines) > 1 and lines[0][1].strip() in ("{", "") and _is_json(text):
        return [("record 0", read_json(text))]  # one object, written over several lines
    found = []
    for number, line in lines:
        try:
            found.append((f"line {number}", read_json(line)))
        except ScoreError as error:
            raise ScoreError(f"line {number}: {str(error).replace('line 1, ', '')}") from None
    return found


# -- question sets
#
# A set is a commented file as answers are, JSON or JSON Lines with this project's keys or those of
# Spider and BIRD, or Spider's gold lines. All end up as records, which one reader turns into
# questions, so that an error names place and field whatever the form.

QUESTION_MARK = re.compile(
    r"(?m)(?:^|(?<=\ufeff))--[ \t]?(?P<id>(?:[^\W\d]|[.-]){0,99}\d[\w.-]{0,99})(?![\w.-])"
    r"(?P<kind>[ \t]+or(?=[ \t]*[:：])|[ \t]+trap\b)?(?P<name>[^:：\r\n]*)[:：](?!:)"
    r"(?P<rest>[^\r\n]*)"
)
LIKE_KEY = re.compile(r"(?m)^--( *)([A-Za-z_]+(?:\.\S+)?)[ \t]*([:=])?")
KEY_LINE = re.compile(
    r"(?m)^--(?: {2,}|[ \t]*\t[ \t]*)([A-Za-z_]+(?:\.[^:\r\n]+)?)[ \t]*:([^\r\n]*)"
)
# The keys of a record; those of a commented file may be written without what stands in brackets.
RECORD_KEYS = (
    "id", "question_id", "question", "query", "SQL", "sql", "db_id", "db", "difficulty", "trap",
    "traps", "contract", "params", "version", "reviewed", "evidence", "tables", "rows", "columns",
)  # fmt: skip
PLAIN_KEYS = ("db", "db_id", "difficulty", "trap", "tables", "version", "reviewed", "evidence")
GOLD = "gold lines"
GOLD_ERROR = "neither a question ('-- Q01: text') nor SQL, with a tab and a database id behind it"


def read_questions(data: bytes, name: str = "") -> QuestionSet:
    """The questions of a file, in whichever form. Raises ScoreError with file, place and field."""
    text, warnings = decode(data)
    with on_one_line(f"{name}: " if name else ""):
        form, questions, more = _questions_in(text)
        _check_ids(questions)
    return QuestionSet(tuple(questions), name, form, warnings + tuple(more))


def _questions_in(text: str) -> tuple[str, list[Question], list[str]]:
    """The form, the questions and warnings."""
    if not text.strip():
        raise ScoreError("is empty; a question is '-- Q01: text' with its SQL below, or JSON")
    if text.lstrip()[:1] in "[{":
        records = json_records(text)
        if not records:
            raise ScoreError("holds no question")
        readers = [_Record(record, place) for place, record in records]
        questions = [reader.question(str(i)) for i, reader in enumerate(readers)]
        form = "JSON" if text.lstrip()[:1] == "[" else "JSON Lines"
        return form, questions, _unread_keys(readers)
    if "\n" not in text:
        text = text.replace("\r", "\n")
    line_at = _LineNumbers(text)
    marks, warnings = _question_marks(text, line_at)
    if marks:
        questions, more = _read_commented_set(text, marks, line_at)
        return "commented SQL", questions, warnings + more
    return GOLD, _read_gold(text), []


def _check_ids(questions: Sequence[Question]) -> None:
    places: dict[str, str] = {}
    for question in questions:
        if question.id in places:
            both = f"{places[question.id]} and at {question.place}"
            raise ScoreError(
                f"the id {question.id!r} stands at {both}; each question needs its own"
            )
        places[question.id] = question.place


class _Record:
    """One record of a set or of predictions, field by field; an error names place and field."""

    def __init__(self, record: Any, place: str) -> None:
        self.place = place
        if not isinstance(record, dict):
            raise ScoreError(f"{place}: an object is meant, not {kind_of(record)}")
        self.record: Mapping[str, Any] = record
        self.check_once("", record)
        for field in ("question", "contract", "params", "traps", "rows"):
            value = self.record.get(field)
            for i, part in enumerate(value if isinstance(value, list) else [value]):
                self.check_once(f"{field}[{i}]." if isinstance(value, list) else f"{field}.", part)

    def fail(self, field: str, what: str) -> NoReturn:
        raise ScoreError(f"{self.place}: {field}: {what}")

    def meant(self, field: str, what: str, value: Any) -> NoReturn:
        self.fail(field, f"{what} is meant, not {kind_of(value)}")

    def check_once(self, field: str, value: Any) -> None:
        twice = getattr(value, "twice", None)
        if twice is not None:
            self.fail(field + twice, "stands twice; keep one")

    def question(self, position: str) -> Question:
        """The question that the record is; `position` is its id where it has none."""
        wordings = self.wordings()
        frozen = self.frozen()
        sql, *others = self.references(bool(frozen)) or [""]
        return Question(
            id=self.id() or position,
            text=wordings.get("en") or next(iter(wordings.values()), ""),
            trap=self.text("trap"),
            sql=sql,
            contract=self.contract(),
            traps=self.traps(),
            tables=self.names("tables"),
            db=self.text("db_id") or self.text("db"),
            difficulty=self.text("difficulty"),
            alternatives=tuple(others),
            frozen=frozen,
            params=self.params(),
            wordings={code: text for code, text in wordings.items() if code},
            evidence=self.text("evidence"),
            version=self.text("version"),
            reviewed=self.text("reviewed"),
            place=self.place,
        )

    def text(self, field: str) -> str:
        value = self.record.get(field)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.meant(field, "a text", value)
        return str(value).strip()

    def id(self) -> Optional[str]:
        """The record's id, None where it has none."""
        field = next((key for key in ID_KEYS if key in self.record), None)
        if field is None:
            return None
        value = self.record[field]
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            self.meant(field, "a text or a whole number", value)
        if isinstance(value, int) and abs(value) >= 10**100:
            self.fail(field, "a whole number of at most 100 digits is meant")
        text = str(value).strip()
        if not re.fullmatch(r"[^\s,:：]{1,100}", text) or not text.isprintable():
            self.fail(field, "up to 100 letters and marks are meant, no space, comma or colon")
        return text

    def wordings(self) -> dict[str, str]:
        """The question's text by language; "" stands for a text alone."""
        value = self.record.get("question")
        if value is None:
            wrong = [key for key in self.record if key.lower() == "question"]
            hint = f" (keys are case-sensitive: {wrong[0]!r} is not read)" if wrong else ""
            lists = [key for key, part in self.record.items() if isinstance(part, list)]
            hint += f" (of the list under {lists[0]!r} give the list itself)" if lists else ""
            self.fail("question", f"is missing{hint}")
        texts = value if isinstance(value, dict) else {"": value}
        for code, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                field = f"question.{code}" if code else "question"
                what = "is blank" if isinstance(text, str) else f"not {kind_of(text)}"
                self.fail(field, f"a text is meant, {what}" if what[:3] == "not" else what)
        if not texts:
            self.fail("question", "holds no text in any language")
        return {code: text.strip() for code, text in texts.items()}

    def references(self, frozen: bool) -> list[str]:
        """The accepted SQL: the reference, then its alternatives."""
        found: dict[str, list[str]] = {}
        for field in SQL_KEYS:
            value = self.record.get(field)
            if value is None or (field == "sql" and isinstance(value, dict)):
                continue  # Spider's parse tree
            found[field] = self.sqls(field, value, frozen)
        if len({tuple(sqls) for sqls in found.values()}) > 1:
            self.fail(" and ".join(found), "hold different SQL; keep one of them")
        sqls = next(iter(found.values()), [])
        if not sqls and not frozen:
            self.fail("sql", "is missing; give a reference (sql, query or SQL) or rows")
        return sqls

    def sqls(self, field: str, value: Any, frozen: bool) -> list[str]:
        texts = value if isinstance(value, list) else [value]
        for text in texts:
            if not isinstance(text, str):
                self.meant(field, "SQL as a text", text)
            if not statements(text) and not (frozen and texts == [text]):
                self.fail(field, "there is no SQL in it")
        if not texts:
            self.fail(field, "is an empty list")
        return [text for text in texts if text.strip()]

    def contract(self) -> Contract:
        value = self.record.get("contract")
        if value is None:
            return Contract()
        if not isinstance(value, dict):
            self.meant("contract", "an object of keys", value)
        with on_one_line(f"{self.place}: "):
            return read_contract(value)

    def traps(self) -> tuple[Trap, ...]:
        traps: list[Trap] = []
        for i, value in enumerate(self.many("traps")):
            if not isinstance(value, dict):
                self.meant(f"traps[{i}]", "an object of name, why and sql", value)
            for key in ("name", "sql"):
                if not isinstance(value.get(key), str) or not value[key].strip():
                    self.fail(f"traps[{i}].{key}", "a text is meant, and it may not be blank")
            if any(trap.name == value["name"].strip() for trap in traps):
                self.fail(
                    f"traps[{i}].name", f"{value['name']!r} is taken; each trap needs its own"
                )
            why = value.get("why") or ""
            if not isinstance(why, str):
                self.meant(f"traps[{i}].why", "a text", why)
            traps.append(
                Trap(value["name"].strip(), why.strip() or "no reason given", value["sql"])
            )
        return tuple(traps)

    def many(self, field: str) -> list[Any]:
        value = self.record.get(field)
        if value is not None and not isinstance(value, list):
            self.meant(field, "a list", value)
        return value or []

    def names(self, field: str) -> tuple[str, ...]:
        """Names as a list or a comma-separated text."""
        value = self.record.get(field)
        if value is None:
            return ()
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(p, str) and p.strip() for p in parts):
            self.fail(field, "names are meant, as a list or with commas between them")
        return tuple(part.strip() for part in parts)

    def params(self) -> dict[str, Cell]:
        value = self.record.get("params")
        if value is not None and not isinstance(value, dict):
            self.meant("params", "an object of name and value", value)
        for name in value or ():
            if not re.fullmatch(r"(?a)[A-Za-z_]\w*", name):
                self.fail(f"params.{name}", "a name of letters, digits and _ is meant")
        return {name: self.cell(f"params.{name}", cell) for name, cell in (value or {}).items()}

    def cell(self, field: str, value: Any) -> Cell:
        """A cell that JSON can say: null, a number, a text, {"hex": ..} or {"real": "inf"}."""
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, dict) and len(value) == 1 and set(value) <= {"hex", "real"}:
            try:
                return unpacked(value)
            except (ValueError, TypeError, OverflowError):
                self.fail(field, f"{json.dumps(value)[:40]} is no blob and no number")
        if isinstance(value, (list, dict)):
            self.meant(field, "a number, a text or null", value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            self.fail(field, f"{str(value)[:24]} is larger than a 64-bit integer")
        return value

    def frozen(self) -> tuple[Frozen, ...]:
        """The rows that are kept as the answer: written out, or the files that hold them."""
        value = self.record.get("rows")
        if value is None:
            if "columns" in self.record:
                self.fail("columns", "go with rows, which are missing")
            return ()
        given = [value] if isinstance(value, str) else value
        if not isinstance(given, list):
            self.meant("rows", "a list of rows, or the name of a CSV file,", value)
        if given and all(isinstance(name, str) for name in given):
            if not all(name.strip() for name in given):
                self.fail("rows", "the name of a file is blank")
            return tuple(Frozen((), (), name.strip()) for name in given)
        if given and all(isinstance(row, dict) for row in given):
            return (self.frozen_objects(given),)
        columns = self.names("columns")
        if not columns:
            self.fail("columns", "the names of the columns are missing")
        rows = []
        for i, row in enumerate(given):
            if not isinstance(row, list) or len(row) != len(columns):
                what = f"of {len(row)}" if isinstance(row, list) else f"not {kind_of(row)}"
                self.fail(f"rows[{i}]", f"a list of {len(columns)} cells is meant, {what}")
            rows.append(tuple(self.cell(f"rows[{i}][{j}]", cell) for j, cell in enumerate(row)))
        return (Frozen(columns, tuple(rows)),)

    def frozen_objects(self, objects: Sequence[Mapping[str, Any]]) -> Frozen:
        columns = self.names("columns") or tuple(objects[0])
        rows = []
        for i, found in enumerate(objects):
            if set(found) != set(columns):
                self.fail(
                    f"rows[{i}]", f"its keys are not those of the columns, {', '.join(columns)}"
                )
            rows.append(tuple(self.cell(f"rows[{i}].{name}", found[name]) for name in columns))
        return Frozen(columns, tuple(rows))


def _unread_keys(readers: Sequence[_Record]) -> list[str]:
    """Warnings about keys that are not read but look like one that is; each key once."""
    first: dict[str, str] = {}
    for reader in readers:
        for key in reader.record:
            first.setdefault(key, reader.place)
    warnings = []
    for key in first.keys() - set(RECORD_KEYS):
        if _is_key(key) and key not in PLAIN_KEYS:
            warnings.append(f"{first[key]}: the key {key!r} is read inside 'contract' only")
            continue
        near = nearest(key[:40], RECORD_KEYS, 0.85) or nearest(key[:40].lower(), RECORD_KEYS, 0.85)
        if near:
            warnings.append(f"{first[key]}: the key {key!r} is not read; did you mean {near}?")
    return sorted(warnings)


def _is_mark(mark: Optional[re.Match[str]]) -> bool:
    """Whether a line names a question, an alternative or a trap, and not some other words."""
    return mark is not None and (mark.group("kind") is not None or not mark.group("name").strip())


class _LineNumbers:
    """The number of the line that holds an offset."""

    def __init__(self, text: str) -> None:
        self.ends = [match.start() for match in re.finditer("\n", text)]

    def __call__(self, offset: int) -> int:
        return bisect_left(self.ends, offset) + 1


def _question_marks(
    text: str, line_at: Callable[[int], int]
) -> tuple[list[re.Match[str]], list[str]]:
    """The lines that begin a question, an alternative or a trap, and warnings about others.

    Those inside strings and block comments do not count. Raises ScoreError for an open quote.
    """
    found: list[re.Match[str]] = []
    warnings = []
    if not any(map(_is_mark, QUESTION_MARK.finditer(text))):
        return [], []
    inside = False  # a statement
    shapes: set[str] = set()
    for token in tokens(text):
        if token.kind == "comment" and text.startswith("--", token.start):
            mark = QUESTION_MARK.match(text, token.start)
            if mark is not None and _is_mark(mark):
                # "-- t1: the table" inside SQL is a comment where the set's ids are like Q01.
                if inside and _shape(mark.group("id")) not in shapes:
                    where = f"line {line_at(mark.start())}"
                    warnings.append(f"{where}: is read as a comment, for it stands inside SQL")
                    continue
                shapes.add(_shape(mark.group("id")))
                found.append(mark)
                inside = False
        elif not token.closed:
            opened = f"line {line_at(token.start)}: what {text[token.start]} opens here"
            raise ScoreError(f"{opened} is never closed")
        elif token.end - token.start > 4 and token.kind in ("string", "name", "comment"):
            for mark in QUESTION_MARK.finditer(text, token.start, token.end):
                where = f"what line {line_at(token.start)} opens"
                told = (
                    f"line {line_at(mark.start())}: looks like a marker but stands inside {where}"
                )
                warnings.append(told)
        if token.kind not in BLANK:
            inside = text[token.start] != ";"
    return found, warnings


def _read_commented_set(
    text: str, marks: Sequence[re.Match[str]], line_at: Callable[[int], int]
) -> tuple[list[Question], list[str]]:
    """The questions of a commented file, and warnings."""
    before = statements(text[: marks[0].start()])
    if before:
        line = line_at(before[0][0])
        raise ScoreError(f"line {line}: SQL stands before the first question")
    records: dict[str, dict[str, Any]] = {}
    found: list[tuple[str, dict[str, Any]]] = []
    warnings: list[str] = []
    for mark, after in zip(marks, [*marks[1:], None]):
        line = line_at(mark.start())
        body = text[mark.end() : after.start() if after else len(text)]
        block = _SetBlock(mark, body, line)
        if mark.group("kind") is None:
            record = block.record()
            found.append((f"line {line}", record))
            records.setdefault(mark.group("id"), record)
        else:
            block.add_to(records.get(mark.group("id")))
        warnings += block.warnings
    return [_Record(record, place).question("") for place, record in found], warnings


class _SetBlock:
    """What stands from one marker of a commented set to the next."""

    def __init__(self, mark: re.Match[str], body: str, line: int) -> None:
        self.mark, self.line = mark, line
        self.warnings: list[str] = []
        self.keys: list[tuple[int, str, str]] = []  # line, key, value
        line_at, begun, rest = _LineNumbers(body), False, 0
        for token in tokens(body):
            key = KEY_LINE.match(body, token.start) if token.kind == "comment" else None
            if key is not None and not begun:
                at = line + line_at(token.start) - 1
                self.keys.append((at, key.group(1).strip(), key.group(2).strip()))
                rest = token.end
            elif key is not None and _is_key(key.group(1).strip()):
                where = f"line {line + line_at(token.start) - 1}: {key.group(1)}"
                raise ScoreError(
                    f"{where}: keys stand above the SQL, right below the marker; if a question"
                    " begins here, its marker is '-- ID: text', with a digit in the id"
                )
            elif key is None and not begun and token.kind == "comment":
                self._doubt(LIKE_KEY.match(body, token.start), line + line_at(token.start) - 1)
            begun = begun or token.kind not in BLANK
        self.sql = body[rest:].strip()

    def _doubt(self, like: Optional[re.Match[str]], line: int) -> None:
        """Refuses, or warns of, a comment above the SQL that looks like a key."""
        if like is None or not _is_key(like.group(2)):
            return
        right = f"a key is written '--   {like.group(2)}: value', after two spaces at least"
        if len(like.group(1)) > 1:
            raise ScoreError(f"line {line}: {like.group(2)}: {right}")
        if like.group(3):
            self.warnings.append(f"line {line}: is read as a comment; {right}")

    def checked_sql(self) -> str:
        """Its one statement. Raises ScoreError where there are more or none."""
        reason, detail = screen(self.sql, self.line + 1)
        if reason:
            kind = (self.mark.group("kind") or "question").strip()
            what = "alternative" if kind == "or" else kind
            detail = detail or f"no SQL stands below this {what}"
            detail = detail.replace(
                "an answer is one", "does a marker '-- ID: text' lack its colon?"
            )
            raise ScoreError(f"line {self.line}: {self.mark.group('id')}: {detail}")
        return self.sql

    def add_to(self, record: Optional[dict[str, Any]]) -> None:
        """Adds an alternative or a trap to its question's record."""
        id, kind, name = (part.strip() for part in self.mark.group("id", "kind", "name"))
        place = f"line {self.line}: {id}"
        if record is None:
            raise ScoreError(f"{place}: no question with this id stands above")
        if self.keys:
            raise ScoreError(f"line {self.keys[0][0]}: keys stand below the question's own marker")
        if kind == "or":
            if "sql" not in record:
                raise ScoreError(f"{place}: an alternative to what? The question has no SQL itself")
            record["sql"].append(self.checked_sql())
            return
        if not name:
            raise ScoreError(f"{place}: a trap needs a name: -- {id} trap NAME: why")
        why = self.mark.group("rest").strip()
        trap = {"name": name, "why": why, "sql": self.checked_sql()}
        record["traps"].append(trap)

    def record(self) -> dict[str, Any]:
        """The question's record, as JSON would hold it."""
        text = self.mark.group("rest").strip()
        record: dict[str, Any] = {"id": self.mark.group("id"), "question": text, "traps": []}
        contract: dict[str, str] = {}
        for line, key, value in self.keys:
            self._read_key(record, contract, (f"line {line}", key, value))
        record["contract"] = contract
        if self.sql or "rows" not in record:
            record["sql"] = [self.checked_sql()]
        return record

    def _read_key(
        self, record: dict[str, Any], contract: dict[str, str], line: tuple[str, str, str]
    ) -> None:
        place, key, value = line
        name, _, rest = key.partition(".")
        if key in record or key in contract:
            raise ScoreError(f"{place}: {key}: stands twice; keep one")
        if key in PLAIN_KEYS:
            record[key] = value
        elif key == "rows":
            record["rows"] = [part.strip() for part in value.split(",")]
        elif key == "param":
            name, sign, value = (part.strip() for part in value.partition("="))
            if not sign or not name:
                raise ScoreError(f"{place}: param: NAME = VALUE is meant")
            params = record.setdefault("params", {})
            if name in params:
                raise ScoreError(f"{place}: param: {name} stands twice; keep one")
            params[name] = _written_value(value)
        elif name == "question" and rest:
            texts = record["question"]
            texts = texts if isinstance(texts, dict) else {"en": texts}
            record["question"] = {**texts, rest: value}
        elif _is_key(key):
            with on_one_line(f"{place}: "):
                read_contract({key: value})
            contract[key] = value
        else:
            keys = (*PLAIN_KEYS, *{name for name, _ in CONTRACT_KEYS}, "param", "rows", "question")
            near = nearest(key[:40], tuple(sorted(keys)), 0.66)
            hint = f"; did you mean {near}?" if near else ""
            what = f"no such key{hint} (a comment begins with one space)"
            raise ScoreError(f"{place}: {cut(key)}: {what}")


def _is_key(key: str) -> bool:
    """Whether a key line of a commented set has a key that is read."""
    name, dot, _ = key.partition(".")
    if (name, bool(dot)) in CONTRACT_KEYS or (name == "question" and dot):
        return True
    return not dot and name in (*PLAIN_KEYS, "param", "rows")


def _written_value(text: str) -> Cell:
    """A bound value as a file writes it: a number, 'quoted text', or text as it stands."""
    if re.fullmatch(r"(?a)-?\d{1,19}", text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    if re.fullmatch(r"(?a)-?\d+\.\d+(?:[eE][+-]?\d+)?", text):
        return float(text)
    if text.upper() == "NULL":
        return None
    in_quotes = len(text) > 1 and text[0] == text[-1] == "'"
    return text[1:-1].replace("''", "'") if in_quotes else text


def _read_gold(text: str) -> list[Question]:
    """Spider's gold file: SQL, a tab and the database's id on each line."""
    lines = [(i, line) for i, line in enumerate(LINE_END.split(text), 1) if line.strip()]
    ids = [_id_behind(line, set()) for _, line in lines]
    have_ids = any(ids)
    questions = []
    for i, ((number, line), id) in enumerate(zip(lines, ids)):
        sql = line[: line.rindex("\t")] if id else line
        if first_word(sql) not in QUERY_WORDS:
            raise ScoreError(f"line {number}: {GOLD_ERROR}")
        if have_ids and not id:
            raise ScoreError(f"line {number}: no tab and database id stand behind the SQL")
        questions.append(Question(str(i), "", "", sql.strip(), db=id, place=f"line {number}"))
    return questions


def with_texts(gold: QuestionSet, texts: QuestionSet) -> QuestionSet:
    """Gold lines with the texts of another set, paired by position. Raises ScoreError."""
    if len(gold.questions) != len(texts.questions):
        raise ScoreError(
            f"{gold.name} holds {counted(len(gold.questions), 'line')} and {texts.name}"
            f" {counted(len(texts.questions), 'question')}; they are paired one to one"
        )
    paired, other = [], []
    for line, question in zip(gold.questions, texts.questions):
        _check_database(f"{gold.name}: {line.place}", line.db, question)
        if question.sql and _same_text(line.sql) != _same_text(question.sql):
            other.append(line.place)
        paired.append(question._replace(sql=line.sql, db=line.db or question.db))
    if 2 * len(other) > len(paired):
        raise ScoreError(
            f"{gold.name}: most lines are other queries than their records in {texts.name} have,"
            f" the first at {other[0]}; the files do not belong together"
        )
    warnings = gold.warnings + texts.warnings
    if other:
        warnings += (f"{gold.name}: other SQL than {texts.name} has: {listed(other, 8)}",)
    return gold._replace(
        questions=tuple(paired),
        form=f"{gold.form} with the texts of {texts.name}",
        warnings=warnings,
        sealed=gold.sealed or texts.sealed,
    )


def _same_text(sql: str) -> str:
    return "".join(sql.split()).casefold().rstrip(";")


def in_language(questions: Sequence[Question], code: str) -> tuple[Question, ...]:
    """The questions with their text in one language. Raises ScoreError where one lacks it."""
    found = []
    for question in questions:
        texts = {} if question.text in question.wordings.values() else {"en": question.text}
        texts.update(question.wordings)
        chosen = [text for name, text in texts.items() if name.casefold() == code.casefold()]
        if not chosen:
            have = f"; it has {', '.join(texts)}" if question.wordings else ""
            raise ScoreError(f"question {question.id} has no text in the language {code!r}{have}")
        found.append(question._replace(text=chosen[0]))
    return tuple(found)


def read_csv_rows(data: bytes, name: str) -> Frozen:
    """The columns and rows of a CSV file; every cell is a text still. Raises ScoreError."""
    import csv

    text, _ = decode(data)
    reader = csv.reader(filter(None, LINE.findall(text)), strict=True)
    try:
        rows = [tuple(row) or ("",) for row in reader]
    except csv.Error as error:
        raise ScoreError(f"{name}: line {reader.line_num}: no CSV: {error}") from None
    if not rows or not any(rows[0]):
        raise ScoreError(f"{name}: is empty; its first line names the columns")
    if len(rows[0]) > 1:  # in a single column a blank line is a cell that is NULL
        rows = [row for row in rows if row != ("",)]
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ScoreError(
                f"{name}: row {i} has {counted(len(row), 'cell')}, its columns are {len(rows[0])}"
            )
    return Frozen(rows[0], tuple(rows[1:]), name)


# -- contracts


EXACT = Tolerance(relative=0.0)

# The rules of published evaluators. Both see only rows, with Python's equality of cells. Whether
# order counts under Spider's depends on the reference's text: see preset_order.
PRESETS = {
    "spider": Contract(columns="any", tolerance=EXACT, preset="spider"),
    "bird": Contract("ignore", "ignore", columns="position", tolerance=EXACT, preset="bird"),
}


def preset_order(contract: Contract, reference: str) -> Contract:
    """The contract with Spider's rule on order: it counts where the text says `order by`."""
    if contract.preset != "spider":
        return contract
    return contract._replace(order="exact" if "order by" in reference.lower() else "ignore")


def read_contract(keys: Mapping[str, Any]) -> Contract:
    """A contract from its written keys and values. Raises ScoreError for nonsense."""
    if "preset" in keys:
        name = keys["preset"]
        if not isinstance(name, str) or name not in PRESETS or len(keys) > 1:
            raise ScoreError("contract: preset = spider or bird is meant, and nothing beside it")
        return PRESETS[name]
    contract = Contract()
    for key, value in keys.items():
        name, _, column = key.partition(".")
        reader = CONTRACT_KEYS.get((name, bool(column)))
        if reader is None:
            near = nearest(key[:40], tuple(sorted(k for k, _ in CONTRACT_KEYS)), 0.6)
            hint = f"; did you mean {near}?" if near else ""
            raise ScoreError(f"contract: no key {cut(repr(key))}{hint}")
        try:
            contract = reader(contract, column, value)
        except (ValueError, TypeError, OverflowError) as error:
            raise ScoreError(f"contract: {key} = {cut(repr(value))}: {error}") from None
    return contract


def _names(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise ValueError("names are meant, as a list or with commas between them")
    names = tuple(part.strip() for part in parts)
    if not names or not all(names):
        raise ValueError("a name is empty")
    return names


def _one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)} is meant")
        return str(value)

    return check


def _sort_keys(value: Any) -> tuple[SortKey, ...]:
    keys = []
    for part in _names(value):
        words = part.split()
        direction = words[-1].lower() if len(words) > 1 else ""
        name = " ".join(words[:-1]) if direction in ("asc", "desc") else part
        keys.append(SortKey(name, direction == "desc"))
    return tuple(keys)


def _order(value: Any) -> Union[str, tuple[SortKey, ...]]:
    if isinstance(value, list):
        return _sort_keys(value)
    if value in ("ignore", "exact", "auto"):
        return str(value)
    word, _, keys = str(value).partition(" ")
    if word.lower() != "by":
        raise ValueError("ignore, exact or 'by NAME [desc], ...' is meant")
    return _sort_keys(keys)


def _top(value: Any) -> Top:
    found = re.fullmatch(r"(?is)\s*(\d+)\s+(with\s+ties\s+)?by\s+(.+)", str(value))
    if found is None or int(found.group(1)) < 1:
        raise ValueError("'N [with ties] by NAME [desc], ...' is meant")
    return Top(int(found.group(1)), bool(found.group(2)), _sort_keys(found.group(3)))


def _decimals(value: Any) -> Tolerance:
    text = str(value).strip()
    if not re.fullmatch("(?a)[0-9]{1,2}", text) or int(text) > 30:
        raise ValueError("a whole number from 0 to 30 is meant, and one key per line")
    return Tolerance(decimals=int(text))


def _relative(value: Any) -> Tolerance:
    if isinstance(value, bool):
        raise ValueError("a number is meant")
    number = float(value)
    if not 0 <= number < 1:
        raise ValueError("a number from 0 to below 1 is meant")
    return Tolerance(relative=number)


def zone_of(name: str) -> Any:
    """The tzinfo of `UTC`, `+02:00` or an IANA name, None for "". ValueError for anything else."""
    if not name:
        return None
    import datetime

    if name.upper() in ("UTC", "Z"):
        return datetime.timezone.utc
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if found:
        minutes = int(found.group(2)) * 60 + int(found.group(3))
        return datetime.timezone(datetime.timedelta(minutes=int(found.group(1) + "1") * minutes))
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        raise ValueError(f"no time zone {name!r} on this machine") from None


def _dates(value: Any) -> dict[str, str]:
    found = {}
    for part in _names(value):
        name, _, zone = part.partition(" in ")
        found[name.strip()] = zone.strip()
        zone_of(zone.strip())
    return found


def _changes(
    field_name: str, read: Callable[[Any], Any]
) -> Callable[[Contract, str, Any], Contract]:
    return lambda contract, _, value: contract._replace(**{field_name: read(value)})


def _adds(field_name: str, read: Callable[[Any], Any]) -> Callable[[Contract, str, Any], Contract]:
    def change(contract: Contract, column: str, value: Any) -> Contract:
        columns = {**getattr(contract, field_name), column.lower(): read(value)}
        changes: dict[str, Any] = {field_name: columns}
        return contract._replace(**changes)

    return change


# (key, whether it names a column): what it does to the contract.
CONTRACT_KEYS: dict[tuple[str, bool], Callable[[Contract, str, Any], Contract]] = {
    ("duplicates", False): _changes("duplicates", _one_of("count", "ignore")),
    ("order", False): _changes("order", _order),
    ("top", False): _changes("top", _top),
    ("columns", False): _changes("columns", _one_of("auto", "position", "names", "any")),
    ("optional", False): _changes("optional", _names),
    ("extra", False): _changes("extra", _one_of("refuse", "allow")),
    ("alias", True): _adds("alias", _names),
    ("decimals", False): _changes("tolerance", _decimals),
    ("decimals", True): _adds("by_column", _decimals),
    ("relative", False): _changes("tolerance", _relative),
    ("relative", True): _adds("by_column", _relative),
    ("text", False): _changes(
        "text", lambda value: tuple(map(_one_of("nocase", "trim"), _names(value)))
    ),
    ("time", False): _changes("time", _names),
    ("date", False): _changes("date", _dates),
}


def contract_keys(contract: Contract) -> dict[str, Any]:
    """The contract as read_contract reads it: only the keys that depart from the defaults."""
    if contract.preset:
        return {"preset": contract.preset}
    keys: dict[str, Any] = (
        {"order": _order_words(contract.order)} if contract.order != "auto" else {}
    )
    if contract.top is not None:
        ties = " with ties" if contract.top.ties else ""
        words = _order_words(contract.top.keys)
        words = words if isinstance(words, str) else "by " + ", ".join(words)
        keys["top"] = f"{contract.top.number}{ties} {words}"
    for name, standard in (("duplicates", "count"), ("columns", "auto"), ("extra", "refuse")):
        if getattr(contract, name) != standard:
            keys[name] = getattr(contract, name)
    for name in ("optional", "text", "time"):
        if getattr(contract, name):
            keys[name] = _listed_names(getattr(contract, name))
    keys.update(_tolerance_keys("", contract.tolerance))
    for column, tolerance in contract.by_column.items():
        keys.update(_tolerance_keys(f".{column}", tolerance))
    keys.update({f"alias.{name}": _listed_names(others) for name, others in contract.alias.items()})
    dates = [f"{column} in {zone}" if zone else column for column, zone in contract.date.items()]
    return {**keys, "date": _listed_names(dates)} if dates else keys


def _listed_names(names: Sequence[str]) -> Union[str, list[str]]:
    """Names with commas between them; a list where a name holds a comma itself."""
    return list(names) if any("," in name for name in names) else ", ".join(names)


def _order_words(order: Union[str, tuple[SortKey, ...]]) -> Union[str, list[str]]:
    if isinstance(order, str):
        return order
    words = [f"{key.name} {'desc' if key.descending else 'asc'}" for key in order]
    if any("," in word for word in words):
        return words
    plain = [w[:-4] if w.endswith(" asc") and not _directed(w[:-4]) else w for w in words]
    return "by " + ", ".join(plain)


def _directed(name: str) -> bool:
    return name.lower().endswith((" asc", " desc"))


def _tolerance_keys(suffix: str, tolerance: Tolerance) -> dict[str, str]:
    if tolerance.decimals is not None:
        return {f"decimals{suffix}": str(tolerance.decimals)}
    return {f"relative{suffix}": repr(tolerance.relative)} if tolerance.relative is not None else {}


# ---- 7. comparison -------------------------------------------------------------------------------
#
# Equal results are the common case and must cost hardly more than fetching them, so the first look
# is a digest: a sum over a keyed hash of each row's typed bytes, with no rows kept. Only when the
# digests differ are rows looked at, and then the contract is climbed as a ladder: alignments in
# their order, and under each the rows exactly, then within the tolerance.

CHUNK = 1024  # rows per step of a digest, and per chunk sum
HOLD_ROWS = 20_000  # a result up to this size is kept, so that looking again costs no second run
HOLD_BYTES = 64 * MIB
KIND_ROWS = 20_000  # a larger result shows its columns' kinds in its first rows
BUCKETS = 1 << 16
GATHER_CELLS = 4_000_000  # cells of the rows that may be gathered for a second look
PAIR_STEPS = 400_000  # candidate pairs that a tolerance search looks at
REFINEMENTS = 3000  # of a column search
SEARCH_CELLS = 8_000_000  # cells that a column search looks at
SUBSETS = 500  # column subsets tried where `extra = allow`
PERMUTED = 6  # columns up to which every order is tried where colours cannot tell them apart


class Digest(NamedTuple):
    """What identifies a result within this process: equal digests are equal typed rows."""

    rows: int
    total: int  # whatever the order of the rows
    sequence: int  # in their order
    chunks: tuple[int, ...]  # a sum for each CHUNK rows


class Result:
    """Columns and rows that a query returned. `rows()` may be called again and again."""

    def __init__(
        self,
        columns: Sequence[str],
        rows: Callable[[], Iterable[Row]],
        digest: Digest,
        held: bool = True,
    ) -> None:
        self.columns, self.rows, self.digest = tuple(columns), rows, digest
        self.held = held  # False where rows() runs the query once more
        self.count, self.width = digest.rows, len(self.columns)
        self.known_kinds: Optional[list[frozenset[str]]] = None

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Row]) -> Result:
        """A result from rows in memory."""
        return cls(columns, lambda: rows, take(iter(rows), sys.maxsize)[0])

    def kinds(self) -> list[frozenset[str]]:
        """The storage kinds of each column's cells that are not NULL, looked at once."""
        if self.known_kinds is None:
            self.known_kinds = self._look_at_kinds()
        return self.known_kinds

    def _look_at_kinds(self) -> list[frozenset[str]]:
        kinds: list[set[type]] = [set() for _ in self.columns]
        rows = self.rows() if self.held else islice(self.rows(), KIND_ROWS)
        for chunk in chunks(rows):
            for found, column in zip(kinds, zip(*chunk)):
                found.update(map(type, column))
        return [frozenset(KINDS[kind] for kind in found if kind in KINDS) for found in kinds]


KINDS = {int: "integer", bool: "integer", float: "real", str: "text", bytes: "blob"}


def take(
    rows: Iterator[Row], max_rows: int, cell_limit: int = sys.maxsize
) -> tuple[Digest, Optional[list[Row]]]:
    """The digest of the rows, and the rows themselves where they are few. Raises TooLarge."""
    held: Optional[list[Row]] = []
    count = total = sequence = size = 0
    sums: list[int] = []
    version = itertools.repeat(2)  # later versions of marshal write references, not only values
    while True:
        if held is None:
            hashes = list(map(hash, map(marshal.dumps, islice(rows, CHUNK), version)))
        else:
            hashes = []
            for row in islice(rows, CHUNK):
                data = marshal.dumps(row, 2)
                size += len(data)
                if len(data) > cell_limit and max(map(_length, row)) > cell_limit:
                    raise TooLarge(f"a cell of more than {cell_limit:,} bytes")
                hashes.append(hash(data))
                if held is not None:
                    held.append(row)
                    held = held if size <= HOLD_BYTES else None
        if not hashes:
            return Digest(count, total, sequence, tuple(sums)), held
        count += len(hashes)
        if count > max_rows:
            raise TooLarge(f"more than {max_rows:,} rows (--max-rows)")
        sums.append(sum(hashes))
        total += sums[-1]
        sequence = hash((sequence, *hashes))
        held = held if held is not None and count <= HOLD_ROWS else None


def _length(cell: Cell) -> int:
    return len(cell) if isinstance(cell, (str, bytes)) else 0


def chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows, CHUNK at a time."""
    source = iter(rows)
    while True:
        chunk = list(islice(source, CHUNK))
        if not chunk:
            return
        yield chunk


# -- cells


def is_number(cell: Cell) -> bool:
    """Whether a cell is no text, blob or NULL."""
    return not isinstance(cell, (str, bytes, type(None)))


def cells_agree(a: Cell, b: Cell, tolerance: Tolerance) -> bool:
    """Whether two cells are the same under the contract's rule for numbers."""
    if is_number(a) and is_number(b):
        return numbers_agree(a, b, tolerance)
    return type(a) is type(b) and bool(a == b)


def numbers_agree(a: Any, b: Any, tolerance: Tolerance) -> bool:
    """Whether two numbers agree within a tolerance; an infinity equals only itself."""
    if a == b:
        return True
    if a in (INFINITY, -INFINITY) or b in (INFINITY, -INFINITY):
        return False
    if tolerance.decimals is not None:
        return _within_decimals(a, b, tolerance.decimals)
    if tolerance.relative == 0:
        return False
    # A whole number beside an integer is exact, beyond 2^53 too.
    exact = tolerance.relative is None and (isinstance(a, int) or isinstance(b, int))
    if exact and a == int(a) and b == int(b):
        return False
    relative = RELATIVE if tolerance.relative is None else tolerance.relative
    return bool(abs(a - b) <= relative * max(abs(a), abs(b)))


def _within_decimals(a: Any, b: Any, decimals: int) -> bool:
    """Half a unit of the last decimal, bound included, on the shortest decimal text of each."""
    half = 0.5 * 10.0**-decimals
    apart = abs(a - b)
    doubt = 1e-9 * half + 1e-15 * max(abs(a), abs(b))  # what binary fractions may hide
    if abs(apart - half) > doubt:
        return bool(apart < half)
    from decimal import Context, Decimal

    exact = Context(prec=800)
    apart = exact.subtract(Decimal(str(a + 0)), Decimal(str(b + 0)))
    return abs(apart) <= Decimal(5).scaleb(-decimals - 1)


TIME = (
    r"(?i)(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*"
    r"(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def read_time(cell: Cell) -> Cell:
    """An ISO 8601 time with an offset, in UTC. Raises Refused for anything else but NULL."""
    if cell is None:
        return None
    moment, fraction, offset = _moment(cell)
    if offset is None:
        raise Refused(f"{show_cell(cell)} has no offset")
    try:
        utc = moment - offset
    except OverflowError:
        raise Refused(f"{show_cell(cell)} is out of range") from None
    return f"{utc.isoformat()}{'.' + fraction if fraction else ''}Z"


def read_date(cell: Cell, zone: str) -> Cell:
    """The calendar day of an ISO 8601 date or time, in a zone where it has an offset."""
    if cell is None:
        return None
    moment, _, offset = _moment(cell)
    if offset is None or not zone:
        return str(moment.date().isoformat())
    import datetime

    aware = moment.replace(tzinfo=datetime.timezone(offset))
    try:
        return str(aware.astimezone(zone_of(zone)).date().isoformat())
    except OverflowError:
        raise Refused(f"{show_cell(cell)} is out of range") from None


def _moment(cell: Cell) -> tuple[Any, str, Any]:
    """A cell as (time without zone, fraction's digits, offset or None)."""
    import datetime

    short = isinstance(cell, str) and len(cell) <= 64  # anything longer is no time
    found = re.fullmatch(TIME, cell.strip()) if short else None
    if found is None:
        raise Refused(f"{show_cell(cell)} is no ISO 8601 time")
    *numbers, fraction, zone = found.groups()
    try:
        year, month, day, hour, minute, second = (int(n or 0) for n in numbers)
        moment = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError:
        raise Refused(f"{show_cell(cell)} is no time that exists") from None
    offset = None
    if zone:
        digits = "0000" if zone in "Zz" else zone[1:].replace(":", "").ljust(4, "0")
        sign = -1 if zone[0] == "-" else 1
        offset = sign * datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        if abs(offset) >= datetime.timedelta(days=1):
            raise Refused(f"{show_cell(cell)} has no offset that exists")
    return moment, (fraction or "").rstrip("0"), offset


def _cell_readers(contract: Contract, columns: Sequence[str]) -> list[Any]:
    """Per column the function that reads a cell as the contract says, or None."""
    times = {name.lower() for name in contract.time}
    dates = {name.lower(): zone for name, zone in contract.date.items()}
    readers: list[Any] = []
    for name in (column.lower() for column in columns):
        if name in times:
            readers.append(read_time)
        elif name in dates:
            readers.append(lambda cell, zone=dates[name]: read_date(cell, zone))
        else:
            readers.append(_text_reader(contract.text))
    return readers


def _text_reader(options: tuple[str, ...]) -> Optional[Callable[[Cell], Cell]]:
    if not options:
        return None

    def read(cell: Cell) -> Cell:
        if not isinstance(cell, str):
            return cell
        cell = cell.strip() if "trim" in options else cell
        return cell.casefold() if "nocase" in options else cell

    return read


# -- the ladder


def compare(
    want: Result, got: Result, contract: Contract, runs: Optional[Sequence[int]] = None
) -> Comparison:
    """Whether two results are the same under the contract, and if not, how they differ.

    `runs` are the lengths of the runs of rows that tie on the reference's own sort keys, given
    where the contract's order is "auto" and the reference sorts; None where sequence is free.
    """
    problem = contract_problem(want, contract)
    if problem:
        return _comparison("reference_error", want, got, note=problem)
    if _same_digest(want, got, contract, runs):
        return _comparison(_vacuous(want), want, got)
    search = _Search(want, got, contract, runs)
    return _comparison(_vacuous(want), want, got) if search.found() else search.diagnosis()


def matches(want: Result, got: Result, contract: Contract) -> bool:
    """Whether two results are the same under the contract, their sequence aside."""
    if contract_problem(want, contract):
        return False
    return _same_digest(want, got, contract, None) or _Search(want, got, contract, None).found()


def contract_problem(want: Result, contract: Contract) -> str:
    """Why the contract does not fit the reference's result, "" where it does."""
    names = [*contract.optional, *contract.by_column, *contract.alias, *contract.time]
    names += [*contract.date]
    for keys in (contract.order, contract.top.keys if contract.top else ()):
        names += [key.name for key in keys if isinstance(key, SortKey)]
    have = {column.lower() for column in want.columns}
    for name in names:
        if name.lower() not in have:
            return f"the contract names {name}, which is no column of the reference"
    readers = _cell_readers(contract, want.columns) if contract.time or contract.date else []
    try:
        for row in want.rows() if readers else ():
            _read_row(row, readers)
    except Refused as refused:
        return str(refused)
    return ""


def restricted(contract: Contract, columns: Sequence[str]) -> Contract:
    """The contract without what it says of columns that a result does not have."""
    have = _lower(columns)
    return contract._replace(
        optional=tuple(name for name in contract.optional if name.lower() in have),
        time=tuple(name for name in contract.time if name.lower() in have),
        alias={name: others for name, others in contract.alias.items() if name.lower() in have},
        date={name: zone for name, zone in contract.date.items() if name.lower() in have},
        by_column={name: rule for name, rule in contract.by_column.items() if name.lower() in have},
    )


def _same_digest(
    want: Result, got: Result, contract: Contract, runs: Optional[Sequence[int]]
) -> bool:
    """Whether the digests alone settle it: the same typed rows, column by column."""
    if contract.preset and not want.count and not got.count:
        return True
    sorted_by_contract = contract.order not in ("auto", "ignore") or contract.top
    if sorted_by_contract or contract.time or contract.date or contract.columns == "names":
        return False
    if want.width != got.width or want.digest.total != got.digest.total:
        return False
    if runs is not None and want.digest.sequence != got.digest.sequence:
        return False
    return want.count == got.count


def _vacuous(want: Result) -> str:
    if want.count > 1:
        return ""
    return "vacuous" if all(cell is None for row in want.rows() for cell in row) else ""


def _comparison(reason: str, want: Result, got: Result, **more: Any) -> Comparison:
    return Comparison(
        reason,
        want_columns=want.columns,
        got_columns=got.columns,
        want_count=want.count,
        got_count=got.count,
        **more,
    )


class Alignment(NamedTuple):
    """Which columns of the candidate stand for which of the reference."""

    kept: tuple[int, ...]  # the reference's columns that are compared
    picks: tuple[int, ...]  # the candidate's columns that stand for them


class _Search:
    """Looks for an alignment under which two results match, and says how they differ if none."""

    def __init__(
        self, want: Result, got: Result, contract: Contract, runs: Optional[Sequence[int]]
    ) -> None:
        self.want, self.got, self.contract = want, got, contract
        self.runs = runs
        self.notes: list[str] = []  # searches that were cut short
        self.refused = ""  # a cell of the candidate that the contract cannot read
        self.misplaced: Optional[_View] = None  # rows match, their sequence does not
        self.views: dict[Alignment, _View] = {}

    def found(self) -> bool:
        counted = self.contract.duplicates == "count" and not self.contract.top
        if counted and self.want.count != self.got.count:
            return False
        return any(self._fits(alignment) for alignment in self._alignments())

    def _alignments(self) -> Iterator[Alignment]:
        """Every alignment once, rung by rung; a rung that is cut short does not end the ladder."""
        seen = set()
        for rung in rungs(self.want, self.got, self.contract):
            try:
                for alignment in rung:
                    if alignment not in seen:
                        seen.add(alignment)
                        yield alignment
            except SearchCut as cut_short:
                self.notes.append(str(cut_short))

    def _view(self, alignment: Alignment) -> _View:
        if alignment not in self.views:
            self.views[alignment] = _View(self.want, self.got, alignment, self.contract)
        return self.views[alignment]

    def _fits(self, alignment: Alignment) -> bool:
        view = self._view(alignment)
        try:
            if self.contract.top is not None:
                return self._fits_top(view, self.contract.top)
            runs = self._runs(view)
            if runs is not None and view.same_sequence(runs):
                return True
            if not view.same_rows():
                return False
            if runs is None:
                return True
            self.misplaced = self.misplaced or view
        except Refused as refused:
            self.refused = str(refused)
        except SearchCut as cut_short:
            self.notes.append(str(cut_short))
        return False

    def _fits_top(self, view: _View, top: Top) -> bool:
        best, got = _Best(view, top), list(view.right())
        if not best.held_by(got):
            return False
        if self.contract.order in ("auto", "ignore") or best.in_order(got, self.contract.order):
            return True
        self.misplaced = self.misplaced or view
        return False

    def _runs(self, view: _View) -> Optional[Iterable[int]]:
        order = self.contract.order
        if order == "exact":
            return itertools.repeat(1)
        if not isinstance(order, str):
            return view.runs_by(order)
        return None if order == "ignore" else self.runs

    # The reasons, in the order in which they are looked for.

    def diagnosis(self) -> Comparison:
        """How two results differ that match under no alignment."""
        try:
            return self._is_another("type", self.refused) if self.refused else self._diagnosed()
        except Refused as refused:
            return self._is_another("type", str(refused))
        except SearchCut as cut_short:
            self.notes.append(str(cut_short))
            return self._is_another("rows")

    def _diagnosed(self) -> Comparison:
        if self.misplaced is not None:
            runs = None if self.contract.top else self._runs(self.misplaced)
            return self._is_another("order", self.misplaced.first_misplaced(runs))
        widths = range(self.want.width - len(self.contract.optional), self.want.width + 1)
        more_allowed = self.contract.extra == "allow" and self.got.width > self.want.width
        if self.got.width not in widths and not more_allowed:
            return self._is_another("columns", _width_note(self.want, self.got))
        view = self._view(self._plain_alignment())
        if self.contract.top is not None:
            best = _Best(view, self.contract.top)
            return self._is_another("rows", **view.difference(best.choice(), list(view.right())))
        left, right, complete = view.differing()
        more = view.difference(left, right)
        if not complete:
            self.notes.append("so many rows differ that only some were looked at")
            return self._is_another("rows", **more)
        rules = view.tolerances
        if self.contract.columns == "names" and _same_multiset(left, right, rules):
            names = f"{_width_note(self.want, self.got)}: names count"
            return self._is_another("columns", names, **more)
        if view.only_multiplicities(left, right):
            return self._is_another("duplicates", **more)
        if self._permuted(view):
            return self._is_another("columns", "the rows match in another order of columns", **more)
        if _same_multiset(*_texts_as_numbers(left, right), rules):
            return self._is_another(
                "type", "text where a number was wanted, or the reverse", **more
            )
        return self._is_another("rows", **more)

    def _is_another(self, reason: str, note: str = "", **more: Any) -> Comparison:
        note = "; ".join(filter(None, [note, *self.notes]))
        return _comparison(reason, self.want, self.got, note=note, **more)

    def _plain_alignment(self) -> Alignment:
        """By position, with what may be left out left out from the end."""
        kept = list(range(self.want.width))
        optional = [
            i for i in kept if self.want.columns[i].lower() in _lower(self.contract.optional)
        ]
        while len(kept) > self.got.width and optional:
            kept.remove(optional.pop())
        return Alignment(tuple(kept), tuple(range(len(kept))))

    def _permuted(self, view: _View) -> bool:
        """Whether one permutation of the columns would match; only looked for in kept results."""
        if self.contract.columns == "any" or not (self.want.held and self.got.held):
            return False
        if self.want.width != self.got.width or self.want.width < 2:
            return False
        left, right = list(view.left()), list(view.right())
        for picks in column_permutations(left, right, view.tolerances):
            if _same_multiset(left, list(project(right, picks, len(picks))), view.tolerances):
                return True
        return False


def _width_note(want: Result, got: Result) -> str:
    def names(result: Result) -> str:
        shown = ", ".join(visible(name) or "''" for name in result.columns[:8])
        return f"{result.width} ({cut(shown)}{', ...' if result.width > 8 else ''})"

    return f"got {names(got)}, wanted {names(want)}"


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _texts_as_numbers(left: list[Row], right: list[Row]) -> tuple[list[Row], list[Row]]:
    """Both sides, with texts and blobs read as numbers in columns where they meet numbers."""
    mixed = set()
    for i, (wanted, found) in enumerate(zip(zip(*left), zip(*right))):
        kinds = [
            {is_number(cell) for cell in column if cell is not None} for column in (wanted, found)
        ]
        if kinds[0] != kinds[1]:
            mixed.add(i)

    def read(row: Row) -> Row:
        return tuple(_as_number(cell) if i in mixed else cell for i, cell in enumerate(row))

    return list(map(read, left)), list(map(read, right))


NUMBER = r"(?a)\s*[+-]?(?:\d+(\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?\s*"


def _as_number(cell: Cell) -> Cell:
    """A text or blob that spells a number as that number, anything else as it is."""
    if not isinstance(cell, (str, bytes)) or len(cell) > SAMPLE_TEXT:
        return cell
    text = cell.decode("latin-1") if isinstance(cell, bytes) else cell
    if re.fullmatch(NUMBER, text) is None:
        return cell
    try:
        return int(text)
    except ValueError:
        return float(text)


# -- one alignment


class _View:
    """Two results under one alignment, their cells as the contract reads them."""

    def __init__(self, want: Result, got: Result, alignment: Alignment, contract: Contract) -> None:
        self.want, self.got, self.alignment, self.contract = want, got, alignment, contract
        columns = [want.columns[i] for i in alignment.kept]
        self.readers = _cell_readers(contract, columns)
        if not any(self.readers):
            self.readers = []
        by_column = {name.lower(): rule for name, rule in contract.by_column.items()}
        self.tolerances = [by_column.get(c.lower(), contract.tolerance) for c in columns]
        self.sorted_want: Optional[list[Row]] = None
        self.loose_buckets = False
        self.near: Optional[tuple[list[Row], list[Row]]] = None  # see _chunks_apart
        self.buckets: Optional[tuple[list[Row], list[Row], bool]] = None  # see _buckets_apart

    @property
    def held(self) -> bool:
        return self.want.held and self.got.held

    @property
    def straight(self) -> bool:
        """Whether rows are compared as they came, so that the digests speak of them."""
        whole = tuple(range(self.want.width))
        return self.alignment == Alignment(whole, whole) and not self.readers

    def left(self) -> Iterator[Row]:
        source = self.want.rows() if self.sorted_want is None else self.sorted_want
        return self._read(project(source, self.alignment.kept, self.want.width))

    def right(self) -> Iterator[Row]:
        return self._read(project(self.got.rows(), self.alignment.picks, self.got.width))

    def _read(self, rows: Iterable[Row]) -> Iterator[Row]:
        return (_read_row(row, self.readers) for row in rows) if self.readers else iter(rows)

    def same_rows(self) -> bool:
        """Whether the rows match, whatever their sequence."""
        if self.contract.duplicates == "ignore":
            return _same_set(list(self.left()), list(self.right()), self.tolerances)
        if self.want.count != self.got.count:
            return False
        left, right, complete = self.differing()
        if complete and _same_multiset(left, right, self.tolerances):
            return True
        if complete and not self._may_still_pair(left, right):
            return False
        left, right, complete = self._buckets_apart()
        if complete:
            return _same_multiset(left, right, self.tolerances)
        if not self.loose_buckets or all(rule == EXACT for rule in self.tolerances):
            return False
        # Too many to pair freely; rows that agree one by one, as they came, are a pairing too.
        pairs = zip(self.left(), self.right())
        if all(a == b or _agree(a, b, self.tolerances) for a, b in pairs):
            return True
        raise SearchCut("too many rows differ in their numbers to pair them within the tolerance")

    def only_multiplicities(self, left: list[Row], right: list[Row]) -> bool:
        """Whether differing rows all have their like on the other side, only not as often."""
        if self.held or self.buckets is not None or self.contract.duplicates == "ignore":
            return _same_set(left, right, self.tolerances)
        return _all_found(set(left), self.right()) and _all_found(set(right), self.left())

    def _may_still_pair(self, left: list[Row], right: list[Row]) -> bool:
        """Whether rows that were set aside as equal could help the rest to pair up.

        They can only stand between two rows of the rest, each step within the tolerance. So what
        does not pair within as many steps as there are rows never does.
        """
        if self.held or self.buckets is not None:
            return False  # nothing was set aside, or only what no other row can pair with
        wide = [_widened(tolerance, self.want.count) for tolerance in self.tolerances]
        if any(tolerance.relative == INFINITY for tolerance in wide):
            return True
        return bool(_loose(left, right, self.tolerances)) and _same_multiset(left, right, wide)

    def differing(self) -> tuple[list[Row], list[Row], bool]:
        """Rows of both sides, without parts that are equal; False where not all of them."""
        if self.held or self.contract.duplicates == "ignore":
            return list(self.left()), list(self.right()), True
        if self.buckets is None and self.straight:
            if self.near is None:
                self.near = self._chunks_apart()
            if self.near is not None:
                return (*self.near, True)
        return self._buckets_apart()

    def _chunks_apart(self) -> Optional[tuple[list[Row], list[Row]]]:
        """The rows of the chunks whose sums differ, where both results run in step."""
        left, right = self.want.digest.chunks, self.got.digest.chunks
        apart = {i for i, (a, b) in enumerate(itertools.zip_longest(left, right)) if a != b}
        if len(apart) * CHUNK > HOLD_ROWS:
            return None
        return _chunks_at(self.left(), apart), _chunks_at(self.right(), apart)

    def _buckets_apart(self) -> tuple[list[Row], list[Row], bool]:
        """The rows of the buckets whose sums differ. Rows equal in their exact cells share one."""
        if self.buckets is None:
            explicit = {i for i, t in enumerate(self.tolerances) if t != Tolerance()}
            spread = _Buckets.spread(self.left, self.right, explicit)
            self.loose_buckets = bool(spread.loose)
            self.buckets = spread.gather(self.left, self.right, len(self.tolerances))
        return self.buckets

    def runs_by(self, keys: Sequence[SortKey]) -> list[int]:
        """The lengths of runs of tied rows by the contract's keys.

        The reference's own sequence counts where its keys go one way, wherever it puts NULLs and
        capitals; a reference that does not sort is sorted here.
        """
        rows = list(self.want.rows())
        if not _goes_one_way([self.key_of(row, keys) for row in rows], keys):
            rows = self.sorted_by(rows, keys)
        self.sorted_want = rows
        return self.tied(rows, keys)

    def key_of(self, row: Row, keys: Sequence[SortKey]) -> Row:
        """The cells of a reference row that the keys name, as the contract reads them."""
        at = [_column_at(self.want.columns, key.name) for key in keys]
        readers = _cell_readers(self.contract, [self.want.columns[i] for i in at])
        return _read_row(tuple(row[i] for i in at), readers)

    def sorted_by(self, rows: list[Row], keys: Sequence[SortKey]) -> list[Row]:
        """Reference rows sorted as SQLite sorts: NULL, numbers, text, blobs."""
        for i, key in reversed(list(enumerate(keys))):
            rows = sorted(
                rows, key=lambda row: sort_value(self.key_of(row, keys)[i]), reverse=key.descending
            )
        return rows

    def tied(self, rows: Iterable[Row], keys: Sequence[SortKey]) -> list[int]:
        """The lengths of the runs of reference rows whose keys agree."""
        by_column = {name.lower(): rule for name, rule in self.contract.by_column.items()}
        rules = [by_column.get(key.name.lower(), self.contract.tolerance) for key in keys]
        return tied_runs((self.key_of(row, keys) for row in rows), rules)

    def kept(self, rows: Iterable[Row]) -> list[Row]:
        """Reference rows with the compared columns only, as the contract reads them."""
        return list(self._read(project(rows, self.alignment.kept, self.want.width)))

    def same_sequence(self, runs: Iterable[int]) -> bool:
        """Whether the rows match run by run: rows within a run may swap."""
        if self.contract.duplicates != "ignore":
            return _first_apart(self.left(), self.right(), runs, self.tolerances) is None
        lengths = list(islice(runs, self.want.count))
        left, right = list(self.left()), list(self.right())
        if _first_apart(iter(left), iter(right), lengths, self.tolerances) is None:
            return True
        shorter = iter(_distinct_runs(left, lengths))
        distinct = iter(dict.fromkeys(left)), iter(dict.fromkeys(right))
        return _first_apart(*distinct, shorter, self.tolerances) is None

    def first_misplaced(self, runs: Optional[Iterable[int]]) -> str:
        """Words for the first position where the sequence departs."""
        apart = None
        if runs is not None:
            apart = _first_apart(self.left(), self.right(), runs, self.tolerances)
        if apart is None:
            return "the rows are right, their sequence is not"
        at, want, got = apart
        return f"at row {at + 1} got {show_row(got)}, wanted {show_row(want)}"

    def difference(self, left: list[Row], right: list[Row]) -> dict[str, Any]:
        """Missing and unexpected rows for a Comparison, rows that pair up left out."""
        missing, unexpected = Counter(left), Counter(right)
        if self.contract.duplicates == "ignore":
            missing, unexpected = Counter(set(left)), Counter(set(right))
        common = missing & unexpected
        missing, unexpected = missing - common, unexpected - common
        _cancel_near(missing, unexpected, self.tolerances)
        return {
            "missing": _sample(missing),
            "unexpected": _sample(unexpected),
            "missing_count": sum(missing.values()),
            "unexpected_count": sum(unexpected.values()),
        }


class _Best:
    """The rows that a `top` contract chooses from: those above the cut, and those tied at it."""

    def __init__(self, view: _View, top: Top) -> None:
        self.view = view
        self.rows = list(view.want.rows())
        rows = view.sorted_by(self.rows, top.keys)
        above = length = 0
        for length in view.tied(rows, top.keys):
            if above + length >= top.number:
                break
            above += length
        self.better, self.tied = rows[:above], rows[above : above + length]
        every = len(self.better) + len(self.tied)
        self.number = every if top.ties else min(top.number, every)

    def choice(self) -> list[Row]:
        return self.view.kept(self.better + self.tied)

    def held_by(self, got: list[Row]) -> bool:
        """Whether these are the best rows: all above the cut, enough of those tied at it."""
        if len(got) != self.number:
            return False
        kept = self.view.kept
        return _covers(kept(self.better), kept(self.tied), got, self.view.tolerances)

    def in_order(self, got: list[Row], order: Union[str, tuple[SortKey, ...]]) -> bool:
        """Whether the chosen rows come in the contract's order; rows that tie may swap."""
        chosen = {id(row) for row in self.better + self.tied}
        rows = [row for row in self.rows if id(row) in chosen]
        runs = [1] * len(rows)
        if not isinstance(order, str):
            rows = self.view.sorted_by(rows, order)
            runs = self.view.tied(rows, order)
        run_of = [run for run, length in enumerate(runs) for _ in range(length)]
        free = list(zip(run_of, self.view.kept(rows)))
        now = 0
        for row in got:
            fits = (
                i
                for i, (run, other) in enumerate(free)
                if run >= now and _agree(row, other, self.view.tolerances)
            )
            at = next(fits, None)
            if at is None:
                return False
            now = free.pop(at)[0]
        return True


def _all_found(rows: set[Row], among: Iterator[Row]) -> bool:
    """Whether every row occurs among the others; reads only as far as it must."""
    for row in among:
        rows.discard(row)
        if not rows:
            return True
    return not rows


def _sample(rows: Counter[Row]) -> tuple[tuple[Row, int], ...]:
    return tuple(islice(rows.items(), SAMPLE_ROWS))


def _chunks_at(rows: Iterator[Row], wanted: set[int]) -> list[Row]:
    found: list[Row] = []
    for i in range(max(wanted, default=-1) + 1):
        chunk = islice(rows, CHUNK)
        if i in wanted:
            found += chunk
        else:
            next(islice(chunk, CHUNK, CHUNK), None)
    return found


def project(rows: Iterable[Row], picks: Sequence[int], width: int) -> Iterable[Row]:
    """The rows with only the picked columns, in that order."""
    if tuple(picks) == tuple(range(width)):
        return rows
    if len(picks) == 1:
        return ((row[picks[0]],) for row in rows)
    from operator import itemgetter

    return map(itemgetter(*picks), rows)


def _read_row(row: Row, readers: Sequence[Any]) -> Row:
    return tuple(read(cell) if read else cell for read, cell in zip(readers, row))


class _Buckets:
    """Rows of two large results by the hash of their exact cells: equal parts are done with."""

    def __init__(self, loose: set[int]) -> None:
        from array import array

        self.loose = loose  # columns whose numbers may differ within a tolerance
        self.sums = [0] * BUCKETS
        self.ids = array("H"), array("H")

    @classmethod
    def spread(
        cls, left: Callable[[], Iterator[Row]], right: Callable[[], Iterator[Row]], loose: set[int]
    ) -> _Buckets:
        """Both results spread out. A column proves loose by its first float; that begins anew."""
        while True:
            buckets = cls(loose)
            floats = buckets._add(left(), 0) or buckets._add(right(), 1)
            if not floats:
                return buckets
            loose = loose | floats

    def _add(self, rows: Iterator[Row], side: int) -> set[int]:
        sums, ids, sign = self.sums, self.ids[side], 1 - 2 * side
        for chunk in chunks(rows):
            columns: list[Any] = list(zip(*chunk))
            kinds = [set(map(type, column)) for column in columns]
            floats = {i for i, found in enumerate(kinds) if float in found} - self.loose
            if floats:
                return floats
            changed = self.loose | {i for i, found in enumerate(kinds) if bool in found}
            for i in changed:
                columns[i] = list(map(_whole, columns[i]))
            hashes = _hashes(zip(*columns) if changed else chunk)
            for i in self.loose:
                columns[i] = [0 if is_number(c) else c for c in columns[i]]
            keys = [h % BUCKETS for h in (_hashes(zip(*columns)) if self.loose else hashes)]
            for key, value in zip(keys, hashes):
                sums[key] += sign * value
            ids.extend(keys)
        return set()

    def gather(
        self, left: Callable[[], Iterator[Row]], right: Callable[[], Iterator[Row]], width: int
    ) -> tuple[list[Row], list[Row], bool]:
        """The rows of buckets that differ, of a few buckets and False where they are too many."""
        apart = bytearray(bool(value) for value in self.sums)
        room = max(GATHER_CELLS // max(width, 1), CHUNK)
        sizes = Counter(itertools.chain(*self.ids))
        complete = sum(size for key, size in sizes.items() if apart[key]) <= room
        if not complete:
            room = HOLD_ROWS
            for key in range(BUCKETS):
                apart[key] = apart[key] and room > 0
                room -= sizes[key] if apart[key] else 0
        most = None if complete else HOLD_ROWS
        picked = [
            list(islice(itertools.compress(rows(), map(apart.__getitem__, ids)), most))
            for rows, ids in zip((left, right), self.ids)
        ]
        return picked[0], picked[1], complete


def _whole(cell: Cell) -> Cell:
    """A number that is whole as an integer, whatever its type, anything else as it is."""
    whole = isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer())
    return int(cell) if whole else cell


def _hashes(rows: Iterable[Row]) -> list[int]:
    return list(map(hash, map(marshal.dumps, rows, itertools.repeat(2))))


# -- rows within a tolerance


def _loose(left: Iterable[Row], right: Iterable[Row], tolerances: Sequence[Tolerance]) -> list[int]:
    """The columns in which numbers may agree without being equal."""
    found = {i for i, rule in enumerate(tolerances) if rule not in (Tolerance(), EXACT)}
    open_columns = {i for i, rule in enumerate(tolerances) if rule == Tolerance()}
    for chunk in itertools.chain(chunks(left), chunks(right)) if open_columns else ():
        for i, column in enumerate(zip(*chunk)):
            if i in open_columns and float in set(map(type, column)):
                found.add(i)
                open_columns.discard(i)
    return sorted(found)


def _groups(rows: Iterable[Row], loose: Sequence[int]) -> dict[Row, list[Row]]:
    found: dict[Row, list[Row]] = {}
    for row in rows:
        exact = list(row)
        numbers = []
        for i in loose:
            if is_number(row[i]):
                numbers.append(row[i])
                exact[i] = LOOSE
            else:
                numbers.append(None)
        found.setdefault(tuple(exact), []).append(tuple(numbers))
    return found


LOOSE = object()


def _widened(tolerance: Tolerance, steps: int) -> Tolerance:
    """A tolerance at least as wide as so many steps of the given one, INFINITY past all use."""
    if tolerance.decimals is not None:
        return Tolerance(decimals=tolerance.decimals - len(str(steps + 1)))
    relative = RELATIVE if tolerance.relative is None else tolerance.relative
    wide = 2 * relative * (steps + 1)
    return Tolerance(relative=wide if wide < 0.5 else INFINITY)


def _same_multiset(left: list[Row], right: list[Row], tolerances: Sequence[Tolerance]) -> bool:
    """Whether the rows pair up, each with one that agrees in every cell."""
    if len(left) != len(right):
        return False
    if Counter(left) == Counter(right):
        return True
    loose = _loose(left, right, tolerances)
    if not loose:
        return False
    wanted, found = _groups(left, loose), _groups(right, loose)
    if wanted.keys() != found.keys():
        return False
    if any(len(rows) != len(found[key]) for key, rows in wanted.items()):
        return False
    rules = [tolerances[i] for i in loose]
    return all(_pair_up(rows, found[key], rules) for key, rows in wanted.items())


def _same_set(left: list[Row], right: list[Row], tolerances: Sequence[Tolerance]) -> bool:
    """Whether each row of either side agrees with some row of the other."""
    wanted, found = dict.fromkeys(left), dict.fromkeys(right)
    if wanted.keys() == found.keys():
        return True
    return _each_has_one(list(wanted), list(found), tolerances) and _each_has_one(
        list(found), list(wanted), tolerances
    )


def _each_has_one(rows: list[Row], others: list[Row], tolerances: Sequence[Tolerance]) -> bool:
    loose = _loose(rows, others, tolerances)
    groups = _groups(others, loose)
    rules = [tolerances[i] for i in loose]
    for key, members in _groups(rows, loose).items():
        if not all(_near(members, groups.get(key, []), rules)):
            return False
    return True


def _covers(
    better: list[Row], tied: list[Row], got: list[Row], tolerances: Sequence[Tolerance]
) -> bool:
    """Whether `got` holds every row of `better` and beyond them only rows of `tied`.

    One pairing that does both exists exactly where one does the first and another the second
    (Mendelsohn and Dulmage, 1958).
    """
    rest = Counter(got)
    rest.subtract(Counter(better))
    if min(rest.values(), default=0) >= 0 and not rest - Counter(tied):
        return True
    loose = _loose([*better, *tied], got, tolerances)
    if not loose:
        return False
    return _injects(better, got, loose, tolerances) and _injects(
        got, [*better, *tied], loose, tolerances
    )


def _injects(
    rows: list[Row], into: list[Row], loose: list[int], tolerances: Sequence[Tolerance]
) -> bool:
    """Whether each row has a partner of its own among the others."""
    groups = _groups(into, loose)
    rules = [tolerances[i] for i in loose]
    return all(
        matching(_near(members, groups.get(key, []), rules))
        for key, members in _groups(rows, loose).items()
    )


def _pair_up(left: list[Row], right: list[Row], rules: Sequence[Tolerance]) -> bool:
    """Whether two equally long lists of numbers pair up within the tolerances."""
    ordered = zip(sorted(left, key=_sortable), sorted(right, key=_sortable))
    if all(_agree(a, b, rules) for a, b in ordered):
        return True
    # In one column sorted order pairs up whatever can be paired, so this is the end; only integers,
    # which agree with nothing but themselves, leave other cases open.
    if len(rules) == 1 and not any(isinstance(cell, int) for row in left + right for cell in row):
        return False
    return matching(_near(left, right, rules))


def _sortable(numbers: Row) -> Row:
    return tuple((cell is not None, cell or 0) for cell in numbers)


def _agree(a: Row, b: Row, rules: Sequence[Tolerance]) -> bool:
    return all(map(cells_agree, a, b, rules))


def _near(left: list[Row], right: list[Row], rules: Sequence[Tolerance]) -> list[list[int]]:
    """For each left row the right rows that agree with it. Raises SearchCut past PAIR_STEPS."""
    if not rules or not right:
        return [list(range(len(right))) for _ in left]
    # The column with the most values narrows the search best.
    column = max(range(len(rules)), key=lambda i: len({row[i] for row in right}))
    numbers = sorted((row[column], j) for j, row in enumerate(right) if row[column] is not None)
    values = [value for value, _ in numbers]
    found = []
    steps = 0
    for row in left:
        a = row[column]
        if a is None:
            near: Iterable[int] = range(len(right))
        else:
            reach = _reach(a, rules[column])
            low, high = bisect_left(values, a - reach), bisect_right(values, a + reach)
            near = (j for _, j in numbers[low:high])
        edges = []
        for j in near:
            steps += 1
            if steps > PAIR_STEPS:
                raise SearchCut(f"more than {PAIR_STEPS:,} pairs lie within the tolerance")
            if _agree(row, right[j], rules):
                edges.append(j)
        found.append(edges)
    return found


def _reach(a: Any, rule: Tolerance) -> Any:
    """A little more than the distance at which a number can still agree with `a`."""
    if a in (INFINITY, -INFINITY):
        return 0
    if rule.decimals is not None:
        return 0.50001 * 10.0**-rule.decimals + 1e-12 * abs(float(a))
    relative = RELATIVE if rule.relative is None else rule.relative
    return abs(float(a)) * relative / (1 - relative) * 1.00001


def matching(edges: Sequence[Sequence[int]]) -> bool:
    """Whether every left node gets a right node of its own (augmenting paths, breadth first)."""
    taken: dict[int, int] = {}
    mate: dict[int, int] = {}
    for start in range(len(edges)):
        came: dict[int, int] = {}
        free = None
        queue = [start]
        for node in queue:
            for right in edges[node]:
                if right not in came:
                    came[right] = node
                    if right not in taken:
                        free = right
                        break
                    queue.append(taken[right])
            if free is not None:
                break
        if free is None:
            return False
        while free is not None:
            node = came[free]
            taken[free], mate[node], free = node, free, mate.get(node)
    return True


def _cancel_near(
    missing: Counter[Row], unexpected: Counter[Row], tolerances: Sequence[Tolerance]
) -> None:
    """Takes out pairs of rows that agree within the tolerance, first come first served."""
    if len(missing) * len(unexpected) > PAIR_STEPS // 10:
        return
    for row in list(missing):
        for other in list(unexpected):
            if missing[row] and all(map(cells_agree, row, other, tolerances)):
                both = min(missing[row], unexpected[other])
                missing[row] -= both
                unexpected[other] -= both
                if not unexpected[other]:
                    del unexpected[other]
        if not missing[row]:
            del missing[row]


# -- order


def _column_at(columns: Sequence[str], name: str) -> int:
    return [column.lower() for column in columns].index(name.lower())


def sort_value(cell: Cell) -> tuple[int, Any]:
    """A key that sorts cells as SQLite does: NULL, numbers, text, blobs."""
    if cell is None:
        return 0, 0
    if isinstance(cell, str):
        return 2, cell.encode("utf-8", "surrogateescape")
    return (3, cell) if isinstance(cell, bytes) else (1, cell)


def tied_runs(keys: Iterable[Row], tolerances: Sequence[Tolerance]) -> list[int]:
    """The lengths of the runs of consecutive rows whose keys agree with the run's first."""
    runs: list[int] = []
    first: Optional[Row] = None
    for key in keys:
        if first is not None and _agree(first, key, tolerances):
            runs[-1] += 1
        else:
            runs.append(1)
            first = key
    return runs


def _goes_one_way(rows: list[Row], keys: Sequence[SortKey]) -> bool:
    """Whether rows of sort keys are in sequence, NULLs and the case of letters aside."""
    for before, after in zip(rows, rows[1:]):
        for a, b, key in zip(before, after, keys):
            if a is None or b is None:
                if a is b:
                    continue
                break  # NULLs may stand first or last
            a, b = sort_value(_folded(a)), sort_value(_folded(b))
            if a != b:
                if (a > b) != key.descending:
                    return False
                break
    return True


def _folded(cell: Cell) -> Cell:
    return cell.casefold() if isinstance(cell, str) else cell


def _distinct_runs(rows: list[Row], runs: list[int]) -> list[int]:
    """The lengths of the runs once rows that came before are left out."""
    seen: set[Row] = set()
    found = []
    at = 0
    for length in runs:
        new = [row for row in dict.fromkeys(rows[at : at + length]) if row not in seen]
        seen.update(new)
        at += length
        if new:
            found.append(len(new))
    return found


def _first_apart(
    left: Iterator[Row], right: Iterator[Row], runs: Iterable[int], rules: Sequence[Tolerance]
) -> Optional[tuple[int, Row, Row]]:
    """The first position where two sequences differ, and the rows there; None where nowhere."""
    at = 0
    for length in runs:
        want, got = list(islice(left, length)), list(islice(right, length))
        if not want and not got:
            return None
        if not _same_multiset(want, got, rules):
            return _within_run(at, want, got)
        at += length
    extra = next(right, None)
    return None if extra is None else (at, (), extra)


def _within_run(at: int, want: list[Row], got: list[Row]) -> tuple[int, Row, Row]:
    rest = Counter(want)
    for i, (wanted, row) in enumerate(itertools.zip_longest(want, got, fillvalue=())):
        if not rest[row]:
            return at + i, wanted, row
        rest[row] -= 1
    return at, want[0] if want else (), got[0] if got else ()


# -- columns


def rungs(want: Result, got: Result, contract: Contract) -> Iterator[Iterator[Alignment]]:
    """The ladder of ways in which the candidate's columns may stand for the reference's."""
    for kept in _kept_columns(want, got, contract):
        names = contract.columns in ("auto", "names")
        if names and got.width != len(kept):
            yield _by_name(want, got, kept, contract)
        if contract.columns in ("auto", "position"):
            yield _by_position(want, got, kept, contract)
        if names and got.width == len(kept):
            yield _by_name(want, got, kept, contract)
        if contract.columns == "auto":
            yield _by_kind(want, got, kept)
        if contract.columns == "any":
            yield _by_search(want, got, kept, contract)


def _kept_columns(want: Result, got: Result, contract: Contract) -> Iterator[tuple[int, ...]]:
    """The reference's columns to compare: all of them, then without optional ones."""
    optional = [
        i for i, name in enumerate(want.columns) if name.lower() in _lower(contract.optional)
    ]
    if contract.extra == "allow":  # else a column that is there but wrong would count as left out
        optional = [i for i in optional if want.columns[i].lower() not in _lower(got.columns)]
    for gone in range(len(optional) + 1):
        surplus = got.width - (want.width - gone)
        if surplus == 0 or (surplus > 0 and contract.extra == "allow"):
            # What is left out is rather what stands last.
            for left_out in itertools.combinations(reversed(optional), gone):
                kept = tuple(i for i in range(want.width) if i not in left_out)
                if kept:
                    yield kept


def _by_position(
    want: Result, got: Result, kept: tuple[int, ...], contract: Contract
) -> Iterator[Alignment]:
    """By position; where the candidate has more columns, every choice that keeps their order."""
    if got.width == len(kept):
        yield Alignment(kept, tuple(range(got.width)))
        return
    loosened = contract.duplicates == "ignore" or contract.top or contract.text
    if loosened or contract.time or contract.date or not (want.held and got.held):
        possible = [set(range(got.width))] * len(kept)
    else:
        possible = _look_alikes(want, got, kept)
    yield from (Alignment(kept, picks) for picks in _choices(possible))


def _choices(possible: Sequence[set[int]]) -> Iterator[tuple[int, ...]]:
    """Increasing choices, one from each set; SearchCut after SUBSETS of them."""
    for tried, picks in enumerate(_increasing(possible)):
        if tried == SUBSETS:
            raise SearchCut(f"more than {SUBSETS} ways to leave columns out")
        yield picks


def _increasing(possible: Sequence[set[int]]) -> Iterator[tuple[int, ...]]:
    """Increasing choices, one from each set, in lexical order; without recursion, for wide rows."""
    # The largest pick at each place that leaves one for every place behind it.
    latest: list[int] = []
    for picks in reversed(possible):
        latest.append(max((p for p in picks if not latest or p < latest[-1]), default=-1))
    latest.reverse()
    chosen: list[int] = []
    open_sets = [iter(sorted(possible[0]))]
    while open_sets:
        after = chosen[-1] if chosen else -1
        at = len(chosen)
        pick = next((p for p in open_sets[-1] if after < p <= latest[at]), None)
        if pick is None:
            open_sets.pop()
            del chosen[-1:]
        elif at == len(possible) - 1:
            yield (*chosen, pick)
        else:
            chosen.append(pick)
            open_sets.append(iter(sorted(possible[at + 1])))


def _subsets(got: Result, kept: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Every way to leave out columns of the candidate until as many are left as are compared."""
    if got.width == len(kept):
        return iter([tuple(range(got.width))])
    return _choices([set(range(got.width))] * len(kept))


def _look_alikes(want: Result, got: Result, kept: tuple[int, ...]) -> list[set[int]]:
    """For each kept column the candidate's columns whose cells other than numbers are the same."""

    def looks(result: Result) -> list[Any]:
        columns = list(zip(*result.rows())) or [()] * result.width
        return [frozenset(Counter(c for c in col if not is_number(c)).items()) for col in columns]

    wanted, found = looks(want), looks(got)
    return [{j for j, look in enumerate(found) if look == wanted[i]} for i in kept]


def _by_name(
    want: Result, got: Result, kept: tuple[int, ...], contract: Contract
) -> Iterator[Alignment]:
    """By name, where both results use the same distinct names."""
    aliases = {name.lower(): _lower(others) for name, others in contract.alias.items()}
    names = [column.lower() for column in got.columns]
    picks: list[int] = []
    for i in kept:
        name = want.columns[i].lower()
        at = [j for j, other in enumerate(names) if other == name or other in aliases.get(name, ())]
        if len(at) != 1 or at[0] in picks:
            return
        picks.append(at[0])
    yield Alignment(kept, tuple(picks))


def _by_kind(want: Result, got: Result, kept: tuple[int, ...]) -> Iterator[Alignment]:
    """By kind: by storage kind, then with integers and reals as one kind."""
    if not want.count or not got.count or len(kept) == 1:
        return
    wanted, found = want.kinds(), got.kinds()
    for picks in _subsets(got, kept):
        for merge in (lambda kind: kind, lambda kind: frozenset(map(_merged, kind))):
            left = [merge(wanted[i]) for i in kept]
            right = [merge(found[j]) for j in picks]
            if Counter(left) == Counter(right):
                places: dict[Any, list[int]] = {}
                for j, kind in zip(picks, right):
                    places.setdefault(kind, []).append(j)
                yield Alignment(kept, tuple(places[kind].pop(0) for kind in left))


def _by_search(
    want: Result, got: Result, kept: tuple[int, ...], contract: Contract
) -> Iterator[Alignment]:
    """One permutation, whatever it is."""
    for picks in _subsets(got, kept):
        view = _View(want, got, Alignment(kept, picks), contract)
        for order in _orders(view):
            yield Alignment(kept, tuple(picks[i] for i in order))


def _orders(view: _View) -> Iterator[tuple[int, ...]]:
    """The orders of a view's candidate columns that are worth a try."""
    width, contract = len(view.alignment.kept), view.contract
    if not view.want.count or not view.got.count or width == 1:
        yield tuple(range(width))
        return
    left, right = list(view.left()), list(view.right())
    if contract.order == "exact" and set(view.tolerances) == {EXACT}:
        yield from _column_places(left, right)
        return
    if contract.duplicates == "ignore" and not _loose(left, right, view.tolerances):
        left, right = list(dict.fromkeys(left)), list(dict.fromkeys(right))
    elif contract.duplicates == "ignore" or contract.top or contract.time or contract.date:
        # Rows need not be equally many, or a column's place decides how it is read.
        if width > PERMUTED:
            raise SearchCut(f"{width} columns are too many to try every order of them")
        yield from itertools.permutations(range(width))
        return
    yield from column_permutations(left, right, view.tolerances)


def _column_places(left: list[Row], right: list[Row]) -> Iterator[tuple[int, ...]]:
    """The order in which the right columns are the left ones, cell by cell in sequence."""
    places: dict[Row, list[int]] = {}
    for j, column in enumerate(zip(*right)):
        places.setdefault(column, []).append(j)
    columns = list(zip(*left))
    if all(len(places.get(column, ())) >= count for column, count in Counter(columns).items()):
        yield tuple(places[column].pop(0) for column in columns)


def _merged(kind: str) -> str:
    return "number" if kind in ("integer", "real") else kind


def column_permutations(
    left: list[Row], right: list[Row], tolerances: Sequence[Tolerance]
) -> Iterator[tuple[int, ...]]:
    """Permutations of the right columns under which the rows may match, promising ones only.

    Colour refinement: columns and rows are told apart by what they hold, round by round, so that 26
    columns take a few passes over the cells. Where columns stay alike one is singled out and the
    rest refined again. Numbers that may agree count as one value, so no match is lost.
    Raises SearchCut when the work grows too large; the caller checks what is yielded.
    """
    if not left or len(left) != len(right):
        return
    numbering = _Numbering([*left, *right], tolerances)
    wanted, found = list(zip(*numbering.rows(left))), list(zip(*numbering.rows(right)))
    typed: list[Any] = [tuple((type(cell), cell) for cell in column) for column in zip(*right)]
    typed = found if set(tolerances) == {EXACT} else typed
    left_groups, right_groups = _alike(wanted), _alike(found)
    if any(typed[j] != typed[group[0]] for group in right_groups for j in group):
        left_groups, right_groups = (
            [[i] for i in range(len(wanted))],
            [[j] for j in range(len(found))],
        )
    # Columns that are the same stand for each other, so one of each is looked at.
    search = _ColumnSearch(
        list(zip(*(wanted[group[0]] for group in left_groups))),
        list(zip(*(found[group[0]] for group in right_groups))),
        [typed[group[0]] for group in right_groups],
    )
    start = [[len(group) for group in groups] for groups in (left_groups, right_groups)]
    if sorted(start[0]) != sorted(start[1]):
        return
    for picks in search.run(start):
        order = [0] * len(wanted)
        for group, pick in zip(left_groups, picks):
            for i, j in zip(group, right_groups[pick]):
                order[i] = j
        yield tuple(order)


def _alike(columns: Sequence[Any]) -> list[list[int]]:
    """The columns in groups that hold the same cells in the same sequence."""
    groups: dict[Any, list[int]] = {}
    for i, column in enumerate(columns):
        groups.setdefault(column, []).append(i)
    return list(groups.values())


class _Numbering:
    """Numbers for cells: the same for cells that may agree."""

    def __init__(self, rows: list[Row], tolerances: Sequence[Tolerance]) -> None:
        loosest = [t for t in tolerances if t != Tolerance()]
        rules = [rule for rule in {Tolerance(), *tolerances} if rule != EXACT]
        rules = [] if set(tolerances) == {EXACT} else rules
        numbers = sorted({cell for row in rows for cell in row if is_number(cell)})
        floats = {cell for cell in itertools.chain(*rows) if isinstance(cell, float)}
        self.ids: dict[Any, int] = {}
        for before, cell in zip([None, *numbers], numbers):
            whole = not loosest and cell not in floats and before not in floats
            near = (
                before is not None
                and not whole
                and any(
                    abs(cell - before) <= _reach(cell, rule) + _reach(before, rule)
                    for rule in rules
                )
            )
            self.ids[0, cell] = len(self.ids) if not near else self.ids[0, before]

    def rows(self, rows: list[Row]) -> list[list[int]]:
        ids = self.ids
        return [
            [ids.setdefault((0 if is_number(c) else type(c), c), len(ids)) for c in row]
            for row in rows
        ]


class _ColumnSearch:
    """Colour refinement over the rows and columns of two tables of numbers."""

    def __init__(self, left: list[Row], right: list[Row], found: Sequence[Any]) -> None:
        self.tables = left, right
        self.found = found  # the right columns as they are: cells that may agree stay apart
        self.columns = [list(zip(*table)) for table in self.tables]
        self.refinements = 0
        self.cells = 0

    def run(self, colours: list[list[int]]) -> Iterator[tuple[int, ...]]:
        refined = self._refine(colours)
        if refined is None:
            return
        left, right = refined
        places: dict[int, list[int]] = {}
        for j, colour in enumerate(right):
            places.setdefault(colour, []).append(j)
        alike = [i for i, colour in enumerate(left) if len(places[colour]) > 1]
        if not alike:
            yield tuple(places[colour][0] for colour in left)
            return
        i = min(alike, key=lambda i: len(places[left[i]]))
        tried = set()
        for j in places[left[i]]:
            if self.found[j] in tried:
                continue  # the same column once more leads nowhere else
            tried.add(self.found[j])
            yield from self.run([_marked(left, i), _marked(right, j)])

    def _refine(self, colours: list[list[int]]) -> Optional[list[list[int]]]:
        """Column colours that tell apart all that rounds of looking at rows and columns can."""
        while True:
            self.refinements += 1
            self.cells += sum(map(len, self.tables)) * len(colours[0])
            if self.refinements > REFINEMENTS or self.cells > SEARCH_CELLS:
                raise SearchCut("the columns are too much alike to try every order")
            names: dict[Any, int] = {}
            finer = [self._round(side, colours[side], names) for side in (0, 1)]
            if sorted(finer[0]) != sorted(finer[1]):
                return None
            if len(set(finer[0])) == len(set(colours[0])):
                return finer
            colours = finer

    def _round(self, side: int, colours: list[int], names: dict[Any, int]) -> list[int]:
        rows = []
        for row in self.tables[side]:
            rows.append(names.setdefault(tuple(sorted(zip(colours, row))), len(names)))
        return [
            names.setdefault((colour, tuple(sorted(zip(rows, column)))), len(names))
            for colour, column in zip(colours, self.columns[side])
        ]


def _marked(colours: list[int], at: int) -> list[int]:
    return [-1 if i == at else colour for i, colour in enumerate(colours)]


# -- words


def describe(comparison: Comparison, shown: int = SHOWN_ROWS) -> str:
    """One line on how the results differ: rows got and wanted, the first missing and unexpected."""
    c = comparison
    parts = [f"got {counted(c.got_count, 'row')}, wanted {counted(c.want_count, 'row')}"]
    if c.note:
        parts.insert(
            0 if c.reason in ("columns", "order", "type", "reference_error") else 1, c.note
        )
    for word, rows, count in (
        ("missing", c.missing, c.missing_count),
        ("unexpected", c.unexpected, c.unexpected_count),
    ):
        if rows:
            listed = ", ".join(f"{show_row(row)} x{n}" for row, n in rows[:shown])
            rest = count - sum(n for _, n in rows[:shown])
            parts.append(f"{word} {listed}" + (f" and {rest:,} more" if rest > 0 else ""))
    return "; ".join(parts)


# ---- 8. statistics -------------------------------------------------------------------------------


def wilson(passed: int, total: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """The Wilson score interval of a share, as two shares; 95% by default.

    Wilson (1927), J. Am. Stat. Assoc. 22, 209-212. (0, 1) where there is nothing to count.
    """
    if total == 0:
        return 0.0, 1.0
    share = passed / total
    centre = share + z * z / (2 * total)
    spread = z * (share * (1 - share) / total + z * z / (4 * total * total)) ** 0.5
    scale = 1 + z * z / total
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


# ---- 9. engines ----------------------------------------------------------------------------------
#
# An engine is one question's connection: opened, guarded, used for both queries, closed. What comes
# out is a Result or a QueryError with a reason word, never a bare database exception.

# Everything that reads its arguments and the data, and nothing else. Left out on purpose:
# load_extension, fts3_tokenizer, readfile, writefile, edit, sqlite_*, randomblob, zeroblob.
ALLOWED_FUNCTIONS = frozenset(
    (
        "abs", "changes", "char", "coalesce", "concat", "concat_ws", "format", "glob", "hex",
        "if", "ifnull", "iif", "instr", "last_insert_rowid", "length", "like", "likelihood",
        "likely", "lower", "ltrim", "max", "min", "nullif", "octet_length", "printf", "quote",
        "random", "replace", "round", "rtrim", "sign", "soundex", "substr", "substring",
        "total_changes", "trim", "typeof", "unhex", "unicode", "unistr", "unistr_quote",
        "unlikely", "upper",
        "avg", "count", "group_concat", "string_agg", "sum", "total", "median", "percentile",
        "percentile_cont", "percentile_disc", "cume_dist", "dense_rank", "first_value", "lag",
        "last_value", "lead", "nth_value", "ntile", "percent_rank", "rank", "row_number",
        "date", "time", "datetime", "julianday", "strftime", "unixepoch", "timediff",
        "current_date", "current_time", "current_timestamp",
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "ceiling", "cos",
        "cosh", "degrees", "exp", "floor", "ln", "log", "log10", "log2", "mod", "pi", "pow",
        "power", "radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
        "json", "json_array", "json_array_length", "json_error_position", "json_extract",
        "json_group_array", "json_group_object", "json_insert", "json_object", "json_patch",
        "json_pretty", "json_quote", "json_remove", "json_replace", "json_set", "json_type",
        "json_valid", "json_each", "json_tree", "jsonb", "jsonb_array", "jsonb_extract",
        "jsonb_group_array", "jsonb_group_object", "jsonb_insert", "jsonb_object",
        "jsonb_patch", "jsonb_remove", "jsonb_replace", "jsonb_set", "jsonb_each",
        "jsonb_tree", "->", "->>", "subtype",
        "bm25", "highlight", "snippet", "match", "regexp",
    )
)  # fmt: skip
OTHER_STATEMENTS = frozenset(
    (
        "ALTER", "ANALYZE", "ATTACH", "BEGIN", "COMMIT", "CREATE", "DELETE", "DETACH", "DROP",
        "END", "EXPLAIN", "INSERT", "PRAGMA", "REINDEX", "RELEASE", "REPLACE", "ROLLBACK",
        "SAVEPOINT", "UPDATE", "VACUUM",
    )
)  # fmt: skip
HIDDEN_TABLES = frozenset(("sqlite_stmt", "dbstat", "sqlite_dbpage", "bytecode", "tables_used"))
SQLITE_MAGIC = b"SQLite format 3\x00"
ASK_LIMIT = 20.0  # seconds for a statement of our own
SLACK = 0.6  # seconds that a query may run past its limit while it has not had the processor for it
TICK = 20_000  # SQLite instructions between two looks at the clock; costs nothing measurable


class QueryError(Exception):
    """A query that gave no result: a reason word and what there is to say."""

    def __init__(self, reason: str, text: str, final: bool = True) -> None:
        super().__init__(text)
        self.reason, self.text = reason, text
        self.final = final  # False where a second try alone on the machine might end otherwise


class Database(NamedTuple):
    """A database file as the worker opens it, and what identifies its content."""

    uri: str
    source: str  # what its digest is of: the database itself, a private copy of it, or its dump
    name: str  # the file as it was given


class SqliteEngine:
    """A guarded read-only connection to a SQLite file, inside one read transaction."""

    def __init__(
        self,
        uri: str,
        tables: Sequence[str],
        max_rows: int,
        guard: Any,
        params: Optional[Mapping[str, Cell]] = None,
        preset: str = "",
    ) -> None:
        import sqlite3

        self.sqlite3: Any = sqlite3  # what only some versions offer is asked for with hasattr
        self.uri, self.max_rows, self.guard = uri, max_rows, guard
        self.params, self.preset = params or {}, preset
        self.tables = {name.lower() for name in tables}
        self.views: set[str] = set()  # those of `tables` that are views
        # Before Python 3.11 a second statement is a Warning, and a NUL in the SQL a ValueError.
        self.errors = (
            sqlite3.Error,
            sqlite3.Warning,
            MemoryError,
            ValueError,
            OverflowError,
            TooLarge,
        )
        self.denied = ""
        self.reads: set[tuple[str, str]] = set()  # tables and columns that queries read
        self.calls: set[str] = set()  # functions that they call
        self.trusted = False  # while our own statements run
        self.limit = self.deadline = self.cpu_start = 0.0
        self.expired = False
        self.ticks, self.allowance = 0, INFINITY  # of TICK instructions: what a query took, and may
        self.connection = self._connect()
        self.connection.set_progress_handler(self._tick, TICK)
        self.connection.set_authorizer(self._authorize)

    def _connect(self) -> Any:
        connection = self.sqlite3.connect(self.uri, uri=True, isolation_level=None)
        for pragma in ("query_only = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {pragma}")
        if hasattr(connection, "setlimit"):  # Python 3.11
            connection.setlimit(self.sqlite3.SQLITE_LIMIT_LENGTH, CELL_LIMIT)
            connection.setlimit(self.sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # The transaction begins with the first read. JSON tables are connected now: once the
        # authorizer stands, SQLite may not declare them any more.
        connection.execute("BEGIN")
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()
        try:
            connection.execute("SELECT 1 FROM json_each('[1]'), json_tree('[1]')").fetchall()
        except self.sqlite3.OperationalError:
            pass  # built without JSON
        return connection

    def close(self) -> None:
        self.connection.close()

    def _tick(self) -> int:
        """Whether to stop: the limit is used up, in processor time or, with slack, by the wall.

        On a machine that is a little busy the processor's time still decides.
        """
        self.ticks += 1
        late = time.monotonic() - self.deadline
        if late > 0 and (late > SLACK or time.process_time() - self.cpu_start > self.limit):
            self.expired = True
        self.expired = self.expired or self.ticks > self.allowance
        return int(self.expired)

    def _authorize(
        self, action: int, a: Optional[str], b: Optional[str], _: Optional[str], view: Optional[str]
    ) -> int:
        """SQLite asks this for each thing that a statement would do: 0 allows, 1 refuses."""
        if self.trusted:
            return 0
        refusal = self._refusal(action, a or "", b or "", view or "")
        self.denied = self.denied or refusal
        return 1 if refusal else 0

    def _refusal(self, action: int, a: str, b: str, view: str) -> str:
        """Why a statement may not do something, "" where it may."""
        s = self.sqlite3
        if action in (s.SQLITE_SELECT, s.SQLITE_RECURSIVE):
            return ""
        if action == s.SQLITE_READ:
            name = a.lower()
            self.reads.add((name, b.lower()))
            hidden = name in HIDDEN_TABLES or name.startswith("pragma_")
            if self.tables and name and not name.startswith("json_"):
                # A CTE's name comes as a view's too, so only a real view is believed.
                hidden = hidden or not (name in self.tables or view.lower() in self.views)
            return f"the table {a} may not be read" if hidden else ""
        if action == s.SQLITE_FUNCTION:
            self.calls.add(b.lower())
            return "" if b.lower() in ALLOWED_FUNCTIONS else f"the function {b} may not be called"
        word = ACTIONS.get(action, "this")
        return f"an answer may only read; {word}{f' {a}' if a else ''} was refused"

    def run(self, sql: str, limit: float) -> Result:
        """What the query returns, as read within `limit` seconds. Raises QueryError."""
        text = self._statement(sql, limit)
        try:
            return self._take(text, limit)
        except self.sqlite3.OperationalError as error:
            if "decode to UTF-8" not in str(error) or self.preset == "bird":
                raise self.error(error, sql) from None
        except self.errors as error:
            raise self.error(error, sql) from None
        # A cell is not UTF-8: bytes that are not text stand for themselves, losing nothing.
        # Spider's evaluator drops them, and BIRD's gives up.
        self.connection.text_factory = _without_bad_bytes if self.preset == "spider" else _lossless
        try:
            return self._take(text, limit)
        except self.errors as error:
            raise self.error(error, sql) from None

    def _statement(self, sql: str, limit: float) -> str:
        """The one statement in the SQL, its tail cut. Raises QueryError where it is no query."""
        found = statements(sql) if len(sql) <= SQL_LIMIT else []
        reason, detail = screen(sql, found=found)
        if reason:
            raise QueryError(reason, detail or "there is no SQL in it")
        word = first_word(sql)
        if word in OTHER_STATEMENTS:
            raise QueryError("forbidden", f"an answer is a SELECT, not {word}")
        text = sql[: found[-1][1]]
        if self.tables:
            self._check_tables(text, limit)
        return text

    def _take(self, text: str, limit: float) -> Result:
        with self.guard:
            cursor = self._again(text, limit)
            if cursor.description is None:
                raise QueryError(
                    "forbidden", "the statement returns no columns, so it is no answer"
                )
            columns = tuple(column[0] for column in cursor.description)
            digest, held = take(iter(cursor), self.max_rows, CELL_LIMIT)
        if held is not None:
            rows = held
            return Result(columns, lambda: rows, digest)
        return Result(columns, lambda: self._again(text, limit), digest, held=False)

    def _again(self, text: str, limit: float) -> Any:
        self._start_clock(limit)
        if self.params:
            return self.connection.execute(text, self.params)
        return self.connection.execute(text)

    def _start_clock(self, limit: float) -> None:
        self.denied = ""
        self.expired, self.ticks = False, 0
        self.limit, self.cpu_start = limit, time.process_time()
        self.deadline = time.monotonic() + limit

    def ask(self, sql: str, *params: Cell, most: float = INFINITY) -> list[Row]:
        """The rows of a statement of our own, which takes at most so many ticks.

        Raises QueryError.
        """
        factory, allowance = self.connection.text_factory, self.allowance
        self.allowance = most
        self.connection.text_factory = _with_marks
        self._start_clock(ASK_LIMIT)
        self.trusted = True
        try:
            return list(self.connection.execute(sql, params))
        except self.errors as error:
            raise self.error(error) from None
        finally:
            self.trusted = False
            self.connection.text_factory, self.allowance = factory, allowance

    def opened(self, sql: str) -> set[str]:
        """The tables whose pages a query opens, in lower case. Raises QueryError."""
        owners: dict[int, str] = dict(
            self.ask("SELECT rootpage, LOWER(tbl_name) FROM sqlite_master")
        )
        (begin, end), *_ = statements(self._statement(sql, ASK_LIMIT))
        factory = self.connection.text_factory
        self.connection.text_factory = _with_marks
        try:
            return _opened(self.connection, sql[begin:end], owners, self.params)
        except self.errors as error:
            raise self.error(error, sql) from None
        finally:
            self.connection.text_factory = factory

    def error(self, error: BaseException, sql: str = "SELECT") -> QueryError:
        """What an exception of this engine means; `sql` is the query that raised it."""
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, QueryError):
            return error
        if self.expired:
            used = time.process_time() - self.cpu_start
            final = used >= 0.9 * self.limit or self.ticks > self.allowance
            return QueryError("timeout", over_limit(self.limit), final)
        if self.denied or re.fullmatch(r"table \S+ may not be modified", text):
            return QueryError("forbidden", self.denied or text)
        # marshal calls a row "unmarshallable" when there is no memory left for its bytes.
        if isinstance(error, MemoryError) or text in ("out of memory", "unmarshallable object"):
            text = "it needs more memory than a query is given"
            return QueryError("too_large", text, final=False)  # alone it is given more
        if isinstance(error, TooLarge) or text == "string or blob too big":
            return QueryError("too_large", text)
        if text.lower().startswith("you can only execute one statement"):
            return QueryError("multiple_statements", "more than one statement; an answer is one")
        if re.match("Incorrect number of bindings|You did not supply a value", text):
            text = "it names a parameter, such as :NAME, that has no value (a set gives it: param)"
        if isinstance(error, UnicodeError):
            text = "the SQL or a column's name holds characters that are no text"
        if first_word(sql) not in QUERY_WORDS:
            text += (
                "; an answer begins with SELECT, WITH or VALUES, and prose belongs outside a fence"
            )
        if "OUTER JOINs are not currently supported" in text:
            text += f" by SQLite {self.sqlite3.sqlite_version}, which is too old: 3.39 brought them"
        return QueryError("sql_error", text)

    def _check_tables(self, text: str, limit: float) -> None:
        """Refuses a query that opens a table outside `tables`.

        NATURAL JOIN and USING reach a table without asking the authorizer, so the pages that the
        plan opens are looked at, on a connection of its own without one.
        """
        (begin, end), *_ = statements(text)
        trusted = self._connect()
        trusted.text_factory = _with_marks
        trusted.set_progress_handler(self._tick, TICK)
        self._start_clock(limit)
        try:
            owners = dict(trusted.execute("SELECT rootpage, LOWER(tbl_name) FROM sqlite_master"))
            views = trusted.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall()
            named = {name.lower(): name for (name,) in views if name.lower() in self.tables}
            self.views = set(named)
            allowed = set(self.tables)
            for view in named.values():
                allowed |= _opened(trusted, f"SELECT * FROM {quoted_name(view)}", owners, {})
            outside = _opened(trusted, text[begin:end], owners, self.params) - allowed
        except self.errors as error:
            raise self.error(error, text) from None
        finally:
            trusted.close()
        if outside:
            raise QueryError("forbidden", f"the table {sorted(outside)[0]} may not be read")


def _opened(
    connection: Any, sql: str, owners: Mapping[int, str], params: Mapping[str, Cell]
) -> set[str]:
    """The tables whose pages a query opens, in lower case."""
    explain = f"EXPLAIN {sql}"
    cursor = connection.execute(explain, params) if params else connection.execute(explain)
    return {
        owners.get(row[3], "sqlite_master")
        for row in cursor.fetchall()
        if row[1] == "OpenRead" and row[4] == 0
    }


def _lossless(data: Optional[bytes]) -> str:
    if data is None:  # Python 3.9 where SQLite ran out of memory
        raise MemoryError
    return data.decode("utf-8", "surrogateescape")


def _with_marks(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _without_bad_bytes(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


def over_limit(limit: float, job: Optional[Mapping[str, Any]] = None) -> str:
    """Words for a query that took too long; `limit` in seconds, as given or as measured."""
    if job is not None and limit > job.get("timeout", limit):
        return f"not done in {SLOW_FACTOR} times what its reference took"
    return f"not done after {limit:g} s"


# Code 4 and so on are SQLite's own, from its header; sqlite3 names only some of them.
ACTIONS = {
    1: "CREATE INDEX", 2: "CREATE TABLE", 3: "CREATE TEMP INDEX", 4: "CREATE TEMP TABLE",
    5: "CREATE TEMP TRIGGER", 6: "CREATE TEMP VIEW", 7: "CREATE TRIGGER", 8: "CREATE VIEW",
    9: "DELETE from", 10: "DROP INDEX", 11: "DROP TABLE", 12: "DROP TEMP INDEX",
    13: "DROP TEMP TABLE", 14: "DROP TEMP TRIGGER", 15: "DROP TEMP VIEW", 16: "DROP TRIGGER",
    17: "DROP VIEW", 18: "INSERT into", 19: "PRAGMA", 22: "the transaction statement",
    23: "UPDATE of", 24: "ATTACH", 25: "DETACH", 26: "ALTER TABLE", 27: "REINDEX", 28: "ANALYZE",
    29: "CREATE VIRTUAL TABLE", 30: "DROP VIRTUAL TABLE", 32: "the savepoint",
}  # fmt: skip


@contextmanager
def readable(path: str) -> Iterator[Database]:
    """A SQLite file to read, without changing it or anything beside it. Raises ScoreError.

    A WAL database that somebody is writing to is copied first; one that nobody has open is read as
    immutable, or SQLite would leave -wal and -shm files beside it.
    """
    try:
        with open(path, "rb") as file:
            header = file.read(100)
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    if not header:
        again = "; remove it, and it is built anew" if path == DEFAULT_DB else ""
        raise ScoreError(f"{path}: is an empty file, no database{again}")
    if header[:16] != SQLITE_MAGIC:
        raise ScoreError(f"{path}: not a SQLite database")
    if 2 not in header[18:20]:
        yield Database(file_uri(path) + "?mode=ro", path, path)
    elif os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
        with private_folder() as folder:
            copy = os.path.join(folder, "copy.db")
            _private_copy(path, copy)
            yield Database(file_uri(copy) + "?mode=ro", copy, path)
    else:
        before = os.stat(path)
        yield Database(file_uri(path) + "?mode=ro&immutable=1", path, path)
        after = os.stat(path)
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise ScoreError(f"{path}: changed while it was read, so no score holds; copy it first")


def file_uri(path: str) -> str:
    """A file's address as SQLite reads it; what Path.as_uri() gives, without its start-up cost."""
    from urllib.parse import quote

    path = os.path.abspath(path)
    if os.name == "nt":
        return "file:///" + quote(path.replace("\\", "/"), safe="/:")
    return "file://" + quote(os.fsencode(path))


def _back_up(source: Any, copy: str) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def _private_copy(path: str, copy: str) -> None:
    """Copies a WAL database with all that is committed, without touching a byte of it."""
    import shutil
    import sqlite3
    from contextlib import closing

    try:
        if os.path.exists(f"{path}-shm"):
            uri = file_uri(path) + "?mode=ro&readonly_shm=1"
            with closing(sqlite3.connect(uri, uri=True)) as source:
                _back_up(source, copy)
        else:
            # Nobody has it open, or there would be a -shm file: the bytes are at rest.
            shutil.copyfile(path, copy)
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        with closing(sqlite3.connect(copy)) as target:
            target.execute("PRAGMA journal_mode = DELETE").fetchall()
    except (sqlite3.Error, OSError) as error:
        raise ScoreError(f"{path}: cannot be copied together with its -wal: {error}") from None


FOLDER_PREFIX = "nl2sql-run-"
FOLDER_AGE = 2  # seconds: a younger folder may not have been locked yet by who made it


@contextmanager
def private_folder() -> Iterator[str]:
    """A folder that nobody else may open (mode 0700), gone when the block ends.

    Where the machine dies first, the next start removes it: nobody holds its lock any more.
    """
    import shutil
    import tempfile

    remove_left_folders()
    folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)
    try:
        with open(os.path.join(folder, "lock"), "wb") as lock:
            _locked(lock)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _locked(file: Any) -> bool:
    """Whether a file could be locked for as long as it is open."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_left_folders() -> None:
    """Removes the private folders of runs that were killed before they could."""
    root = next(filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp")
    try:
        names = [name for name in os.listdir(root) if name.startswith(FOLDER_PREFIX)]
    except OSError:
        return
    for folder in (os.path.join(root, name) for name in names):
        if _is_left(folder):
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: str) -> bool:
    try:
        found = os.lstat(folder)
        own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
        if os.path.islink(folder) or not own or time.time() - found.st_mtime < FOLDER_AGE:
            return False
        path = os.path.join(folder, "lock")
        if os.name == "nt":
            os.remove(path)  # refused while it is open
            return True
        with open(path, "rb") as lock:
            return _locked(lock)
    except FileNotFoundError:
        return not os.listdir(folder)  # it died before it could lock
    except OSError:
        return False


DATABASE_SUFFIXES = (".sqlite", ".sqlite3", ".db")


class Found(NamedTuple):
    """Where a database id was found: its file, which may be a dump, and its test suite."""

    path: str
    suite: tuple[str, ...] = ()

    @property
    def is_dump(self) -> bool:
        return self.path.endswith(".sql")


def find_databases(root: str, needed: Mapping[str, Sequence[str]]) -> dict[str, Found]:
    """The database of each id in a folder; `needed` tells the questions that need it.

    Raises ScoreError with all ids that have none.
    """
    if not os.path.isdir(root):
        raise ScoreError(f"{root}: no such folder; --db-root is the folder that holds databases")
    try:
        found = {id: _find_database(root, id) for id in needed}
        missing = [
            f"{cut(id)} (question {listed(questions)}{_what_is_there(root, id)})"
            for id, questions in needed.items()
            if found[id] is None
        ]
    except (OSError, ValueError) as error:
        raise ScoreError(f"{root}: cannot be searched: {error}") from None
    if missing:
        raise ScoreError(f"{root}: no database for {listed(missing, 8)}")
    return {id: place for id, place in found.items() if place is not None}


def _find_database(root: str, id: str) -> Optional[Found]:
    if id in (".", "..") or os.path.basename(id) != id or re.search(r"[\0/\\:]", id):
        return None  # no name of a file
    folder = os.path.join(root, id)
    files = _database_files(folder)
    named = [f"{id}{suffix}" for suffix in DATABASE_SUFFIXES]
    places = [os.path.join(place, name) for place in (folder, root) for name in named]
    places += [os.path.join(folder, f"{id}.sql"), os.path.join(folder, "schema.sql")]
    places += [os.path.join(root, f"{id}.sql"), *(files if len(files) == 1 else [])]
    first = next(filter(os.path.isfile, places), None)
    suite = [path for path in files if path.endswith(".sqlite") and path != first]
    return None if first is None else Found(first, tuple(suite))


def _database_files(folder: str) -> list[str]:
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if name.endswith(DATABASE_SUFFIXES)]
    return list(filter(os.path.isfile, paths))


def _what_is_there(root: str, id: str) -> str:
    """Words for databases in the id's folder of which none is the obvious one."""
    safe = re.fullmatch(r"[^\0/\\:]+", id) and id not in (".", "..")
    files = _database_files(os.path.join(root, id)) if safe else []
    names = listed([os.path.basename(path) for path in files])
    return f"; of {names} name the one to score {id}.sqlite" if files else ""


def database_size(uri: str) -> list[int]:
    """Tables, columns and foreign keys of a database."""
    import sqlite3
    from contextlib import closing

    own = "WHERE type = 'table' AND name NOT LIKE 'sqlite^_%' ESCAPE '^'"
    counts = "SELECT (SELECT COUNT(*) FROM pragma_table_info(?1)),"
    counts += " (SELECT COUNT(DISTINCT id) FROM pragma_foreign_key_list(?1))"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        names = connection.execute(f"SELECT name FROM sqlite_master {own}").fetchall()
        sizes = [connection.execute(counts, name).fetchone() for name in names]
    return [len(names), sum(size[0] for size in sizes), sum(size[1] for size in sizes)]


# -- dumps

DUMP_LIMIT = 100 * MIB  # of a dump's text, which takes up to six times as much memory
COPY_LIMIT = 1024 * MIB  # of the database that it makes
LOADS = (
    "SQLITE_INSERT", "SQLITE_SELECT", "SQLITE_READ", "SQLITE_UPDATE", "SQLITE_DELETE",
    "SQLITE_CREATE_TABLE", "SQLITE_CREATE_INDEX", "SQLITE_CREATE_VIEW", "SQLITE_CREATE_TRIGGER",
    "SQLITE_DROP_TABLE", "SQLITE_DROP_INDEX", "SQLITE_DROP_VIEW", "SQLITE_DROP_TRIGGER",
    "SQLITE_ALTER_TABLE", "SQLITE_TRANSACTION", "SQLITE_SAVEPOINT", "SQLITE_REINDEX",
    "SQLITE_ANALYZE", "SQLITE_RECURSIVE",
)  # fmt: skip


RENAMES = ("sqlite_rename_", "sqlite_drop_column", "sqlite_add_constraint", "sqlite_fail")


def load_dump(path: str, copy: str) -> None:
    """Builds a database from a dump that nobody trusts. Raises QueryError with the line.

    It may fill its own database and nothing else: no other file, no extension, no PRAGMA.
    """
    import sqlite3
    from contextlib import closing

    allowed = {getattr(sqlite3, name) for name in LOADS}

    def may(action: int, a: Optional[str], b: Optional[str], *_: Optional[str]) -> int:
        if action == sqlite3.SQLITE_PRAGMA:
            return sqlite3.SQLITE_IGNORE  # dumps set them; nothing here depends on it
        if action == sqlite3.SQLITE_FUNCTION:
            name = (b or "").lower()  # SQLite's own ALTER TABLE calls functions of its own
            return int(name not in ALLOWED_FUNCTIONS and not name.startswith(RENAMES))
        return int(action not in allowed)

    with open(path, "rb") as file:
        text, _ = decode(file.read())
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        pages = COPY_LIMIT // 4096
        for pragma in ("journal_mode = OFF", "synchronous = OFF", f"max_page_count = {pages}"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.set_authorizer(may)
        for at, statement in _dump_statements(text):
            try:
                connection.execute(statement)
            except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
                line = text.count("\n", 0, at) + 1
                raise QueryError("sql_error", f"line {line}: {error}") from None
        if connection.in_transaction:
            raise QueryError("sql_error", "it ends inside a transaction, so it was cut off")
        if not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            raise QueryError("sql_error", "it makes no table")


def _dump_statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement of a dump and where it begins; a trigger's own statements stay inside it."""
    from sqlite3 import complete_statement

    begun: Optional[int] = None
    for start, end in statements(text):
        begun = start if begun is None else begun
        statement = text[begun:end] + ";"
        if statement[:6].upper() == "CREATE" and not complete_statement(statement):
            continue
        yield begun, statement
        begun = None
    if begun is not None:
        yield begun, text[begun:]  # SQLite says what it lacks


# ---- 10. variants --------------------------------------------------------------------------------
#
# A survey looks at the tables that two queries read: which rows there are, what never repeats, what
# points where, which values a column takes. A variant is a handful of rows per table that keeps to
# all of it, drawn so that the conditions of both queries are met, just missed and tied. It is made
# in memory; a difference found there is made smaller for as long as it stays one.

EVIDENCE_ROWS = 100_000  # a table with more is judged by a sample
SAMPLED_ROWS = 5_000  # rows of that sample
BASE_ROWS = 400  # real rows of a table that variants start from
PALETTE = 60  # values of a column that are kept
CLOSED = 12  # a domain of so many values, each repeated, takes no others
REPEATED = 3  # how often, on average
MIRRORED = 6  # rows from which on pairs that are all there both ways round are no accident
LEADING = 8  # columns that an evident key may have, where it is not the whole row
LOOK_TICKS = 20  # of TICK instructions, that looking up some values in a large table may take
VARIANT_TICKS = 50  # of TICK instructions, that one query may take on a variant
VARIANT_BUDGET = 1_000  # of them, for all variants of a question
VARIANT_ROWS = 100_000  # that a query may return on a variant
SHRINKING = 300  # smaller databases that are tried


class Unvaried(Exception):
    """There can be no variants of this data; the text says why."""


class Format(NamedTuple):
    """What all texts of a column have in common."""

    mask: str = ""  # their shape, 9 for a digit, A and a for letters; "" where they differ
    case: str = ""  # "lower" or "upper" where all are
    marks: tuple[tuple[str, int], ...] = ()  # what is no letter, with how often it stands in each
    empty: bool = False  # whether one is empty
    days: bool = False  # whole numbers such as 20240131, each of which is a day


class Column(NamedTuple):
    """What a column's values show."""

    name: str
    form: str  # "integer", "real", "date", "text", or "" for others and for mixtures
    values: tuple[Cell, ...]  # some of them in their order, each once, NULL left out
    distinct: int  # how many there are
    closed: bool  # it takes no others
    nulls: bool
    unique: bool
    format: Format = Format()


class Link(NamedTuple):
    """Columns that point to other columns, of which each value is one."""

    columns: tuple[int, ...]
    parent: str
    keys: tuple[int, ...]
    apart: bool = False  # of a mirror: whether no row is its own

    @property
    def mirrors(self) -> bool:
        """Whether it points to the same row of its table the other way round."""
        return len(self.columns) > 1 and set(self.columns) == set(self.keys)


class Table(NamedTuple):
    """What is known of a table."""

    name: str
    sql: str
    made: str  # how a variant makes it
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]  # real ones
    keys: tuple[tuple[int, ...], ...]  # columns that together never repeat
    links: tuple[Link, ...]
    sampled: bool  # it is large: what is known of it comes from a sample


# -- what the data shows


def column_of(name: str, cells: Sequence[Cell], unique: bool = False, nulls: bool = True) -> Column:
    """What the cells of a column show; `unique` and `nulls` are what the schema says of it."""
    counts = Counter(cells)
    nothing = counts.pop(None, 0)
    distinct = sorted(counts, key=sort_value)
    return _column(name, distinct, len(cells) - nothing, nothing, unique, nulls)


def _column(
    name: str, distinct: Sequence[Cell], present: int, nothing: int, unique: bool, nulls: bool
) -> Column:
    """What the sorted values of a column show; `present` cells hold one, `nothing` hold NULL."""
    form, format = _form(distinct)
    closed = form != "date" and 0 < len(distinct) <= CLOSED
    closed = closed and present >= REPEATED * len(distinct)
    alone = present == len(distinct) > 1 and nothing < 2 and _is_no_accident(distinct, form)
    values = distinct
    if len(distinct) == 1:
        values = sorted({distinct[0], neighbour(distinct[0], form)}, key=sort_value)
        closed = closed or len(values) == 2
    return Column(
        name,
        form,
        _spread(values, PALETTE),
        len(distinct),
        closed,
        nulls and nothing > 0,
        unique or alone,
        format,
    )


def _is_no_accident(distinct: Sequence[Cell], form: str) -> bool:
    """Whether values that never repeat show a key: measures seldom repeat either.

    Of n whole numbers out of a range R, none repeats by chance with a probability of about
    exp(-n * n / 2R): the birthday problem. Below 5% it is no accident.
    """
    if form == "integer":
        return bool(len(distinct) ** 2 > 6 * (distinct[-1] - distinct[0] + 1))
    return form == "text"


def _form(distinct: Sequence[Cell]) -> tuple[str, Format]:
    """The form of a column's values, and their format."""
    kinds = set(map(type, distinct))
    if kinds == {int}:
        return "integer", Format(days=all(map(_is_day_number, distinct)))
    if kinds <= {int, float} and kinds and all(abs(value) < INFINITY for value in distinct):
        return "real", Format()
    if kinds != {str}:
        return "", Format()
    masks = set(map(mask_of, distinct))
    mask = masks.pop() if len(masks) == 1 else ""
    whole = "".join(distinct)
    case = "lower" if whole == whole.lower() else "upper" if whole == whole.upper() else ""
    signs = {c for c in distinct[-1] if not c.isalnum()}
    marks = [(c, distinct[-1].count(c)) for c in sorted(signs)]
    marks = [(c, n) for c, n in marks if all(text.count(c) == n for text in distinct)]
    is_date = mask.startswith("9999-99-99") and 10 * sum(map(_is_day, distinct)) >= 9 * len(
        distinct
    )
    return "date" if is_date else "text", Format(mask, case, tuple(marks), "" in distinct)


def mask_of(text: str) -> str:
    """The shape of a text: 9 for a digit, A and a for letters, other characters as they are."""
    return re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "9", text)))


def _is_day_number(number: int) -> bool:
    return 19000101 <= number <= 21001231 and _day(_dashed(number)) is not None


def _dashed(number: int) -> str:
    return f"{number // 10000:04}-{number // 100 % 100:02}-{number % 100:02}"


def _is_day(text: str) -> bool:
    return _day(text) is not None


def _day(text: str) -> Any:
    """The day that an ISO date begins with, None where there is none."""
    import datetime

    try:
        return datetime.date(int(text[:4]), int(text[5:7]), int(text[8:10]))
    except ValueError:
        return None


def neighbour(value: Cell, form: str) -> Cell:
    """Another value of the same form."""
    if form in ("integer", "real"):
        return 0 if value == 1 else value + 1
    if form == "date" and _is_day(value):
        return _shifted(value, 1) + value[10:]
    if form == "text" and value:
        at = max((i for i, c in enumerate(value) if c.isalnum() and c.isascii()), default=-1)
        if at >= 0:
            end = {"9": "8", "z": "y", "Z": "Y"}
            other = end.get(value[at]) or chr(ord(value[at]) + 1)
            return value[:at] + other + value[at + 1 :]
    return value


def _shifted(text: str, days: int) -> str:
    """The day that an ISO date begins with, some days later."""
    import datetime

    try:
        return str(_day(text) + datetime.timedelta(days))
    except OverflowError:
        return text[:10]


def _spread(values: Sequence[Any], most: int) -> tuple[Any, ...]:
    """At most so many of the values, at equal distances, the first and the last among them."""
    if len(values) <= most:
        return tuple(values)
    return tuple(values[i * (len(values) - 1) // (most - 1)] for i in range(most))


def tables_of(engine: SqliteEngine, queries: Sequence[str]) -> set[str]:
    """The tables that queries which have run read, in lower case. Raises Unvaried, QueryError."""
    tables = engine.ask("SELECT LOWER(name) FROM sqlite_master WHERE type = 'table'")
    names = {name for name, _ in engine.reads} & {name for (name,) in tables}
    names |= {name for sql in queries for name in engine.opened(sql)}
    if not names:
        raise Unvaried("no table is read")
    if any(name.startswith("sqlite_") for name in names):
        raise Unvaried("a query reads the schema itself")
    return names


class Survey:
    """What is known of the tables of one database, each looked at when it is first asked for."""

    def __init__(self) -> None:
        self.looks: dict[str, _Look] = {}
        self.pointing: dict[tuple[str, int, str, int], int] = {}

    def of(self, engine: SqliteEngine, names: Iterable[str]) -> list[Table]:
        """The tables, and those that they must have beside them. Raises Unvaried, QueryError.

        All rows of a table that is not large are evidence for the columns that `engine` has read,
        some rows for the others.
        """
        found: dict[str, Table] = {}
        wanted = sorted(set(names))
        for name in wanted:  # it grows on the way
            if name not in self.looks:
                self.looks[name] = _Look(engine, name)
            found[name] = self.looks[name].table(engine)
            parents = {link.parent for link in found[name].links}
            wanted += sorted(parents - set(wanted))
        tables = list(found.values())
        return [self._with_evident_links(engine, table, tables) for table in tables]

    def _with_evident_links(
        self, engine: SqliteEngine, table: Table, tables: Sequence[Table]
    ) -> Table:
        """The table with the links to the others that the values of columns show that were read."""
        links = list(table.links)
        declared = {link.columns for link in links}
        for i, column in enumerate(table.columns):
            open_end = (i,) not in declared and (table.name, column.name.lower()) in engine.reads
            found = [
                (self._points_to(engine, table, i, other, j), Link((i,), other.name, (j,)))
                for other in (tables if open_end else ())
                for (j,) in (key for key in other.keys if len(key) == 1)
            ]
            best = max((strength for strength, _ in found), default=0)
            links += [link for strength, link in found if strength == best > 0]
        return table._replace(links=tuple(links))

    def _points_to(self, engine: SqliteEngine, table: Table, i: int, other: Table, j: int) -> int:
        place = table.name, i, other.name, j
        if place not in self.pointing:
            same = place[:2] == place[2:]
            self.pointing[place] = 0 if same else points_to(engine, table, i, other, j)
        return self.pointing[place]


def points_to(engine: SqliteEngine, table: Table, i: int, other: Table, j: int) -> int:
    """How strongly the values of a column show that it points to a key of another table: 0 to 2.

    Small whole numbers all lie among the ids of some table by accident. They show something where
    the name says so, where the key has gaps that they all avoid, or where many of them cover it.
    """
    child, key = table.columns[i], other.columns[j]
    if child.unique and (child.form == "integer" or not _leads(table, other, child, key)):
        return 0  # an id of its own, or the one to which the other points
    if child.form != key.form or child.form not in ("text", "integer") or child.distinct < 2:
        return 0
    if child.distinct > key.distinct and not other.sampled:
        return 0
    if not _all_lie_in(engine, table, child, other, key):
        return 0
    if child.form == "text":
        return 2
    name, stem = child.name.lower(), other.name.lower().rstrip("s")
    if name == key.name.lower() != "id" or stem in name:
        return 2
    apart = table.name != other.name or re.search("parent|boss|manager|super|lead|head|root", name)
    if apart and re.search(r"(^|_)(id|ref|key)$|[a-z]I[dD]$", child.name):
        return 1
    if other.sampled:
        return 0
    low, high = child.values[0], child.values[-1]
    between = f"{quoted_name(key.name)} BETWEEN ? AND ?"
    count = f"SELECT COUNT(*) FROM {quoted_name(other.name)} WHERE {between}"
    among = engine.ask(count, low, high)[0][0] / (high - low + 1)
    covers = child.distinct >= 8 and 2 * child.distinct >= key.distinct
    return int(among**child.distinct < 0.05 or (covers and not child.closed))


def _all_lie_in(
    engine: SqliteEngine, table: Table, child: Column, other: Table, key: Column
) -> bool:
    """Whether all values of a column are among those of a key; of large tables, those known."""
    k, keys = quoted_name(key.name), quoted_name(other.name)
    if not table.sampled and not other.sampled:
        among = f"SELECT {k} FROM {keys} WHERE {k} IS NOT NULL"
        strays = f"{quoted_name(child.name)} NOT IN ({among})"
        return not engine.ask(f"SELECT 1 FROM {quoted_name(table.name)} WHERE {strays} LIMIT 1")
    marks = ", ".join("?" * len(child.values))
    count = f"SELECT COUNT(DISTINCT {k}) FROM {keys} WHERE {k} IN ({marks})"
    try:
        found = engine.ask(count, *child.values, most=LOOK_TICKS)[0][0]
    except QueryError:
        return False  # no index leads there
    return bool(found == len(child.values))


def _leads(table: Table, other: Table, child: Column, key: Column) -> bool:
    """Whether of two keys with values in common the second is the one that is pointed to."""
    if child.distinct != key.distinct:
        return child.distinct < key.distinct
    name = child.name.lower()
    owned = [owner.name.rstrip("s") in name for owner in (table, other)]
    return owned[1] if owned[0] != owned[1] else other.name < table.name


class _Look:
    """A look at one table."""

    def __init__(self, engine: SqliteEngine, name: str) -> None:
        self.name, self.quoted = name, quoted_name(name)
        found = engine.ask(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND LOWER(name) = ?", name
        )
        if not found or re.match(r"(?is)\s*CREATE\s+VIRTUAL", found[0][0]):
            raise Unvaried(f"{name} is no ordinary table")
        self.sql: str = found[0][0]
        info = engine.ask(
            'SELECT name, pk, "notnull", type, hidden FROM pragma_table_xinfo(?)', name
        )
        self.stored = [row[:4] for row in info if row[4] == 0]  # not the generated columns
        self.names = [row[0] for row in self.stored]
        self.places = {column.lower(): i for i, column in enumerate(self.names)}
        limit = EVIDENCE_ROWS + 1
        count = f"SELECT COUNT(*) FROM (SELECT 1 FROM {self.quoted} LIMIT {limit})"
        self.total: int = engine.ask(count)[0][0]
        self.sampled = self.total > EVIDENCE_ROWS
        rows = self._rows(engine)
        self.declared = self._declared_keys(engine)
        self.leading = self._leading_key(engine, rows)
        self.columns = [self._judged(i, [row[i] for row in rows]) for i in range(len(self.names))]
        self.whole: set[int] = set()  # columns that were judged by all rows, not by these
        self.links = self._declared_links(engine) + self._mirrors(rows)
        self.rows = _spread(rows, BASE_ROWS)

    def table(self, engine: SqliteEngine) -> Table:
        """What is known of it; of the columns that were read, all that there is to know."""
        for i, name in enumerate(self.names):
            if i not in self.whole and (self.name, name.lower()) in engine.reads:
                self._look_at_all(engine, i)
        keys = self.declared | {(i,) for i, column in enumerate(self.columns) if column.unique}
        if self.leading and not any(set(key) <= set(self.leading) for key in keys):
            keys = keys | {self.leading}
        made = without_rowid_alias(self.sql, self._rowid_alias())
        columns, key_list = tuple(self.columns), tuple(sorted(keys))
        return Table(
            self.name, self.sql, made, columns, self.rows, key_list, self.links, self.sampled
        )

    def _judged(self, i: int, cells: Sequence[Cell]) -> Column:
        return column_of(self.names[i], cells, (i,) in self.declared, not self.stored[i][2])

    def _look_at_all(self, engine: SqliteEngine, i: int) -> None:
        """Judges a column by all rows, where some were judged so far and there are not too many."""
        self.whole.add(i)
        if self.sampled or self.total <= SAMPLED_ROWS:
            return
        name = quoted_name(self.names[i])
        groups = f"GROUP BY {name} COLLATE BINARY ORDER BY {name} COLLATE BINARY"
        found = engine.ask(f"SELECT {name}, COUNT(*) FROM {self.quoted} {groups}")
        nothing = sum(count for cell, count in found if cell is None)
        distinct = [cell for cell, _ in found if cell is not None]
        unique, nulls = (i,) in self.declared, not self.stored[i][2]
        present = self.total - nothing
        self.columns[i] = _column(self.names[i], distinct, present, nothing, unique, nulls)

    def _rows(self, engine: SqliteEngine) -> list[Row]:
        """All rows of a small table, else some from all over it, the same ones each time."""
        select = f"SELECT {', '.join(map(quoted_name, self.names))} FROM {self.quoted}"
        if self.total <= SAMPLED_ROWS:
            return engine.ask(select)
        try:
            ends = (f"(SELECT {end}(rowid) FROM {self.quoted})" for end in ("MIN", "MAX"))
            low, high = engine.ask(f"SELECT {', '.join(ends)}")[0]  # one index look each
        except QueryError:  # a table without rowids
            return engine.ask(f"{select} LIMIT {SAMPLED_ROWS}")
        found: list[Row] = []
        blocks, after = 50, low - 1
        for i in range(blocks):
            start = max(low + (high - low) * i // blocks, after + 1)
            more = engine.ask(
                f"SELECT rowid, {select[7:]} WHERE rowid >= ? ORDER BY rowid LIMIT ?",
                start,
                SAMPLED_ROWS // blocks,
            )
            found += [row[1:] for row in more]
            after = more[-1][0] if more else high
        return found

    def _leading_key(self, engine: SqliteEngine, rows: Sequence[Row]) -> tuple[int, ...]:
        """The fewest leading columns whose values never repeat together, () where rows do."""
        sizes = [*range(1, min(len(self.names), LEADING)), len(self.names)]
        for size in sizes if self.total > 1 else ():
            if len({row[:size] for row in rows}) < len(rows):
                continue  # which settles it at less cost
            names = ", ".join(map(quoted_name, self.names[:size]))
            distinct = f"SELECT COUNT(*) FROM (SELECT DISTINCT {names} FROM {self.quoted})"
            if self.sampled or engine.ask(distinct)[0][0] == self.total:
                return tuple(range(size))
        return ()

    def _rowid_alias(self) -> str:
        """The column, in lower case, that stands for the rowid; "" where none does."""
        primary = [row for row in self.stored if row[1]]
        alone = len(primary) == 1 and str(primary[0][3]).upper() == "INTEGER"
        return primary[0][0].lower() if alone else ""

    def _declared_keys(self, engine: SqliteEngine) -> set[tuple[int, ...]]:
        primary = sorted((row[1], i) for i, row in enumerate(self.stored) if row[1])
        keys = {tuple(i for _, i in primary)} if primary else set()
        indexes = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial'
        for (index,) in engine.ask(indexes, self.name):
            found = engine.ask("SELECT LOWER(name) FROM pragma_index_info(?)", index)
            columns = [column for (column,) in found]
            if all(column in self.places for column in columns):  # an expression has no name
                keys.add(tuple(sorted(self.places[column] for column in columns)))
        return keys

    def _mirrors(self, rows: Sequence[Row]) -> tuple[Link, ...]:
        """Pairs of columns that hold (b, a) wherever they hold (a, b), as neighbours do."""
        found = []
        for (i, one), (j, other) in itertools.combinations(enumerate(self.columns), 2):
            alike = one.values == other.values and one.form == other.form in ("text", "integer")
            if alike and len(rows) >= MIRRORED and not (one.closed or self.sampled):
                pairs = {(row[i], row[j]) for row in rows}
                if all((b, a) in pairs for a, b in pairs):
                    apart = all(a != b for a, b in pairs)
                    found.append(Link((i, j), self.name, (j, i), apart))
        return tuple(found)

    def _declared_links(self, engine: SqliteEngine) -> tuple[Link, ...]:
        found: dict[int, list[Row]] = {}
        foreign = (
            'SELECT id, LOWER("table"), LOWER("from"), LOWER("to")'
            " FROM pragma_foreign_key_list(?) ORDER BY id, seq"
        )
        for id, *row in engine.ask(foreign, self.name):
            found.setdefault(id, []).append(tuple(row))
        links = []
        stored = "SELECT LOWER(name), pk FROM pragma_table_xinfo(?) WHERE hidden = 0"
        for rows in found.values():
            parent = rows[0][0]
            info = engine.ask(stored, parent)
            there = {column: i for i, (column, _) in enumerate(info)}
            primary = [column for pk, column in sorted((pk, c) for c, pk in info) if pk]
            targets = [row[2] for row in rows] if rows[0][2] else primary
            sources = [row[1] for row in rows]
            known = set(targets) <= set(there) and set(sources) <= set(self.places)
            if known and len(targets) == len(sources):
                columns = tuple(self.places[column] for column in sources)
                links.append(Link(columns, parent, tuple(there[column] for column in targets)))
        return tuple(links)


# -- which values matter


def telling(
    column: Column, literal: Cell, from_reference: bool, named: bool = False, bounds: bool = False
) -> list[Cell]:
    """The values at and next to a literal that a column may take.

    A closed domain takes none that it lacks, but for what the reference names with =, <> or IN
    (`named`), and beside a single value what it compares with < and its like (`bounds`): who wrote
    it knows of it.
    """
    single = column.distinct == 1 and bounds and column.form != "text"
    if (column.closed and not single) or not column.values:
        known = [value for value in column.values if _same_word(value, literal)]
        return known or ([literal] if named and _is_of(column, literal) else [])
    if column.form in ("integer", "real"):
        return _telling_numbers(column, literal, from_reference)
    if not isinstance(literal, (str, int)):
        return []
    if column.form == "date":
        return _telling_dates(column, str(literal))
    same = [value for value in column.values if _same_word(value, literal)]
    return same or ([literal] if _fits(column, literal) else _telling_parts(column, str(literal)))


def _telling_parts(column: Column, literal: str) -> list[Cell]:
    """Texts of one mask with the digits of a literal, and of its neighbours, in their place."""
    mask, size = column.format.mask, len(literal)
    if not mask or not (literal.isdecimal() and literal.isascii()) or size < 2:
        return []
    found = []
    for at in range(len(mask) - size + 1):
        around = (
            mask[at : at + size] == "9" * size
            and "9" not in mask[at - 1 : at] + mask[at + size :][:1]
        )
        for value in column.values[:: max(1, len(column.values) // 3)] if around else ():
            for number in (int(literal) - 1, int(literal), int(literal) + 1):
                found.append(f"{value[:at]}{number:0{size}}{value[at + size :]}")
    return [text for text in found if _fits(column, text)]


def _is_of(column: Column, literal: Cell) -> bool:
    """Whether a literal has the form of a column's values."""
    if column.form == "integer":
        return isinstance(literal, int)
    return column.form == "text" and _fits(column, literal)


def _same_word(value: Cell, literal: Cell) -> bool:
    if isinstance(value, str) and isinstance(literal, str):
        return value.casefold() == literal.casefold()
    return bool(value == literal)


def _fits(column: Column, text: Cell) -> bool:
    """Whether a text has the format of a column's values."""
    if column.form != "text" or not isinstance(text, str):
        return False
    format = column.format
    case = {"lower": text.lower(), "upper": text.upper()}.get(format.case, text)
    marked = all(text.count(c) == n for c, n in format.marks)
    return (
        text == case
        and marked
        and format.mask in ("", mask_of(text))
        and (text > "" or format.empty)
    )


def _telling_numbers(column: Column, literal: Cell, from_reference: bool) -> list[Cell]:
    if isinstance(literal, str):
        return []
    if column.format.days:
        return _telling_day_numbers(column, literal)
    low, high = column.values[0], column.values[-1]
    near: list[Cell]
    if column.form == "integer":
        whole = int(literal // 1)
        near = [whole - 1, whole, whole + 1]
    else:
        decimals = max(len(repr(value).partition(".")[2]) for value in column.values[:20])
        step = 10.0 ** -min(decimals, 2) if decimals < 6 else 0.5
        near = [round(literal - step, 6), float(literal), round(literal + step, 6)]
    reach = max(high - low, 1)
    floor = low - reach
    if low >= 0 and not from_reference:
        floor = 0 if low == 0 else min(low, 1) if column.form == "integer" else low / 2
    return [value for value in near if floor <= value <= high + reach]


def _telling_day_numbers(column: Column, literal: Cell) -> list[Cell]:
    """Days about a whole number that is one, such as 20240131, or a year or a month."""
    text = _dashed(literal) if _is_day_number(literal) else str(literal)
    text = f"{text[:4]}-{text[4:]}" if re.fullmatch(r"(19|20)\d\d(0[1-9]|1[0-2])", text) else text
    dates = _telling_dates(column._replace(values=("2000-01-01",)), text)
    return [int(date.replace("-", "")) for date in dates]


def _telling_dates(column: Column, literal: str) -> list[Cell]:
    """Dates about a literal such as 2024, 2024-03, 2024-03-01 or 2024-03-01 12:30:00."""
    found = re.match(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?(?!\d)([ T]\d\d:\d\d.*)?", literal)
    if not found or not 1 <= int(found[1]) <= 9998:
        return []
    year, month, day = int(found[1]), int(found[2] or 0), found[3]
    if day:
        first = last = literal[:10]
    elif month:
        first = f"{year:04}-{month:02}-01"
        last = f"{year + month // 12:04}-{month % 12 + 1:02}-01"
    else:
        first, last = f"{year:04}-01-01", f"{year + 1:04}-01-01"
    if _day(first) is None or _day(last) is None:
        return []
    days = [_shifted(first, -1), first, _shifted(first, 1)] if day else []
    days = days or [_shifted(first, -1), first, _shifted(last, -1), last]
    days += [f"{year - 1:04}{first[4:]}", f"{year + 1:04}{first[4:]}"] if month and not day else []
    example = str(column.values[0])
    if len(example) < 19 or all(str(value)[11:19] == "00:00:00" for value in column.values):
        return [day + example[10:] for day in days]
    mark, tail = example[10], example[19:]
    times = ["23:59:59", "00:00:00", "00:00:00"] if day else ["23:59:59", "00:00:00"] * 3
    exact = [(first, "12:30:00")]
    if found[4]:
        exact.append((first, (found[4][1:] + ":00")[:8]))
    return [f"{day}{mark}{time}{tail}" for day, time in [*zip(days, times), *exact]]


class _Like:
    """A LIKE or GLOB pattern, matched in one pass, well enough to find rows by.

    One regular expression for the whole could go back and forth for ever, and no limit would hold.
    """

    def __init__(self, pattern: str, glob: bool) -> None:
        many, one = ("*", "?") if glob else ("%", "_")
        flags = re.DOTALL if glob else re.DOTALL | re.IGNORECASE
        texts = pattern[:100].split(many)
        self.parts = [
            re.compile("".join("." if c == one else re.escape(c) for c in text), flags)
            for text in texts
        ]
        self.tail = len(texts[-1])

    def matches(self, text: str) -> bool:
        first, *inner = self.parts
        if not inner:
            return first.fullmatch(text) is not None
        found = first.match(text)
        for part in inner[:-1]:
            found = part.search(text, found.end()) if found else None
        start = len(text) - self.tail
        return found is not None and start >= found.end() and bool(inner[-1].match(text, start))


def _like_values(column: Column, pattern: str, glob: bool) -> list[Cell]:
    """Texts that a pattern matches, and one that it just misses."""
    like = _Like(pattern, glob)
    real = [v for v in column.values if isinstance(v, str) and like.matches(v)][:3]
    if column.closed:
        return list(real)
    plain = pattern.replace("*" if glob else "%", "").replace("?" if glob else "_", "a")
    fold = {"lower": str.lower, "upper": str.upper}.get(column.format.case, str)
    made = [plain, "a" + plain, plain + "a", plain[:-1]]
    for value in column.values[:2]:
        for sign, _ in column.format.marks:
            head, _, tail = value.partition(sign)
            made += [f"{head}{sign}a{plain}", f"{plain}a{sign}{tail}", f"{head}{sign}{plain}"]
    return [*real, *(text for text in map(fold, made) if _fits(column, text))]


# -- making a variant


Place = tuple[str, int]  # a table's name and the place of a column in it
Rows = dict[str, list[Row]]  # the rows of each table, in the order in which they are inserted

BOUNDS = {"<": lt, ">": gt, "<=": le, ">=": ge}
EQUALITY = {"=", "==", "<>", "!=", "IN"}
SIZES = (4, 7, 3, 10, 5, 14, 2, 8, 24, 6)  # rows of a table without a key of its own
NEARNESS = (0.6, 0.6, 1, 0.6, 0.4, 0.8, 0.6)  # how many rows are among those that meet conditions
WIDTHS = (2, 3, 2, 4, 1, 3, 6, 2)  # values that a column takes
CHANGES = (1, 1, 0, 2, 1, 9)  # columns that are changed in a row that is copied from the data


class _Group:
    """Columns whose values meet, because one points to another or a query compares them."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.keyed: list[Place] = []  # those that are a key by themselves
        self.linked = False
        self.values: tuple[Cell, ...] = ()
        self.telling: list[Cell] = []


class Variants:
    """Small databases that keep to what the data shows, aimed at two queries.

    `reads` are the columns that the queries read, by table and name in lower case; `found` their
    clues, each with whether it is the reference's.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        reads: set[tuple[str, str]],
        found: Sequence[tuple[Clue, bool]],
        seed: str,
    ) -> None:
        import random

        self.random, self.seed = random.Random, seed
        self.tables = _parents_first(tables)
        self.by_name = {table.name: table for table in tables}
        self.read = {
            table.name: [
                i for i, c in enumerate(table.columns) if (table.name, c.name.lower()) in reads
            ]
            for table in tables
        }
        self.telling: dict[Place, list[Cell]] = {}
        self.patterns: dict[Place, list[_Like]] = {}
        self.pointing = {
            table.name: {i for link in table.links for i in link.columns} for table in tables
        }
        self.key_of: dict[str, int] = {}  # of each table, the key that other columns share
        self.allowed: dict[Place, set[Cell]] = {}  # what a column with a closed domain takes
        self.bounds: dict[Place, list[tuple[str, Cell]]] = {}
        self.sorted: set[Place] = set()  # columns that a query sorts by, or takes an extreme of
        self.maybe_null: set[Place] = set()  # columns of which a query asks whether they are NULL
        self.sizes: list[int] = []
        self.groups: dict[Place, _Group] = {}
        pairs = [pair for clue, _ in found for pair in self._compared(clue)]
        for clue, is_reference in found:
            self._note(clue, is_reference)
        self._group(pairs)
        self.near = {table.name: self._nearest_rows(table) for table in self.tables}

    # what the queries say

    def _named(self, clue: Clue) -> list[Place]:
        """The read columns that a clue names."""
        return [
            (name, i)
            for name, read in self.read.items()
            for i in read
            if self.by_name[name].columns[i].name.lower() in clue.names
        ]

    def _compared(self, clue: Clue) -> list[tuple[Place, Place]]:
        """Two columns that a clue compares with one another."""
        places = self._named(clue)
        if len(places) != 2 or not {"=", "==", "<", ">", "<=", ">=", "<>", "!="} & set(
            clue.operators
        ):
            return []
        first, second = (self.by_name[name].columns[i] for name, i in places)
        return [(places[0], places[1])] if first.form == second.form else []

    def _note(self, clue: Clue, is_reference: bool) -> None:
        """Keeps which values a clue makes interesting."""
        places = self._named(clue)
        names = {self.by_name[name].columns[i].name.lower() for name, i in places}
        literals = [*clue.literals, *(text for text in clue.texts if text.lower() not in names)]
        literals = list(_spread(literals, PALETTE))  # some make a list of ten thousand ids
        if clue.word in ("LIMIT", "OFFSET", "HAVING") or "count" in clue.names:
            self.sizes += [n + 1 for n in literals if isinstance(n, int) and 0 < n <= 40]
            counted_rows = [n for n in literals if isinstance(n, int) and 0 < n <= 60]
            self.sizes += counted_rows if "count" in clue.names else []
        if {"preceding", "following"} & set(clue.names):
            self.sizes += [n + 2 for n in literals if isinstance(n, int) and 0 < n <= 40]
        if clue.word in ("LIMIT", "OFFSET"):
            return
        if not places:
            counts = bool(EQUALITY & set(clue.operators) or BOUNDS.keys() & set(clue.operators))
            self.sizes += [n for n in literals if counts and isinstance(n, int) and 0 < n <= 60]
            places = [(name, i) for name, read in self.read.items() for i in read]
        if clue.word == "ORDER" or {"min", "max", "rank", "dense_rank", "distinct"} & set(
            clue.names
        ):
            self.sorted |= set(places)
        if {"is", "null"} <= set(clue.names):
            self.maybe_null |= set(places)
        bounds = [word for word in clue.operators if word in BOUNDS]
        if len(places) == len(literals) == len(bounds) == 1:
            self.bounds.setdefault(places[0], []).append((bounds[0], literals[0]))
        for place in places:
            column = self.by_name[place[0]].columns[place[1]]
            for literal in literals:
                self._note_literal(place, column, clue, literal, is_reference)

    def _note_literal(
        self, place: Place, column: Column, clue: Clue, literal: Cell, is_reference: bool
    ) -> None:
        globs = "GLOB" in clue.operators
        if (
            isinstance(literal, str)
            and (globs or "LIKE" in clue.operators)
            and column.form == "text"
        ):
            values = _like_values(column, literal, globs)
            self.patterns.setdefault(place, []).append(_Like(literal, globs))
        else:
            alone = is_reference and clue.names.count(column.name.lower()) == 1
            named = alone and bool(EQUALITY & set(clue.operators))
            bounds = alone and bool({*BOUNDS, "BETWEEN"} & set(clue.operators))
            values = telling(column, literal, is_reference, named, bounds)
        kept = self.telling.setdefault(place, [])
        if len(kept) < 5 * PALETTE:
            kept += [value for value in values if value not in kept]

    # what belongs together

    def _group(self, compared: Sequence[tuple[Place, Place]]) -> None:
        joined = [
            (place, place)
            for name, read in self.read.items()
            for place in ((name, i) for i in read)
        ]
        links = [
            ((table.name, i), (link.parent, j))
            for table in self.tables
            for link in table.links
            for i, j in zip(link.columns, link.keys)
        ]
        for first, second in [*joined, *links, *compared, *self._overlapping()]:
            group = self.groups.setdefault(first, _Group())
            other = self.groups.setdefault(second, group)
            group.places += [place for place in (first, second) if place not in group.places]
            if other is not group:
                group.places += [place for place in other.places if place not in group.places]
                for place in other.places:
                    self.groups[place] = group
            group.linked = len(group.places) > 1
        for group in dict.fromkeys(self.groups.values()):
            self._fill(group)

    def _overlapping(self) -> Iterator[tuple[Place, Place]]:
        """Pairs of read text columns that have most of their values in common."""
        texts = []
        for name, read in self.read.items():
            table = self.by_name[name]
            for i in read:
                if table.columns[i].form == "text" and not table.columns[i].closed:
                    texts.append(((name, i), {row[i] for row in table.rows} - {None}))
        for (a, left), (b, right) in itertools.combinations(texts, 2):
            if left and right and 2 * len(left & right) >= min(len(left), len(right)):
                yield a, b

    def _fill(self, group: _Group) -> None:
        """The values of a group: those of its keys, else those that its columns share."""
        columns = [self.by_name[name].columns[i] for name, i in group.places]
        group.keyed = [(name, i) for name, i in group.places if (i,) in self.by_name[name].keys]
        if group.linked:
            self.key_of.update({name: i for name, i in group.keyed if name not in self.key_of})
        first, *others = columns
        shared = [v for v in first.values if all(v in column.values for column in others)]
        every = dict.fromkeys(value for column in columns for value in column.values)
        group.values = tuple(shared or every)
        closed = []
        for place, column in zip(group.places, columns):
            if column.closed and place[1] not in self.pointing[place[0]]:
                self.allowed[place] = {*column.values, *self.telling.get(place, ())}
                closed.append(self.allowed[place])
        for place in group.places:
            for value in self.telling.get(place, ()):
                if value not in group.telling and all(value in values for values in closed):
                    group.telling.append(value)

    def _nearest_rows(self, table: Table) -> list[Row]:
        """The rows that meet most of the conditions, and those that miss one more."""
        wanted = []
        for i in self.read[table.name]:
            values = self.telling.get((table.name, i))
            patterns = self.patterns.get((table.name, i), ())
            bounds = self.bounds.get((table.name, i), ())
            if values or patterns:
                wanted.append((i, set(values or ()), patterns, bounds))
        if not wanted:
            return []
        scored = []
        for row in table.rows:
            met = sum(itertools.starmap(partial(_meets, row), wanted))
            scored.append((met, row))
        best = max((met for met, _ in scored), default=0)
        top = [row for met, row in scored if met == best > 0]
        below = [row for met, row in scored if met == best - 1 > 0]
        return list(_spread(top, 20) + _spread(below, 10))

    # one variant

    def rows(self, number: int) -> Rows:
        """The rows of a variant, in the order in which they are inserted."""
        dice = self.random(f"{self.seed}/{number}").random
        return _Draw(self, number, dice).rows()


def _meets(
    row: Row,
    i: int,
    values: set[Cell],
    patterns: Sequence[_Like],
    bounds: Sequence[tuple[str, Cell]],
) -> bool:
    """Whether a row meets what the queries say of one of its columns."""
    cell = row[i]
    for word, bound in bounds:
        if is_number(cell) and is_number(bound):
            return bool(BOUNDS[word](cell, bound))
    return cell in values or any(pattern.matches(str(cell)) for pattern in patterns)


class _Draw:
    """The drawing of one variant: table after table, each row from a real one."""

    def __init__(self, plan: Variants, number: int, dice: Callable[[], float]) -> None:
        self.plan, self.dice = plan, dice
        self.size = SIZES[number % len(SIZES)]
        self.width = WIDTHS[number % len(WIDTHS)]
        self.changes = CHANGES[number % len(CHANGES)]
        self.nearness = NEARNESS[number % len(NEARNESS)]
        self.tying = number % 3 == 1
        if plan.sizes and dice() < 0.4:  # as many rows as a LIMIT or a count asks for
            self.size = max(1, self.pick(plan.sizes) + int(dice() * 3) - 1)
            self.nearness, self.changes = max(self.nearness, 0.9), min(self.changes, 1)
        self.found: Rows = {}
        self.palettes: dict[int, list[Cell]] = {}
        self.tie = -1  # the place of a column of which most rows have one value
        self._begin(())

    def _begin(self, keys: Sequence[tuple[int, ...]]) -> None:
        self.kept: list[Row] = []  # the rows of the table that is drawn
        self.seen: list[set[Row]] = [set() for _ in keys]

    def pick(self, values: Sequence[Any]) -> Any:
        return values[int(self.dice() * len(values))]

    def rows(self) -> Rows:
        tables = self.plan.tables
        for table in tables:
            self._draw(table)
        if self.dice() < 0.06:
            self.found[self.pick(tables).name] = []
        for table in tables:  # what points to a table that was drawn later, or is empty now
            if any(link.parent != table.name for link in table.links):
                rows = self.found[table.name]
                self._begin(table.keys)
                for row in rows:
                    self._add(table, list(row))
                self.found[table.name] = self.kept
        drawn = repaired(self.found, tables)
        for name, i in bare_columns(drawn, tables):
            value = self.pick(self.plan.by_name[name].columns[i].values)
            first, *others = drawn[name]
            if i not in self.plan.pointing[name]:
                drawn[name] = [(*first[:i], value, *first[i + 1 :]), *others]
        return drawn

    def palette(self, group: _Group) -> list[Cell]:
        """The values that the columns of a group take in this variant."""
        known = self.palettes.get(id(group))
        if known is None:
            values = [*self._telling(group), *self._usual(group)]
            known = list(dict.fromkeys(value for value in values if value is not None))
            self.palettes[id(group)] = known
        return known

    def _telling(self, group: _Group) -> list[Cell]:
        few = group.telling
        if len(few) > self.width:
            few = [self.pick(few) for _ in range(self.width)]
        return [value for value in few if self.dice() < 0.85]

    def _usual(self, group: _Group) -> list[Cell]:
        """Values out of the data: for a key those of rows that conditions are near to."""
        if not group.keyed:
            return [self.pick(group.values) for _ in range(self.width if group.values else 0)]
        found = []
        for name, i in group.keyed:
            rows, near = self.plan.by_name[name].rows, self.plan.near[name]
            for _ in range(max(2, self.size // 2 if group.linked else self.size) if rows else 0):
                found.append(self.pick(near if near and self.dice() < self.nearness else rows)[i])
        return found

    def _draw(self, table: Table) -> None:
        """Draws the rows of a table: one for each value of a key that others point to."""
        plan = self.plan
        near = plan.near[table.name]
        sorts = [i for i in plan.read[table.name] if (table.name, i) in plan.sorted]
        self.tie = self.pick(sorts) if self.tying and sorts else -1
        self._begin(table.keys)
        key = plan.key_of.get(table.name, -1)
        if key >= 0 and table.rows:
            by_key = {row[key]: row for row in table.rows}
            for value in self.palette(plan.groups[table.name, key]):
                base = by_key.get(value) or self.pick(table.rows)
                if self.dice() < 0.93:
                    self._add(table, self._changed(table, base, key, value))
        elif table.rows:
            for _ in range(2 * self.size):
                if len(self.kept) < self.size:
                    close = near and self.dice() < self.nearness
                    base = self.pick(near if close else table.rows)
                    self._add(table, self._changed(table, base, -1, None))
        for row in self.kept[:] if self.dice() < 0.3 else ():
            if self.dice() < 0.3:
                self._add(table, list(row))
        self.found[table.name] = self.kept

    def _changed(self, table: Table, base: Row, key: int, value: Cell) -> list[Cell]:
        """A real row with some of its cells changed, and with this value for a key."""
        plan, row = self.plan, list(base)
        if key >= 0:
            row[key] = value
        free = []
        for i in plan.read[table.name]:
            if i == key:
                continue
            if plan.groups[table.name, i].linked:
                values = self._values(table, i)
                moves = values and (row[i] not in values or self.dice() < 0.3)
                if moves and (row[i] is not None or self.dice() < 0.5):
                    row[i] = self.pick(values)
            else:
                free.append(i)
        some = [self.pick(free) for _ in range(self.changes if free else 0)]
        for i in free if self.changes > len(free) else some:
            values = self._values(table, i)
            row[i] = self.pick(values) if values else row[i]
        if self.tie in free and self.dice() < 0.8:
            row[self.tie] = next(iter(self._values(table, self.tie)), row[self.tie])
        for i in plan.read[table.name]:
            share = 0.3 if (table.name, i) in plan.maybe_null else 0.1
            if table.columns[i].nulls and self.dice() < share:
                row[i] = None
        return row

    def _values(self, table: Table, i: int) -> list[Cell]:
        """The values of this variant that a column may take."""
        values = self.palette(self.plan.groups[table.name, i])
        allowed = self.plan.allowed.get((table.name, i))
        return values if allowed is None else [value for value in values if value in allowed]

    def _add(self, table: Table, row: list[Cell], mirrored: bool = False) -> None:
        """Keeps a row that breaks no rule, or that can be made to break none."""
        for link in table.links:
            if not link.mirrors:
                self._point(table, row, link)
        for key, seen in zip(table.keys, self.seen):
            if tuple(row[i] for i in key) in seen and not self._freshen(table, row, key, seen):
                return
        values = [tuple(row[i] for i in key) for key in table.keys]
        if any(link.apart and row[link.keys[0]] == row[link.keys[1]] for link in table.links):
            return
        if any(value in seen for value, seen in zip(values, self.seen)):
            return
        for value, seen in zip(values, self.seen):
            if None not in value:
                seen.add(value)
        self.kept.append(tuple(row))
        for link in (link for link in table.links if link.mirrors and not mirrored):
            (i, j), other = link.columns, list(row)
            other[i], other[j] = row[j], row[i]
            self._add(table, other, mirrored=True)

    def _point(self, table: Table, row: list[Cell], link: Link) -> None:
        """Has a row point to a row that there is: in its own table to one before it."""
        own = link.parent == table.name
        parents = self.kept if own else self.found.get(link.parent)
        target = [row[i] for i in link.columns]
        if parents is None or None in target:
            return
        there = [[parent[j] for j in link.keys] for parent in parents]
        if target in there:
            return
        optional = all(table.columns[i].nulls for i in link.columns)
        if not there and own and not optional:
            there = [[row[j] for j in link.keys]]  # the first row, to itself
        if not there or (optional and self.dice() < 0.2):
            for i in link.columns if optional else ():
                row[i] = None
            return
        for i, cell in zip(link.columns, self.pick(there)):
            row[i] = cell

    def _freshen(self, table: Table, row: list[Cell], key: Sequence[int], seen: set[Row]) -> bool:
        """Gives a row a value that its key does not have yet, where there is one."""
        for i in reversed(key):
            column = table.columns[i]
            if i in self.plan.pointing[table.name] or not column.values:
                continue
            for _ in range(3):
                row[i] = self.pick(column.values)
                if tuple(row[j] for j in key) not in seen:
                    return True
            if column.form == "integer" and not column.closed and not column.format.days:
                row[i] = column.values[-1] + 1 + len(seen)
                return tuple(row[j] for j in key) not in seen
        return False


def repaired(rows: Rows, tables: Sequence[Table]) -> Rows:
    """The rows without those that point to nothing."""
    rows = dict(rows)
    dropped = True
    while dropped:
        dropped = False
        for table in tables:
            for link in table.links:
                there = {tuple(row[j] for j in link.keys) for row in rows[link.parent]}
                kept = [row for row in rows[table.name] if _points(row, link, there)]
                dropped = dropped or len(kept) < len(rows[table.name])
                rows[table.name] = kept
    return rows


def _points(row: Row, link: Link, there: set[Row]) -> bool:
    target = tuple(row[i] for i in link.columns)
    return target in there or None in target


def _parents_first(tables: Sequence[Table]) -> list[Table]:
    """The tables, each after those that it points to as far as that goes."""
    ordered: list[Table] = []
    left = list(tables)
    while left:
        names = {table.name for table in left}
        ready = [t for t in left if not {link.parent for link in t.links} & (names - {t.name})]
        ordered += ready or left[:1]
        left = [table for table in left if table not in ordered]
    return ordered


# -- the database of a variant


class VariantEngine(SqliteEngine):
    """A guarded connection to a database in memory that is filled anew for each variant.

    Its limit is a number of instructions, so that no clock decides what a variant shows.
    """

    def __init__(
        self, plan: Variants, schema: Sequence[str], like: SqliteEngine, most: float = VARIANT_TICKS
    ) -> None:
        self.schema = schema
        self.budget: float = VARIANT_BUDGET
        self.checked: dict[str, str] = {}
        super().__init__("file::memory:", (), VARIANT_ROWS, like.guard, like.params, like.preset)
        self.allowance = most
        self.inserts = {}
        for table in plan.tables:
            names = ", ".join(quoted_name(column.name) for column in table.columns)
            marks = ", ".join("?" * len(table.columns))
            into = f"INSERT OR IGNORE INTO {quoted_name(table.name)} ({names}) VALUES ({marks})"
            self.inserts[table.name] = into

    def _connect(self) -> Any:
        connection = self.sqlite3.connect(self.uri, uri=True, isolation_level=None)
        for statement in (
            "PRAGMA trusted_schema = OFF",
            "PRAGMA temp_store = MEMORY",
            *self.schema,
        ):
            connection.execute(statement)
        try:
            connection.execute("SELECT 1 FROM json_each('[1]'), json_tree('[1]')").fetchall()
        except self.sqlite3.OperationalError:
            pass  # built without JSON
        if hasattr(connection, "setlimit"):  # Python 3.11
            connection.setlimit(self.sqlite3.SQLITE_LIMIT_LENGTH, CELL_LIMIT)
            connection.setlimit(self.sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    def _statement(self, sql: str, limit: float) -> str:
        if sql not in self.checked:
            self.checked[sql] = super()._statement(sql, limit)
        return self.checked[sql]

    def _tick(self) -> int:
        if self.trusted:
            return 0
        self.budget -= 1
        return super()._tick()

    def fill(self, rows: Rows) -> Rows:
        """Puts these rows in place of what its tables hold; those that a CHECK lets in."""
        execute = self.connection.execute
        taken = rows
        self.trusted = True
        try:
            execute("BEGIN")
            for name, kept in rows.items():
                execute(f"DELETE FROM {quoted_name(name)}")
                if kept and self.connection.executemany(self.inserts[name], kept).rowcount < len(
                    kept
                ):
                    taken = {**taken, name: self._held(name, kept)}
            execute("COMMIT")
        finally:
            self.trusted = False
        return taken

    def _held(self, name: str, rows: Sequence[Row]) -> list[Row]:
        """The rows that the table took, each by itself for its own sake."""
        execute = self.connection.execute
        execute(f"DELETE FROM {quoted_name(name)}")
        return [row for row in rows if execute(self.inserts[name], row).rowcount > 0]


def variant_schema(
    engine: SqliteEngine, tables: Sequence[Table], sql: str
) -> tuple[list[str], list[str]]:
    """The statements that make a variant's tables, and the same as the data has them.

    In a variant a rowid's alias is a column like others, so that rows stay in the order of their
    insertion, unless the queries in `sql` name a rowid.
    """
    names = {table.name for table in tables}
    more = []
    views = {}
    for kind, name, owner, text in engine.ask(
        "SELECT type, LOWER(name), LOWER(tbl_name), sql FROM sqlite_master WHERE sql IS NOT NULL"
    ):
        if kind == "index" and owner in names and re.match(r"(?i)\s*CREATE\s+UNIQUE", text):
            more.append(text)
        elif kind == "view":
            views[name] = text
    more += [views[name] for name in used_views(views, sql)]
    original = [table.sql for table in tables] + more
    if re.search(r"\b(rowid|_rowid_|oid)\b", sql, re.IGNORECASE):
        return original, original
    return [table.made for table in tables] + more, original


def used_views(views: Mapping[str, str], sql: str) -> list[str]:
    """The views, by their names in lower case, that a query seems to name, and those in turn."""
    used: list[str] = []
    texts = [sql.lower()]
    for text in texts:  # it grows on the way
        more = [name for name in views if name in text and name not in used]
        used += more
        texts += [views[name].lower() for name in more]
    return used[::-1]


def without_rowid_alias(sql: str, alias: str) -> str:
    """A CREATE TABLE whose column `alias` is no alias of the rowid, and that has rowids."""
    parts: list[str] = []
    before = ""
    for token in tokens(sql):
        text = sql[token.start : token.end]
        upper = text.upper()
        if token.kind == "name" and upper == "INTEGER" and before == alias:
            text, alias = "INT", ""
        elif token.kind == "name" and upper == "AUTOINCREMENT":
            text = ""
        before = (
            unquoted(text).lower()
            if token.kind == "name" and text
            else before
            if token.kind in BLANK
            else ""
        )
        parts.append(text)
    made = "".join(parts)
    return (
        re.sub(
            r"(?is)\)(\s*STRICT\s*,)?\s*WITHOUT\s+ROWID(\s*,)?",
            lambda m: ") STRICT" if m[1] else ")",
            made,
        )
        if re.search(r"(?is)ROWID[^)]*$", made)
        else made
    )


# -- making a counterexample smaller


def bare_columns(rows: Rows, tables: Sequence[Table]) -> Iterator[Place]:
    """The columns that hold nothing but NULL here, and other things in the data."""
    for table in tables:
        for i, column in enumerate(table.columns):
            cells = [row[i] for row in rows[table.name]] if column.nulls and column.values else ()
            if cells and all(cell is None for cell in cells):
                yield table.name, i


def shrunk(rows: Rows, order: Sequence[Table], differs: Callable[[Rows], bool]) -> Rows:
    """The rows without any that the difference does not need, as far as SHRINKING tries go.

    `order` has the tables, each after those that it points to.
    """
    tries = SHRINKING
    size = max(map(len, rows.values()), default=0)
    while size and tries:
        before = rows
        for table in reversed(order):
            at = 0
            while at < len(rows[table.name]) and tries:
                kept = rows[table.name]
                fewer = repaired({**rows, table.name: kept[:at] + kept[at + size :]}, order)
                tries -= 1
                if not any(bare_columns(fewer, order)) and differs(fewer):
                    rows = fewer
                else:
                    at += size
        size = size // 2 if rows is before or size > 1 else size
    return rows


def without_nothing(result: Result) -> Result:
    """The result with 0 in place of NULL, and no row where there is one of zeros only."""
    rows = [tuple(0 if cell is None else cell for cell in row) for row in result.rows()]
    return Result.of(result.columns, [] if len(rows) == 1 and not any(rows[0]) else rows)


# ---- 11. worker ----------------------------------------------------------------------------------
#
# The layers between a stranger's SQL and the machine, outermost first:
#
#   a child process that the parent kills when one C call outlasts its limit, and that ends by
#     itself when the parent does, because its standard input closes;
#   limits on its memory, processor time, file sizes, open files and children, where the system has
#     them; limits on SQLite's own memory, cells and attached databases;
#   a read-only connection, fresh for each question, in one read transaction (section 9);
#   an authorizer that allows reading and a list of functions, and nothing else;
#   one statement, a progress handler that watches the clock, a cap on rows.
#
# Both sides speak JSON, a line each. The worker announces each query with its limit, so that the
# parent knows when to kill; what comes back is bounded.

LOOK = 0.05  # seconds between two looks at the workers
GRACE = 1.1  # seconds that the parent waits beyond a limit: the worker should end the query first
HERALD = 0.05  # seconds after which a phase is worth a word to the parent
VARIANT_LIMIT = 20.0  # seconds for all variants of a question; instructions are counted long before
SHRINK_LIMIT = 5.0  # seconds for making a counterexample smaller, which takes a tenth of one
COMPARE_LIMIT = 60.0  # seconds for comparing two results, beyond what running them takes
BOOT = """
import os, sys, marshal
b, m = sys.stdin.buffer, type(sys)("nl2sql_worker")
try:
    sys.modules[m.__name__] = m
    exec(marshal.loads(b.read(int(b.readline()))), m.__dict__)
    m.serve()
finally:
    os._exit(1)
"""


def serve() -> None:
    """The worker's main loop: a job per line on standard input, replies on standard output."""
    import queue
    import signal
    import sqlite3
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_feed, args=(lines,), daemon=True).start()
    voice = _Voice()
    threading.Thread(target=voice.herald, daemon=True).start()
    limits = json.loads(lines.get())
    voice.ready.wait()
    restrain(limits["memory"], limits["file_size"])
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA hard_heap_limit = {limits['memory'] * 3 // 4}")
    connection.close()
    voice.tell({"sqlite": sqlite3.sqlite_version})
    works = partial(_work, surveys={})
    while True:
        job = json.loads(lines.get())
        voice.loud = job.get("again", False)
        serves = _load if "dump" in job else _size if "size" in job else works
        voice.reply(serves(job, voice))


def _feed(lines: Any) -> None:
    """Passes jobs on; when the parent closes its end or is gone, the worker ends at once."""
    try:
        for line in iter(sys.stdin.buffer.readline, b""):
            lines.put(line)
    finally:
        os._exit(0)


class _Voice:
    """What the worker says: a reply per job, and which phase runs when one takes long.

    A word about each phase of each question would cost more than most questions do.
    """

    def __init__(self) -> None:
        import threading

        self.lock = threading.Lock()
        self.ready = threading.Event()
        self.phase: Optional[tuple[str, float, float, float]] = None
        self.loud = False  # say it at once: the last worker died before it could

    def tell(self, message: Mapping[str, Any]) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    def announce(self, phase: str, limit: float) -> None:
        """Something begins that may take `limit` seconds."""
        self.phase = phase, limit, time.process_time(), time.monotonic()
        if self.loud:
            with self.lock:
                self._tell_phase()

    def reply(self, message: Mapping[str, Any]) -> None:
        """The end of a job."""
        with self.lock:
            self.phase = None
            self.tell(message)

    def herald(self) -> NoReturn:
        """Tells of phases that last, for as long as the worker lives."""
        told = None
        bytearray(4096)  # what a thread's first allocation maps shall not count against a query
        self.ready.set()
        parent = os.getppid()
        while True:
            time.sleep(HERALD)
            if os.getppid() != parent:
                os._exit(0)  # a copy of the parent may hold its end of the pipe open
            with self.lock:
                if self.phase is not None and self.phase is not told:
                    told = self.phase
                    self._tell_phase()

    def _tell_phase(self) -> None:
        if self.phase is not None:
            phase, limit, cpu, begun = self.phase
            ago = time.monotonic() - begun
            self.tell({"phase": phase, "limit": limit, "cpu": cpu, "ago": ago})


def restrain(memory: int, file_size: int = 0) -> None:
    """Limits for this process, where the system has them. `memory` and `file_size` in bytes."""
    try:
        import resource
    except ImportError:
        return  # Windows
    for name, value in (
        ("RLIMIT_AS", memory + _mapped()),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", file_size),
        ("RLIMIT_NPROC", 0),
    ):
        limit = getattr(resource, name, None)
        if limit is not None:
            try:
                resource.setrlimit(limit, (value, value))
            except (ValueError, OSError):
                pass  # macOS refuses some; the other layers stand


def _mapped() -> int:
    """Bytes of address space that the interpreter itself has mapped, 0 where that is unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class NoNewFiles:
    """While a query runs no file can be opened, and its processor time is bounded."""

    def __init__(self) -> None:
        self.limit = 0.0
        try:
            import resource
        except ImportError:
            self.resource: Any = None
        else:
            self.resource = resource
            self.files = resource.getrlimit(resource.RLIMIT_NOFILE)

    def __enter__(self) -> None:
        if self.resource is not None:
            # Soft limits only: they come off again when the query has ended.
            soft = int(time.process_time() + self.limit + 2 * GRACE) + 1
            self._set_cpu(soft)
            self.resource.setrlimit(self.resource.RLIMIT_NOFILE, (0, self.files[1]))

    def __exit__(self, *_: object) -> None:
        if self.resource is not None:
            self.resource.setrlimit(self.resource.RLIMIT_NOFILE, self.files)
            self._set_cpu(self.resource.RLIM_INFINITY)

    def _set_cpu(self, soft: int) -> None:
        endless = self.resource.RLIM_INFINITY
        hard = self.resource.getrlimit(self.resource.RLIMIT_CPU)[1]
        if hard != endless:
            soft = hard if soft == endless else min(soft, hard)
        self.resource.setrlimit(self.resource.RLIMIT_CPU, (soft, hard))


def _work(job: Mapping[str, Any], voice: _Voice, surveys: dict[str, Survey]) -> dict[str, Any]:
    """The reply to one job. What is known of each database is kept in `surveys`."""
    kind = _Audit if job["audit"] else _Trial
    trial = kind(job, voice, surveys.setdefault(job["uri"], Survey()))
    try:
        reply = trial.reply()
    except QueryError as error:
        reply = {"reason": error.reason, "note": cut(error.text, 1000), "final": error.final}
    except ScoreError as error:  # a contract that this machine cannot keep, for want of a time zone
        reply = {"reason": "reference_error", "note": str(error)}
    except MemoryError:
        reply = {"reason": "too_large", "note": trial.engine_note, "final": False}
    finally:
        trial.close()
    reply["seconds"] = trial.seconds
    reply["phase"] = trial.phase
    reply["spent"] = reply["reason"] == "too_large"  # memory may be in pieces: replace the worker
    return reply


def _load(job: Mapping[str, Any], voice: _Voice) -> dict[str, Any]:
    """The reply to a job that makes a database of a dump."""
    voice.announce("load", job["limit"])
    try:
        load_dump(job["dump"], job["copy"])
    except QueryError as error:
        return {"reason": error.reason, "note": error.text, "phase": "load"}
    except (OSError, MemoryError) as error:
        return {"reason": "too_large", "note": str(error) or "too large", "phase": "load"}
    return {"reason": "", "phase": "load"}


def _size(job: Mapping[str, Any], voice: _Voice) -> dict[str, Any]:
    """The reply to a job that asks how large a database is."""
    import sqlite3

    voice.announce("size", job["limit"])
    try:
        return {"reason": "", "phase": "size", "size": database_size(job["size"])}
    except (sqlite3.Error, MemoryError) as error:
        return {"reason": "sql_error", "note": f"cannot be read: {error}", "phase": "size"}


class _Trial:
    """One question in the worker: reference, candidate, comparison, traps, on one connection."""

    engine_note = "comparing the results needs more memory than a run is given"

    def __init__(self, job: Mapping[str, Any], voice: _Voice, survey: Survey) -> None:
        self.job, self.voice = job, voice
        self.contract = Contract()
        self.guard = NoNewFiles()
        self.seconds = {"reference": 0.0, "candidate": 0.0}
        self.phase = "reference"
        self.reference_cpu = 0.0  # seconds; a machine that is busy gives a candidate no more time
        self.survey = survey
        self.broken: Optional[QueryError] = None  # what the reference came to, if not to a result
        self.engine: Optional[SqliteEngine] = None

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()

    def reply(self) -> dict[str, Any]:
        job = self.job
        self.contract = read_contract(job["contract"])
        self.engine = self._open()
        sql = job["reference"]
        want = self._reference(sql) if sql else None
        if want is not None and job["frozen"]:
            self._check_frozen(want)
        if job["candidate"] is None:
            want = want or _frozen_result(job["frozen"][0], None)
            problem = contract_problem(want, self.contract)
            if problem:
                raise QueryError("reference_error", problem)
            return self._shown(want)
        known = None if want is None else self._runs(want, sql)
        limit = max(job["timeout"], SLOW_FACTOR * self.reference_cpu)
        got = self._candidate(limit)
        self._announce("compare", COMPARE_LIMIT + 4 * limit)
        if self.broken is not None:
            found = self._alternative(got)
            if found:
                return found
            raise self.broken
        if want is None:
            comparison, want, got = self._compare_frozen(job["frozen"][0], got)
        else:
            comparison = self._compare(want, got, sql, known)
        reply = {"reason": comparison.reason, "comparison": _pack(comparison)}
        if comparison.matched:
            return {**reply, **self._on_variants(0)}
        if comparison.reason == "reference_error":
            return reply
        return self._alternative(got) or {**reply, **self._traps(want, got, limit)}

    def _reference(self, sql: str) -> Optional[Result]:
        """The reference's result, None where it does not run but an alternative may match."""
        job, begun = self.job, time.process_time()
        try:
            want = self._run("reference", sql, job["reference_timeout"])
            self.reference_cpu = time.process_time() - begun
            return want
        except QueryError as error:
            open_end = not error.final and not job["again"]
            if open_end or not job["alternatives"] or job["candidate"] is None:
                raise
            text = f"the reference: {error.reason}: {error.text}"
            self.broken = QueryError("reference_error", text)
            return None

    def _candidate(self, limit: float) -> Result:
        try:
            return self._run("candidate", self.job["candidate"], limit)
        except QueryError as error:
            if error.reason == "timeout":
                error = QueryError("timeout", over_limit(limit, self.job), error.final)
            raise self.broken or error from None

    def _shown(self, want: Result) -> dict[str, Any]:
        rows = [_packed_row(row) for row in islice(want.rows(), SAMPLE_ROWS)]
        names = _packed_names(want.columns)
        return {"reason": "", "columns": names, "rows": rows, "count": want.count}

    def _compare(
        self, want: Result, got: Result, sql: str, known: Optional[tuple[Any, str]]
    ) -> Comparison:
        """The comparison with one of the references; `known` is what _runs says of it."""
        assert self.engine is not None
        contract = preset_order(self.contract, sql)
        runs, note = known or (None, "")
        try:
            comparison = compare(want, got, contract, runs)
        except self.engine.errors as error:  # a large result was read again and did not end well
            raise self.engine.error(error) from None
        if note and comparison.reason == "order":
            comparison = comparison._replace(note=f"{comparison.note}; {note}")
        return comparison

    def _compare_frozen(
        self, frozen: Mapping[str, Any], got: Result
    ) -> tuple[Comparison, Result, Result]:
        """The comparison with frozen rows, and both results as they were read for it."""
        want = _frozen_result(frozen, got)
        got = _without_blanks(got) if frozen["file"] else got
        return self._compare(want, got, "", None), want, got

    def _check_frozen(self, want: Result) -> None:
        """Raises QueryError where the reference agrees with none of the frozen rows."""
        differs = ""
        for frozen in self.job["frozen"]:
            comparison, *_ = self._compare_frozen(frozen, want)
            if comparison.matched:
                return
            differs = differs or f"{comparison.reason}: {describe(comparison)}"
        text = f"the frozen rows and the reference's result disagree: {differs}"
        raise QueryError("reference_error", text)

    def _alternative(self, got: Result) -> dict[str, Any]:
        """The reply where a further reference or further frozen rows match, {} where none does."""
        job = self.job
        broken = ""
        for number, sql in enumerate(job["alternatives"], 2):
            name = f"alternative {number}"
            try:
                want = self._run("alternative", sql, job["reference_timeout"])
                known = self._runs(want, sql)
                self._announce("compare", COMPARE_LIMIT + 4 * job["timeout"])
                comparison = self._compare(want, got, sql, known)
            except QueryError as error:
                if not error.final and not job["again"]:
                    raise
                broken = broken or f"{name}: {error.reason}: {error.text}"
                continue
            if comparison.matched:
                reply = self._accepted(comparison, f"{name} of {len(job['alternatives']) + 1}")
                return {**reply, **self._on_variants(number - 1)}
        for frozen in job["frozen"] if job["reference"] else job["frozen"][1:]:
            comparison, *_ = self._compare_frozen(frozen, got)
            if comparison.matched:
                return self._accepted(comparison, frozen["file"])
        if broken:
            raise QueryError("reference_error", f"the reference: {broken}")
        self._announce("compare", COMPARE_LIMIT)
        return {}

    def _accepted(self, comparison: Comparison, name: str) -> dict[str, Any]:
        reason = comparison.reason
        return {"reason": reason, "comparison": _pack(comparison), "accepted": name}

    def _open(self) -> SqliteEngine:
        import sqlite3

        try:
            return SqliteEngine(
                self.job["uri"],
                self.job["tables"],
                self.job["max_rows"],
                self.guard,
                {name: unpacked(cell) for name, cell in self.job["params"].items()},
                self.contract.preset,
            )
        except sqlite3.Error as error:
            raise QueryError("reference_error", f"the database cannot be read: {error}") from None

    def _announce(self, phase: str, limit: float) -> None:
        self.phase = phase
        self.guard.limit = limit
        self.voice.announce(phase, limit)

    def _run(self, phase: str, sql: str, limit: float) -> Result:
        assert self.engine is not None
        self._announce(phase, limit)
        begun = time.monotonic()
        try:
            return self.engine.run(sql, limit)
        finally:
            if phase in self.seconds:
                self.seconds[phase] = time.monotonic() - begun

    def _runs(self, want: Result, sql: str) -> tuple[Optional[list[int]], str]:
        """Runs of rows that tie on a reference's ORDER BY, and a note where none can be told."""
        free = self.contract.order != "auto" or self.contract.preset or want.count < 2
        terms = None if free else order_terms(sql)
        if terms is None:
            return None, ""
        assert self.engine is not None
        errors: tuple[type[BaseException], ...] = (QueryError, *self.engine.errors)
        try:
            runs = self._tied(want, sql, terms) if self.job["ties"] else None
        except errors as error:
            if not self.engine.error(error).final and not self.job["again"]:
                raise  # it is tried again, alone
            runs = None
        if runs is None:
            return [1] * want.count, "rows that tie cannot be told, so their order is strict"
        return runs, ""

    def _tied(self, want: Result, sql: str, terms: Sequence[str]) -> Optional[list[int]]:
        """Runs of rows that tie on the sort terms, None where hidden terms cannot be read."""
        keys = [sort_expression(term) for term in terms]
        names = [name.lower() for name in want.columns]
        shown = [_shown_column(expression, names) for expression, _ in keys]
        hidden = [keys[i][0] for i, at in enumerate(shown) if at is None]
        rows = want
        if hidden:
            extended = self._with_keys(want, sql, hidden)
            if extended is None:
                return None
            rows = extended
        spare = itertools.count(want.width)
        places = [next(spare) if at is None else at for at in shown]
        folds = [_collated(collation) for _, collation in keys]
        key_rows = (tuple(f(row[i]) for f, i in zip(folds, places)) for row in rows.rows())
        return tied_runs(key_rows, [Tolerance()] * len(keys))

    def _with_keys(self, want: Result, sql: str, hidden: Sequence[str]) -> Optional[Result]:
        """The reference with its hidden sort keys as columns, None where that changes its rows."""
        longer = with_columns(sql, hidden)
        if longer is None:
            return None
        # Read up to three times: to keep, to see that the rows are the same, and for the keys.
        if self.phase != "variants":
            self._announce("sort keys", 3 * self.job["reference_timeout"])
        assert self.engine is not None
        extended = self.engine.run(longer, self.job["reference_timeout"])
        rows = project(extended.rows(), range(want.width), extended.width)
        digest, _ = take(iter(rows), sys.maxsize)
        return extended if digest.sequence == want.digest.sequence else None

    def _traps(self, want: Result, got: Result, limit: float) -> dict[str, Any]:
        """The traps whose query gives the candidate's result under the contract.

        `limit` in seconds is what they may take, each and together; some may go untried.
        """
        assert self.engine is not None
        errors: tuple[type[BaseException], ...] = (QueryError, *self.engine.errors)
        rules = self.contract if self.contract.top else self.contract._replace(order="ignore")
        found: list[str] = []
        untried = 0
        end = time.monotonic() + limit
        for name, sql in self.job["traps"]:
            if time.monotonic() > end:
                untried += 1
                continue
            try:
                trap = self._run("trap", sql, limit)
                if trap.width == want.width:
                    trap.columns = want.columns  # the contract speaks of the reference's names
                if matches(trap, got, restricted(rules, trap.columns)):
                    found.append(name)
            except errors as error:
                if not self.engine.error(error).final and not self.job["again"]:
                    raise
                untried += 1
        return {"traps": found, "untried": untried}

    # On variants: the candidate is right there where it agrees with one accepted query.

    def _on_variants(self, matched: int) -> dict[str, Any]:
        """What variants of the data say of a candidate that matches there.

        `matched` is the place of the query that it matches: 0 for the reference.
        """
        job = self.job
        accepted = [sql for sql in (job["reference"], *job["alternatives"]) if sql]
        same = any(same_tokens(sql, job["candidate"]) for sql in accepted)
        if not job["variants"] or not job["reference"] or same:
            return {}
        if matched:
            accepted.insert(0, accepted.pop(matched))
        self._announce("variants", VARIANT_LIMIT + SHRINK_LIMIT)
        real, memory = self.engine, None
        assert real is not None
        try:
            plan, memory, shown = _neighbours(real, self.survey, accepted, job)
            self.engine = memory
            return self._lucky(plan, memory, accepted, shown)
        except Unvaried as why:
            return {"variants": 0, "unvaried": str(why)}
        except (QueryError, *real.errors) as failure:
            error = real.error(failure)
            if not error.final and not job["again"]:
                raise error from None
            return {"variants": 0, "unvaried": error.text}
        finally:
            self.engine = real
            if memory is not None:
                memory.close()

    def _lucky(
        self, plan: Variants, memory: VariantEngine, accepted: Sequence[str], shown: Sequence[str]
    ) -> dict[str, Any]:
        """How many variants were tried, and the smallest that tells the candidate apart."""
        sampled = [table.name for table in plan.tables if table.sampled]
        found = self._first_apart(plan, memory, accepted)
        if found is None:
            return {"variants": self.job["variants"], "sampled": sampled}
        number, rows = found
        if rows is None:
            return {"variants": number, "sampled": sampled}
        end = time.monotonic() + SHRINK_LIMIT
        rows = shrunk(
            rows,
            plan.tables,
            lambda rows: time.monotonic() < end and self._apart(memory, accepted, rows) is not None,
        )
        again = self._apart(memory, accepted, rows)
        assert again is not None
        want, got, comparison = again
        apart = {
            "number": number,
            "schema": shown,
            "tables": [
                (
                    table.name,
                    [column.name for column in table.columns],
                    list(map(_whole_row, rows[table.name])),
                )
                for table in plan.tables
            ],
            "comparison": _pack(comparison),
            "want": [_packed_row(row) for row in islice(want.rows(), SAMPLE_ROWS)],
            "got": [_packed_row(row) for row in islice(got.rows(), SAMPLE_ROWS)],
            "reference": accepted[0],
        }
        return {"variants": number + 1, "sampled": sampled, "apart": apart}

    def _first_apart(
        self, plan: Variants, memory: VariantEngine, accepted: Sequence[str]
    ) -> Optional[tuple[int, Optional[Rows]]]:
        """The first variant that tells the candidate apart, and its rows.

        None where none does; no rows where instructions ran out before that variant.
        """
        end = time.monotonic() + VARIANT_LIMIT / 2
        for number in range(self.job["variants"]):
            if memory.budget <= 0 or time.monotonic() > end:
                return number, None
            rows = plan.rows(number)
            taken = memory.fill(rows)
            rows = rows if taken is rows else repaired(taken, plan.tables)
            if self._apart(memory, accepted, rows) is not None:
                return number, rows
        return None

    def _apart(
        self, memory: VariantEngine, accepted: Sequence[str], rows: Rows
    ) -> Optional[tuple[Result, Result, Comparison]]:
        """The two results and how they differ, where the candidate differs from every reference.

        None as well where one of them does not run there, or a reference depends on the order of
        rows.
        """
        limit = self.job["timeout"]
        memory.fill(rows)
        try:
            got = memory.run(self.job["candidate"], limit)
            wants = [memory.run(sql, limit) for sql in accepted]
            if any(want.digest == got.digest and want.width == got.width for want in wants):
                return None
            known = [self._runs(want, sql) for want, sql in zip(wants, accepted)]
            found = [self._difference(*pair, got) for pair in zip(wants, accepted, known)]
            if None in found or (found[0] and found[0].reason == "reference_error"):
                return None
            others = [memory.run(text, limit) for sql in accepted for text in with_broken_ties(sql)]
            ties = [want for want, sql in zip(wants, accepted) for _ in with_broken_ties(sql)]
            if not all(map(_same_rows, ties, others)) or any(map(self._cuts_tie, accepted)):
                return None
            memory.fill({name: kept[::-1] for name, kept in rows.items()})
            again = [memory.run(sql, limit) for sql in accepted]
            if any(map(self._difference, wants, accepted, known, again)):
                return None
        except QueryError as error:
            if not error.final and not self.job["again"]:
                raise
            return None
        comparison = found[0]
        assert comparison is not None
        return wants[0], got, comparison

    def _cuts_tie(self, sql: str) -> bool:
        """Whether the rows at the outermost LIMIT tie, though what is shown of them be the same."""
        limit, terms = limit_of(sql), order_terms(sql)
        if limit is None or not terms:
            return False
        whole, edges = limit
        assert self.engine is not None
        try:
            want = self.engine.run(whole, self.job["timeout"])
            runs = self._tied(want, whole, terms)
        except QueryError as error:
            if not error.final:
                raise
            return False
        starts = set(itertools.accumulate(runs or []))
        return runs is not None and any(0 < at < want.count and at not in starts for at in edges)

    def _difference(
        self, want: Result, sql: str, known: tuple[Optional[list[int]], str], got: Result
    ) -> Optional[Comparison]:
        """How two results on a variant differ; NULL, 0 and no row are one nothing there.

        `known` is what _runs says of the reference's result.
        """
        if want.digest == got.digest and want.width == got.width:
            return None
        comparison = self._compare(want, got, sql, known)
        if comparison.matched or comparison.reason == "reference_error":
            return None if comparison.matched else comparison
        nothing = without_nothing(want), without_nothing(got)
        softened = self._compare(*nothing, sql, None)
        return None if softened.matched and comparison.reason != "order" else comparison


def _neighbours(
    engine: SqliteEngine, survey: Survey, accepted: Sequence[str], job: Mapping[str, Any]
) -> tuple[Variants, VariantEngine, list[str]]:
    """The variants for a candidate, an engine to run them on, and the schema as the data has it."""
    queries = [*accepted, job["candidate"]]
    tables = survey.of(engine, tables_of(engine, queries))
    found = [
        (clue, i < len(accepted))
        for i, sql in enumerate(queries)
        for clue in clues(sql, engine.params)
    ]
    plan = Variants(tables, engine.reads, found, f"{SEED}/{job['id']}")
    made, shown = variant_schema(engine, plan.tables, " ".join(queries))
    return plan, VariantEngine(plan, made, engine), shown


# -- the audit of a reference
#
# The same eye on the reference as on a candidate: what it reads, whether another order of the rows
# or another run gives something else, and which of its mutants the data cannot tell from it.

CLOCK = ("date", "time", "datetime", "julianday", "strftime", "unixepoch")
CLOCK_WORDS = ("current_date", "current_time", "current_timestamp")
CHANCE = ("random", "randomblob")
LISTS = ("group_concat", "string_agg")
AUDIT_LIMIT = 300.0  # seconds for the audit of one reference, the reference itself aside
REVERSED_ROWS = 20_000  # a table with more is reversed as a sample
MUTANT_TICKS = 50  # of TICK instructions for a mutant, beyond ten times what the reference took
ELSEWHERE = {
    "PostgreSQL": "DATE_TRUNC TO_CHAR TO_DATE TO_TIMESTAMP NOW AGE DATE_PART EXTRACT GREATEST LEAST"
    " STRING_AGG ARRAY_AGG BOOL_OR BOOL_AND SPLIT_PART REGEXP_REPLACE GENERATE_SERIES STDDEV"
    " VARIANCE LPAD RPAD LEFT RIGHT INITCAP CONCAT CONCAT_WS MAKE_DATE POSITION PERCENTILE_CONT",
    "MySQL": "CURDATE CURTIME DATE_FORMAT DATE_ADD DATE_SUB YEAR MONTH DAY HOUR STR_TO_DATE"
    " LAST_DAY FIND_IN_SET UNIX_TIMESTAMP IFNULL",
    "SQL Server": "GETDATE DATEDIFF DATEADD DATEPART DATENAME LEN ISNULL CHARINDEX CONVERT EOMONTH"
    " TRY_CAST STUFF STDEV",
    "Oracle": "NVL NVL2 DECODE SYSDATE ADD_MONTHS MONTHS_BETWEEN LISTAGG TRUNC TO_NUMBER",
}
FOREIGN_SYNTAX = (
    (r"\bILIKE\b", "ILIKE is PostgreSQL's; LIKE ignores case here"),
    (r"\bSELECT\s+(?:DISTINCT\s+)?TOP\b", "TOP is SQL Server's; here it is LIMIT"),
    (r"::", ":: is PostgreSQL's; here it is CAST"),
    (r"\bDISTINCT\s+ON\b", "DISTINCT ON is PostgreSQL's"),
    (r"\bINTERVAL\b", "INTERVAL is PostgreSQL's and MySQL's; here date() takes '+7 days'"),
    (r"\bFETCH\s+(?:FIRST|NEXT)\b", "FETCH FIRST is standard SQL's; here it is LIMIT"),
    (r"\bFROM\s+DUAL\b", "dual is Oracle's; here FROM is left out"),
)  # fmt: skip


class _Audit(_Trial):
    """The findings about one reference and the data that it reads."""

    def __init__(self, job: Mapping[str, Any], voice: _Voice, survey: Survey) -> None:
        super().__init__(job, voice, survey)
        self.findings: list[tuple[str, str]] = []

    def find(self, word: str, text: str) -> None:
        self.findings.append((word, text))

    def reply(self) -> dict[str, Any]:
        job = self.job
        self.contract = read_contract(job["contract"])
        self.engine = self._open()
        sql = job["reference"]
        try:
            want = self._run("reference", sql, job["reference_timeout"]) if sql else None
        except QueryError as error:
            if not error.final and not job["again"]:
                raise
            self.find(error.reason, self._why(error, sql))
            return {"reason": "", "findings": self.findings, "broken": True}
        self._announce("audit", AUDIT_LIMIT)
        if want is None:
            self._other_queries(_frozen_result(job["frozen"][0], None))
        else:
            self._look(want, sql)
        return {"reason": "", "findings": self.findings, "broken": False}

    def _look(self, want: Result, sql: str) -> None:
        assert self.engine is not None
        ticks = self.engine.ticks
        self._result(want)
        self._text(sql)
        unstable = self._second_run(want, sql)
        if not unstable:
            self._self(want, sql)
            self._cut(want, sql)
        self._other_queries(want)
        try:
            self._rows_and_mutants(want, sql, unstable, ticks)
        except Unvaried:
            pass

    # what does not run

    def _why(self, error: QueryError, sql: str) -> str:
        """What the error says, with the name that is nearest or the engine that is meant."""
        assert self.engine is not None
        text = error.text
        if error.reason != "sql_error":
            return text
        missing = re.match(r"no such (table|column): (?:\w+\.(?=\w+\.))?(.+)", text)
        hint = _foreign(sql) if "OUTER JOIN" not in text else ""
        if missing and not hint:
            near = nearest(missing[2].rpartition(".")[2], self._names(missing[1], sql), 0.5)
            hint = f"the nearest name is {near}" if near else ""
        return f"{text}; {hint}" if hint else text

    def _names(self, kind: str, sql: str) -> tuple[str, ...]:
        """The names of all tables, or of the columns of those that the query names."""
        assert self.engine is not None
        tables = [
            name
            for (name,) in self.engine.ask(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
            )
        ]
        if kind == "table":
            return tuple(tables)
        words = {unquoted(sql[t.start : t.end]).lower() for t in tokens(sql) if t.kind == "name"}
        named = [name for name in tables if name.lower() in words]
        columns = "SELECT name FROM pragma_table_xinfo(?)"
        return tuple(c for name in named or tables for (c,) in self.engine.ask(columns, name))

    # what the result and the text show

    def _result(self, want: Result) -> None:
        if want.count == 0:
            self.find("empty", "it returns no rows")
        elif want.count == 1 and all(cell is None for row in want.rows() for cell in row):
            self.find("null", "its one row holds only NULL")
        ignored = self.contract.duplicates == "ignore" or self.contract.preset == "bird"
        if want.count > 1 and not ignored:
            counts = Counter(islice(want.rows(), HOLD_ROWS))
            row, most = max(counts.items(), key=lambda item: item[1])
            again = sum(number > 1 for number in counts.values())
            if most > 1:
                rows = f"{counted(again, 'row')} more than once, such as"
                self.find("repeats", f"it returns {rows} {show_row(row)} x{most}")

    def _text(self, sql: str) -> None:
        """What the words of the query show."""
        assert self.engine is not None
        written = _calls(sql, self.job["params"]) + self._calls_in_views(sql)
        calls = [call for call in written if call[0] in self.engine.calls]
        clock = [call for name, call in calls if name in CLOCK + CLOCK_WORDS]
        if clock:
            self.find("clock", f"it reads the clock: {listed(list(dict.fromkeys(clock)))}")
        chance = [call for name, call in calls if name in CHANCE]
        if chance:
            self.find("random", f"it draws lots: {listed(list(dict.fromkeys(chance)))}")
        for text in _taken_for_text(self.engine, sql):
            self.find("quoted_text", f'no column is called "{text}": SQLite takes it for text')
        for text in _counted_cases(sql):
            self.find("count_case", f"{text} counts every row: no branch of it is NULL")
        self._text_numbers(sql)

    def _calls_in_views(self, sql: str) -> list[tuple[str, str]]:
        assert self.engine is not None
        rows = self.engine.ask("SELECT LOWER(name), sql FROM sqlite_master WHERE type = 'view'")
        views: dict[str, str] = dict(rows)
        used = used_views(views, sql)
        return [call for name in used for call in _calls(views[name], {})]

    def _text_numbers(self, sql: str) -> None:
        """Columns of numbers stored as text that are sorted or compared as text."""
        assert self.engine is not None
        try:
            tables = self.survey.of(self.engine, tables_of(self.engine, [sql]))
        except Unvaried:
            return
        texts: dict[str, str] = {}
        numeric: set[str] = set()
        for table in tables:
            for column in table.columns:
                pair = _misplaced(column)
                if pair:
                    order = f"{show_cell(pair[0])} comes before {show_cell(pair[1])}"
                    name = f"{table.name}.{column.name}"
                    texts[column.name.lower()] = f"{name} holds numbers as text: {order}"
                elif column.form in ("integer", "real"):
                    numeric.add(column.name.lower())
        for name in _ordered_as_text(sql, set(texts), numeric) if texts else ():
            self.find("text_numbers", texts[name])

    # what another run, another order and other queries show

    def _second_run(self, want: Result, sql: str) -> bool:
        again = self._attempt(sql)
        if again is None or not self._is_another(want, again, sql):
            return False
        self.find("second_run", "a second run returns something else")
        return True

    def _self(self, want: Result, sql: str) -> None:
        comparison = self._compare(
            want, _best_rows(want, self.contract), sql, self._runs(want, sql)
        )
        if not comparison.matched:
            text = comparison.note or describe(comparison)
            self.find("self", f"as its own candidate it does not pass: {comparison.reason}: {text}")

    def _attempt(self, sql: str) -> Optional[Result]:
        """The result of a query of the audit, None where it does not run."""
        assert self.engine is not None
        try:
            return self.engine.run(sql, self.job["reference_timeout"])
        except QueryError as error:
            if not error.final and not self.job["again"]:
                raise
            return None

    def _is_another(
        self,
        want: Result,
        got: Result,
        sql: str,
        known: Optional[tuple[Optional[list[int]], str]] = None,
    ) -> bool:
        """Whether another result is not the reference's under the contract.

        `known` is what _runs says of the reference's.
        """
        if want.digest == got.digest and not self.contract.top:
            return False
        got = _best_rows(got, self.contract)
        comparison = self._compare(want, got, sql, known or self._runs(want, sql))
        return not comparison.matched and comparison.reason != "reference_error"

    def _cut(self, want: Result, sql: str) -> None:
        """What the outermost LIMIT cuts through, and what it keeps."""
        whole = without_limit(sql)
        terms = order_terms(sql)
        if whole is None or not terms:
            return
        for text in with_broken_ties(sql, outermost=True):
            other = self._attempt(text)
            if other is not None and not _same_rows(want, other):
                others = Counter(other.rows()) - Counter(want.rows())
                shown = listed([show_row(row) for row in sorted(others, key=repr)])
                limit = " ".join(without_tail(sql)[len(whole) :].split())
                self.find("tie", f"{limit} cuts through a tie: {shown} would do as well")
                break
        every = self._attempt(whole)
        first = [term for term in terms if not re.search(r"(?i)\b(DESC|NULLS\s+\w+)\s*$", term)]
        if every is None or every.count <= want.count or not first:
            return
        keys = [sort_expression(term)[0] for term in first]
        longer = with_columns(sql, keys)
        extended = self._attempt(longer) if longer else None
        names = [name.lower() for name in want.columns]
        places = [_shown_column(key, names) for key in keys]
        for i, key in enumerate(keys):
            at = places[i]
            rows = want.rows()
            if at is None and extended:
                at, rows = want.width + i, extended.rows()
            if at is not None and any(row[at] is None for row in rows):
                self.find(
                    "nulls_first", f"ascending order puts NULL first, and LIMIT keeps it: {key}"
                )
                break

    def _other_queries(self, want: Result) -> None:
        """Traps that give the reference's result, alternatives that do not."""
        job = self.job
        for name, sql in job["traps"]:
            got = self._attempt(sql)
            if got is None:
                continue
            if got.width == want.width:
                got.columns = want.columns  # the contract speaks of the reference's names
            if not self._is_another(want, got, job["reference"]):
                self.find("trap", f"{name} gives the reference's result: it cannot be caught")
        for number, sql in enumerate(job["alternatives"] if job["reference"] else (), 2):
            try:
                got = self._run("audit", sql, job["reference_timeout"])
            except QueryError as error:
                if not error.final and not job["again"]:
                    raise
                self.find(
                    "alternative", f"alternative {number}: {error.reason}: {self._why(error, sql)}"
                )
                continue
            comparison = self._compare(
                want, got, job["reference"], self._runs(want, job["reference"])
            )
            if not comparison.matched:
                text = f"{comparison.reason}: {describe(comparison)}"
                self.find("alternative", f"alternative {number} returns something else: {text}")

    def _rows_and_mutants(self, want: Result, sql: str, unstable: bool, ticks: int) -> None:
        """What reversed rows change, and which mutants go unnoticed."""
        real = self.engine
        assert real is not None
        failed_self = any(word == "self" for word, _ in self.findings)
        if not unstable and not failed_self:
            self._reversed(sql)
        found = [] if unstable else self._unnoticed(want, sql, ticks)
        if found:
            more = f"the data does not tell it from {counted(len(found), 'change')} of it"
            self.find("blind_spot", f"{more}: {listed([cut(text, 200) for text in found], 5)}")

    def _reversed(self, sql: str) -> None:
        """The reference on a copy of the data, and on one with the rows the other way round."""
        real = self.engine
        assert real is not None
        tables = self.survey.of(real, tables_of(real, [sql]))
        plan = Variants(tables, set(), (), "")
        _, original = variant_schema(real, plan.tables, sql)
        memory = VariantEngine(plan, original, real, INFINITY)
        rows = {table.name: list(self._rows(table)) for table in tables}
        try:
            self.engine = memory
            memory.fill(rows)
            one = self._attempt(sql)
            known = None if one is None else self._runs(one, sql)
            memory.fill({name: kept[::-1] for name, kept in rows.items()})
            other = self._attempt(sql)
            if one is None or other is None:
                return
            if self._is_another(one, other, sql, known):
                self.find("row_order", _other_order(one, other))
                lists = [name for name in LISTS if name in real.calls]
                if lists and _sorted_cells(one) == _sorted_cells(other):
                    self.find("group_concat", f"{lists[0]} puts its values in the rows' order")
        finally:
            self.engine = real
            memory.close()

    def _rows(self, table: Table) -> Sequence[Row]:
        assert self.engine is not None
        names = ", ".join(quoted_name(column.name) for column in table.columns)
        select = f"SELECT {names} FROM {quoted_name(table.name)} LIMIT {REVERSED_ROWS + 1}"
        rows = self.engine.ask(select)
        return rows if len(rows) <= REVERSED_ROWS else table.rows

    def _unnoticed(self, want: Result, sql: str, ticks: int) -> list[str]:
        """The changes to the reference that this data does not show, and that variants do."""
        real = self.engine
        assert real is not None
        alike = []
        for mutant in mutants(sql):
            real.allowance = MUTANT_TICKS + 10 * ticks
            try:
                got = real.run(mutant.sql, self.job["reference_timeout"])
                if not self._is_another(want, got, sql):
                    alike.append(mutant)
            except QueryError as error:
                if not error.final and not self.job["again"]:
                    raise
            finally:
                real.allowance = INFINITY
        found = []
        for mutant in alike if self.job["variants"] else ():
            job = {**self.job, "candidate": mutant.sql, "alternatives": []}
            plan, memory, _ = _neighbours(real, self.survey, [sql], job)
            self.job, self.engine, kept = job, memory, self.job
            try:
                if self._first_apart(plan, memory, [sql]) is not None:
                    found.append(mutant.change)
            finally:
                self.job, self.engine = kept, real
                memory.close()
        return found


def _foreign(sql: str) -> str:
    """Which other engine a query that does not run is written for, "" where nothing shows it."""
    plain = "".join(
        " " if token.kind in ("string", "comment") else sql[token.start : token.end]
        for token in tokens(sql)
    )
    for pattern, text in FOREIGN_SYNTAX:
        if re.search(pattern, plain, re.IGNORECASE):
            return text
    for name in re.findall(r"(\w+)\s*\(", plain):
        for engine, names in ELSEWHERE.items():
            if name.upper() in names.split():
                return f"{name} is a function of {engine}"
    return ""


def _calls(sql: str, params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Calls of what is no function of the data: names in lower case, the calls as written."""
    words = [(sql[t.start : t.end], t) for t in tokens(sql) if t.kind not in BLANK]
    found = []
    for i, (word, token) in enumerate(words):
        name = unquoted(word).lower() if token.kind == "name" else ""
        after = words[i + 1][0] if i + 1 < len(words) else ""
        before = words[i - 1][0] if i else ""
        if (
            word.lower() in CLOCK_WORDS
            and before != "."
            and after != "."
            and before.upper() != "AS"
        ):
            found.append((word.lower(), word))
        elif after == "(" and name in CLOCK + CHANCE:
            end = next((j for j in range(i, len(words)) if words[j][0] == ")"), len(words) - 1)
            args = [text.lower() for text, _ in words[i + 2 : end]]
            now = any(_is_now(text, params) for text in args)
            alone = len(args) <= (name == "strftime")
            if name not in CLOCK or now or alone:
                found.append((name, " ".join(sql[token.start : words[end][1].end].split())))
    return found


def _is_now(text: str, params: Mapping[str, Any]) -> bool:
    if text[0] in ":@$":
        return str(params.get(text[1:], "")).lower() == "now"
    return text[0] in "'\"" and unquoted(text) == "now"


def _taken_for_text(engine: Optional[SqliteEngine], sql: str) -> list[str]:
    """The names in double quotes that SQLite takes for text: no column is called so."""
    assert engine is not None
    found = []
    for token in tokens(sql):
        text = sql[token.start : token.end]
        if token.kind == "name" and text[0] == '"' and token.closed:
            other = f"{sql[: token.start]}`{unquoted(text)}`{sql[token.end :]}"
            try:
                engine.opened(other)
            except QueryError as error:
                if "no such column" in error.text:
                    found.append(unquoted(text))
    return list(dict.fromkeys(found))


def _counted_cases(sql: str) -> list[str]:
    """Each COUNT over a CASE with an ELSE, none of whose branches can be NULL."""
    words = [(sql[t.start : t.end].upper(), t) for t in tokens(sql) if t.kind not in BLANK]
    found = []
    for i in range(len(words) - 2):
        if [word for word, _ in words[i : i + 3]] == ["COUNT", "(", "CASE"]:
            end, never = _case_end(words, i + 2)
            closed = words[end + 1 : end + 2] and words[end + 1][0] == ")"
            if closed and never:
                found.append(" ".join(sql[words[i][1].start : words[end + 1][1].end].split()))
    return found


def _case_end(words: Sequence[tuple[str, Token]], at: int) -> tuple[int, bool]:
    """Where a CASE ends, and whether none of its branches can be NULL."""
    never, otherwise = True, False
    i = at + 1
    while i < len(words) and words[i][0] != "END":
        word = words[i][0]
        if word == "CASE":
            i, _ = _case_end(words, i)
        elif word in ("THEN", "ELSE"):
            otherwise = otherwise or word == "ELSE"
            value, token = words[i + 1]
            if value == "CASE":
                i, inner = _case_end(words, i + 1)
                never = never and inner
            else:
                never = never and token.kind in ("number", "string")
        i += 1
    return i, never and otherwise


def _misplaced(column: Column) -> tuple[str, ...]:
    """Two numbers that a column holds as text, where text order is not theirs; () where it is."""
    texts = [value for value in column.values if isinstance(value, str)]
    plain = [text for text in texts if re.fullmatch(r"[+-]?\d+(\.\d+)?", text, re.ASCII)]
    if len(plain) < len(column.values):
        return ()
    numbers = list(map(float, texts))
    falls = (i for i in range(1, len(numbers)) if numbers[i - 1] > numbers[i])
    return next(((texts[i - 1], texts[i]) for i in falls), ())


def _ordered_as_text(sql: str, texts: set[str], numeric: set[str]) -> list[str]:
    """Which of the columns `texts` a query sorts by, or compares with < and its like."""
    words = [(sql[t.start : t.end].upper(), t) for t in tokens(sql) if t.kind not in BLANK]
    names = [unquoted(sql[t.start : t.end]).lower() if t.kind == "name" else "" for _, t in words]
    found = []
    for i, name in enumerate(names):
        if name in texts:
            start = i - 2 if i > 1 and words[i - 1][0] == "." else i
            before = words[start - 1][0] if start else ""
            after = words[i + 1][0] if i + 1 < len(words) else ""
            other = i + 2 if after in COMPARISONS else start - 2
            compared = before in COMPARISONS or after in COMPARISONS or after == "BETWEEN"
            compared = compared and not _is_numeric(words, names, other, numeric)
            inner = start - (before == "DISTINCT")
            call = [word for word, _ in words[max(inner - 2, 0) : inner]]
            extreme = call in (["MIN", "("], ["MAX", "("]) and after == ")"
            if compared or extreme:
                found.append(name)
    found += _sorted_by(words, names, texts)
    return list(dict.fromkeys(found))


COMPARISONS = ("<", ">", "<=", ">=")


def _is_numeric(
    words: Sequence[tuple[str, Token]], names: Sequence[str], at: int, numeric: set[str]
) -> bool:
    """Whether the operand at a word is a number's column, or computed."""
    if not 0 <= at < len(words):
        return False
    if at + 2 < len(words) and words[at + 1][0] == ".":
        at += 2
    return names[at] in numeric or words[at][0] == "CAST"


def _sorted_by(
    words: Sequence[tuple[str, Token]], names: Sequence[str], texts: set[str]
) -> list[str]:
    """The columns of `texts` that are a whole term of an ORDER BY, by name, alias or number."""
    items, aliases = _result_items(words, names)
    found = []
    seen: list[Optional[set[str]]] = [None]  # per open parenthesis, in an ORDER BY: names before
    for i, (word, token) in enumerate(words):
        before = words[i - 1][0] if i else ""
        after = words[i + 1][0] if i + 1 < len(words) else ";"
        if word == "(":
            seen.append(None)
        elif word == ")":
            seen = seen[:-1] or [None]
        elif word == "BY":
            seen[-1] = set() if before == "ORDER" else None
        elif word in ("LIMIT", "UNION", "ROWS", "RANGE", "GROUPS"):
            seen[-1] = None
        elif names[i] or (token.kind == "number" and word.isdigit()):
            sorting = next((names for names in reversed(seen) if names is not None), set())
            start = i - 2 if before == "." else i
            whole = words[start - 1][0] in ("BY", ",") and after in SORT_ENDS
            key = aliases.get(names[i], names[i]) or "".join(items[int(word) - 1 : int(word)])
            if seen[-1] is not None and whole and key in texts and key not in sorting:
                found.append(key)
            sorting.add(names[i])
    return found


def _result_items(
    words: Sequence[tuple[str, Token]], names: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """The columns that the outermost SELECT returns, "" for what is none; and those by alias."""
    items: list[list[int]] = []
    depth = 0
    for i, (word, _) in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "SELECT":
            items = [[]]
        elif depth == 0 and word == "FROM":
            break
        elif depth == 0 and word == "," and items:
            items.append([])
        elif items:
            items[-1].append(i)
    plain, aliases = [], {}
    for item in items:
        parts = [i for i in item if words[i][0] not in ("AS", "DISTINCT")]
        if len(parts) > 2 and words[parts[1]][0] == ".":
            parts = parts[2:]
        column = (
            names[parts[0]] if parts and len(parts) <= 2 and all(names[i] for i in parts) else ""
        )
        plain.append(column)
        if column and len(parts) == 2:
            aliases[names[parts[1]]] = column
    return plain, aliases


SORT_ENDS = (",", ")", ";", "ASC", "DESC", "COLLATE", "NULLS", "LIMIT", "ROWS", "RANGE", "GROUPS")


def _same_rows(one: Result, other: Result) -> bool:
    return one.digest.total == other.digest.total and one.count == other.count


def _best_rows(want: Result, contract: Contract) -> Result:
    """The reference's result as an answer gives it: under a `top` contract, its best rows."""
    if not contract.top:
        return want
    names = [name.lower() for name in want.columns]
    rows = list(want.rows())
    for key in reversed(contract.top.keys):
        if key.name.lower() in names:
            at = names.index(key.name.lower())
            rows.sort(key=lambda row: sort_value(row[at]), reverse=key.descending)
    places = [
        names.index(key.name.lower()) for key in contract.top.keys if key.name.lower() in names
    ]
    kept = rows[: contract.top.number]
    if contract.top.ties and kept:
        last = [kept[-1][at] for at in places]
        kept += [row for row in rows[len(kept) :] if [row[at] for at in places] == last]
    chosen = Counter(kept)
    ordered = []
    for row in want.rows():
        if chosen[row]:
            chosen[row] -= 1
            ordered.append(row)
    return Result.of(want.columns, ordered)


def _other_order(one: Result, other: Result) -> str:
    """Words for what another order of the rows changes."""
    left, right = list(one.rows()), list(other.rows())
    pair = next(((a, b) for a, b in zip(left, right) if a != b), ())
    shown = " and ".join(map(show_row, pair)) or f"{len(left)} and {len(right)} rows"
    return f"the same rows inserted the other way round give another result: {shown}"


def _sorted_cells(result: Result) -> Counter[Row]:
    """The rows with the characters of each text sorted."""
    return Counter(
        tuple("".join(sorted(cell)) if isinstance(cell, str) else cell for cell in row)
        for row in result.rows()
    )


# Frozen rows of a CSV file are read as the result beside them is: CSV does not tell text from
# numbers, nor an empty text from NULL. A column of plain numbers is numbers, unless the other
# result's column of that name, else of that place, holds text only.


def _frozen_result(frozen: Mapping[str, Any], beside: Optional[Result]) -> Result:
    """Frozen rows as a result."""
    names = frozen["columns"]
    rows = [tuple(map(unpacked, row)) for row in frozen["rows"]]
    if frozen["file"]:
        texts = _text_columns(names, beside)
        rows = list(zip(*(_csv_column(cells, i in texts) for i, cells in enumerate(zip(*rows)))))
    return Result.of(names, rows)


def _text_columns(names: Sequence[str], beside: Optional[Result]) -> set[int]:
    """The columns that hold nothing but text in the result beside them."""
    if beside is None:
        return set()
    others = [name.lower() for name in beside.columns]
    at = [
        others.index(n.lower()) if others.count(n.lower()) == 1 else i for i, n in enumerate(names)
    ]
    kinds = [beside.kinds()[j] if j < beside.width else frozenset() for j in at]
    return {i for i, kind in enumerate(kinds) if kind == frozenset(("text",))}


CSV_NUMBER = r"(?a)-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?"


def _csv_column(cells: Sequence[str], is_text: bool) -> list[Cell]:
    """The cells of a CSV column, empty ones as NULL."""
    if is_text or not all(re.fullmatch(CSV_NUMBER, cell) for cell in cells if cell):
        return [cell or None for cell in cells]
    return [_csv_number(cell) if cell else None for cell in cells]


def _csv_number(cell: str) -> Cell:
    whole = cell.lstrip("-").isdigit() and len(cell) <= 20 and -(2**63) <= int(cell) < 2**63
    return int(cell) if whole else float(cell)


def _without_blanks(result: Result) -> Result:
    """The result with empty texts as NULL, as CSV writes both."""

    def rows() -> Iterator[Row]:
        return (tuple(None if c == "" else c for c in row) for row in result.rows())

    digest, held = take(rows(), sys.maxsize)
    return Result(result.columns, rows if held is None else lambda: held, digest, held is not None)


def _shown_column(expression: str, names: Sequence[str]) -> Optional[int]:
    """The result column that a sort term names, by number or by name."""
    if expression.isdigit() and 0 < int(expression) <= len(names):
        return int(expression) - 1
    name = expression[1:-1] if expression[:1] in ('"', "`", "[") else expression
    return names.index(name.lower()) if names.count(name.lower()) == 1 else None


def _collated(collation: str) -> Callable[[Cell], Cell]:
    """What makes two cells equal under one of SQLite's collations."""
    if collation == "NOCASE":
        return lambda cell: cell.lower() if isinstance(cell, str) and cell.isascii() else cell
    if collation == "RTRIM":
        return lambda cell: cell.rstrip(" ") if isinstance(cell, str) else cell
    return lambda cell: cell


# Cells on their way through JSON: what JSON cannot say travels in a small object. Samples are
# bounded, so that a stranger's megabytes stay in the worker.


def _packed_row(row: Row) -> list[Any]:
    return [_packed(cell) for cell in row[:SAMPLE_CELLS]]


def _whole_row(row: Row) -> list[Any]:
    return list(map(packed, row))


def _packed_names(names: Sequence[str]) -> list[str]:
    return [name[:SAMPLE_TEXT] for name in names[:SAMPLE_CELLS]]


def _packed(cell: Cell) -> Any:
    if isinstance(cell, str):
        more = len(cell) - SAMPLE_TEXT
        return cell if more <= 0 else f"{cell[:SAMPLE_TEXT]}... (+{more})"
    return packed(cell[:SAMPLE_TEXT] if isinstance(cell, bytes) else cell)


def _pack(comparison: Comparison) -> dict[str, Any]:
    fields = comparison._asdict()
    for name in ("missing", "unexpected"):
        fields[name] = [[_packed_row(row), n] for row, n in fields[name]]
    for name in ("want_columns", "got_columns"):
        fields[name] = _packed_names(fields[name])
    return fields


def _unpack(message: Mapping[str, Any]) -> Comparison:
    fields = dict(message)
    for name in ("missing", "unexpected"):
        fields[name] = tuple((tuple(map(unpacked, row)), n) for row, n in message[name])
    for name in ("want_columns", "got_columns"):
        fields[name] = tuple(message[name])
    return Comparison(**fields)


class _Spawned:
    """A child with an interpreter of its own, that knows nothing of its parent but the code."""

    def __init__(self) -> None:
        import subprocess

        keep = (
            "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TMPDIR", "TEMP", "TZ",
            "PYTHONTZPATH",
        )  # fmt: skip
        environment = {name: os.environ[name] for name in keep if name in os.environ}
        environment["MALLOC_ARENA_MAX"] = "1"  # a second arena maps 64 MiB of the memory limit
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", BOOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=os.name == "posix",  # Ctrl-C on a terminal is the parent's
            )
        except (OSError, ValueError, TypeError) as error:
            raise ScoreError(f"no worker process could be started: {error}") from None
        self.pid = self.process.pid
        self.jobs: Any = self.process.stdin
        self.replies: Any = self.process.stdout

    def stop(self) -> None:
        """Ends the process at once; wait for it with kill()."""
        self.process.kill()

    def greeting(self) -> bytes:
        code = marshal.dumps(MODULE_CODE)
        return b"%d\n" % len(code) + code

    def kill(self) -> int:
        """Ends the process at once; its exit code, negative for a signal."""
        self.process.kill()
        return self.process.wait()

    def wait(self, seconds: float) -> bool:
        """Whether the process has ended by itself within so many seconds."""
        import subprocess

        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def _highest_file() -> int:
    """The highest file descriptor in use, or one that is seldom reached where nothing tells."""
    try:
        return max(map(int, os.listdir("/proc/self/fd")))
    except OSError:
        return 4096


class _Forked:
    """A child that is this process once more, up at once: a second interpreter costs 50 ms.

    Only where this process has a single thread and nothing to hide, which is the command line.
    """

    def __init__(self) -> None:
        import signal
        import threading

        self.lock = threading.Lock()  # no signal may go to a number that is free again
        self.code: Optional[int] = None
        # A signal that comes between must not find the child with the parent's handlers.
        asked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, asked)
        try:
            jobs, self_jobs = os.pipe()
            self_replies, replies = os.pipe()
            self.pid = os.fork()
            if self.pid == 0:
                self._be_the_worker(jobs, replies, mask)
        except OSError as error:
            raise ScoreError(f"no worker process could be started: {error}") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(jobs)
        os.close(replies)
        self.jobs = os.fdopen(self_jobs, "wb")
        self.replies = os.fdopen(self_replies, "rb")

    @staticmethod
    def _be_the_worker(jobs: int, replies: int, mask: Iterable[Any]) -> None:
        import signal

        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.dup2(jobs, 0)
            os.dup2(replies, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.closerange(3, 1 + _highest_file())  # the parent's own ends of the pipes above all
            sys.stdin, sys.stdout = os.fdopen(0, "r"), os.fdopen(1, "w")
            serve()
        finally:
            os._exit(1)

    def greeting(self) -> bytes:
        return b""

    def stop(self) -> None:
        """Ends the process at once; wait for it with kill()."""
        import signal

        with self.lock:
            if self.code is None:
                os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> int:
        """Ends the process at once; its exit code, negative for a signal."""
        self.stop()
        self._reap(0)
        return self.code or 0

    def wait(self, seconds: float) -> bool:
        """Whether the process has ended by itself within so many seconds."""
        end = time.monotonic() + seconds
        while not self._reap(os.WNOHANG):
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def _reap(self, how: int) -> bool:
        with self.lock:
            if self.code is None:
                try:
                    pid, status = os.waitpid(self.pid, how)
                except ChildProcessError:  # where nobody waits for children, they are just gone
                    pid, status = self.pid, 0
                if pid:
                    self.code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8
            return self.code is not None


def _is_one_thread() -> bool:
    """Whether this process has a single thread: one that was joined may still be ending."""
    try:
        return len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return True


class Worker:
    """A child process that runs jobs one after the other. The parent's side.

    One thread asks; another may look whether the deadline has passed, and stop the process.
    """

    def __init__(self, memory: int, fork: bool = False, file_size: int = 0) -> None:
        import threading

        self.sqlite_version = ""
        alone = sys.platform == "linux" and threading.active_count() == 1 and _is_one_thread()
        self.child: Any = _Forked() if fork and alone else _Spawned()
        limits = {"memory": memory, "file_size": file_size}
        self.greeting = self.child.greeting() + json.dumps(limits).encode() + b"\n"
        self.deadline = float("inf")  # of what runs now
        self.stopped = False
        self.ended = False

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a job; one stands in for the worker that died or was stopped."""
        # Until the worker says which phase runs, it may be the one with the longest limit.
        phase, limit, cpu = "", job.get("reference_timeout", job.get("limit", 0.0)), 0.0
        self.deadline = time.monotonic() + limit + GRACE
        self._send(self.greeting + json.dumps(job).encode() + b"\n")
        self.greeting = b""
        while True:
            message = self._next()
            if not message:
                return self._lost(job, phase, limit, cpu)
            if "sqlite" in message:
                self.sqlite_version = message["sqlite"]
            elif "ago" in message:
                phase, limit, cpu = message["phase"], message["limit"], message["cpu"]
                self.deadline = time.monotonic() - message["ago"] + limit + GRACE
            else:
                self.deadline = float("inf")
                return message

    def _send(self, data: bytes) -> None:
        try:
            self.child.jobs.write(data)
            self.child.jobs.flush()
        except OSError:
            pass  # it died: the reply, which is its end, says so

    def _next(self) -> dict[str, Any]:
        """The next message, {} when the worker has ended or talks nonsense."""
        line = self.child.replies.readline(REPLY_LIMIT)
        try:
            message = json.loads(line) if line else {}
        except ValueError:
            return {}
        return message if isinstance(message, dict) else {}

    def stop(self) -> None:
        """Ends the process at once, from whichever thread; who asks gets a reply all the same."""
        if not self.ended:
            self.stopped = True
            self.child.stop()

    def _lost(self, job: Mapping[str, Any], phase: str, limit: float, cpu: float) -> dict[str, Any]:
        """The reply in place of one that never came, from a worker that ended or was stopped.

        `cpu` is the processor time that it had used when the phase began, in seconds.
        """
        used = _cpu_of(self.child.pid) - cpu
        code = self.kill()
        reply = {"phase": phase, "seconds": {"reference": 0.0, "candidate": 0.0}, "spent": True}
        reply["unborn"] = not (self.sqlite_version or self.stopped)  # no Python that works
        if not self.stopped and code != -24:  # SIGXCPU
            return {**reply, "reason": "crash", "note": _death(code), "final": False}
        reply["final"] = bool(phase) and (code == -24 or used >= 0.9 * limit)
        if phase == "compare":
            return {**reply, "reason": "too_large", "note": "comparing the results took too long"}
        return {**reply, "reason": "timeout", "note": over_limit(limit, job)}

    def kill(self) -> int:
        """Ends the process at once and waits for its end; returns its exit code."""
        code: int = self.child.kill()
        self._close_pipes()
        return code

    def close(self) -> None:
        """Lets the process end by itself, which it does when its input closes."""
        if self.ended:
            return
        self._close_jobs()
        if not self.child.wait(1):
            self.child.kill()
        self._close_pipes()

    def _close_jobs(self) -> None:
        try:
            self.child.jobs.close()
        except OSError:
            pass  # what was still to be written has nobody to read it

    def _close_pipes(self) -> None:
        self.ended = True
        self._close_jobs()
        self.child.replies.close()


def _death(code: int) -> str:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"its worker died ({how})"


def _cpu_of(pid: int) -> float:
    """Processor seconds that a process has used, 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return 0.0


# ---- 12. scoring ---------------------------------------------------------------------------------


JobKey = tuple[str, str]  # a question's id, and the name of a database of its test suite


class Standing(NamedTuple):
    """How far a run is; told now and then while it lasts."""

    done: int
    total: int
    passed: int
    slowest: str  # the id of the question that runs longest, "" where none does
    seconds: float  # for how long it has run


class _Slot:
    """A place for one worker at a time, and what that works on."""

    def __init__(self, memory: int, fork: bool, file_size: int = 0) -> None:
        self.make = partial(Worker, memory, fork, file_size)
        self.worker: Optional[Worker] = self.make()  # it starts while the caller goes on
        self.doing, self.begun = "", 0.0
        self.stopped = False
        self.sqlite_version = ""

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a job, from a new worker where the last one is spent. Raises ScoreError."""
        reply = self._ask(job)
        if reply.get("unborn") and not self.stopped:
            reply = self._ask(job)
            if reply.get("unborn") and not self.stopped:
                raise ScoreError(f"no worker process could be started: {reply['note']}")
        return reply

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        worker = self.worker = self.worker or self.make()
        reply = worker.ask(job)
        self.sqlite_version = worker.sqlite_version or self.sqlite_version
        if reply.get("spent"):
            self.worker = None
            worker.kill()
        return reply

    def stop_if_late(self, now: float) -> None:
        worker = self.worker
        if worker is not None and now > worker.deadline:
            worker.stop()

    def stop(self) -> None:
        """Stops its worker, and keeps it from being asked again."""
        self.stopped = True
        worker = self.worker
        if worker is not None:
            worker.stop()

    def close(self) -> None:
        if self.worker is not None:
            self.worker.close()


class Scorer:
    """Puts questions to workers, replaces those that are spent, and makes outcomes of replies.

    `databases` holds the ready databases by their ids, "" for the only one; each with those of its
    test suite behind it. The memory of a run is shared among its workers.
    """

    def __init__(
        self,
        databases: Mapping[str, Sequence[Database]],
        settings: Settings,
        workers: int = 1,
        fork: bool = False,
    ) -> None:
        self.databases, self.settings = databases, settings
        self.fork = fork
        self.workers = max(1, min(workers, settings.memory // MEMORY_SHARE))
        self.share = settings.memory // self.workers
        self.slots: list[_Slot] = []
        self.interrupted = False
        self.sqlite_version = ""

    def __enter__(self) -> Scorer:
        try:
            for _ in range(self.workers):
                self.slots.append(_Slot(self.share, self.fork))
        finally:
            if len(self.slots) < self.workers:
                self.__exit__()
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self.slots:
            slot.close()

    def score(
        self,
        pairs: Sequence[tuple[Question, Answer]],
        watch: Callable[[Standing], None] = lambda _: None,
    ) -> list[Outcome]:
        """An outcome per question, in order; those so far where Ctrl-C comes (`interrupted`).

        `watch` is told now and then how far it is.
        """
        jobs = {(q.id, ""): self._job(q, answer.sql) for q, answer in pairs if not answer.reason}
        replies = self._ask_all(jobs, len(pairs) - len(jobs), watch)
        for question, answer in pairs:
            if answer.reason:
                replies[question.id, ""] = {"reason": answer.reason, "note": answer.detail}
        asked = [(q, answer, replies.get((q.id, ""))) for q, answer in pairs]
        return [outcome_of(q, answer, reply) for q, answer, reply in asked if reply is not None]

    def reference_results(self, questions: Sequence[Question]) -> list[dict[str, Any]]:
        """The first rows of each question's reference, or its reason and note."""
        jobs = {(question.id, ""): self._job(question, None) for question in questions}
        replies = self._ask_all(jobs, 0, lambda _: None)
        if self.interrupted:
            raise KeyboardInterrupt
        return [replies[question.id, ""] for question in questions]

    def audit(
        self, questions: Sequence[Question], watch: Callable[[Standing], None] = lambda _: None
    ) -> list[Audited]:
        """What there is to say of each question's reference."""
        jobs = {(q.id, ""): {**self._job(q, None), "audit": True} for q in questions}
        replies = self._ask_all(jobs, 0, watch)
        if self.interrupted:
            raise KeyboardInterrupt
        return [audited_of(question, replies[question.id, ""]) for question in questions]

    def suite_replies(
        self, outcomes: Sequence[Outcome], watch: Callable[[Standing], None]
    ) -> dict[str, list[tuple[str, dict[str, Any]]]]:
        """For each outcome, the name of each database of its test suite and the reply there."""
        places: dict[tuple[str, str], dict[str, Any]] = {}
        for outcome in outcomes:
            question = outcome.question._replace(traps=(), frozen=())
            for database in self._databases(question)[1:] if question.sql else ():
                name = os.path.basename(database.name)
                places[question.id, name] = {
                    **self._job(question, outcome.sql),
                    "uri": database.uri,
                    "variants": 0,
                }
        found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for (id, name), reply in sorted(self._ask_all(places, 0, watch).items()):
            found.setdefault(id, []).append((name, reply))
        return found

    def _databases(self, question: Question) -> Sequence[Database]:
        return self.databases.get(question.db) or self.databases[""]

    def _ask_all(
        self, jobs: Mapping[JobKey, dict[str, Any]], done: int, watch: Callable[[Standing], None]
    ) -> dict[JobKey, dict[str, Any]]:
        """A reply to each job by its key, or to some where Ctrl-C comes.

        A job that ended for want of memory or processor time that others used, or that took its
        worker down, is tried once more, alone, after all others: so the number of workers and a
        busy machine change no verdict.
        """
        queue = _Queue(jobs, done, watch)
        queue.run(self.slots)
        again = {key: jobs[key] for key, reply in queue.replies.items() if self._is_open(reply)}
        for key in again:
            del queue.replies[key]  # after Ctrl-C it is not known how it would have ended
        if again and not queue.interrupted:
            self._ask_alone(again, queue)
        self.interrupted = self.interrupted or queue.interrupted
        versions = [slot.sqlite_version for slot in self.slots if slot.sqlite_version]
        self.sqlite_version = versions[0] if versions else self.sqlite_version
        return queue.replies

    def _is_open(self, reply: Mapping[str, Any]) -> bool:
        """Whether a job that is tried once more may end otherwise."""
        had_all = self.workers == 1 and reply["reason"] == "too_large"
        return not reply.get("final", True) and not (had_all and reply["phase"] == "candidate")

    def _ask_alone(self, jobs: Mapping[JobKey, dict[str, Any]], queue: _Queue) -> None:
        # Not forked: of the threads that have just ended, some may still be there.
        slot = self.slots[0] if self.workers == 1 else _Slot(self.settings.memory, False)
        queue.jobs = {key: {**job, "again": True} for key, job in jobs.items()}
        try:
            queue.run([slot])
        finally:
            if slot not in self.slots:
                slot.close()

    def _job(self, question: Question, sql: Optional[str]) -> dict[str, Any]:
        return {
            "uri": self._databases(question)[0].uri,
            "tables": question.tables,
            "contract": contract_keys(question.contract),
            "id": question.id,
            "variants": self.settings.variants,
            "reference": question.sql,
            "alternatives": question.alternatives,
            "frozen": [frozen_json(frozen) for frozen in question.frozen],
            "params": {name: packed(cell) for name, cell in question.params.items()},
            "candidate": sql,
            "traps": [(trap.name, trap.sql) for trap in question.traps],
            "ties": True,  # rows that tie on the reference's sort keys may swap
            "audit": False,  # of the reference, in place of scoring a candidate
            "again": False,  # a second try, alone: what fails now is not tried a third time
            "timeout": self.settings.timeout,
            "reference_timeout": self.settings.reference_timeout,
            "max_rows": self.settings.max_rows,
        }


class _Queue:
    """Jobs that workers share out among themselves, each with a thread of its own that waits."""

    def __init__(
        self,
        jobs: Mapping[JobKey, dict[str, Any]],
        done: int = 0,
        watch: Callable[[Standing], None] = lambda _: None,
    ) -> None:
        self.jobs, self.watch = jobs, watch
        self.done, self.total = done, done + len(jobs)
        self.replies: dict[JobKey, dict[str, Any]] = {}
        self.interrupted = False
        self.error: Optional[ScoreError] = None

    def run(self, slots: Sequence[_Slot]) -> None:
        """Asks all jobs. Stops workers past their deadlines; on Ctrl-C all of them, at once."""
        import threading

        self.waiting = iter(list(self.jobs))
        self.lock = threading.Lock()
        used = list(slots)[: len(self.jobs)]
        threads = [threading.Thread(target=self._serve, args=(slot,), daemon=True) for slot in used]
        whole = False
        try:
            self._start(threads)
            self._look_after(used, threads)
            whole = True
        except KeyboardInterrupt:
            pass
        finally:
            self.interrupted = self.interrupted or not whole
            begun = [thread for thread in threads if thread.ident is not None]
            while any(thread.is_alive() for thread in begun):
                for slot in used:
                    slot.stop()  # again and again: one may just be replacing its worker
                for thread in begun:
                    thread.join(LOOK)
        if self.error is not None:
            raise self.error
        if not self.interrupted and not self.replies.keys() >= self.jobs.keys():
            raise RuntimeError("a thread ended before its jobs did")

    @staticmethod
    def _start(threads: Sequence[Any]) -> None:
        try:
            for thread in threads:
                thread.start()
        except RuntimeError as error:
            raise ScoreError(f"no thread could be started: {error}") from None

    def _look_after(self, slots: Sequence[_Slot], threads: Sequence[Any]) -> None:
        """Waits for the threads, and meanwhile stops what is late and tells how far it is."""
        for thread in threads:
            while thread.is_alive():
                thread.join(LOOK)
                now = time.monotonic()
                for slot in slots:
                    slot.stop_if_late(now)
                running = [(now - slot.begun, slot.doing) for slot in slots if slot.doing]
                seconds, slowest = max(running, default=(0.0, ""))
                replies = list(self.replies.values())
                passed = sum(VERDICTS[reply["reason"]] == PASS for reply in replies)
                done = self.done + len(replies)
                self.watch(Standing(done, self.total, passed, slowest, seconds))

    def _serve(self, slot: _Slot) -> None:
        try:
            while not self.interrupted:
                with self.lock:
                    key = next(self.waiting, None)
                if key is None:
                    break
                slot.begun = time.monotonic()  # first: the watcher reads both
                slot.doing = key[0]
                reply = self._ask(slot, self.jobs[key])
                if not slot.stopped:
                    self.replies[key] = reply
        except ScoreError as error:
            self.error = error
            self.interrupted = True
        finally:
            slot.doing = ""

    @staticmethod
    def _ask(slot: _Slot, job: dict[str, Any]) -> dict[str, Any]:
        """The reply to one job; a query that only explains a verdict costs no verdict."""
        reply = slot.ask(job)
        settled = reply.get("final", True) or job.get("again")
        if reply["phase"] == "sort keys" and reply.get("spent") and settled and not slot.stopped:
            job = {**job, "ties": False}  # reading the sort keys took the worker down
            reply = slot.ask(job)
        if reply["phase"] == "trap" and reply.get("spent") and settled and not slot.stopped:
            # A trap query took the worker down; the candidate's own verdict stands without it.
            reply = slot.ask({**job, "traps": []})
            reply["untried"] = len(job["traps"])
        lasting = reply["reason"] == "timeout"  # a second try would last as long
        lost = reply["phase"] == "variants" and reply.get("spent") and (settled or lasting)
        if lost and not slot.stopped:
            reply = slot.ask({**job, "variants": 0})
            reply["unvaried"] = "it took its worker down there"
        return reply


def ask_one(job: dict[str, Any], file_size: int = 0) -> dict[str, Any]:
    """The reply to a job from a worker of its own, which may write files of so many bytes."""
    queue, slot = _Queue({("", ""): job}), _Slot(MEMORY_LIMIT, False, file_size)
    try:
        queue.run([slot])
    finally:
        slot.close()
    if queue.interrupted:
        raise KeyboardInterrupt
    return queue.replies["", ""]


def sizes_of(databases: Mapping[str, Sequence[Database]]) -> dict[str, list[int]]:
    """Tables, columns and foreign keys of each database. Raises ScoreError."""
    found = {}
    for id, (database, *_) in sorted(databases.items()):
        reply = ask_one({"size": database.uri, "limit": TIMEOUT})
        if reply["reason"]:
            raise ScoreError(f"{database.name}: {reply['note']}")
        found[id] = reply["size"]
    return found


def frozen_json(frozen: Frozen) -> dict[str, Any]:
    """Frozen rows on their way to a worker."""
    rows = [list(map(packed, row)) for row in frozen.rows]
    return {"columns": frozen.columns, "rows": rows, "file": frozen.file}


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def open_databases(
    found: Mapping[str, Found], suite: bool, settings: Settings
) -> Iterator[dict[str, list[Database]]]:
    """Every database ready to read, by its id, and those of its test suite behind it.

    A dump is loaded into a private copy that only its owner may read. Raises ScoreError.
    """
    from contextlib import ExitStack

    with ExitStack() as stack:
        opened: dict[str, list[Database]] = {}
        dumps = [place.path for place in found.values() if place.is_dump]
        folder = stack.enter_context(private_folder()) if dumps else ""
        for id, place in found.items():
            if place.is_dump:
                copy = os.path.join(folder, f"{len(opened)}.sqlite")
                load_in_worker(place.path, copy, settings)
                opened[id] = [Database(file_uri(copy) + "?mode=ro", place.path, place.path)]
                continue
            paths = (place.path, *(place.suite if suite else ()))
            opened[id] = [stack.enter_context(readable(path)) for path in paths]
        yield opened


def load_in_worker(path: str, copy: str, settings: Settings) -> None:
    """Makes a database of a dump, in a process that can do nothing else. Raises ScoreError."""
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    if size > DUMP_LIMIT:
        raise ScoreError(f"{path}: a dump of more than {DUMP_LIMIT // MIB} MB; load it yourself")
    job = {"dump": os.path.abspath(path), "copy": copy, "limit": settings.reference_timeout}
    reply = ask_one(job, COPY_LIMIT)
    if reply["reason"] == "sql_error":
        raise ScoreError(f"{path}: {reply['note']}; a dump of SQLite's is meant")
    if reply["reason"]:
        raise ScoreError(f"{path}: cannot be loaded: {reply['reason']}: {reply['note']}")
    if os.name != "nt":  # where a read-only file could not be removed again
        os.chmod(copy, 0o400)


def audited_of(question: Question, reply: Mapping[str, Any]) -> Audited:
    """The findings that a worker's reply stands for."""
    found = [Finding(word, visible(text)) for word, text in reply.get("findings", ())]
    broken = reply.get("broken", False)
    if reply["reason"]:  # the worker did not come to the end
        broken = reply["phase"] == "reference"
        word = reply["reason"] if broken else "unfinished"
        late = word == "unfinished" and reply["reason"] == "timeout"
        note = f"not done in {AUDIT_LIMIT:g} s" if late else reply.get("note", "")
        found.append(Finding(word, visible(note)))
    return Audited(question, tuple(found), broken)


def outcome_of(question: Question, answer: Answer, reply: Mapping[str, Any]) -> Outcome:
    """The outcome that a worker's reply, or the answers file itself, stands for."""
    reason = reply["reason"]
    note = visible(reply.get("note", ""))
    if reply.get("phase") in ("reference", "alternative") and reason != "reference_error":
        which = "the reference" if reply["phase"] == "reference" else "an alternative"
        reason, note = "reference_error", f"{which}: {reason}: {note}"
    comparison = _unpack(reply["comparison"]) if "comparison" in reply else None
    outcome = Outcome(
        question,
        reason,
        sql=answer.sql,
        line=answer.line,
        traps=tuple(reply.get("traps", ())),
        comparison=comparison,
        seconds=reply.get("seconds", {}).get("candidate", 0.0),
        reference_seconds=reply.get("seconds", {}).get("reference", 0.0),
        accepted=visible(reply.get("accepted", "")),
        variants=reply.get("variants", 0),
        unvaried=visible(reply.get("unvaried", "")),
        sampled=tuple(map(visible, reply.get("sampled", ()))),
    )
    if "apart" in reply:
        example = _unpack_example(reply["apart"], question)
        outcome = outcome._replace(reason="coincidence", apart=True, counterexample=example)
    return outcome._replace(detail=_detail(outcome, note, reply.get("untried", 0)))


def _detail(outcome: Outcome, note: str, untried: int) -> tuple[str, ...]:
    """One or two lines on why it is not a plain PASS; `untried` traps could not be tried."""
    reason, comparison = outcome.reason, outcome.comparison
    accepted = (f"accepted: it matches {outcome.accepted}",) if outcome.accepted else ()
    if not reason:
        return accepted
    if outcome.counterexample is not None:
        return (f"coincidence: {_on_variant(outcome.counterexample)}", *accepted)
    if reason == "vacuous":
        what = "the reference has no value to return, so agreeing with it shows little"
        return (f"vacuous: {what}", *accepted)
    if comparison is None:
        return (f"{reason}: {cut(note, 300)}",)
    first = f"{reason}: {describe(comparison)}"
    why = {trap.name: trap.why for trap in outcome.question.traps}
    parts = [f"{name} ({why[name]})" for name in outcome.traps]
    parts += [f"{untried} that could not be tried"] if untried else []
    word = "trap" if len(outcome.traps) == 1 else "traps"
    return (first, f"{reason}: {word}: {'; '.join(parts)}") if parts else (first,)


def _on_variant(example: Counterexample) -> str:
    """Words for a difference on a variant."""
    full = [(cut(visible(name)), len(rows)) for name, _, rows in example.tables if rows]
    counts = [f"{name}: {counted(number, 'row')}" for name, number in full]
    where = listed(counts, 6) or "all tables empty"
    comparison = example.comparison
    reason = f"{comparison.reason}: " if comparison.reason != "rows" else ""
    return f"on a variant ({where}): {reason}{describe(comparison)}"


def _unpack_example(message: Mapping[str, Any], question: Question) -> Counterexample:
    """A counterexample as the worker sent it."""
    rows = [
        (name, tuple(columns), tuple(tuple(map(unpacked, row)) for row in rows))
        for name, columns, rows in message["tables"]
    ]
    want, got = (tuple(tuple(map(unpacked, row)) for row in message[n]) for n in ("want", "got"))
    return Counterexample(
        message["number"],
        tuple(message["schema"]),
        tuple(rows),
        question.params,
        message["reference"],
        _unpack(message["comparison"]),
        want,
        got,
    )


def with_suite(
    outcome: Outcome, replies: Sequence[tuple[str, Mapping[str, Any]]]
) -> tuple[Outcome, bool, tuple[str, ...]]:
    """The outcome after its test suite, whether it holds there, and where its reference breaks.

    A database overturns a PASS where the candidate's result differs there, or where the candidate
    does not run and its reference does. The verdict stays.
    """
    broken = []
    for name, reply in replies:
        there = outcome_of(outcome.question, Answer(outcome.sql, outcome.line), reply)
        if there.reason == "reference_error":
            broken.append(visible(name))
        elif not there.passed:
            detail = f"coincidence: on {visible(name)}: {there.detail[0]}"
            more = outcome.detail[:1] if outcome.reason == "coincidence" else ()
            changed = outcome._replace(reason="coincidence", detail=(*more, detail))
            return changed, False, tuple(broken)
    return outcome, True, tuple(broken)


# ---- 13. evidence --------------------------------------------------------------------------------


def questions_digest(questions: Sequence[Question]) -> str:
    """A digest of ids, texts and all that defines the right answers, eight hexadecimal digits."""
    return _short_hash([[q.id, q.text, q.sql, *_more_of(q)] for q in questions])


def _more_of(question: Question) -> list[Any]:
    """What a question of a set may have beside its text and reference; nothing in the ten."""
    found: dict[str, Any] = {
        "db": question.db,
        "or": question.alternatives,
        "rows": [
            [f.columns, [[repr(cell) for cell in row] for row in f.rows]] for f in question.frozen
        ],
        "params": {name: repr(cell) for name, cell in question.params.items()},
        "evidence": question.evidence,
    }
    filled = {name: value for name, value in found.items() if value}
    return [filled] if filled else []


def contracts_digest(questions: Sequence[Question]) -> str:
    """A digest of the contracts, eight hexadecimal digits."""
    return _short_hash([[q.id, contract_keys(q.contract), q.tables] for q in questions])


def _short_hash(value: Any) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]


def database_digest(blocks: Iterable[bytes]) -> str:
    """SHA-256 of a SQLite file, whatever SQLite's own version and change counters say.

    Bytes 24-27 and 92-99 of the header count as zero: SQLite writes them for itself.
    """
    import hashlib

    digest = hashlib.sha256()
    for i, block in enumerate(blocks):
        if i == 0 and block[:16] == SQLITE_MAGIC:  # a dump is taken as it is
            block = block[:24] + bytes(4) + block[28:92] + bytes(8) + block[100:]
        digest.update(block)
    return digest.hexdigest()


def databases_digest(digests: Mapping[str, Sequence[str]]) -> str:
    """One digest for several databases by id; a single one keeps its own."""
    import hashlib

    if list(digests) == [""]:
        return digests[""][0]
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def signature_line(facts: Mapping[str, str]) -> str:
    """The line that shows whether two scores measured the same thing."""
    return "nl2sql|" + "|".join(f"{key}:{value}" for key, value in facts.items())


# ---- 14. renderers -------------------------------------------------------------------------------

INDENT = " " * 10
COLOURS = {PASS: "32", FAIL: "31", ERROR: "35", SKIP: "33"}


class Style(NamedTuple):
    """How a report is dressed: colour or not, columns of the terminal, None for no limit."""

    colour: bool = False
    width: Optional[int] = None
    verbose: bool = False


def percent(passed: int, total: int) -> str:
    """A share as people write it; 100% only when all passed, 0% only when none did."""
    if total == 0:
        return "0%"
    tenths = round(1000 * passed / total)
    if 0 < passed < total:
        tenths = min(max(tenths, 1), 999)
    return f"{tenths // 10}%" if tenths % 10 == 0 else f"{tenths / 10:.1f}%"


def render_text(run: Run, style: Style, wrote: Sequence[str] = ()) -> str:
    """The report for a person; its last line is the score."""
    form = f" ({run.answers_form})" if run.answers_form else ""
    lines = [f"scoring {visible(run.answers_name)}{form} against {visible(run.db_name)}"]
    lines += [f"questions: {visible(run.set_name)}"] if run.set_name else []
    lines += ["", *(["interrupted: only what was scored so far", ""] if run.partial else [])]
    lines += [f"warning: {warning}" for warning in shown_warnings(run)]
    lines += [""] if run.warnings or run.set_warnings else []
    for outcome in run.outcomes:
        lines += _outcome_lines(outcome, style)
    lines += ["", *_summary(run)]
    lines += _breakdowns(run, blank=not lines[-1]) if run.set_name else []
    lines += [*_interval(run), run.signature, _record_reminder(run)]
    lines += [f"wrote {visible(path)}" for path in wrote]
    lines += suite_lines(run)
    return "\n".join([*lines, score_line(run)]) + "\n"


def shown_warnings(run: Run) -> list[str]:
    """The first warnings as they are shown, and how many more there are."""
    warnings = run.set_warnings + run.warnings
    shown = [visible(warning) for warning in warnings[:20]]
    more = len(warnings) - len(shown)
    return shown + ([f"and {more:,} more of this kind"] if more else [])


def _outcome_lines(outcome: Outcome, style: Style) -> list[str]:
    verdict = f"{outcome.verdict:<5}"
    if style.colour:
        verdict = f"\x1b[{COLOURS[outcome.verdict]}m{verdict}\x1b[0m"
    question = outcome.question
    room = None if style.width is None else style.width - 13
    lines = [f"  {verdict} {question.id}  {fitted(visible(question.text), room)}".rstrip()]
    for line in outcome.detail:
        lines += _wrapped(line, style.width)
    return lines + (_verbose_lines(outcome) if style.verbose else [])


def _wrapped(line: str, width: Optional[int]) -> list[str]:
    """A detail line, on a terminal in as many lines as it takes."""
    if width is None or len(INDENT) + len(line) <= width:
        return [INDENT + line]
    from textwrap import wrap

    return wrap(line, width, initial_indent=INDENT, subsequent_indent=INDENT + "  ")


def _verbose_lines(outcome: Outcome) -> list[str]:
    lines = [f"took {outcome.seconds:.3f} s, its reference {outcome.reference_seconds:.3f} s"]
    if outcome.sql:
        lines += [f"candidate (line {outcome.line}):", *_shown_sql(outcome.sql)]
    for name, sql in _references(outcome.question):
        lines += [f"{name}:", *_shown_sql(sql)]
    comparison = outcome.comparison
    for word in ("missing", "unexpected"):
        rows = getattr(comparison, word) if comparison is not None else ()
        lines += [f"{word}: {show_row(row, SAMPLE_TEXT)} x{n}" for row, n in rows]
    if outcome.counterexample is not None:
        lines += _counterexample_lines(outcome.counterexample)
        lines += ["the same as SQL, for sqlite3:"]
        lines += [f"    {visible(line)}" for line in counterexample_sql(outcome).splitlines()]
    return [INDENT + line for line in lines]


def _counterexample_lines(example: Counterexample) -> list[str]:
    """The rows of a counterexample and what the two queries return there."""
    lines = [f"counterexample (variant {example.variant}):"]
    for name, columns, rows in example.tables:
        lines.append(f"    {visible(name)} ({', '.join(map(visible, columns))})")
        lines += [f"        {show_row(row, SAMPLE_TEXT)}" for row in rows] or ["        no rows"]
    for word, rows in (("wanted", example.want), ("got", example.got)):
        shown = [show_row(row, SAMPLE_TEXT) for row in rows]
        lines += [f"    {word}: {row}" for row in shown] or [f"    {word}: no rows"]
    return lines


def counterexample_sql(outcome: Outcome) -> str:
    """A script for sqlite3 that makes the counterexample and runs the two queries on it."""
    example = outcome.counterexample
    assert example is not None
    lines = [f"{statement.strip()};" for statement in example.schema]
    for name, columns, rows in example.tables:
        into = f"INSERT INTO {quoted_name(name)} ({', '.join(map(quoted_name, columns))})"
        lines += [f"{into} VALUES ({', '.join(map(sql_literal, row))});" for row in rows]
    for name, cell in example.params.items():
        lines.append(f".parameter set :{name} {json.dumps(sql_literal(cell))}")
    for word, sql in (("reference", example.reference), ("candidate", outcome.sql)):
        lines += [f"-- {word}", f"{without_tail(sql).strip()}\n;"]
    return "\n".join(lines)


def sql_literal(cell: Cell) -> str:
    """A cell as SQL writes it."""
    if cell is None:
        return "NULL"
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    if isinstance(cell, str):
        parts = ["'" + part.replace("'", "''") + "'" for part in cell.split("\0")]
        return " || char(0) || ".join(parts)
    if isinstance(cell, float) and abs(cell) == INFINITY:
        return "9e999" if cell > 0 else "-9e999"
    return repr(cell)


def _references(question: Question) -> list[tuple[str, str]]:
    """The accepted SQL of a question, each with the word for it."""
    named = [("reference", question.sql)] if question.sql else []
    named += [("rows kept as the answer", f.file or f"{len(f.rows)} rows") for f in question.frozen]
    return named + [(f"alternative {i}", sql) for i, sql in enumerate(question.alternatives, 2)]


def _shown_sql(sql: str) -> list[str]:
    return ["    " + cut(visible(line), 400) for line in sql.strip().splitlines()[:60]]


def fitted(text: str, room: Optional[int]) -> str:
    """Text cut to so many columns of a terminal, wide characters counted as two."""
    if room is None or len(text) * 2 <= room:
        return text
    import unicodedata

    used = 0
    for i, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > room:
            kept = max(i - 12, 8)
            return f"{text[:kept]}... (+{len(text) - kept})"
    return text


def _summary(run: Run) -> list[str]:
    """Lines about what was not an ordinary PASS or FAIL."""
    lines = []
    skipped = [o.question.id for o in run.outcomes if o.verdict == SKIP]
    if skipped:
        attempted = run.total - len(skipped)
        lines.append(
            f"skipped: {_listed(skipped)}, counted as not passed"
            f" ({run.passed} of {attempted} attempted)"
        )
    errors = [
        o.question.id for o in run.outcomes if o.verdict == ERROR and o.reason != "reference_error"
    ]
    if errors:
        lines.append(f"did not run: {_listed(errors)}, counted as not passed")
    vacuous = [o.question.id for o in run.outcomes if o.reason == "vacuous"]
    if vacuous:
        lines.append(f"vacuous: {_listed(vacuous)}, passed on a reference without a value")
    broken = [o.question.id for o in run.outcomes if o.reason == "reference_error"]
    if broken:
        lines.append(f"broken reference: {_listed(broken)}, counted as not passed")
        lines.append(f"of the {run.total - len(broken)} whose reference runs: {run.passed}")
    lucky = [o.question.id for o in run.outcomes if o.reason == "coincidence"]
    if lucky:
        lines.append(f"coincidence: {_listed(lucky)}, right on this database only")
    untried = [o.question.id for o in run.outcomes if o.unvaried]
    if untried:
        why = sorted({o.unvaried for o in run.outcomes if o.unvaried})
        lines.append(f"not tried on variants: {_listed(untried)}: {listed(why, 3)}")
    sampled = sorted({name for o in run.outcomes for name in o.sampled})
    if sampled:
        lines.append(f"what variants know of large tables is a sample: {listed(sampled, 8)}")
    if run.total < run.total_questions:
        lines.append(f"a part of the set: {run.total} of its {run.total_questions} questions")
    return lines


DIFFICULTIES = ("easy", "simple", "medium", "moderate", "hard", "challenging", "extra")


def difficulty_of(question: Question) -> str:
    """How hard the set says that a question is, else how hard Spider's rules find its reference."""
    return question.difficulty or (hardness(question.sql) if question.sql else "unrated")


def _breakdowns(run: Run, blank: bool) -> list[str]:
    """The score by difficulty and by database, each with its count; `blank` stands above them."""
    rated = sum(bool(o.question.difficulty) for o in run.outcomes)
    some = "some by " if rated else ""
    title = "difficulty" if rated == run.total else f"difficulty ({some}Spider's rules)"
    by_level = _grouped((difficulty_of(o.question), o.passed) for o in run.outcomes)
    places = {name: i for i, name in enumerate(DIFFICULTIES)}
    levels = sorted(by_level, key=lambda name: (places.get(name, len(places)), name))
    lines = [
        *([] if blank else [""]),
        *_table(title, levels, by_level),
    ]
    by_database = _grouped((o.question.db, o.passed) for o in run.outcomes)
    if set(by_database) != {""}:
        lines += ["", *_table("database", sorted(by_database), by_database)]
    return [*lines, ""]


def _grouped(pairs: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Passed and total by group."""
    found: dict[str, tuple[int, int]] = {}
    for name, passed in pairs:
        right, total = found.get(name, (0, 0))
        found[name] = right + passed, total + 1
    return found


def _table(title: str, names: Sequence[str], groups: Mapping[str, tuple[int, int]]) -> list[str]:
    shown = [cut(visible(name)) or "(none)" for name in names]
    width = max(map(len, (title, *shown)))
    lines = [f"  {title:<{width}}  questions    EX %"]
    for name, label in zip(names, shown):
        passed, total = groups[name]
        lines.append(f"  {label:<{width}}  {total:>9}  {percent(passed, total):>6}")
    return lines


def veiled(run: Run) -> Run:
    """The run of a sealed set as it may be written down: ids, verdicts and counts alone."""
    return run._replace(outcomes=tuple(map(_veiled_outcome, run.outcomes)), set_warnings=())


def veiled_question(question: Question) -> Question:
    """A question of a sealed set without its text, its references and what is told with it."""
    return Question(question.id, "", "", "", db=question.db, difficulty=difficulty_of(question))


def _veiled_outcome(outcome: Outcome) -> Outcome:
    comparison = outcome.comparison
    if comparison is not None:
        comparison = Comparison(
            comparison.reason, want_count=comparison.want_count, got_count=comparison.got_count
        )
    detail: tuple[str, ...]
    if outcome.passed or outcome.reason == "reference_error":
        detail = (f"{outcome.reason}: see the sealed set",) if outcome.reason else ()
    else:
        detail = (f"{outcome.reason}: {describe(comparison)}",) if comparison else outcome.detail
    return Outcome(
        veiled_question(outcome.question),
        outcome.reason,
        detail,
        comparison=comparison,
        seconds=outcome.seconds,
        reference_seconds=outcome.reference_seconds,
        variants=outcome.variants,
        unvaried="see the sealed set" if outcome.unvaried else "",
        apart=outcome.apart,
    )


def _listed(ids: Sequence[str]) -> str:
    return f"{len(ids)} ({listed(ids, 12)})"


def _interval(run: Run) -> list[str]:
    low, high = wilson(run.passed, run.total)
    return [f"95% interval (Wilson): {100 * low:.1f}% to {100 * high:.1f}%"]


def _record_reminder(run: Run) -> str:
    if run.tool:
        return f"tool: {visible(run.tool)}; keep its version and today's date with this score"
    return (
        "keep the tool's name, its version and today's date with this score (--tool \"Acme 2.1\")"
    )


def score_line(run: Run) -> str:
    """The line that a run comes down to."""
    part = ""
    if run.total < run.total_questions or run.partial:
        word = "interrupted: " if run.partial else ""
        part = f"  [{word}{run.total} of {run.total_questions} questions]"
    return f"execution accuracy: {run.passed}/{run.total} ({percent(run.passed, run.total)}){part}"


def suite_lines(run: Run) -> list[str]:
    """The share that is right on variants too, and on every database of the test suites."""
    variants = f"{counted(run.variants, 'variant')}, seed {SEED}"
    found = [(run.held, variants)] if run.variants else []
    found += [(run.suite, "databases")] if run.suite is not None else []
    return [
        f"test-suite accuracy: {right}/{run.total} ({percent(right, run.total)})  [{where}]"
        for right, where in found
    ]


CSV_HEADER = (
    "question_id", "question", "verdict", "detail", "reason", "traps",
    "rows_got", "rows_wanted", "seconds", "reference_seconds", "tool", "db_id", "difficulty",
)  # fmt: skip


def render_csv(run: Run) -> str:
    """A row per question, then an empty line and the scores, execution accuracy last."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for o in run.outcomes:
        c = o.comparison
        counts = ("", "") if c is None else (c.got_count, c.want_count)
        cells = (
            o.question.id, visible(o.question.text), o.verdict, " | ".join(o.detail), o.reason,
            "; ".join(o.traps), *counts, f"{o.seconds:.3f}", f"{o.reference_seconds:.3f}",
            visible(run.tool), visible(o.question.db), visible(difficulty_of(o.question)),
        )  # fmt: skip
        writer.writerow(map(_defused, map(str, cells)))
    lines = [f"accuracy_on_variants,{run.held}/{run.total}"] if run.variants else []
    lines += [f"test_suite_accuracy,{run.suite}/{run.total}"] if run.suite is not None else []
    lines += [f"execution_accuracy,{run.passed}/{run.total}"]
    lines += [f"interrupted,{run.total} of {run.total_questions}"] if run.partial else []
    return f"{out.getvalue()}\n" + "\n".join(lines) + "\n"


def _defused(cell: str) -> str:
    """A cell that no spreadsheet executes."""
    return "'" + cell if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def render_questions(
    questions: Sequence[Question], sizes: Sequence[tuple[str, Sequence[int]]] = ()
) -> str:
    """The questions as they were understood, and the size of each database by its name."""
    lines = []
    for question in questions:
        lines.append(f"{question.id}  {visible(question.text)}".rstrip())
        lines += [f"     {line}" for line in _understood(question)]
    if sizes:
        width = max(len(visible(name)) for name, _ in sizes)
        lines += ["", f"{'database':<{width}}  tables  columns  foreign keys"]
        lines += [
            f"{visible(name):<{width}}  {tables:>6}  {columns:>7}  {keys:>12}"
            for name, (tables, columns, keys) in sizes
        ]
    lines += ["", "Where a contract says nothing:", *(f"  {line}" for line in CONTRACT_DEFAULTS)]
    return "\n".join(lines) + "\n"


def _understood(question: Question) -> list[str]:
    """What was understood of a question beside its text."""
    keys = contract_keys(question.contract)
    contract = "; ".join(
        f"{key} = {', '.join(value) if isinstance(value, list) else value}"
        for key, value in keys.items()
    )
    facts = [
        ("watch for", question.trap if question.place else ""),
        ("evidence", question.evidence),
        ("db", question.db),
        ("difficulty", question.difficulty),
        ("tables", ", ".join(question.tables)),
        ("params", ", ".join(f"{k} = {show_cell(v)}" for k, v in question.params.items())),
        ("alternatives", str(len(question.alternatives) or "")),
        ("frozen rows", ", ".join(f.file or str(len(f.rows)) for f in question.frozen)),
        ("traps", ", ".join(trap.name for trap in question.traps) if question.place else ""),
        ("version", question.version),
        ("reviewed", question.reviewed),
    ]
    told = "; ".join(f"{name}: {visible(value)}" for name, value in facts if value)
    return [line for line in (visible(contract), told) if line]


CONTRACT_DEFAULTS = (
    "rows       every row counts, with its multiplicity",
    "order      counts where the reference sorts; rows tied on the sort keys may swap",
    "columns    by position, else by name, else by kind (text, integer, real, blob)",
    "NULL       equals only NULL",
    "numbers    integers exactly, others within 1e-9 of the larger; text never equals a number",
    "text       exactly, code point by code point; blobs byte by byte",
)


def render_reference(question: Question, reply: Mapping[str, Any]) -> str:
    """A question, its trap, its reference and what that returns."""
    lines = [
        f"{question.id}  {visible(question.text)}",
        *([f"     watch for: {visible(question.trap)}"] if question.trap else []),
        *(f"     {visible(line)}" for line in question.sql.splitlines()),
    ]
    for i, sql in enumerate(question.alternatives, 2):
        lines += [f"     -- alternative {i}", *(f"     {visible(x)}" for x in sql.splitlines())]
    if reply["reason"]:
        lines.append(f"     -> {reply['reason']}: {visible(reply.get('note', ''))}")
    else:
        lines.append(f"     -> {', '.join(map(visible, reply['columns']))}")
        lines += [f"        {show_row(tuple(map(unpacked, row)))}" for row in reply["rows"]]
        rest = reply["count"] - len(reply["rows"])
        lines += [f"        and {rest:,} more rows"] if rest > 0 else []
    return "\n".join(lines) + "\n"


def render_audit(found: Sequence[Audited], name: str) -> str:
    """A line per finding, and what they come down to."""
    lines = [f"auditing {counted(len(found), 'question')} on {visible(name)}", ""]
    width = max((len(visible(a.question.id)) for a in found), default=0)
    for audited in found:
        for finding in audited.findings:
            id = f"{visible(audited.question.id):<{width}}"
            lines.append(f"  {id}  {finding.word}: {cut(finding.text, 600)}")
    words = Counter(finding.word for audited in found for finding in audited.findings)
    lines += [""] if words else []
    lines += [f"{word}: {number}" for word, number in sorted(words.items())]
    lines += [""] if words else []
    return "\n".join([*lines, _audit_line(found)]) + "\n"


def _audit_line(found: Sequence[Audited]) -> str:
    asked = counted(len(found), "question")
    broken = sum(audited.broken for audited in found)
    troubled = sum(bool(audited.findings) for audited in found)
    if not troubled:
        return f"{asked}: nothing found"
    number = sum(len(audited.findings) for audited in found)
    line = f"{asked}: {counted(number, 'finding')} about {troubled} of them"
    return f"{line}; {counted(broken, 'reference')} broken" if broken else line


# ---- 15. terminal and files ----------------------------------------------------------------------


def wants_colour(stream: Any, choice: str, environment: Mapping[str, str]) -> bool:
    """Whether to colour a stream: the option, then the environment in Python's own order."""
    if choice != "auto":
        return choice == "always"
    if environment.get("PYTHON_COLORS") in ("0", "1"):
        return environment["PYTHON_COLORS"] == "1"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return environment.get("TERM") != "dumb" and stream is not None and bool(stream.isatty())


def terminal_width(stream: Any) -> Optional[int]:
    """The columns of a terminal, None where the stream is none and nothing need be cut."""
    if stream is None or not stream.isatty():
        return None
    wanted = os.environ.get("COLUMNS", "")
    try:
        columns = int(wanted) if wanted.isdigit() else os.get_terminal_size(stream.fileno()).columns
    except (ValueError, OSError):
        columns = 0
    return max(40, columns or 80)


def escape_what_a_console_lacks() -> None:
    """Characters that a console's encoding has not come out as escapes, not as a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class Progress:
    """One line on stderr that is rewritten while a run lasts; only on a terminal."""

    def __init__(self, quiet: bool) -> None:
        self.on = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self.begun = self.told = time.monotonic()
        self.shown = False

    def watch(self, standing: Standing) -> None:
        now = time.monotonic()
        if not self.on or now - self.told < 0.2:
            return
        self.told, self.shown = now, True
        line = progress_line(standing, now - self.begun)
        self._write(f"\r{fitted(line, terminal_width(sys.stderr))}\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self.on = self.shown = False  # the terminal is gone

    def done(self) -> None:
        if self.shown:
            self._write("\r\x1b[K")


def progress_line(standing: Standing, elapsed: float) -> str:
    """How far a run is, in words: done, passed so far, what takes long, time left."""
    s = standing
    parts = [f"{s.done}/{s.total} done"]
    parts += [f"{percent(s.passed, s.done)} passed"] if s.done else []
    parts += [f"{visible(s.slowest)} running {s.seconds:.0f} s"] if s.seconds >= 1 else []
    if s.done and s.done < s.total and elapsed >= 1:
        # What has run long already may well run as long again.
        left = max(elapsed / s.done * (s.total - s.done), s.seconds)
        parts.append(f"about {left:.0f} s left" if left < 90 else f"about {left / 60:.0f} min left")
    return ", ".join(parts)


def say(text: str, stream: Any = None) -> None:
    """Prints text as it is; the one place that writes to a stream. Raises ScoreError.

    A reader that goes away (| head) is no failure: what is left to say is said to nobody.
    """
    stream = stream or sys.stdout
    try:
        if stream is None:
            raise OSError("it is closed")
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        if stream is sys.stderr:
            return  # there is nowhere left to say it
        raise ScoreError(f"standard output cannot be written: {_cause(error)}") from None


def quoted(path: str) -> str:
    """A path as it can be pasted into a command."""
    import shlex

    return shlex.quote(path)


def starts_with(path: str, beginnings: Sequence[bytes]) -> bool:
    """Whether a file begins with one of some bytes; no where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(max(map(len, beginnings))) in beginnings
    except (OSError, ValueError):
        return False


def read_input(path: str, what: str, hint: str) -> bytes:
    """The bytes of an input file or of standard input ("-"); `hint` says how to get one.

    Raises ScoreError.
    """
    import stat

    if path == "-":
        if sys.stdin is None:
            raise ScoreError(f"standard input is closed; give {what} file")
        if sys.stdin.isatty():
            say(f"reading {what} from the terminal, end with Ctrl-D\n", sys.stderr)
        data = sys.stdin.buffer.read(ANSWERS_LIMIT + 1)
    else:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ScoreError(f"{path}: not a regular file; {what} are read from a file or '-'")
            with open(path, "rb") as file:
                data = file.read(ANSWERS_LIMIT + 1)
        except FileNotFoundError:
            raise ScoreError(f"{path}: no such file; {hint}") from None
        except (OSError, ValueError) as error:
            raise ScoreError(f"{path}: cannot be read: {_cause(error)}") from None
    if len(data) > ANSWERS_LIMIT:
        raise ScoreError(f"{path}: larger than {ANSWERS_LIMIT // MIB} MB, which no such file is")
    return data


# -- sealed sets

ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
ARCHIVE_LIMIT = 2048 * MIB  # of all that an archive holds, unpacked
SET_SUFFIXES = (".json", ".jsonl", ".sql", ".txt")


class Archive:
    """A zip that holds a question set, and perhaps its databases. Raises ScoreError throughout."""

    def __init__(self, path: str, password: str) -> None:
        import zipfile

        self.path, self.password = path, password
        try:
            self.zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise ScoreError(f"{path}: a damaged zip: {_cause(error)}") from None
        self.entries = {
            info.filename: info for info in self.zip.infolist() if _is_content(info.filename)
        }
        if sum(info.file_size for info in self.entries.values()) > ARCHIVE_LIMIT:
            limit = ARCHIVE_LIMIT // MIB
            raise ScoreError(f"{path}: holds more than {limit} MB; keep the databases outside it")
        self.set_name = ""
        self.whole: dict[str, bytes] = {}  # files that were read: decryption is slow
        self.unpacked: dict[str, str] = {}  # the names of databases by the files they became

    def question_set(self) -> QuestionSet:
        """The one question set that it holds."""
        self._check_password()
        kinds: dict[str, list[str]] = {"JSON": [], "commented": [], "gold": [], "": []}
        for name in self.entries:
            if name.lower().endswith(SET_SUFFIXES):
                kinds[self._kind(name)].append(name)
        # Gold lines may lie beside the records that they are from.
        sets = kinds["JSON"] + kinds["commented"] or kinds["gold"]
        sets = sets or [name for name in kinds[""] if name.endswith((".json", ".jsonl"))]
        if len(sets) != 1:
            what = f"several question sets: {listed(sets)}" if sets else "no question set"
            outside = [name for name in self.zip.namelist() if name.startswith(("../", "/"))]
            what += f"; {listed(outside)} lies outside it: zip from its folder" if outside else ""
            raise ScoreError(f"{self.path}: holds {what}")
        self.set_name = sets[0]
        found = read_questions(self.read(self.set_name), f"{self.path}: {self.set_name}")
        found = with_files(found, self._csv)
        return found._replace(name=self.path, sealed=bool(self.entries[sets[0]].flag_bits & 1))

    def _check_password(self) -> None:
        """Reads the smallest sealed file, for only a checksum tells a wrong password for sure."""
        sealed = [info for info in self.entries.values() if info.flag_bits & 1]
        if sealed:
            self.read(min(sealed, key=lambda info: info.file_size).filename)

    def _kind(self, name: str) -> str:
        """What kind of set a file is, "" for none. Of a dump only the beginning is read."""
        if name.lower().endswith((".json", ".jsonl")):
            has_question = b'"question"' in self.read(name)  # Spider's tables.json has none
            return "JSON" if has_question else ""
        text, _ = decode(self.read(name, 65536))
        if any(map(_is_mark, QUESTION_MARK.finditer(text))):
            return "commented"
        return "gold" if "\t" in text and first_word(text) in QUERY_WORDS else ""

    def _csv(self, name: str) -> bytes:
        folder = os.path.dirname(self.set_name)
        full = f"{folder}/{name}" if folder else name
        if full not in self.entries:
            raise ScoreError(f"{full}: no such file in the zip")
        return self.read(full)

    def read(self, name: str, most: int = 0) -> bytes:
        """One file in it, or its first bytes."""
        if not most and self.entries[name].file_size > ANSWERS_LIMIT:
            raise ScoreError(f"{self.path}: {name}: larger than {ANSWERS_LIMIT // MIB} MB")
        if name not in self.whole:
            with self._opened(name) as file:
                data: bytes = self._guarded(name, lambda: file.read(most or -1))
            if most:
                return data
            self.whole[name] = data
        return self.whole[name]

    def _opened(self, name: str) -> Any:
        info = self.entries[name]
        if info.flag_bits & 0x40 or info.compress_type == 99:
            raise ScoreError(
                f"{self.path}: is encrypted with a cipher that Python's zipfile cannot read, AES"
                " perhaps; seal it with: zip -e"
            )
        if info.compress_type not in (0, 8):
            raise ScoreError(f"{self.path}: {name}: is packed in a way that zip -e does not use")
        if info.flag_bits & 1 and not self.password:
            raise ScoreError(f"{self.path}: is sealed; give --password or set NL2SQL_PASSWORD")
        key = self.password.encode("utf-8", "surrogateescape")
        return self._guarded(name, lambda: self.zip.open(info, pwd=key or None))

    def _guarded(self, name: str, read: Callable[[], Any]) -> Any:
        """What `read` gives; a wrong password shows in one of several ways."""
        import struct
        import zipfile
        import zlib

        broken = (RuntimeError, zipfile.BadZipFile, zlib.error, EOFError, OSError, struct.error)
        try:
            return read()
        except (*broken, ValueError, LookupError) as error:
            if self.entries[name].flag_bits & 1:
                raise ScoreError(
                    f"{self.path}: the password is wrong, or the zip damaged"
                ) from None
            raise ScoreError(f"{self.path}: {name}: damaged: {_cause(error)}") from None

    def databases(self) -> list[str]:
        """The names of the databases and dumps in it."""
        suffixes = (*DATABASE_SUFFIXES, ".sql")
        return [n for n in self.entries if n.endswith(suffixes) and n != self.set_name]

    def find(self, id: str) -> Optional[tuple[str, list[str]]]:
        """The names of an id's database and its test suite, by the rules of --db-root."""
        names = self.databases()
        tails = [f"{id}/{id}{suffix}" for suffix in DATABASE_SUFFIXES]
        tails += [f"{id}{suffix}" for suffix in DATABASE_SUFFIXES]
        tails += [f"{id}/{id}.sql", f"{id}/schema.sql", f"{id}.sql"]
        found = [[n for n in names if f"/{n}".endswith(f"/{tail}")] for tail in tails]
        inside = [n for n in names if n.split("/")[-2:-1] == [id] and not n.endswith(".sql")]
        first = next(filter(None, found), inside)
        if len(first) > 1:
            raise ScoreError(f"{self.path}: holds several databases for {id}: {listed(first)}")
        return (first[0], [n for n in inside if n not in first]) if first else None

    def unpack(self, name: str, folder: str) -> str:
        """Writes one of its databases into a folder of its own; the path."""
        target = os.path.join(folder, str(len(os.listdir(folder))), os.path.basename(name)[-100:])
        with self._opened(name) as source:
            blocks = iter(partial(self._guarded, name, partial(source.read, MIB)), b"")
            try:
                os.mkdir(os.path.dirname(target), mode=0o700)
                with open(target, "xb") as file:
                    file.writelines(blocks)
            except (OSError, ValueError) as error:
                what = f"{name}: cannot be unpacked: {_cause(error)}"
                raise ScoreError(f"{self.path}: {cut(what, 200)}") from None
        self.unpacked[target] = name
        return target


def _is_content(name: str) -> bool:
    hidden = any(part.startswith(".") for part in name.split("/"))
    return not (name.endswith("/") or hidden or name.startswith("__MACOSX/"))


def with_files(found: QuestionSet, read: Callable[[str], bytes]) -> QuestionSet:
    """The set with the rows of the CSV files that it names. Raises ScoreError."""
    questions = []
    for question in found.questions:
        with on_one_line(f"{found.name}: {question.place}: rows: "):
            frozen = [_with_rows(f, read) if f.file else f for f in question.frozen]
        questions.append(question._replace(frozen=tuple(frozen)))
    return found._replace(questions=tuple(questions))


def _with_rows(frozen: Frozen, read: Callable[[str], bytes]) -> Frozen:
    return read_csv_rows(read(frozen.file), frozen.file)


def file_beside(path: str) -> Callable[[str], bytes]:
    """A reader of files by their names in the folder of another file, and not outside it."""
    folder = os.path.realpath(os.path.dirname(path) or ".")

    def read(name: str) -> bytes:
        try:
            full = os.path.realpath(os.path.join(folder, name))
        except ValueError:
            full = ""  # no name that a file could have
        if os.path.isabs(name) or not full.startswith(os.path.join(folder, "")):
            raise ScoreError(f"{name}: a file beside the set is meant")
        return read_input(full, "rows", "a CSV file beside the set is meant")

    return read


def _cause(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


def check_writable(path: str) -> None:
    """Raises ScoreError where a report could not be written; the old file is not touched."""
    folder = os.path.dirname(os.path.realpath(path))
    try:
        os.stat(path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ScoreError(f"{path}: cannot be written: {_cause(error)}") from None
    if not path or os.path.isdir(path) or not os.path.isdir(folder):
        what = "lies in no folder that exists" if path and not os.path.isdir(path) else "is no file"
        raise ScoreError(f"{path}: cannot be written: it {what}")
    plain = not os.path.exists(path) or os.path.isfile(path)  # else /dev/stdout and its like
    if (plain and not os.access(folder, os.W_OK)) or (
        os.path.exists(path) and not os.access(path, os.W_OK)
    ):
        raise ScoreError(f"{path}: cannot be written: permission denied")


def check_no_input(path: str, inputs: Iterable[tuple[str, Optional[str]]]) -> None:
    """Raises ScoreError where a report would overwrite an input; `inputs` are what and path."""
    for what, other in inputs:
        if other and _is_same_file(path, other):
            raise ScoreError(f"{path}: --csv would overwrite the {what}; choose another name")


def _is_same_file(path: str, other: str) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def write_file(path: str, text: str, new: bool = False) -> None:
    """Writes a whole file or nothing; with `new` it refuses to overwrite. Raises ScoreError."""
    import tempfile

    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    temporary = ""
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout and its like
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            return
        handle, temporary = tempfile.mkstemp(prefix=".nl2sql-", dir=folder)
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        if new:
            with open(path, "x"):
                pass
        os.replace(temporary, target)
        temporary = ""
    except FileExistsError:
        raise ScoreError(
            f"{path}: already exists; choose another name or remove it first"
        ) from None
    except (OSError, ValueError) as error:
        raise ScoreError(f"{path}: cannot be written: {_cause(error)}") from None
    finally:
        if temporary:
            os.unlink(temporary)


def build_default_database(path: str) -> None:
    """Builds the default database with the maker that lies beside this file. Raises ScoreError."""
    import subprocess

    maker = os.path.join(os.path.dirname(os.path.realpath(__file__)), MAKER)
    if not os.path.exists(maker):
        raise ScoreError(f"{path}: no such database, and {MAKER} does not lie beside this file")
    made = subprocess.run(
        [sys.executable, maker, "--out", path],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if made.returncode and not os.path.isfile(path):  # another run may have built it meanwhile
        raise ScoreError(
            f"{path}: could not be built: {(made.stderr.strip() or 'no reason given')}"
        )


class Later:
    """A text that a thread works out while the worker runs SQL. An error comes out of value()."""

    def __init__(self, work: Callable[[], str]) -> None:
        import threading

        self.work, self.text = work, ""
        self.error: Optional[OSError] = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        try:
            self.thread.start()
        except RuntimeError:  # no more threads
            self._run()

    def _run(self) -> None:
        try:
            self.text = self.work()
        except OSError as error:
            self.error = error

    def value(self) -> str:
        """The text, once it is there."""
        if self.thread.ident is not None:
            self.thread.join()
        if self.error is not None:
            raise ScoreError(f"the database cannot be read: {_cause(self.error)}")
        return self.text


def file_blocks(path: str) -> Iterator[bytes]:
    """The bytes of a file, a MiB at a time."""
    with open(path, "rb") as file:
        yield from iter(lambda: file.read(MIB), b"")


def scorer_version() -> str:
    """The version, and eight digits of this file's own hash, so that a changed copy shows."""
    import hashlib

    try:
        own = hashlib.sha256(b"".join(file_blocks(__file__))).hexdigest()[:8]
    except OSError:
        own = "unknown"
    return f"{__version__}+{own}"


def own_sqlite_version() -> str:
    """The version of the SQLite that this Python has."""
    import sqlite3

    return sqlite3.sqlite_version


def python_version() -> str:
    """The running Python as 3.11.7."""
    return ".".join(map(str, sys.version_info[:3]))


# ---- 16. plug-ins --------------------------------------------------------------------------------


def grade(
    question_id: str,
    sql: Optional[str],
    db: str = DEFAULT_DB,
    *,
    questions: Optional[Sequence[Question]] = None,
    settings: Settings = STANDARD,
) -> Outcome:
    """The outcome for one candidate. Prints nothing and may be called from any thread.

    The question is one of the ten or of `questions`; fences around the SQL are not taken off.
    Raises ScoreError where the question is unknown or the database cannot be read.
    """
    question = find_question(question_id, QUESTIONS if questions is None else questions)
    reason, detail = screen(sql or "")
    answer = Answer(sql or "", 1, reason, detail)
    with readable(db) as database, Scorer({"": [database]}, settings) as scorer:
        outcomes = scorer.score([(question, answer)])
    if not outcomes:
        raise KeyboardInterrupt
    return outcomes[0]


# ---- 17. command line ----------------------------------------------------------------------------

EXAMPLES = """\
first steps:
  python score_nl2sql.py --init-answers answers.sql   write a template, paste the tool's SQL into it
  python score_nl2sql.py --answers answers.sql        score it
  python score_nl2sql.py --show-reference --only Q02  look at a reference query and its result
  python score_nl2sql.py --list                       the questions and how results are compared
  python score_nl2sql.py --audit                      check the references and the data themselves

your own questions, or a published set:
  python score_nl2sql.py --questions mine.sql --db shop.db --list
  python score_nl2sql.py --questions mine.sql --db shop.db --init-answers answers.sql
  python score_nl2sql.py --questions mine.sql --db shop.db --answers answers.sql
  python score_nl2sql.py --questions dev.json --db-root database --answers predicted.txt
  python score_nl2sql.py --questions dev.json --db-root dev_databases --answers predict_dev.json
"""

EXIT_CODES = """\
exit codes: 0 scored, 1 below --fail-under or a broken reference in an audit, 2 usage or the run
could not be made, 130 interrupted
"""


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    import argparse

    class Parser(argparse.ArgumentParser):
        """One line for a mistake, like every other refusal."""

        given: Sequence[str] = ()

        def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
            self.given = list(sys.argv[1:] if args is None else args)
            return super().parse_known_args(self.given, namespace)

        def error(self, message: str) -> NoReturn:
            if "--password" in self.given:  # it may hold a part of a password without quotes
                message = message.partition(": ")[0]
            raise ScoreError(_usage_error(message, self.format_help()))

    parser = Parser(
        prog="score_nl2sql.py",
        description="Score the SQL that an NL2SQL tool wrote: is the answer right, and if not, why?"
        f"\n\n{EXAMPLES}",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_modes(parser.add_argument_group("what to do"))
    _add_questions(parser.add_argument_group("questions"))
    _add_data(parser.add_argument_group("data"))
    _add_limits(parser.add_argument_group("limits"))
    _add_output(parser.add_argument_group("output"))
    return parser


def _usage_error(message: str, help_text: str) -> str:
    """A mistake on the command line in one line, with the option that may have been meant."""
    unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
    if unknown:
        near = nearest(unknown.group(1), tuple(re.findall(r"--[a-z][a-z-]+", help_text)), 0.6)
        if near:
            return f"no option {unknown.group(1)}; did you mean {near}?"
    stray = re.match(r"unrecognized arguments: ([^-\s].*)", message)
    if stray:
        return f"{stray.group(1)}: not an option; did you mean --answers {stray.group(1)}?"
    return f"{message}; --help lists the options"


def _add_modes(group: Any) -> None:
    group.add_argument("--init-answers", metavar="PATH", help="write an answers file to fill in")
    group.add_argument("--answers", metavar="FILE", help="score an answers file, - for stdin")
    group.add_argument(
        "--answers-format",
        choices=("auto", *ANSWER_FORMS),
        default="auto",
        help="what form the answers have (default: %(default)s, by their content)",
    )
    group.add_argument(
        "--show-reference", action="store_true", help="show each reference, its trap and its result"
    )
    group.add_argument(
        "--audit", action="store_true", help="check the references and the data themselves"
    )
    group.add_argument("--list", action="store_true", help="list the questions and their contracts")
    group.add_argument(
        "--version", action="store_true", help="show the versions and the file's hash"
    )


def _add_questions(group: Any) -> None:
    group.add_argument(
        "--questions",
        metavar="FILE",
        action="append",
        help="a question set in place of the ten: commented SQL, JSON, JSON Lines, gold lines or a"
        " zip of one; gold lines take their texts from a second file",
    )
    group.add_argument(
        "--password",
        metavar="WORD",
        help="of a sealed zip; NL2SQL_PASSWORD in the environment does not show in process lists",
    )
    group.add_argument(
        "--reveal", action="store_true", help="write a sealed set's texts, SQL and rows as well"
    )
    group.add_argument(
        "--lang", metavar="CODE", help="the questions' language; the ten have en, it, zh-Hant"
    )
    group.add_argument(
        "--contract",
        choices=tuple(PRESETS),
        help="compare as a published evaluator does, for every question",
    )
    group.add_argument(
        "--only", metavar="IDS", action="append", help="only these questions: Q01,Q05 or Q02-Q04"
    )
    group.add_argument(
        "-k", metavar="TEXT", dest="containing", help="only questions with this text"
    )
    group.add_argument(
        "--limit", metavar="N", type=_count, help="only the first N of those selected"
    )


def _add_data(group: Any) -> None:
    group.add_argument(
        "--db",
        metavar="PATH",
        help=f"the database; the default is built when it is missing (default: {DEFAULT_DB})",
    )
    group.add_argument(
        "--db-root",
        metavar="DIR",
        help="the folder of a set's databases: DIR/ID/ID.sqlite, DIR/ID.sqlite or a dump, ID.sql",
    )
    group.add_argument(
        "--suite",
        action="store_true",
        help="run every PASS on the further databases DIR/ID/*.sqlite too",
    )


def _add_limits(group: Any) -> None:
    group.add_argument(
        "--jobs", metavar="N", type=_count, help="queries at a time (default: the cores)"
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=TIMEOUT,
        help="for a candidate, or five times what its reference took if that is longer"
        " (default: %(default)g)",
    )
    group.add_argument(
        "--reference-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=REFERENCE_TIMEOUT,
        help="for a reference (default: %(default)g)",
    )
    group.add_argument(
        "--max-rows",
        metavar="N",
        type=_count,
        default=MAX_ROWS,
        help="rows that a query may return (default: %(default)s)",
    )
    group.add_argument(
        "--variants",
        metavar="N",
        type=_count_or_none,
        default=VARIANTS,
        help="small databases beside the data that every PASS is tried on, 0 for none"
        " (default: %(default)s)",
    )


def _add_output(group: Any) -> None:
    group.add_argument("--tool", metavar="NAME", default="", help="the tool's name and version")
    group.add_argument("--csv", metavar="PATH", help="write a CSV file, - for stdout")
    group.add_argument(
        "--fail-under",
        metavar="PCT",
        type=_percentage,
        help="leave with 1 below this percentage of execution accuracy, 0 to 100",
    )
    group.add_argument("-q", "--quiet", action="store_true", help="print the score line alone")
    group.add_argument(
        "-v", "--verbose", action="store_true", help="print SQL, times and all rows kept"
    )
    group.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="(default: %(default)s)",
    )


def _seconds(text: str) -> float:
    import argparse

    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from above 0 to 86400")
    return value


def _count(text: str) -> int:
    import argparse

    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 1000000000")
    return int(text)


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _percentage(text: str) -> Any:
    import argparse
    from fractions import Fraction

    # Fraction itself would write out all digits of 1e99999999.
    value = (
        Fraction(text.rstrip("%"))
        if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,20})?%?", text)
        else Fraction(-1)
    )
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage from 0 to 100")
    return value


def check_args(args: argparse.Namespace) -> None:
    """Raises ScoreError for combinations that make no sense."""
    modes = [
        name
        for name in ("init_answers", "answers", "show_reference", "list", "audit")
        if getattr(args, name)
    ]
    if len(modes) > 1:
        shown = " and ".join("--" + mode.replace("_", "-") for mode in modes)
        raise ScoreError(f"{shown} are different things to do; give one of them")
    for name in ("csv", "fail_under", "tool", "suite"):
        value = getattr(args, name)
        if modes != ["answers"] and value is not None and value is not False and value != "":
            raise ScoreError(f"--{name.replace('_', '-')} goes with --answers")
    _check_questions(args)
    if args.csv is not None and args.csv != "-":
        check_writable(args.csv)
        inputs = [("answers", args.answers), ("database", args.db or DEFAULT_DB)]
        inputs += [("questions", path) for path in args.questions or ()]
        check_no_input(args.csv, inputs)
    if args.quiet and args.verbose:
        raise ScoreError("-q and -v cannot both be meant")


def _check_questions(args: argparse.Namespace) -> None:
    files = args.questions or []
    if len(files) > 2:
        raise ScoreError(
            "--questions: one file is meant, or gold lines and the file of their texts"
        )
    if args.db is not None and args.db_root is not None:
        raise ScoreError("--db and --db-root are two ways to say one thing; give one of them")
    for name in ("db_root", "suite", "password", "reveal"):
        if not files and getattr(args, name):
            raise ScoreError(f"--{name.replace('_', '-')} goes with --questions")
    if args.suite and args.db is not None:
        raise ScoreError("--suite goes with --db-root, whose folders hold several databases each")
    if "-" in files and (args.answers == "-" or files.count("-") > 1):
        raise ScoreError("standard input can be read once only; give a file for the other")


def open_set(args: argparse.Namespace) -> tuple[QuestionSet, Optional[Archive]]:
    """The chosen questions as they were understood, and the zip that they came in, if one."""
    archive = None
    if not args.questions:
        found = QuestionSet(QUESTIONS)
    else:
        sets = [_read_set(path, args) for path in args.questions]
        gold = [pair for pair in sets if pair[0].form == GOLD]
        texts = [pair for pair in sets if pair[0].form != GOLD]
        if len(sets) == 2 and len(gold) != 1:
            raise ScoreError(
                "--questions twice: one file of gold lines and one with their texts are meant"
            )
        found, archive = (gold or texts)[0]
        if len(sets) == 2:
            found, archive = with_texts(found, texts[0][0]), archive or texts[0][1]
    questions = found.questions
    if args.contract:
        rules = PRESETS[args.contract]
        questions = tuple(question._replace(contract=rules) for question in questions)
    return found._replace(questions=questions), archive


def _read_set(path: str, args: argparse.Namespace) -> tuple[QuestionSet, Optional[Archive]]:
    hint = "a question set is commented SQL, JSON or a zip"
    if path != "-" and starts_with(path, ZIP_MAGIC):
        archive = Archive(path, args.password or os.environ.get("NL2SQL_PASSWORD", ""))
        return archive.question_set(), archive
    data = read_input(path, "questions", hint)
    if data[:4] in ZIP_MAGIC:
        raise ScoreError("a zip cannot be read from standard input; give its name")
    name = "standard input" if path == "-" else path
    return with_files(read_questions(data, name), file_beside(path)), None


def selected(args: argparse.Namespace, questions: Sequence[Question]) -> list[Question]:
    """The questions that --only and -k leave. Raises ScoreError where that is none."""
    chosen = list(questions)
    if args.only is not None:
        wanted = _ids(",".join(args.only), questions)
        chosen = [question for question in chosen if question.id in wanted]
    if args.containing is not None:
        text = args.containing.casefold()
        chosen = [
            q
            for q in chosen
            if text in " ".join((q.id, q.text, *q.wordings.values(), q.trap, q.db)).casefold()
        ]
    if args.limit is not None:
        chosen = chosen[: args.limit]
    if not chosen:
        holding = f" with {args.containing!r} in it" if args.containing is not None else ""
        raise ScoreError(f"no question{holding} is selected; --list shows them all")
    return list(in_language(chosen, args.lang)) if args.lang is not None else chosen


def _ids(text: str, questions: Sequence[Question]) -> set[str]:
    """The ids that `Q01,Q05` or `Q02-Q04` names; q1 is Q01."""
    ids = [question.id for question in questions]
    known = set(ids)
    wanted: set[str] = set()
    for part in re.sub(r"\s*-\s*", "-", text).replace(",", " ").split():
        first, last = (part, part) if part in known else _ends(part, questions)
        span = ids[ids.index(first) : ids.index(last) + 1]
        if not span:
            raise ScoreError(f"--only: {part} runs backwards")
        wanted.update(span)
    return wanted


def _ends(part: str, questions: Sequence[Question]) -> tuple[str, str]:
    """The first and the last id of a range, or one id twice; ids may hold dashes themselves."""
    for at in (match.start() for match in re.finditer("-", part)):
        if look_up(part, questions) is not None:
            break
        first, last = look_up(part[:at], questions), look_up(part[at + 1 :], questions)
        if first is not None and last is not None:
            return first.id, last.id
        if first is not None and "-" not in part[at + 1 :]:
            part = part[at + 1 :]  # it is the one that is wrong
            break
    with on_one_line("--only: "):
        id = find_question(part, questions).id
    return id, id


def ready_database(path: Optional[str], of_the_ten: bool) -> str:
    """The database's path; the default one is built when it is missing. Raises ScoreError."""
    if path is None and not os.path.exists(DEFAULT_DB):
        build_default_database(DEFAULT_DB)
        say(f"built {DEFAULT_DB} with {MAKER}\n", sys.stderr)
    path = DEFAULT_DB if path is None else path
    if os.path.isfile(path):
        return path
    if os.path.exists(path):
        raise ScoreError(f"{path}: not a regular file")
    hint = f"; build one with: python {MAKER} --out {quoted(path)}" if of_the_ten else ""
    raise ScoreError(f"{path}: no such database{hint}")


class Data(NamedTuple):
    """Where the questions' databases are, by their ids, and a name for all of them."""

    found: Mapping[str, Found]
    name: str


@contextmanager
def located_data(
    args: argparse.Namespace, questions: Sequence[Question], archive: Optional[Archive]
) -> Iterator[Data]:
    """The data of the chosen questions; what a zip holds of it is unpacked meanwhile."""
    if archive is None or args.db or args.db_root or not archive.databases():
        yield _located(args, questions)
        return
    with private_folder() as folder:
        try:
            yield Data(_unpacked(archive, questions, folder, args.suite), archive.path)
        except ScoreError as error:
            text = str(error)
            for file, name in archive.unpacked.items():  # a private folder tells nobody anything
                text = text.replace(file, f"{archive.path}: {name}")
            raise ScoreError(text) from None


def _unpacked(
    archive: Archive, questions: Sequence[Question], folder: str, suite: bool
) -> dict[str, Found]:
    """The databases of the questions, unpacked from a zip. Raises ScoreError."""
    names = archive.databases()
    if len(names) == 1 and not any(question.db for question in questions):
        return {"": Found(archive.unpack(names[0], folder))}
    _check_database_ids(archive.path, questions)
    needed = _needed(questions)
    places = {id: archive.find(id) for id in needed}
    missing = [f"{cut(id)} (question {listed(needed[id])})" for id in needed if not places[id]]
    if missing:
        raise ScoreError(f"{archive.path}: no database for {listed(missing, 8)}")
    found = {}
    for id, place in places.items():
        first, others = place or ("", [])
        more = [
            archive.unpack(name, folder) for name in others if suite and name.endswith(".sqlite")
        ]
        found[id] = Found(archive.unpack(first, folder), tuple(more))
    return found


def _located(args: argparse.Namespace, questions: Sequence[Question]) -> Data:
    if args.db_root is not None:
        _check_database_ids(args.db_root, questions)
        return Data(find_databases(args.db_root, _needed(questions)), args.db_root)
    named = sorted({question.db for question in questions} - {""})
    if len(named) > 1 or (named and args.db is None):
        way = "--db-root DIR" + (", or --db FILE" if len(named) == 1 else "")
        raise ScoreError(f"the questions need the data of {listed(named)}; say where: {way}")
    if args.questions and args.db is None:
        raise ScoreError("say where the questions' data is: --db FILE, or --db-root DIR")
    path = ready_database(args.db, of_the_ten=not args.questions)
    return Data({"": Found(path)}, path)


def _check_database_ids(root: str, questions: Sequence[Question]) -> None:
    without = [question.id for question in questions if not question.db]
    if without:
        raise ScoreError(
            f"{root}: question {listed(without)}: no database id to look for;"
            " --db FILE serves all questions"
        )


def _needed(questions: Sequence[Question]) -> dict[str, list[str]]:
    """The questions that need each database, by their ids."""
    needed: dict[str, list[str]] = {}
    for question in questions:
        needed.setdefault(question.db, []).append(question.id)
    return needed


@contextmanager
def open_scorer(
    args: argparse.Namespace,
    questions: Sequence[Question],
    chosen: QuestionSet,
    archive: Optional[Archive],
) -> Iterator[tuple[Scorer, str]]:
    """A scorer on the questions' data, under the limits that were given; and the data's name."""
    settings = Settings(args.timeout, args.reference_timeout, args.max_rows, variants=args.variants)
    workers = min(args.jobs or cores(), len(questions))
    with located_data(args, questions, archive) as data:
        if args.csv not in (None, "-"):
            paths = [path for found in data.found.values() for path in (found.path, *found.suite)]
            check_no_input(args.csv, [("database", path) for path in paths])
            rows = [frozen.file for question in questions for frozen in question.frozen]
            folder = os.path.dirname(chosen.name)
            check_no_input(args.csv, [("rows", os.path.join(folder, n)) for n in rows if n])
        opened = open_databases(data.found, args.suite, settings)
        # A forked worker is a copy of this process, which knows a sealed set and its password.
        fork = not chosen.sealed
        with opened as databases, Scorer(databases, settings, workers, fork) as scorer:
            yield scorer, data.name


def init_answers(args: argparse.Namespace) -> int:
    chosen, _ = open_set(args)
    questions = selected(args, chosen.questions)
    path = args.init_answers
    hidden = chosen.sealed and not args.reveal
    template = answers_template(list(map(veiled_question, questions)) if hidden else questions)
    if path == "-":
        say(template)
        return 0
    write_file(path, template, new=True)
    how = "read the questions with --list on a terminal, or write them with --reveal"
    ids = f"; the set is sealed, so it has only their ids: {how}" if hidden else ""
    options = "".join(f" --questions {quoted(name)}" for name in args.questions or ())
    options += f" --db-root {quoted(args.db_root)}" if args.db_root else ""
    options += f" --db {quoted(args.db)}" if args.db else ""
    needs_data = args.questions and not (args.db or args.db_root)
    options += " --db FILE" if needs_data else ""
    options += f" --lang {args.lang}" if args.lang else ""
    say(
        f"wrote {visible(path)} with {counted(len(questions), 'question')}{ids}\n"
        f"next: paste the SQL that your tool writes below each question, then run\n"
        f"  python score_nl2sql.py{visible(options)} --answers {visible(quoted(path))}\n"
    )
    return 0


def list_questions(args: argparse.Namespace) -> int:
    chosen, archive = open_set(args)
    questions = selected(args, chosen.questions)
    sizes = list(_sizes(args, questions, archive))
    hidden = is_hidden(chosen, args, sys.stdout)
    if chosen.name:
        about = f"{chosen.form}, {counted(len(chosen.questions), 'question')}"
        say(f"{visible(chosen.name)}: {visible(about)}\n\n")
    for warning in () if hidden else chosen.warnings:
        say(f"warning: {visible(warning)}\n")
    questions = list(map(veiled_question, questions)) if hidden else questions
    say(render_questions(questions, sizes))
    return 0


def _sizes(
    args: argparse.Namespace, questions: Sequence[Question], archive: Optional[Archive]
) -> Iterator[tuple[str, list[int]]]:
    """The name and size of each database that is there; nothing is built to be listed."""
    if args.questions:
        told = args.db or args.db_root or (archive is not None and archive.databases())
    else:
        told = os.path.exists(args.db or DEFAULT_DB)
    if not told:
        return
    located = located_data(args, questions, archive)
    with located as data, open_databases(data.found, False, STANDARD) as databases:
        for id, size in sizes_of(databases).items():
            yield id or data.name, size


def is_hidden(chosen: QuestionSet, args: argparse.Namespace, stream: Any) -> bool:
    """Whether a sealed set stays sealed: a stream that is no terminal may be a file."""
    return chosen.sealed and not args.reveal and not (stream is not None and stream.isatty())


def show_reference(args: argparse.Namespace) -> int:
    chosen, archive = open_set(args)
    questions = selected(args, chosen.questions)
    if is_hidden(chosen, args, sys.stdout):
        raise ScoreError(
            f"{chosen.name}: is sealed; --reveal shows its references outside a terminal"
        )
    with open_scorer(args, questions, chosen, archive) as (scorer, _):
        replies = scorer.reference_results(questions)
    shown = [render_reference(question, reply) for question, reply in zip(questions, replies)]
    say("\n".join(shown))
    return 0


def audit(args: argparse.Namespace) -> int:
    chosen, archive = open_set(args)
    questions = selected(args, chosen.questions)
    if is_hidden(chosen, args, sys.stdout):
        raise ScoreError(f"{chosen.name}: is sealed; --reveal shows its audit outside a terminal")
    progress = Progress(args.quiet)
    with open_scorer(args, questions, chosen, archive) as (scorer, name):
        try:
            found = scorer.audit(questions, progress.watch)
        finally:
            progress.done()
    text = render_audit(found, name)
    say(text.rstrip("\n").rpartition("\n")[2] + "\n" if args.quiet else text)
    return 1 if any(audited.broken for audited in found) else 0


def score_answers(args: argparse.Namespace) -> int:
    chosen, archive = open_set(args)
    questions = selected(args, chosen.questions)
    hint = f"--init-answers {quoted(args.answers)} writes a template"
    data = read_input(args.answers, "answers", hint)
    name = "standard input" if args.answers == "-" else args.answers
    with open_scorer(args, questions, chosen, archive) as (scorer, data_name):
        with on_one_line(f"{name}: "):
            answers = read_answers(data, chosen.questions, args.answers_format)
        pairs = [(question, answers.by_id[question.id]) for question in questions]
        outcomes, suite, warnings, digest = _scored(args, scorer, pairs)
        version = scorer.sqlite_version or own_sqlite_version()
        facts = signature_facts(chosen, questions, scorer, digest, version)
    about = f"{chosen.name} ({chosen.form}, {counted(len(chosen.questions), 'question')})"
    run = Run(
        outcomes=outcomes,
        answers_name=name,
        db_name=data_name,
        tool=args.tool,
        total_questions=len(chosen.questions),
        signature="no signature: interrupted" if scorer.interrupted else signature_line(facts),
        warnings=answers.warnings + warnings,
        set_warnings=chosen.warnings,
        answers_form="; ".join(filter(None, (ANSWER_FORMS[answers.form], answers.pairing))),
        set_name=about if chosen.name else "",
        partial=scorer.interrupted,
        suite=suite,
        variants=args.variants,
    )
    return report(run, args, chosen)


def _scored(
    args: argparse.Namespace, scorer: Scorer, pairs: Sequence[tuple[Question, Answer]]
) -> tuple[tuple[Outcome, ...], Optional[int], tuple[str, ...], str]:
    """The outcomes, how many hold on their test suites, warnings, and the data's digest."""
    files = {id: [d.source for d in found] for id, found in scorer.databases.items()}
    digest = Later(
        lambda: databases_digest(
            {
                id: [database_digest(file_blocks(f)) for f in sources]
                for id, sources in files.items()
            }
        )
    )
    progress = Progress(args.quiet)
    try:
        outcomes = scorer.score(pairs, progress.watch)
        suite: Optional[int] = None
        warnings: tuple[str, ...] = ()
        if args.suite and not scorer.interrupted:
            outcomes, suite, warnings = _suite_scored(scorer, outcomes, progress)
    finally:
        progress.done()
    return tuple(outcomes), suite, warnings, "" if scorer.interrupted else digest.value()


def _suite_scored(
    scorer: Scorer, outcomes: Sequence[Outcome], progress: Progress
) -> tuple[list[Outcome], Optional[int], tuple[str, ...]]:
    passed = [outcome for outcome in outcomes if outcome.passed]
    replies = scorer.suite_replies(passed, progress.watch)
    if scorer.interrupted:
        return list(outcomes), None, ("the test suites were not finished",)
    checked = []
    right = 0
    broken: dict[str, tuple[str, ...]] = {}
    for outcome in outcomes:
        if outcome.passed:
            outcome, holds, names = with_suite(outcome, replies.get(outcome.question.id, ()))
            right += holds
            broken.update({outcome.question.id: names} if names else {})
        checked.append(outcome)
    warnings = []
    untried = [o.question for o in passed if o.question.sql and o.question.id not in replies]
    bare = sorted({question.db for question in untried})
    if bare:
        warnings.append(f"no test-suite databases for {listed(bare, 8)}")
    if broken:
        where = listed(sorted({name for names in broken.values() for name in names}), 8)
        warnings.append(f"question {listed(list(broken))}: the reference does not run on {where}")
    return checked, right, tuple(warnings)


def signature_facts(
    chosen: QuestionSet,
    questions: Sequence[Question],
    scorer: Scorer,
    digest: str,
    sqlite_version: str,
) -> dict[str, str]:
    """What two people must have in common for their scores to be comparable.

    `digest` is the databases'.
    """
    # Limits only where they were changed.
    names = ("timeout", "reference_timeout", "max_rows")
    limits = {name: getattr(scorer.settings, name) for name in names}
    changed = {n: f"{value:g}" for n, value in limits.items() if value != getattr(STANDARD, n)}
    suite = sum(len(found) - 1 for found in scorer.databases.values())
    return {
        "questions": questions_digest(questions),
        "asked": f"{len(questions)}/{len(chosen.questions)}",
        "contract": contracts_digest(questions),
        "db": digest[:12],
        **({"suite": str(suite)} if suite else {}),
        "scorer": scorer_version(),
        "variants": str(scorer.settings.variants),
        "seed": str(SEED),
        **changed,
        "sqlite": sqlite_version,
        "python": python_version(),
    }


def report(run: Run, args: argparse.Namespace, chosen: QuestionSet) -> int:
    """Writes what was asked for, prints the report and returns the exit code."""
    out = sys.stderr if args.csv == "-" else sys.stdout
    wrote = []
    written = veiled(run) if chosen.sealed and not args.reveal else run
    table = render_csv(written) if args.csv is not None else ""
    if args.csv not in (None, "-"):
        write_file(args.csv, table)
        wrote.append(args.csv)
    if args.quiet:
        say(score_line(run) + "\n", out)
    else:
        shown = veiled(run) if is_hidden(chosen, args, out) else run
        style = Style(wants_colour(out, args.color, os.environ), terminal_width(out), args.verbose)
        say(render_text(shown, style, wrote), out)
    if args.csv == "-":
        say(table)
    if run.partial:
        return 130
    shown = veiled(run) if is_hidden(chosen, args, sys.stderr) else run
    broken = [outcome for outcome in shown.outcomes if outcome.reason == "reference_error"]
    if broken and len(broken) == sum(bool(outcome.question.sql) for outcome in run.outcomes):
        why = broken[0].detail[0].partition(": ")[2]
        raise ScoreError(f"{run.db_name}: no reference runs on it ({why}), so nothing was scored")
    if broken and args.quiet:
        ids = listed([outcome.question.id for outcome in broken])
        say(
            f"warning: the reference of {ids} does not run; without -q the report says why\n",
            sys.stderr,
        )
    if args.fail_under is not None and run.passed * 100 < args.fail_under * run.total:
        share = f"{run.passed}/{run.total} ({percent(run.passed, run.total)})"
        say(f"FAIL: {share} is under --fail-under {float(args.fail_under):.10g}\n", sys.stderr)
        return 1
    return 0


def show_version() -> int:
    versions = f"SQLite {own_sqlite_version()}, Python {python_version()}"
    say(f"score_nl2sql {scorer_version()} ({versions})\n")
    return 0


def run_command(args: argparse.Namespace) -> int:
    check_args(args)
    remove_left_folders()
    if args.version:
        return show_version()
    if args.init_answers:
        return init_answers(args)
    if args.list:
        return list_questions(args)
    if args.show_reference:
        return show_reference(args)
    if args.audit:
        return audit(args)
    if args.answers:
        return score_answers(args)
    raise ScoreError(
        "nothing to do: --init-answers answers.sql writes a template,"
        " --answers answers.sql scores it, --help shows the rest"
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs the command and returns its exit code."""
    escape_what_a_console_lacks()
    try:
        return run_command(build_parser().parse_args(argv))
    except ScoreError as error:
        say(f"score_nl2sql.py: {visible(str(error))}\n", sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        say("\ninterrupted\n", sys.stderr)
        return 130


def run_as_program() -> int:
    """main() for the command: a request to end leaves nothing behind, and is obeyed."""
    import signal

    received: list[int] = []
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    # What the caller has ignored (nohup) stays ignored.
    numbers = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]

    def interrupt(number: int, _: object) -> NoReturn:
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)  # what is to be cleaned up is cleaned up
        received.append(number)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)
    code = main()
    for number in received:
        if number != signal.SIGINT:  # which the exit code tells
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
    return code


if __name__ == "__main__":
    sys.exit(run_as_program())
