"""What can be said of the ReduceSumSquare nodes of a model before it runs.

Imports the room model, and neither run nor rewrite.
"""
