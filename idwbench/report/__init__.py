"""Reports: rows to numbers, numbers to tables and figures."""
