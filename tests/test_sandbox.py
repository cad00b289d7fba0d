"""Hostile SQL costs its own question and nothing else: a black box behind the command line.

`attacks.json` holds the attacks, with the reasons that are acceptable for each, and legal oddities
that must be scored. The fast part runs the attacks that end at once in batches, a few others
alone, and a third of the oddities; NL2SQL_LONG=1 runs everything, each attack alone.
"""
import csv
import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import score_nl2sql  # noqa: E402

CASES = json.loads((Path(__file__).parent / "attacks.json").read_text(encoding="utf-8"))
QUESTIONS = {q.id: q for q in score_nl2sql.QUESTIONS}
REFERENCES = {q.id: q.sql for q in score_nl2sql.QUESTIONS}
LONG = os.environ.get("NL2SQL_LONG", "") not in ("", "0")
LINUX = sys.platform.startswith("linux")
POSIX = os.name == "posix"
FAIL_REASONS = {"rows", "duplicates", "columns", "order", "type"}
ERROR_REASONS = {"sql_error", "timeout", "forbidden", "multiple_statements", "too_large", "crash"}
GIB = 1 << 30
GRACE = 2.0       # seconds that a hostile answer may cost beyond its time limit
STUCK = 120.0     # seconds after which a run is ended from here
SAMPLE = ("recursion-count", "row-of-huge-cells", "instr")  # alone in the fast part, too
WIDE = ("Q05", "Q07")  # several columns: a wrong width may have another reason than for Q01
VERDICT_LINE = re.compile(r"  (PASS |FAIL |ERROR|SKIP ) (Q\d\d)  ")
Expected = Dict[str, Set[str]]  # per question the acceptable reasons; empty: a PASS


class Process(NamedTuple):
    parent: int
    session: int
    ticks: int    # processor time
    start: int    # tells a process from a later one with the same id


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str
    wall: float
    table: List[List[str]]
    peak: int
    left: List[int]
    appeared: List[str]


def processes() -> Dict[int, Process]:
    """The living processes by id; none on systems without /proc."""
    found = {}
    for name in os.listdir("/proc") if LINUX else ():
        if not name.isdigit():
            continue
        try:
            text = Path("/proc", name, "stat").read_text(errors="replace")
        except OSError:
            continue  # ended meanwhile
        field = text.rpartition(")")[2].split()
        if field[0] not in "ZX":
            ticks = int(field[11]) + int(field[12])
            found[int(name)] = Process(int(field[1]), int(field[3]), ticks, int(field[19]))
    return found


