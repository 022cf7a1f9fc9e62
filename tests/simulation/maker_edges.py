"""What stands around pictures and sizes of files, played: a provider that is paid, and a light tool (A1, V9).

The provider counts a charge for each picture that it makes. Where it honours idempotency keys, the same key gets the
same picture again; where it does not, each request that arrives is charged. It says to `broken` when one call was.
"""

import asyncio
import hashlib
import io
import re
from collections import Counter
from collections.abc import AsyncIterator
from functools import cache
from typing import TYPE_CHECKING, Any

from PIL import Image

from pagegate.actors.images.answers import Declined, Failed, Made, Outcome, invalid
from pagegate.actors.images.provider import ImageAccess, Wanted
from pagegate.runtime.client import RuntimeUnavailable
from pagegate.runtime.contract import LightRequest, LightResult, LocatedError
from pagegate.storage.images import staged_key
from tests.simulation.virtual_loop import LIFE

if TYPE_CHECKING:
    from tests.simulation.edges import Surroundings

_PROVIDER_TIMEOUT_S = 9.0
_SIZE = re.compile(rb"(\d+)x(\d+)")


@cache
def png_of(key: str) -> bytes:
    """The picture that belongs to an idempotency key, and to no other."""
    digest = hashlib.sha256(key.encode()).digest()
    made = io.BytesIO()
    Image.new("RGB", (8 + digest[0] % 16, 8 + digest[1] % 16), (digest[2], digest[3], digest[4])).save(made, "PNG")
    return made.getvalue()


def file_of(number: int, nature: str, width: int, height: int) -> bytes:
    """A file that says what it measures; a broken one measures nothing."""
    return f"file {number} {nature} {width}x{height}".encode()


def size_of(content: bytes) -> tuple[int, int] | None:
    """What a light tool finds in a file; None for a broken one."""
    found = _SIZE.search(content)
    return (int(found[1]), int(found[2])) if found and b"broken" not in content else None


class PlayedProvider:
    """`honours`: the same key is never charged twice. `charges` by key; `asked` counts requests that arrived."""

    def __init__(self, around: "Surroundings") -> None:
        self._around = around
        self.honours = True
        self.charges: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    async def choose(self, tx: Any, user_id: int, run_model: Any) -> ImageAccess | Declined:
        """The credential that everybody has."""
        return ImageAccess(1, "sim://provider", "played", self.honours, "key")

    async def make(self, access: ImageAccess, wanted: Wanted, idempotency_key: str) -> Outcome:
        """See `ImageProvider`."""
        around, weather, chance = self._around, self._around.weather, self._around.loop.chance
        await around.travel()
        if around.strikes(weather.provider_refuses):
            return chance.choice(
                [
                    Failed("IMAGE_PROVIDER_UNAVAILABLE", "cannot be reached", perhaps_made=False),
                    Failed("IMAGE_PROVIDER_RATE_LIMITED", "busy", perhaps_made=False, wait_s=3.0),
                ]
            )
        if around.strikes(weather.provider_declines):
            return Declined("IMAGE_PROMPT_REFUSED", "not this", "Change the prompt.")
        self._judge_request(idempotency_key)
        takes_s = chance.choice([12.0, 30.0]) if around.strikes(weather.provider_hangs) else chance.uniform(0.2, 5)
        answer: asyncio.Future[bytes] = around.loop.create_future()
        around.loop.call_outside(takes_s, self._draw, idempotency_key, answer)
        try:
            async with asyncio.timeout(_PROVIDER_TIMEOUT_S):
                content = await answer
        except TimeoutError:
            return Failed("IMAGE_PROVIDER_UNAVAILABLE", "no answer in time", perhaps_made=True)
        if around.strikes(weather.provider_loses):
            return Failed("IMAGE_PROVIDER_UNAVAILABLE", "the connection broke", perhaps_made=True)
        if around.strikes(weather.provider_garbles):
            return invalid("it holds no picture")
        return Made(content)

    def _judge_request(self, key: str) -> None:
        """Who was awake all the time does not ask again for what lies ready."""
        self.asked[key] += 1
        life = LIFE.get()
        if staged_key(key) in self._around.objects.kept and not (life is not None and life.rested):
            self._around.broken(f"{self._around.who()} asks again for a picture whose answer is kept: {key}")

    def _draw(self, key: str, answer: "asyncio.Future[bytes]") -> None:
        """It is made, and charged, whether anybody still waits or not."""
        if not (self.honours and self.charges[key]):
            self.charges[key] += 1
            self._around.note("provider", "charges", key=key[:16])
        if self.charges[key] > 1:
            self._around.broken(f"one call was charged {self.charges[key]} times: {key}")
        if not answer.done():
            answer.set_result(png_of(key))


async def played_light(
    around: "Surroundings", request: LightRequest, file: AsyncIterator[bytes] | None
) -> LightResult:  # the tool that measures
    chance, weather = around.loop.chance, around.weather
    await around.travel()
    if around.strikes(weather.runtime_refuses):
        raise chance.choice(
            [
                RuntimeUnavailable("RUNTIME_VITE_QUEUE_FULL", "full", full=True),
                RuntimeUnavailable("RUNTIME_UNREACHABLE", "does not answer"),
            ]
        )
    assert file is not None, request.task_id
    content = b"".join([block async for block in file])
    hangs = around.strikes(weather.runtime_hangs)
    await asyncio.sleep(chance.choice([12.0, 45.0]) if hangs else chance.uniform(0.05, 2))
    size = size_of(content)
    if size is None:
        error = LocatedError(code="ASSET_UNREADABLE", message="no picture", hint="Upload another one.")
        return LightResult(ok=False, errors=[error])
    return LightResult(ok=True, result={"width_px": size[0], "height_px": size[1]})
