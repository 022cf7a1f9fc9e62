"""A component looked at by the Runtime: does it compile, what does it take and offer, whom would it break (D4, V1, R9).

Owns the compiles of one component mutation: the candidate as an entry, among the checks; then saved pages against it,
behind them, a bounded number. Says content verdicts only: a compile that did not happen raises `TryLater` for the
candidate, and is told as not looked at for a page. Keeps nothing; holds no transaction. No Renderer is asked (R7).
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pykka
import structlog

from pagegate.actors.compiling.admission import Compiled, RuntimeAdmission
from pagegate.actors.jobs.candidate import Candidate, context_of, snapshot_of
from pagegate.actors.jobs.candidate_compile import CandidateCompiler, CheckLimits
from pagegate.actors.jobs.component_contract import Break, breaks
from pagegate.actors.jobs.component_plan import ComponentPlan
from pagegate.actors.jobs.verdict import Verdict, judge_compile
from pagegate.actors.queues.kinds import TryLater
from pagegate.actors.tickets import Tickets
from pagegate.runtime.contract import ComponentContract, LocatedError
from pagegate.storage.preview_artifacts import PreviewArtifacts
from pagegate.storage.screenshot_context import CaptureContext

log = structlog.get_logger()

CUT = "COMPONENT_IMPACT_CUT"
PAGES_MAX = 12  # pages that one change is tried against
PAGES_S_MAX = 30.0  # and how long that may take


@dataclass
class JudgedComponent:
    """`contract` None: the component was refused. `context`: what the verdict depends on."""

    verdict: Verdict
    context: CaptureContext
    contract: ComponentContract | None = None


@dataclass(frozen=True)
class UsingPage:
    """A saved page that has the component in its closure. `pinned`: the version that it was checked with, and keeps.

    `candidate`: as it was checked; None for one that is not to be tried.
    """

    code: str
    version: int
    pinned: int
    candidate: Candidate | None


@dataclass
class Impact:
    """What a change would do to saved pages. `not_tried`: code → why: `COMPONENT_IMPACT_CUT`, or the Runtime's code."""

    breaks: dict[str, list[Break]] = field(default_factory=dict)
    not_tried: dict[str, str] = field(default_factory=dict)


class ComponentCheck:
    """`backend_url` is where the Runtime reaches the internal endpoints of this deployment."""

    def __init__(
        self,
        artifacts: PreviewArtifacts,
        tickets: Tickets,
        admission: pykka.ActorRef[RuntimeAdmission],
        backend_url: str,
        limits: CheckLimits,
        *,
        pages_max: int = PAGES_MAX,
    ) -> None:
        self._compiler = CandidateCompiler(artifacts, tickets, admission, backend_url, limits)
        self.pages_max = pages_max

    async def run(self, job_id: int, candidate: Candidate) -> JudgedComponent:
        """Compile the component as an entry. Raises `TryLater` when that could not be done."""
        compiled, context = await self._compile(job_id, candidate, contract=True)
        if compiled.result.ok and compiled.result.contract is None:
            raise TryLater("RUNTIME_ANSWER_UNREADABLE", "the Runtime is of a version that knows no contracts")
        verdict = judge_compile(compiled.result, reworded)
        return JudgedComponent(verdict, context, compiled.result.contract if compiled.result.ok else None)

    async def contract_of(self, job_id: int, base: Candidate) -> ComponentContract | None:
        """The contract of a version that was saved unchecked; None when it cannot be had now, or does not compile."""
        try:
            async with asyncio.timeout(PAGES_S_MAX):
                compiled, _ = await self._compile(job_id, base, contract=True, background=True)
        except (TryLater, TimeoutError):
            return None
        return compiled.result.contract

    async def impact(
        self,
        job_id: int,
        plan: ComponentPlan,
        old: ComponentContract | None,
        new: ComponentContract,
        pages: Sequence[UsingPage],
    ) -> Impact:
        """Try saved pages against the candidate, until enough was seen or the Runtime has no time for it (V1)."""
        impact, loop = Impact(), asyncio.get_running_loop()
        ends_s, reason = loop.time() + PAGES_S_MAX, ""
        for page in pages:
            if page.candidate is None or reason:
                impact.not_tried[page.code] = reason or CUT
                continue
            try:
                async with asyncio.timeout_at(ends_s):
                    impact.breaks[page.code] = await self._try_page(job_id, plan, old, new, page.candidate)
                continue
            except TryLater as error:
                reason = error.code
            except TimeoutError:
                reason = CUT
            log.info("component.mutation.impact.cut", job_id=job_id, page=page.code, code=reason)
            impact.not_tried[page.code] = reason
        return impact

    async def _try_page(
        self, job_id: int, plan: ComponentPlan, old: ComponentContract | None, new: ComponentContract, page: Candidate
    ) -> list[Break]:
        compiled, _ = await self._compile(job_id, plan.in_page(page), uses_of=plan.entry, background=True)
        if compiled.result.ok:
            return breaks(old, new, compiled.result.uses)
        # What does not compile with the version that it keeps either is not this change's doing.
        before, _ = await self._compile(job_id, page, background=True)
        known = {_key(error) for error in before.result.errors}
        return [_broken(error) for error in compiled.result.errors if _key(error) not in known]

    async def _compile(
        self,
        job_id: int,
        candidate: Candidate,
        *,
        contract: bool = False,
        uses_of: str | None = None,
        background: bool = False,
    ) -> tuple[Compiled, CaptureContext]:
        snapshot = snapshot_of(candidate)
        async with self._compiler.opened(candidate, snapshot) as artifact:
            compiled = await artifact.compile(background=background, contract=contract, uses_of=uses_of)
        log.info("runtime.diagnostics.compile.finished", job_id=job_id, ok=compiled.result.ok, entry=candidate.entry)
        return compiled, context_of(candidate, snapshot, runtime_build=compiled.result.runtime_build)


def reworded(text: str) -> str:
    """What a compile says of a page, said of a component. The codes stay."""
    return re.sub(r"\b(the|a) page\b", lambda found: f"{found[1]} component", text, flags=re.IGNORECASE)


def _key(error: LocatedError) -> tuple[object, ...]:
    return (error.code, error.file, error.line, error.message)


def _broken(error: LocatedError) -> Break:
    return Break(error.code, error.message, error.file, error.line, error.column)
