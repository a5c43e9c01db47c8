"""Reports: statistics, comparisons and tables of stored runs."""
