"""The same failing source again, answered from its last verdict (A11).

Owns what a verdict depends on: the page, its source and closure, canvas and theme, the Runtime's build and the
Renderer's profile. Only a refusal for the page's own sake is kept; what an infrastructure said never is. Which build
and which profile are in use now is known from the newest check of this process: after a start, or a change of either,
the first check is a real one.

Survives nothing but its rows, which are a shortcut: losing them costs a check each.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from pagegate.actors.jobs.candidate import Candidate, context_of, snapshot_of
from pagegate.actors.jobs.verdict import Verdict
from pagegate.storage import verdicts
from pagegate.storage.engine import Tx
from pagegate.storage.screenshot_context import CaptureContext, digest_of

_REPEATED = (
    "This very source was refused before, and nothing that it depends on has changed; it was not checked again. Change "
    "what the findings of severity error name, then submit the whole {noun}."
)


class Judged(Protocol):
    """A check of a page or of a component: what it said, and what that depends on."""

    verdict: Verdict
    context: CaptureContext


class VerdictMemory:
    """`noun`: what it remembers verdicts of, in the words for an agent."""

    def __init__(self, noun: str = "page") -> None:
        self._repeated = _REPEATED.format(noun=noun)
        self._build = self._profile = ""

    def heed(self, checked: Judged) -> None:
        """Note which build and profile a check was made with."""
        self._build = checked.context.runtime_build or self._build
        self._profile = _profile_of(checked.context) or self._profile

    async def find(self, tx: Tx, project_id: int, candidate: Candidate) -> dict[str, Any] | None:
        """What a check of exactly this was told; None when it must be made."""
        if not self._build:
            return None
        context = context_of(candidate, snapshot_of(candidate), runtime_build=self._build)
        for profile in dict.fromkeys(("", self._profile)):  # a compile that failed knows no profile
            known = await verdicts.find_verdict(tx, project_id, _key(context, profile))
            if known is not None:
                return {**known, "next": self._repeated, "repeated": True, "timings_ms": {}}
        return None

    async def keep(self, tx: Tx, project_id: int, checked: Judged, result: Mapping[str, Any]) -> None:
        """Remember a refusal. Call it in the transaction that ends the job."""
        if checked.verdict.status == "failed" and checked.context.runtime_build:
            key = _key(checked.context, _profile_of(checked.context))
            await verdicts.keep_verdict(tx, project_id, key, result)


def _key(context: CaptureContext, profile: str) -> str:
    return digest_of([replace(context, policy="").content(), profile])


def _profile_of(context: CaptureContext) -> str:
    return context.policy.rpartition(" ")[2]
