"""The recipe for an operator: one file, and every planner and executor takes it.

Its values have a closed form here: with all k actions legal, F is sparsemax
less b = (t/2)(1 - 1/k), and F(Q + c) = F(Q) + c, so V = V_sparsemax -
b/(1 - discount) in every state.
"""

import numpy as np
import pytest
from recipes import written

import smoothcruiser as sc
from smoothcruiser.exact.policy_value import policy_value
from smoothcruiser.operators import OPERATORS
from smoothcruiser.schedule.relaxation import relax, step_band

DISCOUNT, TEMPERATURE, K = 0.4, 0.5, 3
BONUS = 0.5 * TEMPERATURE * (1.0 - 1.0 / K)
PROMISE = {"epsilon": "30%", "delta": 0.1}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The page's code as a module; its registration is undone afterwards."""
    before = dict(OPERATORS)
    with written("An operator", tmp_path_factory.mktemp("recipe")) as module:
        yield module
    OPERATORS.clear()
    OPERATORS.update(before)


@pytest.fixture(scope="module")
def truth(recipe):
    return sc.plan(recipe.problem, 0, method="exact")


def test_it_keeps_the_conditions_of_the_promises(recipe):
    for k in (1, 2, 5):
        report = sc.check_operator(recipe.CentredSparsemax(TEMPERATURE), k)
        assert report.ok, str(report)


def test_exact_values_have_the_closed_form(recipe, truth):
    sparsemax = sc.make(
        "garnet:states=8,actions=3",
        discount=DISCOUNT,
        temperature=TEMPERATURE,
        operator="sparsemax",
    )
    other = sc.plan(sparsemax, 0, method="exact")
    assert recipe.problem.operator == recipe.CentredSparsemax(TEMPERATURE)
    assert truth.value == pytest.approx(other.value - BONUS / (1.0 - DISCOUNT))
    assert truth.policy == pytest.approx(other.policy)


def test_plans_keep_their_promise_and_the_bits_of_every_executor(recipe, truth):
    """|estimate - Q| <= epsilon for every action, and the price is the one that
    ``explain`` named; batches have bits of their own.
    """
    schedule = sc.explain(recipe.problem, 0, method="smoothcruiser", **PROMISE)
    values = {}
    for executor in ("compiled", "reference", "python", "batched"):
        found = sc.run(recipe.problem, schedule, 0, executor=executor, seed=3)
        values[executor] = found.value
        assert found.num_calls <= schedule.num_calls
        assert found.q_values == pytest.approx(truth.q_values, abs=found.epsilon)
    assert values["compiled"] == values["reference"] == values["python"]


def test_certified_search_encloses_the_truth(recipe, truth):
    found = sc.plan(recipe.problem, 0, method="certified", seed=3, **PROMISE)
    assert (
        found.certificate.interval[0] <= truth.value <= found.certificate.interval[1]
    )
    assert any("CentredSparsemax" in note for note in found.certificate.assumptions)


def test_a_policy_is_evaluated_with_its_regularizer(recipe):
    """Rollouts, compiled and plain, against the linear equations of the policy."""
    policy = np.full((8, K), 1.0 / K)
    policy[:, 0], policy[:, 1] = 0.5, 0.5 - 1.0 / K
    policy[:, 2] = 1.0 - policy[:, 0] - policy[:, 1]
    value = policy_value(recipe.problem, policy)[0]
    for executor in (None, "reference"):
        found = sc.evaluate(
            recipe.problem, policy, 0, budget=4_000, delta=1e-3, executor=executor
        )
        assert abs(found.value - value) <= found.epsilon


def test_tree_search_and_relaxation_take_it(recipe):
    found = sc.plan(recipe.problem, 0, method="uct", simulations=50, certify=True)
    assert sum(found.policy) == pytest.approx(1.0)
    facts = recipe.problem.facts
    assert step_band(facts) == (-BONUS, 0.0)
    plan = relax(facts, epsilon=1.0, delta=0.1, family=recipe.CentredSparsemax)
    assert isinstance(plan.operator, recipe.CentredSparsemax | sc.Max)


def test_a_name_is_given_once(recipe):
    from smoothcruiser.operators import register

    with pytest.raises(sc.InvalidInput, match="registered already"):
        register(recipe.CentredSparsemax)
