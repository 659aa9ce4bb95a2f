"""Sums of squares of tensors in files: added up, kept, saved, rounded."""
