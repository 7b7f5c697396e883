"""The compiled form of a random stream: its Numba type, its four words, its bits.

To compiled code a stream is the address of its four words, so its methods
inline and nothing is reference-counted (about 2 ns per uniform number). The parts of
every law are written here a second time, since compiled code reads and writes words:

  ``raw()``       the next 64 bits of xoshiro256++ (Blackman and Vigna 2019)
  ``random()``    the top 53 bits times 2**-53: uniform on [0, 1)
  ``integers()``  uniform whole numbers without bias, by rejection

The laws are the plain functions of ``jit.random.distributions`` and
``jit.random.collection_samplers``. In compiled code the elements of a collection have one
type: arrays, lists and tuples of equal kinds.

The object that users hold is ``jit.random.streams.Stream``, which loads this file, and
Numba, only where compiled code meets it.
"""

from __future__ import annotations

import inspect
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.extending import (
    NativeValue,
    intrinsic,
    models,
    overload_method,
    register_jitable,
    register_model,
    unbox,
)

from smoothcruiser.jit.build import compile_function
from smoothcruiser.jit.random import collection_samplers, distributions
from smoothcruiser.jit.random.collection_samplers import (
    index_by_probabilities,
    index_by_size,
    order,
)

U11, U17, U19, U23, U32, U41, U45 = (
    np.uint64(k) for k in (11, 17, 19, 23, 32, 41, 45)
)
ZERO, ONE, LOW32, TWO32 = (np.uint64(k) for k in (0, 1, 0xFFFFFFFF, 1 << 32))
TWO63 = np.uint64(1 << 63)
STEP53 = 2.0**-53
NUMBERS = (types.Number, types.Boolean)
SEQUENCES = (
    types.UniTuple,
    types.NamedUniTuple,
    types.List,
    types.ListType,
    types.Array,
)


class StreamType(types.Type):  # type: ignore[misc]
    """The Numba type of a stream: the address of its state."""

    def __init__(self) -> None:
        super().__init__(name="Stream")


class MirroredType(StreamType):
    """The type of a stream with a fifth word, whose bits are flipped in all numbers.

    The word is 0 or -1. A type of its own leaves the other streams as fast as they are.
    """

    def __init__(self) -> None:
        types.Type.__init__(self, name="MirroredStream")


STREAM, MIRRORED = StreamType(), MirroredType()


@register_model(MirroredType)
@register_model(StreamType)
class StreamModel(models.PrimitiveModel):  # type: ignore[misc]
    """The data model of a stream: an address, never boxed back and never counted."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, manager.lookup(types.intp).get_value_type())


@unbox(StreamType)
def _unbox(kind: Any, python_object: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(python_object, "address")
    native_pointer = c.pyapi.long_as_voidptr(address)
    value = c.builder.ptrtoint(native_pointer, c.context.get_value_type(types.intp))
    c.pyapi.decref(address)
    return NativeValue(
        value, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    )


def _word_pointer(context: Any, builder: Any, address: Any, index: Any) -> Any:
    base_pointer = builder.inttoptr(
        address, context.get_value_type(types.uint64).as_pointer()
    )
    return cgutils.gep_inbounds(builder, base_pointer, index)


@intrinsic
def word(typing_context: Any, stream: Any, index: Any) -> Any:
    """The state word ``index``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(
            _word_pointer(context, builder, arguments[0], arguments[1])
        )

    return types.uint64(stream, types.intp), generate


@intrinsic
def set_word(typing_context: Any, stream: Any, index: Any, value: Any) -> Any:
    """Write the state word ``index``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(
            arguments[2], _word_pointer(context, builder, arguments[0], arguments[1])
        )
        return context.get_dummy_value()

    return types.void(stream, types.intp, types.uint64), generate


@intrinsic
def stream_at(typing_context: Any, address: Any) -> Any:
    """The stream with its state at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return STREAM(types.intp), generate


@overload_method(StreamType, "raw")
def _raw_method(self: Any) -> Any:
    def raw(self: Any) -> Any:
        s0, s1, s2, s3 = word(self, 0), word(self, 1), word(self, 2), word(self, 3)
        outer_sum = s0 + s3
        result = ((outer_sum << U23) | (outer_sum >> U41)) + s0
        shifted = s1 << U17
        s2 ^= s0
        s3 ^= s1
        set_word(self, 1, s1 ^ s2)
        set_word(self, 0, s0 ^ s3)
        set_word(self, 2, s2 ^ shifted)
        set_word(self, 3, (s3 << U45) | (s3 >> U19))
        return result

    return raw


