"""Comparing results, searched: random small cases against an oracle that tries everything.

The oracle knows DESIGN's rules for results and nothing of the program: exact fractions, every
alignment of the columns, every pairing of the rows. Where the rules can be read in two ways it
takes both, and a case on which they differ is left out. NL2SQL_LONG=1 tries ten times as many.
"""

import functools
import itertools
import math
import os
import random
import sys
import time
import unittest
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import score_nl2sql as scorer  # noqa: E402

TIMES = 10 if os.environ.get("NL2SQL_LONG") == "1" else 1
FIRST = int(os.environ.get("NL2SQL_SEED", "0"))  # of the seeds, to go on where others ended
WALL = 60  # seconds; a search that is not cut short takes ages


# -- the oracle


def is_number(cell):
    return isinstance(cell, (int, float))  # bool too


@functools.lru_cache(maxsize=None, typed=True)
def agree(a, b, rule):
    """Whether two cells are the same; a rule is ("", None), ("decimals", 2), ("relative", 0.01)."""
    if not (is_number(a) and is_number(b)):
        return type(a) is type(b) and a == b
    if math.isinf(a) or math.isinf(b):
        return a == b
    kind, size = rule
    if kind == "decimals":
        texts = (repr(int(c) if isinstance(c, int) else c) for c in (a, b))
        x, y = map(Fraction, texts)
        return abs(x - y) <= Fraction(1, 2 * 10**size)
    x, y = Fraction(a), Fraction(b)
    share = Fraction(str(size)) if kind == "relative" else Fraction(1, 10**9)
    if not kind and all(c == int(c) for c in (a, b)) and int in (kind_of(a), kind_of(b)):
        return x == y
    return abs(x - y) <= share * max(abs(x), abs(y))


def kind_of(cell):
    return int if isinstance(cell, bool) else type(cell)


def rows_agree(left, right, rules):
    return all(map(agree, left, right, rules))


def injects(left, right, rules):
    """Whether each left row gets a right row of its own (augmenting, depth first)."""
    owner = {}

    def place(i, seen):
        for j, row in enumerate(right):
            if j not in seen and rows_agree(left[i], row, rules):
                seen.add(j)
                if j not in owner or place(owner[j], seen):
                    owner[j] = i
                    return True
        return False

    return all(place(i, set()) for i in range(len(left)))


def same_bag(left, right, rules):
    return len(left) == len(right) and injects(left, right, rules)


def same_set(left, right, rules):
    return all(
        any(rows_agree(row, other, rules) for other in others)
        for rows, others in ((left, right), (right, left))
        for row in rows
    )


def same_runs(left, right, runs, rules):
    """Whether the rows match run by run, a run being rows that tie."""
    if len(left) != len(right):
        return False
    ends = list(itertools.accumulate(runs))
    return all(same_bag(left[e - n : e], right[e - n : e], rules) for e, n in zip(ends, runs))


def sort_rank(cell):
    """SQLite's order: NULL, numbers, text, blobs."""
    if cell is None:
        return (0, 0)
    return (1, cell) if is_number(cell) else (2 + isinstance(cell, bytes), cell)


