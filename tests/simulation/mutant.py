"""One function of pagegate with one condition taken out, in its place for as long as a world is played."""

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, cast
from unittest import mock

from sqlalchemy import update

from pagegate.storage import lease
from pagegate.storage.present import forget_built
from tests.simulation.patching import everywhere, home_of

Cut = tuple[str, str]

UNFENCED: Cut = ("await fenced_update(", "await _unfenced_update(")


@dataclass(frozen=True)
class Mutant:
    """In the source of `module.function` each first text of `cuts`, which occurs once, becomes the second.

    `says`: what is missing then. `weather`: the climates in which it is likely noticed, or the stories. `along`: a
    mutant that goes with it, for a condition that another function asks too.
    """

    module: ModuleType | type
    function: str
    says: str
    cuts: tuple[Cut, ...]
    weather: tuple[str, ...] = ("mixed",)
    along: "Mutant | None" = None

    @property
    def name(self) -> str:
        return f"{self.module.__name__.rsplit('.', 1)[-1]}.{self.function}: {self.says}"

    def made(self) -> FunctionType:
        """The function without what it needs. An assertion when its source has changed: then look at it again."""
        original = getattr(self.module, self.function)
        source = textwrap.dedent(inspect.getsource(original))
        if source.startswith("@") and ".route(" in source.split("\n", 1)[0]:
            source = source[source.index("async def ") :]  # it stands in the table of routes already
        for old, new in self.cuts:
            assert source.count(old) == 1, f"{self.name}: its source has changed, there is no single {old!r}"
            source = source.replace(old, new)
        names = vars(home_of(self.module, self.function))
        names.setdefault("_unfenced_update", _unfenced_update)
        place: dict[str, Any] = {}
        exec(compile(source, f"<{self.name}>", "exec"), names, place)
        made = place[self.function]
        assert isinstance(made, FunctionType) or hasattr(made, "__wrapped__")
        return cast(FunctionType, made)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Everyone who imported the function uses the mutant."""
        made = self.made()
        if isinstance(self.module, type):
            placed: AbstractContextManager[object] = mock.patch.object(self.module, self.function, made)
        else:
            placed = everywhere(getattr(self.module, self.function), made)
        with placed:
            forget_built()
            try:
                if self.along is None:
                    yield
                else:
                    with self.along.in_place():
                        yield
            finally:
                forget_built()


def mutant(
    module: ModuleType | type,
    function: str,
    says: str,
    old: str,
    new: str = "",
    *weather: str,
    along: Mutant | None = None,
) -> Mutant:
    """A mutant with one cut."""
    return Mutant(module, function, says, ((old, new),), weather or ("mixed",), along)


async def _unfenced_update(tx: Any, held: Any, **values: Any) -> Any:
    """What `fenced_update` would be without its fence."""
    table = lease._leased(held.table).table
    changed = await tx.execute(update(table).where(table.c.id == held.id).values(**values).returning(table))
    return changed.one()
