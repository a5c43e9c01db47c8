"""What a run is and what it gave, without a tensor library: settings, run keys, results."""
