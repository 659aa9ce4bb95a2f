"""Random bytes for everything that reads bytes; `make fuzz` runs it.

    python tests/fuzz/fuzz_bytes.py SECONDS [SEED]        all targets, and fuzz*.py
    python tests/fuzz/fuzz_bytes.py TARGET [OPTION ...]   one, with options of libFuzzer

Atheris changes the bytes and watches which code they reach. Seeds are in corpus/TARGET;
what is found lies in build/fuzz/TARGET (after a crash of native code it is `last`), and
belongs into the corpus once it is mended: test_corpus.py runs all that is there.
"""

from __future__ import annotations

import faulthandler
import resource
import secrets
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))
FOUND = HERE.parents[1] / "build/fuzz"

# Of one input: seconds, and mebibytes of the process.
LIMITS = ["-timeout=10", "-rss_limit_mb=2048"]
_ADDRESS_SPACE = 2**33


def run_target(name: str, options: list[str]) -> None:
    """Run one target; never returns."""
    import atheris

    # What is imported before is not watched.
    with atheris.instrument_imports(include=["halfulp", "numpy.lib"]):
        from fuzz_targets import TARGETS, mutate_message
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    target = TARGETS[name]
    settings = {}
    if target.message is not None:
        kind = target.message

        def mutate(data: bytes, size: int, seed: int) -> bytes:
            return mutate_message(
                kind, data, seed, lambda part: atheris.Mutate(part, len(part) + 8)
            )[:size]

        settings["custom_mutator"] = mutate
    # What crashes native code leaves no other trace.
    last = FOUND / name / "last"
    last.parent.mkdir(parents=True, exist_ok=True)
    faulthandler.enable()

    def run(data: bytes) -> None:
        last.write_bytes(data)
        target.run(data)

    atheris.Setup([sys.argv[0], *options], run, **settings)
    atheris.Fuzz()


def run_all(seconds: int, seed: int) -> int:
    """Run every target for its share of the time; return how many found something."""
    from fuzz_targets import TARGETS

    exactness = {
        "exactness": "fuzz.py",
        "joined": "fuzz_joined.py",
        "logarithms": "fuzz_logarithms.py",
    }
    share = seconds // (len(TARGETS) + len(exactness))
    commands = {
        name: [sys.executable, HERE / script, str(share), str(seed)]
        for name, script in exactness.items()
    }
    for name in TARGETS:
        found = FOUND / name
        found.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={share}", f"-seed={seed}", *LIMITS]
        options.append(f"-artifact_prefix={found}/found-")
        folders = [str(found / "corpus"), str(HERE / "corpus" / name)]
        (found / "corpus").mkdir(exist_ok=True)
        commands[name] = [sys.executable, HERE / "fuzz_bytes.py", name]
        commands[name] += [*options, *folders]
    failed = []
    for name, command in commands.items():
        print(f"--- {name}, {share} seconds", flush=True)
        # libFuzzer tells of every new input, and Atheris of every module.
        done = subprocess.run(command, stderr=subprocess.PIPE)
        told = done.stderr.decode(errors="replace").strip()
        if done.returncode:
            failed.append(name)
            print(told[-3000:], flush=True)
        else:
            print(told.rpartition("\n")[2], flush=True)
    print("--- " + (f"found: {', '.join(failed)}" if failed else "nothing found"))
    return len(failed)


def main() -> int:
    first, *rest = sys.argv[1:] or ["60"]
    if not first.isdecimal():
        run_target(first, rest)
    return run_all(int(first), int(rest[0]) if rest else secrets.randbits(31))


if __name__ == "__main__":
    sys.exit(main())
