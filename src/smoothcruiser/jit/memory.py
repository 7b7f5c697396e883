"""Memory by address in compiled code: no reference counts, no wrap-around checks.

Numba counts a reference for every array it takes out of a tuple, atomically. In
a loop that samples a hundred million successors per second, that is most of the
time (measured: 4 M calls/s with counted arrays, 100 M with addresses). The
owner of the memory must keep it alive while an address is in use:
``problem.model.tabular.Tables`` does so for tables, ``engines.compiled.engine`` for
schedules and frames. This module imports Numba, so it is itself imported late:
kernels name its functions in ``jit.primitives``.

  int_at, float_at, byte_at (address, index)   reads
  put_int, put_float (address, index, value)   writes of 8-byte words
  flag_at (address)                            a read that another thread's write
                                               reaches: never moved out of a loop
  hidden (number)                              the number, as one that the compiler cannot
                                               compute earlier or with others
  array_at(type) (address, shape)              an array over it in the form that user
                                               functions take, not counted;
                                               ``floats_at`` a vector
  copy_array (address, array, bytes)           a contiguous array copied to memory
  int_words, float_words (address)             the words from an address on, read and
                                               written by their numbers
  address_of_word (words, number)              the address of one of them
  invoke (address, five whole numbers)         a call of a compiled function
  address_of (stream)                          the address of its words
  bit_words (address)                          the same of words without a sign
  call_back (address, three whole numbers)     a call of a function in Python (ctypes)
  value_at(type) (address)                     a value that ``put_value`` wrote, not
                                               counted
  put_value (address, value)                   writes a value of any type
  start_stream (stream, words, number)         a mirrored stream begins with five words
  uncounted (array or tuple of arrays)         the same, without a count: for
                                               arguments, which their caller keeps
                                               alive
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.core.extending import intrinsic
from numba.extending import lower_builtin, models, register_model, type_callable

from smoothcruiser.jit.random.stream_type import mirrored_at as mirrored_at
from smoothcruiser.jit.random.stream_type import set_word
from smoothcruiser.jit.random.stream_type import stream_at as stream_at


def _word_pointer(
    context: Any, builder: Any, kind: Any, address: Any, index: Any
) -> Any:
    base_pointer = builder.inttoptr(address, context.get_value_type(kind).as_pointer())
    return cgutils.gep_inbounds(builder, base_pointer, index)


def _reader(kind: Any) -> Any:
    def infer_read(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, arguments: Any
        ) -> Any:
            return builder.load(_word_pointer(context, builder, kind, *arguments))

        return kind(types.intp, types.intp), generate

    return intrinsic(infer_read)


def _writer(kind: Any) -> Any:
    def infer_write(typing_context: Any, address: Any, index: Any, value: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, arguments: Any
        ) -> Any:
            builder.store(
                arguments[2], _word_pointer(context, builder, kind, *arguments[:2])
            )
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, kind), generate

    return intrinsic(infer_write)


int_at = _reader(types.int64)
float_at = _reader(types.float64)
byte_at = _reader(types.uint8)
put_int = _writer(types.int64)
put_float = _writer(types.float64)


def _flag(typing_context: Any, address: Any) -> Any:
    """The 8-byte number at ``address``, read again each time."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word_pointer = builder.inttoptr(
            arguments[0], context.get_value_type(types.int64).as_pointer()
        )
        return builder.load_atomic(word_pointer, "monotonic", 8)

    return types.int64(types.intp), generate


