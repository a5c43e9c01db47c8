"""exp and log in float32 without branches, so that loops can be vectorised; the error is at most 2 ulp."""

import numpy as np

from idwbench.training.kernels.jit import exact_kernel

__all__ = ["exp32", "log32"]

ONE = np.float32(1.0)
HALF = np.float32(0.5)
INFINITY = np.float32(np.inf)
LOG2_E = np.float32(1.44269504)
# ln 2, and the same in two parts whose products with small integers are exact.
LN_2 = np.float32(0.693147181)
LN_2_HIGH = np.float32(0.693359375)
LN_2_LOW = np.float32(-2.12194440e-4)
# Adding and subtracting 1.5·2²³ rounds to the nearest integer.
ROUNDER = np.float32(12582912.0)
SMALLEST = np.float32(-87.0)
LARGEST = np.float32(88.0)
# The remainder of exp beyond 1 + r + r²·(...), and of log beyond f − f²/2 + f³·(...): Cephes' minimax coefficients.
EXP_5, EXP_4, EXP_3, EXP_2, EXP_1, EXP_0 = (
    np.float32(c) for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5)
)
LOG_8, LOG_7, LOG_6, LOG_5, LOG_4, LOG_3, LOG_2, LOG_1, LOG_0 = (
    np.float32(c)
    for c in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip
SQRT_HALF_BITS = np.int32(0x3F3504F3)


@exact_kernel
def exp32(x: np.float32) -> np.float32:
    """Return eˣ; 0 below −87, +∞ above 88, NaN for NaN."""
    bounded = x if x > SMALLEST else SMALLEST
    bounded = bounded if bounded < LARGEST else LARGEST
    n = (bounded * LOG2_E + ROUNDER) - ROUNDER
    r = (bounded - n * LN_2_HIGH) - n * LN_2_LOW
    p = ((((EXP_5 * r + EXP_4) * r + EXP_3) * r + EXP_2) * r + EXP_1) * r + EXP_0
    power_of_two = np.int32((np.int32(n) + 127) << 23).view(np.float32)
    result = (p * (r * r) + r + ONE) * power_of_two
    result = np.float32(0.0) if x < SMALLEST else result
    result = INFINITY if x > LARGEST else result
    return result if x == x else x


@exact_kernel
def log32(x: np.float32) -> np.float32:
    """Return ln x of a positive normal number; +∞ for +∞ and NaN for NaN."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32((bits - SQRT_HALF_BITS) >> 23)
    f = np.int32(bits - (exponent << 23)).view(np.float32) - ONE
    p = LOG_8
    p = ((((p * f + LOG_7) * f + LOG_6) * f + LOG_5) * f + LOG_4) * f + LOG_3
    p = ((p * f + LOG_2) * f + LOG_1) * f + LOG_0
    square = f * f
    result = p * f * square - HALF * square + f + np.float32(exponent) * LN_2
    return result if x < INFINITY else x
