"""What the benchmark must show, and whether it does.

May import cells and results of this package, and element_types, only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from halfulp.bench.cells import CELLS, TYPES
from halfulp.bench.results import ALL_LIMIT, HALFULP, ORDINARY, Measured

_MIB = 1 << 20
_LARGE = 8 * _MIB

# The cells of one goal each.
LONG_ROWS = ("flat", "rows", "64MiB", "1GiB")
OTHER_AXES = (
    *("columns", "middle", "channels"),
    *("fortran-0", "fortran-1", "1GiB-columns"),
)
SHORT_SUMS = ("short-rows", "few-rows")
IN_CACHES = ("4KiB", "64KiB", "1MiB")

Rows = Sequence[Measured]
# A figure, and the row that it is of.
Figures = Iterator[tuple[float, Measured]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must reach a bound in every row that has it.

    Attributes
    ----------
    what : str
        The cells and types that it is about.
    bound : float
    unit : str
    figures : callable
        From the rows of a benchmark to the figure of each row that has one. Those
        that are fractions of the limit are of rows with one thread.
    at_most : bool
        Whether the bound is from above.
    """

    what: str
    bound: float
    unit: str
    figures: Callable[[Rows], Figures]
    at_most: bool = False

    @property
    def text(self) -> str:
        """What must hold, in words."""
        return f"{self.what} {'≤' if self.at_most else '≥'} {self.bound:g} {self.unit}"


@dataclass(frozen=True, slots=True)
class GoalCheck:
    """How the rows of a benchmark meet a goal.

    Attributes
    ----------
    goal : Goal
    worst : float, optional
        The figure furthest on the wrong side; None if nothing was measured.
    at : str
        The row of the worst figure.
    misses, rows : int
        How many rows miss the bound, out of those that have the figure.
    """

    goal: Goal
    worst: float | None
    at: str
    misses: int
    rows: int


def check_goals(rows: Rows, kind: str = "speed") -> list[GoalCheck]:
    """Check each goal of a kind of benchmark."""
    measured = [row for row in rows if row.times]
    goals = SESSION_GOALS if kind == "onnxruntime" else GOALS
    return [_check(goal, measured) for goal in goals]


def _check(goal: Goal, rows: Rows) -> GoalCheck:
    figures = list(goal.figures(rows))
    if not figures:
        return GoalCheck(goal, None, "", 0, 0)
    sign = 1 if goal.at_most else -1
    worst, row = max(figures, key=lambda figure: sign * figure[0])
    misses = sum(sign * (figure - goal.bound) > 0 for figure, _ in figures)
    threads = f"{row.threads} thread{'s' * (row.threads > 1)}"
    at = f"{row.reduction} of {row.type} {row.cell}, {threads}"
    return GoalCheck(goal, worst, at, misses, len(figures))


def _of_limit(
    *cells: str, among: Callable[[Measured], bool] = lambda row: True
) -> Callable[[Rows], Figures]:
    def figures(rows: Rows) -> Figures:
        for row in rows:
            if row.cell in cells and row.threads == 1 and among(row):
                yield row.of_limit, row

    return figures


def _to_own(among: Callable[[Measured], bool], name: str) -> Callable[[Rows], Figures]:
    """The speed of a row, as a multiple of that of halfulp in other circumstances."""

    def figures(rows: Rows) -> Figures:
        for row in filter(among, rows):
            if name in row.times:
                yield row.ratio_to(name), row

    return figures


def _to_peers(
    among: Callable[[Measured], bool], names: Sequence[str] | None = None
) -> Callable[[Rows], Figures]:
    """The speed of a row, as a multiple of that of the fastest of some peers."""

    def figures(rows: Rows) -> Figures:
        for row in filter(among, rows):
            peers = [p for p in row.peers if names is None or p in names]
            if peers:
                yield row.ratio_to(peers[0]), row

    return figures


def _is_large(row: Measured) -> bool:
    return row.nbytes >= _LARGE and not _is_joined(row)


def _is_joined(row: Measured) -> bool:
    """Whether a row is of what is no sum, which has goals of its own."""
    return row.cell.startswith("joined-")


def _is_extreme(row: Measured) -> bool:
    return row.reduction in ("max", "min")


def _is_log_sum_exp(row: Measured) -> bool:
    return _is_joined(row) and row.reduction == "log_sum_exp" and row.nbytes >= _LARGE


def beside_peers(rows: Rows) -> list[Measured]:
    """Return the rows that are large enough to be compared with peers, and are."""
    return [row for row in rows if _is_large(row) and row.peers]


def is_settled(row: Measured) -> bool:
    """Whether a row is of ties or zeros, which are ordinary data."""
    return row.cell.startswith(("ties", "zeros"))


def _is_small(row: Measured) -> bool:
    return row.cell == "small" and row.threads == 1


def length_of(row: Measured) -> int:
    """Return how many elements a result has, in a cell of those that differ in it."""
    cell = CELLS.get(row.cell)
    return cell.length if cell else 0


def ns_a_result(row: Measured, name: str = HALFULP) -> float:
    """Return the nanoseconds of a result that one of those who were timed took."""
    elements = row.nbytes / TYPES[row.type].dtype.itemsize
    return row.best(name) / elements * length_of(row)


def _by_length(least_bytes: int) -> Callable[[Rows], Figures]:
    """Fractions of the limit, of cells by length from so many bytes a result on."""

    def figures(rows: Rows) -> Figures:
        for row in rows:
            length = length_of(row)
            each = length * TYPES[row.type].dtype.itemsize
            if length and each >= least_bytes:
                yield row.of_limit, row

    return figures


def _is_double(row: Measured) -> bool:
    return row.type == "float64"


