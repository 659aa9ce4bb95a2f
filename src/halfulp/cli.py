"""The command line.

May import errors, guard, limits, output, settings and commands. Only commands and
terminal import typer and rich; each command loads what it needs when it runs.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import halfulp
from halfulp import limits
from halfulp.commands.bench import app as bench
from halfulp.commands.check import check
from halfulp.commands.convert import convert
from halfulp.commands.docs import docs
from halfulp.commands.info import info
from halfulp.commands.merge import merge
from halfulp.commands.rewrite import expand, fuse
from halfulp.commands.run import run
from halfulp.commands.stats import stats
from halfulp.commands.sum import sum_files
from halfulp.commands.verify import verify
from halfulp.errors import HalfulpError
from halfulp.guard import guarded
from halfulp.output import telling
from halfulp.settings import check_environment
from halfulp.terminal import printable

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    # Boxes would cut words where they are narrow.
    rich_markup_mode=None,
)
app.command(no_args_is_help=False)(run)
app.command(no_args_is_help=False)(check)
app.command(no_args_is_help=False)(convert)
app.command(no_args_is_help=False)(fuse)
app.command(no_args_is_help=False)(expand)
app.command(no_args_is_help=False)(docs)
app.command(no_args_is_help=False)(verify)
app.command(no_args_is_help=False)(stats)
app.command("sum", no_args_is_help=False)(sum_files)
app.command(no_args_is_help=False)(merge)
app.command()(info)
app.add_typer(bench, name="bench")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process. The command then runs in a child with limits
        of memory and time, which may crash (`halfulp.guard`); else in this process.

    Returns
    -------
    int
        The exit code: 0; 2 after bad input, a crash of the child, or where memory or time
        is not enough, told in one line on stderr; 130 after an interrupt; 1 if
        nobody reads the output any more.
    """
    if arguments is None:
        return guarded(lambda: _run(sys.argv[1:]), _fail)
    return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stdout is None:
        sys.stdout = _ClosedStream()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, open until the process ends
    try:
        check_environment()
        with telling(_tell_written):
            code = app(args=arguments, prog_name="halfulp", standalone_mode=False)
        sys.stdout.flush()
    except HalfulpError as error:
        return _fail(str(error))
    except typer.TyperException as error:
        return _fail(error.format_message())
    except MemoryError:
        return _fail(f"not enough memory{limits.memory_allowed()}")
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _drop(sys.stdout)
        return 1
    except OSError as error:
        _drop(sys.stdout)
        return _fail(_file_error(error))
    return code or 0


def _file_error(error: OSError) -> str:
    """Return the line of an error that no command has put into words."""
    why = error.strerror or str(error)
    if error.filename is None:
        return f"cannot print: {why}"
    return f"the file {os.fsdecode(error.filename)!r}: {why}"


class _ClosedStream(io.TextIOBase):
    """stdout where it is closed: an error only if something is written."""

    def write(self, text: str, /) -> int:
        raise OSError("stdout is closed")


def _drop(stream: Any) -> None:
    """Let the interpreter flush a stream in vain when it exits."""
    if not isinstance(stream, _ClosedStream):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(message: str) -> int:
    _tell(f"halfulp: error: {' '.join(message.split())}")
    return 2


def _tell_written(path: Path) -> None:
    _tell(f"wrote {path}")


def _tell(line: str) -> None:
    """Print a line on stderr, if that can be written."""
    try:
        print(printable(line), file=sys.stderr)
    except OSError:
        _drop(sys.stderr)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"halfulp {halfulp.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Sums, means and norms along axes, correctly rounded.

    Commands that only read a model take at most 256 MiB of memory, and 256 bytes
    for each byte of the model; and 60 s, and 60 s for each MB of it.

    Example:  halfulp run model.onnx --input x=x.npy
    """
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)