@intrinsic
def plain_view(typing_context: Any, stream: Any) -> Any:
    """The stream of the first four words of a mirrored one."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return STREAM(stream), generate


@intrinsic
def mirrored_at(typing_context: Any, address: Any) -> Any:
    """The mirrored stream with its five words at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arguments[0]

    return MIRRORED(types.intp), generate


@overload_method(MirroredType, "raw")
def _mirrored_raw_method(self: Any) -> Any:
    def raw(self: Any) -> Any:
        return plain_view(self).raw() ^ word(self, 4)

    return raw


@overload_method(StreamType, "random")
def _random_method(self: Any) -> Any:
    def random(self: Any) -> Any:
        return np.float64(np.int64(self.raw() >> U11)) * STEP53

    return random


@register_jitable
def below(rng: Any, size: Any) -> Any:
    """A uniform whole number in 0..size-1.

    ``size`` is a uint64, and 0 stands for 2**64.
    """
    if size - ONE >= LOW32:
        return below_large(rng, size)
    return below_small(rng, size)


@register_jitable
def below_small(rng: Any, size: Any) -> Any:
    """A uniform whole number in 0..size-1, for size < 2**32.

    This is Lemire's multiply-shift on the top 32 bits, with his rejection
    (2019).
    """
    product = (rng.raw() >> U32) * size
    low_bits = product & LOW32
    if low_bits < size:
        rejection_floor = (TWO32 - size) % size
        while low_bits < rejection_floor:
            product = (rng.raw() >> U32) * size
            low_bits = product & LOW32
    return product >> U32


@register_jitable
def below_large(rng: Any, size: Any) -> Any:
    """A uniform whole number in 0..size-1, for any size; 0 stands for 2**64.

    It is 64 bits modulo size, where the first 2**64 mod size values are
    rejected.
    """
    if size == ZERO:
        return rng.raw()
    rejection_floor = (ZERO - size) % size
    bits = rng.raw()
    while bits < rejection_floor:
        bits = rng.raw()
    return bits % size


@overload_method(StreamType, "integers", jit_options={"forceinline": True})
def _integers_method(self: Any, low: Any, high: Any = None) -> Any:
    for bound in (low, high):
        if not (isinstance(bound, types.Integer) or is_none(bound)) or is_none(low):
            call_text = "rng.integers(low, high)"
            raise TypingError(
                f"{call_text} takes whole numbers, got {bound}; convert it with int()."
            )
    if is_none(high):

        def integers(self: Any, low: Any, high: Any = None) -> Any:
            range_size = np.uint64(low)
            if (
                range_size - ONE < LOW32
            ):  # the common case, kept small enough to be inlined
                return np.int64(below_small(self, range_size))
            return _large_or_wrong(self, low)

    else:

        def integers(self: Any, low: Any, high: Any = None) -> Any:
            if low >= high or (high > 0 and np.uint64(high) > TWO63):
                raise ValueError(
                    "rng.integers(low, high) needs -2**63 <= low < high <= 2**63"
                )
            first_number = np.uint64(low)
            return np.int64(first_number + below(self, np.uint64(high) - first_number))

    return integers


@register_jitable
def _large_or_wrong(rng: Any, n: Any) -> Any:
    if n < 1 or np.uint64(n) > TWO63:
        raise ValueError("rng.integers(n) needs n from 1 to 2**63")
    return np.int64(below_large(rng, np.uint64(n)))


def is_none(kind: Any) -> bool:
    """Whether an argument was left out, or is None."""
    left_out = isinstance(kind, types.Omitted) and kind.value is None
    return kind is None or left_out or isinstance(kind, types.NoneType)


# --- laws ---------------------------------------------------------------------


def plain_functions(module: ModuleType) -> dict[str, FunctionType]:
    """The functions that a module defines, by name."""
    return {
        name: function
        for name, function in vars(module).items()
        if isinstance(function, FunctionType)
        and function.__module__ == module.__name__
    }


def _register_law(function: FunctionType, integer_names: tuple[str, ...]) -> None:
    """Make a function the compiled stream method of its name."""
    signature = inspect.signature(function)

    def check_types(*arguments: Any, **keywords: Any) -> Any:
        bound_arguments = signature.bind(*arguments, **keywords).arguments
        for name, argument_type in list(bound_arguments.items())[1:]:
            is_whole = name in integer_names
            allowed_types = (types.Integer,) if is_whole else NUMBERS
            is_default = isinstance(argument_type, types.Omitted | int | float)
            if not is_default and not isinstance(argument_type, allowed_types):
                expected_text = "a whole number" if is_whole else "a number"
                parameters = ", ".join(list(signature.parameters)[1:])
                call_text = f"rng.{function.__name__}({parameters})"
                raise TypingError(
                    f"{call_text} takes {expected_text} as {name}, got {argument_type}."
                )
        return function

    check_types.__name__ = f"_{function.__name__}_method"  # its name in Numba's errors
    check_types.__signature__ = signature  # type: ignore[attr-defined]
    overload_method(StreamType, function.__name__)(check_types)


