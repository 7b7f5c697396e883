"""Memory by address in compiled code: no reference counts, no wrap-around checks.

Numba counts a reference for every array it takes out of a tuple, atomically. In
a loop that samples a hundred million successors per second, that is most of the
time (measured: 4 M calls/s with counted arrays, 100 M with addresses). The
owner of the memory must keep it alive while an address is in use:
``problem.tabular.Tables`` does so for tables, ``engines.compiled.engine`` for
schedules and frames. This module imports Numba, so it is itself imported late.

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
  uncounted (array or tuple of arrays)         the same, without a count: for
                                               arguments, which their caller keeps
                                               alive
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic


def _place(context: Any, builder: Any, kind: Any, address: Any, index: Any) -> Any:
    base = builder.inttoptr(address, context.get_value_type(kind).as_pointer())
    return cgutils.gep_inbounds(builder, base, index)


def _reader(kind: Any) -> Any:
    def typed(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(_place(context, builder, kind, *arguments))

        return kind(types.intp, types.intp), generate

    return intrinsic(typed)


def _writer(kind: Any) -> Any:
    def typed(typing_context: Any, address: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[2], _place(context, builder, kind, *arguments[:2]))
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, kind), generate

    return intrinsic(typed)


int_at = _reader(types.int64)
float_at = _reader(types.float64)
byte_at = _reader(types.uint8)
put_int = _writer(types.int64)
put_float = _writer(types.float64)


def _flag(typing_context: Any, address: Any) -> Any:
    """The 8-byte number at ``address``, read again each time."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(
            arguments[0], context.get_value_type(types.int64).as_pointer()
        )
        return builder.load_atomic(place, "monotonic", 8)

    return types.int64(types.intp), generate


def array_at(kind: Any) -> Any:
    """An intrinsic (address, shape) -> array of Numba type ``kind``.

    The array lies over memory that someone else owns.
    """

    def typed(typing_context: Any, address: Any, shape: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            from numba.np.arrayobj import make_array, populate_array

            view = make_array(kind)(context, builder)
            size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            itemsize = context.get_constant(types.intp, size)
            shapes = cgutils.unpack_tuple(builder, arguments[1], kind.ndim)
            strides: list[Any] = []
            step = itemsize
            for length in reversed(shapes):
                strides.insert(0, step)
                step = builder.mul(step, length)
            data = builder.inttoptr(
                arguments[0], context.get_data_type(kind.dtype).as_pointer()
            )
            populate_array(
                view,
                data=data,
                shape=shapes,
                strides=strides,
                itemsize=itemsize,
                meminfo=None,
            )
            return view._getvalue()

        return kind(types.intp, types.UniTuple(types.intp, kind.ndim)), generate

    return intrinsic(typed)


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


def _stripped(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        view = context.make_array(kind)(context, builder, value)
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, part in enumerate(kind.types):
            value = builder.insert_value(
                value,
                _stripped(context, builder, part, builder.extract_value(value, i)),
                i,
            )
    return value


def _uncounted(typing_context: Any, given: Any) -> Any:
    """The argument, without reference counts."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _stripped(context, builder, given, arguments[0])

    return given(given), generate


def _hidden(typing_context: Any, number: Any) -> Any:
    """The number itself, of which the compiler knows nothing.

    The assembly is empty. It is marked as one with effects, so that it stays where it
    is, and with it whatever is computed from the number.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = context.get_value_type(types.intp)
        kind = ir.FunctionType(word, [word])
        return builder.asm(kind, "", "=r,0", arguments, True)

    return types.intp(types.intp), generate


flag_at: Any = intrinsic(_flag)
hidden: Any = intrinsic(_hidden)
uncounted: Any = intrinsic(_uncounted)
copy_array: Any = intrinsic(_copy)
floats_at = array_at(types.Array(types.float64, 1, "C"))
