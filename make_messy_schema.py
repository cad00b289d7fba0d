#!/usr/bin/env python3
"""Build the trap-laden SQLite database that score_nl2sql.py asks its ten questions of.

    python make_messy_schema.py                      # writes nl2sql-eval.db
    python make_messy_schema.py --seed 7 --force     # another database, over the old one
    python make_messy_schema.py --scale 100          # a hundred times as many rows

Four tables: customers_v2 (with soft deletes), customers (deprecated, still full of rows), orders
and order_items. Everything in them is invented. The database is built so that each well-known
mistake (a void order counted, a status spelling missed, the wrong date, the wrong join, cents
taken for dollars) changes the answer to the question that lures people into it, whatever the seed:
those rows are put there on purpose, and chance only decides amounts, names and moments.

The same seed and scale give the same content on every Python and platform. All chance comes from
random.Random(seed).random(), which never changed; it is turned into whole numbers here, money is
counted in whole cents, and no result depends on hashing or on the order of floating additions.

The content digest is the SHA-256 of this text in UTF-8, each line ended by a newline: for each
table in the order above a line "name(column,column,...)", then each row in the order of its first
column as Python's repr() of the tuple, e.g. (1, 100, 'SKU', 2, 499). It does not depend on how
SQLite lays out its pages.

Exit codes: 0 built, 2 wrong usage or cannot build (one line on stderr says why), 130 interrupted.

Contents
 1  constants and errors
 2  the calendar
 3  the cast: who is in the database, and which orders they place
 4  chance
 5  a block of customers and their orders
 6  the database
 7  command line
"""
from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from bisect import bisect_right
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

if sys.version_info < (3, 9):  # noqa: UP036 - said in words, not by what fails first
    sys.stderr.write("make_messy_schema.py: Python 3.9 or newer is needed, this is an older one\n")
    raise SystemExit(2)

if TYPE_CHECKING:  # both cost start-up time that building does not need
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

# 1 ---------------------------------------------------------------- constants and errors

DEFAULT_PATH = "nl2sql-eval.db"
DEFAULT_SEED = 2025
MIN_SCALE = 0.5  # below this some groups of customers are too small to change a count by three
MAX_SCALE = 10_000.0  # about three gigabytes; more is a slip of the keyboard

SCHEMA = """\
CREATE TABLE customers_v2 (
    customer_id INTEGER PRIMARY KEY,
    external_ref TEXT,
    full_name TEXT,
    email TEXT,
    country TEXT,
    plan_tier TEXT,
    acquisition_channel TEXT,
    signup_date TEXT,
    is_deleted INTEGER,
    ltv_estimate REAL,
    updated_at TEXT
);
CREATE TABLE customers (
    customer_id INTEGER,
    name TEXT,
    email TEXT,
    signup_date TEXT,
    status TEXT
);
CREATE TABLE orders (
    order_id INTEGER PRIMARY KEY,
    customer_id INTEGER,
    user_id INTEGER,
    external_ref TEXT,
    status TEXT,
    total_amount REAL,
    void_flag INTEGER,
    created_at TEXT,
    booked_at TEXT,
    closed_at TEXT
);
CREATE TABLE order_items (
    item_id INTEGER PRIMARY KEY,
    order_id INTEGER,
    sku TEXT,
    qty INTEGER,
    unit_price_cents INTEGER
);
"""
TABLES = ("customers_v2", "customers", "orders", "order_items")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Ada Aisha Amara Andrei Anneke Bruno Carla Chidi Dana Diego Elif Emeka Erik Farah Fiona Goran "
    "Hana Hugo Ines Ivan Jana Jonas Kaito Katya Lars Leila Lucia Mateo Mei Mira Nadia Nils Noor "
    "Olga Omar Paula Priya Rafael Rosa Samir Sofia Tariq Tessa Tomas Uma Victor Wanda Yara Yusuf")
LAST_NAMES = _words(
    "Abara Almeida Bakker Banerjee Berg Castillo Chen Costa Dahl Demir Duarte Eriksen Fabre Farouk "
    "Fischer Garza Haddad Hoffmann Horvat Ito Jansen Kaya Keller Kovac Kumar Larsen Leroy Lind "
    "Lopes Marek Mensah Moreau Nakata Navarro Novak Okoye Olsen Park Pereira Petrov Quinn Rahman "
    "Rossi Sato Schmid Silva Tanaka Tran Varga Weber Yilmaz Zeman")
COUNTRIES = _words("US US US DE DE FR GB GB NL ES IT PL BR IN JP NG CA AU")
PRICES = (499, 599, 799, 895, 999, 1199, 1299, 1499, 1595, 1799, 1999, 2199, 2499, 2795, 2999,
          3299, 3499, 3699, 3895, 3999)  # cents, ascending; nearly a dollar above a whole dollar
