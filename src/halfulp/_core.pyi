import numpy


def reduce(data: numpy.ndarray, axes: tuple[int, ...] | None, keepdims: bool, type_code: int, checked: bool, out: numpy.ndarray | None) -> numpy.ndarray:
    """
    Sum of squares along normalized axes, rounded to the type of an ONNX code.
    """

def import_dlpack(capsule: object) -> numpy.ndarray:
    """A NumPy view of the memory of a DLPack capsule."""

def export_dlpack(array: numpy.ndarray) -> object:
    """An object that has __dlpack__ and shares the array's memory."""

def target_names() -> list[str]:
    """The instruction sets that this processor can run, best first."""

def chosen_target() -> str:
    """The instruction set whose kernels run."""

def kernel_names() -> list[str]:
    """The kernels of the chosen instruction set."""