class Oracle:
    """Whether a case must pass: `answers()` is {True}, {False}, both where the rules are open."""

    def __init__(self, case):
        self.case, self.contract = case, case.contract
        self.names = [name.lower() for name in case.want_names]
        self.got_names = [name.lower() for name in case.got_names]

    def answers(self):
        sure, maybe = map(dict.fromkeys, self.alignments())
        sorts = "top" in self.contract or self.contract.get("order", "").startswith("by ")
        found = set()
        for ties in ("equal", "near") if sorts else ("equal",):
            if any(self.fits(a, ties) == {True} for a in sure):
                found.add(True)
                continue
            fits = [self.fits(a, ties) for a in {**sure, **maybe}]
            found |= {False, any(True in answers for answers in fits)}
        return found

    # Columns: (kept, picks), as sure ways and as ways that only some reading of the rules allows.

    def alignments(self):
        sure, maybe = [], []
        optional = [self.names.index(name) for name in listed(self.contract.get("optional", ""))]
        width = len(self.got_names)
        for gone in range(len(optional) + 1):
            for left_out in itertools.combinations(optional, gone):
                kept = tuple(i for i in range(len(self.names)) if i not in left_out)
                if len(kept) == width:
                    self.add_ladder(kept, tuple(range(width)), sure, maybe)
                elif len(kept) < width and self.contract.get("extra") == "allow":
                    for picks in itertools.combinations(range(width), len(kept)):
                        self.add_ladder(kept, picks, maybe if optional else sure, maybe)
        return sure, maybe

    def add_ladder(self, kept, picks, sure, maybe):
        """The ladder over the picked columns, in their order."""
        columns = self.contract.get("columns", "auto")
        all_picked = len(picks) == len(self.got_names)
        both_empty = not self.case.want and not self.case.got
        if columns in ("auto", "position"):
            sure.append((kept, picks))
        if columns == "any":
            sure += [(kept, order) for order in itertools.permutations(picks)]
        if columns in ("auto", "names"):
            names = [self.got_names[j] for j in picks]
            if sorted(names) == sorted({self.names[i] for i in kept}):
                place = (kept, tuple(picks[names.index(self.names[i])] for i in kept))
                clear = columns == "names" and len(set(self.got_names)) == len(self.got_names)
                (sure if all_picked or clear else maybe).append(place)
            elif columns == "names" and both_empty:
                maybe.append((kept, picks))
        if columns == "auto" and self.case.want and self.case.got:
            clear = all_picked and "top" not in self.contract
            self.add_by_kind(kept, picks, lambda kind: kind, sure if clear else maybe)
            # Integer and real as one kind: the rules are open.
            self.add_by_kind(kept, picks, lambda kind: "n" if kind in (int, float) else kind, maybe)

    def add_by_kind(self, kept, picks, merged, out):
        """Columns of one kind keep their order."""

        def kinds(rows, i):
            return frozenset(merged(kind_of(row[i])) for row in rows if row[i] is not None)

        left = [kinds(self.case.want, i) for i in kept]
        right = [(kinds(self.case.got, j), j) for j in picks]
        if Counter(left) == Counter(kind for kind, _ in right):
            queues = {kind: [j for other, j in right if other == kind] for kind in left}
            out.append((kept, tuple(queues[kind].pop(0) for kind in left)))

    # Rows under one alignment

    def rule(self, name):
        for suffix in (f".{name}", ""):
            for kind in ("decimals", "relative"):
                if kind + suffix in self.contract:
                    return kind, self.contract[kind + suffix]
        return "", None

    def read(self, cell):
        options = listed(self.contract.get("text", ""))
        if isinstance(cell, str) and "trim" in options:
            cell = cell.strip()
        return cell.lower() if isinstance(cell, str) and "nocase" in options else cell

    def rows(self, rows, picks):
        return [tuple(self.read(row[i]) for i in picks) for row in rows]

    def fits(self, alignment, ties):
        kept, picks = alignment
        rules = [self.rule(self.names[i]) for i in kept]
        got = self.rows(self.case.got, picks)
        if "top" in self.contract:
            return {self.fits_top(kept, got, rules, ties)}
        order = self.contract.get("order", "auto")
        want, runs = self.case.want, self.case.runs
        if order.startswith("by "):
            want, runs = self.sorted_runs(order[3:], ties)
        elif order == "exact":
            runs = [1] * len(want)
        elif order == "ignore":
            runs = None
        want = self.rows(want, kept)
        as_set = self.contract.get("duplicates") == "ignore"
        if runs is None:
            return {(same_set if as_set else same_bag)(want, got, rules)}
        found = {same_runs(want, got, runs, rules)}
        return found | {same_set(want, got, rules)} if as_set else found

    def sorted_runs(self, keys, ties):
        """The reference's rows sorted by the keys, and the lengths of the runs that tie."""
        rows = list(self.case.want)
        keys = [key.split() for key in keys.split(",")]
        for name, *direction in reversed(keys):
            at = self.names.index(name)
            rows.sort(key=lambda row: sort_rank(row[at]), reverse=direction == ["desc"])
        places = [self.names.index(key[0]) for key in keys]
        runs = []
        for before, row in zip([None, *rows], rows):
            tied = before is not None and all(
                sort_rank(before[i]) == sort_rank(row[i])
                if ties == "equal"
                else agree(before[i], row[i], self.rule(self.names[i]))
                for i in places
            )
            if tied:
                runs[-1] += 1
            else:
                runs.append(1)
        return rows, runs

    def fits_top(self, kept, got, rules, ties):
        head, keys = self.contract["top"].split(" by ")
        number = int(head.split()[0])
        rows, runs = self.sorted_runs(keys, ties)
        rows, parts, above = self.rows(rows, kept), [], 0
        for length in runs:
            if above >= number:
                break
            parts.append(rows[above : above + length])
            above += length
        size = above if "ties" in head else min(number, above)
        if len(got) != size:
            return False
        if not self.contract.get("order", "ignore").startswith("by "):
            parts = [sum(parts[:-1], []), *parts[-1:]]
            return self.holds(parts[0], parts[-1], got, rules) if len(parts) > 1 else not got
        at = 0
        for part in parts:
            some = got[at : at + len(part)]
            if len(some) < len(part) and part is not parts[-1] or not injects(some, part, rules):
                return False
            at += len(part)
        return True

    def holds(self, better, tied, got, rules):
        """Whether `got` is all of `better` and some of `tied`: tries each choice of rows."""
        return any(
            same_bag(better, [got[i] for i in chosen], rules)
            and injects([row for i, row in enumerate(got) if i not in chosen], tied, rules)
            for chosen in itertools.combinations(range(len(got)), len(better))
        )


def listed(text):
    return [part.strip() for part in text.split(",") if part.strip()]


# -- cases


