"""How long to wait before trying again: exponential with jitter, capped (Q2)."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """`delay_s(n, rnd)` of the n-th failure in a row (from 1): up to `first_s · factor^(n-1)`, never above `max_s`.

    The jitter is the upper half of the interval: enough to spread a herd, and a failure is never retried at once.
    """

    first_s: float = 0.1
    factor: float = 2.0
    max_s: float = 30.0

    def delay_s(self, failures: int, rnd: random.Random) -> float:
        assert failures >= 1
        # The exponent is bounded: the hundredth failure must not overflow a float on its way to max_s.
        ceiling_s = min(self.max_s, self.first_s * self.factor ** min(failures - 1, 64))
        return ceiling_s * rnd.uniform(0.5, 1.0)
