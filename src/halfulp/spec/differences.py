"""What changed between two versions of an operator, and whether that breaks models.

May import schemas only.

A change is *breaking* if a node that is valid at the old version may be invalid, or
mean something else, when only the opset around it is replaced. The data of the two
schemas decide, nothing else. Breaking are:

- an input or output that is removed, moved to another position, or renamed (by the
  data alone, a parameter of another name is another parameter);
- a new input or output that a node must give, one that is no longer optional, no
  longer variadic, or needs more values, and any other reason for which a node needs
  more of them; a variadic one whose values must now have one type;
- a type that an input or output no longer allows; two inputs or outputs that could
  have different types and must now have the same;
- an attribute that is removed, is new and required, becomes required, or has another
  type or another default (also where there was none, or is none any more);
- an attribute that becomes an input, or the reverse: both halves of the move;
- deprecation, because a model check refuses the operator then.

Not breaking are: more types; a new optional input or output after the others; what
becomes optional or variadic; a new attribute that may be absent, on the understanding
that its absence means what was before; names of type constraints; another function
body, or one where there was none, or none any more, since a body says again what the
operator means; support level, shape inference, and every text. A new meaning that
ONNX tells in words only is therefore not seen here: read the documentation's lines.
"""

from __future__ import annotations

import difflib
import itertools
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from halfulp.spec.schemas import Attribute, Parameter, Schema, schema

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes
    ----------
    part : {"input", "output", "attribute", "type constraint", "operator"}
    name : str
        Of the input, output, attribute or constraint; of the property, if `part`
        is the operator.
    kind : {"added", "removed", "changed"}
    breaking : bool
    position : int or None
        Of an input or output: where the newer of the versions that have it has it.
    details : tuple of str
        What was added, removed or changed.
    description : tuple of str
        The lines of its description that differ, marked with ``-`` or ``+``.
    """

    part: str
    name: str
    kind: Literal["added", "removed", "changed"]
    breaking: bool
    position: int | None
    details: tuple[str, ...]
    description: tuple[str, ...] = ()

    @property
    def sign(self) -> str:
        """``+`` if added, ``-`` if removed, else a space."""
        return {"added": "+", "removed": "-"}.get(self.kind, " ")

    def __str__(self) -> str:
        details = "; ".join(self.details) or "description"
        return f"{self.kind} {self.name!r}: {details}"


@dataclass(frozen=True, slots=True)
class TextDifference:
    """The difference of two texts, by lines.

    Attributes
    ----------
    similarity : float
        From 0 to 1: twice the lines in common over the lines of both.
    added, removed : tuple of str
    unified : tuple of str
        The unified diff, empty if the texts are equal.
    """

    similarity: float
    added: tuple[str, ...]
    removed: tuple[str, ...]
    unified: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one version of an operator to another.

    ``str`` gives a text of at most 80 columns, in which what is added and removed, and
    such lines of texts, start with ``+`` and ``-``; ``dataclasses.asdict`` gives what
    JSON takes.

    Attributes
    ----------
    name, domain : str
    old, new : int
        The versions.
    breaking : bool
        See the head of this module.
    reasons : tuple of str
        Why it is breaking; empty if it is not.
    inputs, outputs, attributes, type_constraints, operator : tuple of Change
    documentation : TextDifference
    """

    name: str
    domain: str
    old: int
    new: int
    breaking: bool
    reasons: tuple[str, ...]
    inputs: tuple[Change, ...]
    outputs: tuple[Change, ...]
    attributes: tuple[Change, ...]
    type_constraints: tuple[Change, ...]
    operator: tuple[Change, ...]
    documentation: TextDifference

    @property
    def sections(self) -> dict[str, tuple[Change, ...]]:
        """The changes under the titles of their parts, without empty parts."""
        sections = {
            "Inputs": self.inputs,
            "Outputs": self.outputs,
            "Attributes": self.attributes,
            "Type constraints": self.type_constraints,
            "Operator": self.operator,
        }
        return {title: changes for title, changes in sections.items() if changes}

    @property
    def summary(self) -> str:
        """One line of Markdown: what changed besides texts."""
        parts = []
        for change in itertools.chain(*self.sections.values()):
            what = f"{change.part} `{change.name}`".removeprefix("operator ")
            if change.kind != "changed":
                parts.append(f"{what} {change.kind}")
            elif change.details:
                parts.append(f"{what}: {'; '.join(change.details)}")
        breaking = "**breaking**: " if self.breaking else ""
        return breaking + ("; ".join(parts) or "only texts")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        domain = self.domain or "ai.onnx"
        yield f"{self.name} (domain {domain}), version {self.old} -> {self.new}"
        yield f"breaking: {'yes' if self.breaking else 'no'}"
        if self.reasons:
            yield "Breaking reasons:"
        for reason in self.reasons:
            yield from _wrap(reason, "  ")
        for title, changes in self.sections.items():
            yield f"{title}:"
            for change in changes:
                mark = "[BREAKING] " if change.breaking else ""
                yield from _wrap(f"{mark}{change}", f"{change.sign} ")
                for line in change.description:
                    yield from _wrap(line[1:], line[0])
        text = self.documentation
        yield "Documentation:"
        yield (
            f"  line similarity: {text.similarity:.2f} "
            f"(+{len(text.added)}/-{len(text.removed)} lines)"
        )
        for line in text.unified:
            yield from _wrap(line[1:], line[0])


