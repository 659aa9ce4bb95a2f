"""What an operator's page says, in order, and its two forms.

May import report, spec, and the modules of this package.
The style of the HTML is the file page.css beside it.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Callable, Iterator, Sequence

from halfulp.page import axes
from halfulp.page.blocks import (
    MARKS,
    Block,
    code,
    columns,
    details,
    diff,
    facts,
    inline,
    joined,
    label,
    line,
    marked,
    named,
    section,
    text,
    title,
)
from halfulp.page.data import (
    BREAKING,
    DOCUMENTED,
    Page,
    address,
    count,
    mark,
    marks,
)
from halfulp.page.data import facts as facts_of
from halfulp.page.documented import Document
from halfulp.page.examples import Example, Operand
from halfulp.page.family import Relative
from halfulp.report.html import document, element, escape, head
from halfulp.report.html import table as html_table
from halfulp.report.markdown import CENTRED, fence, folded, table
from halfulp.spec.differences import Change, Difference
from halfulp.spec.schemas import Attribute, Parameter, Schema, TypeConstraint


def markdown(page: Page, address: Callable[[str], str] = address) -> str:
    """Return the page in Markdown; `address` tells where those of its family are."""
    intro = folded(
        f"Every version in domain `{page.domain or 'ai.onnx'}`, as the schemas of onnx "
        f"{page.onnx} have it. Written by halfulp {page.halfulp}.\n"
    )
    text = joined(_blocks(page, address)).markdown
    return f"# {page.name}\n\n{intro}\n{text}".rstrip() + "\n"


def hypertext(page: Page, address: Callable[[str], str] = address) -> str:
    """Return the page as one HTML document; `address` is that of `markdown`."""
    style = importlib.resources.files("halfulp.page") / "page.css"
    body = "\n".join(_body(page, address))
    return document(
        f"{page.name} - ONNX", body, style=style.read_text("utf-8") + axes.STYLE
    )


def _body(page: Page, address: Callable[[str], str]) -> Iterator[str]:
    blocks = _blocks(page, address)
    yield '<div class="page">'
    yield f"<header><h1>{escape(page.name)}</h1>"
    yield (
        f"<p>Every version in domain <code>{escape(page.domain or 'ai.onnx')}</code>, as "
        f"the schemas of onnx {escape(page.onnx)} have it. "
        f'<span class="muted">Written by halfulp {escape(page.halfulp)}.</span></p>'
    )
    yield "</header>"
    links = "".join(
        f'<li><a href="#{block.anchor}">{block.content}</a></li>'
        for block in blocks
        if block.anchor
    )
    yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'
    yield f'<main id="main" tabindex="-1">{joined(blocks).html}</main></div>'


def _blocks(page: Page, address: Callable[[str], str]) -> list[Block]:
    found = [_overview(page), *(_types(page, name) for name in page.type_matrices)]
    if page.reduction:
        heads, *rows = axes.table(page.reduction)
        drawn = Block("\n".join(table(heads, rows)) + "\n", axes.figures(page.reduction))
        found.append(section("axes", axes.TITLE, axes.TITLE, [drawn]))
        found.append(section("family", "Family", "Family", _family(page, address)))
    found += [_version(page, version) for version in page.versions]
    if page.examples:
        blocks = [text(page.computed), *map(_example, page.examples)]
        found.append(section("examples", "Examples", "Examples", blocks))
    if page.differences:
        heading = "Differences between versions"
        blocks = [text(BREAKING), *(_difference(page, d) for d in page.differences)]
        found.append(section("differences", heading, "Differences", blocks))
    if page.documents:
        blocks = [text(page.documented), *map(_documented, page.documents)]
        found.append(section("documented", DOCUMENTED, "Public documentation", blocks))
    if page.decisions:
        blocks = [text("What halfulp does, and why.")]
        for decision in page.decisions:
            why = text(f"*Why:* {decision.reason}")
            muted = Block(why.markdown, element("div", why.html, class_="muted"))
            blocks += [title(decision.title), text(decision.decision), muted]
        heading = "Where the texts are silent"
        found.append(section("decisions", heading, heading, blocks))
    return found


def _overview(page: Page) -> Block:
    """What changed since the version before: a list, or a table."""
    lines, rows = ["What changed since the version before:\n"], []
    for version, opsets, difference in page.overview:
        v, changed, link = version.since_version, "the first version", ""
        if difference is not None:
            changed = difference.summary
            link = f' (<a href="#{_pair(difference)}">all</a>)'
        word = "opsets" if " " in opsets else "opset"
        lines.append(folded(f"- **{v}** ({word} {opsets}): {changed}"))
        first = head(f'<a href="#v{v}">{v}</a>', scope="row")
        rows.append((first, element("td", opsets), element("td", inline(changed) + link)))
    heads = ("version", "opsets", "since the version before")
    html = html_table(map(head, heads), rows, caption="Versions")
    return Block("\n".join(lines) + "\n", html)


def _types(page: Page, name: str) -> Block:
    """A table of the types of a constraint: which version has which."""
    since = [str(version.since_version) for version in reversed(page.versions)]
    lines, rows = [], []
    for type_name, present in page.type_matrices[name]:
        lines.append((f"`{type_name}`", *map(mark, present)))
        signs = ((mark(there), "good" if there else "muted") for there in present)
        cells = (element("td", sign, class_=kind) for sign, kind in signs)
        rows.append((head(inline(f"`{type_name}`"), scope="row"), *cells))
    caption = f"Types of `{name}`, by version"
    heads = [head("type"), *(head(f'<a href="#v{v}">{v}</a>') for v in since)]
    markdown = "\n".join(table(("type", *since), lines, CENTRED))
    html = html_table(heads, rows, caption=inline(caption), kind="matrix")
    return Block(f"{caption}:\n\n{markdown}\n", html)


def _family(page: Page, address: Callable[[str], str]) -> Iterator[Block]:
    """What all that reduce compute, and since which version they take a type."""

    def named(name: str) -> tuple[str, str]:
        if name == page.name:
            return f"**{name}**", element("strong", escape(name))
        where = address(name)
        return f"[{name}]({where})", element("a", escape(name), href=where)

    def tabled(
        caption: str, heads: Sequence[str], cells: Callable[[Relative], Sequence[str]]
    ) -> Block:
        rows = [(named(one.name), cells(one)) for one in page.family]
        lines = [(link, *values) for (link, _), values in rows]
        html = html_table(
            map(head, heads),
            [
                (head(link, scope="row"), *(element("td", each) for each in values))
                for (_, link), values in rows
            ],
            caption=caption,
        )
        return Block(f"{caption}:\n\n" + "\n".join(table(heads, lines)) + "\n", html)

    yield text(
        "One rule for all: the exact value, rounded once; axes, flags, shapes and errors "
        "are the same."
    )
    yield tabled(
        "What each computes",
        ("operator", "computes", "versions", "axes an input from"),
        lambda one: (
            one.computes,
            ", ".join(map(str, one.versions)),
            str(one.axes_input_since),
        ),
    )
    types = dict.fromkeys(name for one in page.family for name in one.types)
    yield tabled(
        "The first version that allows a type",
        ("operator", *types),
        lambda one: [str(one.types.get(name, mark(False))) for name in types],
    )


def _version(page: Page, version: Schema) -> Block:
    v = version.since_version
    pairs = {k: f"`{x}`" for k, x in facts_of(version).items()}
    blocks = [
        title("Version"),
        facts({"name": f"[{page.name} (GitHub)]({page.url})", **pairs}),
        text(f"This version of the operator has been available **since version {v}**."),
        title("Summary"),
        text(version.documentation),
    ]
    if v in page.documented_otherwise:
        link = '<a href="#documented">other words</a> for this version'
        blocks.append(
            Block(
                f"Public documentation has other words: see *{DOCUMENTED}*.\n",
                f"<p>Public documentation has {link}.</p>",
            )
        )
    if version.function:
        blocks.append(title("Function body"))
        if not version.function_bodies:
            blocks.append(text("It depends on the node."))
    for body in version.function_bodies:
        blocks += [line(body.title), code(body.text)]
    if version.attributes:
        blocks += [title("Attributes"), named(map(_attribute, version.attributes))]
    inputs = count(version.min_inputs, version.max_inputs, "input")
    blocks += [title("Inputs"), line(inputs), named(map(_parameter, version.inputs))]
    outputs = count(version.min_outputs, version.max_outputs, "output")
    blocks += [title("Outputs"), line(outputs), named(map(_parameter, version.outputs))]
    if version.type_constraints:
        constraints = map(_constraint, version.type_constraints)
        blocks += [title("Type constraints"), named(constraints)]
    return section(f"v{v}", f"{page.name} - {v}", f"Version {v}", blocks)


def _attribute(a: Attribute) -> tuple[str, str, str]:
    kind = "required" if a.required else "optional"
    if a.default is not None:
        kind = f"default is `{json.dumps(a.default)}`"
    markdown = f"**{a.name} - {a.type}** ({kind})"
    return markdown, f"**`{a.name}`** {a.type} ({kind})", a.description


def _parameter(p: Parameter) -> tuple[str, str, str]:
    markdown = f"**{p.name}** ({marks(p)}) - **{p.type}**"
    return markdown, f"**`{p.name}`** ({marks(p)}) - `{p.type}`", p.description


def _constraint(t: TypeConstraint) -> tuple[str, str, str]:
    types = ", ".join(f"`{name}`" for name in t.types)
    return f"**{t.name}** in ( {types} )", f"**`{t.name}`** in {types}", t.description


def _example(example: Example) -> Block:
    attributes = example.attribute_text
    blocks = [line(f"Node: `{example.node}`, opset {example.opset}")]
    if example.attributes:
        blocks += [label("Attributes"), code(attributes)]
    parts = [
        [label(name), *(block for each in operands for block in _operand(each))]
        for name, operands in example.operands.items()
        if operands
    ]
    gist = ", ".join(attributes.replace(" ", "\N{NO-BREAK SPACE}").split("\n"))
    return details(example.name, gist, [*blocks, columns(parts)])


def _operand(operand: Operand) -> tuple[Block, Block]:
    return line(f"`{operand.name}`: {operand.kind}"), code(operand.text)


def _documented(public: Document) -> Block:
    blocks = [title(public.title), text(public.summary.capitalize())]
    blocks += [text(step.text) for step in public.steps]
    for other in public.differences:
        blocks.append(label(f"Version {other.version}, {other.part}"))
        blocks.append(diff(other.lines))
    return joined(blocks)


def _pair(difference: Difference) -> str:
    return f"from-{difference.old}-to-{difference.new}"


def _difference(page: Page, difference: Difference) -> Block:
    """A difference between two versions: as it is printed, or by parts."""
    breaking = "breaking" if difference.breaking else "not breaking"
    pair, steps = f"{difference.old} to {difference.new}", page.steps(difference)
    printed = Block(f"### {pair}: {breaking}\n\n{fence(str(difference), 'diff')}", "")
    markdown = joined([printed, *(text(step.text) for step in steps)]).markdown
    warn = " warn" if difference.breaking else ""
    opened = " open" * (difference is page.differences[0])
    html = [
        f'<details id="{_pair(difference)}"{opened}>',
        f'<summary><h3>{pair}</h3> <span class="badge{warn}">{breaking}</span></summary>',
        "<div>",
    ]
    if difference.reasons:
        reasons = "".join(element("li", escape(r)) for r in difference.reasons)
        html.append(f"<h4>Breaking reasons</h4><ul>{reasons}</ul>")
    for heading, changes in difference.sections.items():
        items = "\n".join(map(_change, changes))
        html.append(f'<h4>{heading}</h4><ul class="changes">{items}</ul>')
    words = difference.documentation
    counts = f"+{len(words.added)}/-{len(words.removed)} lines"
    html.append("<h4>Documentation</h4>")
    html.append(f"<p>line similarity: {words.similarity:.2f} ({counts})</p>")
    if words.unified:
        html.append(marked(words.unified))
    more = '(<a href="#documented">more</a>)'
    html += [element("p", f"{escape(step.text)} {more}") for step in steps]
    return Block(markdown, "\n".join([*html, "</div></details>"]))


def _change(change: Change) -> str:
    badge = ' <span class="badge warn">breaking</span>' if change.breaking else ""
    lines = marked(change.description) if change.description else ""
    tag, colour = MARKS[change.sign]
    words = element(tag, f"{change.sign} {escape(str(change))}")
    return element("li", f"{words}{badge}{lines}", class_=colour)
