"""An operator's page in HTML.

May import html, spec, and axes, data, documented and examples of this package. The
texts of ONNX are Markdown: markdown-it-py, which comes with rich, reads it, with raw
HTML, pictures and headings off, so that no text can load anything or break the page's
outline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urljoin

from markdown_it import MarkdownIt

from halfulp.page import axes
from halfulp.page.data import BREAKING, DOCS, DOCUMENTED, Page, count, facts, mark, marks
from halfulp.page.documented import Document
from halfulp.page.examples import Example, Operand
from halfulp.report.html import document, element, escape, head, table
from halfulp.spec.differences import Change, Difference
from halfulp.spec.schemas import Parameter, Schema

# By sign: the element and the class of what was added, removed or neither.
_MARKS = {"+": ("ins", "good"), "-": ("del", "bad"), " ": ("span", "same")}
# The most characters of attributes beside the name of a folded example.
_GIST = 60

_STYLE = """\
nav ul { list-style: none; padding: 0; margin: 0; display: flex; flex-wrap: wrap; }
nav li { margin: 0 1.1rem .3rem 0; }
nav a, nav li { white-space: nowrap; }
main p, main li, main dd { max-width: 46rem; }
section { margin-top: 3rem; }
dl { display: grid; gap: .2rem 1.2rem; }
dl.facts { grid-template-columns: max-content 1fr; }
dl.facts dt { color: var(--muted); }
dl.facts dd { margin: 0; }
dl.named { gap: 0; }
dl.named dt { margin-top: .8rem; }
dl.named dd { margin: .1rem 0 0 1.4rem; }
dl.named dd > :first-child { margin-top: .2rem; }
details { border: 1px solid var(--line); border-radius: .4em; margin: .6rem 0; }
summary { padding: .5rem .9rem; overflow-wrap: anywhere; }
summary > .muted { font-weight: 400; }
summary > h3 { display: inline; font-size: 1rem; margin: 0; }
details > div { padding: 0 .9rem .6rem; }
.operands {
  display: grid; gap: 0 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr));
}
.operands > * { min-width: 0; }
.operands h4 { margin-bottom: 0; }
.diff { padding: .5rem 0; white-space: pre-wrap; }
.diff > * { display: block; padding: 0 .9rem 0 calc(.9rem + 2ch); text-indent: -2ch; }
ins, del { text-decoration: none; }
.changes { list-style: none; padding: 0; }
.changes > li { padding: .1rem .5rem .1rem 1.8rem; text-indent: -1.3rem; }
.changes > li > ins, .changes > li > del { background: none; }
.changes pre, .changes .badge { text-indent: 0; }
.matrix td, .matrix thead th:not(:first-child) { padding: .2em .8em; text-align: center; }
.matrix tbody th { font-weight: 400; }
@media (min-width: 70rem) {
  .page { display: grid; grid-template-columns: 13rem minmax(0, 1fr); gap: 0 3rem; }
  nav { position: sticky; top: 1.5rem; align-self: start; grid-area: 1 / 1 / 3 / 2; }
  nav ul { display: block; }
}
@media print {
  nav { display: none; }
  details { border: 0; }
  details > div, summary { padding-left: 0; padding-right: 0; }
  details::details-content { content-visibility: visible; display: block; }
}
"""


def hypertext(page: Page) -> str:
    """Return the page as one HTML document."""
    return document(
        f"{page.name} - ONNX", "\n".join(_page(page)), style=_STYLE + axes.STYLE
    )


def _page(page: Page) -> Iterator[str]:
    name = escape(page.name)
    yield '<div class="page">'
    yield f"<header><h1>{name}</h1>"
    yield (
        f"<p>Every version in domain <code>{escape(page.domain or 'ai.onnx')}</code>, as "
        f"the schemas of onnx {escape(page.onnx)} have it. "
        f'<span class="muted">Written by halfulp {escape(page.halfulp)}.</span></p>'
    )
    yield "</header>"
    yield from _contents(page)
    yield '<main id="main" tabindex="-1">'
    yield from _overview(page)
    if page.decisions:
        yield from _section("axes", axes.TITLE)
        yield axes.figures()
        yield "</section>"
    for version in page.versions:
        yield from _version(page, version)
    if page.examples:
        yield from _section("examples", "Examples")
        yield f"<p>{escape(page.computed)}</p>"
        for example in page.examples:
            yield from _example(example)
        yield "</section>"
    if page.differences:
        yield from _section("differences", "Differences between versions")
        yield f"<p>{escape(BREAKING)}</p>"
        for i, difference in enumerate(page.differences):
            yield from _difference(page, difference, opened=i == 0)
        yield "</section>"
    if page.documents:
        yield from _section("documented", DOCUMENTED)
        yield f"<p>{escape(page.documented)}</p>"
        for public in page.documents:
            yield from _documented(public)
        yield "</section>"
    if page.decisions:
        yield from _section("decisions", "Where the texts are silent")
        yield "<p>What halfulp does, and why.</p>"
        for decision in page.decisions:
            yield f"<h3>{escape(decision.title)}</h3>"
            yield _text(decision.decision)
            yield f'<div class="muted">{_text(f"*Why:* {decision.reason}")}</div>'
        yield "</section>"
    yield "</main></div>"


def _section(anchor: str, title: str) -> Iterator[str]:
    yield f'<section id="{anchor}" aria-labelledby="{anchor}-title">'
    yield f'<h2 id="{anchor}-title">{escape(title)}</h2>'


def _contents(page: Page) -> Iterator[str]:
    links = [("axes", axes.TITLE)] * bool(page.decisions)
    links += [
        (f"v{v.since_version}", f"Version {v.since_version}") for v in page.versions
    ]
    links += [("examples", "Examples")] * bool(page.examples)
    links += [("differences", "Differences")] * bool(page.differences)
    links += [("documented", "Public documentation")] * bool(page.documents)
    links += [("decisions", "Where the texts are silent")] * bool(page.decisions)
    items = "".join(f'<li><a href="#{to}">{text}</a></li>' for to, text in links)
    yield f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _overview(page: Page) -> Iterator[str]:
    rows = []
    for version, opsets, difference in page.overview:
        v = version.since_version
        changed = "the first version"
        if difference is not None:
            anchor = _pair(difference)
            changed = _inline(difference.summary) + f' (<a href="#{anchor}">all</a>)'
        first = head(f'<a href="#v{v}">{v}</a>', scope="row")
        rows.append((first, element("td", opsets), element("td", changed)))
    heads = ("version", "opsets", "since the version before")
    yield table(map(head, heads), rows, caption="Versions")
    for name, types in page.type_matrices.items():
        yield _types(page, name, types)


def _types(page: Page, name: str, types: list[tuple[str, list[bool]]]) -> str:
    """A table of the types of a constraint: which version has which."""
    since = [version.since_version for version in reversed(page.versions)]
    heads = [head("type"), *(head(f'<a href="#v{v}">{v}</a>') for v in since)]
    rows = []
    for type_name, present in types:
        marks = ((mark(there), "good" if there else "muted") for there in present)
        cells = (element("td", sign, class_=kind) for sign, kind in marks)
        rows.append((head(_code(type_name), scope="row"), *cells))
    caption = f"Types of {_code(name)}, by version"
    return table(heads, rows, caption=caption, kind="matrix")


def _version(page: Page, version: Schema) -> Iterator[str]:
    v = version.since_version
    yield from _section(f"v{v}", f"{page.name} - {v}")
    yield "<h3>Version</h3>"
    link = f'<a href="{escape(page.url)}">{escape(page.name)} (GitHub)</a>'
    pairs = {"name": link, **{k: _code(x) for k, x in facts(version).items()}}
    items = "".join(f"<dt>{k}</dt><dd>{x}</dd>" for k, x in pairs.items())
    yield f'<dl class="facts">{items}</dl>'
    yield "<p>This version of the operator has been available "
    yield f"<strong>since version {v}</strong>.</p>"
    yield "<h3>Summary</h3>"
    yield _text(version.documentation)
    if v in page.documented_otherwise:
        yield '<p>Public documentation has <a href="#documented">other words</a> for '
        yield "this version.</p>"
    if version.function:
        yield "<h3>Function body</h3>"
    if version.function and not version.function_bodies:
        yield "<p>It depends on the node.</p>"
    for body in version.function_bodies:
        yield f"<p>{escape(body.title)}</p>"
        yield _pre(body.text)
    if version.attributes:
        yield '<h3>Attributes</h3><dl class="named">'
        for a in version.attributes:
            kind = "required" if a.required else "optional"
            if a.default is not None:
                kind = f"default is {_code(json.dumps(a.default))}"
            yield _named(a.name, f"{a.type} ({kind})", a.description)
        yield "</dl>"
    yield "<h3>Inputs</h3>"
    yield f"<p>{count(version.min_inputs, version.max_inputs, 'input')}</p>"
    yield from _parameters(version.inputs)
    yield "<h3>Outputs</h3>"
    yield f"<p>{count(version.min_outputs, version.max_outputs, 'output')}</p>"
    yield from _parameters(version.outputs)
    if version.type_constraints:
        yield '<h3>Type constraints</h3><dl class="named">'
        for t in version.type_constraints:
            types = ", ".join(map(_code, t.types))
            yield _named(t.name, f"in {types}", t.description)
        yield "</dl>"
    yield "</section>"


def _parameters(parameters: Sequence[Parameter]) -> Iterator[str]:
    if parameters:
        yield '<dl class="named">'
        for p in parameters:
            yield _named(p.name, f"({marks(p)}) - {_code(p.type)}", p.description)
        yield "</dl>"


def _named(name: str, about: str, description: str) -> str:
    """Return an item of a list; `about` is HTML, `description` Markdown."""
    term = f"<dt><strong>{_code(name)}</strong> {about}</dt>"
    return f"{term}<dd>{_text(description)}</dd>"


def _example(example: Example) -> Iterator[str]:
    name = escape(example.name)
    yield f'<details id="{name}">'
    gist = ", ".join(
        example.attribute_text.replace(" ", "\N{NO-BREAK SPACE}").split("\n")
    )
    gist = f' <span class="muted">{escape(gist)}</span>' if len(gist) <= _GIST else ""
    yield f"<summary><h3>{name.replace('_', '_<wbr>')}</h3>{gist}</summary><div>"
    yield f"<p>Node: {_code(example.node)}, opset {example.opset}</p>"
    if example.attributes:
        yield f"<h4>Attributes</h4>{_pre(example.attribute_text)}"
    yield '<div class="operands">'
    for title, operands in example.operands.items():
        if operands:
            yield f"<div><h4>{escape(title)}</h4>{''.join(_operands(operands))}</div>"
    yield "</div></div></details>"


def _operands(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        yield f"<p>{_code(operand.name)}: {escape(operand.kind)}</p>{_pre(operand.text)}"


def _pair(difference: Difference) -> str:
    return f"from-{difference.old}-to-{difference.new}"


def _difference(page: Page, difference: Difference, opened: bool) -> Iterator[str]:
    badge = '<span class="badge">not breaking</span>'
    if difference.breaking:
        badge = '<span class="badge warn">breaking</span>'
    yield f'<details id="{_pair(difference)}"{" open" * opened}>'
    yield f"<summary><h3>{difference.old} to {difference.new}</h3> {badge}</summary><div>"
    if difference.reasons:
        reasons = "".join(f"<li>{escape(r)}</li>" for r in difference.reasons)
        yield f"<h4>Breaking reasons</h4><ul>{reasons}</ul>"
    for title, changes in difference.sections.items():
        yield f'<h4>{title}</h4><ul class="changes">'
        yield from map(_change, changes)
        yield "</ul>"
    text = difference.documentation
    yield "<h4>Documentation</h4>"
    yield (
        f"<p>line similarity: {text.similarity:.2f} "
        f"(+{len(text.added)}/-{len(text.removed)} lines)</p>"
    )
    if text.unified:
        yield _marked(text.unified)
    for step in page.steps(difference):
        yield f'<p>{escape(step.text)} (<a href="#documented">more</a>)</p>'
    yield "</div></details>"


def _change(change: Change) -> str:
    badge = ' <span class="badge warn">breaking</span>' if change.breaking else ""
    marked = _marked(change.description) if change.description else ""
    tag, colour = _MARKS[change.sign]
    words = f"{change.sign} {escape(str(change))}"
    return f'<li class="{colour}"><{tag}>{words}</{tag}>{badge}{marked}</li>'


def _documented(public: Document) -> Iterator[str]:
    yield f"<h3>{escape(public.title)}</h3>"
    yield f"<p>{escape(public.summary.capitalize())}</p>"
    for step in public.steps:
        yield f"<p>{escape(step.text)}</p>"
    for other in public.differences:
        yield f"<h4>Version {other.version}, {escape(other.part)}</h4>"
        yield _marked(other.lines)


def _marked(lines: Iterable[str]) -> str:
    """Return a difference whose lines are marked by sign, element and colour."""
    items = []
    for i, line in enumerate(lines):
        header = i < 2 and line.startswith(("--- ", "+++ "))
        tag, colour = _MARKS.get(" " if header else line[0], _MARKS[" "])
        items.append(f'<{tag} class="{colour}">{escape(line)}</{tag}>')
    return f'<pre class="diff">{"".join(items)}</pre>'


def _pre(text: str) -> str:
    return f'<pre tabindex="0">{escape(text)}</pre>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    reader.disable(["image", "heading", "lheading", "html_block", "html_inline"])

    def link_open(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
        tokens[i].attrSet("href", urljoin(DOCS, str(tokens[i].attrGet("href"))))
        return str(self.renderToken(tokens, i, options, env))

    def text(self: Any, tokens: Any, i: int, options: Any, env: Any) -> str:
        plain = escape(tokens[i].content)
        return plain.replace("&lt;br&gt;", "<br>").replace("&lt;br/&gt;", "<br>")

    def table_open(*_: Any) -> str:
        return '<div class="scroll"><table>'

    def table_close(*_: Any) -> str:
        return "</table></div>"

    reader.add_render_rule("link_open", link_open)
    reader.add_render_rule("table_open", table_open)
    reader.add_render_rule("table_close", table_close)
    reader.add_render_rule("text", text)
    return reader


_READER = _reader()


def _text(markdown: str) -> str:
    return str(_READER.render(markdown))


def _inline(markdown: str) -> str:
    return str(_READER.renderInline(markdown))
