"""The asyncio runtime for Pykka on which every actor of pagegate lives.

Pykka ships threads only and documents the hooks for other runtimes; this folder is one on those hooks: a mailbox is a
deque, a future is awaitable, an actor is one task. `actor.py` is the actor and its life, `asking.py` how to talk to
one, `inbox.py` and `future.py` are what Pykka's hooks create, `backoff.py` says when a crashed actor comes back.
"""

from pagegate.actors.kernel.actor import Actor, ChildEnded, Reply, Timer
from pagegate.actors.kernel.asking import Asks, ask, stop
from pagegate.actors.kernel.backoff import Backoff

__all__ = ["Actor", "Asks", "Backoff", "ChildEnded", "Reply", "Timer", "ask", "stop"]
