"""The table of reductions is that of the native core, and what onnx says; and nothing
that it says is said anywhere else.

The oracles are the core's own table and the objects of onnx.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx.defs
import pytest

import halfulp
from halfulp import _core, exact
from halfulp.conformance.cases import preimages
from halfulp.element_types import ELEMENT_TYPES, SMALL_TYPES
from halfulp.errors import ModelError
from halfulp.exact import round_exact
from halfulp.onnx.model.terms import TERMS
from halfulp.onnx.ops import OPERATORS as OPERATORS_OF_EVALUATOR
from halfulp.onnx.rewrite import chains
from halfulp.onnx.rewrite.function_body import missing, spell_out
from halfulp.reductions import (
    NUMPY_REDUCTIONS,
    REDUCTIONS,
    SUM,
    SUM_SQUARE,
    SUMS,
    OperatorVersion,
    Reduction,
)
from oracle import assert_same_bits

VERSIONS = [v for row in REDUCTIONS for v in row.versions]
NAMES_OF_TYPES = {t.code: t.name for t in (*ELEMENT_TYPES, *SMALL_TYPES)}
NEWEST = onnx.defs.onnx_opset_version()

by_row = pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
# Those that are fused from other nodes, and spelled out by them.
by_rewritten_row = pytest.mark.parametrize("row", SUMS, ids=lambda row: row.name)


def test_the_native_table_is_the_same() -> None:
    theirs = []
    for *row, versions in _core.reductions():
        of_row = [
            (*version, {NAMES_OF_TYPES[code] for code in codes})
            for *version, codes in versions
        ]
        theirs.append((*row, of_row))
    ours = [
        (
            row.name,
            row.operator,
            row.operation,
            row.term,
            row.finish,
            row.ord or 0,
            [(v.since, v.axes, v.noop_with_empty_axes, {*v.types}) for v in row.versions],
        )
        for row in (*REDUCTIONS, *NUMPY_REDUCTIONS)
    ]
    assert theirs == ours


def test_names_are_distinct_and_an_operator_is_that_of_its_versions() -> None:
    names = [(row.name, row.onnx_name, row.operator) for row in REDUCTIONS]
    for one_kind in zip(*names, strict=True):
        assert len({*one_kind}) == len(REDUCTIONS)
    for row in REDUCTIONS:
        assert {version.operator for version in row.versions} == {row.operator}
        assert str(row.newest) == f"{row.operator}-{row.newest.since}"


@by_row
def test_each_row_has_its_functions_on_both_faces(row: Reduction) -> None:
    x = np.float32([[1e30, -3e30], [4e30, 5]])
    want = round_exact(exact.exact(row, x), x.dtype)
    names = {row.onnx_name}
    if row.numpy_name:
        ord_ = {} if row.ord is None else {"ord": row.ord}
        assert_same_bits(getattr(halfulp, row.numpy_name)(x, **ord_), want)
        names.add(row.numpy_name)
    by_onnx = getattr(halfulp, row.onnx_name)
    assert_same_bits(by_onnx(x, keepdims=0), np.asarray(want))
    assert names <= {*halfulp.__all__}
    # ONNX keeps the type of integers.
    assert by_onnx(np.int32([[1, 2]])).dtype == np.int32


def test_public_names_are_what_they_are_called_for() -> None:
    # No module of the package has the name of a function.
    for name in ("sum", "mean", "exact_sum", "exact_mean", "exact_norm"):
        assert callable(getattr(halfulp, name))


@by_row
def test_each_row_is_an_operator_of_the_evaluator(row: Reduction) -> None:
    (kind,) = [each for each in OPERATORS_OF_EVALUATOR if each.row is row]
    assert kind.__name__ == row.operator
    assert getattr(halfulp.onnx, row.operator) is kind


@by_rewritten_row
def test_each_row_is_spelled_out_as_onnx_does(row: Reduction) -> None:
    schema = onnx.defs.get_schema(row.operator, row.newest.since, "")
    theirs = [node.op_type for node in schema.function_body.node]
    lacks = missing(row, 0, row.newest.types, NEWEST)
    assert (lacks == "") == bool(theirs)
    if not theirs:
        assert lacks == f"ONNX has no function body for {row.operator}"
        return
    node = onnx.helper.make_node(row.operator, ["data", "axes"], ["y"])
    # Of data of any type, as there.
    ours = spell_out(node, row, 0, NEWEST, "{}.{}".format)
    assert [each.op_type for each in ours] == theirs
    for mine, its in zip(ours, schema.function_body.node, strict=False):
        assert len(mine.input) == len(its.input)


@by_rewritten_row
def test_its_term_is_known_wherever_terms_are(row: Reduction) -> None:
    for of_terms in (exact.TERMS, TERMS):
        assert row.term in of_terms
    if row.term != SUM.term:
        assert row.term in chains._TERMS
    if row.finish not in ("none", "mean"):
        assert row.finish in chains._FINISHES


def test_squares_are_known_where_conformance_needs_them() -> None:
    assert SUM_SQUARE.term in preimages.INVERSES


@pytest.mark.parametrize("row", REDUCTIONS, ids=lambda row: row.name)
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


# Where a number that the table has, or the name of an operator, is something else, or is
# there for a reason: file, and name of the function or constant.
SOURCES = Path(halfulp.__file__).parent
PUBLIC = "the name is public"
FORMAT = "a number of ONNX's format of files"
OTHERS = "versions of operators that are not ours"
LOOKS = "a length in a picture"
ALLOWED = {
    ("reductions.py", "_AXES_FROM_18"): "the table",
    ("reductions.py", "_AXES_FROM_13"): "the table",
    ("reductions.py", "_BYTES_FROM_12"): "the table",
    ("reductions.py", "SUM_SQUARE"): "the table",
    ("reductions.py", "SUM"): "the table",
    ("reductions.py", "MEAN"): "the table",
    ("reductions.py", "L1"): "the table",
    ("reductions.py", "L2"): "the table",
    ("reductions.py", "MAX"): "the table",
    ("reductions.py", "MIN"): "the table",
    ("reductions.py", "PROD"): "the table",
    ("reductions.py", "LOG_SUM"): "the table",
    ("reductions.py", "LOG_SUM_EXP"): "the table",
    ("onnx/__init__.py", "__all__"): PUBLIC,
    ("commands/docs.py", "docs"): "an example of an operator, in a help text",
    ("onnx/rewrite/version_steps.py", "REWORDED"): OTHERS,
    ("onnx/rewrite/version_steps.py", "changed_meaning"): OTHERS,
    ("onnx/rewrite/version_steps.py", "_if_not_last"): OTHERS,
    ("element_types.py", "ELEMENT_TYPES"): "ONNX's numbers of types; bits of a format",
    ("files/stored_types.py", "STORED_TYPES"): FORMAT,
    ("files/formats/onnx_initializers.py", "_ATTRIBUTE_NAME"): FORMAT,
    ("files/formats/onnx_initializers.py", "_EXTERNAL"): FORMAT,
    ("files/formats/onnx_initializers.py", "_INTEGERS"): FORMAT,
    ("files/formats/npy.py", "_PART"): "a power of two, of bytes",
    ("conformance/cases/structures.py", "_LONG_SHAPES"): "a size of arrays",
    ("bench/accuracy.py", "_LIMB"): "bits of a limb",
    ("bench/plot.py", "_bars"): LOOKS,
    ("bench/plot.py", "_legend"): LOOKS,
}
# The versions that changed what a node may say; in texts on opsets those beside them too.
NUMBERS = {11, 13, 18}
NAMES = "|".join(row.operator for row in REDUCTIONS)
IN_TEXT = re.compile(rf"\bopsets?\D{{0,10}}\b1[0-8]\b|\b({NAMES})\b")


def _literals(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Yield each literal that is no docstring, under the name of what it stands in."""
    for top in tree.body:
        names = [node for node in ast.walk(top) if isinstance(node, ast.Name)]
        if isinstance(top, ast.FunctionDef | ast.ClassDef):
            name = top.name
        elif isinstance(top, ast.Assign | ast.AnnAssign):
            name = names[0].id
        else:
            name = ""
        docstrings = {
            id(node.value) for node in ast.walk(top) if isinstance(node, ast.Expr)
        }
        for node in ast.walk(top):
            if isinstance(node, ast.Constant) and id(node) not in docstrings:
                yield name, node


def _is_of_the_table(value: object) -> bool:
    if isinstance(value, str):
        return bool(IN_TEXT.search(value))
    return type(value) is int and value in NUMBERS


def test_versions_and_names_of_operators_stand_in_the_table_alone() -> None:
    found = {
        (path.relative_to(SOURCES).as_posix(), name)
        for path in SOURCES.rglob("*.py")
        for name, literal in _literals(ast.parse(path.read_text("utf-8")))
        if _is_of_the_table(literal.value)
    }
    assert found == ALLOWED.keys()


def test_what_would_be_found() -> None:
    text = '''
"""About ReduceSumSquare, since opset 18."""
LEAST = 13
def f(opset: int) -> str:
    """From opset 11 on."""
    if opset < 11:
        return "allowed: from opset 13 on"
    return f"{opset}.13" if "ReduceSumSquare" else "opset 9, 113"
'''
    found = [
        (name, literal.value)
        for name, literal in _literals(ast.parse(text))
        if _is_of_the_table(literal.value)
    ]
    assert found == [
        ("LEAST", 13),
        ("f", 11),
        ("f", "allowed: from opset 13 on"),
        ("f", "ReduceSumSquare"),
    ]
