"""Speed, memory and accuracy, measured beside other libraries: ``halfulp bench``.

    cells ──> measure <── peers     in a process of its own (worker, child)
                 │
              results ──> goals ──> report, plot

Uses the public functions of halfulp only. Nothing here is loaded by
``import halfulp``; the other libraries are loaded in the process that measures.
"""
