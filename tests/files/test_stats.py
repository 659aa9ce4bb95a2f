"""Statistics of tensors in files: the bits of the functions, and where NaN is."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp
from command_line import facts, fail
from halfulp.cli import main
from halfulp.files.formats.by_ending import find_tensors
from halfulp.files.sums.statistics import statistics_facts, statistics_of
from oracle import TYPES
from summed_files import save_onnx, save_safetensors, save_zarr


def told(path: Path, whole: bool = True, ddof: int = 0) -> dict[str, Any]:
    (tensor,), _ = find_tensors(path, [], True)
    statistics = statistics_of(tensor, lambda more: None, whole)
    return statistics_facts(tensor, statistics, ddof)


def expected(x: np.ndarray, ddof: int = 0) -> dict[str, Any]:
    """What the functions give of an array in memory, as double."""
    wide: dict[str, Any] = {"dtype": np.float64}
    total = halfulp.exact_sum(x) if x.dtype.kind in "iu" else halfulp.sum(x, **wide)
    return {
        "sum": total,
        "mean": halfulp.mean(x, **wide),
        "std": halfulp.std(x, ddof=ddof, **wide),
        "min": halfulp.min(x).item(),
        "max": halfulp.max(x).item(),
        "norm": halfulp.vector_norm(x, dtype=np.float64),
    }


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("ending", ["npy", "safetensors", "onnx"])
def test_every_number_has_the_bits_of_the_function(
    ending: str,
    dtype: Any,
    tmp_path: Path,
    rng: np.random.Generator,
    small_pieces: None,
) -> None:
    # Nothing below 0: as uint64 it would be near 2^64, its square beyond what sums hold.
    x = abs(rng.standard_normal((13, 7, 3)) * 50 + 200).astype(dtype)
    path = tmp_path / f"x.{ending}"
    if ending == "npy":
        np.save(path, np.asfortranarray(x))
    else:
        (save_onnx if ending == "onnx" else save_safetensors)(path, {"x": x})
    for ddof in (0, 1):
        found = told(path, ddof=ddof)
        assert found["elements"] == x.size
        assert found["nan"] == found["inf"] == 0
        assert {key: found[key] for key in expected(x)} == expected(x, ddof)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", ["C", "F", "zarr"])
def test_the_first_nan_and_infinity_have_their_place_in_c_order(
    form: Any, dtype: str, tmp_path: Path, rng: np.random.Generator, small_pieces: None
) -> None:
    for trial in range(8):
        x = rng.standard_normal((6, 5, 8)).astype(dtype)
        for value in (np.nan, np.inf, -np.inf):
            x.flat[rng.integers(0, x.size, rng.integers(0, 5))] = value
        if trial == 0:
            x[0, 0, 0] = np.nan
        path = tmp_path / f"{trial}.{'zarr' if form == 'zarr' else 'npy'}"
        if form == "zarr":
            save_zarr(path, {"x": x})
        else:
            np.save(path, np.asarray(x, order=form))
        found, of_numbers = told(path), told(path, whole=False)
        for what, mask in ("nan", np.isnan(x)), ("inf", np.isinf(x)):
            places = np.argwhere(mask).tolist()
            assert found[what] == of_numbers[what] == len(places)
            assert found[f"first_{what}"] == (places[0] if places else None)
        if np.isfinite(x).all():
            assert found == of_numbers
        else:
            assert found["mean"] in ("nan", "inf", "-inf")
        numbers = x[np.isfinite(x)]
        assert {key: of_numbers[key] for key in expected(numbers)} == expected(numbers)


def test_chunks_that_were_never_written_count(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "x.zarr"
    options = {"shape": (10, 6), "chunks": (4, 4), "dtype": "f4"}
    array = zarr.create_array(path, fill_value=np.nan, **options)
    array[0:4, :] = 3
    found, of_numbers = told(path), told(path, whole=False)
    assert (found["nan"], found["first_nan"]) == (36, [4, 0])
    assert (of_numbers["sum"], of_numbers["max"]) == (72, 3)
    path = tmp_path / "y.zarr"
    array = zarr.create_array(path, fill_value=2, **options)
    array[0:4, 0:4] = 3
    assert told(path)["sum"] == 3 * 16 + 2 * 44
    assert told(path)["norm"] == math.sqrt(9 * 16 + 4 * 44)
    path = tmp_path / "z.zarr"
    options["shape"] = (2**25, 2**25)
    zarr.create_array(path, fill_value=2, **options)
    assert (told(path)["mean"], told(path)["norm"]) == (2, 2.0**26)


def test_the_command_tells_all_tensors_in_every_form(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.array([[1, 2], [np.nan, 4]], np.float32)
    np.savez("z.npz", a=x, b=np.arange(5), c=np.empty((0, 2)), d=np.array(["text"]))
    found = facts(["stats", "z.npz", "x.npy"], capsys)
    assert [row["name"] for row in found["tensors"]] == ["a", "b", "c", "x.npy"]
    a, b, c, _ = found["tensors"]
    assert (a["sum"], a["nan"], a["first_nan"], a["inf"]) == ("nan", 1, [1, 0], 0)
    assert (b["sum"], b["mean"], b["std"], b["min"], b["max"]) == (10, 2, 2**0.5, 0, 4)
    assert (c["elements"], c["sum"], c["mean"], c["min"]) == (0, 0, "nan", None)
    assert found["skipped"] == [{"name": "d", "type": "<U4"}]
    assert main(["stats", "z.npz", "--tensor", "a", "--finite", "--csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["sum"], row["max"], row["nan"], row["first_nan"]) == (
        "7.0",
        "4.0",
        "1",
        "1 0",
    )
    assert main(["stats", "z.npz"]) == 0
    out = capsys.readouterr().out
    assert "1, first at [1, 0]" in out
    assert "not read: 1 tensor of type <U4" in out
    (row,) = facts(["stats", "z.npz", "--tensor", "b", "--ddof", "1"], capsys)["tensors"]
    assert row["std"] == halfulp.std(np.arange(5), ddof=1)


def test_sums_of_squares_that_are_not_held_are_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save("big.npy", np.full(100, 2**62))
    (row,) = facts(["stats", "big.npy"], capsys)["tensors"]
    assert (row["sum"], row["norm"], row["std"]) == (100 * 2**62, None, None)
    assert main(["stats", "big.npy"]) == 0
    assert "beyond 2**127" in capsys.readouterr().out


def test_what_cannot_be_read_is_told_and_the_rest_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:-1])
    assert "cut.npy" in fail(["stats", "cut.npy"], capsys)
    assert main(["stats", "cut.npy", "x.npy"]) == 2
    out, err = capsys.readouterr()
    assert "1 tensor in 1 file" in out
    assert "not read: 1 file" in out
    assert err.count("\n") == 1
    assert "--json and --csv" in fail(["stats", "x.npy", "--json", "--csv"], capsys)
