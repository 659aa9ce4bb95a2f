"""Tensors in files: reading them part by part, and summing them in bounded memory.

`tensors` says what a tensor in a file is, `formats` finds those of a file, `sums` adds
them up. Nothing in a file is ever executed.
"""
