"""Proof that the simulation can fail: statements without their fence, and the seeds whose worlds notice.

A mutant is one function of `storage/` (or one decision above it) with one condition taken out, made from its own source
and put in its place while a world is played. The search writes to `saved_seeds.json`, for each, seeds whose world
breaks a rule with it. A mutant that no seed breaks belongs into `SURVIVORS` with the reason.

    python -m tests.simulation.mutants               what is saved
    python -m tests.simulation.mutants --search      find seeds for the mutants whose seeds no longer do (all: --anew)
"""

import argparse
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from unittest import mock

from sqlalchemy import update

from pagegate.actors.jobs import page_mutation
from pagegate.storage import external, jobs, lease, pages, renders, runs, steps, workspaces
from tests.simulation.world import Outcome, play, workshop

SAVED = Path(__file__).with_name("saved_seeds.json")
_SEEDS_EACH = 2


@dataclass(frozen=True)
class Mutant:
    """`old` occurs once in the source of `module.function` and becomes `new`. `says`: what is missing then.

    `besides`: another such pair, for a condition that is there twice. `along`: one that goes with it, in another
    function.
    """

    module: ModuleType
    function: str
    says: str
    old: str
    new: str
    besides: tuple[str, str] | None = None
    along: "Mutant | None" = None

    @property
    def name(self) -> str:
        return f"{self.module.__name__.rsplit('.', 1)[-1]}.{self.function}: {self.says}"

    def made(self) -> FunctionType:
        """The function without what it needs. An assertion when its source has changed: then look at it again."""
        original = getattr(self.module, self.function)
        source = textwrap.dedent(inspect.getsource(original))
        for old, new in ((self.old, self.new), *([self.besides] if self.besides else [])):
            assert source.count(old) == 1, f"{self.name}: its source has changed"
            source = source.replace(old, new)
        place: dict[str, Any] = {}
        exec(compile(source, f"<{self.name}>", "exec"), _seeing(self.module), place)
        made = place[self.function]
        assert isinstance(made, FunctionType)
        return made

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Everyone who imported the function uses the mutant."""
        original, made = getattr(self.module, self.function), self.made()
        with ExitStack() as patched:
            for name, module in list(sys.modules.items()):
                if name.startswith("pagegate.") and getattr(module, self.function, None) is original:
                    patched.enter_context(mock.patch.object(module, self.function, made))
            if self.along is not None:
                patched.enter_context(self.along.in_place())
            yield


def _seeing(module: ModuleType) -> dict[str, Any]:
    """The module's own names, live, and the update without a fence."""
    vars(module).setdefault("_unfenced_update", _unfenced_update)
    return vars(module)


async def _unfenced_update(tx: Any, held: Any, **values: Any) -> Any:
    table = lease._leased(held.table).table
    changed = await tx.execute(update(table).where(table.c.id == held.id).values(**values).returning(table))
    return changed.one()


def _unfenced(module: ModuleType, function: str) -> Mutant:
    return Mutant(module, function, "no fence", "await fenced_update(", "await _unfenced_update(")


_WORKER = "        leased.worker == lease.worker_id,\n"
_FENCE = "        leased.fence == lease.fence,\n"
_ACTIVE = "        leased.active,\n"
_UNEXPIRED = "        leased.table.c.lease_expires_at > tx.now,\n"


def _without(*conditions: str) -> str:
    """`held` with these conditions taken out."""
    whole = f"{_WORKER}{_FENCE}{_ACTIVE}{_UNEXPIRED}"
    for condition in conditions:
        whole = whole.replace(condition, "")
    return whole


_HELD = _without()

