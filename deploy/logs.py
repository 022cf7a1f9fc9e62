"""How every process writes its log (O3): one line an event, for people or as JSON.

Owns structlog's configuration. Events keep their names (`render.dispatch.started`); a log line goes to one stream, and
a stream that is gone costs no process its life.
"""

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class _Lines:
    """Writes whole lines and shrugs at a closed pipe: who reads the log may go away at any time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(message + "\n")
            self._stream.flush()

    debug = info = warning = warn = error = critical = exception = fatal = log = msg


def configure_logs(process: str, *, level: str = "info", style: str = "console", stream: TextIO | None = None) -> None:
    """Set up the log of this process; `process` is on every line. `style` is console or json."""
    out = stream or sys.stdout
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named(process),
    ]
    if style == "json":
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    else:
        processors.append(
            structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)
        )
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=lambda *_: _Lines(out),
        cache_logger_on_first_use=True,
    )
    # Libraries speak through the standard library: only what they warn of, in plain lines.
    logging.basicConfig(
        level=logging.WARNING, stream=out, format=f"%(asctime)s {process} %(levelname)s %(name)s %(message)s"
    )
    logging.raiseExceptions = False


def _named(process: str) -> Any:
    def add(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "process": process}

    return add
