"""Arguments that several commands have.

May import nothing of halfulp.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="An .onnx file, or another of onnx's; - is stdin."
    ),
]
