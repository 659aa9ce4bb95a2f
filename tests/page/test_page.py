"""halfulp docs: all that public documentation shows, in three formats, for everyone.

HALFULP_OPERATORS=all builds the pages of all operators, in about a minute; the
default is one of each kind and some at random.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx.defs
import pytest
from markdown_it import MarkdownIt

import halfulp
import halfulp.page
from browser import dom_of, needs_chromium
from halfulp.cli import main
from halfulp.page.content import hypertext, markdown
from halfulp.page.data import Page, build
from halfulp.page.documented import documents
from halfulp.reductions import LOG_SUM, LOG_SUM_EXP, REDUCTIONS, SUMS, Reduction
from oracle import bits, expected_of

VOID = {"meta", "br", "hr", "wbr", "img", "input", "link", "source", "base", "embed"}
LOADING = {
    "script",
    "link",
    "img",
    "iframe",
    "object",
    "embed",
    "video",
    "audio",
    "source",
}
TYPES = ["bfloat16", "double", "float", "float16", "int32", "int64", "uint32", "uint64"]


class Outline(HTMLParser):
    """A document's text, elements, headings and links; balanced, or an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.headings: list[tuple[int, str]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []
        self.ids = [a["id"] for _, a in self.elements if a.get("id")]
        self.links = [a["href"] for _, a in self.elements if "href" in a]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {k: v or "" for k, v in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.text += data
        if any(re.fullmatch("h[1-6]", tag) for tag in self.open):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)


@pytest.fixture(scope="module")
def page() -> Page:
    return build("ReduceSumSquare")


@pytest.fixture(scope="module")
def html(page: Page) -> str:
    return hypertext(page)


