"""Functions of pagegate replaced for as long as a world is played, wherever they were imported to."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any
from unittest import mock


def home_of(module: ModuleType, function: str) -> ModuleType:
    """Where a function is written, when `module` may merely have imported it."""
    found = getattr(module, function)
    assert isinstance(found, FunctionType) or hasattr(found, "__wrapped__"), function
    return sys.modules[found.__module__]


@contextmanager
def everywhere(original: Callable[..., Any], instead: Callable[..., Any]) -> Iterator[None]:
    """Everyone in pagegate who has `original` under its name uses `instead`."""
    name = original.__name__
    patched = [
        mock.patch.object(module, name, instead)
        for key, module in list(sys.modules.items())
        if key.startswith("pagegate.") and getattr(module, name, None) is original
    ]
    assert patched, f"nobody knows {name}"
    for patch in patched:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(patched):
            patch.stop()
