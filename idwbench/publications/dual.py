"""The dual form of gradient descent: what layers attend to in the history of their training."""

from idwbench.publications.publication import Item, Publication

__all__ = ["DUAL"]

DUAL = Publication(
    "dual",
    "The dual form: which training samples does an answer attend to?",
    (
        Item("table_dual_form", "The class that each layer attends to", "dual_form"),
        Item("attention_by_class", "Attention to each class for one test image", "dual_history", "attention_by_class"),
        Item(
            "key_history", "Training images that moved a key, and that a layer attends to", "dual_keys", "key_history"
        ),
        Item("table_lstm", "Bits per character of LSTM language models", "lstm", ranked="test"),
        Item("table_lstm_perplexity", "Perplexity of LSTM language models", "lstm", metric="perplexity", ranked="test"),
    ),
    ("dual_form", "dual_history", "dual_keys", "lstm", "lstm_history"),
)
