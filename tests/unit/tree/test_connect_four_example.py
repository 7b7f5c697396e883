"""The network of examples/connect_four_network.py: its inputs, and its two forms.

Laws: ``completing`` names exactly the cells whose stone makes four in a row; the machine
code of a network says what the network over arrays says.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.compiles

EXAMPLES = str(Path(__file__).parents[3] / "examples")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import connect_four_network

    yield connect_four_network
    sys.modules.pop("connect_four_network")


def boards(example, count):
    """Positions after up to 30 random moves, whether they are won or not."""
    rng, found = np.random.default_rng(3), []
    for _ in range(count):
        state = example.Four(0, 0, 0)
        for _ in range(rng.integers(31)):
            free = [a for a in range(7) if example.legal.py_func(state, a)]
            _, state, _ = example.step.py_func(
                state, free[rng.integers(len(free))], None
            )
        found.append(state)
    return found


def test_the_cells_that_complete_four(example, monkeypatch):
    monkeypatch.setattr(example, "four_in_a_row", example.four_in_a_row.py_func)
    for state in boards(example, 60):
        stones, empty = state.x, example.BOARD & ~(state.x | state.o)
        if example.four_in_a_row(stones):
            continue
        expected = sum(
            1 << int(cell)
            for cell in example.CELLS
            if example.four_in_a_row(stones | 1 << int(cell))
        )
        assert example.completing(stones) & empty == expected & empty
        array = np.array([stones])
        assert int(example.completing(array)[0]) & empty == expected & empty


@pytest.mark.slow
def test_the_machine_code_of_a_network_agrees_with_it(example):
    network = example.Network(seed=1)
    answer = example.compiled(network)
    states = boards(example, 60)
    priors, values = network(example.columns(states))
    for state, prior, value in zip(states, priors, values, strict=True):
        weights, own = answer(state)
        assert weights / weights.sum() == pytest.approx(prior, abs=1e-5)
        assert own == pytest.approx(value, abs=1e-5)
