"""Plugins on their way to workers: files by content, modules by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from idwbench.attention.scores import METHODS
from idwbench.errors import ClusterError, PluginError, error_summary
from idwbench.plugins import load_plugin_code, plugin_code
from idwbench.runs.config import RunConfig
from idwbench.sweep.cluster.tasks import PluginSource

__all__ = ["load_sources", "plugin_sources"]


def plugin_sources(configs: Sequence[RunConfig]) -> list[PluginSource]:
    """Return the plugins that register the methods of `configs`, each once.

    Raises:
        ClusterError: a method is defined in a notebook or script, which workers cannot load.
    """
    models = [config.model for config in configs if config.model.plugin_sha256 is not None]
    names = {getattr(model, field, None) for model in models for field in ("method", "head", "attention")}
    found: dict[str, PluginSource] = {}
    for name, method in METHODS.items():
        if name in names and method.sha256 is not None:
            source = found.setdefault(method.sha256, _source(name, method.sha256))
            source["methods"].append(name)
    return list(found.values())


def _source(name: str, sha256: str) -> PluginSource:
    if (file := plugin_code(sha256)) is not None:
        path, code = file
        return {"methods": [], "sha256": sha256, "path": str(path), "code": code, "module": ""}
    module = str(getattr(METHODS[name].score, "__module__", "__main__"))
    spec = getattr(sys.modules.get(module), "__spec__", None)
    if module == "__main__" or spec is None:
        hint = "move it to a file that is loaded as a plugin"
        raise ClusterError(f"method '{name}' is defined in a notebook or script, which workers cannot load", hint=hint)
    return {"methods": [], "sha256": sha256, "path": "", "code": None, "module": module}


def load_sources(sources: Sequence[PluginSource]) -> None:
    """Register the methods of `sources`, and remove other plugins with the same names, as of an earlier sweep.

    Raises:
        PluginError: a plugin fails, or a module has other code than the driver's.
    """
    for source in sources:
        methods, sha256 = source["methods"], source["sha256"]
        if _registered(methods, sha256):
            continue
        for name in methods:
            METHODS.pop(name, None)
        if source["code"] is not None:
            load_plugin_code(Path(source["path"]), source["code"])
        else:
            _import(source["module"])
        if not _registered(methods, sha256):
            raise PluginError(f"the module {source['module']} differs from that of the driver: its checksum is another")


def _registered(methods: Sequence[str], sha256: str) -> bool:
    return all(name in METHODS and METHODS[name].sha256 == sha256 for name in methods)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except Exception as error:  # the code of a package can raise any exception
        raise PluginError(f"the module {module} cannot be imported: {error_summary(error)}") from None
