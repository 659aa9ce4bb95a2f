"""The cases that stand in files: documented examples and public reports.

May import element_types, records, spec, bits and case only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from halfulp.conformance.bits import Array, from_bits
from halfulp.conformance.cases.case import INVALID, WRONG_OPSET, Case
from halfulp.element_types import ELEMENT_TYPES
from halfulp.records import load
from halfulp.spec.rules import version_for

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


def reports() -> Iterator[Case]:
    """Yield the public reports that one run of a node can show.

    Speed, memory, inference and conversion are checked elsewhere; of the node they
    are about, the values are checked here all the same.
    """
    for report in load("public_reports"):
        if report["check"] in ("speed", "memory"):
            continue
        class_name = _REJECTED.get(report["id"], "reports")
        data = report_array(report["data"])
        facts = [report["symptom"], report["why"] or report.get("expect_text", "")]
        version, name = version_for(report["opset"]).since, data.dtype.name
        yield Case(
            f"test_reducesumsquare_{version}_{name}_reports_{report['id']}".lower(),
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


def examples() -> Iterator[tuple[str, Array, Any, dict[str, int]]]:
    """Yield the documented examples: name, data, axes, attributes."""
    for example in load("seed_examples"):
        inputs = {
            name: np.array(tensor["values"], tensor["dtype"]).reshape(tensor["shape"])
            for name, tensor in example["inputs"].items()
        }
        axes = inputs["axes"].tolist() if "axes" in inputs else None
        yield example["name"], inputs["data"], axes, example["attributes"]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."
