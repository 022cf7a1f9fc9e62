"""The component mutation job: a call of `create_component` or `apply_component_edits`, from arguments to commit.

Owns what the final transaction writes: the component's version with its contract, and through the job's end the
external task (A2, A3, D4, Q7, R9). What the component would be is `component_plan`'s, the compiles are
`component_check`'s, who uses it is `component_impact`'s. Survives a kill at any await: nothing is visible before the
one transaction, and a version's `job_id` is unique.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from pagegate.actors.agents.feed import RunFeed
from pagegate.actors.agents.submissions import refuse_cut
from pagegate.actors.jobs.call_job import CallTeller, Refused, about_of, ending
from pagegate.actors.jobs.component_check import ComponentCheck, Impact, JudgedComponent, UsingPage
from pagegate.actors.jobs.component_contract import Change, contract_changes
from pagegate.actors.jobs.component_impact import next_step, read_using, summary, told_impact
from pagegate.actors.jobs.component_plan import ComponentPlan, name_taken, plan_component, stale_base
from pagegate.actors.jobs.verdict_memory import VerdictMemory
from pagegate.actors.queues.kinds import End, Settle, TryLater
from pagegate.runtime.contract import ComponentContract
from pagegate.storage import components, hints, jobs
from pagegate.storage.components import ComponentChanged, ComponentNameTaken
from pagegate.storage.engine import Database, Tx
from pagegate.storage.jobs import ClaimedJob

log = structlog.get_logger()

REFUSED = "COMPONENT_VALIDATION_FAILED"
_REPAIR = "Repair what the findings name in the source and submit the component again; nothing was saved."


@dataclass(frozen=True)
class _Known:
    """What was found out about a component that compiles, before the commit."""

    contract: ComponentContract
    changes: list[Change]
    using: list[UsingPage]
    components: list[str]
    impact: Impact


class ComponentMutation:
    """The kind `component_mutation_jobs`. `on_end` is called when a job's end is durable: a hint to whoever waits."""

    name = jobs.COMPONENT_MUTATION

    def __init__(
        self,
        db: Database,
        check: ComponentCheck,
        feed: RunFeed,
        on_end: Callable[[], None],
        *,
        source_bytes_max: int = 1024 * 1024,
    ) -> None:
        self._db, self._check, self._teller = db, check, CallTeller(db, feed, on_end)
        self._source_bytes_max = source_bytes_max
        self._memory = VerdictMemory("component")

    def log_event(self, what: str) -> str:
        return f"component.mutation.job.{what}"

    async def execute(self, job: ClaimedJob) -> Settle:
        async with self._db.read() as tx:
            plan = await plan_component(tx, job, self._source_bytes_max)
        if isinstance(plan, Refused):
            return ending(job, plan.end(about_of(job)))
        if (known := await self._find_refusal(job, plan)) is not None:
            return ending(job, known)
        await self._teller.progress(job, plan.call_id, plan.about, "compile")
        checked = await self._check.run(job.id, plan.candidate())
        self._memory.heed(checked)
        if checked.contract is None:
            return ending(job, lambda tx: self._refuse(tx, job, plan, checked))
        found = await self._find_out(job, plan, checked.contract)
        return ending(job, lambda tx: self._save(tx, job, plan, checked, found))

    async def tell(self, tx: Tx, job: ClaimedJob, news: End | TryLater) -> None:
        await self._teller.news(tx, job, news)
        if isinstance(news, End):
            for kind in jobs.waiting_for(self.name):  # a page of its step may run now, on any replica
                await hints.send(tx, hints.jobs_of(kind))

    async def ended(self, job: ClaimedJob) -> None:
        self._teller.ended(job)

    async def _find_refusal(self, job: ClaimedJob, plan: ComponentPlan) -> End | None:
        """Why nothing has to be compiled: the source is cut short, or was refused as it is before (A11)."""
        result = refuse_cut(plan.entry, plan.source, plan.about)
        if result is None:
            async with self._db.read() as tx:
                result = await self._memory.find(tx, job.row.project_id, plan.candidate())
            if result is None:
                return None
            log.info("component.mutation.verdict.repeated", job_id=job.id, component=plan.name)
        error = {"code": result["code"], "message": result.get("summary", ""), "hint": result["next"]}
        return End("fail", result=result, error=error)

    async def _find_out(self, job: ClaimedJob, plan: ComponentPlan, contract: ComponentContract) -> _Known:
        """What changes, and what that does to whoever uses the component; a deleted one of its name counts too."""
        async with self._db.read() as tx:
            used_by, using = await read_using(tx, plan.material, plan.name, self._check.pages_max)
        old = plan.base_contract
        if old is None and plan.base is not None:
            old = await self._check.contract_of(job.id, plan.candidate(plan.base.source))
        if using:
            await self._teller.progress(job, plan.call_id, plan.about, "impact")
        impact = await self._check.impact(job.id, plan, old, contract, using)
        changes = contract_changes(old, contract) if old is not None else []
        return _Known(contract, changes, using, used_by.components, impact)

    async def _refuse(self, tx: Tx, job: ClaimedJob, plan: ComponentPlan, checked: JudgedComponent) -> End:
        said = checked.verdict.summary()
        verdict = checked.verdict.model_dump(exclude_none=True)
        result = {**verdict, **plan.about, "summary": said, "code": REFUSED, "next": _REPAIR}
        await self._memory.keep(tx, job.row.project_id, checked, result)
        return End("fail", result=result, error={"code": REFUSED, "message": said, "hint": _REPAIR})

    async def _save(self, tx: Tx, job: ClaimedJob, plan: ComponentPlan, checked: JudgedComponent, found: _Known) -> End:
        contract = found.contract.model_dump()
        version = components.CheckedComponent(plan.source, contract, job.id, job.row.user_id)
        try:
            if plan.base is None:
                number = await components.create_component(tx, job.row.project_id, plan.name, version)
            else:
                number = await components.add_component_version(
                    tx, job.row.project_id, plan.name, plan.base.number, version
                )
        except ComponentNameTaken:
            return name_taken(plan.name).end(plan.about)
        except ComponentChanged:
            assert plan.base is not None, "only a change has a base"
            current = await components.find_component(tx, job.row.project_id, plan.name)
            return stale_base(plan.name, plan.base.number, current.number if current else None).end(plan.about)
        log.info("component.mutation.save.finished", job_id=job.id, component=plan.name, version=number)
        return End("finish", result=_told(plan, checked, found, number))


def _told(plan: ComponentPlan, checked: JudgedComponent, found: _Known, number: int) -> dict[str, Any]:
    """What the agent is told: what was saved, what changed, who is affected, and what to do next (A11)."""
    return {
        **checked.verdict.model_dump(exclude_none=True),
        **plan.about,
        "version": number,
        "contract": found.contract.model_dump(),
        "changes": [one.told for one in found.changes],
        "affected": told_impact(found.using, found.components, found.impact),
        "summary": summary(plan.name, number, found.changes, found.impact),
        "next": next_step(plan.name, found.using, found.components, found.impact),
    }
