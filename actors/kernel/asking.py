"""How to talk to an actor: `ask` for an answer, `stop` for its end (`ref.tell` needs no help)."""

import asyncio
from typing import Any, Generic, TypeVar

import pykka
from pykka import messages

from pagegate.actors.kernel.future import LoopFuture

R = TypeVar("R")


class Asks(Generic[R]):
    """Base of a message that is answered with an `R`, so that a type checker knows what `ask` returns."""


async def ask(ref: pykka.ActorRef[Any], message: Asks[R], timeout_s: float | None = None) -> R:
    """Send a message and wait for its answer.

    Raises what the handler raised; `pykka.ActorDeadError` when the actor is gone or stops first; `TimeoutError` after
    `timeout_s` seconds. Who stops waiting stops nothing: the handler still runs, its answer is dropped.
    """
    future = ref.ask(message, block=False)
    assert isinstance(future, LoopFuture), "only actors of this kernel can be asked"
    answer: R
    if timeout_s is None:
        answer = await future
    else:
        async with asyncio.timeout(timeout_s):
            answer = await future
    return answer


async def stop(ref: pykka.ActorRef[Any]) -> None:
    """Stop an actor after the messages it already has, and wait until its children have ended. A dead one is fine.

    (`ActorRef.stop(block=False)` would build a mapped future that never resolves on a runtime without threads.)
    """
    future = ref.ask(messages._ActorStop(), block=False)
    assert isinstance(future, LoopFuture), "only actors of this kernel can be stopped here"
    try:
        await future
    except pykka.ActorDeadError:
        return
