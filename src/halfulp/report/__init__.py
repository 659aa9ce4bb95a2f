"""How pages, tables and pictures are written, whatever they are of."""