def _microseconds(rows: Rows) -> Figures:
    return ((row.best() / 1000, row) for row in filter(_is_small, rows))


def _of_readers(rows: Rows) -> Figures:
    """The speed on some threads, as a fraction of what as many only read."""
    for row in rows:
        if ALL_LIMIT in row.times and row.cell in (*LONG_ROWS, *OTHER_AXES):
            yield row.best(ALL_LIMIT) / row.best(), row


def _nanoseconds(rows: Rows) -> Figures:
    for row in rows:
        if row.cell == "cancel" and _is_double(row) and row.threads == 1:
            yield row.best() / (row.nbytes / 8), row


def _memory(rows: Rows) -> Figures:
    for row in rows:
        if row.extra_memory is not None:
            yield row.extra_memory / _MIB, row


GOALS = (
    Goal(
        "flat, rows, 64MiB, 1GiB",
        0.9,
        "of the limit",
        _of_limit(*LONG_ROWS),
    ),
    Goal(
        "columns, middle, channels, fortran, 1GiB-columns",
        0.85,
        "of the limit",
        _of_limit(*OTHER_AXES),
    ),
    Goal(
        "the same cells on two or more threads",
        0.9,
        "of as many threads that only read",
        _of_readers,
    ),
    Goal("short-rows, few-rows", 0.6, "of the limit", _of_limit(*SHORT_SUMS)),
    Goal(
        "lengths",
        1.0,
        "times the faster of einsum, torch",
        _to_peers(
            lambda row: length_of(row) > 0,
            ["numpy.einsum", "torch", "torch.sum", "torch.norm", "torch.mean"],
        ),
    ),
    Goal("lengths of 32 bytes or more", 0.6, "of the limit", _by_length(32)),
    Goal("lengths of 512 bytes or more", 0.8, "of the limit", _by_length(512)),
    Goal(
        "4KiB, 64KiB, 1MiB of float32, float64",
        0.9,
        "of the limit",
        _of_limit(*IN_CACHES, among=lambda row: row.type in ("float32", "float64")),
    ),
    Goal("strided", 0.4, "of the limit", _of_limit("strided")),
    Goal("update-flat", 0.5, "of the limit", _of_limit("update-flat")),
    Goal(
        "update-axis-0, -tall, -few",
        0.3,
        "of the limit",
        _of_limit("update-axis-0", "update-tall", "update-few"),
    ),
    Goal("8 MiB or more", 0.95, "times the fastest peer", _to_peers(_is_large)),
    Goal(
        "columns of sum_square",
        10.0,
        "times onnxruntime",
        _to_peers(
            lambda row: (row.reduction, row.cell) == ("sum_square", "columns"),
            ["onnxruntime"],
        ),
    ),
    Goal(
        "1MiB", 0.7, "times the fastest peer", _to_peers(lambda row: row.cell == "1MiB")
    ),
    Goal(
        "1MiB",
        1.0,
        "times the faster of numpy, onnxruntime",
        _to_peers(lambda row: row.cell == "1MiB", ["numpy", "onnxruntime"]),
    ),
    Goal("small", 1.0, "µs", _microseconds, at_most=True),
    Goal("small", 1.0, "times numpy", _to_peers(_is_small, ["numpy"])),
    Goal(
        "ties, zeros",
        0.5,
        "times ordinary values",
        _to_own(is_settled, ORDINARY),
    ),
    Goal("cancel of float64", 0.7, "ns an element", _nanoseconds, at_most=True),
    Goal(
        "cancel of other types",
        0.5,
        "of the limit",
        _of_limit(
            *("cancel", "cancel-rows", "cancel-columns"),
            among=lambda row: not _is_double(row),
        ),
    ),
    Goal(
        "joined-flat, -rows of max and min",
        0.9,
        "of the limit",
        _of_limit("joined-flat", "joined-rows", among=_is_extreme),
    ),
    Goal(
        "joined-columns, -middle of max and min",
        0.85,
        "of the limit",
        _of_limit("joined-columns", "joined-middle", among=_is_extreme),
    ),
    Goal(
        "8 MiB or more of max and min",
        1.0,
        "times the faster of numpy, torch",
        _to_peers(
            lambda row: _is_extreme(row) and row.nbytes >= _LARGE,
            ["numpy", "torch.amax", "torch.amin"],
        ),
    ),
    Goal(
        "log_sum_exp of other types than float64",
        0.5,
        "times exponentials added by torch",
        _to_peers(
            lambda row: _is_log_sum_exp(row) and not _is_double(row), ["torch.exp"]
        ),
    ),
    Goal(
        "log_sum_exp of float64",
        0.125,
        "times exponentials added by torch",
        _to_peers(lambda row: _is_log_sum_exp(row) and _is_double(row), ["torch.exp"]),
    ),
    Goal(
        "joined-small",
        1.0,
        "µs",
        lambda rows: (
            (row.best() / 1000, row)
            for row in rows
            if row.cell == "joined-small" and row.threads == 1
        ),
        at_most=True,
    ),
    Goal("extra memory", 1.0, "MiB", _memory, at_most=True),
)

# Of the same sessions without the library.
SESSION_GOALS = (
    Goal(
        "columns of float32, of squares and magnitudes",
        20.0,
        "times the runtime's own",
        _to_peers(
            lambda row: (
                (row.cell, row.type) == ("columns", "float32")
                and row.reduction not in ("sum", "mean")
            )
        ),
    ),
    Goal(
        "1 MiB or more",
        1.0,
        "times the runtime's own",
        _to_peers(lambda row: row.nbytes >= _MIB),
    ),
    Goal("small", 0.95, "times the runtime's own", _to_peers(_is_small)),
)
