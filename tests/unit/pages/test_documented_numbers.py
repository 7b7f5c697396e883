"""Numbers in the docs are those of the evidence that they rest on.

Laws: a number of ``CLAIMS`` stands in its page and in the committed evidence; sums, ranges
and exponents that a page states are those of the rows that it rests on; tables of
the literature's comparisons are the last points of the committed curves; every page of
evidence names the command that wrote it, and its script exists. So a new run of the
evidence that changes a main figure fails here until the page says the new one.
"""

import json
import math
import re
from pathlib import Path

import pytest
from benchmarks.engine import capacity

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"

# page, evidence, numbers as both print them
CLAIMS = [
    ("auto.md", "portfolio.md", ["252", "1.02", "1.07", "1.66", "1.86"]),
    ("auto.md", "portfolio-coverage.md", ["5,400"]),
    ("auto.md", "limits.md", ["264", "0.71"]),
    (
        "certified.md",
        "certified-scaling.md",
        ["181,955", "1,148,187", "8,721,644", "48,537", "515,914", "4,752,659"],
    ),
    ("evaluators.md", "evaluators.md", ["0.45", "0.08", "19.51", "0.49"]),
    ("evaluators.md", "strength.md", ["0.873", "0.718", "0.495", "0.705", "0.703"]),
    ("certified.md", "certified-scaling.md", ["38,432,469", "930,967", "2,500,637"]),
    ("certified.md", "certified.txt", ["511"]),
    ("certified.md", "steering.md", ["483,072", "1,282,560"]),
    ("promises.md", "paid.md", ["241,812,480"]),
    ("theory.md", "paid.md", ["101,553,172"]),
    ("randomized.md", "prices.md", ["3.09", "2.47"]),
    ("statements.md", "prices.md", ["3.09", "2.47"]),
]


def holds(text: str, number: str) -> bool:
    """Whether a text has this number, not as a part of a longer one."""
    return (
        re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d]|[.,]\d)", text) is not None
    )


@pytest.mark.parametrize(
    ("page", "evidence", "number"),
    [(page, evidence, n) for page, evidence, numbers in CLAIMS for n in numbers],
)
def test_a_number_of_the_docs_is_in_its_evidence(page, evidence, number):
    assert holds((DOCS / page).read_text(), number), f"{page} no longer says {number}"
    assert holds((DOCS / "evidence" / evidence).read_text(), number), (
        f"{evidence} has another number now; change {page}"
    )


def test_a_longer_number_is_another_one():
    assert holds("it is 3.09.", "3.09")
    assert not holds("it is 13.09", "3.09")
    assert not holds("it is 3.091", "3.09")
    assert not holds("1,252", "252")


def test_the_share_of_the_price_that_runs_pay():
    """promises.md: mostly after 2 to 25%."""
    rows = re.findall(
        r"^\| [a-z].*γ.*$", (DOCS / "evidence/paid.md").read_text(), re.MULTILINE
    )
    shares = [float(row.split("|")[5]) for row in rows]
    said = re.search(
        r"after (\d+) to (\d+)% of that", (DOCS / "promises.md").read_text()
    )
    assert said is not None
    assert [round(100 * min(shares)), round(100 * max(shares))] == [
        *map(int, said.groups())
    ]


