"""Running a model, what it is fed, and what comes out.

Imports the rooms model and check, and not rewrite.
"""
