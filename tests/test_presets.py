"""The presets `spider` and `bird` against oracles of the official rules, written independently.

The rules, as the official evaluators have them:

bird    set(candidate rows) == set(reference rows): places of columns count, names do not, order and
        repetition of rows do not, two results without rows match whatever their width.
spider  two results without rows match whatever their width; else equally many rows and columns, and
        ONE permutation of the candidate's columns makes the rows equal: as the same list where
        order matters, as a multiset where it does not. Order matters exactly where the reference's
        text in lower case holds `order by`, wherever it stands.

Cells are equal where Python says so: 13 == 13.0, nothing is rounded, NULL equals NULL, text is
never a number. The program differs from the evaluators where it says so: SQL runs as it is written
(no DISTINCT is taken out), 13 equals 13.0 in every place, and wide results never hang.
"""

import itertools
import json
import os
import random
import sqlite3
import sys
import tempfile
import unittest
from collections import Counter

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)
import score_nl2sql as scorer  # noqa: E402

INF = float("inf")
SUM = 0.1 + 0.2  # 0.30000000000000004
BIG = 2**53  # from here on not every integer is a float
SETTINGS = scorer.Settings(variants=0)  # the evaluators look at the data alone


# ---- the oracles


def bird_oracle(want, got):
    return set(want) == set(got)


def spider_oracle(want, got, ordered):
    """By the definition, with columns left out early that cannot stand for one another."""
    if not want and not got:
        return True
    if len(want) != len(got) or len(want[0]) != len(got[0]):
        return False
    look = tuple if ordered else Counter
    looks = [look(column) for column in zip(*got)]
    possible = [[j for j, other in enumerate(looks) if other == look(c)] for c in zip(*want)]
    wanted = want if ordered else Counter(want)
    for picks in itertools.product(*possible):
        if len(set(picks)) == len(picks):
            rows = [tuple(row[j] for j in picks) for row in got]
            if (rows if ordered else Counter(rows)) == wanted:
                return True
    return False


def oracle(rules, want, got):
    if rules == "bird":
        return bird_oracle(want, got)
    return spider_oracle(want, got, ordered=rules == "spider in order")


def spider_literally(want, got, ordered):
    """The same once more with every permutation and without counting: only to test the oracle."""
    if len(want) + len(got) == 0:
        return True
    if len(want) != len(got) or len(want[0]) != len(got[0]):
        return False
    for picks in itertools.permutations(range(len(want[0]))):
        rows = [tuple(row[j] for j in picks) for row in got]
        if ordered:
            same = all(a == b for a, b in zip(want, rows))
        else:
            for row in want:
                if row in rows:
                    rows.remove(row)
            same = not rows
        if same:
            return True
    return False


# ---- the program


PRESETS = ("spider", "bird")


def contract_of(preset, ordered=False):
    contract = scorer.read_contract({"preset": preset})
    if preset == "spider":
        return contract._replace(order="exact" if ordered else "ignore")
    return contract