def _wrap(text: str, start: str) -> list[str]:
    """Return `text` in lines of at most 80 columns that all keep the mark in `start`."""
    lines = textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=start + "  ",
        break_on_hyphens=False,
    )
    return lines or [start.rstrip()]


def diff(op: str, old: int, new: int, domain: str = "") -> Difference:
    """Return what changed from one version of an operator to another.

    Parameters
    ----------
    op, domain : str
        As in `halfulp.spec.versions`.
    old, new : int
        Versions, or opsets, which mean the newest version that they allow. `old` may
        be the later one: then this tells what a step back changes.

    Raises
    ------
    ArgumentError
        If the operator is unknown, or an opset has none of its versions.

    Examples
    --------
    >>> change = diff("ReduceSumSquare", 13, 18)
    >>> change.breaking, change.reasons[1]
    (True, "attribute 'axes' (removed): type=INTS; required=no; now an input")
    >>> print(change.attributes[1])
    added 'noop_with_empty_axes': type=INT; required=no; default=0
    """
    return compare(schema(op, old, domain), schema(op, new, domain))


def compare(old: Schema, new: Schema) -> Difference:
    """Return what changed from one schema to another of the same operator."""
    inputs = tuple(_parameters("input", old, new))
    outputs = tuple(_parameters("output", old, new))
    attributes = tuple(_attributes(old, new))
    constraints = tuple(_constraints(old, new))
    operator = tuple(_operator(old, new))
    reasons = tuple(
        f"{change.part} {change.name!r} ({change.kind}): {'; '.join(change.details)}"
        for change in (*inputs, *outputs, *attributes, *constraints, *operator)
        if change.breaking
    )
    return Difference(
        name=new.name,
        domain=new.domain,
        old=old.since_version,
        new=new.since_version,
        breaking=bool(reasons),
        reasons=reasons,
        inputs=inputs,
        outputs=outputs,
        attributes=attributes,
        type_constraints=constraints,
        operator=operator,
        documentation=_texts(old, new),
    )


