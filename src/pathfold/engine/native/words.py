"""Access to memory by its address: words that threads share, read, written or changed atomically; and waiting."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float64, int64, types, void
from numba.core.cgutils import get_or_insert_function
from numba.extending import intrinsic, lower_builtin, overload, type_callable
from numba.np.arrayobj import make_array, populate_array

_WORD, _BYTES = ir.IntType(64), 8


def get(address, place):
    """Return the word at a place of the words that begin at an address."""
    return ctypes.c_int64.from_address(int(address) + _BYTES * int(place)).value


@overload(get)
def _native_get(address, place):
    get: Any = _get
    return lambda address, place: get(address, place)


def _pointer(builder, address, place):
    at = builder.add(address, builder.mul(place, ir.Constant(_WORD, _BYTES)))
    return builder.inttoptr(at, _WORD.as_pointer())


@intrinsic
def _get(typing, address, place):
    def code(context, builder, signature, arguments):
        return builder.load(_pointer(builder, *arguments))

    return int64(int64, int64), code


def bits(x):
    """Return the bits of a number as a whole number, which is the larger, the larger the number is, if not negative."""
    return int(np.float64(x).view(np.int64))


@overload(bits)
def _native_bits(x):
    bits: Any = _bits
    return lambda x: bits(x)


@intrinsic
def _bits(typing, x):
    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], _WORD)

    return int64(float64), code


def numbers_at(address, count):
    """Return an array of the `count` numbers that begin at an address."""
    return np.frombuffer((ctypes.c_double * int(count)).from_address(int(address)))


@type_callable(numbers_at)
def _type_numbers_at(context):
    return lambda address, count: types.Array(float64, 1, "C")


@lower_builtin(numbers_at, types.Integer, types.Integer)
def _native_numbers_at(context, builder, signature, arguments):
    address, count = arguments
    made, width = make_array(signature.return_type)(context, builder), ir.Constant(_WORD, _BYTES)
    data = builder.inttoptr(address, ir.DoubleType().as_pointer())
    populate_array(made, data=data, shape=[count], strides=[width], itemsize=width, meminfo=None)
    return made._getvalue()


def _look(typing, address, place):
    """Read a word that another thread may be writing; all that the other wrote before it is then visible."""

    def code(context, builder, signature, arguments):
        return builder.load_atomic(_pointer(builder, *arguments), "acquire", _BYTES)

    return int64(int64, int64), code


def _put(typing, address, place, value):
    """Write a word so that all that was written before is visible to whoever reads it."""

    def code(context, builder, signature, arguments):
        address, place, value = arguments
        builder.store_atomic(value, _pointer(builder, address, place), "release", _BYTES)
        return context.get_dummy_value()

    return void(int64, int64, int64), code


def _change(typing, address, place, expected, value):
    """Write a word if it is what is expected, and return whether it was. Of several threads that try, one succeeds."""

    def code(context, builder, signature, arguments):
        address, place, expected, value = arguments
        at = _pointer(builder, address, place)
        return builder.extract_value(builder.cmpxchg(at, expected, value, "seq_cst", "seq_cst"), 1)

    return boolean(int64, int64, int64, int64), code


def _give_way(typing):
    """Yield this core to another thread, if one waits for it (sched_yield)."""

    def code(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return void(), code


def _sleep(typing, microseconds):
    def code(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        function = get_or_insert_function(builder.module, kind, "usleep")
        builder.call(function, [builder.trunc(arguments[0], ir.IntType(32))])
        return context.get_dummy_value()

    return void(int64), code


look: Any = intrinsic(_look)
put: Any = intrinsic(_put)
change: Any = intrinsic(_change)
give_way: Any = intrinsic(_give_way)
sleep: Any = intrinsic(_sleep)
