"""Making a model out of a model: converted, fused, expanded, with types filled in.

May import, beside what model may, the rooms model and check.
"""

from halfulp.onnx.rewrite.reports import Candidate, RewriteReport

__all__ = ["Candidate", "RewriteReport"]
