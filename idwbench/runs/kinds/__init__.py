"""The kinds of models: their settings, one file each."""