def result_of(table):
    """A result from rows, or from (names, rows); without rows the names say the width."""
    names, rows = table if isinstance(table, tuple) else (None, table)
    if names is None:
        names = [chr(ord("a") + i % 26) * (1 + i // 26) for i in range(len(rows[0]) if rows else 1)]
    return scorer.Result.of(names, rows)


def rows_of(table):
    return table[1] if isinstance(table, tuple) else table


def program(contract, want, got):
    """The program's verdict, or the exception where it has none."""
    try:
        return scorer.compare(result_of(want), result_of(got), contract).matched
    except Exception as error:  # no pair of results may raise
        return f"raised {error!r}"


# ---- a table of traps: name, reference, candidate, order matters, spider, bird

TRAPS = [
    # rows and their number
    ("the same", [(1, "a"), (2, "b")], [(1, "a"), (2, "b")], True, True, True),
    ("a row missing", [(1,), (2,)], [(1,)], False, False, False),
    ("a row too many", [(1,)], [(1,), (2,)], False, False, False),
    ("one row twice: only bird forgives", [(1,), (2,)], [(1,), (2,), (2,)], False, False, True),
    ("the reference has it twice", [(1,), (1,), (2,)], [(1,), (2,)], False, False, True),
    ("as many rows, another one twice", [(1,), (1,), (2,)], [(1,), (2,), (2,)], False, False, True),
    ("as many rows in order, another one twice", [(1,), (1,), (2,)], [(1,), (2,), (2,)], True, False, True),
    ("duplicates on both sides", [(1,), (1,), (2,)], [(2,), (1,), (1,)], False, True, True),
    # order
    ("order is free", [(1,), (2,), (3,)], [(3,), (1,), (2,)], False, True, True),
    ("order matters to spider only", [(1,), (2,), (3,)], [(3,), (1,), (2,)], True, False, True),
    ("rows that tie on a key may not swap", [(1, "a"), (1, "b")], [(1, "b"), (1, "a")], True, False, True),
    ("order undone by the columns", [(1, 0), (0, 1)], [(0, 1), (1, 0)], True, True, True),
    ("equal rows hide a swap", [(1,), (1,)], [(1,), (1,)], True, True, True),
    # columns
    ("two columns in another order", [(1, "a"), (2, "b")], [("a", 1), ("b", 2)], False, True, False),
    ("two columns in another order, rows in order", [(1, "a"), (2, "b")], [("a", 1), ("b", 2)], True, True, False),
    ("a rotation, no mere swap", [(1, 2, 3), (4, 5, 6)], [(2, 3, 1), (5, 6, 4)], False, True, False),
    ("swapped cells in one row", [(1, 2), (3, 4)], [(1, 2), (4, 3)], False, False, False),
    ("swapped cells in every row", [(1, 2), (3, 4)], [(2, 1), (4, 3)], False, True, False),
    ("the rows mirror each other", [(1, 2), (2, 1)], [(2, 1), (1, 2)], False, True, True),
    ("columns right, rows recombined", [(1, 1), (2, 2)], [(1, 2), (2, 1)], False, False, False),
    ("rows right one by one, no one permutation", [(1, 2, 3), (1, 2, 4)], [(2, 1, 3), (1, 2, 4)], False, False, False),
    ("columns alike until seen together", [(0, 1, 2), (1, 0, 3)], [(1, 0, 2), (0, 1, 3)], False, True, False),
    ("a column too many", [(1,), (2,)], [(1, 1), (2, 2)], False, False, False),
    ("a column missing", [(1, 1), (2, 2)], [(1,), (2,)], False, False, False),
    ("one column twice, the other never", [(1, 2), (2, 1)], [(1, 1), (2, 2)], False, False, False),
    ("the right names in another order", (["x", "y"], [(1, 2)]), (["y", "x"], [(2, 1)]), False, True, False),
    ("the names swapped, the cells not", (["x", "y"], [(1, 2)]), (["y", "x"], [(1, 2)]), False, True, True),
    ("other names", (["x", "y"], [(1, 2)]), (["count(*)", ""], [(1, 2)]), False, True, True),
    ("one name for two columns", (["x", "x"], [(1, 2)]), (["x", "x"], [(1, 2)]), False, True, True),
    ("a text before a number", (["x", "y"], [(1, "a")]), (["p", "q"], [("a", 1)]), False, True, False),
    # no rows
    ("no rows", (["x"], []), (["x"], []), False, True, True),
    ("no rows of other widths", (["x"], []), (["x", "y", "z"], []), False, True, True),
    ("no rows of other widths in order", (["x", "y"], []), (["z"], []), True, True, True),
    ("no rows against one of NULLs", (["x"], []), (["x"], [(None,)]), False, False, False),
    ("one of NULLs against none", (["x"], [(None,)]), (["x"], []), True, False, False),
    ("no rows and no columns", ([], []), (["x"], []), False, True, True),
    # NULL
    ("NULL is NULL", [(None, 1)], [(None, 1)], False, True, True),
    ("NULL is no 0", [(None,)], [(0,)], False, False, False),
    ("NULL is no empty text", [(None,)], [("",)], False, False, False),
    ("one NULL is not two", [(None, None)], [(None,)], False, False, False),
    ("NULLs last or first", [(None,), (1,)], [(1,), (None,)], True, False, True),
    # numbers
    ("13 is 13.0", [(13,)], [(13.0,)], False, True, True),
    ("13 is 13.0 in another place", [(13, "130"), (2, "5")], [("130", 13.0), ("5", 2.0)], False, True, False),
    ("13 and 13.0 are duplicates", [(13,), (13.0,)], [(13.0,)], False, False, True),
    ("0.1 + 0.2 is not 0.3", [(SUM,)], [(0.3,)], False, False, False),
    ("the last digit of a sum", [(1e15 + 0.125,)], [(1e15 + 0.25,)], True, False, False),
    ("a small difference is one", [(1e300,)], [(1.0000000000000002e300,)], False, False, False),
    ("the least number is not 0", [(5e-324,)], [(0,)], False, False, False),
    ("0 is -0.0", [(0,)], [(-0.0,)], False, True, True),
    ("2^53 is its float", [(BIG,)], [(float(BIG),)], False, True, True),
    ("2^53 + 1 is not", [(BIG + 1,)], [(float(BIG),)], False, False, False),
    ("2^53 + 1 and 2^53", [(BIG + 1,)], [(BIG,)], False, False, False),
    ("the largest integer is no float", [(2**63 - 1,)], [(2.0**63,)], False, False, False),
    ("infinity is infinity", [(INF,)], [(INF,)], False, True, True),
    ("infinity is not its opposite", [(INF,)], [(-INF,)], False, False, False),
    ("infinity is no large number", [(INF,)], [(1e308,)], False, False, False),
    ("12.50 rounded", [(12.496,)], [(12.5,)], False, False, False),
    ("near numbers do not stand in for one another", [(0.3,), (SUM,)], [(0.3,), (0.3,)], False, False, False),
    ("near numbers in two rows", [(0.3,), (SUM,)], [(SUM,), (0.3,)], False, True, True),
    ("near numbers and order", [(0.3,), (SUM,)], [(SUM,), (0.3,)], True, False, True),
    # texts and blobs
    ("'1' is not 1", [("1",)], [(1,)], False, False, False),
    ("'1.0' is not '1'", [("1.0",)], [("1",)], False, False, False),
    ("capitals", [("a",)], [("A",)], False, False, False),
    ("a space behind", [("a",)], [("a ",)], False, False, False),
    ("\u00e9 in one character or two", [("\u00e9",)], [("e\u0301",)], False, False, False),
    ("a text ends at no NUL", [("a\0b",)], [("a",)], False, False, False),
    ("a blob is no text", [("a",)], [(b"a",)], False, False, False),
    ("an empty blob is no empty text", [("",)], [(b"",)], False, False, False),
    ("equal blobs", [(b"a\0",)], [(b"a\0",)], False, True, True),
    ("dates are texts", [("2024-01-01",)], [("2024-01-01 00:00:00",)], False, False, False),
]  # fmt: skip


# ---- related pairs of small results

POOL = (
    None, 0, 1, -1, 2, 0.0, 1.0, 2.0, SUM, 0.3, 1e300, BIG, BIG + 1, float(BIG), -0.0, INF, -INF,
    2**63 - 1, 2.0**63, "", "0", "1", "1.0", "a", "A", "a ", "\u00e9", "e\u0301", b"", b"a", b"1",
)  # fmt: skip
NEAR = (  # what a comparison may take for the same and must not
    (SUM, 0.3), (BIG, BIG + 1), (float(BIG), BIG + 1), (1e300, INF), (INF, -INF), ("a", "A"),
    ("a", "a "), ("\u00e9", "e\u0301"), ("a", b"a"), ("1", 1), ("1", b"1"), ("1", "1.0"), ("", None),
    ("", b""), (0, None), (0, "0"), (0, ""), (1, -1), (2**63 - 1, 2.0**63),
)  # fmt: skip


def another_type(cell):
    """The same number as the other type where there is one."""
    if isinstance(cell, int) and int(float(cell)) == cell:
        return float(cell) if cell else random.Random(cell).choice((0.0, -0.0))
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**63:
        return int(cell)
    return cell


def look_alike(rng, cell):
    """A cell that is near and not the same."""
    pairs = [pair if rng.random() < 0.5 else pair[::-1] for pair in NEAR]
    others = [b for a, b in pairs if a == cell and type(a) is type(cell)]
    return rng.choice(others or POOL)


def shuffle_rows(rng, rows):
    return rng.sample(rows, len(rows))


def permute_columns(rng, rows):
    picks = rng.sample(range(len(rows[0])), len(rows[0]))
    return [tuple(row[j] for j in picks) for row in rows]


def retype(rng, rows):
    share = rng.choice((0.3, 1))
    return [tuple(another_type(c) if rng.random() < share else c for c in row) for row in rows]


def repeat_row(rng, rows):
    rows = list(rows)
    rows.insert(rng.randint(0, len(rows)), rng.choice(rows))
    return rows


def drop_row(rng, rows):
    at = rng.randrange(len(rows))
    return rows[:at] + rows[at + 1 :]


def shift_repetition(rng, rows):
    """As many rows as before: one in place of another."""
    return repeat_row(rng, drop_row(rng, rows)) if len(rows) > 1 else rows


def with_cells(rows, at, cells):
    return [*rows[:at], tuple(cells), *rows[at + 1 :]]


def change_cell(rng, rows):
    at = rng.randrange(len(rows))
    cells = list(rows[at])
    j = rng.randrange(len(cells))
    cells[j] = look_alike(rng, cells[j])
    return with_cells(rows, at, cells)


def swap_cells(rng, rows):
    at = rng.randrange(len(rows))
    cells = list(rows[at])
    if len(cells) > 1:
        i, j = rng.sample(range(len(cells)), 2)
        cells[i], cells[j] = cells[j], cells[i]
    return with_cells(rows, at, cells)


def swap_in_column(rng, rows):
    """Two rows exchange a cell: every column keeps what it holds."""
    if len(rows) < 2:
        return rows
    first, second = rng.sample(range(len(rows)), 2)
    j = rng.randrange(len(rows[0]))
    a, b = list(rows[first]), list(rows[second])
    a[j], b[j] = b[j], a[j]
    return with_cells(with_cells(rows, first, a), second, b)


def copy_column(rng, rows):
    i, j = rng.randrange(len(rows[0]) + 1), rng.randrange(len(rows[0]))
    return [(*row[:i], row[j], *row[i:]) for row in rows]


def drop_column(rng, rows):
    j = rng.randrange(len(rows[0]))
    return [row[:j] + row[j + 1 :] for row in rows] if len(rows[0]) > 1 else rows


def no_rows(rng, rows):
    return []


MILD = {  # what a preset most often forgives
    "spider": (shuffle_rows, permute_columns, permute_columns, retype),
    "spider in order": (permute_columns, permute_columns, retype),
    "bird": (shuffle_rows, retype, repeat_row, repeat_row, permute_columns),
}
ROUGH = (
    shuffle_rows, drop_row, shift_repetition, change_cell, change_cell, swap_cells, swap_cells,
    swap_in_column, copy_column, drop_column, no_rows,
)  # fmt: skip
NAMES = ("a", "b", "c", "A", "a", "", "count(*)", "\u00e9", "x y")


def random_rows(rng, few=None):
    pool = few or rng.sample(POOL, rng.choice((1, 2, 2, 3, 4, 8)))
    width = rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5))
    count = rng.choice((0, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6)) if width else 0  # as SQL has it
    return width, [tuple(rng.choice(pool) for _ in range(width)) for _ in range(count)]


