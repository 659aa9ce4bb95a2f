"""PyTorch tensors and JAX arrays: read in place, and results of their own kind.

Run by `make test-interop`; the default run has neither library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halfulp
from halfulp.arrays import as_array
from halfulp.element_types import ELEMENT_TYPES
from halfulp.reductions import Reduction
from oracle import assert_same_bits, expected_of, function_of
from rows import by_row

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)

BY_NAME = {t.numpy_name: t for t in ELEMENT_TYPES}
TYPES = [*BY_NAME]
VALUES = np.arange(24).reshape(2, 3, 4)
SQUARES = (VALUES**2).sum(axis=1)


def _tensor(name: str) -> Any:
    return torch.from_numpy(VALUES).to(getattr(torch, name))


def _jax(name: str) -> Any:
    return jax.numpy.asarray(VALUES, dtype=name)


def _same(tensor: Any, want: np.ndarray) -> None:
    assert isinstance(tensor, torch.Tensor)
    assert str(tensor.dtype) == f"torch.{want.dtype.name}"
    assert torch.equal(tensor, torch.from_numpy(want.astype("f8")).to(tensor.dtype))


@pytest.mark.parametrize("name", TYPES)
@by_row
def test_a_tensor_gives_a_tensor_of_its_type(row: Reduction, name: str) -> None:
    x, same = _tensor(name), VALUES.astype(BY_NAME[name].dtype)
    _same(function_of(row)(x, 1), expected_of(row, same, 1))
    by_onnx = getattr(halfulp, row.onnx_name)
    _same(by_onnx(x, [1], keepdims=0), expected_of(row, same, 1, same.dtype))


@by_row
def test_masks_may_be_tensors(row: Reduction) -> None:
    x, same = _tensor("float32"), VALUES.astype("f4")
    result = function_of(row)(x, (0, 1), where=x > 1)
    _same(result, expected_of(row, same, (0, 1), where=same > 1))


@pytest.mark.parametrize("name", TYPES)
def test_a_tensor_is_viewed_in_any_layout(name: str) -> None:
    x = _tensor(name)
    for view in (x, x.mT, x[:, ::2], x[1], x.expand(5, 2, 3, 4), x[0, 0, 0]):
        array, _ = as_array(view, "x")
        assert array.ctypes.data == view.data_ptr()
        assert array.shape == tuple(view.shape)
        assert (
            halfulp.sum_square(view, dtype="int64" if "int" in name else "float64").item()
            == (view.to(torch.float64) ** 2).sum().item()
        )


def test_a_tensor_that_requires_grad_is_refused_in_its_own_words() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(halfulp.UnsupportedTypeError, match=r"requires? grad"):
        halfulp.sum_square(x)
    assert halfulp.sum_square(x.detach()).item() == 3


@pytest.mark.parametrize(
    ("name", "wide"), [("int8", "int64"), ("uint8", "uint64"), ("bool", "int64")]
)
def test_a_tensor_of_small_integers_gives_one_of_wide_ones(name: str, wide: str) -> None:
    x = _tensor(name)
    result = halfulp.sum_square(x, 1)
    assert isinstance(result, torch.Tensor)
    assert result.dtype == getattr(torch, wide)
    assert result.tolist() == (x.to(torch.int64) ** 2).sum(1).tolist()


def test_other_tensor_types_are_refused() -> None:
    with pytest.raises(halfulp.UnsupportedTypeError, match="allowed: bfloat16"):
        halfulp.sum_square(_tensor("complex64"))


def test_axes_may_be_a_tensor() -> None:
    result = halfulp.reduce_sum_square(_tensor("float32"), torch.tensor([1]), keepdims=0)
    assert result.tolist() == SQUARES.tolist()


@pytest.mark.parametrize("name", TYPES)
@by_row
def test_a_jax_array_gives_a_jax_array_of_its_type(row: Reduction, name: str) -> None:
    x, same = _jax(name), VALUES.astype(BY_NAME[name].dtype)
    result = function_of(row)(x, 1)
    assert isinstance(result, jax.Array)
    assert_same_bits(np.asarray(result), expected_of(row, same, 1))
