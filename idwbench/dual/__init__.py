"""The dual form of gradient descent: a linear layer as attention over every input of its training."""
