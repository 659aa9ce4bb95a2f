"""Sums of squares of the tensors in files, in bounded memory.

`readers` finds the tensors of a file, `sums` adds them up, `totals` keeps what is summed
and saves it. Nothing in a file is ever executed.
"""
