"""An operator's page in Markdown.

May import report, spec, and axes, data, documented and examples of this package.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from halfulp.page import axes
from halfulp.page.data import BREAKING, DOCUMENTED, Page, count, facts, mark, marks
from halfulp.page.documented import Document
from halfulp.page.examples import Example, Operand
from halfulp.report.html import escape
from halfulp.report.markdown import CENTRED, fence, folded, table
from halfulp.spec.schemas import Parameter, Schema


def markdown(page: Page) -> str:
    """Return the page in Markdown."""
    return "\n".join(_page(page)).rstrip() + "\n"


def _page(page: Page) -> Iterator[str]:
    yield f"# {page.name}\n"
    yield folded(
        f"Every version in domain `{page.domain or 'ai.onnx'}`, as the schemas of onnx "
        f"{page.onnx} have it. Written by halfulp {page.halfulp}.\n"
    )
    yield "What changed since the version before:\n"
    for version, opsets, difference in page.overview:
        changed = "the first version" if difference is None else difference.summary
        word = "opsets" if " " in opsets else "opset"
        yield folded(f"- **{version.since_version}** ({word} {opsets}): {changed}")
    yield ""
    for name, rows in page.type_matrices.items():
        yield f"Types of `{name}`, by version:\n"
        since = [str(version.since_version) for version in reversed(page.versions)]
        texts = [(f"`{name}`", *map(mark, present)) for name, present in rows]
        yield "\n".join(table(("type", *since), texts, CENTRED)) + "\n"
    if page.decisions:
        yield f"## {axes.TITLE}\n"
        head, *lines = axes.table()
        yield "\n".join(table(head, lines)) + "\n"
    for version in page.versions:
        yield from _version(page, version)
    if page.examples:
        yield "## Examples\n"
        yield f"{folded(page.computed)}\n"
    for example in page.examples:
        yield from _example(example)
    if page.differences:
        yield "## Differences between versions\n"
        yield f"{folded(BREAKING)}\n"
    for difference in page.differences:
        breaking = "breaking" if difference.breaking else "not breaking"
        yield f"### {difference.old} to {difference.new}: {breaking}\n"
        yield fence(str(difference), "diff")
        for step in page.steps(difference):
            yield folded(f"{step.text}\n")
    if page.documents:
        yield f"## {DOCUMENTED}\n"
        yield f"{folded(page.documented)}\n"
    for public in page.documents:
        yield from _documented(public)
    if page.decisions:
        yield "## Where the texts are silent\n"
        yield "What halfulp does, and why.\n"
    for decision in page.decisions:
        yield f"### {decision.title}\n"
        yield f"{folded(decision.decision)}\n"
        yield f"{folded(f'*Why:* {decision.reason}')}\n"


def _version(page: Page, version: Schema) -> Iterator[str]:
    yield f"## {page.name} - {version.since_version}\n"
    yield "### Version\n"
    yield f"- **name**: [{page.name} (GitHub)]({page.url})"
    for key, value in facts(version).items():
        yield f"- **{key}**: `{value}`"
    yield (
        "\nThis version of the operator has been available "
        f"**since version {version.since_version}**.\n"
    )
    yield "### Summary\n"
    yield f"{folded(version.documentation)}\n"
    if version.since_version in page.documented_otherwise:
        yield f"Public documentation has other words: see *{DOCUMENTED}*.\n"
    if version.function:
        yield "### Function body\n"
    if version.function and not version.function_bodies:
        yield "It depends on the node.\n"
    for body in version.function_bodies:
        yield f"{body.title}\n"
        yield fence(body.text)
    if version.attributes:
        yield "### Attributes\n"
    for a in version.attributes:
        kind = "required" if a.required else "optional"
        if a.default is not None:
            kind = f"default is `{json.dumps(a.default)}`"
        yield _item(f"**{a.name} - {a.type}** ({kind})", a.description)
    yield "### Inputs\n"
    yield f"{count(version.min_inputs, version.max_inputs, 'input')}\n"
    yield from _parameters(version.inputs)
    yield "### Outputs\n"
    yield f"{count(version.min_outputs, version.max_outputs, 'output')}\n"
    yield from _parameters(version.outputs)
    if version.type_constraints:
        yield "### Type constraints\n"
    for t in version.type_constraints:
        types = ", ".join(f"`{name}`" for name in t.types)
        yield _item(f"**{t.name}** in ( {types} )", t.description)


def _parameters(parameters: Sequence[Parameter]) -> Iterator[str]:
    for p in parameters:
        yield _item(f"**{p.name}** ({marks(p)}) - **{p.type}**", p.description)


def _item(head: str, description: str) -> str:
    if not description:
        return folded(f"- {head}\n")
    return folded(f"- {head}:\n\n{textwrap.indent(description, '  ')}\n")


def _documented(public: Document) -> Iterator[str]:
    yield f"### {public.title}\n"
    yield folded(f"{public.summary.capitalize()}\n")
    for step in public.steps:
        yield folded(f"{step.text}\n")
    for other in public.differences:
        yield f"Version {other.version}, {other.part}:\n"
        lines = [
            part
            for line in other.lines
            for part in textwrap.wrap(
                line[1:], 78, initial_indent=line[0], subsequent_indent=f"{line[0]}  "
            )
        ]
        yield fence("\n".join(lines), "diff")


def _example(example: Example) -> Iterator[str]:
    yield f'<details id="{escape(example.name)}">'
    yield f"<summary>\n<code>{escape(example.name)}</code>\n</summary>\n"
    yield f"Node: `{example.node}`, opset {example.opset}\n"
    if example.attributes:
        yield "Attributes:\n"
        yield fence(example.attribute_text)
    for title, operands in example.operands.items():
        if operands:
            yield f"{title}:\n"
            yield from _operands(operands)
    yield "</details>\n"


def _operands(operands: Iterable[Operand]) -> Iterator[str]:
    for operand in operands:
        yield f"`{operand.name}`: {operand.kind}\n"
        yield fence(operand.text)
