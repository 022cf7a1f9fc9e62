"""The future behind every `ask`: Pykka's interface over asyncio's.

Pykka's own `Future.__await__` calls the blocking `get()`, which would stop the loop for ever; this one is awaitable by
itself and refuses `get()`.
"""

import asyncio
import sys
from collections.abc import Generator
from types import TracebackType
from typing import Any, TypeVar

import pykka

T = TypeVar("T")

_ExcInfo = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]


class LoopFuture(pykka.Future[T]):
    """Resolves once; what comes after the first answer, or after the asker went away, is dropped."""

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        super().__init__()
        self._inner: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, T]:
        return self._inner.__await__()

    def set(self, value: T | None = None) -> None:
        if not self._inner.done():
            self._inner.set_result(value)

    def set_exception(self, exc_info: _ExcInfo | None = None) -> None:
        error = (exc_info or sys.exc_info())[1]
        assert error is not None, "set_exception() needs an exception"
        if not self._inner.done():
            self._inner.set_exception(error)

    def done(self) -> bool:
        return self._inner.done()

    def get(self, *, timeout: float | None = None) -> T:  # noqa: ARG002  Pykka's interface
        raise RuntimeError("the loop must not be blocked: await the future instead of calling get()")
