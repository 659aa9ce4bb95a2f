"""Worked examples of an operator, from ONNX's node tests.

May import json_values, records, reductions, spec, onnx.run.evaluate, and hard_examples
of this package. Of reductions there are more: those that public documentation shows, in
seed_examples.json, and hard ones. Their outputs are computed by halfulp when they are
asked for; those of other operators are the ones that ONNX recorded.
"""

from __future__ import annotations

import functools
import importlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from halfulp.json_values import plain
from halfulp.onnx.run.evaluate import run_model
from halfulp.page.hard_examples import hard_examples
from halfulp.records import load
from halfulp.reductions import reduction_named
from halfulp.spec.schemas import Value, attribute_value

# More elements have no values in an example, and only the first and last in its text.
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Operand:
    """An input or output of an example.

    Attributes
    ----------
    name : str
    dtype : str
        NumPy's or ml_dtypes' name, ``string``, ``sequence`` or ``none``.
    shape : tuple of int or None
        Of a sequence, its length.
    values : list or None
        In C order; floats that JSON lacks are strings. None where there are too many.
    text : str
        As NumPy prints it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    values: list[Any] | None
    text: str

    @property
    def kind(self) -> str:
        """Shape and type, in words."""
        if self.shape is None:
            return "absent"
        return f"shape={self.shape}, dtype={self.dtype}"


@dataclass(frozen=True, slots=True)
class Example:
    """One worked example.

    Attributes
    ----------
    name : str
    node : str
        Such as ``ReduceSumSquare(data, axes) -> (reduced)``.
    opset : int
        Of the operator's domain.
    attributes : dict
    inputs, outputs : tuple of Operand
        Without those whose name is empty.
    computed_by : {"halfulp", "ONNX"}
        Where the outputs come from.
    recorded : tuple of Operand
        The outputs recorded elsewhere whose bits halfulp's differ from.
    """

    name: str
    node: str
    opset: int
    attributes: dict[str, Value]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    computed_by: Literal["halfulp", "ONNX"]
    recorded: tuple[Operand, ...]

    @property
    def attribute_text(self) -> str:
        """The attributes, one a line."""
        return "\n".join(f"{k} = {_text(v)}" for k, v in self.attributes.items())

    @property
    def operands(self) -> dict[str, tuple[Operand, ...]]:
        """Inputs and outputs under their titles."""
        return {
            "Inputs": self.inputs,
            "Outputs": self.outputs,
            "Recorded outputs, which differ": self.recorded,
        }


def _text(value: Value) -> str:
    return value if isinstance(value, str) and "\n" in value else json.dumps(value)


def examples(op: str, domain: str = "") -> tuple[Example, ...]:
    """Return the worked examples of an operator, sorted by name."""
    row = reduction_named(op, domain)
    ours, found = row is not None, {}
    for name, model, inputs, outputs in _node_tests(op, domain):
        found[name] = _example(name, model, inputs, outputs, ours)
    if row is not None:
        node = {"operator": op, "opset": row.newest.since, "attributes": {"keepdims": 0}}
        for name, feeds in hard_examples(row):
            reduced = np.empty(len(feeds["data"]), feeds["data"].dtype)
            model = _model(node, feeds, {"reduced": reduced})
            found[name] = _example(name, model, feeds.values(), (), ours)
    for entry in load("seed_examples"):
        if (entry["operator"], domain) == (op, ""):
            name = entry["name"]
            given = {k: _array(v) for k, v in entry["inputs"].items()}
            wanted = {k: _array(v) for k, v in entry["outputs"].items()}
            model = _model(entry, given, wanted)
            found[name] = _example(name, model, given.values(), wanted.values(), ours)
    return tuple(found[name] for name in sorted(found))


def _node_tests(
    op: str, domain: str
) -> Iterator[tuple[str, onnx.ModelProto, Sequence[Any], Sequence[Any]]]:
    """Yield name, model, inputs and outputs of the node tests of onnx.

    onnx collects them while it imports a module for each operator. Importing all
    takes ten seconds; those that name the operator are enough.
    """
    try:
        from onnx.backend.test.case import node as cases
    except ImportError:  # a distribution of onnx without its tests
        return
    for module, text in _sources(Path(cases.__path__[0]), cases.__name__).items():
        if re.search(rf"\b{op}\b", text):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # overflow and the like, as tested
                importlib.import_module(module)
    # Where they are collected; the public function imports all.
    for case in cases._NodeTestCases:
        node = case.model.graph.node[0]
        alone = len(case.model.graph.node) == 1 and "_expanded" not in case.name
        if alone and (node.domain, node.op_type) == (domain, op):
            yield case.name, case.model, *case.data_sets[0]


@functools.cache
def _sources(folder: Path, package: str) -> dict[str, str]:
    """Return the text of every module of a package, by name."""
    files = sorted(folder.rglob("[!_]*.py"))
    names = [".".join(f.relative_to(folder).with_suffix("").parts) for f in files]
    return {
        f"{package}.{name}": file.read_text(encoding="utf-8")
        for name, file in zip(names, files, strict=True)
    }


def _model(entry: Any, inputs: Any, outputs: Any) -> onnx.ModelProto:
    def infos(arrays: Any) -> list[onnx.ValueInfoProto]:
        return [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
            )
            for name, a in arrays.items()
        ]

    op = entry["operator"]
    node = onnx.helper.make_node(op, [*inputs], [*outputs], **entry["attributes"])
    graph = onnx.helper.make_graph([node], op, infos(inputs), infos(outputs))
    opset = onnx.helper.make_opsetid("", entry["opset"])
    return onnx.helper.make_model_gen_version(graph, opset_imports=[opset])


def _array(entry: Any) -> Any:
    return np.array(entry["values"], entry["dtype"]).reshape(entry["shape"])


def _example(
    name: str,
    model: onnx.ModelProto,
    inputs: Iterable[Any],
    outputs: Iterable[Any],
    ours: bool,
) -> Example:
    node = model.graph.node[0]
    feeds = dict(zip(filter(None, node.input), map(_value, inputs), strict=False))
    recorded = dict(zip(filter(None, node.output), map(_value, outputs), strict=False))
    shown = run_model(model, feeds) if ours else recorded
    return Example(
        name=name,
        node=f"{node.op_type}({', '.join(node.input)}) -> ({', '.join(node.output)})",
        opset=next(o.version for o in model.opset_import if o.domain == node.domain),
        attributes={a.name: attribute_value(a) for a in node.attribute},
        inputs=tuple(_operand(k, v) for k, v in feeds.items()),
        outputs=tuple(_operand(k, v) for k, v in shown.items()),
        computed_by="halfulp" if ours else "ONNX",
        recorded=tuple(
            _operand(k, v)
            for k, v in recorded.items()
            if ours and v.tobytes() != shown[k].tobytes()
        ),
    )


def _value(value: Any) -> Any:
    """Return a value of a node test as an array, a list of such, or None."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, list):
        return [_value(v) for v in value]
    return value if value is None else np.asarray(value)


def _operand(name: str, value: Any) -> Operand:
    if value is None:
        return Operand(name, "none", None, None, "none")
    if isinstance(value, list):
        parts = [_operand("", v) for v in value]
        text = "\n".join(f"{p.dtype} {list(p.shape or ())}\n{p.text}" for p in parts)
        return Operand(name, "sequence", (len(value),), None, text or "[]")
    values = [plain(v) for v in value.flat] if value.size <= _MOST_SHOWN else None
    dtype = "string" if value.dtype.kind in "OUST" else value.dtype.name
    edge = 3 if value.ndim <= 2 else 1
    with np.printoptions(
        precision=8, threshold=_MOST_SHOWN, edgeitems=edge, suppress=False, sign="-",
        floatmode="maxprec", nanstr="nan", infstr="inf", formatter=None, legacy=False,
    ):  # fmt: skip
        text = np.array2string(value, max_line_width=76, separator=", ")
    return Operand(name, dtype, value.shape, values, text)
