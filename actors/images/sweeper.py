"""StagedSweeper: deletes answers' bytes whose jobs have long ended (A1).

Owns no state. Hears its timer only. An answer waits in the object store from the moment it was heard until its job's
commit; a job that is tried again finds it there. It is deleted by its age, later than any job's deadline, so that what
a commit has copied, a cancel has left and a crash has lost go the same way. Any number of replicas may sweep.
"""

from dataclasses import dataclass
from typing import Any

import structlog

from pagegate.actors.kernel import Actor, ChildEnded
from pagegate.storage.images import STAGED
from pagegate.storage.objects import Objects, ObjectStoreUnavailable

log = structlog.get_logger()

KEPT_S = 24 * 3600.0
_PERIOD_S = 3600.0


@dataclass(frozen=True)
class _Due:
    pass


@dataclass(frozen=True)
class _Swept:
    ended: ChildEnded[int]


class StagedSweeper(Actor):
    """`kept_s`: how long an answer stays; `period_s` seconds lie between two passes, the first begins at once."""

    def __init__(self, objects: Objects, *, kept_s: float = KEPT_S, period_s: float = _PERIOD_S) -> None:
        super().__init__()
        self._objects, self._kept_s, self._period_s = objects, kept_s, period_s

    async def setup(self) -> None:
        self.actor_ref.tell(_Due())

    async def on_receive(self, message: Any) -> Any:
        match message:
            case _Due():
                self.spawn(self._objects.delete_older(STAGED, self._kept_s), then=_Swept)
            case _Swept(ended):
                if isinstance(ended.error, ObjectStoreUnavailable):
                    log.warning("image.generation.staged.not_swept", reason=str(ended.error))
                elif ended.error is not None:
                    log.error("image.generation.staged.not_swept", exc_info=ended.error)
                elif ended.value:
                    log.info("image.generation.staged.swept", objects=ended.value)
                self.after(self._period_s, _Due())
            case _:
                return await super().on_receive(message)