class Case:
    def __init__(self, want_names, want, got_names, got, contract, runs=None):
        self.want_names, self.want = list(want_names), list(want)
        self.got_names, self.got = list(got_names), list(got)
        self.contract, self.runs = contract, runs

    def __str__(self):
        lines = [f"contract {self.contract!r}" + (f" runs {self.runs}" if self.runs else "")]
        lines += [f"want {self.want_names} {self.want!r}", f"got  {self.got_names} {self.got!r}"]
        return "\n".join(lines)

    def replaced(self, want=None, got=None):
        want = self.want if want is None else want
        got = self.got if got is None else got
        return Case(self.want_names, want, self.got_names, got, self.contract, self.runs)

    def compare(self, held=True):
        make = scorer.Result.of if held else large
        want, got = make(self.want_names, self.want), make(self.got_names, self.got)
        return scorer.compare(want, got, scorer.read_contract(self.contract), self.runs)


def large(names, rows):
    """A result as one too large to keep: only its digest is at hand, the rows are read again."""
    digest = scorer.take(iter(rows), 10**9)[0]
    return scorer.Result(names, lambda: iter(rows), digest, held=False)


@contextmanager
def limits(chunk, hold, buckets, gather):
    names = ("CHUNK", "HOLD_ROWS", "BUCKETS", "GATHER_CELLS")
    before = [getattr(scorer, name) for name in names]
    try:
        for name, value in zip(names, (chunk, hold, buckets, gather)):
            setattr(scorer, name, value)
        yield
    finally:
        for name, value in zip(names, before):
            setattr(scorer, name, value)


TEXTS = ["1", "2", "1.0", "a", "b", "", "NULL", "nan", "inf", "-1e400", "9" * 350, "\u0663"]
LETTERS = ["a", "A", " a", "a ", "b"]
BLOBS = [b"1", b"a", b"", b"nan", b"\xff"]
BIG = [2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2.0**53, 2.0**53 + 2]
NEAR = [1.0, 1.0000000009, 1.0000000018, 1.0000000027, 0.9999999989]
ODD = [math.inf, -math.inf, 0.0, -0.0, 0, 5e-324, 1e308]
PLAIN = [[0, 1], [0, 1, 2], ["a", "b"], [1, 2, None], ["a", None], [b"a", "a"], [True, 1, 0, False]]


def steps(decimals):
    """Numbers at and next to the bound of so many decimals, from each other."""
    unit = 10 ** (decimals + 2)
    ks = [0, 4, 40, 49, 50, 51, 80, 99, 100, 101, 120, 149, 150, 151, 160, 200, -50]
    return [float(Fraction(k, unit)) for k in ks]


def domain(rng, rule):
    """A few values of one column. Under `relative` no integers: the rules are open there."""
    kind, size = rule
    if kind == "relative":
        step = 1 + size * 0.9
        pool = [[1.5, 1.5 * step, 1.5 * step**2, 1.5 * step**3, -1.5, 0.0], TEXTS, [None, 1.5]]
    elif kind == "decimals":
        near = steps(size)
        pool = [near, near, [*near, 0, 1], [*rng.sample(near, 3), True], [*near[:4], None], BIG]
    else:
        pool = [NEAR, [*NEAR, 1], BIG, ODD, TEXTS, BLOBS, *PLAIN]
        pool.append([*NEAR, *BIG, *ODD, *TEXTS, *BLOBS, None, True, 2, 2.5])
    values = rng.choice(pool)
    return rng.sample(values, min(len(values), rng.randint(1, 4)))


def mutated(rng, rows, domains):
    """The rows with one defect or none."""
    rows, width = [list(row) for row in rows], len(domains)
    defect = rng.choice(["", "", "cell", "cell", "swap", "swap", "cross", "drop", "copy", "twist"])
    if not rows or not defect:
        return [tuple(row) for row in rows]
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    k, m = rng.randrange(width), rng.randrange(width)
    if defect == "cell":
        rows[i][k] = rng.choice(domains[rng.choice([k, k, m])])
    elif defect == "swap":
        rows[i][k], rows[j][k] = rows[j][k], rows[i][k]
    elif defect == "cross":
        rows[i][k], rows[j][m] = rows[j][m], rows[i][k]
    elif defect == "drop":
        del rows[i]
    elif defect == "copy":
        rows[i] = list(rows[j])
    else:
        rows[i][k], rows[i][m] = rows[i][m], rows[i][k]
    return [tuple(row) for row in rows]


def blurred(rng, rows, domains, rules, share=0.5):
    """The rows with cells moved within their tolerance, and back out of it now and then."""

    def blur(cell, values, rule):
        if rng.random() > share:
            return cell
        near = [v for v in values if agree(cell, v, rule)]
        return rng.choice(near) if near else cell

    return [tuple(map(blur, row, domains, rules)) for row in rows]


def tolerance(rng):
    pick = rng.random()
    if pick < 0.4:
        return {}
    if pick < 0.5:
        return {"relative": rng.choice([0.01, 0.1])}
    if pick < 0.6:
        return {"decimals": rng.randint(0, 3), "decimals.a": rng.randint(0, 3)}
    return {"decimals": rng.randint(0, 3)}


def table(rng, contract, rows=6, columns=4):
    """Names, rows and domains of a reference."""
    width = rng.randint(1, columns)
    names = [chr(ord("a") + i) for i in range(width)]
    rules = [Oracle(Case(names, [], names, [], contract)).rule(name) for name in names]
    domains = [domain(rng, rule) for rule in rules]
    for i in range(1, width):
        if rng.random() < 0.35:
            domains[i] = domains[i - 1]
    count = rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 5, rows])
    rows = [tuple(map(rng.choice, domains)) for _ in range(count)]
    if rows and rng.random() < 0.4:
        rows += rng.choices(rows, k=rng.randint(1, 2))
    if width > 1 and rng.random() < 0.15:
        rows = [(*row[:-1], row[0]) for row in rows]
    return names, rows, domains, rules


