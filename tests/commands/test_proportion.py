"""Time and memory are in proportion to a model, whichever command reads it."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from onnx.helper import (
    make_attribute,
    make_function,
    make_graph,
    make_model,
    make_node,
    make_opsetid,
    make_tensor_value_info,
)

from command_server import command_server
from halfulp import ModelError
from halfulp.onnx import check_model, fuse, infer_shapes, run_model

# Bytes of memory, whatever the model, and besides for each byte of it: SECURITY.md.
MEMORY, PER_BYTE = 256 << 20, 256

Run = Callable[..., tuple[int, float, int, str]]

INFER = "not halfulp.onnx.infer_shapes(sys.argv[2])"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a command; returns exit code, seconds, bytes of memory, and what it prints."""
    folder = tmp_path_factory.mktemp("run")
    path = folder / "m.onnx"
    np.savez(folder / "feeds.npz", x=np.ones((2, 3), np.float32))
    more = {
        "convert": ["--opset", "13", "-o", str(folder / "o.onnx")],
        "fuse": ["-o", str(folder / "o.onnx")],
        "expand": ["-o", str(folder / "o.onnx")],
        "run": ["--engine", "reference", "--input", str(folder / "feeds.npz")],
    }
    with command_server(folder) as server:

        def run(command: str, proto: ModelProto) -> tuple[int, float, int, str]:
            path.write_bytes(proto.SerializeToString())
            arguments = [command, str(path), *more.get(command, ())]
            call = INFER if command == "infer_shapes" else "main(sys.argv[1:])"
            done = server.run(arguments, call=call)
            assert done.memory < MEMORY + PER_BYTE * path.stat().st_size
            return done.code, done.seconds, done.memory, done.out + done.err

        yield run


X = make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = make_tensor_value_info("y", TensorProto.FLOAT, None)
SUM = make_node("ReduceSumSquare", ["x"], ["y"])


def model(
    nodes: list[NodeProto], *functions: onnx.FunctionProto, inputs: Any = (X,)
) -> ModelProto:
    graph = make_graph(nodes, "g", list(inputs), [Y])
    imports = [make_opsetid("", 18), make_opsetid("f", 1)]
    return make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def function(
    name: str, nodes: list[NodeProto], attributes: list[str], **defaults: Any
) -> onnx.FunctionProto:
    imports = [make_opsetid("", 18), make_opsetid("f", 1)]
    values = [make_attribute(k, v) for k, v in defaults.items()]
    return make_function("f", name, ["a"], ["b"], nodes, imports, attributes, values)


def refer(node: NodeProto, name: str, kind: str) -> NodeProto:
    """A node whose attribute `name` is k of the function."""
    node.attribute.add(name=name, ref_attr_name="k", type=kind)
    return node


SQUARES = make_node("ReduceSumSquare", ["a"], ["b"])


def calls(count: int) -> ModelProto:
    """Calls of a small function that all differ."""
    constant = refer(make_node("Constant", [], ["c"]), "value_int", "INT")
    called = [make_node("g", ["x"], [f"v{i}"], domain="f", k=i) for i in range(count)]
    return model([*called, SUM], function("g", [SQUARES, constant], ["k"]))


def functions(count: int) -> ModelProto:
    """Functions that are called once each."""
    called = [make_node(f"g{i}", ["x"], [f"v{i}"], domain="f") for i in range(count)]
    return model(
        [*called, SUM], *(function(f"g{i}", [SQUARES], []) for i in range(count))
    )


def branch(name: str, *nodes: NodeProto) -> GraphProto:
    output = make_tensor_value_info(name, TensorProto.FLOAT, None)
    return make_graph(list(nodes), name, [], [output])


def ifs(count: int) -> ModelProto:
    """Graphs beside each other, each of which sees all values before it."""
    nodes = [make_node("Cast", ["x"], ["all"], to=9), make_node("Size", ["x"], ["n"])]
    nodes.append(make_node("Cast", ["n"], ["c"], to=9))
    for i in range(count):
        seen = f"v{i - 1}" if i else "x"
        then = branch("t", make_node("ReduceSumSquare", [seen], ["t"]))
        other = branch("e", make_node("Abs", [seen], ["e"]))
        node = make_node("If", ["c"], [f"v{i}"], then_branch=then, else_branch=other)
        nodes.append(node)
    return model([*nodes, SUM])