SKUS = tuple(f"{'ABCDEFGHJK'[n % 10]}{'KLMNPRSTVW'[n * 7 % 10]}-{1040 + 13 * n}" for n in range(20))
VOUCHER = "GV-0001"  # the one item with an odd price, see Filler.voucher

T = TypeVar("T")


class SchemaError(Exception):
    """What the user can mend: main() prints it as one line and returns 2."""


# 2 ---------------------------------------------------------------- the calendar

DAY = 86_400
EPOCH = date(2019, 1, 1)
DAYS = tuple((EPOCH + timedelta(days=n)).isoformat() for n in range(2700))

Window = tuple[int, int]  # seconds since EPOCH: the first one in it, the first one after it


def day_number(day: str) -> int:
    return (date.fromisoformat(day) - EPOCH).days


def window(first: str, after: str) -> Window:
    """From the start of one day to the start of another, which is no longer in it."""
    return day_number(first) * DAY, day_number(after) * DAY


def second(day: str, before: int = 0) -> Window:
    """The one second in which a day begins, or one so many seconds earlier."""
    start = day_number(day) * DAY - before
    return start, start + 1


def stamp(moment: int) -> str:
    day, rest = divmod(moment, DAY)
    return f"{DAYS[day]} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _quarter(year: int, number: int) -> Window:
    after = f"{year}-{3 * number + 1:02d}-01" if number < 4 else f"{year + 1}-01-01"
    return window(f"{year}-{3 * number - 2:02d}-01", after)


Q2023 = tuple(_quarter(2023, n) for n in (1, 2, 3, 4))
Q2024 = tuple(_quarter(2024, n) for n in (1, 2, 3, 4))
Q2025 = tuple(_quarter(2025, n) for n in (1, 2, 3, 4))
Q1_2026 = _quarter(2026, 1)
OLD_TABLE_RETIRED = day_number("2025-07-01")

# 3 ---------------------------------------------------------------- the cast
#
# A scale of 1 is one block of about 450 customers in the proportions below; larger scales
# are several blocks, so what holds in one block holds at any size. Each persona is there for
# the sake of one or two traps. Its orders come in batches; a batch deals its cards (status,
# void flag, how the three dates lie) from a deck, so that shares are exact and not a matter of
# luck. For the channels the shares work out like this, in dollars per paying live customer:
#
#   referral     leads, but mostly in the spelling COMPLETE, and half of its people never buy;
#                its amounts are round and repeat: adding up each amount once is wrong
#   partner      second: two large orders each and nobody idle
#   organic      the most people and the most revenue in total
#   paid_search  huge orders, void
#   social       huge orders that were never completed, and flattering estimates
#   email        huge orders of deleted customers; referral's orders carry its external_refs


class Card(NamedTuple):
    """How an order turned out: dates lie within the booking's window, before it or after it."""

    status: str
    void: int = 0
    created: str = "same"  # or "before"
    closed: str = "same"  # or "next", "never"


SPELLINGS = ("complete", "completed", "COMPLETE")

CARDS = {
    "plain": (
        Card("complete"), Card("complete"), Card("complete", created="before"),
        Card("complete", closed="next"), Card("complete", closed="never"),
        Card("completed"), Card("completed", created="before"),
        Card("completed", created="before", closed="next"), Card("completed", closed="next"),
        Card("completed", closed="never"), Card("completed", created="before", closed="never"),
        Card("COMPLETE"), Card("COMPLETE", created="before"), Card("COMPLETE", closed="next"),
        Card("COMPLETE", closed="never"),
        Card("completed", 1), Card("COMPLETE", 1, closed="never"),
        Card("pending", 1, closed="never"),
        Card("pending", closed="never"), Card("pending", created="before", closed="never"),
        Card("pending", closed="next"),
        Card("cancelled"), Card("cancelled", closed="never"),
        Card("refunded", created="before"), Card("refunded", closed="never"),
    ),
    "referral": (
        *[Card("COMPLETE")] * 3, *[Card("COMPLETE", closed="never")] * 2,
        *[Card("COMPLETE", created="before")] * 2, *[Card("COMPLETE", closed="next")] * 2,
        Card("complete"), Card("complete", closed="next"), Card("complete", created="before"),
        Card("completed"), Card("completed", closed="never"), Card("completed", created="before"),
        Card("COMPLETE", 1), Card("pending", closed="never"), Card("cancelled"), Card("refunded"),
    ),
    "counted": tuple(Card(status) for status in SPELLINGS),
    "counted, closed later": tuple(Card(status, closed="next") for status in SPELLINGS),
    "counted, slow": (*(Card(status, closed="next") for status in SPELLINGS),
                      *(Card(status, closed="never") for status in SPELLINGS)),
    "counted, created before": tuple(Card(status, created="before") for status in SPELLINGS),
    "void": tuple(Card(status, 1) for status in SPELLINGS),
    "uncounted": (Card("pending", closed="never"), Card("cancelled"), Card("refunded"),
                  Card("pending", closed="never"), Card("refunded", closed="never")),
    "loose ends": (Card("pending", closed="never"), Card("cancelled", closed="never"),
                   Card("completed", 1, closed="never")),
    "large": (Card("completed"), Card("completed", created="before"), Card("complete")),
    "complete": (Card("complete"), Card("complete", closed="next")),
    "completed": (Card("completed"),),
    "upper case": (Card("COMPLETE"),),
    "pending": (Card("pending", closed="never"),),
    "refunded": (Card("refunded"),),
}

