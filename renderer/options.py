"""The Renderer's limits, in one place, with the figures they start from.

A frozen slice of the settings: whoever composes the process fills it, everybody below reads it. Changing one of the
picture's conditions (flags, locale) belongs into `isolation.py` or `browser.py`, where the profile digest covers it.
"""

from dataclasses import dataclass
from pathlib import Path

AUTO_VIEWPORT_HEIGHT_PX = 720  # what a page that decides its own height is shown in at first


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserOptions:
    """Limits of one Renderer. `chromium_path` None: looked for (`isolation.find_chromium`); `work_folder` None: a
    fresh folder in the system's temporary one, swept when its owner is gone."""

    chromium_path: Path | None = None
    isolation: str = "auto"  # or the name of one `isolation.Mode`
    work_folder: Path | None = None

    launch_timeout_s: float = 20.0
    spare_idle_s: float = 60.0  # how long a spare browser is kept without work
    cleanup_grace_s: float = 2.0  # `RENDER_CLEANUP_GRACE_SECONDS`: for an orderly close, then the kill (R4)
    driver_memory_max_mb: int = 300

    load_wait_s: float = 8.0  # for the load event; a page that loads longer is looked at as it is
    settle_ahead_ms: int = 2500  # of the page's own time (R11)
    settle_virtually: bool = True  # False: the fallback in real time, which is also taken by a browser that must
    settle_quiet_s: float = 0.3  # in real time: so long without an error, a request or a change
    settle_quiet_max_s: float = 5.0
    settle_real_max_s: float = 6.0  # real seconds that looking ahead may take; longer than one request may hang
    stuck_after_s: float = 10.0  # R9
    picture_max_s: float = 10.0  # S3
    memory_max_mb: int = 1024
    memory_poll_s: float = 0.1
    picture_height_px_max: int = 16384  # a taller page is cut and flagged

    origin_timeout_s: float = 4.0  # one request of the page
    origin_body_bytes_max: int = 32 * 1024 * 1024
