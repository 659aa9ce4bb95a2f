"""Child processes that answer requests: whatever they do, the parent is told how."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from halfulp.children import Child, ChildEndedError
from processes import ended

# A module that does what it is asked to.
ANSWERING = """
import os, signal, subprocess, sys, time
from halfulp import children

parent = children.parent()
for (word, *arguments), contents in parent:
    if word == "exit":
        print("no device", flush=True)
        sys.exit(3)
    if word == "fall":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "half":
        parent._connection._send(b"\\0\\0\\0\\x09half")
        os._exit(0)
    if word == "hang":
        time.sleep(600)
    if word == "start":
        code = "import time; time.sleep(600)"
        arguments = [os.getpid(), subprocess.Popen([sys.executable, "-c", code]).pid]
    if word == "print":
        print("text among the answers", flush=True)
        os.write(1, b"and more")
    if word == "read":
        arguments = [sys.stdin.read()]
    parent.send(arguments, contents)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    (tmp_path / "answering.py").write_text(ANSWERING)
    monkeypatch.chdir(tmp_path)
    with Child("answering", safe=False) as child:
        yield child


def test_messages_are_json_and_bytes(child: Child) -> None:
    facts = [1.5, None, {"a": "µ"}]
    contents = [b"", b"\0\n{", bytes(3 << 20)]
    assert child.ask(["echo", *facts], contents) == (facts, contents)
    assert child.ask(["echo"]) == ([], [])


def test_what_a_child_prints_or_reads_is_no_message(child: Child) -> None:
    assert child.ask(["print", 1]) == ([1], [])
    assert child.ask(["read"]) == ([""], [])


@pytest.mark.parametrize(
    ("word", "how"),
    [
        ("exit", "exit code 3: no device"),
        ("fall", "signal 11 (SIGSEGV)"),
        ("half", "exit code 0"),
    ],
)
def test_an_end_is_told(child: Child, word: str, how: str) -> None:
    with pytest.raises(ChildEndedError) as info:
        child.ask([word])
    assert (str(info.value), info.value.hung) == (how, False)


def test_an_end_is_told_where_a_child_can_only_be_reaped(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid")
    with pytest.raises(ChildEndedError, match="exit code 3: no device"):
        child.ask(["exit"])


@pytest.mark.parametrize("contents", [[], [bytes(8 << 20)]], ids=["read", "written to"])
def test_a_child_that_hangs_is_ended_when_it(child: Child, contents: list[bytes]) -> None:
    start = time.monotonic()
    # The second request is more than a pipe holds, and nobody reads it.
    child._link.send(["hang"])
    with pytest.raises(ChildEndedError) as info:
        child.ask(["echo"], contents, limit=0.5)
    assert info.value.hung
    assert time.monotonic() - start < 20


def test_no_child_outlives_its_parent_nor_does_what_it_started(tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text(ANSWERING)
    code = """
from halfulp.children import Child
child = Child("answering", safe=False)
print(*child.ask(["start"])[0], flush=True)
child.ask(["hang"])
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=tmp_path
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        time.sleep(0.2)
        for pid in pids:
            os.kill(pid, 0)
        parent.send_signal(signal.SIGKILL)
    try:
        assert all(map(ended, pids))
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
