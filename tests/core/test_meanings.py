"""Objects that mean more than their elements keep that, or are refused by their type.

Units, labels, masks, sparsity and laziness.
"""

from __future__ import annotations

import array
import collections
import decimal
import warnings
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
import pandas
import pytest
import xarray

import halfulp
from halfulp import ArgumentError, AxesError, UnsupportedTypeError
from halfulp.reductions import Reduction
from oracle import (
    assert_same_bits,
    exact_function_of,
    expected,
    expected_of,
    function_of,
)
from rows import by_row

# Of the types here, as errors have it.
HERE = __name__.partition(".")[0]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Forwarding:
    """A quantity that forwards what it lacks to its array, as pint's does."""

    def __init__(self, magnitude: Any) -> None:
        self._magnitude = magnitude

    magnitude = property(lambda self: self._magnitude)
    units = "m"

    def __array_ufunc__(self, *arguments: Any, **named: Any) -> Any:
        raise AssertionError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._magnitude, name)


class Subclass(np.ndarray):
    """A quantity that is an ndarray, as astropy's is."""

    unit = "m"
    value = property(np.asarray)

    def __array_finalize__(self, other: Any) -> None:
        pass


class Plain(np.ndarray):
    """A subclass that changes nothing."""


class Sparse:
    def toarray(self) -> np.ndarray:
        return X


class Table:
    def __dataframe__(self) -> None:
        raise AssertionError

    def __array__(self, *arguments: Any, **named: Any) -> np.ndarray:
        raise AssertionError

    def to_numpy(self) -> np.ndarray:
        return X


