"""Interpreted loops of certified search: arithmetic that Python does not have, the change
to compiled loops in the middle of a search, and work that is known to be large.
"""

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified.bounds import counts
from smoothcruiser.certified.snapshots.snapshot import to_bytes
from smoothcruiser.certified.sweeps import memory_kernel as memory
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.forms import KernelFamily

SALT = np.uint64(2**64 - 3)
TWINS = {
    "slots": (memory.hash_slot, memory.interpreted_hash),
    "numbers": (memory.rounding_number, memory.interpreted_number),
    "log gamma": (counts.log_gamma, counts.interpreted_log_gamma),
}


def arguments_of(name, rng):
    pair, n = int(rng.integers(2**31)), float(rng.integers(1, 2**40))
    reward = float(rng.normal() * 10.0 ** rng.integers(-3, 40))
    return {
        "slots": (pair, int(rng.integers(2**31)), reward, 2**12),
        "numbers": (pair, n, SALT),
        "log gamma": (0.5 * float(rng.integers(1, 2**20)),),
    }[name]


@pytest.mark.compiles
@pytest.mark.parametrize("name", TWINS)
def test_interpreted_arithmetic_is_that_of_compiled_code(name):
    function, interpreted = TWINS[name]
    compiled, rng = compile_function(function), np.random.default_rng(3)
    for _ in range(2_000):
        arguments = arguments_of(name, rng)
        assert compiled(*arguments) == interpreted(*arguments)


def step(state, action, rng):
    return 0.5 * rng.random(), int(state + action + rng.integers(3)) % 7


@pytest.mark.compiles
def test_a_search_that_is_compiled_in_the_middle_has_the_same_memory():
    """Continuous rewards fill the hash table, which both forms read and write."""
    problem = mdp(step, discount=0.6, operator=sc.Entropy(0.2))
    kept = []
    for forms in ((False, False), (True, True), (False, True), (True, False)):
        search = sc.Certified(problem, delta=0.1, seed=5)
        for compiled, budget in zip(forms, (1_500, 3_000), strict=True):
            with CERTIFIED.use_form(compiled=compiled):
                search.query(budget=budget)
        assert search.memory.graph.pairs["length"].max() > memory.MANY_OUTCOMES
        kept.append(to_bytes(search))
    assert len(set(kept)) == 1


def test_work_that_is_known_to_be_large_is_compiled_at_once():
    family = KernelFamily(compiling=5.0)
    family.expect(4.0)
    assert family.is_compiled is None
    family.expect(6.0)
    assert family.is_compiled
