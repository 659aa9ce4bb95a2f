"""What a run has summed, of all tensors together or of each.

May import element_types, errors, exact_sums, reductions and files' stored_types only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from halfulp.element_types import ELEMENT_TYPES
from halfulp.errors import ArgumentError
from halfulp.exact_sums import ExactSum
from halfulp.files.stored_types import STORED_TYPES
from halfulp.reductions import Term

KINDS = {t.name: t.kind for t in ELEMENT_TYPES}
_COUNTS = ("files", "tensors", "skipped")
# Of each of them: as many as a state file has room for.
MOST_COUNTED = 2**63 - 1


class Totals:
    """The sums of a run: of all tensors together, or of each by its name.

    Parameters
    ----------
    per_tensor : bool
    axis : tuple of int, optional
        Along which each tensor is summed; None for all axes.
    term : {"square", "magnitude", "value"}
        What an element adds.

    Attributes
    ----------
    exact_sums : dict
        From name ("" for all together) and element type to ExactSum.
    stored : dict
        From name and element type, as in `exact_sums`, to the types in the files,
        which may be smaller; state files do not have them.
    files, tensors, skipped : int
        How many there were.
    """

    def __init__(
        self,
        per_tensor: bool,
        axis: tuple[int, ...] | None = None,
        term: Term = "square",
    ) -> None:
        self.per_tensor, self.axis, self.term = per_tensor, axis, term
        self.exact_sums: dict[tuple[str, str], ExactSum] = {}
        self.stored: dict[tuple[str, str], set[str]] = {}
        self.files = self.tensors = self.skipped = 0

    def add(self, name: str, exact_sum: ExactSum, stored: str | None = None) -> None:
        """Add the sums of a tensor, or of a part of it, which has a type in its file."""
        key = (name if self.per_tensor else "", exact_sum.type)
        self.stored.setdefault(key, set()).add(stored or exact_sum.type)
        known = self.exact_sums.get(key)
        if known is None:
            self.exact_sums[key] = exact_sum.copy()
            return
        if known.shape != exact_sum.shape:
            raise ArgumentError(
                f"tensor {name!r} has sums of shape {exact_sum.shape}; allowed: "
                f"{known.shape}, as the others that it is added to"
            )
        known.merge(exact_sum)

    def merge(self, other: Totals) -> None:
        """Add all of another run, which stays as it is.

        Raises
        ------
        ArgumentError
            If its sums are of another make.
        """
        if self.term != other.term:
            raise ArgumentError(
                f"states of {other.term}s and of {self.term}s; allowed: of one of them"
            )
        if (self.per_tensor, self.axis) != (other.per_tensor, other.axis):
            raise ArgumentError(
                f"states {other._make()} and {self._make()}; allowed: all alike"
            )
        counts = {n: getattr(self, n) + getattr(other, n) for n in _COUNTS}
        for what, count in counts.items():
            if count > MOST_COUNTED:
                raise ArgumentError(f"{count} {what} together; allowed: {MOST_COUNTED}")
        # All that may fail is done before anything changes.
        merged = Totals(self.per_tensor, self.axis, self.term)
        for (name, _), exact_sum in other.exact_sums.items():
            known = self.exact_sums.get((name, exact_sum.type))
            for each in (known, exact_sum) if known else (exact_sum,):
                merged.add(name, each)
        self.exact_sums |= merged.exact_sums
        for key, types in other.stored.items():
            self.stored.setdefault(key, set()).update(types)
        for what, count in counts.items():
            setattr(self, what, count)

    def _make(self) -> str:
        axis = "" if self.axis is None else f" with --axis {self.axis}"
        return f"{'per tensor' if self.per_tensor else 'of all tensors together'}{axis}"

    def types(self, keys: Iterable[tuple[str, str]]) -> list[str]:
        """Return the types in the files of what was summed, in a fixed order."""
        met = set().union(*(self.stored.get(key, {key[1]}) for key in keys))
        return [t.name for t in STORED_TYPES if t.name in met]

    def ordered(self) -> list[tuple[tuple[str, str], ExactSum]]:
        """Return names, types and sums, ordered by the bytes of the names."""

        def key(item: tuple[tuple[str, str], ExactSum]) -> tuple[bytes, str]:
            (name, type), _ = item
            return encoded(name), type

        return sorted(self.exact_sums.items(), key=key)

    def whole(self) -> dict[str, ExactSum]:
        """Return the sum of all that was summed along all axes, for each kind."""
        return joined(s for s in self.exact_sums.values() if s.shape == ())


def joined(exact_sums: Iterable[ExactSum]) -> dict[str, ExactSum]:
    """Return the sums of all exact sums of each kind, "float" and "integer"."""
    by_type: dict[str, ExactSum] = {}
    for exact_sum in exact_sums:
        known = by_type.get(exact_sum.type)
        by_type[exact_sum.type] = known.merge(exact_sum) if known else exact_sum.copy()
    result: dict[str, ExactSum] = {}
    for kind in ("float", "integer"):
        of_kind = [s for s in by_type.values() if KINDS[s.type] == kind]
        if len(of_kind) > 1:
            of_kind = list(_alike(kind, of_kind))
        for exact_sum in of_kind:
            result[kind] = result[kind].merge(exact_sum) if kind in result else exact_sum
    return result


def _alike(kind: str, exact_sums: list[ExactSum]) -> Iterator[ExactSum]:
    """Yield sums of one kind as such of a type that holds all of them."""
    signed = [s.type[0] != "u" for s in exact_sums]
    for exact_sum, is_signed in zip(exact_sums, signed, strict=True):
        if kind == "float":
            yield exact_sum.astype("double")
        elif exact_sum.term != "value" or not any(signed):
            yield exact_sum.astype("uint64")
        else:
            yield exact_sum.astype("int64") if is_signed else exact_sum._as_signed()


def encoded(name: str) -> bytes:
    """Return a name as bytes, whatever is in it."""
    # Names may hold halves of surrogate pairs: from JSON, or for bytes of a path.
    return name.encode(errors="surrogatepass")
