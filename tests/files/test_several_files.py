"""Several files at once: what can be summed is, and each failure is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import facts, fail
from halfulp.cli import main
from halfulp.files.paths import named_files
from summed_files import save_safetensors, save_zarr


@pytest.fixture
def several(folder: Path) -> Path:
    """Files that are good, foreign and broken, in folders of folders."""
    (folder / "d/sub/.hidden").mkdir(parents=True)
    x = np.float32([[3, 4]])
    np.save("d/a.npy", x)
    np.savez("d/sub/b.npz", w=x)
    save_safetensors(folder / "d/sub/c.safetensors", {"w": x})
    save_zarr(folder / "d/sub/z.zarr", {"w": x})
    np.save("d/sub/.hidden/n.npy", x)
    np.save("d/.n.npy", x)
    Path("d/readme.txt").write_text("no data")
    Path("d/page.npz").write_text("<!doctype html><p>404")
    Path("d/sub/cut.npy").write_bytes(Path("d/a.npy").read_bytes()[:-1])
    np.savez_compressed("d/sub/damaged.npz", w=np.arange(40000, dtype="f4")[None])
    content = bytearray(Path("d/sub/damaged.npz").read_bytes())
    content[-500] ^= 1
    Path("d/sub/damaged.npz").write_bytes(content)
    return folder


def told(
    arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 2
) -> tuple[Any, list[str]]:
    assert main([*arguments, "--json"]) == code
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("wrote ")]
    return json.loads(out), lines


@pytest.mark.parametrize(
    "options", [[], ["--axis", "1"], ["--axis", "1", "--state", "s"]]
)
def test_what_can_be_summed_is_and_failures_are_told(
    options: list[str], several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, lines = told(
        ["sum", "d", *options, "--tensor", "w", "--tensor", "d/*"], capsys
    )
    assert len(lines) == 3
    for line, name in zip(lines, ("page.npz", "cut.npy", "damaged.npz"), strict=True):
        assert line.startswith("halfulp: error: ")
        assert name in line
    failed = [Path(each["file"]).name for each in found["failed"]]
    assert failed == ["page.npz", "cut.npy", "damaged.npz"]
    assert [line.partition("error: ")[2] for line in lines] == [
        each["error"] for each in found["failed"]
    ]
    assert (found["files"], found["tensors"]) == (4, 4)
    if options:
        (sums,) = found["results"]
        assert (sums["first_values"], sums["elements"]) == ([100.0], 8)
    else:
        assert found["totals"][0]["sum_square"] == 100.0
    if "state" in options:
        (merged,) = facts(["merge", "s"], capsys)["results"]
        assert merged == sums
    # Nothing of a file that failed late is in the sums of the others.
    assert main(["sum", "d", *options]) == 2
    assert "not read: 3 files" in capsys.readouterr().out


def test_strict_stops_at_the_first(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--axis", "0"]):
        assert "page.npz" in fail(
            ["sum", "d", "--strict", "--state", "s", *options], capsys
        )
    assert not Path("s").exists()


def test_a_foreign_file_among_those_named_is_told(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, (line,) = told(["sum", "d/readme.txt", "d/a.npy"], capsys)
    assert "ending '.txt'; allowed: " in line
    assert found["totals"][0]["sum_square"] == 25.0
    found, lines = told(["sum", "none.npy", "d/readme.txt"], capsys)
    assert (found["files"], found["totals"], len(lines)) == (0, [], 2)
    # Alone, it is the error of the command.
    fail(["sum", "d/readme.txt", "--json"], capsys)


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["d/sub/*.npz", "d/sub/b.npz"], 1),
        (["d/*.npy"], 1),
        (["d/**/[bc].*"], 2),
        (["d/sub/z.zarr", "d/sub/[z].zarr"], 1),
        (["d/s?b"], 3),
        (["d/sub/b.npz", "d"], 4),
    ],
)
def test_folders_and_patterns_mean_each_file_once(
    names: list[str], files: int, several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for broken in ("page.npz", "sub/cut.npy", "sub/damaged.npz"):
        (several / "d" / broken).unlink()
    found, lines = told(["sum", *names], capsys, 0)
    assert (found["files"], found["failed"], lines) == (files, [], [])
    assert found["totals"][0]["sum_square"] == 25.0 * files


def test_folders_that_are_links_do_not_lead_in_circles(folder: Path) -> None:
    (folder / "d").mkdir()
    np.save(folder / "d/x.npy", np.ones(2))
    for name in "abcdef":
        (folder / "d" / name).symlink_to(".")
    again, _ = named_files([Path("d/**/*.npy")], (".npy",))
    below, _ = named_files([Path("d")], (".npy",))
    assert sorted(again) == sorted(below)
    assert below
    # One that is named is followed.
    named, _ = named_files([Path("d/[a]/*.npy")], (".npy",))
    assert {path.parent for path in named} == {Path("d/a")}


def test_a_zarr_folder_may_have_any_name(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stores").mkdir()
    for version in (2, 3):
        path = Path(f"stores/v{version}.data")
        save_zarr(path, {"w": np.float32([[3, 4]])}, version)
        assert facts(["sum", str(path)], capsys)["totals"][0]["sum_square"] == 25.0
    assert facts(["sum", "stores"], capsys)["files"] == 2


def test_names_that_mean_no_file_are_told(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "'x*.npz' matches no file" in fail(["sum", "x*.npz"], capsys)
    Path("empty").mkdir()
    _, (line,) = told(["sum", "empty", "d/a.npy"], capsys)
    assert "the folder 'empty' has no files to take" in line
    np.save("odd[1].npy", np.float32([2]))
    assert facts(["sum", "odd[1].npy"], capsys)["totals"][0]["sum_square"] == 4.0
    assert "again; allowed: each file once" in fail(
        ["sum", "d/a.npy", "./d/a.npy"], capsys
    )


def test_states_of_which_some_are_broken(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t").mkdir()
    for i, name in enumerate(("d/a.npy", "d/sub/b.npz", "d/sub/c.safetensors")):
        assert main(["sum", name, "--state", f"t/{i}.state"]) == 0
    Path("t/3.state").write_bytes(Path("t/2.state").read_bytes()[:-1])
    assert main(["sum", "d/a.npy", "--axis", "0", "--state", "t/4.state"]) == 0
    capsys.readouterr()
    for names in (["t"], ["t/*.state"], [f"t/{i}.state" for i in (3, 0, 1, 4, 2)]):
        found, lines = told(["merge", *names, "--state", "o"], capsys)
        assert found["totals"][0]["sum_square"] == 75.0
        assert [Path(each["file"]).name for each in found["failed"]] == [
            "3.state",
            "4.state",
        ]
        assert len(lines) == 2
        assert facts(["merge", "o"], capsys)["totals"][0]["sum_square"] == 75.0
    fail(["merge", "t", "--strict"], capsys)


def test_bfloat16_says_where_it_does_nothing(
    several: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["d/sub/c.safetensors", "d/a.npy"]
    _, (line,) = told(["sum", *files, "--bfloat16"], capsys, 0)
    assert "--bfloat16 does nothing in .safetensors files" in line
    _, lines = told(["sum", "d/a.npy", "--bfloat16"], capsys, 0)
    assert not lines