@pytest.fixture(scope="module", params=REDUCTIONS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Reduction:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def page_of(row: Reduction) -> Page:
    """The page of the operator of each row."""
    return build(row.operator)


@pytest.fixture(scope="module")
def html_of(page_of: Page) -> str:
    return hypertext(page_of)


def flat(text: str) -> str:
    """Text without white space and marks of Markdown, to compare words."""
    return re.sub(r"[\s`*]+", "", text)


# What the two documents show, as facts.

# What a version has where its axes are: attributes with type and default; inputs.
FORMS = {
    "input": (["keepdims INT 1", "noop_with_empty_axes INT 0"], (1, 2)),
    "attribute": (["axes INTS None", "keepdims INT 1"], (1, 1)),
}
_FROM_18 = {18: "input", 13: "attribute", 11: "attribute", 1: "attribute"}
AXES = {
    "ReduceSumSquare": _FROM_18,
    "ReduceSum": {13: "input", 11: "attribute", 1: "attribute"},
    "ReduceMean": _FROM_18,
    "ReduceL1": _FROM_18,
    "ReduceL2": _FROM_18,
    "ReduceMax": {20: "input", 18: "input", 13: "", 12: "", 11: "", 1: ""},
    "ReduceMin": {20: "input", 18: "input", 13: "", 12: "", 11: "", 1: ""},
    "ReduceProd": _FROM_18,
    "ReduceLogSum": {28: "input"} | _FROM_18,
    "ReduceLogSumExp": {28: "input"} | _FROM_18,
}
VERSIONS = [(row.operator, since) for row in SUMS for since in AXES[row.operator]]

SUMMARIES = {
    "ReduceSumSquare": "Computes the sum square of the input tensor's element",
    "ReduceSum": "Computes the sum of the input tensor's element",
    "ReduceMean": "Computes the mean of the input tensor's element",
    "ReduceL1": "Computes the L1 norm of the input tensor's element",
    "ReduceL2": "Computes the L2 norm of the input tensor's element",
}

BODIES = {  # of version 18
    "ReduceSumSquare": """{
   data_square = Mul (data, data)
   reduced = ReduceSum <keepdims: int = @keepdims, noop_with_empty_axes: int = \
@noop_with_empty_axes> (data_square, axes)
}""",
    "ReduceL1": """{
   data_abs = Abs (data)
   reduced = ReduceSum <keepdims: int = @keepdims, noop_with_empty_axes: int = \
@noop_with_empty_axes> (data_abs, axes)
}""",
    "ReduceL2": """{
   data_square = Mul (data, data)
   sum_square = ReduceSum <keepdims: int = @keepdims, noop_with_empty_axes: int = \
@noop_with_empty_axes> (data_square, axes)
   sum_square_dbl = Cast <to: int = 1> (sum_square)
   sqrt = Sqrt (sum_square_dbl)
   reduced = CastLike (sqrt, data)
}""",
}

COUNTING = "[[[1.,2.],[3.,4.]],[[5.,6.],[7.,8.]],[[9.,10.],[11.,12.]]]"
RANDOM = (
    "[[[0.9762701,4.303787],[2.0552676,0.89766365]],[[-1.526904,2.9178822],"
    "[-1.2482557,7.83546]],[[9.273255,-2.3311696],[5.834501,0.5778984]]]"
)
ALL, KEPT = "[[[650.]]]", "[[[10.,20.]],[[74.,100.]],[[202.,244.]]]"
DROPPED = "[[10.,20.],[74.,100.],[202.,244.]]"
ALL_RANDOM = "[[[224.10666]]]"
DROPPED_RANDOM = "[[5.177228,19.328384],[3.889578,69.90847],[120.03467,5.7683187]]"
KEPT_RANDOM = "[[[5.177228,19.328384]],[[3.889578,69.90847]],[[120.03467,5.7683187]]]"
SQUARES = "[[[1.,4.],[9.,16.]],[[25.,36.],[49.,64.]],[[81.,100.],[121.,144.]]]"
ZEROS = "[[[0.,0.,0.,0.]],[[0.,0.,0.,0.]]]"

EXAMPLES = {  # name: attributes, data, axes, shape of the result, result
    "test_cc_reducesumsquare_": {
        "default_axes_keepdims": ("1", COUNTING, None, "(1,1,1)", ALL),
        "do_not_keepdims": ("0", COUNTING, "[1]", "(3,2)", DROPPED),
        "empty_axes_input_noop": ("1noop", COUNTING, "[]", "(3,2,2)", SQUARES),
        "empty_set": ("1", "[]", "[1]", "(2,1,4)", ZEROS),
        "empty_set_non_reduced_axis_zero": ("1", "[]", "[2]", "(2,0,1)", "[]"),
        "keepdims": ("1", COUNTING, "[1]", "(3,1,2)", KEPT),
        "negative_axes_keepdims": ("1", COUNTING, "[-2]", "(3,1,2)", KEPT),
    },
    "test_reduce_sum_square_": {
        "default_axes_keepdims_example": ("1", COUNTING, None, "(1,1,1)", ALL),
        "default_axes_keepdims_random": ("1", RANDOM, None, "(1,1,1)", ALL_RANDOM),
        "do_not_keepdims_example": ("0", COUNTING, "[1]", "(3,2)", DROPPED),
        "do_not_keepdims_random": ("0", RANDOM, "[1]", "(3,2)", DROPPED_RANDOM),
        "empty_set": ("1", "[]", "[1]", "(2,1,4)", ZEROS),
        "keepdims_example": ("1", COUNTING, "[1]", "(3,1,2)", KEPT),
        "keepdims_random": ("1", RANDOM, "[1]", "(3,1,2)", KEPT_RANDOM),
        "negative_axes_keepdims_example": ("1", COUNTING, "[-2]", "(3,1,2)", KEPT),
        "negative_axes_keepdims_random": ("1", RANDOM, "[-2]", "(3,1,2)", KEPT_RANDOM),
    },
}


def test_every_version_is_there_newest_first(page_of: Page, html_of: str) -> None:
    name, text = page_of.name, markdown(page_of)
    assert [v.since_version for v in page_of.versions] == [*AXES[name]]
    titles = ["Which axis goes", "Family", *(f"{name} - {since}" for since in AXES[name])]
    count = len(titles)
    assert re.findall("(?m)^## (.*)$", text)[:count] == titles
    found = [title for level, title in Outline(html_of).headings if level == 2]
    assert found[:count] == titles


@pytest.mark.parametrize(("name", "since"), VERSIONS)
def test_the_facts_of_a_version(name: str, since: int) -> None:
    page = _built(name)
    html = hypertext(page)
    attributes, (least, most) = FORMS[AXES[name][since]]
    body = BODIES.get(name, "") if since == 18 else ""
    function, bfloat16, has_input = bool(body), since >= 13, most == 2
    part = markdown(page).split(f"## {name} - {since}\n")[1].split("\n## ")[0]
    (marked,) = re.findall(f'<section id="v{since}".*?</section>', html, re.DOTALL)
    types = ", ".join(f"tensor({t})" for t in TYPES if bfloat16 or t != "bfloat16")
    facts = [
        "name",
        f"{name} (GitHub)",
        "domain: ai.onnx",
        f"since_version: {since}",
        f"function: {function}",
        "support_level: COMMON",
        "shape inference: True",
        f"has been available since version {since}.",
        f"Summary{SUMMARIES[name]}",
        "The above behavior is similar to numpy",
        "Between 1 and 2 inputs." if most > least else "1 input.",
        "data (single) - T",
        "An input tensor.",
        "1 output.",
        "reduced (single) - T",
        "Reduced output tensor.",
        "Keep the reduced dimension or not, default 1 means keep reduced dimension.",
        types,
        "Constrain input and output types to ",
        *(["axes (optional) - tensor(int64)"] if has_input else []),
        *([f"{name} <noop_with_empty_axes,keepdims>(data, axes)", body] * function),
    ]
    for attribute in attributes:
        called, kind, default = attribute.split()
        ending = "(optional)" if default == "None" else f"(default is {default})"
        facts.append(f"{called} - {kind} {ending}")
    for shown in (part, Outline(marked).text):
        words = flat(shown).replace("###", "")
        for fact in facts:
            # The layouts differ in dashes and colons only.
            assert _bare(fact) in _bare(words), fact
        assert (flat("Function body") in words) == function


@functools.cache
def _built(name: str) -> Page:
    return build(name)


def _bare(text: str) -> str:
    return re.sub(r"[-:]", "", flat(text))


def test_the_sixteen_examples(page: Page, html: str) -> None:
    names = [p + n for p, group in EXAMPLES.items() for n in group]
    shown = [example.name for example in page.examples]
    assert [name for name in shown if name.startswith("test_")] == names
    text = markdown(page)
    for prefix, group in EXAMPLES.items():
        for name, (attributes, data, axes, shape, result) in group.items():
            found = [
                re.findall(f'<details id="{prefix}{name}">.*?</details>', page, re.S)
                for page in (text, html)  # folded in both
            ]
            fences, marked = found[0][0], Outline(found[1][0]).text
            assert f"<summary>\n<code>{prefix}{name}</code>\n</summary>\n\n" in fences
            for shown in (fences, marked):
                shown = flat(shown).replace("text", "")
                node = "(data,axes)" if axes else "(data)"
                facts = [f"ReduceSumSquare{node}->(reduced),opset18"]
                facts.append(f"keepdims={attributes[0]}")
                assert ("noop_with_empty_axes=1" in shown) == ("noop" in attributes)
                size = "(2,0,4)" if data == "[]" else "(3,2,2)"
                facts.append(f"data:shape={size},dtype=float32{data}")
                if axes:
                    length = "0" if axes == "[]" else "1"
                    facts.append(f"axes:shape=({length},),dtype=int64{axes}")
                facts.append(f"reduced:shape={shape},dtype=float32{result}")
                for fact in facts:
                    assert fact in shown, (name, fact, shown)


def test_outputs_are_computed_and_shown_beside_those_recorded(
    row: Reduction, page_of: Page
) -> None:
    assert len(page_of.examples) >= 8
    for example in page_of.examples:
        assert example.computed_by == "halfulp"
        feeds = {
            o.name: np.array(o.values, o.dtype).reshape(o.shape or ())
            for o in example.inputs
        }
        data, axes = feeds["data"], feeds.get("axes")
        axis = tuple(axes.tolist()) if axes is not None and axes.size else None
        if axis is None and example.attributes.get("noop_with_empty_axes"):
            axis = ()
        (shown,) = example.outputs
        keep = bool(example.attributes.get("keepdims", 1))
        want = expected_of(row, data, axis, data.dtype, keep)
        got = np.array(shown.values, shown.dtype).reshape(shown.shape or ())
        assert np.array_equal(bits(got), bits(want)), example.name
        # NumPy rounds on the way; only then do last bits differ.
        own = row in (LOG_SUM, LOG_SUM_EXP) or "random" in example.name
        assert own or not example.recorded
    differing = [e.name for e in page_of.examples if e.recorded]
    if row.operator == "ReduceSumSquare":
        assert len(differing) == 4
    words = flat(markdown(page_of))
    assert words.count(flat("Recorded outputs, which differ")) == len(differing)


# What each gives of the rows of its hard examples, by the end of their names.
HARD = {
    "ReduceSum": {
        "cancellation": [1.0, 1e308],
        "integers": [-(2**31), -5],
        "zeros_and_infinities": ["0.0", "0.0", "inf", "-inf", "nan", "nan"],
    },
    "ReduceMean": {
        "empty_set": ["nan", "nan"],
        "empty_set_of_integers": [0, 0],
        "integers": [2**31 - 1, -2],
        "large_sum": [65504.0, 20000.0],
        "zeros_and_infinities": ["0.0", "0.0", "inf", "-inf", "nan", "nan"],
    },
    "ReduceL1": {
        "integers": [-(2**31), 9],
        "rounded_once": [16777218.0, 0.6],
        "zeros_and_infinities": ["0.0", "2.0", "inf", "inf", "inf", "nan"],
    },
    "ReduceL2": {
        "integers": [46341, 7],
        "large_and_small": [5e30, 5e-30],
        "zeros_and_infinities": ["0.0", "1.4142135", "inf", "inf", "inf", "nan"],
    },
    "ReduceSumSquare": {
        "integers": [1, 53],
        "rounded_once": [16777218.0, 1.2e-45],
        "zeros_and_infinities": ["0.0", "2.0", "inf", "inf", "inf", "nan"],
    },
    "ReduceMax": {
        "bool": [True, False],
        "bytes": [127, 2],
        "empty_set": ["-inf", "-inf"],
        "empty_set_of_integers": [-(2**31), -(2**31)],
        "large_integers": [2**53 + 1, 2],
        "nans": ["nan", "nan", "nan"],
        "zeros": [0.0, 0.0, -0.0],
        "zeros_and_infinities": ["-0.0", "1.0", "inf", "1.0", "inf", "nan"],
    },
    "ReduceMin": {
        "bool": [False, False],
        "bytes": [-128, -7],
        "empty_set": ["inf", "inf"],
        "empty_set_of_integers": [2**31 - 1, 2**31 - 1],
        "large_integers": [2**53, -7],
        "nans": ["nan", "nan", "nan"],
        "zeros": [-0.0, -0.0, -0.0],
        "zeros_and_infinities": ["-0.0", "-1.0", "1.0", "-inf", "-inf", "nan"],
    },
    "ReduceProd": {
        "empty_set": [1.0, 1.0],
        "integers": [0, -14],
        "leaves_and_comes_back": [1.0, 1.0],
        "signs": ["-0.0", "0.0", "-inf", "nan"],
        "zeros_and_infinities": ["0.0", "-1.0", "inf", "-inf", "-inf", "nan"],
    },
    "ReduceLogSum": {
        "empty_set": ["-inf", "-inf"],
        "large_sum": ["89.28999", "-inf"],
        "sums_at_or_below_zero": ["-inf", "nan"],
        "zeros_and_infinities": ["-inf", "-inf", "inf", "nan", "nan", "nan"],
    },
    "ReduceLogSumExp": {
        "alone": [0.1, -1e30],
        "any_range": [1000.6931471805599, 1e300, -9999.30685281944],
        "empty_set": ["-inf", "-inf"],
        "infinities": ["-inf", "inf", "nan"],
        "zeros_and_infinities": ["0.6931472", "1.126928", "inf", "1.0", "inf", "nan"],
    },
}


def test_hard_examples_show_what_is_decided(row: Reduction, page_of: Page) -> None:
    start = f"halfulp_reduce_{row.name}_"
    found = {e.name: e for e in page_of.examples if e.name.startswith("halfulp_")}
    assert [*found] == [start + name for name in HARD[row.operator]]
    for name, values in HARD[row.operator].items():
        (output,) = found[start + name].outputs
        want = np.array(values, output.dtype).astype(output.dtype)
        got = np.array(output.values, output.dtype)
        assert np.array_equal(bits(got), bits(want)), name


def test_the_six_differences(page: Page, html: str) -> None:
    pairs = [(d.old, d.new) for d in page.differences]
    assert pairs == [(13, 18), (11, 18), (1, 18), (11, 13), (1, 13), (1, 11)]
    text = markdown(page)
    for d in page.differences:
        breaking = "breaking" if d.new == 18 else "not breaking"
        part = text.split(f"### {d.old} to {d.new}: {breaking}\n")[1].split("\n##")[0]
        assert str(d) in part
        (shown,) = re.findall(
            f'<details id="from-{d.old}-to-{d.new}".*?</details>', html, re.S
        )
        outline = Outline(shown)
        assert f"{d.old} to {d.new} {breaking}" in outline.text
        marks = [tag for tag, _ in outline.elements if tag in ("ins", "del")]
        changed = d.documentation.added + d.documentation.removed
        assert len(marks) >= len(changed)
        for sign, tag, lines in (
            ("+", "ins", d.documentation.added),
            ("-", "del", d.documentation.removed),
        ):
            for line in lines:
                assert f"{sign}{line}" in outline.text
                assert f"\n{sign}{line[:60]}" in f"\n{part}"
                assert f"<{tag} class=" in shown
    for fact in (
        "input 'axes' (added): at position 1",
        "attribute 'axes' (removed): type=INTS; required=no",
        "added 'noop_with_empty_axes': type=INT; required=no; default=0",
        "line similarity: ",
    ):
        assert fact in text
        assert fact in Outline(html).text


def test_what_was_added_and_removed_has_a_sign_and_a_colour(html: str) -> None:
    """The move of axes, as everybody colours it: red and green, minus and plus."""
    (part,) = re.findall('<details id="from-13-to-18".*?</details>', html, re.S)
    assert re.search(r'<li class="good"><ins>\+ added &#x27;axes&#x27;', part)
    assert re.search(r'<li class="bad"><del>- removed &#x27;axes&#x27;', part)
    assert '<li class="same"><span>  changed &#x27;function&#x27;' in part
    # Red is for what was removed alone.
    assert 'badge bad"' not in html
    lines = str(build("ReduceSumSquare").differences[0]).splitlines()
    assert "+ [BREAKING] added 'axes': at position 1; option=optional; " in "\n".join(
        lines
    )
    assert "- [BREAKING] removed 'axes': type=INTS; required=no; now an input" in lines


def test_the_types_of_each_version_are_a_matrix(page_of: Page, html_of: str) -> None:
    theirs = {
        s.since_version: {x for t in s.type_constraints for x in t.allowed_type_strs}
        for s in onnx.defs.get_all_schemas_with_history()
        if (s.domain, s.name) == ("", page_of.name)
    }
    since = sorted(theirs)
    signs = {True: "\N{CHECK MARK}", False: "\N{EN DASH}"}
    text = markdown(page_of)
    (table,) = re.findall(r'<table class="matrix">.*?</table>', html_of, re.S)
    rows = re.findall('<tr><th scope="row">(.*?)</tr>', table, re.S)
    types = set().union(*theirs.values())
    assert [row.count("</td>") for row in rows] == [len(since)] * len(types)
    words = Outline(table).text
    assert f"| type | {' | '.join(map(str, since))} |" in text
    for name in sorted(name[len("tensor(") : -1] for name in types):
        there = [signs[f"tensor({name})" in theirs[v]] for v in since]
        assert f"| `tensor({name})` | {' | '.join(there)} |" in text
        assert f"tensor({name}){''.join(there)}" in flat(words)
    # Of several constraints, a matrix each.
    cast = build("Cast").type_matrices
    assert [*cast] == ["T1", "T2"]
    assert ("tensor(float8e4m3fn)", [False] * 4 + [True] * 2) in [
        (name, there[:6]) for name, there in cast["T1"]
    ]


# Of [[1, -2, 3], [-4, 5, -6]]: along axis 0, along axis 1, all.
DRAWN = {
    "ReduceSumSquare": ["17 29 45", "14 77", "91"],
    "ReduceSum": ["-3 3 -3", "2 -5", "-3"],
    "ReduceMean": ["-1.5 1.5 -1.5", "0.67 -1.7", "-0.5"],
    "ReduceL1": ["5 7 9", "6 15", "21"],
    "ReduceL2": ["4.1 5.4 6.7", "3.7 8.8", "9.5"],
    "ReduceMax": ["1 5 3", "3 5", "5"],
    "ReduceMin": ["-4 -2 -6", "-2 -6", "-6"],
    "ReduceProd": ["-4 -10 -18", "-6 120", "-720"],
    "ReduceLogSum": ["nan 1.1 nan", "0.69 nan", "nan"],
    "ReduceLogSumExp": ["1 5 3", "3.1 5", "5.1"],
}


def test_a_picture_shows_which_axis_goes(page_of: Page, html_of: str) -> None:
    (part,) = re.findall('<section id="axes".*?</section>', html_of, re.S)
    pictures = re.findall(r"<svg .*?</svg>", part, re.S)
    data = ["1", "-2", "3", "-4", "5", "-6"]
    coloured_data = [[data[0], data[3]], data[:3], data]
    for picture, result, cells in zip(
        pictures, DRAWN[page_of.name], coloured_data, strict=True
    ):
        plain = picture.replace("\N{MINUS SIGN}", "-")
        results = result.split()
        number = r"([-.\d]+|nan)"
        assert re.findall(rf"<text [^>]*>{number}</text>", plain) == [*data, *results]
        coloured = rf'<rect class="set"[^>]*/><text [^>]*>{number}</text>'
        assert re.findall(coloured, plain) == [*cells, results[0]]
        assert re.search('role="img" aria-label="[^"]+becomes', picture)
    for text in (Outline(part).text, markdown(page_of)):
        for words in ("axes = [0]", "axes = [1]", "(2, 1)", "(1, 3)", "(3,)", "(2,)"):
            assert words in text
    assert "<svg" not in hypertext(build("Abs"))


def test_the_family_is_a_table_with_links(page_of: Page, html_of: str) -> None:
    """Of each operator: versions, where axes are, and since when a type is allowed."""
    (part,) = re.findall('<section id="family".*?</section>', html_of, re.S)
    (lines,) = re.findall("\n## Family\n(.*?)\n## ", markdown(page_of), re.S)
    assert [one.name for one in page_of.family] == [*AXES]
    types = dict.fromkeys(name for one in page_of.family for name in one.types)
    assert {*types} == {*TYPES, "int8", "uint8", "bool"}
    for one in page_of.family:
        theirs = {
            s.since_version: s
            for s in onnx.defs.get_all_schemas_with_history()
            if (s.domain, s.name) == ("", one.name)
        }
        since = ", ".join(map(str, sorted(theirs)))
        moved = min(v for v, s in theirs.items() if len(s.inputs) == 2)
        firsts = [
            min(
                (v for v, s in theirs.items() if f"tensor({name})" in _types(s)),
                default=0,
            )
            for name in types
        ]
        assert {*one.types} == {name for name, v in zip(types, firsts, strict=True) if v}
        firsts = [v or "\N{EN DASH}" for v in firsts]
        cells = [one.computes, since, str(moved)], [*map(str, firsts)]
        links = Outline(part).links
        for row in cells:
            assert flat("".join([one.name, *row])) in flat(Outline(part).text)
            assert f"| {' | '.join(row)} |" in lines
        assert sum(link.endswith(f"#{one.name}") for link in links) == (
            0 if one.name == page_of.name else 2
        )
    assert build("Abs").family == ()


def _types(schema: onnx.defs.OpSchema) -> set[str]:
    return {x for t in schema.type_constraints for x in t.allowed_type_strs}


def test_where_public_documentation_differs_is_told(page: Page, html: str) -> None:
    """The two documents: one is word for word the installed onnx, the other is not."""
    other, same = page.documents
    assert same.differences == same.steps == ()
    assert same.texts == 25
    differing = {(d.version, d.part) for d in other.differences}
    assert differing == {
        (18, "documentation"),
        (18, "input axes"),
        (18, "attribute noop_with_empty_axes"),
        (18, "type constraint T"),
        (13, "documentation"),
    }
    (step,) = other.steps
    there, here = step.there, step.here
    assert (step.old, step.new) == (13, 18)
    assert (f"{there.similarity:.2f}", len(there.added), len(there.removed)) == (
        *("0.62", 3),
        2,
    )
    assert (here.similarity, here.unified) == (1, ())
    for text in (flat(markdown(page)), flat(Outline(html).text)):
        assert text.count(flat("both versions have one text")) == 2
        assert flat("-If axes is not provided, all dimensions are reduced.") in text
        assert flat("+Input tensors of rank zero are valid.") in text
        assert flat("All of its 25 texts are those of the installed onnx") in text
        assert text.count(flat("Public documentation has other words")) == 2
    assert build("Abs").documents == ()


def test_a_text_that_onnx_changes_is_told_too(page: Page) -> None:
    """Nothing of this is written by hand: another onnx would give another page."""
    changed = dataclasses.replace(page.versions[2], documentation="Something else.")
    _, same = documents([*page.versions[:2], changed, page.versions[3]])
    (found,) = same.differences
    assert (found.version, found.part) == (11, "documentation")
    assert found.lines[-1] == "+Something else."
    assert found.lines[0].startswith("-Computes the sum square")
    assert documents(page.versions[:1])[1].texts == 25


def test_the_decisions_are_told_with_their_reasons(page_of: Page, html_of: str) -> None:
    assert len(page_of.decisions) > 10
    text, shown = flat(markdown(page_of)), flat(Outline(html_of).text)
    for decision in page_of.decisions:
        for words in (decision.title, decision.decision, decision.reason):
            assert flat(words) in text
            assert flat(words) in shown
    assert build("Abs").decisions == ()


# The formats.


def check_html(html: str) -> Outline:
    outline = Outline(html)
    tags = [tag for tag, _ in outline.elements]
    assert len(outline.ids) == len({*outline.ids})
    for link in outline.links:
        assert link[1:] in outline.ids if link[0] == "#" else link.startswith("http")
    assert not LOADING & {*tags}
    (style,) = re.findall("<style>(.*?)</style>", html, re.DOTALL)
    assert not re.search(r"url\(|@import|http", style)
    for _, attributes in outline.elements:
        assert not {"src", "srcset", "style"} & {*attributes}
        assert not any(name.startswith("on") for name in attributes)
    assert "default-src 'none'" in html
    for landmark in ("header", "nav", "main", "h1"):
        assert tags.count(landmark) == 1
    levels = [level for level, _ in outline.headings]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert tags.count("summary") == tags.count("details")
    assert outline.links[0] == "#main"
    return outline


def test_html_is_well_formed_closed_in_itself_and_has_its_sections(
    page_of: Page, html_of: str
) -> None:
    html, outline = html_of, check_html(html_of)
    versions = {f"v{since}" for since in AXES[page_of.name]}
    sections = {"axes", "family", "examples", "differences", "decisions"}
    assert versions | sections <= {*outline.ids}
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert 'name="viewport"' in html


def test_texts_cannot_put_anything_into_the_page(page: Page) -> None:
    hostile = (
        "<script>alert(1)</script> <img src=x onerror=alert(1)> ![p](http://x/y.png) "
        "[a](javascript:alert(1)) [b](data:text/html,x) [c](Broadcasting.md) `<b>`<br>\n"
        "# heading\n\nheading\n===\n\n</main></details> &lt; --> ]]>\n\n| a |\n|---|\n"
    )
    version = page.versions[0]
    spoilt = dataclasses.replace(
        version,
        name=hostile,
        documentation=hostile,
        attributes=tuple(
            dataclasses.replace(a, name=hostile, default=hostile, description=hostile)
            for a in version.attributes
        ),
        inputs=tuple(
            dataclasses.replace(p, name=hostile, type=hostile, description=hostile)
            for p in version.inputs
        ),
    )
    outline = check_html(
        hypertext(
            dataclasses.replace(page, name=hostile, versions=(spoilt, *page.versions[1:]))
        )
    )
    assert "<script>alert(1)</script>" in outline.text
    schemes = {link.partition(":")[0] for link in outline.links if link[0] != "#"}
    assert schemes == {"http", "https"}
    assert "https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md" in outline.links


def test_markdown_reads_the_same_folded_and_fits_80_columns(page: Page) -> None:
    from halfulp.page.blocks import prose
    from halfulp.report.markdown import folded

    code = False
    for line in markdown(page).splitlines():
        code ^= line.startswith("```")
        assert code or len(line) <= 80 or "](https:" in line or line.startswith("| ")
    for theirs in onnx.defs.get_all_schemas():
        for text in (theirs.doc, *(a.description for a in theirs.attributes.values())):
            assert prose(folded(text)).split() == prose(text).split()


def test_json_holds_all_of_it(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "ReduceSumSquare", "--format", "json"]) == 0

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    data = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert data == json.loads(json.dumps(dataclasses.asdict(page)))
    first = next(e for e in data["examples"] if e["name"].startswith("test_"))
    assert first["outputs"][0]["values"] == [650.0]


