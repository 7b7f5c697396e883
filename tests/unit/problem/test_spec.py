"""Specs: a problem as plain data, and the same problem again.

Laws: what ``make`` built can be rebuilt from its spec, after a trip through JSON, with
the same facts and the same samples; a spec holds nothing but what ``make`` was called
with.
"""

import json

import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.problem.make import from_spec

MODEL = sc.tabular(
    [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]],
    [[0.0, 1.0], [0.5, 0.25]],
    discount=0.5,
    operator=sc.Max(),
)


@pytest.mark.compiles
@pytest.mark.parametrize(
    "text, options",
    [
        ("chain:n=4", {"discount": 0.3, "temperature": 2.0, "operator": None}),
        ("garnet:seed=3", {"discount": 0.9, "operator": "max"}),
        (f"{__name__}:MODEL", {}),
        (f"{__name__}:MODEL", {"temperature": 0.5, "operator": "sparsemax"}),
    ],
)
def test_a_problem_is_rebuilt_from_its_spec(text, options):
    problem = sc.make(text, **options)
    again = from_spec(json.loads(json.dumps(problem.spec)))
    usual = dict.fromkeys(("discount", "temperature", "operator"))
    assert again.spec == problem.spec == {"problem": text, **usual, **options}
    assert again.facts == problem.facts
    assert again.name == problem.name
    for action in range(problem.num_actions):
        samples = [p.oracle(0, action, stream(1, action)) for p in (problem, again)]
        assert samples[0] == samples[1]


def test_an_operator_object_is_kept_by_name_only():
    """Whoever rebuilds such a problem has to compare its facts."""
    problem = sc.make("chain:n=5", discount=0.2, operator=sc.Sparsemax(3.0))
    assert problem.spec["operator"] == "sparsemax"
    with pytest.raises(sc.InvalidInput, match="needs a temperature"):
        from_spec(problem.spec)