def moved_columns(rng, names, rows, share=0.5):
    """The columns in another order, sometimes under other names."""
    order = list(range(len(names)))
    if rng.random() < share:
        rng.shuffle(order)
    rows = [tuple(row[i] for i in order) for row in rows]
    kind = rng.choice(["along", "along", "upper", "stay", "other", "one", "same"])
    moved = [names[i] for i in order]
    if kind == "upper":
        moved = [name.upper() for name in moved]
    elif kind == "stay":
        moved = list(names)
    elif kind == "other":
        moved = [f"x{i}" for i in order]
    elif kind == "one":
        moved[0] = "other"
    elif kind == "same":
        moved = ["a"] * len(moved)
    return moved, rows


def shuffled(rng, rows):
    return rng.sample(rows, len(rows))


def bag_case(rng):
    """Rows in any order, columns in place."""
    contract = {"order": "ignore", "columns": rng.choice(["position", "auto"]), **tolerance(rng)}
    names, want, domains, rules = table(rng, contract, 8)
    got = mutated(rng, blurred(rng, want, domains, rules), domains)
    return Case(names, want, names, shuffled(rng, got), contract)


def column_case(rng, columns=("auto", "auto", "names", "position")):
    contract = {"order": "ignore", "columns": rng.choice(columns), **tolerance(rng)}
    names, want, domains, rules = table(rng, contract, 5)
    got = mutated(rng, blurred(rng, want, domains, rules, 0.2), domains)
    got_names, got = moved_columns(rng, names, shuffled(rng, got), 0.8)
    return Case(names, want, got_names, got, contract)


def any_case(rng):
    contract = {"order": "ignore", "columns": "any", **tolerance(rng)}
    names, want, domains, rules = table(rng, contract, 5, 5)
    if rng.random() < 0.6:  # one domain for all columns: they look alike
        domains = [domains[0]] * len(names)
        want = [tuple(map(rng.choice, domains)) for _ in want]
    got = mutated(rng, blurred(rng, want, domains, rules), domains)
    got_names, got = moved_columns(rng, names, shuffled(rng, got), 0.9)
    return Case(names, want, got_names, got, contract)


def optional_case(rng):
    case = column_case(rng, ("auto", "names", "position", "any"))
    width = len(case.want_names)
    optional = rng.sample(case.want_names, rng.randint(1, min(2, width)))
    case.contract["optional"] = ", ".join(optional)
    gone = rng.sample(range(width), rng.randint(0, min(2, width - 1)))
    if rng.random() < 0.6:
        lower = [name.lower() for name in case.got_names]
        gone = [lower.index(name) for name in optional if name in lower][: width - 1]
    keep = [i for i in range(width) if i not in gone]
    case.got_names = [case.got_names[i] for i in keep]
    case.got = [tuple(row[i] for i in keep) for row in case.got]
    return case


def extra_case(rng):
    case = column_case(rng, ("auto", "names", "position", "any"))
    case.contract["extra"] = "allow"
    if rng.random() < 0.3:
        case.contract["duplicates"] = "ignore"
        case.got += rng.choices(case.got, k=2) if case.got else []
    if rng.random() < 0.2:
        add_text(rng, case)
    for n in range(rng.randint(0, 2)):
        at = rng.randint(0, len(case.got_names))
        case.got_names.insert(at, rng.choice(["more", f"more{n}", "b"]))
        values = rng.choice([[0, 1], ["a", "b"], [None], NEAR, [1], ["a", None]])
        copied = rng.random() < 0.3 and len(case.want_names)
        case.got = [
            (*row[:at], row[0] if copied else rng.choice(values), *row[at:]) for row in case.got
        ]
    return case


def add_text(rng, case):
    """Some column of letters that differ in case and space, under a rule that makes them equal."""
    case.contract["text"] = rng.choice(["nocase", "trim", "nocase, trim"])
    case.want_names.append("t")
    case.got_names.append("t")
    texts = [rng.choice(LETTERS) for _ in case.want]
    read = Oracle(case).read
    others = [[t for t in LETTERS if read(t) == read(text)] for text in texts]
    case.want = [(*row, text) for row, text in zip(case.want, texts)]
    others = others or [LETTERS] * len(case.got)
    case.got = [(*row, rng.choice(other)) for row, other in zip(case.got, others)]


def text_case(rng):
    case = bag_case(rng)
    case.got = case.got[: len(case.want)]
    add_text(rng, case)
    case.got = shuffled(rng, case.got)
    if rng.random() < 0.3:
        case.contract["duplicates"] = "ignore"
    return case


def set_case(rng):
    case = rng.choice([bag_case, column_case, any_case])(rng)
    case.contract["duplicates"] = "ignore"
    if case.got and rng.random() < 0.7:
        case.got += rng.choices(case.got, k=rng.randint(1, 3))
    if case.want and rng.random() < 0.3:
        case.want += rng.choices(case.want, k=rng.randint(1, 2))
    case.got = shuffled(rng, case.got)
    return case