def split(count: int) -> ModelProto:
    outputs = [f"o{i}" for i in range(count)]
    return model([SUM, make_node("Split", ["x"], outputs, num_outputs=count)])


def constants_for_each_branch(count: int) -> ModelProto:
    """Exponents that fusing frees, and graphs that could hold some."""
    proto = ifs(count)
    for i in range(count):
        power = [make_node("Constant", [], [f"k{i}"], value_float=2.0)]
        power.append(make_node("Pow", ["x", f"k{i}"], [f"p{i}"]))
        power.append(make_node("ReduceSum", [f"p{i}"], [f"s{i}"]))
        proto.graph.node.extend(power)
    return proto


def same_names(count: int) -> ModelProto:
    """Functions whose values have the same names: new ones are wanted for each."""
    parts = [function(f"g{i}", [SQUARES], []) for i in range(count)]
    return model([SUM], *parts)


def attributes_for_each_call(count: int) -> ModelProto:
    """Calls of a function that has as many attributes with defaults."""
    called = [make_node("g", ["x"], [f"v{i}"], domain="f") for i in range(count)]
    part = function("g", [SQUARES], [], **{f"k{i}": 1 for i in range(count)})
    return model([*called, SUM], part)


# How many, and a command whose time must grow as the model does.
LINEAR: dict[str, tuple[Callable[[int], ModelProto], int, str]] = {
    "calls that differ": (calls, 400, "infer_shapes"),
    "calls that differ, run": (calls, 400, "run"),
    "functions": (functions, 300, "infer_shapes"),
    "functions, run": (functions, 300, "run"),
    "graphs": (ifs, 700, "infer_shapes"),
    "graphs, run": (ifs, 400, "run"),
    "graphs, fused": (constants_for_each_branch, 300, "fuse"),
    "outputs of a node": (split, 5000, "run"),
    "names that are taken": (same_names, 800, "expand"),
    "attributes of a function": (attributes_for_each_call, 1500, "infer_shapes"),
}


@pytest.mark.parametrize("case", LINEAR)
def test_time_is_linear(case: str, run: Run) -> None:
    build, count, command = LINEAR[case]
    few, many = (run(command, build(n)) for n in (count, 4 * count))
    assert (few[0], many[0]) == (0, 0)
    # Quadratic would be 16 times.
    assert many[1] < 8 * few[1] + 0.3


def large_attribute() -> ModelProto:
    """A megabyte that 3000 nodes of a function refer to."""
    nodes = [
        refer(make_node("Constant", [], [f"c{i}"]), "value_string", "STRING")
        for i in range(3000)
    ]
    call = make_node("g", ["x"], ["v"], domain="f", k="s" * 1_000_000)
    return model([call, SUM], function("g", [*nodes, SQUARES], ["k"]))


def large_attribute_passed_on() -> ModelProto:
    """A megabyte that 3000 calls of a function pass on."""
    nodes = [
        refer(make_node("h", ["a"], [f"c{i}"], domain="f"), "k", "STRING")
        for i in range(3000)
    ]
    call = make_node("g", ["x"], ["v"], domain="f", k="s" * 1_000_000)
    constant = refer(make_node("Constant", [], ["c"]), "value_string", "STRING")
    inner = function("h", [constant, SQUARES], ["k"])
    return model([call, SUM], function("g", [*nodes, SQUARES], ["k"]), inner)


def large_function() -> ModelProto:
    """A megabyte of a function, called in 2000 ways."""
    proto = calls(2000)
    constant = make_node("Constant", [], ["s"], value_string="s" * 1_000_000)
    proto.functions[0].node.append(constant)
    return proto


def large_default() -> ModelProto:
    """3000 calls of a function one of whose defaults is a megabyte."""
    called = [make_node("g", ["x"], [f"v{i}"], domain="f") for i in range(3000)]
    return model([*called, SUM], function("g", [SQUARES], [], k="s" * 1_000_000))