def memory(pid: int) -> int:
    """Bytes that a process holds, its share of shared pages included; 0 when it has ended."""
    try:
        for line in Path("/proc", str(pid), "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


class Family(threading.Thread):
    """Follows a process, its descendants and its session every 20 ms; keeps their peak memory."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.peak = root, 0
        self.known: Dict[int, int] = {}
        self.done = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.wait(0.02):
            self.peak = max(self.peak, sum(map(memory, self.living())))

    def living(self) -> Dict[int, Process]:
        alive = processes()
        for pid, process in sorted(alive.items(), key=lambda item: item[1].start):
            parent = alive.get(process.parent)
            child = parent is not None and self.known.get(process.parent) == parent.start
            if child or process.session == self.root or pid == self.root:
                self.known.setdefault(pid, process.start)
        return {pid: p for pid, p in alive.items() if self.known.get(pid) == p.start}

    def left_after(self, seconds: float) -> List[int]:
        """The processes that are still there after so many seconds (returns early when none is)."""
        end = time.monotonic() + seconds
        while self.living() and time.monotonic() < end:
            time.sleep(0.02)
        self.done.set()
        self.join()
        return sorted(self.living())

    def kill(self) -> None:
        for pid in self.living():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def sql_of(case: Dict[str, Any]) -> str:
    if "sql" in case:
        return str(case["sql"])
    return "".join(text * times for text, times in case["parts"])


def write_answers(path: Path, answers: Dict[str, str]) -> None:
    blocks = (f"-- {qid}: {QUESTIONS[qid].text}\n{sql}\n\n" for qid, sql in answers.items())
    path.write_bytes("".join(blocks).encode("utf-8"))


def start(folder: Path, db: str, options: Sequence[str], cwd: Path) -> "subprocess.Popen[bytes]":
    """Scores folder/answers.sql in a session of its own, with folder/tmp for temporary files."""
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    env.update({name: str(folder / "tmp") for name in ("TMPDIR", "TEMP", "TMP")})
    env["PYTHONIOENCODING"] = "utf-8"
    command = [sys.executable, str(ROOT / "score_nl2sql.py"), "--answers",
               str(folder / "answers.sql"), "--csv", str(folder / "out.csv"), "--db", db, *options]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, cwd=str(cwd), env=env, start_new_session=True)


def files_in(folders: Iterable[Path]) -> Set[str]:
    return {str(path) for folder in folders for path in folder.rglob("*")}


def score(answers: Dict[str, str], db: str, *options: str, cwd: Optional[Path] = None) -> Run:
    """One run of the command, with what it left behind."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("cwd", "tmp"):
            (folder / part).mkdir()
        where = cwd or folder / "cwd"
        watched = [where, folder / "tmp", (where / db).parent]
        write_answers(folder / "answers.sql", answers)
        before = files_in(watched)
        begin = time.monotonic()
        child = start(folder, db, options, where)
        family = Family(child.pid)
        try:
            out, err = child.communicate(timeout=STUCK)
        except subprocess.TimeoutExpired:
            family.kill()
            child.kill()
            out, err = child.communicate()
        wall = time.monotonic() - begin
        left = family.left_after(0.5)
        family.kill()
        table = read_csv(folder / "out.csv")
        appeared = sorted(files_in(watched) - before)
    return Run(child.returncode, out.decode("utf-8", "surrogateescape").replace(os.linesep, "\n"),
               err.decode("utf-8", "surrogateescape").replace(os.linesep, "\n"),
               wall, table, family.peak, left, appeared)


def read_csv(path: Path) -> List[List[str]]:
    if not path.exists():
        return []
    csv.field_size_limit(1 << 30)
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return list(csv.reader(file))


def hidden(text: str, allowed: str = "\n") -> List[str]:
    """The characters that steer a terminal or turn a line round, escaped."""
    return sorted({ascii(c) for c in text if c not in allowed
                   and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")})


def expected_verdict(reasons: Set[str], reason: str) -> str:
    if not reasons:
        return "PASS"
    return "FAIL" if reason in FAIL_REASONS else "SKIP" if reason == "no_sql" else "ERROR"


def wrong_table(run: Run, expected: Expected) -> Iterable[str]:
    if "" not in map("".join, run.table):
        yield f"CSV without its empty line: {run.table!r:.300}"
        return
    header, *body = run.table[:run.table.index([])]
    if header[:4] != ["question_id", "question", "verdict", "detail"] or "reason" not in header:
        yield f"CSV header {header!r:.300}"
        return
    rows = {row[0]: dict(zip(header, row)) for row in body}
    if list(rows) != list(QUESTIONS) or len(body) != len(rows):
        yield f"CSV rows {[row[0] for row in body]!r:.300}"
        return
    for qid, row in rows.items():
        reasons, reason = expected.get(qid, set()), row["reason"]
        if row["verdict"] != expected_verdict(reasons, reason) or reasons and reason not in reasons:
            yield (f"{qid}: {row['verdict']} {reason}: {row['detail']!r:.200}, "
                   f"wanted {' or '.join(sorted(reasons)) or 'PASS'}")
        for name, cell in row.items():
            allowed = "" if name in ("verdict", "detail", "reason") else "\n\r\t"
            if hidden(cell, allowed) or cell[:1] and cell[0] in "=+-@\t\r":
                yield f"{qid}: CSV cell {name} is not safe: {hidden(cell)} {cell!r:.80}"
    passed = sum(row["verdict"] == "PASS" for row in rows.values())
    if run.table[-1] != ["execution_accuracy", f"{passed}/{len(QUESTIONS)}"]:
        yield f"CSV ends with {run.table[-1]!r:.200}, not {passed}/{len(QUESTIONS)}"
    held = passed - sum(row["reason"] == "coincidence" for row in rows.values())
    if run.table[-2] != ["accuracy_on_variants", f"{held}/{len(QUESTIONS)}"]:
        yield f"before it {run.table[-2]!r:.200}, not {held}/{len(QUESTIONS)}"


def wrong_report(run: Run, expected: Expected) -> Iterable[str]:
    lines = run.out.split("\n")
    found = [(m.group(2), m.group(1).strip(), i) for i, line in enumerate(lines)
             for m in [VERDICT_LINE.match(line)] if m]
    if [qid for qid, _, _ in found] != list(QUESTIONS):
        yield f"verdict lines of {[qid for qid, _, _ in found]}"
    for qid, verdict, at in found:
        details = []
        while at + 1 < len(lines) and lines[at + 1].startswith(" " * 10):
            at += 1
            details.append(lines[at][10:])
        if len(details) > 2:
            yield f"{qid}: {len(details)} detail lines"
        first = details[0].split(":")[0] if details else ""
        if verdict not in ("PASS", "SKIP") and first not in expected.get(qid, set()):
            yield f"{qid}: {verdict} in the report, with the detail {details[:1]!r:.200}"
        if verdict == "PASS" and expected.get(qid):
            yield f"{qid}: PASS in the report"
    if sum(line.startswith("execution accuracy:") for line in lines) != 1:
        yield "not exactly one line with the score"
    if max(map(len, lines)) > 1000:
        yield f"a line of {max(map(len, lines))} characters"
    for name, text in (("stdout", run.out), ("stderr", run.err)):
        if hidden(text):
            yield f"control characters on {name}: {hidden(text)}"
    if "Traceback" in run.err:
        yield f"a traceback: {run.err[-500:]}"


def trouble(run: Run, expected: Expected) -> List[str]:
    """All that is wrong with a run, in words."""
    found = [] if run.code == 0 else [f"exit code {run.code}: {run.err[-500:]!r}"]
    found += wrong_table(run, expected)
    found += wrong_report(run, expected)
    if run.left:
        found.append(f"processes left: {run.left}")
    if run.appeared:
        found.append(f"files left: {run.appeared}")
    if run.peak >= GIB:
        found.append(f"{run.peak >> 20} MiB at the peak")
    return found


def attempts() -> int:
    """2 on a busy machine, where a candidate that ran out of wall time alone is tried once more."""
    return 2 if POSIX and os.getloadavg()[0] > (os.cpu_count() or 1) else 1


def state(db: Path) -> Tuple[str, int, List[str]]:
    """What must not change: the bytes, the time of the last change, the names beside the file."""
    digest = hashlib.sha256(db.read_bytes()).hexdigest()
    return digest, db.stat().st_mtime_ns, sorted(p.name for p in db.parent.iterdir())


def only_q01(reasons: Iterable[str] = ()) -> Expected:
    """What to expect when the other questions have no answer."""
    return {qid: set(reasons) if qid == "Q01" else {"no_sql"} for qid in QUESTIONS}


def batches(cases: List[Dict[str, Any]]) -> List[Dict[str, Dict[str, Any]]]:
    """One attack for each question but the last, whose right answer must still pass."""
    slots = list(QUESTIONS)[:-1]
    return [dict(zip(slots, cases[i:i + len(slots)])) for i in range(0, len(cases), len(slots))]


def setUpModule() -> None:
    """One database for all tests, none of which may change it."""
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    SandboxTest.db = Path(folder.name, "data", "shop.db")
    SandboxTest.db.parent.mkdir()
    command = [sys.executable, str(ROOT / "make_messy_schema.py"), "--out", str(SandboxTest.db)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    SandboxTest.untroubled = score(REFERENCES, str(SandboxTest.db), "--timeout", "2").wall


class SandboxTest(unittest.TestCase):
    db: Path
    untroubled: float  # seconds that a run with nothing but right answers takes

    def setUp(self) -> None:
        self.before = state(self.db)

    def tearDown(self) -> None:
        self.assertEqual(self.before, state(self.db), "the database or its folder changed")

    def fine(self, found: List[str], about: str = "") -> None:
        """Fails with everything that is wrong, a line each."""
        if found:
            self.fail("\n  ".join([about, *found]))

    def copy(self, name: str) -> Path:
        """A copy of the database under a name in a new, otherwise empty folder."""
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        path = Path(home.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.db, path)
        return path

    def live(self, path: Path) -> int:
        with sqlite3.connect(str(path)) as connection:
            row = connection.execute(REFERENCES["Q01"]).fetchone()
        connection.close()
        return int(row[0])

    def attack_alone(self, case: Dict[str, Any], timeout: int, tries: int) -> None:
        answers = {**REFERENCES, "Q01": sql_of(case)}
        # One worker has all the memory; of several, one that used up its share is asked again.
        run = score(answers, str(self.db), "--timeout", str(timeout), "--jobs", "1")
        found = trouble(run, {"Q01": set(case["reasons"])})
        limit = self.untroubled + timeout * tries + GRACE
        if run.wall > limit:
            found.append(f"took {run.wall:.1f} s, limit {limit:.1f} s")
        if state(self.db) != self.before:
            found.append("the database or its folder changed")
        self.fine(found, case["id"])


class TestTables(unittest.TestCase):
    def test_tables_are_sound(self) -> None:
        attacks, oddities = CASES["attacks"], CASES["oddities"]
        self.assertGreaterEqual(len(attacks), 60)
        self.assertGreaterEqual(len(oddities), 20)
        for cases in (attacks, oddities):
            ids = [case["id"] for case in cases]
            self.assertEqual(len(ids), len(set(ids)), "an id comes twice")
        for case in attacks:
            with self.subTest(attack=case["id"]):
                self.assertTrue(case["reasons"] and case["why"])
                self.assertLessEqual(set(case["reasons"]), FAIL_REASONS | ERROR_REASONS)
        self.assertLessEqual(set(SAMPLE), {case["id"] for case in attacks})


class TestAttacks(SandboxTest):
    def test_right_answers_pass(self) -> None:
        self.fine(trouble(score(REFERENCES, str(self.db)), {}))

    def test_batches(self) -> None:
        work = batches([case for case in CASES["attacks"] if not case.get("slow")])

        def run(batch: Dict[str, Dict[str, Any]]) -> Run:
            answers = {**REFERENCES, **{qid: sql_of(case) for qid, case in batch.items()}}
            return score(answers, str(self.db))

        with ThreadPoolExecutor(2) as pool:
            for batch, result in zip(work, pool.map(run, work)):
                names = {qid: case["id"] for qid, case in batch.items()}
                with self.subTest(attacks=names):
                    expected = {qid: set(case["reasons"]) for qid, case in batch.items()}
                    for qid in WIDE:
                        if expected.get(qid, set()) & FAIL_REASONS:
                            expected[qid] |= FAIL_REASONS
                    self.fine(trouble(result, expected))

    def test_sample_alone(self) -> None:
        for case in CASES["attacks"]:
            if case["id"] in SAMPLE:
                with self.subTest(attack=case["id"]):
                    self.attack_alone(case, 1, 2)  # generous: this runs on any machine

    @unittest.skipUnless(LONG, "set NL2SQL_LONG=1")
    def test_every_attack_alone(self) -> None:
        for case in CASES["attacks"]:
            with self.subTest(attack=case["id"]):
                self.attack_alone(case, 2, attempts())

    def test_cap_on_rows(self) -> None:
        series = ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT {}) "
                  "SELECT x FROM c")
        answers = {**REFERENCES, "Q01": series.format(1001), "Q02": series.format(1000)}
        run = score(answers, str(self.db), "--max-rows", "1000")
        self.fine(trouble(run, {"Q01": {"too_large"}, "Q02": {"rows"}}))


class TestVariants(SandboxTest):
    """Right on the data, hostile on the small databases that a PASS is tried on beside it."""

    SMALL = "(SELECT COUNT(*) FROM orders) < 500"
    EITHER = "SELECT CASE WHEN {small} THEN ({attack}) ELSE ({right}) END AS n"
    BOTH = "SELECT * FROM ({right}) UNION ALL SELECT * FROM ({attack} LIMIT -({small}))"
    SERIES = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"
    FORGED = "SELECT char(27) || '[31m' || char(8238) || char(10) || '  PASS  Q10  x' || char(0)"
    # What does not end there or fails there is no difference; what comes back may be one.
    ATTACKS = (
        ("endless", EITHER, f"SELECT MAX(x) FROM ({SERIES})", ""),
        ("rows without end", BOTH, SERIES, ""),
        ("too large a cell", EITHER,
         "SELECT REPLACE(PRINTF('%.*c', 900, 'x'), 'x', PRINTF('%.*c', 90000, 'y'))", ""),
        ("an error", EITHER, "SELECT ABS(-9223372036854775807 - 1)", ""),
        ("a long text", EITHER, "SELECT PRINTF('%.*c', 5000000, '=')", "coincidence"),
        ("forged lines", EITHER, FORGED, "coincidence"),
    )

    def test_in_a_batch(self) -> None:
        narrow = [qid for qid in QUESTIONS if qid not in WIDE][:len(self.ATTACKS)]
        answers = {qid: form.format(small=self.SMALL, attack=attack, right=REFERENCES[qid])
                   for qid, (_, form, attack, _) in zip(narrow, self.ATTACKS)}
        run = score({**REFERENCES, **answers}, str(self.db))
        self.fine(trouble(run, {}))
        at = run.table[0].index("reason")
        reasons = {row[0]: row[at] for row in run.table if len(row) > at}
        for qid, (name, _, _, reason) in zip(narrow, self.ATTACKS):
            with self.subTest(name):
                self.assertEqual(reason, reasons[qid], run.out)


class TestOddities(SandboxTest):
    def supported(self, sql: str) -> Optional[str]:
        """Why this SQLite itself refuses a query (too old, lacks a feature), if it does."""
        connection = sqlite3.connect(str(self.db))
        try:
            connection.execute(sql).fetchall()
        except sqlite3.OperationalError as error:
            return str(error)
        except (sqlite3.ProgrammingError, sqlite3.Warning):
            pass  # the driver's opinion on a tail of semicolons
        finally:
            connection.close()
        return None

    def test_oddities_are_scored(self) -> None:
        cases = CASES["oddities"][::1 if LONG else 3]

        def grade(case: Dict[str, Any]) -> Any:
            return score_nl2sql.grade("Q01", sql_of(case), db=str(self.db))

        with ThreadPoolExecutor(4) as pool:
            for case, outcome in zip(cases, pool.map(grade, cases)):
                with self.subTest(oddity=case["id"]):
                    refusal = self.supported(sql_of(case))
                    if refusal:
                        self.skipTest(f"SQLite {sqlite3.sqlite_version}: {refusal}")
                    self.assertEqual(case["verdict"], outcome.verdict, outcome)

    def test_oddities_in_a_file(self) -> None:
        cases = [c for c in CASES["oddities"] if LONG or c.get("file")]

        def run(case: Dict[str, Any]) -> Run:
            return score({"Q01": sql_of(case)}, str(self.db))

        with ThreadPoolExecutor(2) as pool:
            for case, result in zip(cases, pool.map(run, cases)):
                with self.subTest(oddity=case["id"]):
                    refusal = self.supported(sql_of(case))
                    if refusal:
                        self.skipTest(f"SQLite {sqlite3.sqlite_version}: {refusal}")
                    wanted = FAIL_REASONS if case["verdict"] == "FAIL" else ()
                    self.fine(trouble(result, only_q01(wanted)))

    def test_text_that_no_file_can_hold(self) -> None:
        table = (
            ("lone surrogate", "SELECT '\ud800'", "ERROR", {"sql_error"}),
            ("lone surrogate as a name", "SELECT [\udfff] FROM orders", "ERROR", {"sql_error"}),
            ("NUL", "SELECT 1\0", "ERROR", {"sql_error"}),
            ("nothing", "", "SKIP", {"no_sql"}),
            ("comments and semicolons", " ; -- x\n /* y */ ;", "SKIP", {"no_sql"}),
            ("two statements", "SELECT 1; SELECT 2", "ERROR", {"multiple_statements"}),
        )
        for name, sql, verdict, reasons in table:
            with self.subTest(name):
                outcome = score_nl2sql.grade("Q01", sql, db=str(self.db))
                self.assertEqual(verdict, outcome.verdict, outcome)
                self.assertIn(outcome.reason, reasons)


@unittest.skipUnless(POSIX, "names that other systems refuse")
class TestPaths(SandboxTest):
    FAST = ("we#ird/x.db", "a?b/x.db", "50%41/x.db", "sp ace/x.db", "C:\\data\\x.db")
    SLOW = ("a&b=c+d/x.db", "ключ/x.db", "x.db?mode=rwc", "file:x.db", "file:x.db?mode=memory",
            "~/x.db")

    def check(self, path: Path, db: str, cwd: Path) -> None:
        before, names = state(path), files_in([cwd])
        run = score({"Q01": REFERENCES["Q01"]}, db, cwd=cwd)
        self.fine(trouble(run, only_q01()))
        self.assertEqual(before, state(path), "the database or its folder changed")
        self.assertEqual(names, files_in([cwd]))

    def test_names(self) -> None:
        for name in self.FAST + (self.SLOW if LONG else ()):
            with self.subTest(db=name):
                path = self.copy(name)
                self.check(path, name, path.parents[name.count("/")])

    def test_leading_slashes(self) -> None:
        path = self.copy("x.db")
        self.check(path, "/" + str(path), path.parent)

    def test_read_only(self) -> None:
        path = self.copy("locked/x.db")
        path.chmod(0o444)
        path.parent.chmod(0o555)
        self.addCleanup(path.parent.chmod, 0o755)
        self.check(path, str(path), path.parents[1])


class TestWriteAheadLog(SandboxTest):
    def wal(self, name: str) -> Path:
        path = self.copy(name)
        connection = sqlite3.connect(str(path))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        return path

    def pending(self, path: Path) -> sqlite3.Connection:
        """A writer whose last commit, one customer deleted, is in the log alone."""
        writer = sqlite3.connect(str(path))
        self.addCleanup(writer.close)
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("UPDATE customers_v2 SET is_deleted = 1 WHERE customer_id = "
                       "(SELECT MAX(customer_id) FROM customers_v2 WHERE is_deleted = 0)")
        writer.commit()
        return writer

    def check(self, path: Path, live: int) -> None:
        """The count is read as it is with the log; neither file nor folder changes."""
        log = path.with_name(path.name + "-wal")
        before, logged = state(path), log.read_bytes() if log.exists() else b""
        run = score({"Q01": f"SELECT {live}"}, str(path))
        self.fine(trouble(run, only_q01()))
        self.assertEqual(before, state(path), "the database or its folder changed")
        self.assertEqual(logged, log.read_bytes() if log.exists() else b"", "the log changed")

    def test_without_a_log(self) -> None:
        path = self.wal("data/x.db")
        self.assertEqual(["x.db"], state(path)[2])
        self.check(path, self.live(self.db))

    @unittest.skipUnless(POSIX, "folders have no such mode")
    def test_without_a_log_read_only(self) -> None:
        path = self.wal("data/x.db")
        path.chmod(0o444)
        path.parent.chmod(0o555)
        self.addCleanup(path.parent.chmod, 0o755)
        self.check(path, self.live(self.db))

    def test_with_an_open_writer(self) -> None:
        path = self.wal("data/x.db")
        writer = self.pending(path)
        self.check(path, self.live(self.db) - 1)
        writer.execute("UPDATE orders SET status = status WHERE order_id = 1")
        writer.commit()  # nobody holds a lock

    def test_with_the_log_of_a_crash(self) -> None:
        path = self.wal("data/x.db")
        self.pending(path)
        crashed = self.copy("crashed/x.db")
        for end in ("", "-wal"):
            shutil.copyfile(str(path) + end, str(crashed) + end)
        self.check(crashed, self.live(self.db) - 1)


@unittest.skipUnless(LINUX, "needs /proc")
class TestParent(SandboxTest):
    FAST = (("recursion-count", signal.SIGKILL), ("instr", signal.SIGKILL))
    SLOW = (("cte-doubling-30", signal.SIGKILL), ("recursion-rows", signal.SIGTERM),
            ("recursion-count", signal.SIGINT), ("instr", signal.SIGINT))

    def wait_for_work(self, family: Family) -> None:
        """Returns when a child of the command has used a third of a second of processor time."""
        wanted = os.sysconf("SC_CLK_TCK") // 3
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if any(p.ticks >= wanted for pid, p in family.living().items() if pid != family.root):
                return
            time.sleep(0.02)
        self.fail("no worker seen")

    def end_parent(self, sql: str, number: int) -> Tuple[int, List[int], List[str]]:
        """The exit code, the processes left 3 s after the signal, the files that appeared."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part in ("cwd", "tmp"):
                (folder / part).mkdir()
            write_answers(folder / "answers.sql", {**REFERENCES, "Q01": sql})
            child = start(folder, str(self.db), ("--timeout", "60"), folder / "cwd")
            family = Family(child.pid)
            try:
                self.wait_for_work(family)
                os.kill(child.pid, number)
                left = family.left_after(3)
            finally:
                family.kill()
                child.communicate()
            return child.returncode, left, sorted(files_in([folder / "cwd", folder / "tmp"]))

    def test_nothing_outlives_it(self) -> None:
        attacks = {case["id"]: case for case in CASES["attacks"]}
        deaf = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        for attack, number in self.FAST + (self.SLOW if LONG else ()):
            with self.subTest(attack=attack, signal=number.name):
                if number == signal.SIGINT and deaf:
                    self.skipTest("SIGINT is ignored here, and so it is in children")
                code, left, appeared = self.end_parent(sql_of(attacks[attack]), number)
                self.assertEqual(([], []), (left, appeared), "processes, files left")
                self.assertEqual(130 if number == signal.SIGINT else -number, code)


if __name__ == "__main__":
    unittest.main()