def pairs(rules, number):
    """Reference and candidate, each as (names, rows), most of them related."""
    rng = random.Random(rules)
    for _ in range(number):
        width, want = random_rows(rng)
        got = list(want)
        if rng.random() < 0.06:
            few = [cell for row in want for cell in row]
            width_of_got, got = random_rows(rng, few)
        else:
            mild = [rng.choice(MILD[rules]) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
            rough = [rng.choice(ROUGH) for _ in range(rng.choice((0, 0, 1, 1, 2)))]
            steps = mild + rough
            for step in rng.sample(steps, len(steps)):
                got = step(rng, got) if got else got
            width_of_got = len(got[0]) if got else rng.randrange(6)
        names = [rng.choice(NAMES) for _ in range(width)]
        others = names if width == width_of_got and rng.random() < 0.3 else None
        others = others or [rng.choice(NAMES) for _ in range(width_of_got)]
        if rng.random() < 0.3:
            others = rng.sample(others, len(others))
        yield (names, want), (others, got)


# ---- wide results


def moved(rng, rows, shuffle=True):
    """The same rows with the columns, and the rows themselves, in another order."""
    rows = permute_columns(rng, rows)
    return shuffle_rows(rng, rows) if shuffle else rows


def flags(rng, count, width, share=0.5):
    return [tuple(int(rng.random() < share) for _ in range(width)) for _ in range(count)]


def flipped(rng, rows):
    """One cell is another flag: the number of ones in all differs, so nothing can match."""
    at, j = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
    return with_cells(rows, at, [1 - c if i == j else c for i, c in enumerate(rows[at])])


def outline(rows):
    """What no permutation of rows and columns changes: how often two columns agree, and sums."""
    columns = list(zip(*rows))
    pairs_of = Counter(sum(a * b for a, b in zip(c, d)) for c, d in itertools.combinations(columns, 2))
    return Counter(map(sum, rows)), Counter(map(sum, columns)), pairs_of


def exchanged(rng, rows):
    """Two rows, in two columns, exchange a one and a zero: all sums stay, the outline does not."""
    for _ in range(10_000):
        a, b = rng.sample(range(len(rows)), 2)
        i, j = rng.sample(range(len(rows[0])), 2)
        if (rows[a][i], rows[a][j], rows[b][i], rows[b][j]) == (1, 0, 0, 1):
            first, second = list(rows[a]), list(rows[b])
            first[i], first[j], second[i], second[j] = 0, 1, 1, 0
            found = with_cells(with_cells(rows, a, first), b, second)
            if outline(found) != outline(rows):
                return found
    raise AssertionError("no exchange shows")


def one_row_swapped(rng, rows):
    """Two cells of one row change places: the sums of the columns differ."""
    for _ in range(10_000):
        found = swap_cells(rng, rows)
        if outline(found)[1] != outline(rows)[1]:
            return found
    raise AssertionError("no swap shows")


def edges(width, pairs_of):
    return [tuple(int(i in pair) for i in range(width)) for pair in pairs_of]


def cycles(*lengths):
    """A row per edge, a column per node."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    found = [(s + i, s + (i + 1) % n) for s, n in zip(starts, lengths) for i in range(n)]
    return edges(sum(lengths), found)


def lattice(steps):
    """A row per edge of the graph on 4 x 4 places that has these steps, round the corners."""
    found = set()
    for x, y, (dx, dy) in itertools.product(range(4), range(4), steps):
        found.add(frozenset((4 * x + y, 4 * ((x + dx) % 4) + (y + dy) % 4)))
    return edges(16, sorted(map(sorted, found)))


# Both are strongly regular with parameters 16, 6, 2, 2: rows and columns look alike everywhere.
ROOK = lattice([(1, 0), (2, 0), (0, 1), (0, 2)])
SHRIKHANDE = lattice([(1, 0), (0, 1), (1, 1)])


def wide_cases():
    """name, reference, candidate, order matters, spider. What bird says is the sets' equality."""
    rng = random.Random(26)
    unit = [tuple(int(i == j) for j in range(26)) for i in range(26)]
    base = [int(i in (0, 1, 3, 7, 12, 15, 16, 20)) for i in range(26)]
    turning = [tuple(base[(i + j) % 26] for j in range(26)) for i in range(26)]
    for count, share in ((1, 0.5), (5, 0.5), (40, 0.5), (40, 0.1), (120, 0.5)):
        want = flags(rng, count, 26, share)
        name = f"{count} rows of flags, {share:.0%} ones"
        yield name, want, moved(rng, want), False, True
        yield f"{name}, one wrong", want, flipped(rng, moved(rng, want)), False, False
        yield f"{name} in order", want, moved(rng, want, shuffle=False), True, True
        wrong = flipped(rng, moved(rng, want, shuffle=False))
        yield f"{name} in order, one wrong", want, wrong, True, False
        if count > 5:
            wrong = one_row_swapped(rng, moved(rng, want))
            yield f"{name}, a row swapped", want, wrong, False, False
            yield f"{name}, exchanged", want, exchanged(rng, moved(rng, want)), False, False
            got = moved(rng, want)
            right = Counter(zip(*want)) == Counter(zip(*got))
            yield f"{name} out of order", want, got, True, right
            wrong = [*want[:-1], want[0]]
            assert outline(wrong) != outline(want)
            yield f"{name}, one twice", want, moved(rng, wrong), False, False
    yield "one flag a row", unit, moved(rng, unit), False, True
    yield "one flag a row: the columns undo the order", unit, shuffle_rows(rng, unit), True, True
    yield "one flag a row, one twice", unit, moved(rng, [unit[1], *unit[1:]]), False, False
    yield "a flag missing in each row", [tuple(1 - c for c in row) for row in unit], unit, False, False
    yield "turning flags", turning, moved(rng, turning), False, True
    yield "turning flags, one wrong", turning, flipped(rng, moved(rng, turning)), False, False
    yield "turning flags, exchanged", turning, exchanged(rng, moved(rng, turning)), False, False
    yield "columns all alike", [(0,) * 26] * 3, [(0,) * 26] * 3, False, True
    yield "columns all alike but one cell", [(0,) * 26] * 3, flipped(rng, [(0,) * 26] * 3), False, False
    alike = [(row % 2,) * 25 + (row % 3,) for row in range(6)]
    yield "25 columns alike", alike, moved(rng, alike), False, True
    yield "25 columns alike, recombined", alike, [(*row[:25], (row[25] + 1) % 3) for row in alike[:5]] + alike[5:], False, False
    twins = [tuple(c for c in row for _ in (0, 1)) for row in flags(rng, 12, 13)]
    yield "13 columns twice", twins, moved(rng, twins), False, True
    yield "13 columns twice, a row swapped", twins, one_row_swapped(rng, moved(rng, twins)), False, False
    yield "a ring of 26", cycles(26), moved(rng, cycles(26)), False, True
    yield "a ring of 26 against two of 13", cycles(26), moved(rng, cycles(13, 13)), False, False
    yield "rings of 5, 8 and 13", cycles(5, 8, 13), moved(rng, cycles(13, 5, 8)), False, True
    yield "rook's graph", ROOK, moved(rng, ROOK), False, True
    yield "rook's graph against Shrikhande's", ROOK, moved(rng, SHRIKHANDE), False, False
    want = flags(rng, 30, 26)
    floats = [tuple(map(float, row)) for row in moved(rng, want)]
    yield "flags as floats", want, floats, False, True
    texts = [tuple(map(str, row)) for row in moved(rng, want)]
    yield "flags as texts", want, texts, False, False
    nulls = [tuple(c or None for c in row) for row in want]
    yield "NULL for 0", want, nulls, False, False
    yield "flags and NULL", nulls, moved(rng, nulls), False, True
    near = [tuple(SUM if c else 0.3 for c in row) for row in want]
    yield "two near numbers", near, moved(rng, near), False, True
    yield "two near numbers, one wrong", near, [tuple(SUM if c else 0.3 for c in row) for row in flipped(rng, want)], False, False
    for width, count in ((115, 12), (400, 8)):
        want = flags(rng, count, width)
        yield f"{width} columns", want, moved(rng, want), False, True
        yield f"{width} columns, one wrong", want, flipped(rng, moved(rng, want)), False, False
        yield f"{width} columns in order", want, moved(rng, want, shuffle=False), True, True
        wrong = flipped(rng, moved(rng, want, shuffle=False))
        yield f"{width} columns in order, one wrong", want, wrong, True, False
    row = tuple(range(1200))
    yield "1200 columns", [row], [row[::-1]], False, True
    yield "1200 columns in order", [row], [row[::-1]], True, True
    yield "1200 columns, one wrong", [row], [(*row[:0:-1], 1)], False, False


# ---- from SQL on

SCHEMA = """
CREATE TABLE shop (id INTEGER, name TEXT, price REAL, stock INTEGER, code TEXT, note TEXT);
INSERT INTO shop VALUES (1, 'bolt', 0.1, 13, '1', NULL), (2, 'nut', 0.2, 13, '2', 'order by mail'),
                        (3, 'saw', 13.0, 2, '3', NULL), (4, 'nut', 4.5, 0, '4', '');
"""
LARGE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 21000) "