def order_case(rng):
    """Keys, exact or runs, with ties; rows of a run swapped, or one across its end."""
    contract = tolerance(rng)
    contract["columns"] = rng.choice(["auto", "position", "names", "any"])
    names, want, domains, rules = table(rng, contract, 7)
    form = rng.choice(["by", "by", "exact", "runs"])
    runs = None
    case = Case(names, want, names, [], contract)
    if form == "by":
        count = 1 if len(contract) > 1 or rng.random() < 0.6 else min(2, len(names))
        keys = [n + rng.choice(["", " desc"]) for n in rng.sample(names, count)]
        contract["order"] = "by " + ", ".join(keys)
        want, lengths = Oracle(case).sorted_runs(", ".join(keys), rng.choice(["equal", "near"]))
    elif form == "exact":
        contract["order"] = "exact"
        lengths = [1] * len(want)
    else:
        ends = sorted({*rng.choices(range(1, len(want) + 1), k=2), len(want)}) if want else []
        runs = lengths = [b - a for a, b in zip([0, *ends], ends)]
    got, at = [], 0
    for length in lengths:
        got += shuffled(rng, want[at : at + length])
        at += length
    got = blurred(rng, got, domains, rules, 0.3)
    if rng.random() < 0.5:
        got = mutated(rng, got, domains)
    elif len(got) > 1 and rng.random() < 0.6:
        i, j = rng.sample(range(len(got)), 2)
        got[i], got[j] = got[j], got[i]
    if rng.random() < 0.1:
        contract["duplicates"] = "ignore"
    got_names, got = moved_columns(rng, names, got, 0.3)
    return Case(names, want, got_names, got, contract, runs)


def top_case(rng):
    contract = tolerance(rng)
    contract["columns"] = rng.choice(["auto", "position", "names", "any"])
    names, want, domains, rules = table(rng, contract, 7)
    want = shuffled(rng, want)
    ties = rng.choice(["", "", " with ties"])
    count = 1 if len(contract) > 1 or rng.random() < 0.6 else min(2, len(names))
    keys = ", ".join(n + rng.choice(["", " desc"]) for n in rng.sample(names, count))
    number = rng.randint(1, 4)
    contract["top"] = f"{number}{ties} by {keys}"
    if rng.random() < 0.3:
        contract["order"] = rng.choice([f"by {keys}", "ignore"])
    case = Case(names, want, names, [], contract)
    rows, runs = Oracle(case).sorted_runs(keys, "equal")
    got, at = [], 0
    for length in runs:
        got += shuffled(rng, rows[at : at + length])
        at += length
        if at >= number:
            break
    got = got if ties else got[:number]
    got = blurred(rng, got, domains, rules, 0.3)
    got = mutated(rng, got, domains) if rng.random() < 0.6 else got
    if rng.random() < 0.2 and want:
        got.append(rng.choice(want))
    if "order" not in contract and rng.random() < 0.5:
        got = shuffled(rng, got)
    got_names, got = moved_columns(rng, names, got, 0.3)
    return Case(names, want, got_names, got, contract)


def long_case(rng):
    """More rows, nearly the same on both sides, mostly in step."""
    contract = {"order": "ignore", "columns": rng.choice(["auto", "auto", "position", "names"])}
    contract.update(tolerance(rng))
    if rng.random() < 0.15:
        contract["duplicates"] = "ignore"
    names, _, domains, rules = table(rng, contract, columns=3)
    want = [tuple(map(rng.choice, domains)) for _ in range(rng.randint(6, 24))]
    alike = rng.random() < 0.3  # columns that differ in few rows, so that their order hardly shows
    if alike:
        same = rng.choice(domains[0])
        want = [(same,) * len(names) if rng.random() < 0.85 else row for row in want]
    got = blurred(rng, want, domains, rules, rng.choice([0, 0.1, 0.4]))
    for _ in range(rng.randint(0, 2)):
        got = mutated(rng, got, domains)
    if rng.random() < 0.3:
        got = shuffled(rng, got)
    elif got and rng.random() < 0.3:
        got = got[1:] + got[:1]  # out of step
    got_names, got = moved_columns(rng, names, got, 0.8 if alike else 0.3)
    return Case(names, want, got_names, got, contract)


# -- tests


def outcome(compare):
    """PASS, FAIL or what it raised; with the comparison."""
    try:
        comparison = compare()
    except Exception as error:  # whatever it is, it is no verdict
        return f"raised {type(error).__name__}: {error}", None
    return scorer.VERDICTS[comparison.reason], Seen(comparison)


class Seen:
    """A comparison that shows itself in few words."""

    def __init__(self, comparison):
        self.reason, self.note = comparison.reason, comparison.note
        self.counts = comparison.missing_count, comparison.unexpected_count

    def __str__(self):
        return f"({self.reason}; {self.note}; missing and unexpected {self.counts})"