# Single moments and short windows, for the orders that sit on an edge.
MOMENTS = {
    "last second of 2024": (second("2025-01-01", before=1),),
    "first second of 2025": (second("2025-01-01"),),
    "last day of Q1": (window("2025-03-31", "2025-04-01"),),
    "last second of Q1": (second("2025-04-01", before=1),),
    "first second of Q2": (second("2025-04-01"),),
    "last day of 2025": (window("2025-12-31", "2026-01-01"), window("2025-12-31", "2026-01-01"),
                         second("2026-01-01", before=1)),
    "first second of 2026": (second("2026-01-01"),),
    "December 2024": (window("2024-12-01", "2025-01-01"),),
    "January 2025": (window("2025-01-01", "2025-02-01"),),
    "2023 and 2024": Q2023 + Q2024[:3],
    "around Q1 2025": Q2024[2:3] + Q2025[1:],
    "2025 after Q1": Q2025[1:],
    "2025": Q2025,
    "Q4 2025": Q2025[3:],
    "2026": (Q1_2026,),
}


class Cohort(NamedTuple):
    """Customers who signed up within some days, and the quarters in which they then order."""

    first: str
    last: str
    history: tuple[Window, ...] = ()  # repeated quarters weigh more
    anchor: tuple[Window, ...] = ()  # 2025 only


_BUSY_2025 = (Q2025[0],) * 3 + Q2025[1:] * 2
COHORTS = {
    "old": Cohort("2022-01-01", "2022-10-31", Q2023 + Q2024 + _BUSY_2025 + (Q1_2026,), Q2025),
    "middle": Cohort("2023-07-01", "2024-05-15", Q2024[2:] + _BUSY_2025 + (Q1_2026,), Q2025),
    "2025": Cohort("2025-01-02", "2025-05-15", Q2025[2:] * 2 + (Q1_2026,), Q2025[2:]),
    "late 2025": Cohort("2025-07-01", "2025-12-30"),
    "2026": Cohort("2026-01-02", "2026-03-30"),
    "first day of 2026": Cohort("2026-01-01", "2026-01-01"),
    "first day": Cohort("2025-01-01", "2025-01-01", Q2025[2:] * 2 + (Q1_2026,), Q2025[2:]),
    "last day": Cohort("2025-12-31", "2025-12-31"),
}
ANY = ("old", "old", "old", "old", "middle", "middle", "2025", "2025", "2025")
LONG_SINCE = ("old", "old", "middle")
MIXED = ("free",) * 2 + ("starter",) * 3 + ("pro",) * 3 + ("enterprise",) * 2
EACH = ("free", "starter", "pro", "enterprise")
SMALL = ("free", "starter", "pro")
UPPER = ("starter", "pro", "pro", "enterprise", "enterprise")
TOP = ("enterprise",)


class Batch(NamedTuple):
    """Some orders of one customer: how many, when, how they turned out, for how many dollars."""

    low: int
    high: int
    when: str  # a key of MOMENTS, or "history" or "anchor" of the customer's cohort
    cards: str  # a key of CARDS
    dollars: tuple[int, int]
    user: str = ""  # "first": carries the user_id that equals the block's first customer_id
    ref: str = ""  # which external_ref: "own", "none", "first", "agency", or dealt from REFS
    step: int = 1  # cents: amounts are multiples of it, so that a large one makes them repeat


class Persona(NamedTuple):
    name: str
    people: int  # at scale 1
    channels: tuple[str, ...]
    cohorts: tuple[str, ...]
    tiers: tuple[str, ...]
    batches: tuple[Batch, ...] = ()
    deleted: int = 0


REFS = ("own", "own", "own", "none", "other")
USUAL, MIDDLING, EDGY = (60, 440), (200, 400), (900, 1300)
BIG_CENTS = 80_000  # orders from here on were keyed in by a handful of users
# Who has an anchor bought in 2025 whatever the cards of the other orders say.
ANCHOR = Batch(1, 1, "anchor", "counted", USUAL)