# name, reference, candidate, spider, bird (None: not asked)
QUERIES = [
    ("free order", "SELECT id FROM shop", "SELECT id FROM shop ORDER BY id DESC", "PASS", "PASS"),
    ("order by", "SELECT id FROM shop ORDER BY id", "SELECT id FROM shop ORDER BY id DESC", "FAIL", "PASS"),
    ("rows that tie", "SELECT id, stock FROM shop ORDER BY stock DESC, id", "SELECT id, stock FROM shop ORDER BY stock DESC, id DESC", "FAIL", "PASS"),
    ("order kept, columns not", "SELECT id, name FROM shop ORDER BY id", "SELECT name, id FROM shop ORDER BY id", "PASS", "FAIL"),
    ("columns", "SELECT id, name FROM shop", "SELECT name, id FROM shop", "PASS", "FAIL"),
    ("columns by their names", "SELECT id AS a, stock AS b FROM shop", "SELECT stock AS b, id AS a FROM shop", "PASS", "FAIL"),
    ("DISTINCT counts", "SELECT DISTINCT name FROM shop", "SELECT name FROM shop", "FAIL", "PASS"),
    ("no rows of other widths", "SELECT id FROM shop WHERE 0", "SELECT * FROM shop WHERE 0", "PASS", "PASS"),
    ("no rows of other widths in order", "SELECT id, name FROM shop WHERE 0 ORDER BY id", "SELECT id FROM shop WHERE 0", "PASS", "PASS"),
    ("no rows against NULL", "SELECT id FROM shop WHERE 0", "SELECT MAX(id) FROM shop WHERE 0", "FAIL", "FAIL"),
    ("13 and 13.0", "SELECT stock FROM shop WHERE id = 1", "SELECT price FROM shop WHERE id = 3", "PASS", "PASS"),
    ("0.1 + 0.2 and 0.3", "SELECT SUM(price) FROM shop WHERE id < 3", "SELECT 0.3", "FAIL", "FAIL"),
    ("a whole quotient", "SELECT stock / 2 FROM shop WHERE id = 1", "SELECT stock / 2.0 FROM shop WHERE id = 1", "FAIL", "FAIL"),
    ("'1' and 1", "SELECT id FROM shop WHERE id = 1", "SELECT code FROM shop WHERE id = 1", "FAIL", "FAIL"),
    ("NULL and ''", "SELECT note FROM shop WHERE id = 1", "SELECT note FROM shop WHERE id = 4", "FAIL", "FAIL"),
    ("infinity", "SELECT 9e999", "SELECT 1e999", "PASS", "PASS"),
    ("a blob", "SELECT 'a'", "SELECT x'61'", "FAIL", "FAIL"),
    ("no such column", "SELECT id FROM shop", "SELECT missing FROM shop", "ERROR", "ERROR"),
    ("many rows, columns moved", LARGE + "SELECT i, i % 7, 'x' || i FROM n", LARGE + "SELECT 'x' || i, i, i % 7 FROM n", "PASS", "FAIL"),
    ("many rows in order, columns moved", LARGE + "SELECT i, i % 7 FROM n ORDER BY i", LARGE + "SELECT i % 7, i FROM n ORDER BY i DESC", "FAIL", "FAIL"),
    ("many rows, one of them twice", LARGE + "SELECT i FROM n", LARGE + "SELECT i * 1.0 FROM n UNION ALL SELECT 7", "FAIL", "PASS"),
    ("many rows, one wrong", LARGE + "SELECT i, i % 7 FROM n", LARGE + "SELECT i % 7, i + (i = 20999) FROM n", "FAIL", "FAIL"),
]  # fmt: skip

