"""Where public documentation of an operator has other words than the installed onnx.

May import records and spec. The words are those of records/documented_texts.json, which
were made from releases of onnx (Apache-2.0) that nobody has at hand any more.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from halfulp.records import load
from halfulp.spec.differences import TextDifference, compare
from halfulp.spec.schemas import Attribute, Parameter, Schema, TypeConstraint


@dataclass(frozen=True, slots=True)
class OtherText:
    """A text that differs.

    Attributes
    ----------
    version : int
    part : str
        ``documentation``, or a part and its name such as ``input axes``.
    lines : tuple of str
        By sentences: those of the document marked with ``-``, those of the installed
        onnx with ``+``, those of both with a space.
    """

    version: int
    part: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherStep:
    """A step between two versions whose documentation changed otherwise there.

    Attributes
    ----------
    old, new : int
    there, here : TextDifference
        In the document, and in the installed onnx.
    """

    old: int
    new: int
    there: TextDifference
    here: TextDifference

    @property
    def text(self) -> str:
        """One sentence about it."""
        there, here = self.there, self.here
        lines = f"+{len(there.added)}/-{len(there.removed)} lines"
        here_text = f"line similarity {here.similarity:.2f}"
        if not (here.added or here.removed):
            here_text = "both versions have one text"
        return (
            f"In public documentation the text changed from {self.old} to {self.new} "
            f"(line similarity {there.similarity:.2f}, {lines}); in the installed onnx "
            f"{here_text}."
        )


@dataclass(frozen=True, slots=True)
class Document:
    """A public document, compared with the installed onnx.

    Attributes
    ----------
    title : str
    texts : int
        How many it has.
    differences : tuple of OtherText
        Those that differ in more than white space and marks of code.
    steps : tuple of OtherStep
    """

    title: str
    texts: int
    differences: tuple[OtherText, ...]
    steps: tuple[OtherStep, ...]

    @property
    def summary(self) -> str:
        """How many texts differ, in words."""
        if not self.differences:
            return f"all of its {self.texts} texts are those of the installed onnx."
        return (
            f"{len(self.differences)} of its {self.texts} texts are not those of the "
            "installed onnx."
        )


def documents(versions: Sequence[Schema]) -> tuple[Document, ...]:
    """Return the public documents on an operator, compared with its schemas."""
    by_version = {version.since_version: version for version in versions}
    found = []
    for entry in load("documented_texts"):
        if (entry["operator"], "") != (versions[0].name, versions[0].domain):
            continue
        texts = {(t["version"], t["part"]): t["text"] for t in entry["texts"]}
        found.append(
            Document(
                entry["title"],
                len(texts),
                tuple(_differences(texts, by_version)),
                tuple(_steps(texts, by_version)),
            )
        )
    return tuple(found)


def _differences(
    texts: Mapping[tuple[int, str], str], versions: Mapping[int, Schema]
) -> Iterator[OtherText]:
    for (version, part), there in texts.items():
        here = _installed(versions[version], part) if version in versions else ""
        if _plain(there) != _plain(here):
            before, after = _sentences(there), _sentences(here)
            most = len(before) + len(after)
            _, _, _, *lines = difflib.unified_diff(before, after, n=most, lineterm="")
            yield OtherText(version, part, tuple(lines))


def _steps(
    texts: Mapping[tuple[int, str], str], versions: Mapping[int, Schema]
) -> Iterator[OtherStep]:
    summaries = {v: text for (v, part), text in texts.items() if part == "documentation"}
    for new in summaries:
        for old in summaries:
            if old >= new or not {old, new} <= versions.keys():
                continue
            there, here = (
                compare(*pair).documentation
                for pair in (
                    [
                        dataclasses.replace(versions[v], documentation=summaries[v])
                        for v in (old, new)
                    ],
                    [versions[old], versions[new]],
                )
            )
            if bool(there.unified) != bool(here.unified):
                yield OtherStep(old, new, there, here)


def _installed(version: Schema, part: str) -> str:
    if part == "documentation":
        return version.documentation
    kind, _, name = part.rpartition(" ")
    parts: dict[str, Sequence[Parameter | Attribute | TypeConstraint]] = {
        "input": version.inputs,
        "output": version.outputs,
        "attribute": version.attributes,
        "type constraint": version.type_constraints,
    }
    named = {one.name: one.description for one in parts[kind]}
    return named.get(name, "")


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.]) (?=[A-Z])", _plain(text))


def _plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())
