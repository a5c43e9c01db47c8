"""The figures, tables and claims of arXiv 2310.18805 from the runs of a database."""
