"""`idwbench card`: what a model file says of its model."""

from __future__ import annotations

from typing import Any

from idwbench.cli.options import DEFAULT_DATABASE, Database, DataDir, Json, ModelOrRun, Plugins, load_plugins
from idwbench.cli.output import echo_json, print_facts

__all__ = ["card"]


def card(
    model: ModelOrRun,
    db: Database = DEFAULT_DATABASE,
    data_dir: DataDir = None,
    plugin: Plugins = None,
    json: Json = False,
) -> None:
    """Print the card of a model: its data, protocol, accuracies, patches, versions and run key."""
    from idwbench.exports.model import model_card

    load_plugins(plugin)
    found = model_card(model, db, data_dir=data_dir)
    if json:
        echo_json(found, indent=2)
    else:
        print_facts(_facts(found))


def _facts(card: dict[str, Any]) -> dict[str, Any]:
    """Return what a card has, by names for readers."""
    dataset = card["dataset"] or {}
    image = "x".join(map(str, card["image_shape"] or ()))
    return {
        "model": card["model"],
        "score": card["formula"],
        "prototypes": card["prototypes"],
        "features": f"{card['features']}{f' ({image} pixels)' if image else ''}",
        "classes" if card["classes"] else "outputs": ", ".join(card["classes"]) or card["outputs"],
        "dataset": dataset.get("label"),
        "sha256 of the data": dataset.get("sha256"),
        "protocol": _pairs(card["protocol"]),
        "seed": card["seed"],
        **{f"{split} metrics": _pairs(values) for split, values in card["metrics"].items()},
        "patches": len(card["patches"]),
        **{f"{split}, patched": _pairs(values) for split, values in (card["metrics_with_patches"] or {}).items()},
        "run key": card["run_key"],
        **{name: text for name, text in card["provenance"].items() if name != "versions"},
        "versions": _pairs(card["provenance"].get("versions")),
    }


def _pairs(facts: dict[str, Any] | None) -> str:
    shown = {name: f"{fact:.6g}" if isinstance(fact, float) else fact for name, fact in (facts or {}).items()}
    return ", ".join(f"{name} {fact}" for name, fact in shown.items())
