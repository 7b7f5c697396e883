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

A step in plain Python draws from four Python ints: no Numba, nothing to compile, 0.9 µs
for a uniform number. Compiled code sees the address of four words in memory, where the
state moves when compiled code or a reader asks for it (``address``, ``words``) and from
where the next plain call takes it back. A stream with a Generator stays there
(``share``).

The laws are the functions of ``jit.random.distributions`` and ``collection_samplers``,
interpreted at first, at 2 to 10 µs per number. A process that draws so many of them that
compiling would have paid changes over, at 1 µs; the numbers are the same.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from operator import index
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from smoothcruiser.jit.random import collection_samplers, distributions
from smoothcruiser.run_control.clock import pause_clock
from smoothcruiser.run_control.stop_requests import unbroken

__all__ = ["METHODS", "Stream", "from_words", "missing_method", "stream"]

METHODS = (
    "random(), integers(low, high=None), uniform(low=0, high=1), normal(loc=0, "
    "scale=1), exponential(scale=1), gamma(shape, scale=1), beta(a, b), poisson(lam), "
    "binomial(n, p), geometric(p), choice(a, p=None), permutation(x), shuffle(x), "
    "categorical(weights), raw()"
)
TWO32, TWO63, TWO64 = 1 << 32, 1 << 63, 1 << 64
LOW32, LOW53, LOW64 = TWO32 - 1, (1 << 53) - 1, TWO64 - 1
STEP53 = 2.0**-53
# Numbers by law, or elements of collections, that are sampled in plain Python: 3 µs each
# more than compiled ones, together the 1.5 CPU seconds of loading Numba and compiling a law
LAWS_IN_PYTHON = 500_000
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

    # ``_s0`` is None while the state is in memory
    __slots__ = ("_address", "_memory", "_s0", "_s1", "_s2", "_s3", "generator")
    # the function of ``stream_type`` that calls a compiled law with such a stream
    entry_name = "call_at"
    signed_mask = 0  # the bits that a mirrored stream flips

    def __init__(self, words: Any) -> None:
        # The four words must not all be zero.
        self._s0: int | None
        self._s0, self._s1, self._s2, self._s3 = map(int, words)
        self._memory: Any = None
        self._address = 0
        self.generator: np.random.Generator | None = None

    def __reduce__(self) -> Any:
        return Stream, (self.words.tolist(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return Stream(self.words.tolist())

    def __copy__(self) -> Stream:
        return Stream(self.words.tolist())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(missing_method(name))

    @property
    def _numba_type_(self) -> Any:
        """The Numba type that compiled code sees."""
        from smoothcruiser.jit.random.stream_type import STREAM

        return STREAM

    @property
    def address(self) -> int:
        """The place of the state in memory, until the next number in plain Python."""
        if self._s0 is not None:
            if self._memory is None:
                self._memory = np.empty(4, dtype=np.uint64)
                self._address = int(self._memory.ctypes.data)
            self._memory[:] = self._s0, self._s1, self._s2, self._s3
            self._s0 = None
        return self._address

    @property
    def words(self) -> Any:
        """The state, an array to read or to write before the next number."""
        return self._memory if self.address else None

    def _take_words(self) -> int:
        """Take the state back from memory; its first word."""
        first_word, self._s1, self._s2, self._s3 = self._memory.data
        self._s0 = first_word
        return first_word  # type: ignore[no-any-return]

    def share(self) -> int:
        """The address of the state, which is in memory from now on."""
        self.__class__ = SharedStream
        return self.address

    def raw(self) -> int:
        """The next 64 bits."""
        s0 = self._s0
        if s0 is None:
            s0 = self._take_words()
        s1, s3 = self._s1, self._s3
        s2, outer_sum = self._s2 ^ s0, s0 + s3 & LOW64
        s3 ^= s1
        self._s0, self._s1 = s0 ^ s3, s1 ^ s2
        self._s2, self._s3 = s2 ^ (s1 << 17 & LOW64), (s3 << 45 | s3 >> 19) & LOW64
        return (outer_sum << 23 | outer_sum >> 41) + s0 & LOW64

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        s0 = self._s0  # ``raw``, written out: a call is a third of its time
        if s0 is None:
            s0 = self._take_words()
        s1, s3 = self._s1, self._s3
        s2, outer_sum = self._s2 ^ s0, s0 + s3 & LOW64
        s3 ^= s1
        self._s0, self._s1 = s0 ^ s3, s1 ^ s2
        self._s2, self._s3 = s2 ^ (s1 << 17 & LOW64), (s3 << 45 | s3 >> 19) & LOW64
        return ((outer_sum << 23 | outer_sum >> 41) + s0 >> 11 & LOW53) * STEP53

    def integers(self, low: int, high: int | None = None) -> int:
        """A uniform whole number in low..high-1, or in 0..low-1 without ``high``."""
        if high is None and type(low) is int and 0 < low < TWO32:
            s0 = self._s0  # ``raw``, written out
            if s0 is None:
                s0 = self._take_words()
            s1, s3 = self._s1, self._s3
            s2, outer_sum = self._s2 ^ s0, s0 + s3 & LOW64
            s3 ^= s1
            self._s0, self._s1 = s0 ^ s3, s1 ^ s2
            self._s2, self._s3 = s2 ^ (s1 << 17 & LOW64), (s3 << 45 | s3 >> 19) & LOW64
            product = ((outer_sum << 23 | outer_sum >> 41) + s0 >> 32 & LOW32) * low
            if product & LOW32 < low:
                rejection_floor = (TWO32 - low) % low
                while product & LOW32 < rejection_floor:
                    product = (self.raw() >> 32) * low
            return product >> 32
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
        return first_number + self._below(end_number - first_number)

    def _below(self, size: int) -> int:
        """A uniform whole number in 0..size-1, as ``stream_type.below``."""
        if size < TWO32:
            return self.integers(size)
        rejection_floor, bits = TWO64 % size, self.raw()
        while bits < rejection_floor:
            bits = self.raw()
        return bits % size

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """A uniform number in [low, high)."""
        return self._sample("uniform", float(low), float(high))  # type: ignore[no-any-return]

    def normal(self, loc: float = 0.0, scale: float = 1.0) -> float:
        """A normal number with mean ``loc`` and standard deviation ``scale``."""
        return self._sample("normal", float(loc), float(scale))  # type: ignore[no-any-return]

    def exponential(self, scale: float = 1.0) -> float:
        """An exponential number with mean ``scale``."""
        return self._sample("exponential", float(scale))  # type: ignore[no-any-return]

    def gamma(self, shape: float, scale: float = 1.0) -> float:
        """A gamma number with mean ``shape * scale``."""
        return self._sample("gamma", float(shape), float(scale))  # type: ignore[no-any-return]

    def beta(self, a: float, b: float) -> float:
        """A beta number with mean ``a / (a + b)``."""
        return self._sample("beta", float(a), float(b))  # type: ignore[no-any-return]

    def poisson(self, lam: float) -> int:
        """A Poisson count with mean ``lam``."""
        return self._sample("poisson", float(lam))  # type: ignore[no-any-return]

    def binomial(self, n: int, p: float) -> int:
        """The number of successes in ``n`` trials of probability ``p``."""
        return self._sample("binomial", _trial_count(n), float(p))  # type: ignore[no-any-return]

    def geometric(self, p: float) -> int:
        """The number of trials of probability ``p`` up to the first success: 1, 2, …"""
        return self._sample("geometric", float(p))  # type: ignore[no-any-return]

    def categorical(self, weights: Any) -> int:
        """An index in proportion to ``weights`` >= 0, which need not sum to 1."""
        weight_row = _number_row(weights, "rng.categorical(weights)")
        return self._sample("categorical", weight_row, work=len(weight_row))  # type: ignore[no-any-return]

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
            chosen_index = self._sample(
                "pick_by_probabilities", probabilities, work=num_elements
            )
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
        order = np.array(self._order(num_elements), dtype=np.int64)
        return order if elements is None else np.asarray(elements)[order]

    def shuffle(self, x: Any) -> None:
        """Put the elements of an array or a list in random order, in place."""
        if isinstance(x, np.ndarray) and x.ndim > 0:
            x[...] = x[np.array(self._order(len(x)), dtype=np.int64)]
        elif isinstance(x, MutableSequence):
            old_elements = list(x)
            for i, k in enumerate(self._order(len(x))):
                x[i] = old_elements[k]
        else:
            raise TypeError(
                f"rng.shuffle(x) takes an array or a list, got {type(x).__name__}"
            )

    def _order(self, size: int) -> Any:
        """0..size-1 in random order."""
        return self._sample("order", size, work=size)

    def numpy(self) -> np.random.Generator:
        """A Generator that takes its bits from this stream; always the same object.

        Its bits are drawn by compiled code.
        """
        if self.generator is None:
            from smoothcruiser.jit.random.generator import stream_generator

            self.generator, bits = stream_generator()
            bits.bind(self)
        return self.generator

    def _sample(self, law: str, *arguments: Any, work: int = 1) -> Any:
        """A number by a law, with a full message if it fails.

        The constant message of a law cannot show the arguments, so they are added.
        """
        global _sampled
        _sampled += work
        try:
            if _sampled <= LAWS_IN_PYTHON:
                return _PYTHON_LAWS[law](self, *arguments)
            law_function = _compiled_law(law, self.entry_name)
            return law_function(self.address, *map(_to_array, arguments))
        except ValueError as error:
            raise ValueError(f"{error}, got {_show_arguments(*arguments)}") from None


class SharedStream(Stream):
    """A stream whose state is in memory between any two calls.

    Somebody else draws from it there: a Generator.
    """

    __slots__ = ()

    def raw(self) -> int:
        """The next 64 bits."""
        try:
            return Stream.raw(self)
        finally:
            self.share()

    def random(self) -> float:
        """A uniform number in [0, 1)."""
        try:
            return Stream.random(self)
        finally:
            self.share()

    def integers(self, low: int, high: int | None = None) -> int:
        """A uniform whole number in low..high-1, or in 0..low-1 without ``high``."""
        try:
            return Stream.integers(self, low, high)
        finally:
            self.share()


def _show_arguments(*arguments: Any) -> str:
    joined_text = " and ".join(repr(x) for x in arguments if x is not None)
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
    """Weights or probabilities as a list of floats."""
    row = np.array(values, dtype=np.float64)
    if row.ndim != 1:
        raise ValueError(f"{call} needs one row of numbers, got shape {row.shape}")
    return row.tolist()


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


# --- the two forms of the laws ------------------------------------------------


class _Numbers:
    """The functions of NumPy that laws call, for Python numbers."""

    int64, float64 = int, float

    @staticmethod
    def arange(size: int) -> list[int]:
        return list(range(size))


def _python_laws(module: ModuleType) -> dict[str, Any]:
    """Copies of a module's functions over Python numbers; they call each other."""
    scope = vars(module) | {"np": _Numbers}
    for name, function in vars(module).items():
        if isinstance(function, FunctionType):
            scope[name] = FunctionType(
                function.__code__, scope, name, function.__defaults__
            )
    return scope


_PYTHON_LAWS = _python_laws(distributions) | _python_laws(collection_samplers)
_compiled_laws: dict[tuple[str, str], Any] = {}
_sampled = 0  # numbers by law of all streams


def _compiled_law(name: str, entry_name: str) -> Any:
    law_key = name, entry_name
    if law_key not in _compiled_laws:
        module = distributions if hasattr(distributions, name) else collection_samplers
        with pause_clock(), unbroken():  # Numba may be imported here
            from smoothcruiser.jit.random.stream_type import compile_law

            law_function = compile_law(getattr(module, name), entry_name)
            _compiled_laws[law_key] = compile_unbroken(law_function)
    return _compiled_laws[law_key]


def compile_unbroken(dispatcher: Any) -> Any:
    """Let no Ctrl-C and no time limit break off what a Numba function compiles.

    Its first call is in a call of the user's step, which they may end. Half a module left
    to LLVM crashes the process later, and the next use would begin anew.
    """
    compile_signature = dispatcher.compile

    def compile_whole(signature: Any) -> Any:
        with unbroken():
            return compile_signature(signature)

    dispatcher.compile = compile_whole
    return dispatcher


def _to_array(argument: Any) -> Any:
    return np.array(argument) if isinstance(argument, list) else argument


def from_words(words: Any) -> Stream:
    """The stream with the state ``words``: four numbers, not all zero."""
    return Stream(words.tolist() if isinstance(words, np.ndarray) else words)


def stream(seed: int, *key: int) -> Stream:
    """The stream of position ``key`` under ``seed``."""
    words = np.random.SeedSequence(seed, spawn_key=key).generate_state(4, np.uint64)
    return Stream(words.tolist())
