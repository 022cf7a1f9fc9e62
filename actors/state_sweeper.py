"""StateSweeper: what has expired goes (P3).

Owns nothing. Every period it deletes the expired entries of the runtime state and the durable snapshots of previews
whose time is over. Idempotent on any number of replicas (K6); a store or a database that does not answer is asked again
at the next turn.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from pagegate.actors.kernel import Actor
from pagegate.storage.engine import DatabaseUnavailable
from pagegate.storage.runtime_state import RuntimeState, StateUnavailable

log = structlog.get_logger()


async def _no_snapshots() -> int:
    return 0


def _nobody(_: int) -> None:
    return


class StateSweeper(Actor):
    """`forget_snapshots` deletes expired ones and answers how many; `swept` hears how many entries went."""

    def __init__(
        self,
        state: RuntimeState,
        period_s: float,
        *,
        forget_snapshots: Callable[[], Awaitable[int]] = _no_snapshots,
        swept: Callable[[int], None] = _nobody,
    ) -> None:
        super().__init__()
        self._state, self._period_s = state, period_s
        self._forget_snapshots, self._swept = forget_snapshots, swept

    async def setup(self) -> None:
        self.every(self._period_s, "sweep")

    async def on_receive(self, message: Any) -> Any:
        assert message == "sweep"
        try:
            entries = await self._state.sweep()
            self._swept(entries)
            snapshots = await self._forget_snapshots()
        except (StateUnavailable, DatabaseUnavailable) as error:
            log.warning("runtime.state.sweep_failed", reason=str(error))
            return
        if entries or snapshots:
            log.info("runtime.state.swept", entries=entries, snapshots=snapshots)
