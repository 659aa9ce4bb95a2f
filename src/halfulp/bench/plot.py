"""A benchmark as a picture: an SVG that is as wide as the page that shows it.

May import errors, report.html and, of bench, cells, goals, report and results only.
Places across are fractions of the width and sizes of text are pixels, so that a picture
is read on a phone as on a desk; its colours follow the colour scheme of the page around
it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from halfulp.bench.cells import CELLS, JOINED, SMALL_BYTES
from halfulp.bench.goals import length_of, ns_a_result
from halfulp.bench.report import by_title
from halfulp.bench.results import EXACT, HALFULP, RUNTIME, Benchmark, Errors, Measured
from halfulp.errors import ArgumentError
from halfulp.report.html import DARK, LIGHT, element, escape, number

# Colours of halfulp, then of peers, with a contrast of 3 on the ground (WCAG AA). Peers
# are told apart by a name beside them or by dashes too.
SERIES_LIGHT = (
    *("#0072b2", "#d55e00", "#00805c", "#b0457f"),
    *("#7a5c00", "#6a51a3", "#c1272d", "#555b63"),
)
SERIES_DARK = (
    *("#56b4e9", "#ff9e4a", "#3fcf9f", "#f19ac6"),
    *("#e0c040", "#b7a3f0", "#ff7f86", "#b8c0c8"),
)
_DASHES = ("", "", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4")

# Pixels across that a picture is made for at least: what a phone's page has.
_LEAST_WIDTH = 320
# Of a letter of small text, with every common font.
_LETTER = 6.6
# The widest line of a heading, in letters.
_LETTERS = 46
# Where the labels of rows end, where bars start, and how much they have, in percent.
_LABELS, _START, _SPAN = 29.5, 31.0, 64.5
# The same of lines, whose labels are numbers.
_LINES_LABELS, _LINES_START, _LINES_SPAN = 12.0, 13.0, 84.0
# Of a power of ten.
_DECADE = 26
# Errors below this, zero among them, are drawn here; and nanoseconds of a result.
_LEAST = 0.1
# Numbers of elements that are written below lines by length.
_LENGTH_TICKS = (2, 8, 32, 128, 512)
# The libraries beside halfulp there.
_BESIDE_LENGTHS = ("numpy", "torch")
TIMES = "\N{MULTIPLICATION SIGN}"
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def draw(benchmark: Benchmark, width: str = "720") -> str:
    """Return a picture: the text of an SVG file, the same for the same benchmark.

    Parameters
    ----------
    benchmark : Benchmark
    width : str, optional
        Of the whole: pixels, or "100%" for a page that gives it a width.

    Raises
    ------
    ArgumentError
        If the benchmark has no figure that the picture would show.
    """
    if benchmark.kind == "accuracy":
        title, parts = _accuracy(benchmark.rows)
    elif benchmark.kind == "onnxruntime":
        title, parts = _sessions(benchmark.rows)
    else:
        title, parts = _speed(benchmark.rows)
    lines = []
    y = 10.0
    for line in textwrap.wrap(title, _LETTERS - 8):
        y += 19
        lines.append(_text("2%", y, line, "title"))
    machine = f"{benchmark.machine.get('cpu', '')}, {benchmark.machine['date']}"
    for line in textwrap.wrap(machine, _LETTERS + 4):
        y += 15
        lines.append(_text("2%", y, line, "small muted"))
    y += 10
    for part in parts:
        height, drawn = part(y)
        lines += drawn
        y += height
    titled = element("title", escape(title), id="t")
    ground = element("rect", class_="paper", width="100%", height="100%", rx=6)
    whole = element(
        "svg",
        _lines([titled, _style(), ground, *lines]),
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=math.ceil(y) + 6,
        role="img",
        aria_labelledby="t",
    )
    return f"{whole}\n"


# What draws a part of a picture from a y on, and says how high it is.
_Part = Callable[[float], tuple[float, list[str]]]


def _style() -> str:
    def colours(scheme: dict[str, str], series: Sequence[str]) -> str:
        rules = [f".paper{{fill:{scheme['paper']}}}", f"text{{fill:{scheme['ink']}}}"]
        rules += [f".over{{stroke:{scheme['paper']}}}"]
        rules += [f".muted{{fill:{scheme['muted']}}}"]
        rules += [f".line{{stroke:{scheme['line']}}}", f".at{{stroke:{scheme['muted']}}}"]
        rules += [f".s{i}{{fill:{c};stroke:{c}}}" for i, c in enumerate(series)]
        return "".join(rules)

    dashes = "".join(
        f".s{i}{{stroke-dasharray:{dash}}}" for i, dash in enumerate(_DASHES) if dash
    )
    return f"""<style>
