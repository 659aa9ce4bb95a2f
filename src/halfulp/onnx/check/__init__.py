"""What can be said of the ReduceSumSquare nodes of a model before it runs.

May import, beside what model may, the room model.
"""
