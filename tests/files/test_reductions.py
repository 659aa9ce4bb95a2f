"""Every sum of the table from files: the bits of the functions, in states too."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp
from command_line import facts, fail
from halfulp.cli import main
from halfulp.exact_sums import ExactSum
from halfulp.files.sums.totals import Totals
from halfulp.reductions import SUMS, Reduction
from oracle import assert_same_bits
from summed_files import save_state

ROWS = pytest.mark.parametrize("row", SUMS, ids=lambda row: row.name)
KEYS = {"value": "sum", "magnitude": "l1", "square": "sum_square"}


def reduced(row: Reduction, x: np.ndarray, **options: Any) -> Any:
    options |= {} if row.ord is None else {"ord": row.ord}
    return getattr(halfulp, row.numpy_name or "")(x, **options)


@ROWS
def test_totals_and_states_have_the_bits_of_the_functions(
    row: Reduction,
    folder: Path,
    rng: np.random.Generator,
    small_pieces: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = rng.standard_normal((30, 7)) * 2.0 ** rng.integers(-300, 300, (30, 7))
    half = rng.standard_normal(9).astype("f2")
    np.savez("x.npz", x=x, h=half, e=np.empty(0))
    np.save("y.npy", -x[::-1] / 3)
    option = ["--reduction", row.name]
    (found,) = facts(["sum", "x.npz", "y.npy", *option], capsys)["totals"]
    parts = [x, half.astype("f8"), -x / 3]
    every = np.concatenate([part.ravel() for part in parts])
    key = KEYS[row.term]
    of_term = {"value": halfulp.sum, "square": halfulp.sum_square}
    total = of_term.get(row.term, lambda x: halfulp.vector_norm(x, ord=1))(every)
    assert found[key] == total
    assert float.fromhex(found["hex"]) == total
    assert found.get("mean") == (halfulp.mean(every) if row.term == "value" else None)
    norm = halfulp.vector_norm(every) if row.term == "square" else None
    assert found.get("norm") == norm
    for name in ("x.npz", "y.npy"):
        assert main(["sum", name, *option, "--state", f"{name}.state"]) == 0
    capsys.readouterr()
    merge = ["merge", "y.npy.state", "x.npz.state"]
    assert facts([*merge, *option], capsys)["totals"][0][key] == total
    assert main(["sum", "x.npz", "y.npy", *option, "--state", "all.state"]) == 0
    assert main([*merge, "--state", "merged.state"]) == 0
    assert Path("merged.state").read_bytes() == Path("all.state").read_bytes()


@ROWS
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint32"])
def test_arrays_have_the_bits_of_the_functions(
    row: Reduction,
    dtype: str,
    folder: Path,
    rng: np.random.Generator,
    small_pieces: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = (rng.standard_normal((40, 3, 5)) * 1000).astype(dtype)
    if dtype == "uint32":
        x = abs(x.astype("i4")).astype(dtype)
    np.save("z.npy", x)
    option = ["--reduction", row.name, "--output", "out.npy"]
    real = dtype == "float32" or row.finish != "none"
    into = "f8" if real else "u8" if dtype == "uint32" else "i8"
    for axis in (0, 2):
        expected = reduced(row, x, axis=axis, dtype=into)
        for more in ([], ["--state", "z.state"]):
            command = ["sum", "z.npy", "--axis", str(axis), *option, *more]
            (result,) = facts(command, capsys)["results"]
            assert result["elements"] == x.shape[axis]
            assert_same_bits(np.load("out.npy"), expected)
        (result,) = facts(["merge", "z.state", *option], capsys)["results"]
        assert_same_bits(np.load("out.npy"), expected)


def test_integers_with_signs_and_without_have_one_sum(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = {
        "a": np.array([[2**64 - 1, 5], [2**64 - 1, 2**63]], np.uint64),
        "b": np.array([[-(2**63), -7], [-(2**63), -3]], np.int64),
        "c": np.array([[2**32 - 1, 1], [0, 0]], np.uint32),
        "d": np.array([[-1, -(2**31)], [0, 0]], np.int32),
    }
    np.savez("i.npz", **parts)
    totals = [[int(n) for n in sum(x.astype(object) for x in parts.values()).ravel()]]
    command = ["sum", "i.npz", "--reduction", "sum"]
    for names in ("abcd", "ab", "cd", "bc", "ad", "ac", "bd"):
        tensors = [arg for name in names for arg in ("--tensor", name)]
        total = sum(int(n) for name in names for n in parts[name].ravel().tolist())
        (found,) = facts([*command, *tensors], capsys)["totals"]
        assert found["sum"] == total
        assert found["mean"] == float(Fraction(total, 4 * len(names)))
    along = ["--axis", "1"]
    sums = [sum(totals[0][:2]), sum(totals[0][2:])]
    assert sums[1] >= 2**63
    message = fail([*command, *along], capsys)
    assert "integer" in message
    (found,) = facts([*command, *along, "--dtype", "uint64"], capsys)["results"]
    assert found["first_values"] == sums
    (found,) = facts(["sum", "i.npz", *along, "--reduction", "mean"], capsys)["results"]
    assert found["first_values"] == [float(Fraction(n, 8)) for n in sums]


def test_states_of_other_terms_do_not_merge(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sum", "l1", "l2"):
        main(["sum", "x.npy", "--reduction", name, "--state", f"{name}.state"])
    capsys.readouterr()
    message = fail(["merge", "sum.state", "l1.state", "--strict"], capsys)
    assert "states of magnitudes and of values; allowed: of one of them" in message
    message = fail(["merge", "l2.state", "--reduction", "mean"], capsys)
    assert "sums of squares that were saved: sum_square, l2" in message
    assert facts(["merge", "l2.state"], capsys)["reduction"] == "sum_square"
    for command in ("sum", "x.npy"), ("merge", "sum.state"):
        assert "--reduction is 'max'" in fail([*command, "--reduction", "max"], capsys)
    # Files that say one term and have another.
    wrong = Totals(False, None, "value")
    wrong.add("", ExactSum("float", term="magnitude").update(np.ones(2, "f4")))
    Path("wrong.state").write_bytes(save_state(wrong))
    assert "is of magnitudes; allowed: of values" in fail(
        ["merge", "wrong.state"], capsys
    )
    wrong.term = "length"  # type: ignore[assignment]
    Path("wrong.state").write_bytes(save_state(wrong))
    assert "has sums of b'length'" in fail(["merge", "wrong.state"], capsys)
