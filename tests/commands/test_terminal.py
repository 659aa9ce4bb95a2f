"""Tables keep names and numbers whole, in pipes and in terminals of any width."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from rich.console import Console

from halfulp import terminal
from halfulp.cli import main
from onnx_models import model
from summed_files import save_safetensors
from terminals import in_terminal

LONG = [
    f"base_model.model.model.layers.{i}.self_attn.q_proj.lora_{x}.default.weight"
    for i in range(2)
    for x in "AB"
]
OUTPUT = "/model/layers.0/self_attention/[bold]attention[/bold]/ReduceSumSquare_output_0"
NODE = "/model/layers.0/attention/the ReduceSum of squares"
# Three times its square.
BIG, SUM = 2**62 - 1, str(3 * (2**62 - 1) ** 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with models and tensors of long names and large numbers."""
    monkeypatch.chdir(tmp_path)
    save_safetensors(tmp_path / "long.safetensors", dict.fromkeys(LONG, np.eye(3)))
    np.save("big.npy", np.full(3, BIG, np.int64))
    proto = model(
        "(float[N,3] x) => (y, z) { a = Mul(x, x) y = ReduceSum<keepdims=0>(a) "
        "z = ReduceSum(x) }"
    )
    proto.graph.node[1].output[0] = proto.graph.output[0].name = OUTPUT
    proto.graph.node[1].name = NODE
    onnx.save(proto, "m.onnx")
    np.save("x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    proto = model("(float16[N,3,512] x) => (y) { y = ReduceSumSquare<keepdims=0>(x) }")
    proto.graph.node[0].name = NODE
    onnx.save(proto, "half.onnx")
    return tmp_path


# Each command, with what must stay whole in what it prints.
COMMANDS = {
    "sum long.safetensors --per-tensor": [*LONG, "1.73205081", "3.4641016151377544"],
    "sum big.npy x.npy": ["int64", SUM, "7.41619848709566", "55.0"],
    "sum long.safetensors --per-tensor --axis 0": [*LONG, "double", "[3]", "1  1  1"],
    "stats long.safetensors big.npy": [*LONG, "double", "1.73205081"],
    "run m.onnx --input x=x.npy": [OUTPUT, "float", "[1, 1]", "55", "15"],
    "fuse m.onnx -o f.onnx": [NODE, "Mul", "ReduceSum"],
    "expand half.onnx -o e.onnx": [NODE],
    "check half.onnx": ["ReduceSumSquare-18", "float16-overflow", "512]", "65520"],
    "convert half.onnx --opset 13 -o c.onnx": ["ReduceSumSquare-13"],
    "verify halfulp onnxruntime --quick --operators ReduceL1 -k 18_float16_axes": [
        "onnxruntime",
        "exact",
    ],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_has_each_name_and_number_in_one_line(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    for words in COMMANDS[command]:
        assert any(words in line for line in lines), words


def test_a_row_of_a_table_is_one_line_in_a_pipe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sum", "long.safetensors", "--per-tensor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line.split() for line in lines if "lora_A" in line]
    assert found == [[n, "double", "9", "3", "1.73205081"] for n in LONG[::2]]
    assert main(["fuse", "m.onnx", "-o", "f.onnx"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = (line for line in lines if NODE in line)
    assert line.split()[-4:] == ["yes", "Mul", "and", "ReduceSum"]


@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_of_any_width_has_names_and_numbers_whole(
    command: str, columns: int, folder: Path
) -> None:
    code, shown = in_terminal(columns, *command.split())
    assert code == 0
    for words in COMMANDS[command]:
        # Prose wraps between words.
        whole = words if words in LONG or words[0] == "[" else words.split()[0]
        assert any(whole in line for line in shown.splitlines()), shown


@pytest.mark.parametrize("columns", [80, 50])
def test_prose_wraps_between_words(columns: int, folder: Path) -> None:
    code, shown = in_terminal(columns, "check", "half.onnx")
    assert code == 0
    lines = shown.splitlines()
    assert max(map(len, lines)) <= columns
    assert "on the result is infinite fix: Cast the data to float" in " ".join(
        shown.split()
    )


def test_short_tables_stay_tables_in_a_terminal(folder: Path) -> None:
    code, shown = in_terminal(80, "sum", "x.npy", "--per-tensor")
    assert code == 0
    rows = [line.split() for line in shown.splitlines() if "x.npy" in line]
    assert rows == [["x.npy", "float", "6", "55", "7.41619849"]]


def test_csv_has_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(command: str) -> list[dict[str, str]]:
        assert main([*command.split(), "--csv"]) == 0
        out, err = capsys.readouterr()
        assert err in ("", "wrote f.onnx\n")
        return list(csv.DictReader(io.StringIO(out)))

    found = rows("sum long.safetensors big.npy --per-tensor")
    assert [row["name"] for row in found] == [*LONG, "big.npy"]
    assert found[-1]["sum_square"] == SUM
    assert found[-1]["hex"] == ""
    assert float.fromhex(found[0]["hex"]) == float(found[0]["sum_square"]) == 3
    assert [row["kind"] for row in rows("sum big.npy x.npy")] == ["float", "integer"]
    (row,) = rows("sum x.npy --axis 0 --per-tensor")
    assert row["first_values"] == "9.0 17.0 29.0"
    assert main(["sum", "x.npy", "--state", "x.state"]) == 0
    capsys.readouterr()
    assert rows("merge x.state")[0]["sum_square"] == "55.0"
    found = rows("run m.onnx --input x=x.npy")
    assert [row["output"] for row in found] == [OUTPUT, "z"]
    assert [row["shape"] for row in found] == ["", "1 1"]
    (row,) = rows("fuse m.onnx -o f.onnx")
    assert NODE in row["node"]
    assert row["fused"] == "True"


def test_csv_of_names_that_need_quotes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = 'a,b "c"\nd'
    save_safetensors(folder / "odd.safetensors", {name: np.ones(2)})
    assert main(["sum", "odd.safetensors", "--per-tensor", "--csv"]) == 0
    out = capsys.readouterr().out
    assert next(csv.DictReader(io.StringIO(out)))["name"] == name


def test_csv_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "verify halfulp onnxruntime --quick --operators ReduceSumSquare "
        "-k 18_float16_t --csv v.csv --json v.json"
    )
    assert main([*command.split(), "--json", "v.json"]) in (0, 1)
    with open("v.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    runs = json.loads(Path("v.json").read_text())
    wanted = [(run["backend"], c["name"]) for run in runs for c in run["cases"]]
    assert [(row["backend"], row["case"]) for row in rows] == wanted
    chosen = "--reductions sum --cells small --types float16,float32"
    command = f"bench --quick {chosen} --no-peers --csv b.csv"
    assert main(command.split()) == 0
    with open("b.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["table"], row["cell"]) for row in rows] == [
        ("sum of float16", "small"),
        ("sum of float32", "small"),
    ]


def test_one_form_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("x.npz", x=np.ones(2))
    for command in (
        "sum x.npy",
        "merge x.state",
        "run m.onnx --input x=x.npy",
        "fuse m.onnx -o f.onnx",
        "expand m.onnx -o f.onnx",
    ):
        assert main([*command.split(), "--json", "--csv"]) == 2
        assert "allowed: one of them" in capsys.readouterr().err
        assert not Path("f.onnx").exists()


def test_help_splits_no_word(folder: Path) -> None:
    code, shown = in_terminal(40, "run", "--help")
    assert code == 0
    for word in ("--output", "onnxruntime|reference", "MODEL.expected.npz"):
        assert word in shown


def test_columns_of_prose_have_room_or_rows_are_listed() -> None:
    table = terminal.new_table("name", "why", prose=["why"])
    table.add_row("x" * 30, "one two three four five six seven eight nine")
    for width in (90, 64, 58):
        console = Console(width=width, file=io.StringIO(), force_terminal=True)
        terminal.print_table(console, table)
        assert isinstance(console.file, io.StringIO)
        shown = console.file.getvalue()
        assert ("─" in shown) == (width > 58)
        assert shown.count("x" * 30) == 1
        assert ("one two three four five six seven eight nine" in shown) == (width != 64)


def test_the_list_of_commands_is_not_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ([], ["bench"]):
        assert main([*command, "--help"]) == 0
        _, _, listed = capsys.readouterr().out.partition("Commands:")
        assert listed
        assert "..." not in listed