MUTANTS: tuple[Mutant, ...] = (
    # the predicate
    Mutant(lease, "held", "any worker", _WORKER, ""),
    Mutant(lease, "held", "any fence", _FENCE, ""),
    Mutant(lease, "held", "any worker, any fence", _HELD, _without(_WORKER, _FENCE)),
    Mutant(lease, "held", "any state", _ACTIVE, ""),
    Mutant(lease, "held", "also when expired", _UNEXPIRED, ""),
    Mutant(lease, "held", "nothing but the id", _HELD, ""),
    # each statement that carries it
    _unfenced(lease, "renew"),
    Mutant(lease, "require_held", "no fence", ".where(held(tx, lease))", ".where(table.c.id == lease.id)"),
    _unfenced(jobs, "finish_job"),
    _unfenced(jobs, "change_candidate_code"),
    Mutant(jobs, "retry_job", "no fence", "held(tx, lease)", "table.c.id == lease.id"),
    Mutant(jobs, "release_job", "no fence", "held(tx, lease)", "_table(lease.table).c.id == lease.id"),
    _unfenced(external, "finish_batch"),
    _unfenced(external, "release_batch"),
    Mutant(renders, "enqueue_request", "no fence", "await require_held(tx, job)", "pass"),
    Mutant(
        renders,
        "_end_attempt",
        "no fence at the request",
        "where(held(tx, lease))",
        "where(_attempts.c.id == lease.id)",
    ),
    Mutant(renders, "_end_attempt", "any attempt of the request", "_requests.c.attempt == lease.fence,", ""),
    Mutant(renders, "_end_attempt", "no fence at the slot", "await fenced_update(", "await _unfenced_update("),
    Mutant(
        renders,
        "_end_attempt",
        "no fence",
        "where(held(tx, lease))",
        "where(_attempts.c.id == lease.id)",
        ("await fenced_update(", "await _unfenced_update("),
    ),
    # claims and rescues
    Mutant(jobs, "claim_job", "the fence stays", "attempt=table.c.attempt + 1", "attempt=table.c.attempt"),
    Mutant(jobs, "claim_job", "whatever its state", ', table.c.status.in_(JOB.sources("claim"))', ""),
    Mutant(jobs, "claim_job", "from a paused lane", ", lanes.is_open(kind)", ""),
    Mutant(jobs, "runnable", "before its time", ", table.c.available_at <= tx.now", ""),
    Mutant(jobs, "runnable", "before earlier calls", "return and_(now, ~found.exists())", "return now"),
    Mutant(jobs, "rescue_job", "any attempt", "        table.c.attempt == fence,\n", ""),
    Mutant(jobs, "rescue_job", "a live lease too", "        table.c.lease_expires_at <= tx.now,\n", ""),
    Mutant(
        jobs,
        "rescue_job",
        "any attempt, a live lease too",
        "        table.c.attempt == fence,\n",
        "",
        ("        table.c.lease_expires_at <= tx.now,\n", ""),
    ),
    Mutant(jobs, "rescue_job", "any state", '        table.c.status == "running",\n', ""),
    Mutant(
        jobs,
        "_put_back",
        "its renders go on",
        "await renders.cancel_requests_of_job(tx, kind, row.id, attempt_max=row.attempt)",
        "pass",
    ),
    Mutant(
        jobs,
        "finish_job",
        "its renders go on",
        "await renders.cancel_requests_of_job(tx, lease.table, lease.id, attempt_max=lease.fence)",
        "pass",
    ),
    Mutant(
        jobs,
        "finish_job",
        "its call is not told",
        "await external.write_task_result(tx, lease.table, lease.id, state, told or result or error)",
        "pass",
    ),
    Mutant(jobs, "request_cancel", "ended ones too", ', table.c.status.in_(JOB.sources("cancel"))', ""),
    Mutant(
        external,
        "claim_ready_batch",
        "a live lease too",
        'and_(_batches.c.state == "resuming", _batches.c.lease_expires_at <= tx.now)',
        '_batches.c.state == "resuming"',
    ),
    Mutant(
        external,
        "claim_ready_batch",
        "the generation stays",
        "lease_generation=_batches.c.lease_generation + 1",
        "lease_generation=_batches.c.lease_generation",
    ),
    # one result, one resume
    Mutant(
        external,
        "write_task_result",
        "over an earlier one",
        ", _tasks.c.state == EXTERNAL_TASK.initial",
        "",
    ),
    Mutant(external, "settle_batch", "before the last call", ", ~pending", ""),
    Mutant(runs, "finish_run", "ended ones too", ", _runs.c.status.in_(RUN.sources(event))", ""),
    Mutant(
        steps,
        "submit_step",
        "as often as it is asked for",
        "known = await _find_earlier(tx, step)",
        "known = None",
    ),
    Mutant(steps, "submit_step", "over the limit of live jobs", "active + len(wanted) > step.active_jobs_max", "False"),
    # renders: slots, budgets, queues
    Mutant(renders, "_limit_reached", "any number in all", "used.everywhere >= global_max", "False"),
    Mutant(renders, "_limit_reached", "any number in a workspace", "used.here >= workspace_max", "False"),
    Mutant(
        renders,
        "_limit_reached",
        "two on a worker",
        "WORKER_TAKEN if used.on_worker else None",
        "WORKER_TAKEN if 0 else None",
    ),
    Mutant(renders, "reserve_attempt", "before its time", ", _requests.c.available_at <= tx.now", ""),
    Mutant(
        renders,
        "reserve_attempt",
        "without a look at its state",
        'request is None or request.status != "pending"',
        "request is None",
    ),
    Mutant(renders, "_exhaust", "any number of attempts", "or_(out_of_time, _used >= attempts_max)", "out_of_time"),
    Mutant(
        renders,
        "_lapse",
        "a live lease too",
        ", _attempts.c.lease_expires_at <= tx.now",
        "",
    ),
    Mutant(renders, "expire_attempts", "a live lease is listed", ", _attempts.c.lease_expires_at <= tx.now", ""),
    Mutant(
        renders,
        "expire_attempts",
        "a live lease is listed and lapses",
        ", _attempts.c.lease_expires_at <= tx.now",
        "",
        along=Mutant(renders, "_lapse", "a live lease too", ", _attempts.c.lease_expires_at <= tx.now", ""),
    ),
    Mutant(
        renders,
        "cancel_requests_of_job",
        "of later attempts too",
        "            _requests.c.job_attempt <= attempt_max,\n",
        "",
    ),
    Mutant(renders, "enqueue_request", "any number waits", "counted.everywhere >= queue_size_max", "False"),
    Mutant(
        renders,
        "enqueue_request",
        "any number of a workspace waits",
        "counted.here >= workspace_queue_size_max",
        "False",
    ),
    # pages
    Mutant(
        pages,
        "add_page_version",
        "over a newer one",
        "                pages.c.current_version_number == expected_current_number,\n",
        "",
    ),
    Mutant(pages, "add_page_version", "to a deleted page", "                pages.c.deleted_at_ms.is_(None),\n", ""),
    Mutant(pages, "insert_page_with_first_version", "over another page", "if not added:", "if False:"),
    # what is looked at again before the commit (Q7)
    Mutant(
        page_mutation,
        "_stopped",
        "whoever asked",
        "not await is_active_editor(tx, job.row.workspace_id, job.row.user_id)",
        "False",
    ),
    Mutant(page_mutation, "_stopped", "after a cancel", "run.status in RUN.terminal or ", ""),
    Mutant(
        page_mutation,
        "_stopped",
        "after every cancel",
        "run.status in RUN.terminal or await jobs.is_cancel_requested(tx, job.lease.table, job.id)",
        "False",
    ),
    Mutant(
        workspaces,
        "is_active_editor",
        "disabled ones too",
        ", users.c.disabled_at_ms.is_(None)",
        "",
    ),
    # content and infrastructure (R9)
    Mutant(
        page_mutation,
        "decide",
        "unseen is refused",
        'if verdict.status == "unavailable":',
        "if False:",
    ),
    Mutant(
        page_mutation,
        "decide",
        "unseen is saved",
        'verdict.success or (verdict.status == "unavailable" and skip_visual_verification)',
        'verdict.success or verdict.status == "unavailable"',
    ),
)