def _parameters(part: str, old: Schema, new: Schema) -> Iterator[Change]:
    before = old.inputs if part == "input" else old.outputs
    after = new.inputs if part == "input" else new.outputs
    names = _pairs(before, after)
    ties = _ties(old, new)
    positions = {p.name: i for i, p in enumerate(before)}
    for i, p in enumerate(after):
        if p.name not in names:
            moved = part == "input" and p.name in {a.name for a in old.attributes}
            details = [f"at position {i}", f"option={p.option}", f"type={p.type}"]
            details += ["was an attribute"] * moved
            breaking = moved or p.min_count > 0
            yield Change(part, p.name, "added", breaking, i, tuple(details))
            continue
        q = before[positions[names[p.name]]]
        breaks, details = _parameter(q, p)
        if q.name != p.name:
            breaks, details = True, [f"renamed from {q.name!r}", *details]
        if positions[q.name] != i:
            details.insert(0, f"moved from position {positions[q.name]} to {i}")
            breaks = True
        if (part, p.name) in ties:
            tied = " and ".join(ties[part, p.name])
            details.append(f"must now have the type of {tied}")
            breaks = True
        text = _marked(q.description, p.description)
        if details or text:
            yield Change(part, p.name, "changed", breaks, i, tuple(details), text)
    for p in before:
        if p.name not in names.values():
            i = positions[p.name]
            details = [f"at position {i}", f"option={p.option}", f"type={p.type}"]
            moved = part == "input" and p.name in {a.name for a in new.attributes}
            details += ["now an attribute"] * moved
            yield Change(part, p.name, "removed", True, i, tuple(details))


def _pairs(old: Sequence[Parameter], new: Sequence[Parameter]) -> dict[str, str]:
    """Return the old name of every new parameter that was there before.

    One that has a new name is the one that had the same position, if the names of
    both are only in one version.
    """
    before, after = {p.name for p in old}, {p.name for p in new}
    pairs = {name: name for name in after & before}
    for q, p in zip(old, new, strict=False):
        if q.name not in after and p.name not in before:
            pairs[p.name] = q.name
    return pairs


def _ties(old: Schema, new: Schema) -> dict[tuple[str, str], list[str]]:
    """Return, by parameter, those before it that must now have the same type.

    Only what could differ before counts, and only where there was a choice of types.
    An input and an output may have the same name: hence part and name.
    """
    ties: dict[tuple[str, str], list[str]] = {}
    kept: list[tuple[Parameter, Parameter]] = []
    for part, before, after in (
        ("input", old.inputs, new.inputs),
        ("output", old.outputs, new.outputs),
    ):
        names = _pairs(before, after)
        was = {p.name: p for p in before}
        for p in after:
            if p.name not in names:
                continue
            q = was[names[p.name]]
            for other, other_was in kept:
                free = q.type != other_was.type and len({*q.types, *other_was.types}) > 1
                if free and p.type == other.type:
                    ties.setdefault((part, p.name), []).append(repr(other.name))
            kept.append((p, q))
    return ties


def _parameter(old: Parameter, new: Parameter) -> tuple[bool, list[str]]:
    breaks, details = False, []
    if old.option != new.option:
        details.append(f"option: {old.option} -> {new.option}")
        breaks |= old.option == "variadic"
    if old.min_count != new.min_count:
        details.append(f"values at least: {old.min_count} -> {new.min_count}")
        breaks |= old.min_count < new.min_count
    if old.homogeneous != new.homogeneous:
        details.append(f"homogeneous: {_yes(old.homogeneous)} -> {_yes(new.homogeneous)}")
        breaks |= old.option == "variadic" and new.homogeneous
    if old.type != new.type:
        details.append(f"type: {old.type} -> {new.type}")
        details += _sets(old.types, new.types)
        breaks |= not {*old.types} <= {*new.types}
    return breaks, details