def array_at(kind: Any) -> Any:
    """An intrinsic (address, shape) -> array of Numba type ``kind``.

    The array lies over memory that someone else owns.
    """

    def infer_view(typing_context: Any, address: Any, shape: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, arguments: Any
        ) -> Any:
            from numba.np.arrayobj import make_array, populate_array

            array_view = make_array(kind)(context, builder)
            item_bytes = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            item_size = context.get_constant(types.intp, item_bytes)
            axis_lengths = cgutils.unpack_tuple(builder, arguments[1], kind.ndim)
            strides: list[Any] = []
            stride = item_size
            for length in reversed(axis_lengths):
                strides.insert(0, stride)
                stride = builder.mul(stride, length)
            data_pointer = builder.inttoptr(
                arguments[0], context.get_data_type(kind.dtype).as_pointer()
            )
            populate_array(
                array_view,
                data=data_pointer,
                shape=axis_lengths,
                strides=strides,
                itemsize=item_size,
                meminfo=None,
            )
            return array_view._getvalue()

        return kind(types.intp, types.UniTuple(types.intp, kind.ndim)), generate

    return intrinsic(infer_view)


def _copy(typing_context: Any, address: Any, array: Any, size: Any) -> Any:
    """Copy ``size`` bytes of a contiguous array to ``address``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source = context.make_array(signature.args[1])(context, builder, arguments[1])
        target = builder.inttoptr(arguments[0], source.data.type)
        cgutils.raw_memmove(
            builder,
            target,
            source.data,
            arguments[2],
            context.get_constant(types.intp, 1),
        )
        return context.get_dummy_value()

    return types.void(types.intp, array, types.intp), generate


def _strip_counts(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array_view = context.make_array(kind)(context, builder, value)
        array_view.meminfo = cgutils.get_null_value(array_view.meminfo.type)
        array_view.parent = cgutils.get_null_value(array_view.parent.type)
        return array_view._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, field_type in enumerate(kind.types):
            value = builder.insert_value(
                value,
                _strip_counts(
                    context, builder, field_type, builder.extract_value(value, i)
                ),
                i,
            )
    return value


def _remove_counts(typing_context: Any, argument_type: Any) -> Any:
    """The argument, without reference counts."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _strip_counts(context, builder, argument_type, arguments[0])

    return argument_type(argument_type), generate


def _hidden(typing_context: Any, number: Any) -> Any:
    """The number itself, of which the compiler knows nothing.

    The assembly is empty. It is marked as one with effects, so that it stays where it
    is, and with it whatever is computed from the number.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word_type = context.get_value_type(types.intp)
        function_type = ir.FunctionType(word_type, [word_type])
        return builder.asm(function_type, "", "=r,0", arguments, True)

    return types.intp(types.intp), generate


flag_at: Any = intrinsic(_flag)
hidden: Any = intrinsic(_hidden)
uncounted: Any = intrinsic(_remove_counts)
copy_array: Any = intrinsic(_copy)
floats_at = array_at(types.Array(types.float64, 1, "C"))


def _invoke(
    typing_context: Any,
    address: Any,
    which: Any,
    state: Any,
    action: Any,
    rng: Any,
    buffer: Any,
) -> Any:
    """Call the compiled function of five whole numbers at ``address``."""
    number_type, arguments = types.int64, (types.int64,) * 5

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        convention = context.call_conv
        function_type = convention.get_function_type(number_type, arguments)
        callee = builder.inttoptr(operands[0], ir.PointerType(function_type))
        status, returned_value = convention.call_function(
            builder, callee, number_type, arguments, operands[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return returned_value

    return number_type(types.intp, *arguments), generate


def _address_of(typing_context: Any, stream: Any) -> Any:
    """The address of a stream's words, which is all that a stream is."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        return operands[0]

    return types.intp(stream), generate


