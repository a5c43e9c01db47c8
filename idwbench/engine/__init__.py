"""Engines: what executes training, behind one contract."""
