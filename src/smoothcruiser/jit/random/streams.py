"""Random streams: xoshiro256++ with the same bits from Python and from compiled code.

A stream belongs to a position in the work, never to a moment: ``stream(seed,
action, shard)`` seeds it through NumPy's ``SeedSequence(seed,
spawn_key=(action, shard))``, so results do not depend on the worker of a shard, or
on time.

A simulator's ``rng`` is a ``Stream``. Its methods are those of
``numpy.random.Generator`` for one number per call, with the same names,
arguments, defaults and errors:

  random()  integers(low, high=None)  uniform(low=0, high=1)  normal(loc=0, scale=1)
  exponential(scale=1)  gamma(shape, scale=1)  beta(a, b)
  poisson(lam)  binomial(n, p)  geometric(p)
  choice(a, p=None)  permutation(x)  shuffle(x)

and beside them ``categorical(weights)``, an index in proportion to weights,
``raw()``, the next 64 bits, and ``numpy()``, a Generator on the same stream (in
plain Python only).

This file decides the plain-Python form of these methods. Each converts
its arguments and calls the compiled code of ``jit.random.stream_type``,
``distributions`` and ``elements`` (about 1 µs per call), so the two forms
cannot differ.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from operator import index
from typing import Any

import numpy as np

from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.interrupts import unbroken
from smoothcruiser.jit.random import distributions  # noqa: F401 - registers its methods
from smoothcruiser.jit.random.collection_samplers import pick_by_probabilities
from smoothcruiser.jit.random.stream_type import STREAM, below, stream_at

__all__ = [
    "METHODS",
    "STREAM",
    "Stream",
    "from_words",
    "missing_method",
    "stream",
    "stream_at",
    "warm_up",
]

METHODS = (
    "random(), integers(low, high=None), uniform(low=0, high=1), normal(loc=0, "
    "scale=1), exponential(scale=1), gamma(shape, scale=1), beta(a, b), poisson(lam), "
    "binomial(n, p), geometric(p), choice(a, p=None), permutation(x), shuffle(x), "
    "categorical(weights), raw()"
)
TWO63 = 1 << 63
# methods of other generators, and their names here
ELSEWHERE = {
    "rand": "random()",
    "random_sample": "random()",
    "randint": "integers(low, high)",
    "randrange": "integers(low, high)",
    "randn": "normal()",
    "standard_normal": "normal()",
    "gauss": "normal(loc, scale)",
    "choices": "choice(a, p=p)",
    "standard_exponential": "exponential()",
}


def missing_method(name: str) -> str:
    """The error message for a method that a stream lacks."""
    instead = f"; write rng.{ELSEWHERE[name]}" if name in ELSEWHERE else ""
    return (
        f"rng has no method {name!r}{instead}; it has {METHODS}, one number per call, "
        "and in plain Python rng.numpy(), a numpy.random.Generator on the same stream"
    )


class Stream:
    """A stream of random numbers; see the module's head."""

    __slots__ = ("address", "generator", "words")
    _numba_type_ = STREAM  # the Numba type that compiled code sees

    def __init__(self, words: Any) -> None:
        # The four words must not all be zero.
        self.words = np.array([int(word) for word in words], dtype=np.uint64)
        self.address = int(self.words.ctypes.data)
        self.generator: np.random.Generator | None = None

    def __reduce__(self) -> Any:
        return Stream, (
            self.words,
        )  # a copy has memory, and so an address, of its own

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return Stream(self.words)

    def __copy__(self) -> Stream:
        return Stream(self.words)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(missing_method(name))

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        return _random(self.address)  # type: ignore[no-any-return]

    def integers(self, low: int, high: int | None = None) -> int:
        """A uniform whole number in low..high-1, or in 0..low-1 without ``high``."""
        if high is None and type(low) is int and 0 < low < TWO63:
            return _integers(self.address, low)  # type: ignore[no-any-return]
        first_number, end_number = (0, low) if high is None else (low, high)
        try:
            first_number, end_number = index(first_number), index(end_number)
        except TypeError:
            call_text, shown_arguments = (
                "rng.integers(low, high)",
                _show_arguments(low, high),
            )
            raise TypeError(
                f"{call_text} takes whole numbers, got {shown_arguments}; use int()"
            ) from None
        if not -TWO63 <= first_number < end_number <= TWO63:
            call_text = "rng.integers(n) needs n from 1 to 2**63"
            if high is not None:
                call_text = (
                    "rng.integers(low, high) needs -2**63 <= low < high <= 2**63"
                )
            raise ValueError(f"{call_text}, got {_show_arguments(low, high)}")
        return _between(self.address, first_number, end_number - 1)  # type: ignore[no-any-return]

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A uniform number in [low, high)."""
        return self._sample(_uniform, float(low), float(high))  # type: ignore[no-any-return]

    def normal(self, loc: float = 0.0, scale: float = 1.0) -> float:
        """A normal number with mean ``loc`` and standard deviation ``scale``."""
        return self._sample(_normal, float(loc), float(scale))  # type: ignore[no-any-return]

    def exponential(self, scale: float = 1.0) -> float:
        """An exponential number with mean ``scale``."""
        return self._sample(_exponential, float(scale))  # type: ignore[no-any-return]

    def gamma(self, shape: float, scale: float = 1.0) -> float:
        """A gamma number with mean ``shape * scale``."""
        return self._sample(_gamma, float(shape), float(scale))  # type: ignore[no-any-return]

    def beta(self, a: float, b: float) -> float:
        """A beta number with mean ``a / (a + b)``."""
        return self._sample(_beta, float(a), float(b))  # type: ignore[no-any-return]

    def poisson(self, lam: float) -> int:
        """A Poisson count with mean ``lam``."""
        return self._sample(_poisson, float(lam))  # type: ignore[no-any-return]

    def binomial(self, n: int, p: float) -> int:
        """The number of successes in ``n`` trials of probability ``p``."""
        return self._sample(_binomial, _trial_count(n), float(p))  # type: ignore[no-any-return]

    def geometric(self, p: float) -> int:
        """The number of trials of probability ``p`` up to the first success: 1, 2, …"""
        return self._sample(_geometric, float(p))  # type: ignore[no-any-return]

    def categorical(self, weights: Any) -> int:
        """An index in proportion to ``weights`` >= 0, which need not sum to 1."""
        weight_row = _number_row(weights, "rng.categorical(weights)")
        return self._sample(_categorical, weight_row)  # type: ignore[no-any-return]

    def choice(self, a: Any, p: Any = None) -> Any:
        """An element of ``a``, or of 0..a-1 where ``a`` is a whole number.

        ``p`` are the elements' probabilities; by default they are equal.
        """
        call_text = "rng.choice(a, p)"
        num_elements, elements = _count_elements(a, call_text)
        if num_elements < 1:
            raise ValueError(
                f"{call_text} needs at least one element to choose from, got {a!r:.80}"
            )
        if p is None:
            chosen_index = self.integers(num_elements)
        else:
            probabilities = _number_row(p, call_text)
            if len(probabilities) != num_elements:
                got_text = f"got {len(probabilities)} for {num_elements}"
                raise ValueError(
                    f"{call_text} needs one probability in p for every element of a, {got_text}"
                )
            chosen_index = self._sample(_choose_index, probabilities)
        if elements is None:
            return chosen_index
        return (
            np.copy(elements[chosen_index])
            if np.ndim(elements) > 1
            else elements[chosen_index]
        )

    def permutation(self, x: Any) -> Any:
        """An array of 0..x-1, or of the elements of ``x``, in random order."""
        num_elements, elements = _count_elements(x, "rng.permutation(x)")
        order = self._sample(_order, num_elements)
        return order if elements is None else np.asarray(elements)[order]

    def shuffle(self, x: Any) -> None:
        """Put the elements of an array or a list in random order, in place."""
        if isinstance(x, np.ndarray) and x.ndim > 0:
            x[...] = x[_order(self.address, len(x))]
        elif isinstance(x, MutableSequence):
            old_elements = list(x)
            for i, k in enumerate(_order(self.address, len(x))):
                x[i] = old_elements[k]
        else:
            raise TypeError(
                f"rng.shuffle(x) takes an array or a list, got {type(x).__name__}"
            )

    def raw(self) -> int:
        """The next 64 bits."""
        return int(_raw(self.address))

    def numpy(self) -> np.random.Generator:
        """A Generator that takes its bits from this stream; always the same object."""
        if self.generator is None:
            from smoothcruiser.jit.random.generator import stream_generator

            self.generator, bits = stream_generator()
            bits.bind(self)
        return self.generator

    def _sample(self, law: Any, *arguments: Any) -> Any:
        """A number sampled by compiled code, with a full message if it fails.

        The constant message of compiled code cannot show the arguments, so they
        are added.
        """
        try:
            return law(self.address, *arguments)
        except ValueError as error:
            raise ValueError(f"{error}, got {_show_arguments(*arguments)}") from None


def _show_arguments(*arguments: Any) -> str:
    shown_values = [
        x.tolist() if isinstance(x, np.ndarray) else x
        for x in arguments
        if x is not None
    ]
    joined_text = " and ".join(repr(x) for x in shown_values)
    return joined_text if len(joined_text) <= 80 else joined_text[:77] + "..."


def _trial_count(n: Any) -> int:
    """A number of trials, at most 2**62.

    That is above every law's limit and fits compiled code.
    """
    try:
        return max(-1, min(index(n), 1 << 62))
    except TypeError:
        call_text = "rng.binomial(n, p)"
        raise TypeError(
            f"{call_text} takes a whole number as n, got {n!r}; use int()"
        ) from None


def _number_row(values: Any, call: str) -> Any:
    """Weights or probabilities as an array, in the form that compiled code takes."""
    row = np.array(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"{call} needs one row of numbers, got shape {row.shape}")
    return row


def _count_elements(a: Any, call: str) -> tuple[int, Any]:
    """(number of elements, the elements or None where they are 0..a-1)."""
    if isinstance(a, Sequence) and not isinstance(a, str | bytes):
        return len(a), a
    elements = np.asarray(a)
    if elements.ndim > 0:
        return len(elements), elements
    try:
        return index(a), None
    except TypeError:
        type_name = type(a).__name__
        takes_text = "takes a whole number or a list, a tuple or an array"
        raise TypeError(f"{call} {takes_text}, got {type_name}") from None


# --- compiled code, called from Python with a stream's address ----------------


def compile_unbroken(function: Any) -> Any:
    """Compile a function at its first use, which no Ctrl-C and no time limit breaks off.

    That use is in a call of the user's step, which they may end. Half a module left
    to LLVM crashes the process later, and the next use would begin anew.
    """
    dispatcher = compile_function(function)
    compile_signature = dispatcher.compile

    def compile_whole(signature: Any) -> Any:
        with unbroken():
            return compile_signature(signature)

    dispatcher.compile = compile_whole
    return dispatcher


@compile_unbroken
def _integers(address: int, n: int) -> Any:
    return stream_at(address).integers(n)


@compile_unbroken
def _between(address: int, first: int, last: int) -> Any:
    start = np.uint64(first)
    range_size = np.uint64(last) - start + np.uint64(1)
    return np.int64(start + below(stream_at(address), range_size))


@compile_unbroken
def _raw(address: int) -> Any:
    return stream_at(address).raw()


@compile_unbroken
def _random(address: int) -> Any:
    return stream_at(address).random()


@compile_unbroken
def _uniform(address: int, low: float, high: float) -> Any:
    return stream_at(address).uniform(low, high)


@compile_unbroken
def _normal(address: int, loc: float, scale: float) -> Any:
    return stream_at(address).normal(loc, scale)


@compile_unbroken
def _exponential(address: int, scale: float) -> Any:
    return stream_at(address).exponential(scale)


@compile_unbroken
def _gamma(address: int, shape: float, scale: float) -> Any:
    return stream_at(address).gamma(shape, scale)


@compile_unbroken
def _beta(address: int, a: float, b: float) -> Any:
    return stream_at(address).beta(a, b)


@compile_unbroken
def _poisson(address: int, lam: float) -> Any:
    return stream_at(address).poisson(lam)


@compile_unbroken
def _binomial(address: int, n: int, p: float) -> Any:
    return stream_at(address).binomial(n, p)


@compile_unbroken
def _geometric(address: int, p: float) -> Any:
    return stream_at(address).geometric(p)


@compile_unbroken
def _categorical(address: int, weights: Any) -> Any:
    return stream_at(address).categorical(weights)


@compile_unbroken
def _choose_index(address: int, p: Any) -> Any:
    return pick_by_probabilities(stream_at(address), p)


@compile_unbroken
def _order(address: int, size: int) -> Any:
    return stream_at(address).permutation(size)


def from_words(words: Any) -> Stream:
    """The stream with the state ``words``: four numbers, not all zero."""
    return Stream(words)


def stream(seed: int, *key: int) -> Stream:
    """The stream of position ``key`` under ``seed``."""
    return Stream(
        np.random.SeedSequence(seed, spawn_key=key).generate_state(4, np.uint64)
    )


def warm_up() -> None:
    """Load or compile the methods that simulators use most, before a clock starts.

    Their first use in a process may take a second or two.
    """
    rng = stream(0)
    rng.random(), rng.integers(2), rng.normal()
