"""Measures what variants find and what they leave alone; prints the tables that the README shows.

    python tests/measure_variants.py            mutants of the references of ../shared/data/geography,
                                                its declared equivalents, and tests/rewrites.json

Not a test: test_variants.py holds the bounds.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import make_messy_schema  # noqa: E402
import score_nl2sql as scorer  # noqa: E402

GEOGRAPHY = HERE.parent.parent / "shared" / "data" / "geography"
MANY = 1000
KINDS = ("comparison", "boundary", "distinct", "aggregate", "and/or", "condition", "join", "direction")


def geography():
    """The questions of the real set, and their records as the file has them."""
    data = (GEOGRAPHY / "questions.json").read_bytes()
    return scorer.read_questions(data, "questions.json").questions, json.loads(data)


def tried(path, pairs, variants, timeout=2.0):
    """The outcome of each (question, SQL), on variants too. Ids are made to differ."""
    asked = [(q._replace(id=f"{q.id}/{i}"), scorer.Answer(sql, 1)) for i, (q, sql) in enumerate(pairs)]
    settings = scorer.Settings(timeout=timeout, variants=variants)
    with scorer.readable(str(path)) as database, scorer.Scorer({"": [database]}, settings, 2) as desk:
        return desk.score(asked)


def told(outcome):
    return outcome.counterexample is not None


def mutants(questions):
    """Every mutant of every reference that runs."""
    return [(question, mutant) for question in questions for mutant in scorer.mutants(question.sql)]


def surviving(path, found):
    """The mutants that give their reference's result on the data."""
    outcomes = tried(path, [(question, mutant.sql) for question, mutant in found], 0)
    return [pair for pair, outcome in zip(found, outcomes) if outcome.passed]


def found_by(path, survivors, variants):
    """For each mutant, the first variant that tells it apart, None where none does."""
    pairs = [(question, mutant.sql) for question, mutant in survivors]
    return [o.counterexample.variant if told(o) else None for o in tried(path, pairs, variants)]


def declared(questions, records):
    """The other SQL that the set declares equivalent."""
    by_id = {question.id: question for question in questions}
    return [
        (by_id[str(record["question_id"])], sql) for record in records for sql in record["variants"]
    ]


def rewrites(folder):
    """The rewrites of tests/rewrites.json with their databases: (kind, path, question, SQL)."""
    ten = os.path.join(folder, "ten.db")
    make_messy_schema.build(ten)
    by_id = {question.id: (ten, question) for question in scorer.QUESTIONS}
    if GEOGRAPHY.exists():
        path = str(GEOGRAPHY / "geography.sqlite")
        by_id.update({f"geography:{question.id}": (path, question) for question in geography()[0]})
    rows = json.loads((HERE / "rewrites.json").read_text(encoding="utf-8"))
    return [(row["kind"], *by_id[row["question"]], row["sql"]) for row in rows if row["question"] in by_id]


def flagged(found, variants):
    """The outcome of each rewrite."""
    outcomes = {}
    for path in sorted({path for _, path, _, _ in found}):
        places = [i for i, row in enumerate(found) if row[1] == path]
        outcomes.update(zip(places, tried(path, [found[i][2:] for i in places], variants)))
    return [outcomes[i] for i in range(len(found))]


def mutant_table(default):
    questions, _ = geography()
    path = GEOGRAPHY / "geography.sqlite"
    made = mutants(questions)
    survivors = surviving(path, made)
    begun = time.perf_counter()
    first = found_by(path, survivors, MANY)
    seconds = time.perf_counter() - begun
    rows = []
    for kind in (*KINDS, "all"):
        kinds = [mutant.kind == kind or kind == "all" for _, mutant in survivors]
        every = [variant for variant, fits in zip(first, kinds) if fits]
        by_many = sum(variant is not None for variant in every)
        by_default = sum(variant is not None and variant < default for variant in every)
        count = sum(mutant.kind == kind or kind == "all" for _, mutant in made)
        share = scorer.percent(by_default, by_many)
        rows.append((kind, count, len(every), by_many, by_default, share))
    print(f"| mutants | made | survive the data | {MANY:,} variants tell | {default} variants tell | share |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    print(f"\n{MANY:,} variants of each survivor: {seconds:.1f} s on two workers")


def right_table(default):
    if GEOGRAPHY.exists():
        questions, records = geography()
        pairs = declared(questions, records)
        outcomes = tried(GEOGRAPHY / "geography.sqlite", pairs, default)
        agree = [outcome for outcome in outcomes if outcome.passed]
        print(f"\ndeclared equivalents: {len(pairs)}, agree on the data {len(agree)},")
        print(f"told apart on a variant: {sum(map(told, agree))}")
        for outcome in filter(told, agree):
            print(f"  {outcome.question.id}: {outcome.detail[0]}")
    with tempfile.TemporaryDirectory() as folder:
        found = rewrites(folder)
        outcomes = flagged(found, default)
    counts, wrong = Counter(), Counter()
    for (kind, _, question, _), outcome in zip(found, outcomes):
        where = "ten" if question.id.startswith("Q") else "geography"
        counts[kind, where] += 1
        wrong[kind] += told(outcome) or not outcome.passed
    print("\n| rewrites | ten questions | geography | flagged |")
    print("| --- | ---: | ---: | ---: |")
    for kind in sorted({kind for kind, _ in counts}):
        print(f"| {kind} | {counts[kind, 'ten']} | {counts[kind, 'geography']} | {wrong[kind]} |")
    total = [sum(n for (_, place), n in counts.items() if place == where) for where in ("ten", "geography")]
    print(f"| all | {total[0]} | {total[1]} | {sum(wrong.values())} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=int, default=scorer.VARIANTS)
    args = parser.parse_args()
    if GEOGRAPHY.exists():
        mutant_table(args.variants)
    right_table(args.variants)


if __name__ == "__main__":
    main()
