"""What ONNX says of ReduceSumSquare, as data and rules.

May import errors and element_types only.
"""
