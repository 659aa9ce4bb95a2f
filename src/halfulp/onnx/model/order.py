"""The order of the nodes of a graph: each after those whose outputs it takes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from onnx import GraphProto, NodeProto

from halfulp.onnx.model.bodies import replace
from halfulp.onnx.model.nodes import labelled, subgraphs


def sort_nodes(graph: GraphProto) -> str:
    """Sort the nodes of `graph`; return how errors name the first that came too early."""
    own = {value.name for value in graph.input}
    own.update(tensor.name for tensor in graph.initializer)
    own.update(tensor.values.name for tensor in graph.sparse_initializer)
    given = [
        (name, i) for i, node in enumerate(graph.node) for name in node.output if name
    ]
    outputs = dict(given)
    if len(given) > len(outputs) or own.intersection(outputs):
        return ""
    needs = [{outputs[n] for n in _taken(node) if n in outputs} for node in graph.node]
    early = (i for i, givers in enumerate(needs) if max(givers, default=0) > i)
    first = next(early, None)
    order = None if first is None else _order(needs)
    if first is None or order is None:
        return ""
    labels = [here for here, _ in labelled(graph.node, "")]
    replace(graph.node, GraphProto(node=[graph.node[i] for i in order]).node)
    return labels[first]


def _taken(node: NodeProto) -> set[str]:
    """Return the names that a node takes, its nested graphs too."""
    taken = set(node.input)
    for _, graph in subgraphs(node):
        own = {value.name for value in graph.input}
        own.update(tensor.name for tensor in graph.initializer)
        own.update(tensor.values.name for tensor in graph.sparse_initializer)
        inner = {value.name for value in graph.output}
        for each in graph.node:
            own.update(each.output)
            inner |= _taken(each)
        taken |= inner - own
    return taken


def _order(needs: Sequence[set[int]]) -> list[int] | None:
    """Return the least order in which each comes after what it needs, if there is one."""
    after: list[list[int]] = [[] for _ in needs]
    for i, givers in enumerate(needs):
        for giver in givers:
            after[giver].append(i)
    waiting = [len(givers) for givers in needs]
    ready = [i for i, count in enumerate(waiting) if not count]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for later in after[i]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, later)
    return order if len(order) == len(needs) else None
