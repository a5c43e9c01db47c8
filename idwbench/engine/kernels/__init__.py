"""What Numba compiles: whole epochs on one core, gradients written by hand, no lock held.

Read in this order: `elementary` (exp and log), `scores` (value and derivative of each score), `measures` (x·k and d²,
and what a key learns through them), `updates` (Adam), `epochs` (softmax, cross-entropy, the step, the epoch).
"""
