"""Reading any model: its files, tensors, nodes, scopes, functions, types and shapes.

`open` is the one way to open a model. May import the core, spec, what reads and writes
bytes, and files; of halfulp.onnx this room only.
"""
