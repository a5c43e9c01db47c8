"""Changes to the content of a sweep file, such as fewer seeds for a first look."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from copy import deepcopy
from typing import Any

from ruamel.yaml import YAML

from idwbench.errors import ConfigError, did_you_mean
from idwbench.runs.protocol import Protocol

__all__ = ["changed_source"]


def changed_source(content: Any, changes: Mapping[str, Any], keys: Collection[str]) -> str:
    """Return the text of a sweep file with other values: what the stored sweep has as its source.

    A change is named by one of the `keys` of a sweep file, by an axis of the grid, which is changed in the blocks that
    have it, by another setting of the protocol, or by a setting of a mapping in the file, as ``dataset.noise``.

    Raises:
        ConfigError: nothing in the file has that name, or a setting is named of what is no mapping.
    """
    changed = deepcopy(content) if isinstance(content, dict) else {}
    blocks = changed.get("grid")
    blocks = [block for block in (blocks if isinstance(blocks, list) else [blocks]) if isinstance(block, dict)]
    for name, value in changes.items():
        having = [block for block in blocks if name in block]
        part, _, setting = name.partition(".")
        if name in keys:
            changed[name] = value
        elif having:
            for block in having:
                block[name] = value
        elif name in Protocol.model_fields:
            changed["protocol"] = {**(changed.get("protocol") or {}), name: value}
        elif part in keys and setting:
            changed[part] = _mapping(part, changed.get(part)) | {setting: value}
        else:
            known = [*keys, *Protocol.model_fields, *(axis for block in blocks for axis in block)]
            raise ConfigError(f"nothing in the sweep is called '{name}'", hint=did_you_mean(name, known))
    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump(changed, stream)
    return stream.getvalue()


def _mapping(key: str, content: Any) -> dict[str, Any]:
    if key == "dataset" and isinstance(content, str):
        return {"name": content}
    if not isinstance(content, dict | None):
        raise ConfigError(f"'{key}' is no mapping", hint=f"give all of it, as {key}=…")
    return content or {}