def _attributes(old: Schema, new: Schema) -> Iterator[Change]:
    before = {a.name: a for a in old.attributes}
    after = {a.name: a for a in new.attributes}
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            moved = name in {p.name for p in old.inputs}
            details = _facts(after[name]) + ["was an input"] * moved
            breaking = moved or after[name].required
            yield Change("attribute", name, "added", breaking, None, tuple(details))
        elif name not in after:
            moved = name in {p.name for p in new.inputs}
            details = _facts(before[name]) + ["now an input"] * moved
            yield Change("attribute", name, "removed", True, None, tuple(details))
        else:
            a, b = before[name], after[name]
            changes = {
                "type": (a.type, b.type),
                "required": (_yes(a.required), _yes(b.required)),
                "default": (_default(a), _default(b)),
            }
            details = [f"{k}: {x} -> {y}" for k, (x, y) in changes.items() if x != y]
            breaks = a.type != b.type or a.default != b.default
            breaks |= b.required and not a.required
            text = _marked(a.description, b.description)
            if details or text:
                yield Change(
                    "attribute", name, "changed", breaks, None, tuple(details), text
                )


def _facts(a: Attribute) -> list[str]:
    default = [] if a.default is None else [f"default={_default(a)}"]
    return [f"type={a.type}", f"required={_yes(a.required)}", *default]


def _default(a: Attribute) -> str:
    return "none" if a.default is None else json.dumps(a.default)


def _constraints(old: Schema, new: Schema) -> Iterator[Change]:
    before = {t.name: t for t in old.type_constraints}
    after = {t.name: t for t in new.type_constraints}
    for name in sorted(before.keys() | after.keys()):
        details: list[str]
        if name not in before:
            details = _sets((), after[name].types)
            yield Change("type constraint", name, "added", False, None, tuple(details))
        elif name not in after:
            details = _sets(before[name].types, ())
            yield Change("type constraint", name, "removed", False, None, tuple(details))
        else:
            a, b = before[name], after[name]
            details = _sets(a.types, b.types)
            # A parameter that has another constraint now tells of it itself.
            breaks = not {*a.types} <= {*b.types} and any(
                {p.name for p in x if p.type == name}
                & {p.name for p in y if p.type == name}
                for x, y in ((old.inputs, new.inputs), (old.outputs, new.outputs))
            )
            text = _marked(a.description, b.description)
            if details or text:
                yield Change(
                    "type constraint", name, "changed", breaks, None, tuple(details), text
                )


def _operator(old: Schema, new: Schema) -> Iterator[Change]:
    properties = {
        "deprecated": (_yes(old.deprecated), _yes(new.deprecated)),
        "support level": (old.support_level, new.support_level),
        "shape inference": (_yes(old.shape_inference), _yes(new.shape_inference)),
        "function": (_yes(old.function), _yes(new.function)),
    }
    for name, (a, b) in properties.items():
        if a != b:
            breaks = name == "deprecated" and new.deprecated
            yield Change("operator", name, "changed", breaks, None, (f"{a} -> {b}",))
    counts = {
        "inputs at least": (old.min_inputs, new.min_inputs),
        "outputs at least": (old.min_outputs, new.min_outputs),
    }
    for name, (least, now) in counts.items():
        if least < now:
            details = (f"{least} -> {now}",)
            yield Change("operator", name, "changed", True, None, details)


def _sets(old: Iterable[str], new: Iterable[str]) -> list[str]:
    before, after = {*old}, {*new}
    added, removed = sorted(after - before), sorted(before - after)
    details = [f"types added: {', '.join(added)}"] if added else []
    return details + ([f"types removed: {', '.join(removed)}"] if removed else [])


def _marked(old: str, new: str) -> tuple[str, ...]:
    lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")]
    return tuple(line for line in lines[2:] if line[0] in "-+")


def _texts(old: Schema, new: Schema) -> TextDifference:
    before, after = old.documentation.splitlines(), new.documentation.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    a, b = (f"{s.name}-{s.since_version}" for s in (old, new))
    marked = _marked(old.documentation, new.documentation)
    return TextDifference(
        similarity=matcher.ratio(),
        added=tuple(line[1:] for line in marked if line[0] == "+"),
        removed=tuple(line[1:] for line in marked if line[0] == "-"),
        unified=tuple(difflib.unified_diff(before, after, a, b, lineterm="")),
    )


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
