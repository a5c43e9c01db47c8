"""Reports: from stored runs to statistics, comparisons and tables."""