def shrunk(case, wrong):
    """The case with as few rows as still show it; runs stand in the way of that."""
    smaller, until = case.runs is None, time.monotonic() + 0.2
    while smaller:
        smaller = False
        for i, j in itertools.product(range(-1, len(case.want)), range(-1, len(case.got))):
            if (i, j) != (-1, -1) and time.monotonic() < until:
                want = [row for n, row in enumerate(case.want) if n != i]
                got = [row for n, row in enumerate(case.got) if n != j]
                less = case.replaced(want, got)
                if wrong(less):
                    case, smaller = less, True
                    break
    return case


def against_oracle(case):
    """What is wrong with the verdict, "" for nothing, None where the rules are open."""
    answers = Oracle(case).answers()
    if len(answers) > 1:
        return None
    wanted = "PASS" if answers == {True} else "FAIL"
    verdict, comparison = outcome(case.compare)
    # A search that was cut short may fail, and says so; none of these cases is large enough.
    return "" if verdict == wanted else f"oracle {wanted}, result {verdict} {comparison}"


class Searched(unittest.TestCase):
    def search(self, make, seeds, check, shown=4):
        """Checks a case per seed; the first of each sort that is wrong makes the message."""
        found, wrong = Counter(), {}
        for seed in range(FIRST, FIRST + seeds * TIMES):
            case = make(random.Random(seed))
            problem = check(case)
            found["open" if problem is None else bool(problem)] += 1
            sort = case.contract.get("columns"), (problem or "")[:40]
            if problem and len(wrong) < shown and sort not in wrong:
                small = shrunk(case, lambda less, head=sort[1]: (check(less) or "")[:40] == head)
                wrong[sort] = f"seed {seed} of {make.__name__}\n{small}\n{check(small)}"
        if wrong:
            heads = f"{found[True]} of {sum(found.values())} wrong"
            self.fail("\n\n".join([heads, *wrong.values()]))
        self.assertLess(found["open"], 0.5 * sum(found.values()), "hardly a case is decided")


class AgainstTheOracle(Searched):
    def test_kept(self):
        for case in KEPT:
            with self.subTest(f"\n{case}"):
                self.assertIn(against_oracle(case), ("", None))

    def test_rows(self):
        self.search(bag_case, 300, against_oracle)

    def test_columns(self):
        self.search(column_case, 300, against_oracle)

    def test_any_columns(self):
        self.search(any_case, 120, against_oracle)

    def test_optional(self):
        self.search(optional_case, 250, against_oracle)

    def test_extra(self):
        self.search(extra_case, 90, against_oracle)

    def test_text(self):
        self.search(text_case, 150, against_oracle)

    def test_duplicates(self):
        self.search(set_case, 200, against_oracle)

    def test_order(self):
        self.search(order_case, 200, against_oracle)

    def test_top(self):
        self.search(top_case, 200, against_oracle)

    def test_both_verdicts_occur(self):
        makers = (bag_case, column_case, any_case, optional_case, extra_case, text_case)
        for make in (*makers, set_case, order_case, top_case, long_case):
            answers = Counter()
            for seed in range(40):
                answers.update(Oracle(make(random.Random(seed))).answers())
            self.assertGreater(min(answers[True], answers[False]), 5, make.__name__)


# Small cases that once went wrong, or that chance hardly finds: want, got, contract, runs.
X, XY, SWAP, HUGE = ["a"], ["a", "b"], ["b", "a"], "9" * 400
KEPT = [
    Case(X, [(1,)], X, [("nan",)], {}),
    Case(X, [(0.5,)], X, [(HUGE,)], {}),
    Case(X, [(0.5,)], X, [("nan",)], {"decimals": 2}),
    Case(X, [(1.5,)], X, [(True,)], {"decimals": 0}),
    Case(X, [(1,)], X, [(True,)], {"decimals": 0}),
    Case(XY, [(0.0, 0.004)], XY, [(0.008, 0.0)], {"columns": "any", "decimals": 2}),
    Case(XY, [(2**53, 2**53 + 1)], XY, [(2**53 + 1, 2**53)], {"columns": "any"}),
    Case(X, [(2,)], X, [(2,), (2,)], {"columns": "any", "duplicates": "ignore"}),
    Case(X, [(1,), (0,)], X, [(1,)], {"columns": "any", "top": "1 by a desc"}),
    Case(X, [], X, [], {"columns": "any", "order": "exact"}),
    Case(X, [], X, [], {"columns": "any", "top": "1 by a"}),
    Case(XY, [], X, [], {"columns": "any", "optional": "b"}),
    Case(X, [(1,)], ["x", "y"], [(1, 2)], {"columns": "names", "extra": "allow"}),
    Case(X, [("a",)], ["x", "y"], [("A", 2)], {"text": "nocase", "extra": "allow"}),
    Case(X, [("a",)], XY, [("a", 1), ("a", 2)], {"duplicates": "ignore", "extra": "allow"}),
    Case(X, [("a",), ("b",)], XY, [("a", 1)], {"top": "1 by a", "extra": "allow"}),
    Case(XY, [(1, "x"), (1, "y")], XY, [(1, "y"), (1, "x")],
         {"order": "by a", "duplicates": "ignore"}),
    Case(XY, [(1, "x"), (1, "y")], XY, [(1, "y"), (1, "x")], {"duplicates": "ignore"}, [2]),
    Case(X, [(0.0,), (0.0,)], X, [(0.04,), (0.0,)],
         {"order": "exact", "duplicates": "ignore", "decimals": 1}),
    Case(XY, [(1, 1)] * 8 + [(1, 2)], SWAP, [(1, 1)] * 8 + [(2, 1)], {}),
    Case(XY, [(1, 1)] * 8 + [("a", 2)], ["x", "y"], [(1, 1)] * 8 + [(2, "a")], {}),
    Case(["a", "b", "c"], [("a", n, "a") for n in (1.0, 1.0000000009, 1.0000000009, 1.0)],
         ["x", "y", "z"], [("a", "a", n) for n in (1.0, 1.0000000009, 1.0000000009, 1.0000000009)],
         {}),
    Case(X, [("a",)] * 3, X, [("a",)] * 2 + [("b",)], {"duplicates": "ignore"}),
    Case(XY, [(1.0, 5.0), (1.004, 3.0)], XY, [(1.001, 3.001), (1.003, 5.001)], {"decimals": 2}),
]  # fmt: skip


