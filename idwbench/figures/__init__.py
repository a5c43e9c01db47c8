"""Figures as vector and raster graphics; `idwbench.figures.stored` draws them by name from the runs of a database."""

from idwbench.errors import ConfigError

try:
    import matplotlib  # noqa: F401  raises a ValueError for an unknown MPLBACKEND, before anything is drawn
except ValueError as error:
    raise ConfigError(f"MPLBACKEND: {error}") from None
