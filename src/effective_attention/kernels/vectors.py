"""Eight numbers at once, for compiled loops.

Numba's compiler turns a plain loop into vector instructions only where it can prove that what is written is not what is
read, and checks that anew whenever the loop is entered. With rows of some dozens of numbers, as in one attention head,
the checks cost more than the sums. So the innermost loops over small matrices are written with a type of their own,
``Eight``: eight float64 numbers that stay in registers. The processor need not have registers that wide: the compiler
then takes two or four for one.

README.md beside this file says what it gains and how to do without it.
"""

# What numba and llvmlite hand out has no annotations; an intrinsic's arguments stand for types, of which some do not
# matter.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, misc"
# ruff: noqa: ARG001

from __future__ import annotations

import numba
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

LANES = 8
SPARE = 8
"""Columns that a matrix has beyond those in use. Rows of 64 numbers, of one head's width, are 512 bytes apart, and the
processor's nearest cache has room for few numbers at such a distance: with 72 a product is 1.6 times as fast."""
LINE = 64
"""Bytes that the processor's cache moves at once; eight numbers that lie on two such lines take twice as long."""
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_SINGLE = ir.VectorType(ir.FloatType(), LANES)  # in memory only: it becomes the other when it is read


def _is_wide() -> bool:
    """Tell whether eight numbers fit one register; numba's settings may ask for less than the processor has."""
    features, name = numba.config.CPU_FEATURES, numba.config.CPU_NAME
    if features is not None:
        return "+avx512f" in features
    return name in (None, "host") and bool(binding.get_host_cpu_features().get("avx512f", False))


WIDE = _is_wide()
"""Whether the processor has registers of eight numbers, and 32 of them."""


class Eight(types.Type):
    """The type of eight float64 numbers inside compiled code."""

    def __init__(self):
        super().__init__(name="Eight")


eight = Eight()


@register_model(Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


@intrinsic
def load(_typing, matrix, row, column):
    """Return ``matrix[row, column : column + 8]`` of a contiguous matrix, float64 or float32."""

    def generate(context, builder, signature, arguments):
        numbers = builder.load(_address(context, builder, signature, arguments))
        if signature.args[0].dtype == types.float32:
            numbers.align = 4
            return builder.fpext(numbers, _VECTOR)
        numbers.align = 8
        return numbers

    return eight(matrix, row, column), generate


@intrinsic
def store(_typing, matrix, row, column, numbers):
    """Do ``matrix[row, column : column + 8] = numbers``, rounded where the matrix is float32."""

    def generate(context, builder, signature, arguments):
        single = signature.args[0].dtype == types.float32
        numbers = builder.fptrunc(arguments[3], _SINGLE) if single else arguments[3]
        builder.store(numbers, _address(context, builder, signature, arguments)).align = 4 if single else 8
        return context.get_dummy_value()

    return types.void(matrix, row, column, numbers), generate


@intrinsic
def times(_typing, factor, numbers):
    """Return ``factor * numbers``."""

    def generate(_context, builder, _signature, arguments):
        return builder.fmul(_everywhere(builder, arguments[0]), arguments[1])

    return eight(types.float64, numbers), generate


@intrinsic
def plus(_typing, total, factor, numbers):
    """Return ``total + factor * numbers``, in one instruction where the processor has it."""
    return eight(total, types.float64, numbers), _with_product(ir.IRBuilder.fadd)


@intrinsic
def minus(_typing, total, factor, numbers):
    """Return ``total - factor * numbers``, likewise."""
    return eight(total, types.float64, numbers), _with_product(ir.IRBuilder.fsub)


@intrinsic
def zeros(_typing):
    """Return eight times 0."""

    def generate(_context, _builder, _signature, _arguments):
        return ir.Constant(_VECTOR, [0.0] * LANES)

    return eight(), generate


def _with_product(combine):
    """Return the code generator of ``combine(total, factor * numbers)``."""

    def generate(_context, builder, _signature, arguments):
        total, factor, numbers = arguments
        product = builder.fmul(_everywhere(builder, factor), numbers, flags=("contract",))
        return combine(builder, total, product, flags=("contract",))

    return generate


def _everywhere(builder, number):
    """Return the same number eight times."""
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _address(context, builder, signature, arguments):
    """Return a pointer to the eight numbers at (row, column) of a matrix."""
    matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = [context.cast(builder, arguments[n], signature.args[n], types.intp) for n in (1, 2)]
    pointer = cgutils.get_item_pointer(context, builder, signature.args[0], matrix, place)
    vector = _SINGLE if signature.args[0].dtype == types.float32 else _VECTOR
    return builder.bitcast(pointer, vector.as_pointer())
