"""What came of runs: for the terminal, as Markdown, for a CI service, as a page."""
