"""Write each measured figure and table of the documents from what is in results/.

    python benchmarks/claims.py           writes README.md, docs/benchmarks*.md and .svg
    python benchmarks/claims.py --check   writes nothing; exits with 1 if a text differs

Nothing is measured here: `make bench` and `make peers` do, with date, machine and
versions. Pictures need matplotlib; --check does not look at them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from halfulp.bench import report
from halfulp.bench.results import Run, load

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"


def peers_table(result: dict[str, Any]) -> str:
    """The README's table of what others give."""
    rows = result["rows"]
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(r.values()) for r in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    rules = f"|{'---|' * len(rows[0])}"
    return table.replace(f"| {' | '.join(lines[1])} |", rules)


def peers_note(result: dict[str, Any]) -> str:
    """When the table was measured, and with what."""
    versions = result["versions"]
    return (
        f"Measured by `make peers` (benchmarks/what_others_give.py) on {result['date']}, "
        f"{result['machine']},\nonnxruntime {versions['onnxruntime']}, "
        f"numpy {versions['numpy']}."
    )


def readme(text: str, result: dict[str, Any]) -> str:
    """README.md with its table of what others give as measured."""
    table = peers_table(result)
    start = text.index(table.split("\n", 1)[0])
    end = text.index("An int32 sum that does not fit", start)
    return f"{text[:start]}{table}\n\n{peers_note(result)} {text[end:]}"


def speed(run: Run) -> str:
    """docs/benchmarks.md: what was measured, and the notes on it."""
    return report.markdown(run) + (ROOT / "benchmarks/notes.md").read_text("utf-8")


def texts() -> dict[Path, str]:
    """Each document that holds what was measured, as it should be."""
    peers = json.loads((RESULTS / "peers.json").read_text("utf-8"))
    path = ROOT / "README.md"
    return {
        path: readme(path.read_text("utf-8"), peers),
        ROOT / "docs/benchmarks.md": speed(load(RESULTS / "speed.json")),
        ROOT / "docs/benchmarks-onnxruntime.md": report.markdown(
            load(RESULTS / "onnxruntime.json")
        ),
    }


def main() -> int:
    """Write the documents, or tell which differ."""
    wanted = texts()
    if sys.argv[1:] == ["--check"]:
        found = [p for p, text in wanted.items() if p.read_text("utf-8") != text]
        for path in found:
            print(f"{path.relative_to(ROOT)} differs from benchmarks/results")
        return bool(found)
    from halfulp.bench.plot import draw

    for path, text in wanted.items():
        path.write_text(text, "utf-8")
    for name, picture in (
        ("speed", "benchmarks"),
        ("onnxruntime", "benchmarks-onnxruntime"),
    ):
        image = draw(load(RESULTS / f"{name}.json"), ".svg")
        (ROOT / f"docs/{picture}.svg").write_bytes(image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
