"""Running a model, what it is fed, and what comes out.

May import, beside what model may, the rooms model and check, and ops.
"""
