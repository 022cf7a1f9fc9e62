"""What a page's source says by itself: what must be found in it, so that whoever looks later knows the true verdict."""

import hashlib
import json
import re
from types import SimpleNamespace as Row
from typing import Literal

Nature = Literal["good", "warned", "broken", "ugly"]
NATURES: tuple[Nature, ...] = ("good", "good", "good", "warned", "broken", "ugly")

_MARK = re.compile(r"\[(good|warned|broken|ugly) \d+\]")


def source_of(nature: Nature, number: int) -> str:
    return f"<template><p>[{nature} {number}]</p></template>"


def mark_of(source: str) -> str:
    """What makes a source different from every other one."""
    found = _MARK.search(source)
    assert found is not None, source
    return found.group(0)


def nature_of(source: str) -> Nature:
    return mark_of(source)[1:].split(" ")[0]  # type: ignore[return-value]  # the pattern knows no others


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def picture_of(mark: str) -> bytes:
    return f"picture of {mark}".encode()


def asked_for(call: Row) -> str:
    """The mark of the page as the call would have it."""
    arguments = json.loads(call.arguments)
    return mark_of(arguments["source"] if "source" in arguments else arguments["edits"][0]["replace"])
