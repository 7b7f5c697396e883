"""What ``plan`` shows before it runs: every promise, whoever keeps it."""

from __future__ import annotations

import pytest

import smoothcruiser as sc
from smoothcruiser.display.plans import foreseen_page, request_rows
from smoothcruiser.display.terminal import text_of


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
