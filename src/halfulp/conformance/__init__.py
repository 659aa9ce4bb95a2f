"""Cases that show whether a backend computes ReduceSumSquare right, and their verdicts.

`halfulp verify` is its command. Nothing here calls the kernels, except the backends
that are asked to.
"""
