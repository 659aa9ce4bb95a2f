"""The table of reductions is that of the native core, and what onnx says.

The oracles are the core's own table and the objects of onnx.
"""

from __future__ import annotations

import onnx
import onnx.defs
import pytest

import halfulp
from halfulp import _core
from halfulp.element_types import BY_CODE
from halfulp.errors import ModelError
from halfulp.reductions import PLAIN_SUM, REDUCTIONS, OperatorVersion, Reduction

OPERATORS = (*REDUCTIONS, PLAIN_SUM)
VERSIONS = [version for row in OPERATORS for version in row.versions]
NEWEST = onnx.defs.onnx_opset_version()

by_row = pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
by_operator = pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)


def test_the_native_table_is_the_same() -> None:
    theirs = []
    for *row, versions in _core.reductions():
        of_row = [
            (*version, {BY_CODE[code].name for code in codes})
            for *version, codes in versions
        ]
        theirs.append((*row, of_row))
    ours = [
        (
            row.name,
            row.operator,
            row.term,
            row.finish,
            [(v.since, v.axes, v.noop_with_empty_axes, {*v.types}) for v in row.versions],
        )
        for row in REDUCTIONS
    ]
    assert theirs == ours


def test_names_are_distinct_and_an_operator_is_that_of_its_versions() -> None:
    names = [(row.name, row.onnx_name, row.operator) for row in REDUCTIONS]
    for one_kind in zip(*names, strict=True):
        assert len({*one_kind}) == len(REDUCTIONS)
    for row in OPERATORS:
        assert {version.operator for version in row.versions} == {row.operator}
        assert str(row.newest) == f"{row.operator}-{row.newest.since}"


@by_row
def test_each_row_has_its_functions_on_both_faces(row: Reduction) -> None:
    for name in (row.name, row.onnx_name):
        assert callable(getattr(halfulp, name))
        assert name in halfulp.__all__


@by_operator
def test_onnx_has_the_same_versions(row: Reduction) -> None:
    every = onnx.defs.get_all_schemas_with_history()
    since = [s.since_version for s in every if (s.domain, s.name) == ("", row.operator)]
    assert [version.since for version in row.versions] == sorted(since)
    for opset in range(1, NEWEST + 1):
        theirs = onnx.defs.get_schema(row.operator, opset, "").since_version
        assert row.version_for(opset).since == theirs
    assert row.version_for(NEWEST + 1000) is row.newest
    allowed = f"allowed: {row.versions[0].since} and later"
    for opset in (0, -1):
        with pytest.raises(ModelError, match=f"opset {opset} of domain '' is.*{allowed}"):
            row.version_for(opset)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_each_version_is_as_onnx_has_it(version: OperatorVersion) -> None:
    theirs = onnx.defs.get_schema(version.operator, version.since, "")
    (constraint,) = theirs.type_constraints
    names = {name.removeprefix("tensor(")[:-1] for name in constraint.allowed_type_strs}
    assert names == {*version.types}
    assert {*version.attributes} == {*theirs.attributes}
    data, *others = theirs.inputs
    assert (data.type_str, data.option.name) == ("T", "Single")
    assert [output.type_str for output in theirs.outputs] == ["T"]
    keepdims = theirs.attributes["keepdims"]
    assert (keepdims.type.name, keepdims.default_value.i) == ("INT", 1)
    if version.axes == "attribute":
        axes = theirs.attributes["axes"]
        assert (axes.type.name, axes.required, others) == ("INTS", False, [])
        assert not axes.default_value.type
        described = axes.description
    else:
        (parameter,) = others
        assert (parameter.name, parameter.option.name) == ("axes", "Optional")
        assert parameter.types == {"tensor(int64)"}
        described = parameter.description
    assert version.negative_axes == ("[-r, r-1]" in described)
    if version.noop_with_empty_axes:
        noop = theirs.attributes["noop_with_empty_axes"]
        assert (noop.type.name, noop.required, noop.default_value.i) == ("INT", False, 0)