for _module in (distributions, collection_samplers):
    for _name, _function in plain_functions(_module).items():
        if _name in distributions.LAWS:
            _register_law(_function, distributions.LAWS[_name])
        else:
            register_jitable(_function)


# --- collections --------------------------------------------------------------


@overload_method(StreamType, "categorical")
def _categorical_method(self: Any, weights: Any) -> Any:
    _require_sequence(weights, "rng.categorical(weights)", NUMBERS)
    return collection_samplers.categorical


@overload_method(StreamType, "choice")
def _choice_method(self: Any, a: Any, p: Any = None) -> Any:
    choose_index = index_by_size if is_none(p) else index_by_probabilities
    if not is_none(p):
        _require_sequence(p, "rng.choice(a, p)", NUMBERS)
    if isinstance(a, types.Integer):

        def choice(self: Any, a: Any, p: Any = None) -> Any:
            return choose_index(self, a, p)

        return choice
    _require_sequence(a, "rng.choice(a, p)")
    # A row is returned as a copy, because the step may write into it.
    if isinstance(a, types.Array) and a.ndim > 1:

        def choice(self: Any, a: Any, p: Any = None) -> Any:
            return a[choose_index(self, len(a), p)].copy()

    else:

        def choice(self: Any, a: Any, p: Any = None) -> Any:
            return a[choose_index(self, len(a), p)]

    return choice


@overload_method(StreamType, "permutation")
def _permutation_method(self: Any, x: Any) -> Any:
    if isinstance(x, types.Integer):

        def permutation(self: Any, x: Any) -> Any:
            return order(self, np.int64(x))

    else:
        _require_sequence(x, "rng.permutation(x)")
        is_array = isinstance(x, types.Array)  # Numba's np.array takes no arrays

        def permutation(self: Any, x: Any) -> Any:
            shuffled = x.copy() if is_array else np.array(x)
            self.shuffle(shuffled)
            return shuffled

    return permutation


@overload_method(StreamType, "shuffle")
def _shuffle_method(self: Any, x: Any) -> Any:
    if not isinstance(x, types.Array | types.List | types.ListType):
        raise TypingError(f"rng.shuffle(x) takes an array or a list, got {x}.")

    def shuffle(self: Any, x: Any) -> Any:
        old_elements = x.copy()
        new_order = order(self, len(x))
        for i in range(len(x)):
            x[i] = old_elements[new_order[i]]

    return shuffle


def _require_sequence(kind: Any, call: str, of: Any = None) -> None:
    """Refuse everything but a sequence with elements of one type."""
    is_flat = (
        not isinstance(kind, types.Array)
        or kind.ndim == 1
        or (of is None and kind.ndim > 0)
    )
    if (
        isinstance(kind, SEQUENCES)
        and is_flat
        and (of is None or isinstance(kind.dtype, of))
    ):
        return
    if isinstance(kind, types.BaseTuple) and len(kind) > 0:
        raise TypingError(
            f"{call} takes tuples whose elements have one type in compiled code, got "
            f"{kind}; convert the elements, or drop numba.njit from the step."
        )
    element_text = "" if of is None else " of numbers"
    raise TypingError(
        f"{call} takes a non-empty list, tuple or array{element_text}, got {kind}."
    )


@overload_method(StreamType, "numpy")
def _numpy_method(self: Any) -> Any:
    remedy = "use the methods of rng itself, or drop numba.njit from the step"
    raise TypingError(f"rng.numpy() works in plain Python only; {remedy}.")


# --- entries from Python --------------------------------------------------------


def call_at(address: int, *arguments: Any) -> Any:
    """One number of LAW from the stream at an address."""
    return LAW(stream_at(address), *arguments)


def call_mirrored_at(address: int, *arguments: Any) -> Any:
    """One number of LAW from the mirrored stream at an address."""
    return LAW(mirrored_at(address), *arguments)


LAW: Any = None  # replaced by a law


def compile_law(law: FunctionType, entry_name: str = "call_at") -> Any:
    """A law in compiled form, called from Python with a stream's address."""
    entry = {"call_at": call_at, "call_mirrored_at": call_mirrored_at}[entry_name]
    return compile_function(entry, salt=law.__name__, LAW=compile_function(law))