def _once(name: str, count: int, when: str, cards: str,
          dollars: tuple[int, int] = USUAL) -> Persona:
    """People with a single order: they decide how many customers ordered in 2025."""
    only = Batch(1, 1, when, cards, dollars)
    return Persona(name, count, ("organic",), LONG_SINCE, SMALL, (only,))


PERSONAS = (
    # Customer 1; the ranges keep the answers of Q09's traps apart from the right one, and with nine
    # counted orders of five amounts some amount repeats.
    Persona("first", 1, ("organic",), ("old",), ("pro",), (
        Batch(3, 3, "2025 after Q1", "complete", MIDDLING, ref="own", step=5000),
        Batch(3, 3, "history", "completed", MIDDLING, ref="none", step=5000),
        Batch(3, 3, "history", "upper case", MIDDLING, ref="none", step=5000),
        Batch(2, 2, "history", "void", MIDDLING, ref="own"),
        Batch(2, 2, "history", "pending", MIDDLING),
        Batch(2, 2, "history", "refunded", MIDDLING))),
    Persona("clerk", 1, ("organic",), ("old",), ("starter",), (
        ANCHOR,
        Batch(3, 3, "history", "counted", (150, 340), user="first"),
        Batch(1, 1, "history", "void", (150, 340), user="first"),
        Batch(4, 4, "around Q1 2025", "counted", EDGY, ref="first"))),
    Persona("ordinary", 78, ("organic",), ANY, MIXED, (
        ANCHOR, Batch(5, 11, "history", "plain", USUAL))),
    Persona("heavy", 5, ("organic",), LONG_SINCE, UPPER, (
        ANCHOR, Batch(44, 56, "history", "plain", (300, 700)))),
    Persona("edge", 5, ("organic",), ("old",), EACH, (
        ANCHOR, Batch(2, 4, "history", "plain", USUAL),
        Batch(1, 1, "last second of 2024", "counted", EDGY),
        Batch(1, 1, "first second of 2025", "counted", (1100, 1500)),
        Batch(1, 1, "last day of Q1", "counted", EDGY),
        Batch(1, 1, "last second of Q1", "counted", EDGY),
        Batch(1, 1, "first second of Q2", "counted, closed later", EDGY))),
    Persona("referral", 24, ("referral",), LONG_SINCE, UPPER, (
        Batch(1, 1, "anchor", "counted", (350, 650), ref="own"),
        Batch(17, 21, "history", "referral", (350, 650), ref="agency", step=5000))),
    Persona("referral, idle", 24, ("referral",), ("late 2025",), MIXED + TOP * 6),
    Persona("partner", 20, ("partner",), LONG_SINCE, UPPER, (
        Batch(1, 1, "2025 after Q1", "completed", (2000, 2800), ref="own"),
        Batch(1, 1, "around Q1 2025", "complete", (2000, 2800), ref="own"),
        Batch(1, 1, "history", "upper case", USUAL, ref="own"),
        Batch(1, 2, "history", "loose ends", USUAL))),
    Persona("paid search", 24, ("paid_search",), LONG_SINCE, EACH, (
        ANCHOR, Batch(7, 11, "history", "plain", USUAL),
        Batch(1, 1, "around Q1 2025", "void", (8500, 11500)))),
    Persona("email", 16, ("email",), LONG_SINCE, EACH, (
        ANCHOR._replace(ref="none"), Batch(6, 10, "history", "plain", USUAL, ref="none"))),
    Persona("email, deleted", 8, ("email",), ("old",), EACH, (
        Batch(6, 6, "around Q1 2025", "large", (4400, 5600)),
        Batch(1, 2, "history", "plain", USUAL)), deleted=1),
    Persona("social", 18, ("social",), LONG_SINCE, EACH, (
        ANCHOR, Batch(6, 10, "history", "plain", USUAL),
        Batch(3, 3, "around Q1 2025", "uncounted", (3600, 4400)))),
    Persona("gone", 40, ("organic", "organic", "social", "paid_search"), LONG_SINCE, EACH, (
        ANCHOR, Batch(3, 7, "history", "plain", USUAL)), deleted=1),
    Persona("gone, idle", 8, ("organic", "social"), ANY, SMALL, deleted=1),
    Persona("gone, signed up in 2025", 8, ("organic", "email"), ("2025", "late 2025"), TOP,
            deleted=1),
    Persona("idle", 34, ("organic",), ANY, SMALL),
    Persona("signed up on the first day", 6, ("organic",), ("first day",), TOP, (
        ANCHOR, Batch(2, 5, "history", "plain", USUAL))),
    Persona("signed up on the last day", 8, ("organic",), ("last day",), TOP),
    Persona("signed up as 2026 began", 2, ("organic",), ("first day of 2026",), TOP),
    Persona("signed up in 2026", 8, ("organic",), ("2026",), TOP),
    _once("bought on the last day", 7, "last day of 2025", "counted"),
    _once("bought as 2026 began", 8, "first second of 2026", "counted, closed later"),
    _once("bought in 2026", 12, "2026", "counted"),
    _once("never completed", 14, "2025", "uncounted"),
    _once("only void", 10, "2025", "void"),
    _once("created in 2024", 11, "January 2025", "counted, created before"),
    _once("closed in 2026 or never", 16, "Q4 2025", "counted, slow"),
    _once("closed in 2025", 3, "December 2024", "counted, closed later", (60, 120)),
    _once("bought before 2025", 12, "2023 and 2024", "counted")._replace(cohorts=("old",)),
)
MORE_ORDINARY = 24  # up to so many more of them, so that the counts differ from seed to seed
ONLY_IN_OLD_TABLE = 60


