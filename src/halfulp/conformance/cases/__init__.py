"""The cases: each one node, its input and the one right result.

A case knows its result from halfulp.exact; nothing here may import the kernels.
"""
