"""The steps, in the order of their numbers; one that was released is never edited."""
