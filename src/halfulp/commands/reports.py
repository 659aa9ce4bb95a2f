"""Files that a command writes of its results, besides what it prints.

May import output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from halfulp.output import STDIO, Output, check_outputs, write_whole

# By option: what the names of its files end with.
_ENDINGS = {
    "json": (".json",),
    "csv": (".csv",),
    "html": (".html", ".htm"),
    "junit": (".xml",),
    "markdown": (".md", ".markdown"),
    "plot": (".svg",),
}


class Reports:
    """The files that were asked for.

    Parameters
    ----------
    **paths : pathlib.Path or None
        By option; None where it is not given.
    """

    def __init__(self, **paths: Path | None) -> None:
        self.paths = {option: path for option, path in paths.items() if path is not None}

    @property
    def on_stdout(self) -> bool:
        """Whether one of them is stdout."""
        return STDIO in self.paths.values()

    def check(self, inputs: Iterable[Path] = (), others: Iterable[Output] = ()) -> None:
        """Raise an ArgumentError, as `check_outputs`, before the work."""
        outputs = [
            Output(f"--{option}", path, _ENDINGS[option], text=True)
            for option, path in self.paths.items()
        ]
        check_outputs([*outputs, *others], inputs)

    def write(self, **contents: Callable[[], str | bytes]) -> None:
        """Write them: by option, what returns the content."""
        for option, content in contents.items():
            if option in self.paths:
                text = content()
                data = text.encode() if isinstance(text, str) else text
                write_whole(self.paths[option], data)
