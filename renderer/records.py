"""Bounded notes: what a hostile page says must not fill this process.

Pure but for the observation that is written to.
"""

from typing import TypeVar

from pagegate.renderer.observation import RECORDS_MAX, TEXT_CHARS_MAX, Observation

R = TypeVar("R")


def clip(text: str, chars_max: int = TEXT_CHARS_MAX) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def add(seen: Observation, notes: list[R], note: R) -> None:
    """Add a note while there is room, else count it as dropped."""
    if len(notes) < RECORDS_MAX:
        notes.append(note)
    else:
        seen.records_dropped += 1