def settle(card: Card, when: Window) -> Card:
    """Keep the drift of dates one-sided around Q1 2025, and nothing closed in the future.

    Orders that drift into the quarter would otherwise make up for those that drift out of it,
    and dating revenue by created_at or closed_at would be right by luck.
    """
    if card.closed == "next" and when == Q2024[3]:
        return card._replace(closed="same")
    if card.created == "before" and when == Q2025[1]:
        return card._replace(created="same")
    if card.closed == "next" and when == Q1_2026:
        return card._replace(closed="never")
    return card


# 4 ---------------------------------------------------------------- chance


class Dice:
    """Whole-number chance made of random() alone, which is the same on every Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def below(self, limit: int) -> int:
        return int(self.random() * limit)

    def between(self, low: int, high: int) -> int:
        return low + int(self.random() * (high - low + 1))

    def pick(self, things: Sequence[T]) -> T:
        return things[int(self.random() * len(things))]

    def shuffled(self, things: Iterable[T]) -> list[T]:
        cards = list(things)
        for last in range(len(cards) - 1, 0, -1):
            other = int(self.random() * (last + 1))
            cards[last], cards[other] = cards[other], cards[last]
        return cards


class Decks:
    """Named decks, each shuffled anew once dealt out: shares are exact, their order is not."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.piles: dict[object, list[Any]] = {}

    def deal(self, name: object, cards: Sequence[T]) -> T:
        pile = self.piles.get(name)
        if not pile:
            pile = self.piles[name] = self.dice.shuffled(cards)
        card: T = pile.pop()
        return card


# 5 ---------------------------------------------------------------- a block


class Customer(NamedTuple):
    number: int
    persona: Persona
    channel: str
    tier: str
    cohort: str
    signup: int  # day number
    ref: str
    first_name: str
    last_name: str


class Order(NamedTuple):
    created: int
    booked: int
    closed: int | None
    customer: int
    user: int
    ref: str | None
    status: str
    void: int
    cents: int


