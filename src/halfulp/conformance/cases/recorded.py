"""The cases that stand in files: documented examples and public reports.

May import element_types, records, reductions, bits and case only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array, from_bits
from halfulp.conformance.cases.case import INVALID, WRONG_OPSET, Case
from halfulp.element_types import ELEMENT_TYPES
from halfulp.records import load
from halfulp.reductions import Reduction

_DTYPES = {element.name: element.dtype for element in ELEMENT_TYPES}


# The reports of models that must be refused.
_REJECTED = {
    "ort14678_rank0_axis0": INVALID,
    "ort2848_bool_or_int8": INVALID,
    "pt104190_axes_attr_at_18": WRONG_OPSET,
}


def report_array(tensor: dict[str, Any]) -> Array:
    """Return an array of public_reports.json, given by its bits."""
    dtype = _DTYPES.get(tensor["type"]) or np.dtype(tensor["type"])
    runs = tensor.get("runs") or [(bits, 1) for bits in tensor["bits"]]
    values = np.repeat(
        np.array([int(bits, 16) for bits, _ in runs], f"u{dtype.itemsize}"),
        np.array([repeat for _, repeat in runs], np.int64),
    )
    return from_bits(values, dtype).reshape(tensor["shape"])


def reports(reduction: Reduction) -> Iterator[Case]:
    """Yield the public reports that one run of a node can show.

    Speed, memory, inference and conversion are checked elsewhere; of the node they
    are about, the values are checked here all the same.
    """
    for report in load("public_reports"):
        if report["operator"] != reduction.operator:
            continue
        if report["check"] in ("speed", "memory"):
            continue
        class_name = _REJECTED.get(report["id"], "reports")
        data = report_array(report["data"])
        facts = [report["symptom"], report["why"] or report.get("expect_text", "")]
        version = reduction.version_for(report["opset"]).since
        words = (reduction.operator, version, data.dtype.name, "reports", report["id"])
        yield Case(
            f"test_{'_'.join(map(str, words))}".lower(),
            reduction,
            class_name,
            report["opset"],
            data,
            report["axes_form"],
            report["axes"],
            report["keepdims"],
            report["noop_with_empty_axes"] or None,
            " ".join(_sentence(fact) for fact in facts if fact),
            report["source"],
        )


def examples(operator: str) -> Iterator[tuple[str, int, Array, Any, dict[str, int]]]:
    """Yield the documented ones of an operator: name, opset, data, axes, attributes."""
    for example in load("seed_examples"):
        if example["operator"] != operator:
            continue
        inputs = {
            name: np.array(tensor["values"], tensor["dtype"]).reshape(tensor["shape"])
            for name, tensor in example["inputs"].items()
        }
        axes = inputs["axes"].tolist() if "axes" in inputs else None
        attributes = example["attributes"]
        yield example["name"], example["opset"], inputs["data"], axes, attributes


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."
