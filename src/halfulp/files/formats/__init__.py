"""The formats: each finds the tensors of a file, and reads any part of them."""
