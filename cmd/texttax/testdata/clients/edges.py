"""Floats at which readers and writers of numbers have gone wrong, by their bits."""

import numpy as np

# Powers of two from the smallest subnormal to the largest, and their
# neighbours, where the distance between floats changes.
POWERS = np.ldexp(1.0, np.arange(-1074, 1024))

# Decimals of 17 digits, all of which are needed to tell them from their
# neighbours; a reader that rounds twice gets them wrong.
SEVENTEEN = np.array(
    [
        0.1 + 0.2,
        1052748004135.6885,
        0.9884619112598676,
        5.0216813883093451e-25,
        7.3879056099341453e-309,
        1.2345678901234567e-7,
        9.0071992547409917e15,
        2.2250738585072011e-308,
        1.7976931348623155e308,
        8.4408214753729983e-11,
        7.0420557077594588e2,
    ]
)

FINITE = np.concatenate(
    [
        [0.0, -0.0, 1.0, -1.0, 100.0, 1e21, 1e22, 1e23, 1e-7, 2.0**53, 2.0**53 + 2, 2.0**63, 2.0**64],
        np.arange(1, 100, dtype=np.uint64).view(np.float64),  # the smallest subnormals
        (np.uint64(1 << 52) - np.arange(1, 20, dtype=np.uint64)).view(np.float64),  # and the largest
        [np.finfo(np.float64).max, -np.finfo(np.float64).max, np.finfo(np.float64).tiny],
        POWERS,
        np.nextafter(POWERS, 0),
        np.nextafter(POWERS[:-1], np.inf),
        -POWERS,
        10.0 ** np.arange(-323, 309),
        SEVENTEEN,
        -SEVENTEEN,
        np.random.default_rng(11).integers(0, 0x7FF0000000000000, 5000, np.uint64).view(np.float64),
    ]
)

# Infinities, and NaNs that are quiet, with and without sign and payload.
QUIET = np.array(
    [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF, 0x7FF8DEADBEEF0001],
    np.uint64,
).view(np.float64)

# Signalling NaNs, which become quiet where a float passes through arithmetic
# or a conversion, as Python's own floats may.
SIGNALLING = np.array([0x7FF0000000000001, 0xFFF0000000000123, 0x7FF7FFFFFFFFFFFF], np.uint64).view(np.float64)

ALL = np.concatenate([FINITE, QUIET, SIGNALLING])