class TooLargeToKeep(Searched):
    """What was read again must give the verdict that the rows in memory give."""

    SMALL = ((2, 4, 3, 10**6), (3, 100, 7, 10**6), (1, 2, 61, 10**6), (4, 0, 1, 10**6))

    def same_as_held(self, case, sizes):
        verdict, held = outcome(case.compare)
        with limits(*sizes):
            again, read = outcome(lambda: case.compare(held=False))
        wrong = f"in memory {verdict} {held}\nread again {again} {read} at {sizes}"
        if again != verdict:
            cut_short = again == "FAIL" and read.note
            return None if cut_short and sizes[3] < 10**6 else wrong
        if held is None or held.reason != read.reason or "only some" in read.note:
            return ""
        cells = (cell for row in case.want + case.got for cell in row)
        loose = any(isinstance(cell, float) for cell in cells) or any(
            key.startswith(("decimals", "relative")) for key in case.contract
        )  # which rows are taken for pairs is not laid down
        return "" if loose or held.counts == read.counts else f"other counts: {wrong}"

    def check(self, case):
        problems = [self.same_as_held(case, sizes) for sizes in self.SMALL]
        return next(filter(None, problems), "")

    def test_kept(self):
        for case in KEPT:
            for sizes in (*self.SMALL, (2, 4, 5, 6)):
                with self.subTest(f"\n{case}", sizes=sizes):
                    self.assertIn(self.same_as_held(case, sizes), ("", None))

    def test_long(self):
        self.search(long_case, 80, self.check)

    def test_short(self):
        makers = (bag_case, column_case, any_case, optional_case, extra_case, text_case)
        for make in (*makers, set_case, order_case, top_case):
            with self.subTest(make.__name__):
                self.search(make, 12, self.check, shown=2)

    def test_cut_short(self):
        """Hardly any row may be gathered: FAIL where the rows match is said to be cut short."""
        self.search(long_case, 150, lambda case: self.same_as_held(case, (2, 4, 5, 6)) or "")

    def test_against_oracle(self):
        def check(case):
            answers = Oracle(case).answers()
            with limits(2, 6, 5, 10**6):
                verdict, comparison = outcome(lambda: case.compare(held=False))
            if len(answers) > 1 or verdict == ("PASS" if answers == {True} else "FAIL"):
                return ""
            return f"oracle {answers}, read again {verdict} {comparison}"

        self.search(long_case, 70, check)


class Laws(Searched):
    def test_symmetry(self):
        def make(rng):
            return rng.choice([bag_case, column_case, any_case, text_case, set_case])(rng)

        def check(case):
            if any("." in key for key in case.contract):
                return ""
            back = Case(case.got_names, case.got, case.want_names, case.want, case.contract)
            there, other = outcome(case.compare), outcome(back.compare)
            return "" if there[0] == other[0] else f"one way {there}\nthe other {other}"

        self.search(make, 300, check)

    def test_a_row_on_both_sides(self):
        def check(case):
            case.contract["columns"] = "position"
            verdict, _ = outcome(case.compare)
            rng = random.Random(str(case))
            for row in rng.sample(case.want + case.got, min(3, len(case.want))):
                more = case.replaced([*case.want, row], [row, *case.got])
                again, comparison = outcome(more.compare)
                if verdict == "PASS" != again:
                    return f"matched, and with {row!r} on both sides {again} {comparison}"
            return ""

        self.search(bag_case, 150, check)
        self.search(set_case, 150, check)

    def test_order_of_rows(self):
        def make(rng):
            return rng.choice([bag_case, any_case, set_case, extra_case, long_case, text_case])(rng)

        def check(case):
            rng = random.Random(str(case))
            other = case.replaced(shuffled(rng, case.want), shuffled(rng, case.got))
            verdicts = outcome(case.compare)[0], outcome(other.compare)[0]
            return "" if verdicts[0] == verdicts[1] else f"{verdicts} after shuffling to\n{other}"

        self.search(make, 250, check)

    def test_strict(self):
        """Without floats and under the strict contract: PASS exactly where the multisets equal."""

        def make(rng):
            case = bag_case(rng)
            case.contract = {"order": "ignore", "columns": "position"}
            exact = lambda cell: int(cell) if isinstance(cell, float) else cell  # noqa: E731
            for rows in (case.want, case.got):
                rows[:] = [
                    tuple(exact(c) if c not in (math.inf, -math.inf) else 7 for c in r)
                    for r in rows
                ]
            return case

        def check(case):
            def tagged(rows):
                return Counter(tuple((kind_of(c).__name__, c) for c in row) for row in rows)

            wanted = "PASS" if tagged(case.want) == tagged(case.got) else "FAIL"
            for held in (True, False):
                verdict, comparison = outcome(functools.partial(case.compare, held))
                if verdict != wanted:
                    return f"must be {wanted}: {verdict} {comparison}"
            return ""

        self.search(make, 300, check)


