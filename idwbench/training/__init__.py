"""Training engines, and the compiled kernels of the fused engine."""
