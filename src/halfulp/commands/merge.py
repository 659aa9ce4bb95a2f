"""The command ``halfulp merge``: join what several runs of halfulp sum have saved.

May import errors, output, terminal, commands.reading and commands.sum and, within the
command, halfulp.files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from halfulp.commands.reading import Failures, Strict
from halfulp.commands.sum import (
    Dtype,
    Output,
    ReductionName,
    State,
    check_sum_outputs,
    show,
)
from halfulp.errors import HalfulpError
from halfulp.output import STDIO
from halfulp.terminal import AsCsv, AsJson, check_forms


def merge(
    states: Annotated[
        list[Path],
        typer.Argument(
            metavar="STATE...",
            help="Files of halfulp sum --state; folders, for all .state files below "
            "them; or patterns.",
        ),
    ],
    reduction: ReductionName = None,
    dtype: Dtype = None,
    output: Output = None,
    state: State = None,
    strict: Strict = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Join the sums that several runs of halfulp sum have saved.

    They may come from any machines and in any order: the result is that of one run, and
    so are the bytes of OUT.

    Example:  halfulp merge shard-*.state --json
    """
    from halfulp.files.paths import named_files
    from halfulp.files.sums.facts import (
        array_facts,
        merged_arrays,
        named_reduction,
        reduction_of,
        result_type,
        total_facts,
    )
    from halfulp.files.sums.state_file import read_totals, write_totals
    from halfulp.files.sums.totals import Totals
    from halfulp.output import whole_file

    check_forms(as_json, as_csv, output, state)
    target = result_type(dtype)
    if reduction is not None:
        named_reduction(reduction)
    paths, none = named_files(states, (".state",))
    failures = Failures(strict, paths, none)
    totals: Totals | None = None
    for path in paths:
        try:
            read = read_totals(path)
            if totals is not None:
                totals.merge(read)
        except HalfulpError as error:
            failures.add(path, error)
            continue
        if totals is None:
            check_sum_outputs(output, state, read.axis, paths)
            totals = read
    if totals is None:
        totals, state = Totals(False), None
    row = reduction_of(totals, reduction)
    facts: dict[str, Any]
    if totals.axis is None:
        facts = total_facts(totals, target)
    else:
        facts = {"results": array_facts(merged_arrays(totals, row), target, output)}
    if state is not None:
        with whole_file(state) as file:
            write_totals(totals, file)
    facts["reduction"] = row.name
    show(totals, facts, failures, as_json, as_csv, stderr=STDIO in (output, state))
