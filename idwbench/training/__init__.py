"""Training: engines behind one contract, and the compiled kernels of one of them."""
