"""The data of an operator's page, of which every format is made.

May import reductions, spec, the version of halfulp, and documented, examples and family
of this package.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass

import halfulp
from halfulp.page.documented import Document, OtherStep, documents
from halfulp.page.examples import Example, examples
from halfulp.page.family import Relative, family
from halfulp.reductions import Reduction, reduction_named
from halfulp.spec.decisions import Decision, decisions
from halfulp.spec.differences import Difference, compare
from halfulp.spec.schemas import Parameter, Schema, schema, versions

BREAKING = (
    "A step is breaking if a node that is valid at the old version may be invalid, or "
    "mean something else, when only its opset is raised. What the schemas say decides; "
    "a new meaning told in words alone is seen in the documentation's lines only."
)

DOCUMENTED = "Where public documentation differs"

DOCS = "https://github.com/onnx/onnx/blob/main/docs/"


def address(name: str) -> str:
    """Where ONNX's own documentation has an operator of its main domain."""
    return f"{DOCS}Operators.md#{name}"


@dataclass(frozen=True, slots=True)
class Page:
    """An operator's page; ``dataclasses.asdict`` makes it JSON's.

    Attributes
    ----------
    name, domain : str
    onnx, halfulp : str
        The versions of the packages whose words and results these are.
    versions : tuple of Schema
        Newest first.
    examples : tuple of Example
    differences : tuple of Difference
        Of each pair of versions, the later ones first.
    decisions : tuple of Decision
        What halfulp does where ONNX is silent, on an operator that it has.
    documents : tuple of Document
        Public documentation of such an operator, compared with `versions`.
    family : tuple of Relative
        Of such an operator: all that reduce, this one too.
    """

    name: str
    domain: str
    onnx: str
    halfulp: str
    versions: tuple[Schema, ...]
    examples: tuple[Example, ...]
    differences: tuple[Difference, ...]
    decisions: tuple[Decision, ...]
    documents: tuple[Document, ...]
    family: tuple[Relative, ...]

    @property
    def url(self) -> str:
        """Where ONNX's own documentation has the newest version."""
        if not self.domain:
            return address(self.name)
        file = "Operators-ml.md" if self.domain == "ai.onnx.ml" else "Operators.md"
        return f"{DOCS}{file}#{self.domain}.{self.name}"

    @property
    def reduction(self) -> Reduction | None:
        """The operator's row of the table, if it has one."""
        return reduction_named(self.name, self.domain)

    @property
    def computed(self) -> str:
        """Where the outputs of the examples come from."""
        if any(example.computed_by == "halfulp" for example in self.examples):
            return (
                f"Outputs computed by halfulp {self.halfulp} when this page was made: "
                "the exact results, rounded once. Where the outputs recorded with ONNX's "
                "node tests, which round on the way, differ, both are shown."
            )
        return f"ONNX's node tests, with the outputs recorded there (onnx {self.onnx})."

    @property
    def type_matrices(self) -> dict[str, list[tuple[str, list[bool]]]]:
        """By type constraint: each type, and in which versions it is, oldest first."""
        oldest_first = self.versions[::-1]
        names = dict.fromkeys(
            t.name for version in self.versions for t in version.type_constraints
        )
        found = {}
        for name in names:
            sets = [
                {x for t in version.type_constraints if t.name == name for x in t.types}
                for version in oldest_first
            ]
            every = sorted(set().union(*sets))
            found[name] = [(x, [x in types for types in sets]) for x in every]
        return found

    def steps(self, difference: Difference) -> list[OtherStep]:
        """What public documents say otherwise about a step between versions."""
        pair = (difference.old, difference.new)
        return [s for one in self.documents for s in one.steps if (s.old, s.new) == pair]

    @property
    def documented(self) -> str:
        """What the section on public documentation shows."""
        return (
            "Words of public documents on this operator (marked -), which were made from "
            f"other releases, beside those of the installed onnx {self.onnx} (marked +)."
        )

    @property
    def documented_otherwise(self) -> set[int]:
        """The versions for which a public document has other words."""
        return {d.version for one in self.documents for d in one.differences}

    @property
    def overview(self) -> list[tuple[Schema, str, Difference | None]]:
        """Each version, the opsets it serves, and its difference to the one before."""
        by_pair = {(d.old, d.new): d for d in self.differences}
        rows = []
        all_since = [version.since_version for version in self.versions]
        for version, later, before in zip(
            self.versions, [None, *all_since], [*all_since[1:], None], strict=False
        ):
            since = version.since_version
            if later is None:
                opsets = f"{since} and later"
            else:
                opsets = f"{since} to {later - 1}" if later - since > 1 else f"{since}"
            rows.append((version, opsets, by_pair.get((before or 0, since))))
        return rows


def build(op: str, domain: str = "") -> Page:
    """Return the data of an operator's page.

    Parameters
    ----------
    op, domain : str
        As in `halfulp.spec.versions`.

    Raises
    ------
    ArgumentError
        If the installed onnx has no such operator.
    """
    ours = reduction_named(op, domain)
    newest_first = [schema(op, v, domain) for v in reversed(versions(op, domain))]
    domain = newest_first[0].domain
    return Page(
        name=op,
        domain=domain,
        onnx=importlib.metadata.version("onnx"),
        halfulp=halfulp.__version__,
        versions=tuple(newest_first),
        examples=examples(op, domain),
        differences=tuple(
            compare(old, new)
            for i, new in enumerate(newest_first)
            for old in newest_first[i + 1 :]
        ),
        decisions=() if ours is None else decisions(ours),
        documents=documents(newest_first),
        family=() if ours is None else family(),
    )


def mark(there: bool) -> str:
    """Whether something is there, as a sign."""
    return "\N{CHECK MARK}" if there else "\N{EN DASH}"


def facts(version: Schema) -> dict[str, str]:
    """Return what a page says first of a version, besides its name."""
    return {
        "domain": version.domain or "ai.onnx",
        "since_version": str(version.since_version),
        "function": str(version.function),
        "support_level": version.support_level,
        "shape inference": str(version.shape_inference),
        **({"deprecated": "True"} if version.deprecated else {}),
    }


def count(least: int, most: int | None, word: str) -> str:
    """Say how many inputs or outputs a node has."""
    if most == 0:
        return f"No {word}s."
    if most is None:
        return f"At least {least} {word}{'s' * (least != 1)}."
    if least == most:
        return f"{least} {word}{'s' * (least != 1)}."
    return f"Between {least} and {most} {word}s."


def marks(parameter: Parameter) -> str:
    """Say what kind of input or output it is."""
    if parameter.option != "variadic":
        return parameter.option
    one_type = "of one type" if parameter.homogeneous else "each of its own type"
    return f"variadic, {one_type}, at least {parameter.min_count}"
