"""What Numba compiles: whole epochs on one core, gradients written by hand, the interpreter's lock released.

Read in this order: `elementary` (exp and log), `scores` (value and derivative of each score), `measures` (x·k and d²,
and what keys learn through them), `network` (softmax and cross-entropy, forward and backward), `updates` (Adam),
`epochs` (the one kernel that Python calls), `jit` (how all of it is compiled and cached).
"""