def cells(page: str, start: str) -> list[list[str]]:
    """The cells of those rows of a page's tables that begin so."""
    lines = (DOCS / page).read_text().splitlines()
    rows = [line for line in lines if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_the_runs_and_the_allowance_of_auto_are_the_sums_of_their_rows():
    """auto.md: 5,400 runs; 0 intervals exclude the truth where so many are allowed."""
    rows = [
        [int(cell.replace(",", "")) for cell in row[2:5]]
        for row in cells("evidence/portfolio-coverage.md", "")
        if row[2] != "runs"
    ]
    runs, failures, allowed = map(sum, zip(*rows, strict=True))
    page = (DOCS / "auto.md").read_text()
    assert f"{runs:,} runs on random MDPs" in page
    assert (
        f"{failures} intervals exclude the truth where δ allows {allowed:,};" in page
    )


def test_what_widening_gains():
    """tree-search.md: the errors with 100,000 calls are the last column but one."""
    ((*_, wide, _),) = cells("evidence/widening.md", "BTS, widening 2, 0.25")
    ((*_, plain, _),) = cells("evidence/widening.md", "BTS |")
    off, half = (float(x) for x in wide.split(" / ")[0].split(" ± "))
    said = f"off by {off:.2f} ± {half:.2f} with widening and by {float(plain[:5]):.2f}"
    assert said in (DOCS / "tree-search.md").read_text()


def test_the_orders_of_magnitude_of_the_readme_are_those_of_the_prices():
    """README: the paper's constants ask for 10²⁹ to 10¹¹³ calls and more, ours 10⁴ to 10⁸."""
    rows = [row for row in cells("promises.md", "`") if row[3][0].isdigit()]
    papers = [math.log10(float(row[3])) for row in rows]
    every = [row for row in cells("promises.md", "`") if row[1][0].isdigit()]
    ours = [math.log10(float(row[1].replace(",", ""))) for row in every]
    raised = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    least, most = (str(int(x)).translate(raised) for x in (min(papers), max(papers)))
    low, high = (str(round(x)).translate(raised) for x in (min(ours), max(ours)))
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"10{least} to 10{most} calls and more where 10{low} to 10{high} " in readme


def test_a_price_of_what_can_be_paid_is_todays():
    """scale.md: the third row, as benchmarks/engine/capacity.py prints it."""
    ((_, price, *_),) = cells("scale.md", "0.5, 1, 10, 1%")
    assert price == f"{capacity.schedule(*capacity.PROMISES[2]).num_calls:.2e}"


def last(world: str, method: str) -> tuple[float, float]:
    """The mean and the half-width at the end of a committed curve."""
    curves = json.loads((DOCS / f"evidence/literature/{world}.json").read_text())
    _, mean, half = curves["methods"][method]["curve"][-1]
    return mean, half


CHAIN = ["uct", "ments 1", "ments 0.01", "rents 0.1", "tents 1", "bts 1", "dents 1"]
LITERATURE = [
    ("d-chain-R_f-1", "| R_f = 1 |", CHAIN),
    ("d-chain-R_f-0.5", "| R_f = 0.5 |", CHAIN),
    ("sailing-6-x-6", "| −", ["uct", "uct c=50", "uct c=10", "ments 10", "ments 1"]),
]


@pytest.mark.parametrize(("world", "start", "methods"), LITERATURE)
def test_tables_of_the_literature_are_the_ends_of_their_curves(world, start, methods):
    page = (DOCS / "tree-search.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(start)]
    cells = [cell.strip(" *") for cell in row.strip("|").split("|")]
    cells = cells if start == "| −" else cells[1:]
    for method, cell in zip(methods, cells, strict=False):
        mean, half = last(world, method)
        digits = len(cell.split(" ")[0].split(".")[1])
        shown = f"{mean:.{digits}f}".replace("-", "−")
        assert cell.split(" ")[0] == shown, method
        if "±" in cell:
            assert cell.split("± ")[1] == f"{half:.{digits}f}", method


PAGES = sorted(
    path
    for path in (DOCS / "evidence").rglob("*.md")
    if path.name not in ("index.md", "README.md")
)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_evidence_names_its_command(path):
    text = path.read_text()
    scripts = re.findall(r"python (?:-m )?((?:benchmarks|tests)/[\w/]+\.py)", text)
    modules = re.findall(r"python -m (benchmarks\.[\w.]+)", text)
    scripts += [module.rstrip(".").replace(".", "/") + ".py" for module in modules]
    assert scripts or re.search(r"smoothcruiser \w+|make \w+", text), path
    assert all((ROOT / script).exists() for script in scripts)


def test_evidence_is_small():
    """Files that a diff can show: none above 150 kB."""
    large = [
        f"{path.name}: {path.stat().st_size // 1000} kB"
        for path in (DOCS / "evidence").rglob("*")
        if path.is_file() and path.stat().st_size > 150_000
    ]
    assert large == []