# The reference's text decides whether Spider's rules look at order: name, reference, whether.
TEXTS = [
    ("in capitals and small", "SELECT id FROM shop Order bY id", True),
    ("with two spaces: does not count", "SELECT id FROM shop ORDER  BY id", False),
    ("with a line break: does not count", "SELECT id FROM shop ORDER\nBY id", False),
    ("with a tab: does not count", "SELECT id FROM shop ORDER\tBY id", False),
    ("with a comment between: does not count", "SELECT id FROM shop ORDER/**/BY id", False),
    ("of nothing that tells rows apart", "SELECT id FROM shop ORDER BY 1 > 0", True),
    ("in a subquery", "SELECT id FROM shop WHERE id IN (SELECT id FROM shop ORDER BY id)", True),
    ("in a window", "SELECT id FROM (SELECT id, SUM(id) OVER (ORDER BY id) FROM shop)", True),
    ("in a string", "SELECT id FROM shop WHERE note <> 'order by' OR note IS NULL", True),
    ("in a comment", "SELECT id FROM shop -- no order by here", True),
    ("in a comment in front", "/* Order By none */ SELECT id FROM shop", True),
    ("in a comment behind the semicolon", "SELECT id FROM shop; -- order by", True),
    ("in a name", 'SELECT id AS "order by" FROM shop', True),
    ("inside longer words", 'SELECT id AS "reorder bytes" FROM shop', True),
]
BACKWARDS = "SELECT id FROM shop ORDER BY id DESC"
QUERIES += [
    (f"order by {name}", reference, BACKWARDS, "FAIL" if counts else "PASS", None)
    for name, reference, counts in TEXTS
]


