"""Addresses of clusters: ``local:2``, ``tcp://host:8786``, ``tls://host:8786``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from idwbench.errors import ConfigError

__all__ = ["ClusterAddress"]

_EXPECTED = "expected local:N, tcp://host:port or tls://host:port"
_LOCAL = re.compile(r"local:([0-9]{1,4})")
_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]]+):([0-9]{1,5})")


@dataclass(frozen=True)
class ClusterAddress:
    """The address of a cluster.

    Attributes:
        text: As it was given.
        workers: The number of processes to start on this computer, or 0 for the address of a scheduler.
    """

    text: str
    workers: int = 0

    @classmethod
    def parse(cls, text: str) -> ClusterAddress:
        """Return the address for a text.

        Raises:
            ConfigError: it is neither ``local:N`` nor the address of a scheduler.
        """
        if local := _LOCAL.fullmatch(text):
            if (workers := int(local[1])) > 0:
                return cls(text, workers)
        elif (remote := _REMOTE.fullmatch(text)) and 0 < int(remote[3]) < 2**16:
            return cls(text)
        raise ConfigError(f"{text!r} is no address of a cluster", location=("dask",), hint=_EXPECTED)