def long_name() -> ModelProto:
    """A name of 50000 letters, before those of 20000 nodes and initializers."""
    nodes = [make_node("Abs", ["x"], [f"a{i}"]) for i in range(20000)]
    then = branch("t", *nodes, make_node("Abs", ["x"], ["t"]))
    for i in range(20000):
        tensor = TensorProto(name=f"{i}", data_type=1, dims=[1], float_data=[1.0])
        then.initializer.append(tensor)
    other = branch("e", make_node("Abs", ["x"], ["e"]))
    node = make_node("If", ["c"], ["v"], then_branch=then, else_branch=other)
    node.name = "n" * 50_000
    condition = make_node("Cast", ["x"], ["c"], to=9)
    return model([condition, node, SUM])


def many_axes() -> ModelProto:
    """A shape of 50000 axes, which 5000 values have."""
    nodes = [
        make_node("Abs", [f"v{i - 1}" if i else "x"], [f"v{i}"]) for i in range(5000)
    ]
    return model([*nodes, SUM], inputs=[make_tensor_value_info("x", 1, [1] * 50000)])


def long_size() -> ModelProto:
    """A name of a size of a megabyte, which 5000 values have."""
    proto = many_axes()
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    del dims[1:]
    dims[0].dim_param = "n" * 1_000_000
    return proto


def many_wrong_nodes() -> ModelProto:
    return model([*(NodeProto(op_type="A") for _ in range(100_000)), SUM])


LARGE: dict[str, tuple[Callable[[], ModelProto], tuple[str, ...], str]] = {
    "an attribute": (large_attribute, ("check", "run"), "attribute 'k' are too many"),
    "an attribute passed on": (large_attribute_passed_on, ("convert",), "are too many"),
    "a function": (large_function, ("check", "fuse"), "of function 'g' are too many"),
    "a default": (large_default, ("check",), "2 ReduceSumSquare nodes"),
    "a name": (long_name, ("check", "sum"), ""),
    "axes": (many_axes, ("check", "convert"), "ReduceSumSquare"),
    "a size": (long_size, ("check", "convert"), "ReduceSumSquare"),
    "wrong nodes": (many_wrong_nodes, ("check",), "1000 nodes are wrong"),
}


@pytest.mark.parametrize("case", LARGE)
def test_memory_is_in_proportion(case: str, run: Run) -> None:
    build, commands, words = LARGE[case]
    proto = build()
    for command in commands:
        code, seconds, _, out = run(command, proto)
        assert code in (0, 1, 2)
        assert seconds < 20
        assert words in out
        assert "Traceback" not in out


def test_a_hundred_thousand_nodes_are_checked_soon(run: Run) -> None:
    nodes = [
        make_node("Abs", [f"v{i - 1}" if i else "x"], [f"v{i}"]) for i in range(100_000)
    ]
    code, seconds, _, _ = run("check", model([*nodes, SUM]))
    assert code == 0
    assert seconds < 10


def test_an_error_is_as_long_as_a_person_reads() -> None:
    names = [f"input{i}" for i in range(100_000)]
    inputs = [make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names]
    proto = model([make_node("Sum", names, ["y"])], inputs=inputs)
    with pytest.raises(ModelError, match="'input0' is missing") as info:
        raise ModelError("input 'input0' is missing; " + "x" * 10**6 + " the end")
    assert str(info.value).endswith(" the end")
    with pytest.raises(ValueError, match="'input0' is missing") as error:
        run_model(proto, {})
    assert len(str(error.value)) < 1300


def nested(depth: int) -> ModelProto:
    """Graphs in graphs, as no file has them."""
    proto = model([SUM])
    graph = proto.graph
    for _ in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=["o"])
        graph = node.attribute.add(name="then_branch", type="GRAPH").g
    return proto


def nested_types(depth: int) -> ModelProto:
    proto = model([SUM])
    type_: TypeProto = proto.graph.input.add(name="deep").type
    for _ in range(depth):
        type_ = type_.sequence_type.elem_type
    type_.tensor_type.elem_type = 1
    return proto


@pytest.mark.parametrize("build", [nested, nested_types])
@pytest.mark.parametrize("use", [check_model, fuse, infer_shapes])
def test_objects_that_are_nested_too_deep_are_refused(build: Any, use: Any) -> None:
    proto = build(20_000)
    with pytest.raises(ModelError, match="nested more than 100 deep"):
        use(proto)


def test_measures_are_of_the_commands_alone(run: Run) -> None:
    """A limit that the interpreter alone reaches, or never, would say nothing."""
    _, seconds, memory, _ = run("check", model([SUM]))
    assert seconds < 1
    assert 20 << 20 < memory < MEMORY // 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
