"""The dual form of gradient descent: what layers attend to in the history of their training."""

from __future__ import annotations

from idwbench.publications.items import Item, Publication, find_sweeps

__all__ = ["DUAL", "DUAL_SWEEPS"]

# The stem of each file is the name of the sweep.
DUAL_SWEEPS: tuple[str, ...] = (
    "sweeps/dual_form.yaml",
    "sweeps/dual_history.yaml",
    "sweeps/dual_keys.yaml",
    "sweeps/lstm.yaml",
    "sweeps/lstm_history.yaml",
)
_ITEMS = (
    Item("table_dual_form", "The class that each layer attends to", "dual_form"),
    Item("attention_by_class", "Attention to each class for one test image", "dual_history", "attention_by_class"),
    Item("key_history", "Training images that moved a key, and that a layer attends to", "dual_keys", "key_history"),
    Item("table_lstm", "Bits per character of LSTM language models", "lstm", ranked="test"),
    Item("table_lstm_perplexity", "Perplexity of LSTM language models", "lstm", metric="perplexity", ranked="test"),
)
DUAL = Publication(
    "dual",
    "The dual form: which training samples does an answer attend to?",
    _ITEMS,
    None,
    find_sweeps(DUAL_SWEEPS),
)