def official(connection, reference, candidate, preset):
    """The oracle's word on two queries, run here."""
    want = connection.execute(reference).fetchall()
    try:
        got = connection.execute(candidate).fetchall()
    except sqlite3.Error:
        return "ERROR"
    if preset == "bird":
        right = bird_oracle(want, got)
    else:
        right = spider_oracle(want, got, "order by" in reference.lower())
    return "PASS" if right else "FAIL"


# ---- the tests


class Oracles(unittest.TestCase):
    """The oracles against the table's hand-written verdicts, and against a second telling."""

    def test_traps(self):
        self.assertEqual(len({row[0] for row in TRAPS}), len(TRAPS))
        for name, want, got, ordered, spider, bird in TRAPS:
            want, got = rows_of(want), rows_of(got)
            with self.subTest(name):
                self.assertEqual(spider_oracle(want, got, ordered), spider)
                self.assertEqual(spider_literally(want, got, ordered), spider)
                self.assertEqual(bird_oracle(want, got), bird)

    def test_two_tellings(self):
        for rules in MILD:
            for (_, want), (_, got) in pairs(rules, 200):
                for ordered in (False, True):
                    here, there = (f(want, got, ordered) for f in (spider_oracle, spider_literally))
                    self.assertEqual(here, there, (want, got, ordered))

    def test_pairs_are_balanced(self):
        for rules in MILD:
            with self.subTest(rules):
                drawn = [(want, got) for (_, want), (_, got) in pairs(rules, 2000)]
                right = [pair for pair in drawn if oracle(rules, *pair)]
                told = [(want, got) for want, got in right if want and want != got]
                self.assertTrue(600 <= len(right) <= 1400, len(right))
                self.assertGreater(len(told), 200)  # not matches that anything would see

    def test_strongly_regular(self):
        for graph in (ROOK, SHRIKHANDE):
            self.assertEqual(len(graph), 48)
            self.assertEqual(outline(graph)[:2], ({2: 48}, {6: 16}))
        # What tells them apart: four columns of which each two share a row.
        self.assertEqual([cliques(graph) for graph in (ROOK, SHRIKHANDE)], [8, 0])