text{{font:12px system-ui,"Segoe UI",Roboto,"Liberation Sans",sans-serif}}
.title{{font-size:15px;font-weight:600}}.type{{font-size:13px;font-weight:600}}
.small{{font-size:11px}}.over{{paint-order:stroke;stroke-width:3}}.end{{text-anchor:end}}.middle{{text-anchor:middle}}
rect{{stroke:none}}polyline{{fill:none!important;stroke-width:2}}{dashes}
.at{{stroke-width:1.5}}.halfulp{{stroke-width:6;stroke-opacity:.5}}
{colours(LIGHT, SERIES_LIGHT)}
@media(prefers-color-scheme:dark){{{colours(DARK, SERIES_DARK)}}}
</style>"""


def _text(x: str, y: float, words: str, name: str = "", dx: int | str = "") -> str:
    return element("text", escape(words), x=x, y=y, dx=dx, class_=name)


def _across(fraction: float) -> str:
    return f"{number(100 * fraction)}%"


def _lines(texts: Iterable[str]) -> str:
    """What is inside of an element, a line each."""
    return "".join(f"\n{text}" for text in texts) + "\n"


def _frame(y: float, start: float, width: float, height: float, inside: list[str]) -> str:
    """A picture inside of another, whose texts may reach out of it."""
    return element(
        "svg",
        _lines(inside),
        x=f"{start}%",
        y=y,
        width=f"{width}%",
        height=height,
        overflow="visible",
    )


def _rule(kind: str, **places: object) -> str:
    return element("line", class_=kind, **places)


def _legend(names: Sequence[str], marks: Sequence[str]) -> _Part:
    """What each colour is: two in a line, so that none is cut off on a phone."""

    def drawn(y: float) -> tuple[float, list[str]]:
        lines = []
        for i, (name, mark) in enumerate(zip(names, marks, strict=True)):
            x, at = 2 + 48 * (i % 2), y + 14 + 18 * (i // 2)
            swatch = element("svg", mark, x=f"{x}%", y=at - 10, width=24, height=12)
            lines.append(swatch + _text(f"{x}%", at, name, dx=30))
        return 18 * math.ceil(len(names) / 2) + 8, lines

    return drawn


def _bar(series: int, **places: object) -> str:
    return element("rect", class_=f"s{series}", **places)


def _swatch(series: int) -> str:
    return _bar(series, width=24, height=10)


def _speed(rows: list[Measured]) -> tuple[str, list[_Part]]:
    threads = min((row.threads for row in rows), default=1)
    measured = [row for row in rows if row.times and row.threads == threads]
    if not measured:
        raise ArgumentError("every cell was skipped; allowed in a picture: one at least")
    by_length = _lengths([row for row in measured if length_of(row)])
    measured = [row for row in measured if not length_of(row)]
    if not measured:
        return "Nanoseconds a result, by its number of elements", by_length
    # The limit of small cells is the time of a call, not the memory's speed.
    shown = [row for row in measured if row.nbytes >= SMALL_BYTES] or measured
    room = _LEAST_WIDTH * _SPAN / 100
    # What is left beside the longest bar of a peer holds its name.
    greatest = max(
        max(1.1, row.of_limit, _of_peer(row) / (1 - _beside(row) / room)) for row in shown
    )

    def at(value: float) -> float:
        return value / greatest

    halves = [i / 2 for i in range(1, int(2 * greatest) + 1)]
    axis = {0.0: "0", **{at(half): f"{number(half)}{TIMES}" for half in halves}}

    def bars(row: Measured) -> Iterator[tuple[float, float, int, str]]:
        yield 0, at(row.of_limit), 0, ""
        if row.peers:
            yield 0, at(_of_peer(row)), 1, row.peers[0]

    parts = [_legend(["halfulp", "the fastest peer"], [_swatch(0), _swatch(1)])]
    for heading, group in by_title(shown).items():
        cells = {row.cell: [*bars(row)] for row in group}
        parts.append(_bars(heading, cells, axis, at(1), "the limit: numpy.vdot"))
    plural = "s" * (threads > 1)
    title = f"Speed of {threads} thread{plural}, as a multiple of the limit"
    return title, parts + by_length


def _lengths(rows: list[Measured]) -> list[_Part]:
    """Panels of nanoseconds a result against how many elements it has."""
    if not rows:
        return []
    longest = max(map(length_of, rows))
    present = {who.partition(".")[0] for row in rows for who in row.peers}
    libraries = [HALFULP, *(name for name in _BESIDE_LENGTHS if name in present)]

    def across(length: int) -> float:
        return math.log(length / 2) / math.log(longest / 2)

    def panel(heading: str, here: list[Measured]) -> _Part:
        curves = {
            library: [
                (length_of(row), ns_a_result(row, who))
                for row in sorted(here, key=length_of)
                for who in _ways(row, library)[:1]
            ]
            for library in libraries
        }
        greatest = max(ns for curve in curves.values() for _, ns in curve)
        decades = math.ceil(math.log10(greatest / _LEAST))
        lines = []
        for series, (library, curve) in enumerate(curves.items()):
            points = " ".join(
                f"{number(1000 * across(n))},{number(_down(ns, decades))}"
                for n, ns in curve
            )
            lines.append(_line(library, series, points, "non-scaling-stroke"))
        ticks = {across(n): str(n) for n in _LENGTH_TICKS if n <= longest}
        return _curves(heading, lines, ticks, decades, ())

    marks = [_line(name, i, "0,6 24,6") for i, name in enumerate(libraries)]
    parts = [_legend(libraries, marks)]
    for title, group in by_title(rows).items():
        for kind, axis in (("rows", (1,)), ("few rows", (0,))):
            here = [row for row in group if CELLS[row.cell].axes == axis]
            if here:
                parts.append(panel(f"{title}, ns each: {kind}", here))
    return parts


def _ways(row: Measured, library: str) -> list[str]:
    """Who was timed of a library, or of halfulp, the fastest first."""
    return [who for who in (HALFULP, *row.peers) if who.partition(".")[0] == library]


def _of_peer(row: Measured) -> float:
    """The speed of the fastest peer, as a fraction of the limit."""
    return row.of_limit / row.ratio_to(row.peers[0]) if row.peers else 0


def _beside(row: Measured) -> float:
    return _LETTER * len(row.peers[0]) + 6 if row.peers else 0


def _sessions(rows: list[Measured]) -> tuple[str, list[_Part]]:
    compared = [row for row in rows if row.peers]
    if not compared:
        raise ArgumentError("the runtime has no kernel for these types, to compare with")
    threads = sorted({row.threads for row in compared})
    ratios = [row.ratio_to(RUNTIME) for row in compared]
    least, greatest = min(0.8, *ratios), max(2.0, *ratios)
    room = _LEAST_WIDTH * _SPAN / 100
    span = math.log(greatest / least) / (1 - 6 * _LETTER / room)

    def at(value: float) -> float:
        return math.log(value / least) / span

    axis = {
        at(factor * 10.0**power): f"{number(factor * 10.0**power)}{TIMES}"
        for power in range(-3, 6)
        for factor in (1, 2, 5)
        if 0 <= at(factor * 10.0**power) <= 1
    }

    def bar(row: Measured) -> tuple[float, float, int, str]:
        ratio = row.ratio_to(RUNTIME)
        words = f"{ratio:.{1 if ratio >= 2 else 2}f}{TIMES}"
        series = threads.index(row.threads)
        return at(min(1, ratio)), at(max(1, ratio)), series, words

    parts = []
    for heading, group in by_title(compared).items():
        cells: dict[str, list[tuple[float, float, int, str]]] = {}
        for row in group:
            cells.setdefault(row.cell, []).append(bar(row))
        parts.append(_bars(heading, cells, axis, at(1), "as fast as without"))
    names = [f"{count} thread{'s' * (count > 1)}" for count in threads]
    marks = [_swatch(i) for i in range(len(threads))]
    title = (
        "Inside ONNX Runtime: the speed of a session with halfulp's library, as a "
        "multiple of one without"
    )
    return title, [_legend(names, marks), *parts]


def _bars(
    title: str,
    cells: Mapping[str, Sequence[tuple[float, float, int, str]]],
    axis: Mapping[float, str],
    line: float,
    name: str,
) -> _Part:
    """A panel of bars, each with its start, end, series and words beside it."""

    def drawn(y: float) -> tuple[float, list[str]]:
        top = y + 26
        inside, labels, row = [], [], 4.0
        for cell, bars in cells.items():
            middle = row + 6.5 * len(bars)
            label = cell.removeprefix(f"{JOINED}-")
            labels.append(_text(f"{_LABELS}%", top + middle + 4, label, "end"))
            for start, end, series, words in bars:
                x, width = _across(start), _across(end - start)
                inside.append(_bar(series, x=x, y=row, width=width, height=11))
                if words:
                    at = row + 10
                    inside.append(_text(_across(end), at, words, "small over", 4))
                row += 13
            row += 6
        grid = [
            _rule(kind, x1=_across(x), x2=_across(x), y2=row)
            for kind, x in (*(("line", x) for x in axis), ("at", line))
        ]
        numbers = [
            _text(_across(x), row + 14, text, "small muted middle")
            for x, text in axis.items()
        ]
        side = "" if line < 0.3 else "end" if line > 0.7 else "middle"
        named = _text(_across(line), -5, name, f"small {side}".rstrip())
        return row + 54, [
            _text("2%", y + 16, title, "type"),
            *labels,
            _frame(top, _START, _SPAN, row + 20, [*grid, *inside, *numbers, named]),
        ]

    return drawn


def _accuracy(rows: list[Errors]) -> tuple[str, list[_Part]]:
    # What is exact would be drawn over halfulp.
    present = [row for row in rows if row.ulps and row.who not in EXACT]
    if not present:
        raise ArgumentError("no error was measured; allowed in a picture: one at least")
    names = _legend_names(present)
    series = {HALFULP: 0} | {
        who: 1 + i % 7 for i, group in enumerate(names.values()) for who in group
    }
    sizes = sorted({row.n for row in present})

    def across(n: int) -> float:
        return math.log(n / sizes[0]) / max(1e-9, math.log(sizes[-1] / sizes[0]))

    def panel(*key: str) -> _Part:
        here = [r for r in present if (r.reduction, r.type, r.values) == key]
        greatest = max(10 * _LEAST, *(max(r.ulps) for r in here))
        decades = math.ceil(math.log10(greatest / _LEAST))
        lines = []
        for who, i in series.items():
            points = sorted((r.n, max(r.ulps)) for r in here if r.who == who)
            if points:
                places = " ".join(
                    f"{number(1000 * across(n))},{number(_down(ulps, decades))}"
                    for n, ulps in points
                )
                lines.append(_line(who, i, places, "non-scaling-stroke"))
        ticks = {across(n): _power(round(math.log10(n))) for n in sizes}
        half = (0.5, "half an ulp")
        return _curves("{} of {}, {}".format(*key), lines, ticks, decades, half)

    legend = {HALFULP: HALFULP} | {name: group[0] for name, group in names.items()}
    marks = [_line(who, series[who], "0,6 24,6") for who in legend.values()]
    kinds = dict.fromkeys((row.reduction, row.type, row.values) for row in present)
    title = "Greatest error of a reduction, in ulps, by its number of elements"
    return title, [_legend([*legend], marks), *(panel(*kind) for kind in kinds)]


def _legend_names(rows: Sequence[Errors]) -> dict[str, list[str]]:
    """Names in the legend, each of ways of one library that no reduction has two of."""
    where: dict[str, set[str]] = {}
    for row in rows:
        if row.who != HALFULP:
            where.setdefault(row.who, set()).add(row.reduction)
    groups: dict[str, list[list[str]]] = {}
    for who, reductions in where.items():
        known = groups.setdefault(who.partition(".")[0], [])
        for group in known:
            if not any(where[other] & reductions for other in group):
                group.append(who)
                break
        else:
            known.append([who])
    names = {}
    for library, known in groups.items():
        for group in known:
            ways = "/".join(who.partition(".")[2] for who in group)
            alone = group == [library] or len(known) == 1 < len(group)
            names[library if alone else f"{library}.{ways}".rstrip(".")] = group
    return names


def _line(who: str, series: int, points: str, effect: str = "") -> str:
    kind = f"s{series}{' halfulp' * (who == HALFULP)}"
    return element("polyline", class_=kind, vector_effect=effect, points=points)


def _curves(
    title: str,
    lines: Iterable[str],
    ticks: Mapping[float, str],
    decades: int,
    mark: tuple[float, str] | tuple[()],
) -> _Part:
    """A panel of lines on two logarithmic axes, of which one place may be marked."""
    height = _DECADE * decades

    def drawn(y: float) -> tuple[float, list[str]]:
        top = y + 28
        grid, labels = [], []
        for power in range(decades + 1):
            place = height - _DECADE * power
            grid.append(_rule("line", x2="100%", y1=place, y2=place))
            exponent = round(math.log10(_LEAST)) + power
            labels.append(
                _text(
                    f"{_LINES_LABELS}%",
                    top + place + 4,
                    _power(exponent),
                    "small muted end",
                )
            )
        words = []
        if mark:
            below = _down(mark[0], decades)
            grid.append(_rule("at", x2="100%", y1=below, y2=below))
            words.append(_text("0", below + 14, mark[1], "small over", 3))
        numbers = [
            _text(_across(x), height + 15, text, "small muted middle")
            for x, text in ticks.items()
        ]
        stretched = element(
            "svg",
            _lines(lines),
            width="100%",
            height=height,
            viewBox=f"0 0 1000 {height}",
            preserveAspectRatio="none",
            overflow="visible",
        )
        inside = [*grid, stretched, *words, *numbers]
        return height + 58, [
            _text("2%", y + 16, title, "type"),
            *labels,
            _frame(top, _LINES_START, _LINES_SPAN, height + 20, inside),
        ]

    return drawn


def _down(value: float, decades: int) -> float:
    """Where a number lies, in pixels below the top of a panel."""
    return _DECADE * (decades - math.log10(max(value, _LEAST) / _LEAST))


def _power(exponent: int) -> str:
    """A power of ten: as a number if it is short."""
    if -1 <= exponent <= 2:
        return f"{10.0**exponent:g}"
    return f"10{exponent}".replace(str(exponent), str(exponent).translate(_SUPERSCRIPTS))
