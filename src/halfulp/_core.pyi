from collections.abc import Callable
from typing import Any

import numpy


def reduce(reduction: str, data: numpy.ndarray, axes: tuple[int, ...] | None, keepdims: bool, type_code: int, checked: bool, out: numpy.ndarray | None, mask: numpy.ndarray | None, counted: bool, scalar: bool) -> Any:
    """
    A reduction of the table along normalized axes, as the type of an ONNX code, or NumPy's for 0: in `out`, or in a new array if the call may be interrupted. Of the elements those count of which the mask says `counted`, if there is one. One result is a scalar of NumPy's if that is asked for.
    """

def spread(name: str, ddof: int, data: numpy.ndarray, axes: tuple[int, ...] | None, keepdims: bool, type_code: int, out: numpy.ndarray | None, mask: numpy.ndarray | None, counted: bool, scalar: bool) -> Any:
    """Variances or standard deviations, otherwise as `reduce`."""

def shortcut(function: Callable[..., Any], face: str, row: str | None, parameters: tuple[str, ...]) -> Callable[..., Any]:
    """
    What reduces plain arrays by a row of the table, 'var' or 'std' at once, and calls `function`, which does the same, with whatever else it is given. The face, 'numpy' or 'onnx', says what the function's parameters of these names mean, the first of which is the array; the row is None if `ord` tells which norm it is.
    """

def sum_format(term: str, type_code: int) -> tuple[int, int, int]:
    """
    Of an exact sum of elements of a type: its digits of 64 bits, how many bits at the top are flags, and the exponent of its unit. Sums of terms with signs are in two's complement; their flags are all alike in numbers.
    """

def update_sums(term: str, sums: numpy.ndarray, data: numpy.ndarray, axes: tuple[int, ...] | None) -> None:
    """
    Add the terms along normalized axes to sums: a count, and the digits of each.
    """

def merge_sums(term: str, sums: numpy.ndarray, more: numpy.ndarray, type_code: int) -> None:
    """Add the second sums to the first."""

def round_sums(term: str, finish: str, sums: numpy.ndarray, shape: tuple[int, ...], type_code: int, output_code: int, checked: bool) -> numpy.ndarray:
    """
    The results of the sums in an array of a shape, rounded once to a type.
    """

def round_spreads(is_deviation: bool, ddof: int, values: numpy.ndarray, squares: numpy.ndarray, shape: tuple[int, ...], type_code: int, output_code: int) -> numpy.ndarray:
    """
    Variances or standard deviations of the sums of values and of squares, as of `round_sums`.
    """

def are_sums(term: str, sums: numpy.ndarray, type_code: int) -> bool:
    """Whether so many terms as are counted can have these sums."""

def range_of_codes(codes: numpy.ndarray) -> tuple[int, int]:
    """The lowest and the highest code of groups, as of one more that is -1."""

def exact_group_size(term: str, type_code: int) -> int:
    """
    How many numbers of 64 bits an exact sum of a group takes: its count and digits.
    """

def add_groups(term: str, groups: numpy.ndarray, rows: numpy.ndarray, codes: numpy.ndarray) -> None:
    """
    Add the terms of rows of floats to enclosures of the sums of their groups, four numbers of 64 bits each; rows of a code below 0 count nowhere.
    """

def round_groups(term: str, finish: str, groups: numpy.ndarray, results: numpy.ndarray, type_code: int) -> numpy.ndarray:
    """
    Set the results of sums that their enclosures determine, and tell which are left.
    """

def add_groups_exactly(term: str, sums: numpy.ndarray, rows: numpy.ndarray, codes: numpy.ndarray, places: numpy.ndarray | None) -> None:
    """
    Add the terms of rows to the exact sums of their groups: of each that at its place, of those below 0 none.
    """

def round_exact_groups(term: str, finish: str, sums: numpy.ndarray, shape: tuple[int, ...], type_code: int, output_code: int, checked: bool) -> numpy.ndarray:
    """
    The results of exact sums of groups in an array of a shape, rounded once to a type.
    """

def reductions() -> list[tuple[str, str, str, str, str, float, tuple[tuple[int, str, bool, tuple[int, ...]], ...]]]:
    """
    The table of reductions: name, operator, operation, term, finish, ord and versions, each since an opset, with its axes' place, noop_with_empty_axes and codes of types.
    """

def import_dlpack(capsule: object) -> numpy.ndarray:
    """A NumPy view of the memory of a DLPack capsule."""

def export_dlpack(array: numpy.ndarray) -> object:
    """An object that has __dlpack__ and shares the array's memory."""

def choose_target(name: str | None) -> None:
    """Run the kernels of one instruction set; those of the default for None."""

def prefetch_distance() -> int:
    """
    How many bytes ahead kernels of long rows fetch memory; 0 for not at all.
    """

def set_prefetch_distance(bytes: int) -> None:
    """Set how many bytes ahead kernels of long rows fetch memory."""

def thread_limit() -> int:
    """The most threads that a call may use."""

def set_thread_limit(limit: int) -> None:
    """Set the most threads that a call may use, at least 1."""

def processor_quota(root: str) -> int:
    """
    The quota of control groups as files below a folder tell it; 0 for none.
    """

def set_bytes_per_thread(bytes: int) -> None:
    """Set how much input is worth a thread, for tests; 0 means the default."""

def target_names() -> list[str]:
    """The instruction sets that this processor can run, best first."""

def chosen_target() -> str:
    """The instruction set whose kernels run."""

def kernel_names() -> list[str]:
    """The kernels of the chosen instruction set."""
