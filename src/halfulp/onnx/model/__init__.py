"""Reading any model: its files, tensors, nodes, scopes, functions, types and shapes.

Imports nothing of the rooms beside it: check, run and rewrite are above.
"""
