"""The commands, one module each, and what they alone use; cli.py lists them."""