def test_the_same_page_every_time(html: str) -> None:
    code = "import halfulp.page as p; print(p.render('ReduceSumSquare', 'html'), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    again = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        check=True,
        timeout=60,
    )
    assert again.stdout == html


@needs_chromium
def test_a_browser_finds_the_sections(html: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    dom = dom_of(tmp_path / "page.html")
    before, after = Outline(html), Outline(dom)
    # Had the parser had to repair anything, the tree would be another one.
    assert after.headings == before.headings
    assert after.ids == before.ids
    assert after.elements == before.elements


# Every operator.


def _operators() -> list[tuple[str, str]]:
    return sorted({(s.domain, s.name) for s in onnx.defs.get_all_schemas_with_history()})


# Graph attributes, sequences, small types, strings, other domains.
KINDS = [
    *(("", row.operator) for row in REDUCTIONS),
    ("", "If"),
    ("", "Scan"),
    ("", "SequenceMap"),
    ("", "Cast"),
    ("", "StringNormalizer"),
    ("ai.onnx.ml", "TreeEnsemble"),
    ("ai.onnx.preview.training", "Adam"),
]


def check_operator(domain: str, name: str) -> None:
    built = build(name, domain)
    theirs = [
        s.since_version
        for s in onnx.defs.get_all_schemas_with_history()
        if (s.domain, s.name) == (domain, name)
    ]
    assert [v.since_version for v in built.versions] == sorted(theirs, reverse=True)
    assert len(built.differences) == len(theirs) * (len(theirs) - 1) / 2
    tokens = MarkdownIt().parse(markdown(built))
    titles = [
        tokens[i + 1].content
        for i, token in enumerate(tokens)
        if token.tag in ("h1", "h2") and token.nesting == 1
    ]
    # No text of an operator ends a list or block of the page, or begins one.
    assert titles == [
        name,
        *["Which axis goes", "Family"] * bool(built.decisions),
        *(f"{name} - {since}" for since in sorted(theirs, reverse=True)),
        *["Examples"] * bool(built.examples),
        *["Differences between versions"] * bool(built.differences),
        *["Where public documentation differs"] * bool(built.documents),
        *["Where the texts are silent"] * bool(built.decisions),
    ]
    outline = check_html(hypertext(built))
    assert {f"v{since}" for since in theirs} <= {*outline.ids}
    assert ("examples" in outline.ids) == bool(built.examples)
    for example in built.examples:
        assert example.name in outline.ids
        assert example.computed_by == ("halfulp" if built.decisions else "ONNX")
    json.dumps(dataclasses.asdict(built), allow_nan=False)


@pytest.mark.parametrize(("domain", "name"), KINDS)
def test_the_page_of_an_operator(domain: str, name: str) -> None:
    check_operator(domain, name)


def test_the_pages_of_others(rng: np.random.Generator) -> None:
    everything = _operators()
    if os.environ.get("HALFULP_OPERATORS") != "all":
        everything = [everything[i] for i in rng.choice(len(everything), 2, False)]
    for domain, name in everything:
        print(domain, name)
        check_operator(domain, name)


def test_examples_of_others_are_those_of_the_node_tests() -> None:
    scan = {example.name: example for example in build("Scan").examples}
    assert {"test_scan9_sum", "test_scan_sum"} <= {*scan}
    body = scan["test_scan9_sum"].attributes["body"]
    assert isinstance(body, str)
    assert "Add" in body
    (example,) = build("Det").examples[:1]
    assert example.computed_by == "ONNX"
    assert example.outputs[0].values == [-2.0]


# The command.


def _fail(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch("halfulp: error: .*\n", err)
    return str(err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("docs", "Missing argument 'OP'"),
        ("docs ReduceSumSqare", "did you mean ReduceSumSquare"),
        ("docs Normalizer", "domain 'ai.onnx.ml' has one"),
        ("docs Abs --domain nowhere", "domain 'nowhere' is unknown; known: ai.onnx,"),
        ("docs Abs --format pdf", "--format is 'pdf'; allowed: md, html, json"),
        ("docs Abs -o nowhere/page.md", "the folder of the output"),
        ("docs Nothing -o page.md", "operator 'Nothing' is unknown"),
    ],
)
def test_bad_input_gives_one_line_and_writes_nothing(
    arguments: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in _fail(arguments.split(), capsys)
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ("-o page.html", "<!DOCTYPE html>"),
        ("-o page.json", "{"),
        ("-o page.md", "# Abs"),
        ("-o page", "# Abs"),
        ("-o page --format html", "<!DOCTYPE html>"),
        ("--output page.txt --domain ai.onnx", "# Abs"),
    ],
)
def test_output_writes_what_its_name_says(
    arguments: str,
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["docs", "Abs", *arguments.split()]) == 0
    (file,) = os.listdir()
    assert capsys.readouterr() == ("", f"wrote {file}\n")
    assert Path(file).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("form", ["html", "md", "json"])
