"""Runs as XML in JUnit's layout, which services for continuous integration read.

May import results, verdicts and summary only.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from halfulp.conformance.report.summary import told
from halfulp.conformance.results import Result, Run
from halfulp.conformance.verdicts import CRASHED, EXACT, HUNG


def junit(runs: Sequence[Run]) -> bytes:
    """Return runs as XML: a suite for each backend."""
    root = ElementTree.Element("testsuites")
    for run in runs:
        words = Counter(result.verdict.word for result in run.results)
        ended = words[CRASHED] + words[HUNG]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"halfulp verify {run.backend}",
            tests=str(len(run.results)),
            failures=str(len(run.results) - words[EXACT] - ended),
            errors=str(ended),
            skipped="0",
        )
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in run.versions.items():
            ElementTree.SubElement(properties, "property", name=name, value=value)
        for result in run.results:
            _add_junit_case(suite, run.backend, result)
    ElementTree.indent(root)
    text: str = ElementTree.tostring(root, encoding="unicode")
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + text.encode() + b"\n"


def _add_junit_case(suite: ElementTree.Element, backend: str, result: Result) -> None:
    case = result.case
    class_name = f"{case.type}.{case.class_name.replace(' ', '_')}"
    element = ElementTree.SubElement(
        suite, "testcase", classname=class_name, name=case.name
    )
    word = result.verdict.word
    if word == EXACT:
        return
    tag = "error" if word in (CRASHED, HUNG) else "failure"
    failure = ElementTree.SubElement(element, tag, type=word, message=told(result))
    again = f"halfulp verify {shlex.quote(backend)} --case {case.name}"
    failure.text = "\n".join([case.node, case.why, result.known or "", again])