def cliques(graph):
    joined = {tuple(i for i, c in enumerate(row) if c) for row in graph}
    fours = itertools.combinations(range(16), 4)
    return sum(joined.issuperset(itertools.combinations(four, 2)) for four in fours)


class Presets(unittest.TestCase):
    """The program against the oracles."""

    def agree(self, cases):
        """Fails with the smallest of the cases that differ: (preset, ordered, want, got, right)."""
        contracts = {(p, o): contract_of(p, o) for p in PRESETS for o in (False, True)}
        apart, count = [], 0
        for preset, ordered, want, got, right in cases:
            count += 1
            said = program(contracts[preset, ordered], want, got)
            if said is not right:
                apart.append((len(repr(want) + repr(got)), preset, ordered, want, got, said, right))
        if apart:
            _, preset, ordered, want, got, said, right = min(apart, key=lambda case: case[0])
            order = ", order matters" if ordered else ""
            self.fail(
                f"{len(apart)} of {count} differ, the smallest is\n{preset}{order}\n"
                f"reference {want}\ncandidate {got}\nthe program says {said}, right is {right}"
            )

    def test_traps(self):
        for name, want, got, ordered, spider, bird in TRAPS:
            for preset, right in (("spider", spider), ("bird", bird)):
                with self.subTest(name, preset=preset):
                    self.agree([(preset, ordered, want, got, right)])

    def test_pairs(self):
        for rules in MILD:
            with self.subTest(rules):
                preset, ordered = rules.split()[0], rules.endswith("order")
                self.agree(
                    (preset, ordered, want, got, oracle(rules, want[1], got[1]))
                    for want, got in pairs(rules, 4000)
                )

    def test_wide(self):
        for name, want, got, ordered, right in wide_cases():
            with self.subTest(name, preset="spider", ordered=ordered):
                self.agree([("spider", ordered, want, got, right)])
            with self.subTest(name, preset="bird"):
                self.agree([("bird", False, want, got, bird_oracle(want, got))])
                self.agree([("bird", False, want, [*want[1:], want[0], want[0]], True)])


