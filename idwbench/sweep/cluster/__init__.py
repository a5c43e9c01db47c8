"""Sweeps on a Dask cluster: the driver leases and stores runs, the workers train them."""
