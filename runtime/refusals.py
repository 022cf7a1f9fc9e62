"""Why no verdict came out of a compile: every one of these is infrastructure, never the author's fault (R9).

`status` is the HTTP status of the answer: 429 for "come back later, nothing was tried" (Q2), 5xx for the rest.
"""

from typing import ClassVar

from pagegate.runtime.contract import ErrorBody


class CompileUnavailable(Exception):
    """Base. The message is for clients: it holds no path, no secret and no stack."""

    code: ClassVar[str]
    status: ClassVar[int] = 503
    hint: ClassVar[str] = "The source was not judged. Try again later; do not edit it because of this."

    def body(self) -> ErrorBody:
        return ErrorBody(code=self.code, message=str(self), hint=self.hint)


class ViteQueueFull(CompileUnavailable):
    code = "RUNTIME_VITE_QUEUE_FULL"
    status = 429


class ViteQueueTimeout(CompileUnavailable):
    """Waited for a slot longer than `RUNTIME_VITE_TASK_QUEUE_WAIT_TIMEOUT_MS` (V1)."""

    code = "RUNTIME_VITE_QUEUE_TIMEOUT"
    status = 429


class CompileTimedOut(CompileUnavailable):
    code = "RUNTIME_COMPILE_TIMEOUT"
    status = 504


class LightTimedOut(CompileUnavailable):
    """A light tool did not end within its 10 s or 40 s (V9)."""

    code = "RUNTIME_LIGHT_TIMEOUT"
    status = 504
    hint = "Nothing was changed. Try again later."


class LightFileTooLarge(CompileUnavailable):
    code = "RUNTIME_FILE_TOO_LARGE"
    status = 413
    hint = "Send a smaller file."


class BuildTimedOut(CompileUnavailable):
    """A build did not end within its 600 s (V5)."""

    code = "RUNTIME_BUILD_TIMEOUT"
    status = 504


class WorkerLost(CompileUnavailable):
    code = "RUNTIME_WORKER_LOST"


class SourceUnavailable(CompileUnavailable):
    """The Backend did not give the artifact's manifest or modules."""

    code = "RUNTIME_SOURCE_UNAVAILABLE"
    status = 502


class ArtifactGone(SourceUnavailable):
    """The Backend has no such artifact (any more): for a check one more fault, for a person the end of a preview."""


class CompileCancelled(CompileUnavailable):
    code = "RUNTIME_COMPILE_CANCELLED"


class BackendNotAllowed(CompileUnavailable):
    """The request names a Backend that this Runtime was not told of: it fetches from nowhere else."""

    code = "RUNTIME_BACKEND_NOT_ALLOWED"
    status = 403
    hint = "Start the Runtime with this Backend's internal address among those it may fetch from."


class BuildAssetMissing(CompileUnavailable):
    """The bytes of an asset that a build needs are not there any more (B3)."""

    code = "PROJECT_BUILD_ASSET_MISSING"
    status = 502
    hint = "Upload the asset again, then build again."
