"""Compiled pages, kept until the check is over (V8).

Owns the files of each output in memory, bounded in bytes and in time, outside any task folder. What is lost or expired
is compiled again; nothing here survives the process.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

OUTPUT_TTL_S = 300.0
OUTPUT_BYTES_MAX = 128 * 1024 * 1024

CONTENT_TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "map": "application/json",
}


@dataclass(frozen=True)
class Output:
    """`files` by name: index.html, page.js, page.js.map, and page.css when the page has styles."""

    output_id: str
    files: Mapping[str, bytes]
    expires_at_s: float

    @property
    def size_bytes(self) -> int:
        return sum(len(content) for content in self.files.values())


class OutputStore:
    """`now_s` is a monotonic clock. When `bytes_max` is passed the oldest outputs go first."""

    def __init__(
        self, now_s: Callable[[], float], *, ttl_s: float = OUTPUT_TTL_S, bytes_max: int = OUTPUT_BYTES_MAX
    ) -> None:
        self._now_s, self._ttl_s, self._bytes_max = now_s, ttl_s, bytes_max
        self._outputs: dict[str, Output] = {}  # oldest first

    @property
    def size_bytes(self) -> int:
        return sum(output.size_bytes for output in self._outputs.values())

    def kept_bytes(self) -> int:
        """What is kept and not expired by now."""
        self._drop_expired()
        return self.size_bytes

    def put(self, files: Mapping[str, bytes]) -> Output:
        """The id cannot be guessed: it is all that is needed to read the output."""
        output = Output(secrets.token_urlsafe(18), dict(files), self._now_s() + self._ttl_s)
        self._outputs[output.output_id] = output
        self._make_room(keep=output.output_id)
        return output

    def find(self, output_id: str) -> Output | None:
        self._drop_expired()
        return self._outputs.get(output_id)

    def delete(self, output_id: str) -> bool:
        """False when it was not there (any more)."""
        return self._outputs.pop(output_id, None) is not None

    def _make_room(self, keep: str) -> None:
        self._drop_expired()
        for output_id in list(self._outputs):
            if self.size_bytes <= self._bytes_max or output_id == keep:
                return
            del self._outputs[output_id]

    def _drop_expired(self) -> None:
        now_s = self._now_s()
        for output_id, output in list(self._outputs.items()):
            if output.expires_at_s > now_s:
                return
            del self._outputs[output_id]
