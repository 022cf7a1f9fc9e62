"""The Backends of a Runtime, when any of them will do (P4, K6).

A preview that a person looks at can be read from every Backend that shares its state. Owns the order in which they are
asked: who answered last comes first. One that cannot be reached, or that fails, is passed over; one that says that
there is no such artifact is believed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from pagegate.runtime.contract import ArtifactManifest
from pagegate.runtime.refusals import ArtifactGone, SourceUnavailable
from pagegate.runtime.sources import ModuleSource

T = TypeVar("T")


class Backends:
    """`urls` in the order of the settings."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = [url.rstrip("/") for url in urls]

    async def first(self, ask: Callable[[str], Awaitable[T]]) -> T:
        """The answer of the first Backend that gives one. Raises what the last one raised, or `ArtifactGone`."""
        failed: SourceUnavailable = ArtifactGone("this Runtime knows no Backend")
        for url in list(self._urls):
            try:
                answer = await ask(url)
            except ArtifactGone:
                raise
            except SourceUnavailable as error:
                failed = error
                continue
            self._urls.sort(key=lambda known: known != url)  # stable: the others keep their order
            return answer
        raise failed


class AnyBackendSource:
    """One artifact, read from whichever Backend answers. `source` makes the source at one of them."""

    def __init__(self, backends: Backends, source: Callable[[str], ModuleSource]) -> None:
        self._backends, self._source = backends, source

    async def manifest(self) -> ArtifactManifest:
        """See `ModuleSource.manifest`."""
        return await self._backends.first(lambda url: self._source(url).manifest())

    async def read_modules(self, paths: Sequence[str]) -> Mapping[str, str]:
        """See `ModuleSource.read_modules`."""
        return await self._backends.first(lambda url: self._source(url).read_modules(paths))
