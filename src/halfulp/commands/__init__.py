"""The commands of the command line, a file each.

May import errors and typer at once and, within a command, the rest of halfulp.
"""
