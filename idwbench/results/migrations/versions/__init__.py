"""Revisions of the tables; a released revision is not edited."""
