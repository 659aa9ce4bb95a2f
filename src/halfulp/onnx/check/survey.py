"""Checks a whole model and finds its ReduceSumSquare nodes, without running it.

May import errors, faults, functions, inputs, nodes, prepare, structure and validate only.
"""

from __future__ import annotations

from dataclasses import dataclass

from onnx import ModelProto

from halfulp.faults import OnError, model_errors, raise_error
from halfulp.onnx.check.nodes import Broken, Reduction, check_types
from halfulp.onnx.model.functions import specialize_functions
from halfulp.onnx.model.prepare import declare_external, prepare, take_large_tensors
from halfulp.onnx.model.structure import check_structure
from halfulp.onnx.run.inputs import check_declared


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a model before it runs.

    Attributes
    ----------
    places : dict of str to int
        Each ReduceSumSquare node, in the order of the model, and its opset.
    reductions : list of Reduction
        Those of them without errors that can run, once for each kind of call.
    broken : list of Broken
        Those of them with errors.
    """

    places: dict[str, int]
    reductions: list[Reduction]
    broken: list[Broken]


def survey(
    model: ModelProto,
    on_error: OnError = raise_error,
    on_graph_error: OnError = raise_error,
) -> Survey:
    """Check a model whose operators may be of any domain.

    Parameters
    ----------
    model : onnx.ModelProto
        Changed in place: prepared, functions specialized, large tensors taken out.
        The nodes of its graph and nested graphs stay where they are.
    on_error : callable, optional
        Takes an error of what one node says. Default: raise it.
    on_graph_error : callable, optional
        Takes an error of one node by the rules of ONNX for all nodes: names that are
        not defined, and operators other than ours. Default: raise it.

    Raises
    ------
    HalfulpError
        If the model breaks a rule.
    """
    with model_errors("the model cannot be used"):
        places = prepare(model, on_error, external=True)
        check_declared(model.graph)
        fed = {value.name for value in model.graph.input}
        specialize_functions(model, on_error)
        check_structure(model, on_graph_error, foreign=True)
        declare_external(model.graph)
        large = take_large_tensors(model.graph)
        known = {name: array for name, array in large.items() if name not in fed}
        broken: list[Broken] = []
        found = check_types(model, known, fed, on_error, broken.append)
        return Survey(places, found, broken)
