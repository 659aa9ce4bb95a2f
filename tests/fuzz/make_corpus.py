"""Write the seeds of fuzz_bytes.py: small files that halfulp takes, or nearly.

python tests/fuzz/make_corpus.py

Files there with other names are what fuzzers found.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import halfulp
from halfulp.files.sums.state_file import write_totals
from halfulp.files.sums.totals import Totals
from halfulp.reductions import SUMS
from hostile_nodes import SCHEMAS
from onnx_models import DATA, DTYPES, function, model, reduce_model, report_model, reports

CORPUS = Path(__file__).parent / "corpus"


def _axes() -> dict[str, bytes]:
    return {
        "one": bytes([3, 2, 3, 1, 1, 0, 129, 0, 1, 0]),
        "none": bytes([2, 3, 3, 0, 3, 1, 1]),
        "odd": bytes([2, 2, 2, 3, 201, 206, 210, 1, 1]),
        "means": bytes([3, 2, 3, 1, 1, 0, 129, 0, 1, 0, 2]),
        "many": bytes([5, 1, 2, 3, 1, 2, 4, 0, 127, 0, 128, 0, 3, 0, 132, 3, 1, 0]),
    }


def _elements() -> dict[str, bytes]:
    """For each row of the table, some elements of each kind of type."""
    values = [1, -1, 3e38, -3e38, 1e-45, np.inf, np.nan, -0.0, 2**24, 5]
    numbers = [-(2**63), 2**63 - 1, -1, 0, 2**53 + 1]
    return {
        f"{row.name}_{kind}": bytes([i, type_, into, columns, 1 + i, i]) + x.tobytes()
        for i, row in enumerate(SUMS)
        for kind, type_, into, columns, x in (
            ("floats", 2, 3, 4, np.float32(values)),
            ("integers", 5, 6, 0, np.int64(numbers)),
            ("bytes", 11, 16, 6, np.arange(240, 256).astype(np.uint8)),
        )
    }


def _models() -> dict[str, bytes]:
    texts = {
        "if": model(
            """(float[2,3] x, bool c) => (y) {
               y = If (c) <then_branch = t () => (a) { a = ReduceSumSquare(x) },
                           else_branch = e () => (b) { b = Abs(x) }> }"""
        ),
        "function": model(
            "(float[N,3] x) => (y) { y = f.sq <k = 0> (x) }",
            function("b = ReduceSumSquare <axes = [1], keepdims: int = @k> (a)"),
        ),
        "nested_functions": model(
            "(float[2,3] x) => (y) { y = f.g (x) }",
            function("b = f.sq <k = 1> (a)", head="g (a) => (b)"),
            function("b = ReduceSumSquare <keepdims: int = @k> (a)"),
        ),
    }
    for form in ("absent", "empty name", "const", "node", "input", "default"):
        axes = [-1] if form not in ("absent", "empty name") else None
        texts[form.replace(" ", "_")] = reduce_model(DATA, axes=axes, axes_form=form)[0]
    texts["attribute"] = reduce_model(DATA, opset=11, axes=[0, 1], axes_form="attr")[0]
    for case in reports("reject"):
        texts[f"rejected_{case['opset']}_{case['axes_form']}"] = report_model(case)[0]
    return {name: proto.SerializeToString() for name, proto in texts.items()}


def _nodes() -> dict[str, bytes]:
    """Nodes that crash the shape inference of onnx 1.23, with its list of operators."""
    index = {(s.name, s.since_version): i for i, s in enumerate(SCHEMAS)}
    data = [5, 0, 0, 1, 2, 2, 3]  # a tensor of the first type allowed, of shape [2, 3]
    rest = {
        ("GatherND", 13): [2, *data, 5, 0, 0, 1, 1, 0, 1, 1, 6],
        ("LayerNormalization", 17): [2, *data, *data, 2, 1, 12],
        ("Split", 18): [1, *data, 3, 0, 1, 1],
        ("EyeLike", 22): [1, 1, 1, 1, 1],
        ("RegexFullMatch", 20): [1, 1, 1],
        ("DictVectorizer", 1): [1, 1, 1],
        ("LabelEncoder", 1): [1, 1, 1],
        ("TreeEnsemble", 5): [1, 1, 1],
    }
    return {
        name.lower(): bytes([*divmod(index[name, version], 256), *choices])
        for (name, version), choices in rest.items()
    }


def _choices() -> dict[str, bytes]:
    """Choices of nested graphs, or of functions, that reach most of each."""
    return {
        "counted": bytes(range(120)),
        "sixes": bytes([3, 1, 1, 6] * 20),
        "fives": bytes([3, 1, 1, 5, 1, 1, 1] * 20),
        "squares": bytes([2, 1, 1, 1, 1, 1, 0, 1, 0]),
        "calls": bytes(
            [2, 2, 2, 1, 0, 1, 1, 0, 1, 1, 0, 2, 1, 1, 4, 1, 0, 0, 1, 1, 0] * 4
        ),
    }


def _tensors() -> dict[str, bytes]:
    seeds = {}
    for name, dtype in DTYPES.items():
        array = np.arange(4).astype(dtype).reshape(2, 2)
        seeds[name] = onnx.numpy_helper.from_array(array).SerializeToString()
    typed = onnx.TensorProto(data_type=1, dims=[2], float_data=[1, 2])
    seeds["float_data"] = typed.SerializeToString()
    strings = onnx.TensorProto(data_type=8, dims=[2], string_data=[b"a", b"\xff"])
    seeds["strings"] = strings.SerializeToString()
    outside = onnx.TensorProto(data_type=1, dims=[2], data_location=1)
    outside.external_data.add(key="location", value="../weights")
    seeds["external"] = outside.SerializeToString()
    return seeds


def _arrays() -> dict[str, bytes]:
    seeds = {}
    for name, array in {
        "float32": DATA,
        "big_endian_fortran": np.asfortranarray(DATA.astype(">f8")),
        "scalar": np.array(3),
        "empty": np.zeros((0, 4), np.float16),
        "bfloat16": np.zeros(3, "V2"),
        "record": np.zeros(2, [("a", "f4"), ("b", "i8")]),
    }.items():
        file = io.BytesIO()
        np.save(file, array)
        seeds[name] = file.getvalue()
    file = io.BytesIO()
    np.lib.format.write_array(file, DATA, version=(3, 0))
    seeds["version_3"] = file.getvalue()
    file = io.BytesIO()
    np.savez_compressed(file, a=DATA)
    seeds["npz"] = file.getvalue()
    pickled = io.BytesIO()
    np.save(pickled, np.array([None]), allow_pickle=True)
    seeds["pickled"] = pickled.getvalue()
    return seeds


def _states() -> dict[str, bytes]:
    seeds = {}
    for name, dtype in DTYPES.items():
        sums = halfulp.SumSquare(dtype, 2).update(
            np.arange(6).astype(dtype).reshape(3, 2), 0
        )
        seeds[name] = sums.to_bytes()
    return seeds


def _npz() -> dict[str, bytes]:
    seeds = {}
    for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
        file = io.BytesIO()
        save(file, a=DATA, b=np.arange(3))
        seeds[name] = file.getvalue()
    return seeds


def _safetensors() -> dict[str, bytes]:
    header = (
        b'{"__metadata__": {"format": "pt"}, '
        b'"a": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}, '
        b'"b": {"dtype": "I64", "shape": [], "data_offsets": [8, 16]}}'
    )
    return {"two": len(header).to_bytes(8, "little") + header + bytes(range(16))}


def _state_files() -> dict[str, bytes]:
    seeds = {}
    for name, per_tensor, axis in (
        ("whole", False, None),
        ("each", True, None),
        ("along", True, (0,)),
    ):
        totals = Totals(per_tensor, axis)
        sums = halfulp.SumSquare("float", () if axis is None else 3)
        totals.add("w", sums.update(DATA, axis))
        totals.files = totals.tensors = 1
        file = io.BytesIO()
        write_totals(totals, file)
        seeds[name] = file.getvalue()[:-4]  # the target adds the checksum
    return seeds


def _zarr() -> dict[str, bytes]:
    common: dict[str, Any] = {"shape": [5, 7], "fill_value": 1.5}
    two = {"zarr_format": 2, "chunks": [2, 3], "dtype": "<f4", "compressor": None}
    two |= {"filters": None, "order": "C"}
    codec = {"name": "bytes", "configuration": {"endian": "little"}}
    three = {"zarr_format": 3, "node_type": "array", "data_type": "float32"}
    three["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [4, 4]}}
    three["chunk_key_encoding"] = {"name": "default"}
    inner = {"chunk_shape": [2, 2], "codecs": [codec]}
    inner |= {"index_codecs": [codec, {"name": "crc32c"}], "index_location": "end"}
    shards = [{"name": "sharding_indexed", "configuration": inner}]
    return {
        name: json.dumps(common | each).encode()
        for name, each in {
            "two": two,
            "three": three | {"codecs": [codec]},
            "shards": three | {"codecs": shards},
            "bfloat16": three | {"codecs": [codec], "data_type": "bfloat16"},
        }.items()
    }


def _weights() -> dict[str, bytes]:
    graph = onnx.GraphProto(name="g")
    graph.initializer.append(onnx.numpy_helper.from_array(DATA, "raw"))
    graph.initializer.append(
        onnx.TensorProto(name="typed", data_type=1, dims=[2], float_data=[1, 2])
    )
    return {"two": onnx.ModelProto(ir_version=8, graph=graph).SerializeToString()}


SEEDS = {
    "axes": _axes,
    "elements": _elements,
    "merge": _state_files,
    "functions": _choices,
    "graphs": _choices,
    "model": _models,
    "node": _nodes,
    "npy": _arrays,
    "state": _states,
    "sum_npy": _arrays,
    "sum_npz": _npz,
    "sum_onnx": _weights,
    "sum_safetensors": _safetensors,
    "sum_zarr": _zarr,
    "tensor": _tensors,
}


def main() -> None:
    """Write all seeds."""
    for target, seeds in SEEDS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds().items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
