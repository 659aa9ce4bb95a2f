"""What can be said of a model's nodes that reduce, before it runs.

May import, beside what model may, the room model.
"""
