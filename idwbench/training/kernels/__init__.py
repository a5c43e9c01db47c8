"""What Numba compiles: whole epochs on one core, with hand-written gradients, outside the interpreter's lock.

Read in this order: `elementary` (exp and log), `scores` (value and derivative of each score), `similarities` (x·k and
d², and the gradients of keys through them), `network` (weights, outputs and losses, forward and backward), `updates`
(optimizers), `denormals` (a setting of the processor), `epochs` (the one kernel that Python calls), `jit` (how all of
it is compiled and cached).
"""
