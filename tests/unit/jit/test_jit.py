"""Plain functions rebuilt as compiled ones: the same bits, the right
replacements, a cache that cannot serve a stale function.
"""

import math
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from smoothcruiser.engines.compiled import kernel
from smoothcruiser.jit import build as jit
from smoothcruiser.jit.build import compile_function, is_compiled, source_fingerprint
from smoothcruiser.operators import dispatch as operators

pytestmark = pytest.mark.compiles


def test_is_compiled_tells_dispatchers_from_functions():
    assert is_compiled(njit(lambda x: x))
    assert not is_compiled(math.sqrt)
    assert not is_compiled(lambda x: x)
    assert not is_compiled(None)


def test_the_same_function_is_built_once():
    first = compile_function(operators.entropy_value)
    assert compile_function(operators.entropy_value) is first
    assert compile_function(first) is first


@pytest.mark.parametrize("code", range(5))
def test_operators_have_the_same_bits_compiled(code):
    """Value, gradient and both, over sizes 1 to 6 and temperatures from 0.01 to 100."""
    draw = random.Random(code)
    value, gradient, both = (
        compile_function(f)
        for f in (
            operators.builtin_value,
            operators.builtin_gradient,
            operators.builtin_both,
        )
    )
    for _ in range(300):
        k = draw.randint(1, 6)
        q = [draw.uniform(-3.0, 3.0) for _ in range(k)]
        w = [draw.uniform(0.1, 1.0) for _ in range(k)]
        t = 10.0 ** draw.uniform(-2.0, 2.0)
        slow, fast, fused = [0.0] * k, np.zeros(k), np.zeros(k)
        operators.builtin_gradient(code, q, w, t, slow)
        gradient(code, np.array(q), np.array(w), t, fast)
        assert both(code, np.array(q), np.array(w), t, fused) == value(
            code, np.array(q), np.array(w), t
        )
        assert operators.builtin_value(code, q, w, t) == value(
            code, np.array(q), np.array(w), t
        )
        assert slow == fast.tolist() == fused.tolist()


@njit
def seven(data, state, action, rng):
    return 7.0, False


@njit
def eight(data, state, action, rng):
    return 8.0, False


def test_a_replacement_reaches_inner_calls_and_is_not_confused_with_another():
    """``leaf_total`` calls LEAF: each replacement gets its own machine, and
    neither is cached on disk.
    """
    from smoothcruiser.jit.random.streams import stream

    flag = np.zeros(1, np.int64)
    for step, reward in ((seven, 7.0), (eight, 8.0), (seven, 7.0)):
        leaf = compile_function(kernel.leaf_total, LEAF=step)
        total, status = leaf((), 0, 0, 3, 0.5, 0.0, 10.0, stream(0), flag.ctypes.data)
        assert (total, status) == (3 * (reward + 0.5), kernel.DONE)
        assert leaf.stats.cache_path is None
    assert compile_function(kernel.leaf_total, LEAF=seven) is compile_function(
        kernel.leaf_total, LEAF=seven
    )


def test_a_fingerprint_follows_the_sources_of_a_function(monkeypatch, tmp_path):
    """An edit of a file that a function is made of changes its name in the
    cache; of another file, it does not.
    """
    before = (
        source_fingerprint.__wrapped__(operators.entropy_value),
        source_fingerprint.__wrapped__(kernel.run_shard),
    )
    assert before[0] != before[1]
    original = jit._digest

    def edited(path):
        return b"edited" if path.name == "kernel.py" else original(path)

    monkeypatch.setattr(jit, "_digest", edited)
    after = (
        source_fingerprint.__wrapped__(operators.entropy_value),
        source_fingerprint.__wrapped__(kernel.run_shard),
    )
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_every_compiled_module_the_kernel_reaches_is_in_its_fingerprint():
    """What the kernel reaches only through intrinsics or methods has to be
    named in ``jit._SHARED``.
    """
    root = Path(jit.__file__).parent.parent
    covered = {
        Path(f.__code__.co_filename).resolve()
        for f in jit._reachable(kernel.run_shard)
    } | {root / name for name in jit._SHARED}
    for name in (
        "engines/compiled/kernel.py",
        "jit/random/stream_type.py",
        "jit/random/distributions.py",
        "jit/random/collection_samplers.py",
        "jit/memory.py",
        "jit/memory.py",
        "operators/dispatch.py",
        "operators/entropy.py",
    ):
        assert root / name in covered


def test_importing_the_package_does_not_import_numba():
    code = (
        "import sys, smoothcruiser, smoothcruiser.schedule.compiler.optimizer, "
        "smoothcruiser.theory.moments; print('numba' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ,
        check=True,
    )
    assert result.stdout == "False\n"
