"""Numba kernels with hand-written gradients, which release the GIL.

`scores`: value and derivative of each score, exp and log; `similarities`: x·k and d², and gradients of keys; `network`:
weights, outputs and losses, forward and backward; `updates`: optimizers; `denormals`: flush to zero; `scratch`: memory;
`epochs`: the entry point; `neighbours`: nearest keys of a stack; `jit`: compilation and cache.
"""
