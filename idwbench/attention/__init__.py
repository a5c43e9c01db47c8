"""The mathematics: scores of queries and keys, weightings of scores, and the registry of methods."""
