"""Text that is not ours cannot command a terminal or a browser; plans and prices in words."""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.table import Table
from rich.text import Text

import smoothcruiser as sc
from smoothcruiser.cli.exit_codes import complain
from smoothcruiser.display.answer_pages import answer_blocks
from smoothcruiser.display.document import Page
from smoothcruiser.display.listing_pages import request_page, runs_page
from smoothcruiser.display.page import answer_page, html_document
from smoothcruiser.display.plans import foreseen_page, request_rows
from smoothcruiser.display.price_text import rivals, time_sentence
from smoothcruiser.display.terminal import (
    SafeConsole,
    console,
    print_block,
    print_blocks,
    print_page,
    show,
    text_of,
)
from smoothcruiser.errors import printable
from smoothcruiser.schedule.number_text import bounds, duration, rate

# colours, a link, a window title, overwriting, right-to-left, hidden, a broken byte
HOSTILE = "\x1b[31mred\x1b]8;;x\x07a\rb\bc\u202ed\u200be\u2028f\udcff\x9b0m"


def clean(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def test_what_a_terminal_would_obey_is_written_out():
    assert printable("plain Ω ± █") == "plain Ω ± █"
    assert printable("a\x1bb\u202ec\r\n\t") == "a\\x1bb\\u202ec\\r\n\t"
    assert printable("a\nb", keep="") == "a\\nb"


@pytest.mark.parametrize("coloured", [False, True])
def test_a_console_escapes_strings_cells_and_styled_text(coloured):
    out = SafeConsole()
    out.file = StringIO()
    table = Table()
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    styled = Text("an error: ").append(HOSTILE, style="bold red" if coloured else "")
    for block in (HOSTILE, table, styled):
        print_block(out, block)
    print_page(out, Page(("smoothcruiser plan", HOSTILE + "\nvalue 3"), ()))
    shown = out.file.getvalue()
    assert clean(shown)
    assert shown.count("\\x1b[31mred") >= 3
    assert "\\nvalue 3" in shown  # a name cannot fake a line


def test_styles_survive_where_characters_are_escaped():
    out = SafeConsole()
    segments = out.render(Text("a\x1bb", style="bold"))
    kept = [s for s in segments if s.text.strip()]
    assert "".join(s.text for s in kept) == "a\\x1bb"
    assert all(s.style and s.style.bold for s in kept)


class StoredRun:
    def to_dict(self) -> dict[str, object]:
        numbers = {"run": 1, "epsilon": 0.1, "delta": 0.1, "calls_done": 3}
        texts = {"problem": HOSTILE, "method": HOSTILE, "status": "open"}
        return numbers | texts | {"num_calls": 5, "log10_calls": 0.7}


@pytest.mark.compiles
def test_names_notes_states_paths_and_errors_are_escaped(capsys):
    problem = sc.make("chain:n=3", discount=0.5, temperature=1.0)
    hostile = replace(problem, name=HOSTILE)
    answer = sc.plan(problem, method="exact")
    noted = replace(answer, notes=(HOSTILE,), run=1)
    show(request_page("plan", hostile, HOSTILE))
    print_blocks(console(), answer_blocks(noted, store=HOSTILE))
    show(runs_page(HOSTILE, [StoredRun()]))
    complain(f"no file {HOSTILE}\nbut another")
    caught = capsys.readouterr()
    assert clean(caught.out)
    assert clean(caught.err)
    assert "\\x1b[31mred" in caught.out
    assert caught.err.startswith("Error: no file \\x1b[31mred")


@pytest.mark.compiles
def test_a_page_forbids_scripts_and_requests_and_holds_none():
    script = "<script>alert(1)</script><img src=//x onerror=y>\x1b[31m"
    problem = sc.make("chain:n=3", discount=0.5, temperature=1.0)
    answer = sc.plan(problem, method="exact")
    loud = replace(answer, problem=script, state=script, notes=(script,), run=1)
    text = html_document(answer_page(loud, problem=problem, store=script))
    meta = re.search(
        r'"Content-Security-Policy" content="([^"]+)"', html.unescape(text)
    )
    rules = {r.split()[0]: r.split()[1:] for r in meta[1].split(";")}
    assert rules["default-src"] == ["'none'"]
    whole = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(whole.encode()).digest()).decode()
    assert rules["style-src"] == [f"'sha256-{digest}'"]
    assert not re.search(r"<(script|img|link|iframe|object)\b", text)
    assert not re.search(r"<[^>]*\s(on\w+|style)=", text)
    assert "&lt;script&gt;" in text
    assert "\x1b" not in text