def test_in_a_folder_the_pages_of_a_family_link_each_other(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [row.operator for row in REDUCTIONS]
    form_given = [] if form == "html" else ["--format", form]
    assert main(["docs", "ReduceL1", "-o", str(tmp_path), *form_given]) == 0
    assert capsys.readouterr().err.count("wrote ") == len(names)
    files = [f"{name}.{form}" for name in names]
    assert sorted(os.listdir(tmp_path)) == sorted(files)
    for file in files:
        text = (tmp_path / file).read_text("utf-8")
        if form == "json":
            assert [one["name"] for one in json.loads(text)["family"]] == names
            continue
        links = re.findall(r'href="(\w+\.html)"|\]\((\w+\.md)\)', text)
        assert {a or b for a, b in links} == {*files} - {file}


def test_in_a_folder_another_operator_has_one_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", "Abs", "-o", str(tmp_path)]) == 0
    assert os.listdir(tmp_path) == ["Abs.html"]
    capsys.readouterr()
    for name in ("Nothing", "../Abs"):
        words = _fail(["docs", name, "-o", str(tmp_path)], capsys)
        assert f"operator '{name}' is unknown" in words
    (tmp_path / "ReduceL2.html").mkdir()
    words = _fail(["docs", "ReduceSum", "-o", str(tmp_path)], capsys)
    assert "exists and is no file" in words
    assert sorted(os.listdir(tmp_path)) == ["Abs.html", "ReduceL2.html"]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    Path("page.md").write_text("precious")
    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in _fail(["docs", "Abs", "-o", "page.md"], capsys)
    assert os.listdir() == ["page.md"]
    assert Path("page.md").read_text() == "precious"


def test_printing_and_writing_give_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "Abs"]) == 0
    assert capsys.readouterr() == (halfulp.page.render("Abs", "md"), "")