class Container:
    """Gives its array when asked, as h5py's and zarr's do."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __array__(self, *arguments: Any, **named: Any) -> Any:
        return self.inner


def _matrix() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(X)


def _state(x: Any) -> Any:
    return halfulp.SumSquare("float").update(x)


def _model(x: Any) -> Any:
    onnx_parser = pytest.importorskip("onnx.parser")
    model = onnx_parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> '
        "g (float[N, M] x) => (float[1, 1] y) { y = ReduceSumSquare(x) }"
    )
    return halfulp.onnx.run_model(model, {"x": x})


FACES: list[tuple[str, Callable[[Any], Any]]] = [
    ("x", halfulp.sum_square),
    ("data", halfulp.reduce_sum_square),
    ("x", halfulp.exact_sum_square),
    ("array", _state),
    ("input 'x'", _model),
]
by_face = pytest.mark.parametrize(("name", "face"), FACES, ids=[f[0] for f in FACES])


def _refused(face: Callable[[Any], Any], x: Any, start: str, way: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UnsupportedTypeError) as caught:
            face(x)
    message = str(caught.value)
    assert message.startswith(f"{start}; allowed: a NumPy array, an object with ")
    assert message.endswith(way)
    assert "\n" not in message


@by_face
@pytest.mark.parametrize(
    ("make", "kind", "way"),
    [
        (lambda: Forwarding(X), f"a {HERE}.Forwarding", "no unit then)"),
        (lambda: X.view(Subclass), f"a {HERE}.Subclass", "no unit then)"),
        (lambda: np.ma.masked_array(_matrix()), "a numpy.MaskedArray", "its filled(0)"),
        (lambda: np.ma.masked, "a numpy.MaskedConstant", "its filled(0)"),
        (_matrix, "a numpy.matrix", "pass numpy.asarray() of it"),
        (Sparse, f"a {HERE}.Sparse", "pass its toarray()"),
        (Table, f"a {HERE}.Table", "pass its to_numpy()"),
        (lambda: pandas.Index([1.0]), "a pandas.Index", "pass its to_numpy()"),
        (lambda: xarray.Dataset({"a": ("x", X[0])}), "an xarray.Dataset", "reduce()"),
        (lambda: dask.delayed(X), "a dask.DelayedLeaf", "pass its compute()"),
        (lambda: None, "a NoneType", "numbers"),
        (lambda: iter([1.0]), "a list_iterator", "pass a list of it"),
        (lambda: (v for v in X), "a generator", "pass a list of it"),
        (lambda: {1.0, 2.0}, "a set", "pass a list of it"),
        (lambda: {"w": X}, "a dict", "pass its values one by one"),
        (lambda: decimal.Decimal(1), "a decimal.Decimal", "numbers"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_what_would_lose_something_is_refused_by_its_type(
    name: str,
    face: Callable[[Any], Any],
    make: Callable[[], Any],
    kind: str,
    way: str,
) -> None:
    _refused(face, make(), f"{name} is {kind}", way)


@by_face
@pytest.mark.parametrize(
    ("make", "kind", "way"),
    [
        (lambda: [Forwarding(1.0)], f"a {HERE}.Forwarding", "no unit then)"),
        (lambda: [[1.0, Forwarding(1.0)]], f"a {HERE}.Forwarding", "no unit then)"),
        (lambda: (np.ma.masked_array(X),), "a numpy.MaskedArray", "pass its filled(0)"),
        (lambda: collections.deque([np.ma.masked]), "a numpy.MaskedConst", "filled(0)"),
        (lambda: [da.ones(3)], "a dask.Array", "pass its compute()"),
        (lambda: [pandas.Series([1.0])], "a pandas.Series", "pass its to_numpy()"),
        (lambda: [[1.0], [None]], "a NoneType", "numbers"),
        (lambda: [decimal.Decimal(1)], "a decimal.Decimal", "numbers"),
        (lambda: Container(np.ma.masked_array(X)), "a numpy.MaskedArray", "filled(0)"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_it_is_refused_in_nested_sequences_and_containers_too(
    name: str,
    face: Callable[[Any], Any],
    make: Callable[[], Any],
    kind: str,
    way: str,
) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        face(make())
    assert str(caught.value).startswith(f"{name} holds {kind}")
    assert str(caught.value).endswith(way)


@by_face
def test_masks_are_kept_or_refused(name: str, face: Callable[[Any], Any]) -> None:
    x = np.ma.masked_array(X, X > 1)
    if face is halfulp.sum_square:
        assert face(x) == 1
    else:
        _refused(face, x, f"{name} is a numpy.MaskedArray", "its filled(0)")


@pytest.mark.parametrize("face", [halfulp.exact_sum_square, _state, _model])
def test_no_dask_array_is_computed_unasked(face: Callable[[Any], Any]) -> None:
    lazy = da.from_array(X, chunks=2)
    with pytest.raises(
        UnsupportedTypeError, match=r" dask.Array; .*pass its compute\(\)"
    ):
        face(lazy)


@pytest.mark.parametrize("face", [_state, _model])
@pytest.mark.parametrize(
    "x", [xarray.DataArray(X), pandas.DataFrame(X)], ids=lambda x: type(x).__name__
)
def test_labels_are_refused_where_the_result_has_none(
    face: Callable[[Any], Any], x: Any
) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"pass its to_numpy\(\)$"):
        face(x)


def test_chunks_of_a_dask_array_are_plain_arrays() -> None:
    lazy = da.from_array(_matrix(), asarray=False)
    with pytest.raises(ArgumentError, match="x is a Dask array with chunks of matrix"):
        halfulp.sum_square(lazy)


def test_out_is_a_plain_array() -> None:
    for out in (np.ma.empty((), "f4"), _matrix(), np.empty((), "f4").view(Subclass)):
        with pytest.raises(ArgumentError, match=r"out is a \w+; allowed: a numpy.ndarr"):
            halfulp.sum_square(X, out=out)


def test_lists_of_integers_are_not_rounded_to_floats() -> None:
    """NumPy makes float64 of those that neither int64 nor uint64 takes by itself."""
    high = 2**63 + 1
    for x in ([high, 1], [[1], [high]], (True, high, np.int8(0)), [np.uint64(high), 1]):
        total = halfulp.sum(x)
        assert_same_bits(total, np.uint64(high + 1))
        assert halfulp.exact_sum(x) == high + 1
        assert halfulp.reduce_sum(x).dtype == np.uint64
    for x in ([high, -1], [np.uint64(high), np.int64(-1)]):
        with pytest.raises(
            UnsupportedTypeError,
            match=r"x holds integers below 0 and above 2\*\*63 - 1; allowed: those that",
        ):
            halfulp.sum(x)
    assert halfulp.sum([2**62, 2**62 - 1]) == 2**63 - 1
    assert halfulp.sum([high, 0.5]) == 2.0**63
    assert halfulp.sum([]).dtype == np.float64


def test_integers_beyond_64_bits_are_refused() -> None:
    for x, verb in ((2**64, "is"), ([[1, 2**64]], "holds"), (-(2**63) - 1, "is")):
        with pytest.raises(UnsupportedTypeError, match=f"x {verb} an integer of more"):
            halfulp.sum_square(x)


@pytest.mark.parametrize(
    "x",
    [
        X.tolist(),
        tuple(map(tuple, X.tolist())),
        list(X),
        collections.UserList(X.tolist()),
        collections.deque(X.tolist()),
        Container(X),
        [Container(X[0]), Container(X[1])],
        X.view(Plain),
        np.ascontiguousarray(X),
        memoryview(X),
    ],
    ids=lambda x: type(x).__name__,
)
def test_plain_containers_are_arrays(x: Any) -> None:
    for face in (halfulp.sum_square, halfulp.exact_sum_square):
        assert face(x) == 55
    assert halfulp.reduce_sum_square(x, [0]).tolist() == [[9.0, 17.0, 29.0]]


def test_buffers_and_scalars_are_arrays(tmp_path: Any) -> None:
    assert halfulp.sum_square(array.array("d", [3, 4])) == 25
    assert halfulp.sum_square(range(3)) == 5
    assert halfulp.sum_square(np.float16(3)) == 9
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=3)
    mapped[:] = 2
    assert type(halfulp.sum_square(mapped, ())) is np.ndarray
    assert halfulp.sum_square(mapped) == 12


# --- Labels.

ARRAY = xarray.DataArray(
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    dims=("t", "y", "x"),
    coords={"t": [10, 20], "x": list("abcd"), "both": (("t", "x"), np.ones((2, 4)))},
    name="heat",
    attrs={"place": "here"},
)
AXES = [None, (), 0, -1, (0, 2), (2, 0), (0, 1, 2)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("chunks", [None, {"t": 1, "x": 3}], ids=["eager", "lazy"])
def test_xarray_keeps_dimensions_coordinates_and_laziness(
    chunks: Any, axis: Any, keepdims: bool
) -> None:
    x = ARRAY.chunk(chunks) if chunks else ARRAY
    dims = {None: None, (): ()}.get(axis)
    if axis not in (None, ()):
        dims = [ARRAY.dims[i] for i in (axis if isinstance(axis, tuple) else (axis,))]
    # What xarray does to labels of its own sums.
    want = (x**2).sum(dims, keepdims=keepdims)
    got = halfulp.sum_square(x, axis, keepdims=keepdims)
    assert isinstance(got, xarray.DataArray)
    assert isinstance(got.data, da.Array) == bool(chunks)
    assert got.dims == want.dims
    assert got.name == "heat"
    assert got.coords.keys() == want.coords.keys()
    assert_same_bits(got.values, expected(ARRAY.values, axis, keepdims=keepdims))


@by_row
def test_labels_are_kept_by_every_row(row: Reduction) -> None:
    x = ARRAY.values
    reduce = function_of(row)
    for axis in (None, 0, (0, 2)):
        for lazy in (False, True):
            array = ARRAY.chunk({"t": 1, "x": 3}) if lazy else ARRAY
            got = reduce(array, axis, dtype="f8")
            assert isinstance(got, xarray.DataArray)
            assert isinstance(got.data, da.Array) == lazy
            assert got.name == "heat"
            assert_same_bits(got.values, expected_of(row, x, axis, "f8"))
    frame = pandas.DataFrame(X, index=["r", "s"], columns=list("abc"))
    assert reduce(frame, 0).index.tolist() == ["a", "b", "c"]
    assert_same_bits(reduce(frame, 1).to_numpy(), expected_of(row, X, 1))
    assert type(reduce(frame["a"])) is np.float32
    assert type(reduce(frame)) is np.float32
    exact = exact_function_of(row)(frame, 0)
    assert exact.index.tolist() == ["a", "b", "c"]
    onnx = getattr(halfulp, row.onnx_name)(frame, [0], keepdims=0)
    pandas.testing.assert_series_equal(reduce(frame, 0), onnx)


@by_row
def test_units_tables_and_sparsity_are_refused_by_every_row(row: Reduction) -> None:
    for reduce in (function_of(row), exact_function_of(row)):
        for x in (Forwarding(X), X.view(Subclass), _matrix(), Sparse(), Table()):
            with pytest.raises(UnsupportedTypeError, match=r"^x is a .*; allowed: a N"):
                reduce(x)
    for out in (np.ma.empty((), "f4"), _matrix(), np.empty((), "f4").view(Subclass)):
        with pytest.raises(ArgumentError, match=r"out is a \w+; allowed: a numpy.ndarr"):
            function_of(row)(X, out=out)


def test_xarray_on_the_other_faces() -> None:
    got = halfulp.reduce_sum_square(ARRAY.chunk({"t": 1}), [-1, -1])
    assert got.dims == ARRAY.dims
    assert isinstance(got.data, da.Array)
    assert_same_bits(got.values, expected(ARRAY.values, 2, keepdims=True))
    assert halfulp.reduce_sum_square(ARRAY, noop_with_empty_axes=1).dims == ARRAY.dims
    exact = halfulp.exact_sum_square(ARRAY, (0, 1))
    assert exact.dims == ("x",)
    assert exact.dtype == object
    assert exact.sel(x="b").item() == int((ARRAY.values[..., 1] ** 2).sum())
    variable = halfulp.sum_square(ARRAY.variable, 1, dtype="f8", split_every=None)
    assert isinstance(variable, xarray.Variable)
    assert (variable.dims, variable.dtype) == (("t", "x"), np.float64)


def test_nothing_in_xarray_is_loaded_before_it_is_computed() -> None:
    loaded = []

    def load(block: np.ndarray) -> np.ndarray:
        loaded.append(1)
        return block

    blocks = da.map_blocks(
        load, da.ones((4, 4), chunks=2), dtype="f8", meta=np.empty((0, 0))
    )
    result = halfulp.sum_square(xarray.DataArray(blocks, dims=("x", "y")), axis=1)
    assert loaded == []
    assert result.compute(scheduler="sync").values.tolist() == [4.0] * 4


def test_what_an_xarray_object_holds_is_judged_too() -> None:
    with pytest.raises(UnsupportedTypeError, match=rf"x is a {HERE}\.Quantity"):
        halfulp.sum_square(xarray.DataArray(Quantity(X), dims=("x", "y")))


class Quantity(Forwarding):
    """As xarray wants what it wraps without a copy."""

    def __array_function__(self, *arguments: Any) -> Any:
        raise AssertionError


def test_a_series_gives_a_scalar_or_keeps_its_index() -> None:
    x = pandas.Series(X[1], index=list("abc"), name="n")
    assert type(halfulp.sum_square(x)) is np.float32
    assert halfulp.sum_square(x, 0) == 50
    squares = halfulp.sum_square(x, (), dtype="f8")
    pandas.testing.assert_series_equal(squares, x.astype("f8") ** 2)


def test_a_frame_keeps_the_labels_that_are_left() -> None:
    x = pandas.DataFrame(X, index=["r", "s"], columns=list("abc"))
    x.attrs["place"] = "here"
    assert type(halfulp.sum_square(x)) is np.float32
    assert halfulp.sum_square(x, (0, 1)) == 55
    for axis in (0, 1, -1):
        got = halfulp.sum_square(x, axis)
        pandas.testing.assert_series_equal(got, (x**2).sum(axis=axis % 2))
        assert got.attrs == {"place": "here"}
        onnx = halfulp.reduce_sum_square(x, [axis], keepdims=0)
        pandas.testing.assert_series_equal(got, onnx)
        exact = halfulp.exact_sum_square(x, axis)
        assert exact.index.equals(got.index)
    pandas.testing.assert_frame_equal(halfulp.sum_square(x, ()), x**2)
    empty = halfulp.sum_square(x.iloc[:0], 0)
    assert empty.index.tolist() == ["a", "b", "c"]


def test_a_frame_is_of_one_dtype_of_numpys() -> None:
    mixed = pandas.DataFrame({"a": [1.5], "b": [2**53 + 1]})
    for x, message in [
        (mixed, "x is a pandas.DataFrame of dtypes float64, int64; allowed: one dtype"),
        (pandas.Series([1, None], dtype="Int64"), "x is a pandas.Series of dtype Int64;"),
        (pandas.DataFrame({"a": ["b"]}), "x is a pandas.DataFrame of dtype "),
    ]:
        with pytest.raises(UnsupportedTypeError, match=message):
            halfulp.sum_square(x)


def test_arguments_with_labels_are_checked() -> None:
    frame = pandas.DataFrame(X)
    for x in (frame, xarray.DataArray(X)):
        with pytest.raises(AxesError, match="axis 2 is out of range for rank 2"):
            halfulp.sum_square(x, 2)
        with pytest.raises(AxesError, match="axis 0 is given twice"):
            halfulp.sum_square(x, (0, -2))
        with pytest.raises(ArgumentError, match="out is given with an x that has labels"):
            halfulp.sum_square(x, out=np.empty((), np.float32))
        with pytest.raises(ArgumentError, match="overflow is 'no'; allowed"):
            halfulp.sum_square(x, overflow="no")
    with pytest.raises(ArgumentError, match=r"keepdims is set, x is a pandas\.Data"):
        halfulp.sum_square(frame, 0, keepdims=True)
    with pytest.raises(ArgumentError, match="keepdims is set, data is a pandas"):
        halfulp.reduce_sum_square(frame, [0])


# --- The libraries themselves, where they are installed.


def test_quantities_of_pint() -> None:
    pint = pytest.importorskip("pint")
    q = np.array([3.0, 4.0]) * pint.UnitRegistry().m
    for x in (q, q[0]):
        _refused(halfulp.sum_square, x, "x is a pint.Quantity", "no unit then)")
    assert halfulp.sum_square(q.magnitude) * q.units**2 == np.sum(np.square(q))


def test_quantities_of_astropy() -> None:
    units = pytest.importorskip("astropy.units")
    x = np.array([3.0, 4.0]) * units.m
    _refused(halfulp.sum_square, x, "x is an astropy.Quantity", "no unit then)")


def test_sparse_arrays_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    for x in (sparse.csr_array(np.eye(3)), sparse.eye(3, format="csr")):
        name = type(x).__name__
        for face, axes in ((halfulp.sum_square, 1), (halfulp.reduce_sum_square, [1])):
            with pytest.raises(
                UnsupportedTypeError, match=rf"is a scipy.{name}; .*toarr"
            ):
                face(x, axes)
