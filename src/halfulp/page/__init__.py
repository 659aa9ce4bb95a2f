"""The page of an operator: its data, as JSON, as Markdown, as HTML.

May import errors, report, json_values, spec and onnx.
"""

from __future__ import annotations

import dataclasses
import json

from halfulp.page.content import hypertext, markdown
from halfulp.page.data import address, build


def render(op: str, form: str, domain: str = "", *, beside: bool = False) -> str:
    """Return the page of an operator in a format: ``md``, ``html`` or ``json``.

    Its family's pages are files beside it, of their names, if `beside` is true, else
    those of ONNX's own documentation.

    Raises
    ------
    ArgumentError
        If the installed onnx has no such operator.
    """
    page = build(op, domain)
    if form == "json":
        data = dataclasses.asdict(page)
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    where = (lambda name: f"{name}.{form}") if beside else address
    return hypertext(page, where) if form == "html" else markdown(page, where)
