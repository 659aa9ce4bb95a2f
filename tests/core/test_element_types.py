"""The facts of types are those of NumPy, ml_dtypes, ONNX and safetensors."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import ml_dtypes
import numpy as np
import onnx
import pytest

from halfulp.element_types import (
    BY_NAME,
    ELEMENT_TYPES,
    FLOAT_TYPES,
    SMALL_TYPES,
    ElementType,
    widened,
)
from halfulp.exact import round_exact
from halfulp.files.stored_types import STORED_TYPES, StoredType
from halfulp.reductions import SUM_SQUARE

ALL = (*ELEMENT_TYPES, *SMALL_TYPES)


def by_name(
    types: tuple[ElementType, ...] | tuple[StoredType, ...],
) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("type_", types, ids=lambda t: t.name)


@by_name(FLOAT_TYPES)
def test_float_formats_are_those_of_the_dtypes(type_: ElementType) -> None:
    facts = ml_dtypes.finfo(type_.dtype)
    assert type_.precision == facts.nmant + 1
    assert type_.significand_bits == facts.nmant
    assert type_.exponent_bits == facts.nexp
    assert type_.emin == facts.minexp
    assert type_.emax == facts.maxexp - 1
    assert 1 + type_.exponent_bits + type_.significand_bits == facts.bits


@by_name(FLOAT_TYPES)
def test_from_the_overflow_on_numbers_round_to_infinity(type_: ElementType) -> None:
    assert np.isinf(round_exact(Fraction(type_.overflow), type_.dtype))
    assert np.isfinite(round_exact(type_.overflow - Fraction(1, 2), type_.dtype))


@by_name(ALL)
def test_kinds_are_those_of_the_dtypes(type_: ElementType) -> None:
    assert (type_ in FLOAT_TYPES) == (type_.kind == "float")
    assert (type_.kind == "integer") == (type_.dtype.kind in "biu")
    assert type_.dtype.name == type_.numpy_name


@by_name((*ALL, *STORED_TYPES))
def test_names_and_numbers_are_those_of_onnx(type_: ElementType | StoredType) -> None:
    assert onnx.TensorProto.DataType.Name(type_.code).lower() == type_.name
    assert onnx.helper.tensor_dtype_to_np_dtype(type_.code).name == type_.numpy_name


def test_names_in_safetensors_are_those_of_its_package() -> None:
    package = pytest.importorskip("safetensors.numpy")
    known = {t.safetensors for t in STORED_TYPES if t.safetensors}
    for type_ in STORED_TYPES:
        if type_.safetensors and type_.bits >= 8 and hasattr(np, type_.numpy_name):
            content = package.save({"x": np.zeros(1, type_.dtype)})
            assert f'"dtype":"{type_.safetensors}"'.encode() in content
    assert len(known) == sum(bool(t.safetensors) for t in STORED_TYPES)


@by_name(ALL)
def test_wider_types_hold_all_values(type_: ElementType) -> None:
    wide = widened(type_)
    assert wide is type_ or wide.dtype.itemsize == 4
    assert np.can_cast(type_.dtype, wide.dtype) or wide is type_


@by_name(ALL)
def test_results_have_the_types_of_numpys(type_: ElementType) -> None:
    result = SUM_SQUARE.result_of(type_)
    dtype = np.sum(np.empty(0, type_.dtype)).dtype if type_.kind == "integer" else None
    assert result.dtype == (dtype or type_.dtype)
    mean = replace(SUM_SQUARE, finish="mean").result_of(type_)
    assert mean is (result if type_.kind == "float" else BY_NAME["double"])