class TwentySixColumns(unittest.TestCase):
    WIDTH = 26

    def tables(self):
        """(name, rows): columns that are hard to tell apart."""
        rng, width = random.Random(26), range(self.WIDTH)
        yield "distinct", [tuple(rng.random() for _ in width) for _ in range(5)]
        yield "flags", [tuple(rng.randint(0, 1) for _ in width) for _ in range(40)]
        yield "all equal", [(1,) * self.WIDTH] * 3
        yield "one value apart", [tuple(int(i == j) for i in width) for j in width]
        yield "ring", [tuple(int((i - j) % 26 in (0, 1)) for i in width) for j in width]
        yield "squares", [self.latin(j) for j in width]
        yield "lines", [self.lines(i) for i in range(25)]
        near = [0.0, 0.004, 0.008, 0.012]
        yield "near", [tuple(rng.choice(near) for _ in width) for _ in range(12)]

    def latin(self, j):
        return tuple((3 * i * i + 5 * j * j) % 13 for i in range(self.WIDTH))

    def lines(self, i):
        """A row of a strongly regular graph: 25 points of a torus, lines in three directions."""
        a, b = divmod(i, 5)
        places = (divmod(j, 5) for j in range(25))
        return (*(int(a == c or b == d or (a + b - c - d) % 5 == 0) for c, d in places), 2)

    def timed(self, case):
        begun = time.monotonic()
        comparison = case.compare()
        self.assertLess(time.monotonic() - begun, WALL)
        return comparison

    def test_permuted(self):
        for name, want in self.tables():
            for contract in ({"columns": "any"}, {"columns": "any", "decimals": 2}, {}):
                with self.subTest(name, contract=contract):
                    rng = random.Random(name)
                    order = rng.sample(range(self.WIDTH), self.WIDTH)
                    got = [tuple(row[i] for i in order) for row in shuffled(rng, want)]
                    names = [f"c{i}" for i in range(self.WIDTH)]
                    moved = [names[i] for i in order] if not contract else names
                    rules = {"order": "ignore", **contract}
                    comparison = self.timed(Case(names, want, moved, got, rules))
                    if not comparison.matched:
                        self.assertTrue(comparison.note, "failed, and not said to be cut short")

    def test_spoilt(self):
        """A sum that no permutation keeps: never PASS, and in bounded time."""
        for name, want in self.tables():
            for contract in ({"columns": "any"}, {"columns": "any", "decimals": 2}, {}):
                with self.subTest(name, contract=contract):
                    rng = random.Random(name)
                    order = rng.sample(range(self.WIDTH), self.WIDTH)
                    got = [tuple(row[i] for i in order) for row in want]
                    got[0] = (got[0][0] + 100, *got[0][1:])
                    names = [f"c{i}" for i in range(self.WIDTH)]
                    rules = {"order": "ignore", **contract}
                    self.assertFalse(self.timed(Case(names, want, names, got, rules)).matched)

    def test_rings(self):
        """One ring against two of half the size: every count agrees, no permutation does."""
        width = range(self.WIDTH)
        one = [tuple(int((i - j) % 26 in (0, 1)) for i in width) for j in width]
        two = [
            tuple(int(i // 13 == j // 13 and (i - j) % 13 in (0, 1)) for i in width) for j in width
        ]
        names = [f"c{i}" for i in width]
        case = Case(names, one, names, two, {"order": "ignore", "columns": "any"})
        self.assertFalse(self.timed(case).matched)

    def test_extra(self):
        """26 columns of which any 13 may be dropped: ended early and said so, or found."""
        for columns in ("auto", "any", "position"):
            for same in (False, True):
                with self.subTest(columns, same=same):
                    rng = random.Random(7)
                    got = [tuple(rng.randint(0, 1) for _ in range(26)) for _ in range(9)]
                    want = [row[1::2] for row in got]
                    if not same:
                        want[0] = (9, *want[0][1:])
                    names = [f"c{i}" for i in range(26)]
                    other = [f"x{i}" for i in range(13)]
                    rules = {"order": "ignore", "columns": columns, "extra": "allow"}
                    comparison = self.timed(Case(other, want, names, got, rules))
                    self.assertFalse(comparison.matched and not same)
                    self.assertTrue(comparison.matched or comparison.note or not same)


if __name__ == "__main__":
    unittest.main()