class Block:
    """Some 450 customers and what belongs to them, complete with every trap."""

    def __init__(self, dice: Dice, size: float, start: int) -> None:
        self.dice = dice
        self.decks = Decks(dice)
        cast = self._cast(size)
        strangers = int(ONLY_IN_OLD_TABLE * size + 0.5)
        self.after = start + len(cast) + strangers  # the first id of the next block
        # The first of the cast keeps the first id: that is how customer 1 comes by its orders.
        ids = [start, *dice.shuffled(range(start + 1, self.after))]
        self.only_old = ids[len(cast):]
        self.customers: list[Customer] = []
        self.company_ref = ""  # of the last ordinary customer who came with a new one
        for number, persona in zip(ids, cast):
            self.customers.append(self._customer(number, persona))
        self._appoint()

    def _cast(self, size: float) -> list[Persona]:
        cast = []
        for persona in PERSONAS:
            count = int(persona.people * size + 0.5)
            if persona.name == "ordinary":
                count += self.dice.below(int(MORE_ORDINARY * size) + 1)
            cast += [persona] * count
        return cast

    def _customer(self, number: int, persona: Persona) -> Customer:
        deal, dice, name = self.decks.deal, self.dice, persona.name
        cohort = deal(("cohort", name), persona.cohorts)
        signup = dice.between(day_number(COHORTS[cohort].first), day_number(COHORTS[cohort].last))
        ref = f"XR-{100_000 + number}"
        if name == "ordinary":  # several accounts of one company share theirs
            if self.company_ref and deal("shared ref", (True,) + (False,) * 7):
                ref = self.company_ref
            self.company_ref = ref
        return Customer(number, persona, deal(("channel", name), persona.channels),
                        deal(("tier", name), persona.tiers), cohort, signup, ref,
                        dice.pick(FIRST_NAMES), dice.pick(LAST_NAMES))

    def _appoint(self) -> None:
        """Choose whose ids and references the columns that mislead will point at."""
        # Large plans bring most of the revenue. The people below are on small plans first, so that
        # a join through them moves the revenue of every tier.
        humble = sorted(self.customers, key=lambda c: c.tier in ("pro", "enterprise"))
        crew = [c for c in humble if c.persona.name == "ordinary"]
        self.other_refs = [c.ref for c in crew]
        # Few people key in the large orders, all of them organic; elsewhere user_id is any id but
        # an organic one, so that a join on user_id puts organic far ahead.
        self.big_users = [c.number for c in crew[:len(crew) // 8]]
        others = [c.number for c in humble if c.channel != "organic"]
        self.users = others[:len(others) * 3 // 4] + self.only_old[:len(self.only_old) // 2]
        emails = [c.ref for c in humble if c.persona.name == "email"]
        self.agencies = emails[:len(emails) // 3]

    def customer_rows(self) -> Iterator[tuple[object, ...]]:
        for c in sorted(self.customers):
            host = self.dice.pick(("example.com", "example.org"))
            email = f"{c.first_name}.{c.last_name}{c.number}@{host}".lower()
            yield (c.number, c.ref, f"{c.first_name} {c.last_name}", email,
                   self.dice.pick(COUNTRIES), c.tier, c.channel, DAYS[c.signup], c.persona.deleted,
                   self._estimate(c) / 100, self._updated(c))

    def _estimate(self, customer: Customer) -> int:
        """The stale lifetime value, in cents: a model's guess that no order ever corrected."""
        if customer.persona.name == "first":
            return self.dice.between(1_700_000, 1_900_000)
        if customer.channel == "social":
            return self.dice.between(1_200_000, 2_000_000)
        if not customer.persona.batches and self.dice.below(4) == 0:
            return 0
        return self.dice.between(50_000, 800_000)

    def _updated(self, customer: Customer) -> str:
        """Of the last months: a migration touched every row, so this date says nothing."""
        first, after = window("2026-01-01", "2026-04-01")
        signup = (customer.signup + 1) * DAY
        pile = ("updated", customer.tier, customer.persona.deleted)
        if signup < first and self.decks.deal(pile, (True, True, False)):
            first, after = window("2025-06-01", "2026-01-01")
        return stamp(self.dice.between(max(first, signup), after - 1))

    def old_customer_rows(self) -> Iterator[tuple[object, ...]]:
        """The deprecated table: it missed what came after it was retired, and forgot nothing."""
        deal, dice = self.decks.deal, self.dice
        people = [(number, dice.pick(FIRST_NAMES), dice.pick(LAST_NAMES), self._old_signup())
                  for number in self.only_old]
        for c in self.customers:
            kept = (True, True, True, False, False)
            if c.signup < OLD_TABLE_RETIRED and deal(("kept", c.tier), kept):
                wrong = deal(("disagrees", c.tier), (True, False))
                days = dice.between(200, 700) if wrong else 0
                people.append((c.number, c.first_name, c.last_name, c.signup - days))
        statuses = ("active", "active", "active", "inactive", "closed")
        for number, first_name, last_name, signup in sorted(people):
            email = f"{last_name}{number}@example.org".lower()
            yield (number, f"{last_name}, {first_name}", email, DAYS[signup],
                   deal("old status", statuses))

    def _old_signup(self) -> int:
        year = self.decks.deal("old signup", ("2022", "2025", "2025", "2025"))
        return self.dice.between(day_number(f"{year}-01-01"), day_number(f"{year}-06-30"))

    def orders(self) -> list[Order]:
        """All orders of the block in the order in which they were created."""
        placed = []
        for customer in self.customers:
            for batch in customer.persona.batches:
                for _ in range(self.dice.between(batch.low, batch.high)):
                    placed.append(self._order(customer, batch))
        placed.sort(key=lambda order: order.created)
        return placed

    def _order(self, customer: Customer, batch: Batch) -> Order:
        deal, name = self.decks.deal, batch.when
        if name in MOMENTS:
            when = deal(name, MOMENTS[name])
        else:
            when = deal((name, customer.cohort), getattr(COHORTS[customer.cohort], name))
        # A deck per quarter and size of order: each quarter gets its share of each card.
        card = settle(deal((batch.cards, when, batch.dollars), CARDS[batch.cards]), when)
        created, booked, closed = self._dates(card, when)
        low, high = (dollars * 100 // batch.step for dollars in batch.dollars)
        cents = batch.step * self.dice.between(low, high)
        return Order(created, booked, closed, customer.number, self._user(batch, cents),
                     self._ref(customer, batch), card.status, card.void, cents)

    def _dates(self, card: Card, when: Window) -> tuple[int, int, int | None]:
        below, (start, after) = self.dice.below, when
        booked = start + below(after - start)
        if card.created == "same":
            created = booked - below(min(9 * DAY, booked - start + 1))
        else:
            created = start - 1 - below(30 * DAY)
        if card.closed == "never":
            return created, booked, None
        if card.closed == "same":
            return created, booked, booked + below(min(25 * DAY, after - booked))
        return created, booked, after + below(30 * DAY)

    def _user(self, batch: Batch, cents: int) -> int:
        if batch.user == "first":
            return self.customers[0].number
        if cents >= BIG_CENTS:
            return self.decks.deal("big user", self.big_users)
        return self.decks.deal("user", self.users)

    def _ref(self, customer: Customer, batch: Batch) -> str | None:
        kind = batch.ref or self.decks.deal("ref", REFS)
        if kind == "own":
            return customer.ref
        if kind == "first":
            return self.customers[0].ref
        if kind == "agency":
            return self.decks.deal("agency", self.agencies)
        return self.decks.deal("other ref", self.other_refs) if kind == "other" else None

    def items(self, cents: int) -> list[tuple[str, int, int]]:
        """Lines (sku, qty, unit price in cents) of an order, which never reach its total.

        What is missing are freight, fees and services, which are no items. Larger orders have
        more lines, dear articles smaller quantities: a fan-out and an average of prices show.
        """
        below = self.dice.below
        lines = 1 + (cents >= 15_000) + (cents >= 45_000) + below(2)
        budget = cents * (60 + below(36)) // 100 // lines
        affordable = bisect_right(PRICES, budget)
        bought = []
        for _ in range(lines):
            article = below(affordable)
            price = PRICES[article]
            most = min(6, budget // price)
            bought.append((SKUS[article], most - below(2) if most > 1 else 1, price))
        return bought


# 6 ---------------------------------------------------------------- the database


class Summary(NamedTuple):
    """What build() made."""

    path: str
    seed: int
    scale: float
    rows: dict[str, int]
    digest: str


class Filler:
    """Writes blocks into an open database, one at a time, and counts."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rows = dict.fromkeys(TABLES, 0)
        self.item_cents = 0

    def insert(self, table: str, rows: Iterable[tuple[object, ...]]) -> None:
        marks = {"customers_v2": 11, "customers": 5, "orders": 10, "order_items": 5}[table]
        sql = f"INSERT INTO {table} VALUES ({', '.join('?' * marks)})"
        self.rows[table] += self.connection.executemany(sql, rows).rowcount

    def write(self, block: Block) -> None:
        self.insert("customers_v2", block.customer_rows())
        self.insert("customers", block.old_customer_rows())
        orders = block.orders()
        first = self.rows["orders"] + 1
        self.insert("orders", (
            (number, o.customer, o.user, o.ref, o.status, o.cents / 100, o.void,
             stamp(o.created), stamp(o.booked), None if o.closed is None else stamp(o.closed))
            for number, o in enumerate(orders, first)))
        self.insert("order_items", self._items(block, orders, first))

    def _items(self, block: Block, orders: list[Order], first: int) -> Iterator[tuple[object, ...]]:
        item = self.rows["order_items"]
        for number, order in enumerate(orders, first):
            for sku, qty, price in block.items(order.cents):
                item += 1
                self.item_cents += qty * price
                yield item, number, sku, qty, price

    def voucher(self, dice: Dice) -> None:
        """Close with one item that leaves 35 to 65 odd cents, so that whole dollars are wrong."""
        price = 1000 + (dice.between(35, 65) - self.item_cents) % 100
        row = (self.rows["order_items"] + 1, self.rows["orders"], VOUCHER, 1, price)
        self.insert("order_items", [row])


def fill(connection: sqlite3.Connection, seed: int = DEFAULT_SEED,
         scale: float = 1.0) -> dict[str, int]:
    """Create and fill the four tables in an empty database; return the rows per table.

    Memory stays at one block whatever the scale. Raises SchemaError for a seed or a scale that
    cannot be used.
    """
    if seed < 0:
        raise SchemaError(f"--seed must be 0 or more, not {seed}")
    if not MIN_SCALE <= scale <= MAX_SCALE:  # NaN too
        raise SchemaError(f"--scale must be a number from {MIN_SCALE:g}, below which the traps do "
                          f"not fit in, to {MAX_SCALE:g}, not {scale:g}")
    dice, filler = Dice(seed), Filler(connection)
    connection.executescript(SCHEMA)
    blocks = max(1, int(scale + 0.5))
    start = 1
    for _ in range(blocks):
        block = Block(dice, scale / blocks, start)
        filler.write(block)
        start = block.after
    filler.voucher(dice)
    connection.commit()
    return filler.rows


def content_digest(connection: sqlite3.Connection) -> str:
    """SHA-256 of the rows as text, in key order (the module's docstring has the exact text)."""
    import hashlib

    digest = hashlib.sha256()
    for table in TABLES:
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1")
        names = ",".join(column[0] for column in cursor.description)
        digest.update(f"{table}({names})\n".encode())
        while rows := cursor.fetchmany(2000):
            digest.update("".join([f"{row!r}\n" for row in rows]).encode())
    return digest.hexdigest()


def check_target(path: str, target: str, force: bool) -> None:
    """Refuse a path that must not or cannot be written, each with what to do about it."""
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise SchemaError(f"the folder {folder} does not exist: create it, or choose another --out")
    if path.endswith(("/", os.sep)) or os.path.exists(target) and not os.path.isfile(target):
        raise SchemaError(f"{path} is not a regular file: choose another --out")
    if os.path.exists(target) and not force:
        raise SchemaError(f"{path} exists already: add --force to replace it, "
                          "or choose another --out")
    if os.path.isfile(target) and os.path.getsize(target):
        with open(target, "rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                raise SchemaError(f"{path} is no database, so --force does not replace it: "
                                  "choose another --out")
    for leftover in (target + "-journal", target + "-wal"):
        # SQLite would play these pages of the old database into the new one and ruin it.
        if os.path.exists(leftover) and os.path.getsize(leftover):
            raise SchemaError(f"{leftover} shows that the old database is in use: "
                              "close what uses it, or remove that file")


def build(path: str | os.PathLike[str] = DEFAULT_PATH, *, seed: int = DEFAULT_SEED,
          scale: float = 1.0, force: bool = False) -> Summary:
    """Write the database to path, where it appears complete or not at all.

    Raises SchemaError, whose text is one line for the user, for everything that can go wrong.
    """
    path = os.fspath(path)
    if not path or "\0" in path:
        raise SchemaError("--out needs the name of a file")
    target = os.path.realpath(path)
    draft = f"{target}.{os.getpid()}-{time.time_ns():x}.tmp"
    try:
        check_target(path, target, force)
        rows, digest = _write(draft, seed, scale)
        os.replace(draft, target)
    except (OSError, sqlite3.Error) as error:
        raise SchemaError(f"cannot write {path}: {error}") from error
    finally:
        if os.path.exists(draft):
            os.remove(draft)
    return Summary(path, seed, scale, rows, digest)


def _write(draft: str, seed: int, scale: float) -> tuple[dict[str, int], str]:
    connection = sqlite3.connect(draft)
    try:
        # A draft that fails is thrown away, so it needs no journal and no waiting for the disk.
        for setting in ("page_size = 4096", "journal_mode = OFF", "synchronous = OFF"):
            connection.execute(f"PRAGMA {setting}")
        rows = fill(connection, seed, scale)
        return rows, content_digest(connection)
    finally:
        connection.close()


# 7 ---------------------------------------------------------------- command line


def build_parser() -> argparse.ArgumentParser:
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise SchemaError(f"{message} (--help lists the options)")

    parser = Parser(
        prog="make_messy_schema.py", allow_abbrev=False,
        description="Build the trap-laden SQLite database that score_nl2sql.py asks questions of.",
        epilog="The same seed and scale give the same content everywhere. "
               "Exit codes: 0 built, 2 wrong usage or cannot build, 130 interrupted.")
    parser.add_argument("--out", metavar="PATH", default=DEFAULT_PATH,
                        help="the file to write (default: %(default)s)")
    parser.add_argument("--seed", metavar="N", type=int, default=DEFAULT_SEED,
                        help="another number, another database (default: %(default)s)")
    parser.add_argument("--scale", metavar="F", type=float, default=1.0,
                        help=f"how many times the default size, {MIN_SCALE:g} to {MAX_SCALE:g} "
                             "(default: %(default)g)")
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    return parser


def render(made: Summary) -> str:
    width = max(len(f"{count:,}") for count in made.rows.values())
    lines = [f"made {made.path} (seed {made.seed}, scale {made.scale:g})"]
    lines += [f"  {table:<12}  {count:>{width},} rows" for table, count in made.rows.items()]
    return "\n".join([*lines, f"content digest: {made.digest}"])


def run(argv: Sequence[str] | None) -> str:
    args = build_parser().parse_args(argv)
    return render(build(args.out, seed=args.seed, scale=args.scale, force=args.force))


def complain(message: str) -> None:
    line = message.replace("\r", "\\r").replace("\n", "\\n")
    print(f"make_messy_schema.py: {line}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a path that the terminal cannot show is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        report = run(argv)
    except SchemaError as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:
        complain("interrupted, nothing written")
        return 130
    try:
        print(report, flush=True)
    except BrokenPipeError:  # the reader went away; the database is made all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
