"""The page of an operator: its data, as Markdown, as HTML.

May import errors, html, spec and onnx.
"""
