"""Times one cell in ONNX Runtime, with and without halfulp's library.

May import halfulp.onnxruntime, reductions and, of bench, cells, measure, peers and
results only.
"""

from __future__ import annotations

from halfulp.bench.cells import CELLS, JOINED, SMALL_BYTES, TYPES, Cell
from halfulp.bench.measure import SMALL_CALLS, Effort, reason, take_turns, timed
from halfulp.bench.peers import onnxruntime_names
from halfulp.bench.results import HALFULP, RUNTIME, Measured
from halfulp.onnxruntime import register
from halfulp.reductions import Reduction

# Of what is no sum, few cells tell enough. The runtime copies arrays of other layouts
# first; its Python interface lacks bfloat16.
_JOINED_CELLS = {f"{JOINED}-{name}" for name in ("flat", "rows", "columns", "small")}
SESSION_CELLS = {
    name: cell
    for name, cell in CELLS.items()
    if cell.layout == "C" and cell.values == "ordinary" and not cell.update
    if cell.nbytes < 1 << 26 and not cell.length
    if not name.startswith(JOINED) or name in _JOINED_CELLS
}
SESSION_TYPES = tuple(name for name in TYPES if name != "bfloat16")

EXPRESSION = "run(None, feed)[0]"


def measure_sessions(
    cell: Cell, reduction: Reduction, type_name: str, threads: int, effort: Effort
) -> Measured:
    """Measure one reduction of a cell in two sessions that differ in the library.

    Returns
    -------
    Measured
        The session with the library is called halfulp. The other one is missing,
        with the reason, where the runtime has no kernel.
    """
    element = TYPES[type_name]
    result = Measured(cell.name, type_name, threads, cell.bytes_touched(element))
    result.reduction = reduction.name
    x = cell.build(element, reduction)
    calls = SMALL_CALLS if result.nbytes < SMALL_BYTES else 1
    contestants = {}
    for name, wish in ((HALFULP, register), (RUNTIME, None)):
        try:
            names = onnxruntime_names(reduction, x, cell.axes, threads, wish)
        except Exception as error:  # onnxruntime has no family of its own
            result.missing[name] = reason(error)
        else:
            contestants[name] = timed(EXPRESSION, names, calls)
    take_turns(contestants, effort, result.times)
    return result
