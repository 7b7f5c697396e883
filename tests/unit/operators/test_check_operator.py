"""The operator checker: every built-in operator passes, and each broken one is
caught under the name of what it breaks.
"""

import math

import numpy as np
import pytest

import smoothcruiser as sc


def logsumexp(q):
    return float(q.max() + math.log(np.exp(q - q.max()).sum()))


def softmax(q):
    weight = np.exp(q - q.max())
    return weight / weight.sum()


def custom(value, gradient, smooth, sums=False):
    known = {"smooth": smooth, "label": "mine", "sums_to_one": sums}
    return sc.CustomOperator(value, gradient, **known)


def test_a_custom_operator_with_gradients_below_one_passes():
    """The paper allows 0 < |grad|_1 <= 1: 0.9 logsumexp is such an operator,
    and nothing is said of its sum.
    """
    report = sc.check_operator(
        custom(lambda q: 0.9 * logsumexp(q), lambda q: 0.9 * softmax(q), 0.25 * 0.9)
    )
    assert report.ok, str(report)
    assert [c.name for c in report.conditions] == [
        "constants",
        "differentiable",
        "gradient norm",
        "nonnegative gradient",
        "L-smooth",
        "value at zero",
        "blind policy",
        "unweighted",
        "array forms",
    ]


BROKEN = {
    # The value's true gradient is softmax(q), the one given that of half the
    # temperature.
    "differentiable": custom(logsumexp, lambda q: softmax(2.0 * q), 10.0),
    "gradient norm": custom(
        lambda q: 1.5 * logsumexp(q), lambda q: 1.5 * softmax(q), 1.0
    ),
    "nonnegative gradient": custom(
        lambda q: float(0.7 * q[0] - 0.2 * q[1]),
        lambda q: np.array([0.7, -0.2, 0.0]),
        0.0,
    ),
    # The tight constant of logsumexp is 1/4 (theory, section 2, item 3); 0.2 is too
    # small.
    "L-smooth": custom(logsumexp, softmax, 0.2),
    "sums to one": custom(
        lambda q: 0.9 * logsumexp(q), lambda q: 0.9 * softmax(q), 1.0, sums=True
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_operator_is_caught_under_its_own_name(name):
    report = sc.check_operator(BROKEN[name])
    assert not report.ok
    assert name in report.failures
    # a wrong gradient also breaks the first-order remainder, the others break one
    # thing alone
    if name != "differentiable":
        assert report.failures == (name,)
    condition = report[name]
    assert condition.q is not None
    assert condition.finding
    assert f"FAIL  {name}" in str(report)
    assert condition.finding in " ".join(str(report).split())


def test_a_zero_gradient_is_a_norm_of_zero():
    """F constant on one side: max(q0, 0)^2/20 is smooth and monotone, with
    gradient 0 for q0 <= 0.
    """
    flat = custom(
        lambda q: float(max(q[0], 0.0) ** 2 / 20.0),
        lambda q: np.array([max(q[0], 0.0) / 10.0, 0.0, 0.0]),
        1.0,
    )
    report = sc.check_operator(flat)
    assert report.failures == ("gradient norm",)
    assert "= 0" in report["gradient norm"].finding


def test_nan_and_wrong_lengths_are_named():
    report = sc.check_operator(custom(lambda q: math.nan, softmax, 1.0))
    assert report.failures == ("differentiable",)
    assert "nan" in str(report)
    short = sc.check_operator(custom(logsumexp, lambda q: softmax(q)[:2], 1.0))
    assert short.failures == ("differentiable",)


@pytest.mark.parametrize(
    "bad",
    [
        {"num_actions": 0},
        {"num_actions": 2.5},
        {"samples": 0},
        {"low": 1.0, "high": 1.0},
        {"high": math.inf},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(sc.InvalidInput, match=next(iter(bad))):
        sc.check_operator(sc.Entropy(1.0), **bad)