class FromSql(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = os.path.join(cls.folder.name, "shop.db")
        connection = sqlite3.connect(cls.path)
        connection.executescript(SCHEMA)
        connection.close()

    def test_oracle(self):
        connection = sqlite3.connect(self.path)
        self.addCleanup(connection.close)
        for name, reference, candidate, *right in QUERIES:
            with self.subTest(name):
                for preset, verdict in zip(PRESETS, right):
                    if verdict is not None:
                        said = official(connection, reference, candidate, preset)
                        self.assertEqual(said, verdict, preset)

    def test_program(self):
        for name, reference, candidate, *right in QUERIES:
            for preset, verdict in zip(PRESETS, right):
                with self.subTest(name, preset=preset):
                    if verdict is None:
                        continue
                    contract = scorer.read_contract({"preset": preset})
                    question = scorer.Question("Q1", "text", "", reference, contract)
                    outcome = scorer.grade("Q1", candidate, db=self.path, questions=[question], settings=SETTINGS)
                    self.assertEqual(outcome.verdict, verdict, (outcome.reason, outcome.detail))


GEOGRAPHY = os.path.join(os.path.dirname(ROOT), "shared", "data", "geography")


def mutants(sql):
    """Predictions as tools write them: the query itself, and queries one step away from it."""
    for old, new in (
        ("", ""),
        ("SELECT ", "SELECT DISTINCT "),
        ("DISTINCT", ""),
        ("MAX", "MIN"),
        (" > ", " >= "),
        ("COUNT( 1 )", "COUNT( 1 ) + 0.0"),
        (" DESC", ""),
        ("LIMIT 1", "LIMIT 2"),
        ("STATE_NAME", "STATE_NAME COLLATE NOCASE"),
    ):
        if not old or old in sql:
            yield sql.replace(old, new, 1) if old else sql


@unittest.skipUnless(os.path.isdir(GEOGRAPHY), "the geography set is not here")
class RealSet(unittest.TestCase):
    """A real set and predictions near its references: the verdicts of both evaluators, one by one."""

    def test_every_prediction(self):
        path = os.path.join(GEOGRAPHY, "geography.sqlite")
        with open(os.path.join(GEOGRAPHY, "questions.json"), encoding="utf-8") as file:
            queries = [record["query"] for record in json.load(file)]
        connection = sqlite3.connect(path)
        self.addCleanup(connection.close)

        def rows(sql):
            try:
                return connection.execute(sql).fetchall()
            except sqlite3.Error:
                return None

        pairs = [(sql, mutant) for sql in queries for mutant in mutants(sql)]
        # Another question's reference too: many give one row of one column.
        pairs += [(sql, other) for sql, other in zip(queries, queries[1:] + queries[:1])]
        results = [(rows(sql), rows(mutant)) for sql, mutant in pairs]
        database = scorer.Database(scorer.file_uri(path) + "?mode=ro", "", path)
        for preset in ("spider", "bird"):
            contract = scorer.read_contract({"preset": preset})
            asked = [
                (scorer.Question(str(i), "", "", sql, contract), scorer.Answer(mutant, 1))
                for i, (sql, mutant) in enumerate(pairs)
            ]
            with scorer.Scorer({"": [database]}, SETTINGS, 2) as desk:
                outcomes = desk.score(asked)
            passed = 0
            for (sql, mutant), (want, got), outcome in zip(pairs, results, outcomes):
                right = want is not None and got is not None
                if right and preset == "bird":
                    right = bird_oracle(want, got)
                elif right:
                    right = spider_oracle(want, got, "order by" in sql.lower())
                passed += right
                with self.subTest(preset, sql=sql, prediction=mutant):
                    self.assertEqual(outcome.passed, right, outcome.detail)
            self.assertTrue(len(pairs) // 5 < passed < len(pairs) * 4 // 5, (passed, len(pairs)))


if __name__ == "__main__":
    unittest.main()
