"""The page of an operator: its data, as JSON, as Markdown, as HTML.

May import errors, report, json_values, spec and onnx.
"""

from __future__ import annotations

import dataclasses
import json

from halfulp.page.content import hypertext, markdown
from halfulp.page.data import build


def render(op: str, form: str, domain: str = "") -> str:
    """Return the page of an operator in a format: ``md``, ``html`` or ``json``.

    Raises
    ------
    ArgumentError
        If the installed onnx has no such operator.
    """
    page = build(op, domain)
    if form == "json":
        data = dataclasses.asdict(page)
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return hypertext(page) if form == "html" else markdown(page)
