"""The command line as tests call it: in this process, or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from halfulp.cli import main


def fail(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command line; return its one line on stderr, besides files written."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("wrote ")]
    assert err.endswith("\n")
    assert len(lines) == 1
    assert lines[0].startswith("halfulp: error: ")
    return lines[0] + "\n"


def facts(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run the command line with --json; return the object that it prints."""
    assert main([*arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert all(line.startswith("wrote ") for line in err.splitlines())

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    result: dict[str, Any] = json.loads(out, parse_constant=refuse)
    return result


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "halfulp", *arguments],
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        timeout=60,
        **options,
    )