def test_the_last_bits_of_an_end_are_not_rounded_to_a_hundredth():
    """Ends that were rounded outwards by one unit print as what was declared."""
    assert bounds(math.nextafter(-1.0, -2.0), math.nextafter(1.0, 2.0), 2) == (
        "[-1.00, 1.00]"
    )
    assert bounds(-1.001, 1.001, 2) == "[-1.01, 1.01]"
    assert bounds(-math.inf, 0.5, 1) == "[-inf, 0.5]"


# --- what plan shows before it runs -------------------------------------------


def ring(state: int, action: int, rng) -> tuple[float, int]:
    return 0.5 * rng.integers(2), (state + action) % 3


def shown(**asked) -> dict[str, str]:
    problem = sc.MDP(
        ring, num_actions=2, discount=0.9, operator=sc.Max(), initial_state=0
    )
    ready = sc.prepare(problem, method="certified", **asked)
    return {name: str(text) for name, text in request_rows(ready)}


@pytest.mark.parametrize(
    ("asked", "promise"),
    [
        (
            {"epsilon": "5%"},
            "within ±0.5 (5% of the value span 10) with probability 0.9",
        ),
        ({"epsilon": 1, "target": "value"}, "the value within ±1 (10% of"),
        ({"epsilon": 1, "budget": 5000}, "0.9, if possible within 5,000 calls"),
        ({"epsilon": "2% of value"}, "within 2% of the value with probability 0.9"),
        (
            {"budget": 50, "seconds": 2},
            "as narrow as possible within 50 calls and 2 s",
        ),
    ],
)
def test_a_promise_is_told_with_its_limits(asked, promise):
    assert promise in shown(delta=0.1, **asked)["promise"]


def test_a_choice_is_told_once():
    problem = sc.MDP(
        lambda s, a, rng: (rng.random(), rng.random()),
        num_actions=2, discount=0.97, operator=sc.Max(), initial_state=0.5,
    )  # fmt: skip
    ready = sc.prepare(problem, epsilon="5%", delta=0.1)
    text = " ".join(text_of(foreseen_page(problem, ready), 80).split())
    assert text.count("auto chose") == 1


# --- prices in words ----------------------------------------------------------


def test_times_are_said_as_a_person_would():
    cases = {
        0.01: "under 0.1 s",
        0.3: "0.3 s",
        61: "61 s",
        600: "10 min",
        10_000: "2.8 h",
        1e6: "12 days",
        1e10: "317 years",
    }
    assert {seconds: duration(seconds) for seconds in cases} == cases
    assert duration(1e60) == "3.2e52 years"
    assert rate(5e7) == "50 M calls/s"
    told = time_sentence(10**8, 5e7, measured=False)
    assert "about 2.0 s on one core at 50 M calls/s" in told
    assert "years" in time_sentence(10**400, 5e7, measured=True)
    assert "unknown" in time_sentence(10, None, measured=False)


def test_rivals_say_why_they_have_no_price():
    """The paper's analysis needs a discount below 1: with a horizon and
    discount 1 it has no price, and the note says so.
    """
    facts = {"discount": 1.0, "operator": sc.Entropy(1.0), "horizon": 2}
    step = lambda s, a, r: (0.0, s)  # noqa: E731
    problem = sc.MDP(step, num_actions=2, initial_state=0, **facts)
    price = rivals(sc.explain(problem, epsilon="20%", delta=0.1))[-1]
    assert price.num_calls is None
    assert price.log10 is None
    assert "discount" in price.note
