"""What every HTML page of halfulp shares: its skeleton, colours, elements and tables.

Imports nothing of halfulp.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape as escape

# Text on every ground has a contrast of at least 4.5 in both schemes (WCAG AA).
LIGHT = {
    "ink": "#1c1e21",
    "muted": "#5b626b",
    "paper": "#ffffff",
    "panel": "#f5f6f8",
    "line": "#d9dde2",
    "link": "#0b57b0",
    "good": "#116329",
    "good-ground": "#dff5e3",
    "bad": "#a11322",
    "bad-ground": "#fde7e9",
    "warn": "#7a4b00",
    "warn-ground": "#fdf0d5",
}
DARK = {
    "ink": "#e3e6ea",
    "muted": "#a0a8b2",
    "paper": "#14171a",
    "panel": "#1e2226",
    "line": "#363c43",
    "link": "#82b6ff",
    "good": "#7fd99a",
    "good-ground": "#12301c",
    "bad": "#ff9aa2",
    "bad-ground": "#3d171b",
    "warn": "#f0c36d",
    "warn-ground": "#382a0c",
}


def variables(scheme: dict[str, str]) -> str:
    """Return the colours of a scheme as CSS has them."""
    return "".join(f" --{name}: {value};" for name, value in scheme.items())


_COLOURS = f"""\
:root {{
  color-scheme: light dark;
 {variables(LIGHT)}
  --mono: ui-monospace, "SF Mono", SFMono-Regular, Menlo, Consolas,
    "DejaVu Sans Mono", monospace;
}}
@media (prefers-color-scheme: dark) {{
  :root {{{variables(DARK)} }}
}}
"""

_STYLE = """\
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 2.5rem) 4rem; max-width: 74rem;
  background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
    "Liberation Sans", sans-serif;
  overflow-wrap: break-word;
}
h1, h2, h3, h4, h5 { line-height: 1.25; margin: 2em 0 .6em; }
h1 { font-size: 2rem; margin-top: 0; }
h2 { font-size: 1.45rem; border-bottom: 1px solid var(--line); padding-bottom: .25em; }
h3 { font-size: 1.12rem; }
h4, h5 { font-size: 1rem; margin-top: 1.5em; }
p, ul, ol, dl, table, pre { margin: .6em 0; }
ul, ol { padding-left: 1.4em; }
a { color: var(--link); text-underline-offset: .15em; }
:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px;
}
code, pre, kbd { font-family: var(--mono); font-size: .875em; }
:not(pre) > code { background: var(--panel); padding: .1em .3em; border-radius: .25em; }
pre {
  background: var(--panel); border: 1px solid var(--line); border-radius: .4em;
  padding: .7em .9em; overflow-x: auto; line-height: 1.45;
}
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding-bottom: .3em; }
th, td {
  border-bottom: 1px solid var(--line); padding: .35em 1em .35em 0;
  text-align: left; vertical-align: top;
}
th { font-weight: 600; }
.number { text-align: right; }
.muted { color: var(--muted); }
.badge {
  display: inline-block; padding: 0 .5em; border-radius: 1em; font-size: .85em;
  font-weight: 600; white-space: nowrap; background: var(--panel); color: var(--muted);
}
.good { background: var(--good-ground); color: var(--good); }
.bad { background: var(--bad-ground); color: var(--bad); }
.warn { background: var(--warn-ground); color: var(--warn); }
summary { cursor: pointer; font-weight: 600; padding: .3em 0; }
.skip { position: absolute; left: -100vw; }
.skip:focus {
  left: 1rem; top: .5rem; z-index: 1; background: var(--paper); padding: .4em .8em;
}
@media print {
  :root {
    color-scheme: light;
    --ink: #000; --muted: #444; --paper: #fff; --panel: #fff; --line: #bbb;
    --link: #000; --good: #0b4a1e; --good-ground: #e8f7ec;
    --bad: #7d0f1a; --bad-ground: #fdeeef; --warn: #5c3900; --warn-ground: #fdf5e3;
  }
  body { padding: 0; max-width: none; font-size: 10pt; }
  pre { white-space: pre-wrap; break-inside: avoid; }
  h1, h2, h3, h4, h5, summary, caption { break-after: avoid; }
  tr, li { break-inside: avoid; }
  .skip { display: none; }
}
"""


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """Return one self-contained HTML document.

    It asks nothing of the network: a content security policy in it forbids
    every request, and allows only its own style, its own script and pictures
    held in the document itself.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML, with the page's own landmarks. One of them is
        ``<main id="main" tabindex="-1">``, to which the skip link leads.
    style, script : str
        CSS after the shared one, and JavaScript after the body. The shared
        CSS has colours (``var(--ink)``, ``--muted``, ``--paper``, ``--panel``,
        ``--line``, ``--link``, and the pairs ``--good``, ``--bad`` and
        ``--warn``, each with a ``-ground``) that fit light, dark and print, and
        the classes ``scroll`` (around a wide table), ``number``, ``muted``,
        ``badge``, ``good``, ``bad`` and ``warn``.

    Returns
    -------
    str

    Examples
    --------
    >>> page = document("a < b", '<main id="main" tabindex="-1"><h1>Hi</h1></main>')
    >>> "<title>a &lt; b</title>" in page
    True
    """
    scripts = "'unsafe-inline'" if script else "'none'"
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_COLOURS}{_STYLE}{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
{body.strip()}
{f"<script>{script}</script>" if script else ""}
</body>
</html>
"""


def element(tag: str, content: str | None = None, /, **attributes: object) -> str:
    """Return an element of HTML or SVG.

    Parameters
    ----------
    tag : str
    content : str, optional
        HTML, too. Default: the element has no end tag of its own.
    **attributes
        In their order; ``_`` at the end of a name is left out, other ones are hyphens.
        Those that are "" are left out, and numbers are as `number` writes them.

    Examples
    --------
    >>> element("text", escape("a < b"), class_="small", x=1.50, id="")
    '<text class="small" x="1.5">a &lt; b</text>'
    """
    texts = {
        name.rstrip("_").replace("_", "-"): number(value)
        if isinstance(value, float)
        else str(value)
        for name, value in attributes.items()
    }
    start = tag + "".join(f' {k}="{escape(v)}"' for k, v in texts.items() if v)
    return f"<{start}/>" if content is None else f"<{start}>{content}</{tag}>"


def number(value: float) -> str:
    """Return a number with at most two places, of which none is a zero in vain."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def head(content: str, kind: str = "", scope: str = "col") -> str:
    """Return a cell that heads a column, or a row."""
    return element("th", content, scope=scope, class_=kind)


def table(
    heads: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    caption: str = "",
    kind: str = "",
) -> str:
    """Return a table, which scrolls where it is too wide.

    Parameters
    ----------
    heads : iterable of str
        Cells, as `head` and `element` return them.
    rows : iterable of iterable of str
        Such cells.
    caption : str, optional
        HTML.
    kind : str, optional
        A class.
    """
    lines = ["".join(row) for row in (heads, *rows)]
    titled = element("caption", caption) if caption else ""
    first, *others = (f"<tr>{line}</tr>\n" for line in lines)
    content = f"{titled}<thead>\n{first}</thead><tbody>\n{''.join(others)}</tbody>"
    return element("div", element("table", content, class_=kind), class_="scroll")