def _call_back(
    typing_context: Any, address: Any, question: Any, first: Any, second: Any
) -> Any:
    """Call the C function of three whole numbers at ``address``."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        word_type = context.get_value_type(types.int64)
        function_type = ir.FunctionType(word_type, [word_type] * 3)
        callee = builder.inttoptr(operands[0], ir.PointerType(function_type))
        return builder.call(callee, operands[1:])

    return types.int64(types.intp, *(types.int64,) * 3), generate


def value_at(kind: Any) -> Any:
    """An intrinsic (address) -> the value of Numba type ``kind`` that lies there.

    Its owner keeps it alive: it is not counted.
    """

    def infer_value(typing_context: Any, address: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, arguments: Any
        ) -> Any:
            value_type = context.get_value_type(kind)
            place = builder.inttoptr(arguments[0], value_type.as_pointer())
            return _strip_counts(context, builder, kind, builder.load(place))

        return kind(types.intp), generate

    return intrinsic(infer_value)


def _put_value(typing_context: Any, address: Any, value: Any) -> Any:
    """Write a value at an address, as ``value_at`` reads it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], arguments[1].type.as_pointer())
        builder.store(arguments[1], place)
        return context.get_dummy_value()

    return types.void(types.intp, value), generate


invoke: Any = intrinsic(_invoke)
call_back: Any = intrinsic(_call_back)
put_value: Any = intrinsic(_put_value)
address_of: Any = intrinsic(_address_of)


class MemoryWords(types.Type):  # type: ignore[misc]
    """Words of memory: all whole numbers, or all floats."""

    def __init__(self, word: Any) -> None:
        self.word = word
        super().__init__(f"MemoryWords({word})")


@register_model(MemoryWords)
class _WordsModel(models.PrimitiveModel):  # type: ignore[misc]
    """Words are the address of the first one."""

    def __init__(self, manager: Any, words_type: Any) -> None:
        super().__init__(manager, words_type, ir.IntType(64))


@type_callable(operator.getitem)  # type: ignore[untyped-decorator,unused-ignore]
def _type_read(context: Any) -> Any:
    def type_read(words: Any, index: Any) -> Any:
        return words.word if isinstance(words, MemoryWords) else None

    return type_read


@type_callable(operator.setitem)  # type: ignore[untyped-decorator,unused-ignore]
def _type_write(context: Any) -> Any:
    def type_write(words: Any, index: Any, value: Any) -> Any:
        return types.void if isinstance(words, MemoryWords) else None

    return type_write


def _word_at(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    index = context.cast(builder, arguments[1], signature.args[1], types.intp)
    word = signature.args[0].word
    return _word_pointer(context, builder, word, arguments[0], index)


@lower_builtin(operator.getitem, MemoryWords, types.Integer)  # type: ignore[untyped-decorator,unused-ignore]
def _read_word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.load(_word_at(context, builder, signature, arguments))


@lower_builtin(operator.setitem, MemoryWords, types.Integer, types.Any)  # type: ignore[untyped-decorator,unused-ignore]
def _write_word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    words, _index, value = signature.args
    word = context.cast(builder, arguments[2], value, words.word)
    builder.store(word, _word_at(context, builder, signature, arguments))
    return context.get_dummy_value()


def _words_from(kind: Any) -> Any:
    def infer_words(typing_context: Any, address: Any) -> Any:
        def generate(
            context: Any, builder: Any, signature: Any, arguments: Any
        ) -> Any:
            return arguments[0]

        return kind(types.intp), generate

    return intrinsic(infer_words)


def _address_of_word(typing_context: Any, words: Any, index: Any) -> Any:
    """The address of a word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        offset = builder.mul(arguments[1], context.get_constant(types.intp, 8))
        return builder.add(arguments[0], offset)

    return types.intp(words, types.intp), generate


int_words = _words_from(MemoryWords(types.int64))
float_words = _words_from(MemoryWords(types.float64))
bit_words = _words_from(MemoryWords(types.uint64))
address_of_word: Any = intrinsic(_address_of_word)


def _start_stream(stream: Any, words: Any, row: int) -> None:
    """Write five words, row ``row`` of a table, into a mirrored stream."""
    address = address_of_word(words, 5 * row)
    for i in range(5):
        write_word(stream, i, bits_at(address, i))


bits_at: Any = _reader(types.uint64)
write_word: Any = set_word
start_stream: Any = njit(_start_stream, inline="always")
