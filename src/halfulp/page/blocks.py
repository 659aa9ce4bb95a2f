"""What an operator's page is made of: blocks, each in Markdown and in HTML.

May import report, and data of this package. Texts are Markdown: markdown-it-py, which
comes with rich, makes HTML of them, with raw HTML, pictures and headings off, so that no
text can load anything or break the page's outline.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from markdown_it import MarkdownIt

from halfulp.page.data import DOCS
from halfulp.report.html import element, escape
from halfulp.report.markdown import fence, folded

# By sign: the element and the class of what was added, removed or neither.
MARKS = {"+": ("ins", "good"), "-": ("del", "bad"), " ": ("span", "same")}
# The most characters of attributes beside the name of a folded example.
_GIST = 60


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page, in both forms; only a section is in the contents.

    Attributes
    ----------
    markdown, html : str
    anchor, content : str, optional
    """

    markdown: str
    html: str
    anchor: str = ""
    content: str = ""


def joined(blocks: Iterable[Block]) -> Block:
    """Return blocks as one; empty ones leave no trace."""
    blocks = list(blocks)
    return Block(
        "\n".join(block.markdown for block in blocks if block.markdown),
        "\n".join(block.html for block in blocks if block.html),
    )


def text(words: str) -> Block:
    """Return prose."""
    return Block(f"{folded(words)}\n", prose(words))


def line(words: str) -> Block:
    """Return prose that stays on one line."""
    return Block(f"{words}\n", prose(words))


def title(words: str) -> Block:
    """Return the title of a part of a section."""
    return Block(f"### {words}\n", element("h3", escape(words)))


def label(words: str) -> Block:
    """Return what says what follows."""
    return Block(f"{words}:\n", element("h4", escape(words)))


def code(words: str) -> Block:
    """Return a block of code."""
    return Block(fence(words), element("pre", escape(words), tabindex=0))


def section(anchor: str, heading: str, content: str, blocks: Iterable[Block]) -> Block:
    """Return blocks under a heading, which the contents call `content`."""
    within, name = joined(blocks), f"{anchor}-title"
    titled = element("h2", escape(heading), id=name) + "\n" + within.html
    html = element("section", titled, id=anchor, aria_labelledby=name)
    return Block(f"## {heading}\n\n{within.markdown}", html, anchor, content)


def facts(pairs: Mapping[str, str]) -> Block:
    """Return names and what they are, as Markdown."""
    markdown = "".join(f"- **{name}**: {what}\n" for name, what in pairs.items())
    items = (element("dt", k) + element("dd", inline(v)) for k, v in pairs.items())
    return Block(markdown, element("dl", "".join(items), class_="facts"))


def named(items: Iterable[tuple[str, str, str]]) -> Block:
    """Return things with descriptions: of each its head in Markdown and for HTML."""
    lines, html = [], ""
    for head, term, description in items:
        more = f":\n\n{textwrap.indent(description, '  ')}" if description else ""
        lines.append(folded(f"- {head}{more}\n"))
        html += element("dt", inline(term)) + element("dd", prose(description))
    return Block("\n".join(lines), element("dl", html, class_="named") if html else "")


def diff(lines: Iterable[str]) -> Block:
    """Return lines that begin with a sign of what became of them."""
    lines = list(lines)
    parts = [
        part
        for line in lines
        for part in textwrap.wrap(
            line[1:], 78, initial_indent=line[0], subsequent_indent=f"{line[0]}  "
        )
    ]
    return Block(fence("\n".join(parts), "diff"), marked(lines))


def details(name: str, gist: str, blocks: Iterable[Block]) -> Block:
    """Return blocks that a reader opens; `gist` is beside their name if it is short."""
    within, anchor = joined(blocks), escape(name)
    summary = f"<summary>\n<code>{anchor}</code>\n</summary>\n"
    beside = f' <span class="muted">{escape(gist)}</span>' * (len(gist) <= _GIST)
    heading = f"<summary><h3>{anchor.replace('_', '_<wbr>')}</h3>{beside}</summary>"
    return Block(
        f'<details id="{anchor}">\n{summary}\n{within.markdown}\n</details>\n',
        f'<details id="{anchor}">\n{heading}<div>\n{within.html}</div></details>',
    )


def columns(parts: Iterable[Iterable[Block]]) -> Block:
    """Return blocks beside each other, where there is room."""
    several = [joined(blocks) for blocks in parts]
    html = "".join(element("div", each.html) for each in several)
    return Block(joined(several).markdown, element("div", html, class_="operands"))


def marked(lines: Iterable[str]) -> str:
    """Return lines of a difference, each marked by sign, element and colour."""
    items = []
    for i, line in enumerate(lines):
        header = i < 2 and line.startswith(("--- ", "+++ "))
        tag, colour = MARKS.get(" " if header else line[0], MARKS[" "])
        items.append(element(tag, escape(line), class_=colour))
    return element("pre", "".join(items), class_="diff")


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


def prose(markdown: str) -> str:
    """Return Markdown as HTML."""
    return str(_READER.render(markdown))


def inline(markdown: str) -> str:
    """Return Markdown of less than a paragraph as HTML."""
    return str(_READER.renderInline(markdown))