# Not noticed by any of many worlds, and why.
SURVIVORS: dict[str, str] = {}


def play_with(mutant: Mutant, seed: int, folder: Path, template: Path) -> Outcome:
    """The world of a seed, with the mutant in it."""
    with mutant.in_place():
        return play(seed, folder, template)


def saved() -> dict[str, list[int]]:
    """Seeds by a mutant's name."""
    found: dict[str, list[int]] = json.loads(SAVED.read_text()) if SAVED.exists() else {}
    return found


@dataclass(frozen=True)
class _Hunt:
    """The search for one mutant: seeds to try first, then others."""

    place: int
    kept: list[int]
    seeds: range

    def run(self) -> tuple[int, dict[int, str]]:
        """The mutant's place, and what each killing seed says."""
        mutant, found = MUTANTS[self.place], dict[int, str]()
        with workshop() as (folder, template):
            for seed in [*self.kept, *[seed for seed in self.seeds if seed not in self.kept]]:
                outcome = play_with(mutant, seed, folder, template)
                if outcome.violation is not None:
                    found[seed] = outcome.violation
                if len(found) >= _SEEDS_EACH:
                    break
        return self.place, found


def _search(seeds: range, *, anew: bool, only: str, jobs_at_once: int) -> None:
    wanted = [place for place, mutant in enumerate(MUTANTS) if only in mutant.name]
    hunts = [_Hunt(place, [] if anew else saved().get(MUTANTS[place].name, []), seeds) for place in wanted]
    with ProcessPoolExecutor(jobs_at_once) as pool:
        for place, found in pool.map(_Hunt.run, hunts):
            mutant = MUTANTS[place]
            print(mutant.name, flush=True)
            for seed, said in found.items():
                print(f"    seed {seed}: {said[:160]}", flush=True)
            known = {mutant.name: saved().get(mutant.name, []) for mutant in MUTANTS} | {mutant.name: list(found)}
            lines = [f"  {json.dumps(name)}: {json.dumps(kept)}" for name, kept in sorted(known.items()) if kept]
            text = ",\n".join(lines)
            SAVED.write_text(f"{{\n{text}\n}}\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--anew", action="store_true")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--only", default="", help="part of a mutant's name")
    asked = parser.parse_args()
    if asked.search or asked.anew:
        seeds = range(asked.first, asked.first + asked.seeds)
        _search(seeds, anew=asked.anew, only=asked.only, jobs_at_once=asked.jobs)
    for mutant in MUTANTS:
        print(f"{mutant.name:<70} {saved().get(mutant.name) or SURVIVORS.get(mutant.name, 'no seed yet')}")


if __name__ == "__main__":
    main()
