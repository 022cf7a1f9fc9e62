"""RenderSlot: one attempt at a time in this Renderer (R2-R5).

Owns the engine's use, the results until they are fetched or expire, and everybody who waits for one. Hears
`StartAttempt`, `AwaitAttempt`, `FetchPicture`, `DropAttempt`, `ViewSlot`. Tells nobody anything. An asker that goes
away stops no attempt.

Decides in `slot_state.decide`. Survives a lost browser and one that does not come up (`broken`, tried again with
backoff); loses everything with its process: the Backend's lease sees to that.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import structlog

from pagegate.actors.kernel import Actor, Asks, ChildEnded, Reply, Timer
from pagegate.actors.rendering import slot_state as decided
from pagegate.actors.rendering.gauges import SlotGauges
from pagegate.actors.rendering.slot_state import Slot, decide
from pagegate.renderer.contract import AttemptError, RenderResult, RenderTask, SlotView
from pagegate.renderer.egress import Origin
from pagegate.renderer.engine import Engine, Performed

log = structlog.get_logger()

KEPT_BYTES_MAX = 256 * 1024 * 1024
DROPPED_MAX = 1024  # ids of dropped attempts that are remembered, the newest
_BROKEN_RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)


class SlotBusy(Exception):
    """No attempt was made (R3): ask again."""


class SlotBroken(Exception):
    """No browser comes up here."""


class AttemptDropped(Exception):
    """It was dropped before: this start comes late, or once more, and nobody wants it any more."""


class AttemptUnknown(Exception):
    """Never started here, forgotten, or expired."""


@dataclass(frozen=True)
class StartAttempt(Asks[None]):
    """Answered when the attempt is accepted. Asked again for a known one it starts nothing.

    Raises `SlotBusy`, `SlotBroken`, `AttemptDropped`.
    """

    task: RenderTask
    origin: Origin = field(repr=False)


@dataclass(frozen=True)
class AwaitAttempt(Asks[Performed | None]):
    """The result, or None when it has not ended within `wait_s`. Raises `AttemptUnknown`."""

    attempt_id: str
    wait_s: float


@dataclass(frozen=True)
class DropAttempt(Asks[None]):
    """End it if it runs, forget its result (R5). An unknown one is fine."""

    attempt_id: str


@dataclass(frozen=True)
class ViewSlot(Asks[SlotView]):
    pass


@dataclass(frozen=True)
class _Ended:
    attempt_id: str
    ended: ChildEnded[Performed]


@dataclass(frozen=True)
class _Cleaned:
    ended: ChildEnded[None]


@dataclass(frozen=True)
class _SpareKept:
    ended: ChildEnded[None]


@dataclass(frozen=True)
class _KeepSpare:
    pass


@dataclass(frozen=True)
class _LetSpareGo:
    pass


@dataclass(frozen=True)
class _Expire:
    attempt_id: str


@dataclass(frozen=True)
class _StopWaiting:
    attempt_id: str
    reply: Reply[Performed | None]


@dataclass
class _Attempt:
    """One attempt from its acceptance to its end or expiry."""

    asked: StartAttempt
    accepted_s: float
    performed: Performed | None = None
    waiting: dict[Reply[Performed | None], Timer] = field(default_factory=dict)


class RenderSlot(Actor):
    """`result_ttl_s` as `RENDER_RESULT_TTL_SECONDS` (R5); `spare_idle_s`: how long a spare waits without work."""

    def __init__(
        self, engine: Engine, worker_id: str, gauges: SlotGauges, *, result_ttl_s: float, spare_idle_s: float
    ) -> None:
        super().__init__()
        self._engine, self._worker_id, self._gauges = engine, worker_id, gauges
        self._result_ttl_s, self._spare_idle_s = result_ttl_s, spare_idle_s
        self._slot = Slot()
        self._attempts: dict[str, _Attempt] = {}
        self._dropped: dict[str, None] = {}  # the oldest first
        self._task: asyncio.Task[None] | None = None
        self._spare_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._keeping = False
        self._failures = 0

    async def setup(self) -> None:
        await self._engine.clean(kill=True)  # what an earlier life of this actor left open
        self._keep_spare()

    async def on_receive(self, message: Any) -> Any:
        answer = await self._dispatch(message)
        self._gauges.show(self._slot.state, kept_bytes=self._kept_bytes(), spare=self._engine.spare_waiting)
        return answer

    async def _dispatch(self, message: Any) -> Any:
        match message:
            case StartAttempt():
                return self._start(message)
            case AwaitAttempt(attempt_id, wait_s):
                return self._await(attempt_id, wait_s)
            case DropAttempt(attempt_id):
                self._remember_dropped(attempt_id)
                return self._advance(decided.Dropped(attempt_id))
            case ViewSlot():
                return self._view()
            case _Ended(attempt_id, ended):
                return self._ended(attempt_id, ended)
            case _Cleaned(ended):
                return self._cleaned(ended)
            case _SpareKept(ended):
                return self._spare_kept(ended)
            case _KeepSpare():
                return self._keep_spare()
            case _LetSpareGo():
                return await self._let_spare_go()
            case _Expire(attempt_id):
                return self._forget(attempt_id)
            case _StopWaiting(attempt_id, reply):
                return self._stop_waiting(attempt_id, reply)
            case _:
                return await super().on_receive(message)

    # -- asked ----------------------------------------------------------------------------------------------------

    def _start(self, asked: StartAttempt) -> None:
        attempt_id = asked.task.attempt_id
        if attempt_id in self._dropped:
            raise AttemptDropped(attempt_id)
        known = attempt_id in self._attempts
        slot, effects = decide(self._slot, decided.Asked(attempt_id, known))
        for effect in effects:
            if isinstance(effect, decided.Refuse):
                raise SlotBroken if effect.reason == "broken" else SlotBusy
        if not known:
            self._attempts[attempt_id] = _Attempt(asked, self.now_s())
        self._slot = slot
        self._run(effects)

    def _await(self, attempt_id: str, wait_s: float) -> Performed | None:
        attempt = self._attempts.get(attempt_id)
        if attempt is None:
            raise AttemptUnknown(attempt_id)
        if attempt.performed is not None or wait_s <= 0:
            return attempt.performed
        reply: Reply[Performed | None] = self.defer_reply()
        attempt.waiting[reply] = self.after(wait_s, _StopWaiting(attempt_id, reply))
        return None

    def _view(self) -> SlotView:
        return SlotView(
            worker_id=self._worker_id,
            slot_state=self._slot.state,
            attempt_id=self._slot.attempt_id,
            profile_digest=self._engine.profile_digest,
            profile=self._engine.profile,
        )

    # -- heard ----------------------------------------------------------------------------------------------------

    def _ended(self, attempt_id: str, ended: ChildEnded[Performed]) -> None:
        attempt = self._attempts[attempt_id]
        cancelled = isinstance(ended.error, asyncio.CancelledError)
        self._tell(attempt, ended)
        if cancelled:
            self._forget(attempt_id)
        else:
            attempt.performed = ended.value or self._fault(attempt.asked.task, ended.error)
            for reply, timer in attempt.waiting.items():
                timer.cancel()
                reply.give(attempt.performed)
            attempt.waiting.clear()
            self.after(self._result_ttl_s, _Expire(attempt_id))
            self._make_room()
        self._advance(decided.Ended(attempt_id, cancelled))

    def _cleaned(self, ended: ChildEnded[None]) -> None:
        if ended.error is not None:
            log.error("renderer.cleaning_failed", exc_info=ended.error)
        self._advance(decided.Cleaned())

    def _spare_kept(self, ended: ChildEnded[None]) -> None:
        self._keeping = False
        if ended.error is None:
            self._failures = 0
            self._spare_timer = self.after(self._spare_idle_s, _LetSpareGo())
            self._advance(decided.SpareReady())
            return
        self._failures += 1
        log.warning("renderer.no_browser", failures=self._failures, error=str(ended.error))
        self._advance(decided.SpareFailed())

    async def _let_spare_go(self) -> None:
        """A minute without work: the memory is worth more than the next attempt's quarter of a second."""
        if self._slot.state == "idle":
            await self._engine.rest()
            log.info("renderer.spare_let_go")

    # -- effects --------------------------------------------------------------------------------------------------

    def _advance(self, event: decided.Event) -> None:
        self._slot, effects = decide(self._slot, event)
        self._run(effects)

    def _run(self, effects: list[decided.Effect]) -> None:
        for effect in effects:
            match effect:
                case decided.Start(attempt_id):
                    self._perform(attempt_id)
                case decided.Clean(kill):
                    self.spawn(self._engine.clean(kill=kill), _Cleaned)
                case decided.KeepSpare(later):
                    if later:
                        self._retry_spare()
                    else:
                        self._keep_spare()
                case decided.Cancel():
                    assert self._task is not None
                    self._task.cancel()
                case decided.Forget(attempt_id):
                    self._forget(attempt_id)
                case decided.Refuse():
                    raise AssertionError("a refusal answers who asked")

    def _perform(self, attempt_id: str) -> None:
        asked = self._attempts[attempt_id].asked
        if self._spare_timer is not None:
            self._spare_timer.cancel()
            self._spare_timer = None
        work = self._engine.perform(asked.task, asked.origin)
        self._task = self.spawn(work, lambda ended: _Ended(attempt_id, ended))

    def _retry_spare(self) -> None:
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        pause_s = _BROKEN_RETRY_S[min(self._failures, len(_BROKEN_RETRY_S)) - 1]
        self._retry_timer = self.after(pause_s, _KeepSpare())

    def _keep_spare(self) -> None:
        if not self._keeping:
            self._keeping = True
            self.spawn(self._engine.keep_spare(), _SpareKept)

    # -- results --------------------------------------------------------------------------------------------------

    def _forget(self, attempt_id: str) -> None:
        attempt = self._attempts.pop(attempt_id, None)
        if attempt is None:
            return
        for reply, timer in attempt.waiting.items():
            timer.cancel()
            reply.fail(AttemptUnknown(attempt_id))

    def _remember_dropped(self, attempt_id: str) -> None:
        """A start may overtake nothing, but it may be overtaken: one that arrives after its drop must start nothing."""
        self._dropped.pop(attempt_id, None)
        self._dropped[attempt_id] = None
        if len(self._dropped) > DROPPED_MAX:
            del self._dropped[next(iter(self._dropped))]

    def _stop_waiting(self, attempt_id: str, reply: Reply[Performed | None]) -> None:
        attempt = self._attempts.get(attempt_id)
        if attempt is not None and attempt.waiting.pop(reply, None) is not None:
            reply.give(None)

    def _make_room(self) -> None:
        """Nobody fetches as slowly as this; whoever does renders again."""
        ended = [attempt_id for attempt_id, attempt in self._attempts.items() if attempt.performed is not None]
        while len(ended) > 1 and self._kept_bytes() > KEPT_BYTES_MAX:
            self._forget(ended.pop(0))

    def _kept_bytes(self) -> int:
        return sum(len(a.performed.png) for a in self._attempts.values() if a.performed and a.performed.png)

    def _fault(self, task: RenderTask, error: BaseException | None) -> Performed:
        log.error("renderer.attempt_fault", attempt_id=task.attempt_id, exc_info=error)
        return Performed(
            RenderResult(
                attempt_id=task.attempt_id,
                worker_id=self._worker_id,
                profile_digest=self._engine.profile_digest,
                error=AttemptError(code="RENDER_FAULT", message="the Renderer failed; see its log"),
            )
        )

    def _tell(self, attempt: _Attempt, ended: ChildEnded[Performed]) -> None:
        task = attempt.asked.task
        outcome = outcome_of(ended)
        elapsed_s = self.now_s() - attempt.accepted_s
        self._gauges.ended(outcome, task.operation, elapsed_s)
        log.info(
            "renderer.attempt.finished",
            attempt_id=task.attempt_id,
            request_id=task.request_id,
            outcome=outcome,
            elapsed_ms=round(elapsed_s * 1000, 1),
            timings_ms=ended.value.result.timings_ms if ended.value else {},
        )


def outcome_of(ended: ChildEnded[Performed]) -> str:
    """One word for how an attempt ended: the verdict, `picture`, `cancelled`, or an error's code. Pure."""
    if isinstance(ended.error, asyncio.CancelledError):
        return "cancelled"
    if ended.value is None:
        return "RENDER_FAULT"
    result = ended.value.result
    if result.error is not None:
        return result.error.code
    return result.diagnosis.status if result.diagnosis is not None else "picture"
