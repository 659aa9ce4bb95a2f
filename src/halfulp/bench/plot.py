"""A run as a picture.

May import errors, cells and results only; and matplotlib, when a picture is drawn.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import math
from pathlib import Path
from typing import Any

from halfulp.bench.cells import SMALL_BYTES
from halfulp.bench.results import HALFULP, RUNTIME, Errors, Measured, Run
from halfulp.errors import ArgumentError

_FORMATS = (".svg", ".png")

# Of Okabe and Ito's palette, told apart with every kind of colour vision.
_BLUE, _ORANGE, _GREY = "#0072B2", "#E69F00", "#666666"
_OTHERS = ("#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999", "#7A5C00")
_COLORS = (_BLUE, *_OTHERS)
_MARKERS = "osD^vPX"
# Errors below this, zero among them, are drawn here.
_LEAST_ULPS = 0.1


def check_plot(path: Path) -> None:
    """Raise an ArgumentError unless `draw` can make a picture of that name."""
    if path.suffix not in _FORMATS:
        allowed = " or ".join(_FORMATS)
        raise ArgumentError(f"the picture is {path.name!r}; allowed: a name in {allowed}")
    if importlib.util.find_spec("matplotlib") is None:
        raise ArgumentError(
            "pictures need matplotlib: install halfulp with the extra 'plot'"
        )


def draw(run: Run, suffix: str) -> bytes:
    """Return a picture of a run.

    Parameters
    ----------
    run : Run
    suffix : {".svg", ".png"}

    Returns
    -------
    bytes
        The content of the file; the same for the same run.
    """
    matplotlib = importlib.import_module("matplotlib")
    settings = {"font.size": 9, "svg.hashsalt": HALFULP, "axes.spines.top": False}
    with matplotlib.rc_context(settings | {"axes.spines.right": False}):
        figure = importlib.import_module("matplotlib.figure").Figure(layout="constrained")
        if run.kind == "accuracy":
            title = _draw_accuracy(figure, run.rows)
        elif run.kind == "onnxruntime":
            title = _draw_sessions(figure, run.rows)
        else:
            title = _draw_speed(figure, run.rows)
        machine = f"{run.machine.get('cpu', '')}, {run.machine['date']}"
        figure.suptitle(f"{title}\n{machine}")
        content = io.BytesIO()
        metadata = {"Date": None} if suffix == ".svg" else None
        figure.savefig(content, format=suffix[1:], dpi=120, metadata=metadata)
    return content.getvalue()


def _draw_speed(figure: Any, rows: list[Measured]) -> str:
    """Draw the panels and the legend, and return the title."""
    threads = min((row.threads for row in rows), default=1)
    measured = [row for row in rows if row.times and row.threads == threads]
    if not measured:
        raise ArgumentError("every cell was skipped; allowed in a picture: one at least")
    # The limit of small cells is the time of a call, not the memory's speed.
    shown = [row for row in measured if row.nbytes >= SMALL_BYTES] or measured
    types = list(dict.fromkeys(row.type for row in shown))
    cells = list(dict.fromkeys(row.cell for row in shown))
    columns = min(4, len(types))
    lines = math.ceil(len(types) / columns)
    figure.set_size_inches(2 + 3 * columns, 1.8 + lines * (0.5 + 0.29 * len(cells)))
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    widest = max(row.of_limit * max(1, _of_peer(row)) for row in shown)
    for axes, type_name in zip(grid.flat, types, strict=False):
        of_type = {row.cell: row for row in shown if row.type == type_name}
        axes.set_title(type_name, fontweight="bold", loc="left")
        axes.axvline(1, color=_GREY, linewidth=1, zorder=0)
        for y, cell in enumerate(cells):
            if cell in of_type:
                _draw_bars(axes, y, of_type[cell])
        axes.set_xlim(0, max(1.1, widest * 1.35))
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelbottom=True)
    grid[0, 0].set_yticks(range(len(cells)), cells)
    grid[0, 0].invert_yaxis()
    for axes in grid.flat[len(types) :]:
        axes.set_visible(False)
    _draw_legend(figure, grid)
    return f"Speed as a fraction of the limit, {threads} thread{'s' * (threads > 1)}"


def _draw_bars(axes: Any, y: int, row: Measured) -> None:
    axes.barh(y - 0.19, row.of_limit, 0.36, color=_BLUE, label="halfulp")
    if row.peers:
        length = row.of_limit * _of_peer(row)
        axes.barh(y + 0.19, length, 0.36, color=_ORANGE, label="the fastest peer")
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.text(
            length + 0.02,
            y + 0.21,
            row.peers[0],
            va="center",
            fontsize=6,
            color=_GREY,
            bbox=box,
        )


def _draw_sessions(figure: Any, rows: list[Measured]) -> str:
    """Draw a panel for each type, and return the title."""
    compared = [row for row in rows if row.peers]
    if not compared:
        raise ArgumentError("the runtime has no kernel for these types, to compare with")
    threads = sorted({row.threads for row in compared})
    types = list(dict.fromkeys(row.type for row in compared))
    cells = list(dict.fromkeys(row.cell for row in compared))
    figure.set_size_inches(2 + 2.4 * len(types), 1.6 + 0.35 * len(cells))
    grid = figure.subplots(1, len(types), sharex=True, sharey=True, squeeze=False)
    height = 0.8 / len(threads)
    for axes, type_name in zip(grid.flat, types, strict=True):
        axes.set_title(type_name, fontweight="bold", loc="left")
        axes.axvline(1, color=_GREY, linewidth=1, zorder=0)
        for i, (count, color) in enumerate(zip(threads, _COLORS, strict=False)):
            of_type = [r for r in compared if (r.type, r.threads) == (type_name, count)]
            axes.barh(
                [cells.index(row.cell) + (i - 0.5) * height for row in of_type],
                [row.ratio_to(RUNTIME) - 1 for row in of_type],
                height,
                left=1,
                color=color,
                label=f"{count} thread{'s' * (count > 1)}",
            )
        axes.set_xscale("log")
        axes.tick_params(axis="y", length=0)
    grid[0, 0].set_yticks(range(len(cells)), cells)
    grid[0, 0].invert_yaxis()
    _draw_legend(figure, grid)
    return "Times that a session with halfulp's library is as fast as without"


def _of_peer(row: Measured) -> float:
    """The speed of the fastest peer, as a multiple of that of halfulp."""
    return 1 / row.ratio_to(row.peers[0]) if row.peers else 0


def _draw_accuracy(figure: Any, rows: list[Errors]) -> str:
    """Draw the panels and the legend, and return the title."""
    present = [row for row in rows if row.ulps]
    types = list(dict.fromkeys(row.type for row in present))
    values = list(dict.fromkeys(row.values for row in present))
    peers = [who for who in dict.fromkeys(r.who for r in present) if who != HALFULP]
    styles = {
        who: {"color": color, "marker": marker, "linewidth": 1, "markersize": 4}
        for who, color, marker in zip(
            peers, _OTHERS * len(peers), _MARKERS * len(peers), strict=False
        )
    }
    # Below the others: those that are as accurate stay visible.
    styles[HALFULP] = {"color": _BLUE, "linewidth": 6, "alpha": 0.6, "zorder": 1}
    figure.set_size_inches(1 + 2.8 * len(types), 1.2 + 2.6 * len(values))
    grid = figure.subplots(
        len(values), len(types), sharex=True, sharey=True, squeeze=False
    )
    for line, distribution in zip(grid, values, strict=True):
        for axes, type_name in zip(line, types, strict=True):
            here = [r for r in present if (r.type, r.values) == (type_name, distribution)]
            axes.set_title(f"{type_name}, {distribution}", loc="left")
            axes.axhline(0.5, color=_GREY, linewidth=1, linestyle="--")
            for who, style in styles.items():
                points = sorted(
                    (r.n, max(*r.ulps, _LEAST_ULPS)) for r in here if r.who == who
                )
                if points:
                    axes.plot(*zip(*points, strict=True), label=who, **style)
            axes.set_xscale("log")
            axes.set_yscale("log")
    for axes in grid[-1]:
        axes.set_xlabel("elements")
    for axes in grid[:, 0]:
        axes.set_ylabel("error in ulps")
    _draw_legend(figure, grid)
    return "Greatest error of a sum of squares; the dashed line is half an ulp"


def _draw_legend(figure: Any, grid: Any) -> None:
    """Draw a legend of all panels, each label once."""
    by_label: dict[str, Any] = {}
    for axes in grid.flat:
        handles, labels = axes.get_legend_handles_labels()
        by_label |= dict(zip(labels, handles, strict=True))
    figure.legend(
        by_label.values(), by_label, loc="outside lower center", ncols=8, frameon=False
    )
