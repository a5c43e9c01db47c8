"""What each figure shows, collected from stored runs: functions ``(store, runs, data_dir) -> Drawing``."""
