"""Backends by name, and asking one in a process of its own."""
