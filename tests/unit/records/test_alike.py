"""Results equal their copies: by JSON, by pickle; illegal actions and arrays included."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles


@pytest.fixture(scope="module")
def problem():
    legal = [[True, False], [True, True]]
    moves = np.full((2, 2, 2), 0.5)
    rewards = np.array([[0.25, 0.0], [0.5, 1.0]])
    return sc.tabular(moves, rewards, discount=0.5, operator=sc.Max(), legal=legal)


def test_an_answer_with_an_illegal_action_equals_its_copies(problem):
    answer = sc.plan(problem, method="exact")
    assert np.isnan(answer.q_values[1])
    for twin in (
        sc.Estimate.from_json(answer.to_json()),
        pickle.loads(pickle.dumps(answer)),
    ):
        assert twin == answer
        assert hash(twin) == hash(answer)
    assert answer != replace(answer, q_values=(0.0, 0.0))
    assert answer != replace(answer, value=answer.value + 1e-12)
    assert answer.certificate != replace(answer.certificate, confidence=0.5)
    assert answer != "an answer"


def test_a_solution_equals_its_copy(problem):
    solution = sc.solve(problem)
    twin = sc.Solution.from_json(solution.to_json())
    assert twin == solution
    assert hash(twin) == hash(solution)
    assert replace(solution, values=solution.values + 1e-9) != solution
    assert solution != 0
