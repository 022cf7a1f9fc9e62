"""The state machines by themselves: what each promises whatever the database."""

from pathlib import Path

import pytest

from pagegate.storage.transitions import EXTERNAL_BATCH, EXTERNAL_TASK, JOB, MACHINES, RENDER_REQUEST, RUN, Machine

machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def test_a_job_ends_as_the_specification_says() -> None:
    assert JOB.terminal == ("cancelled", "succeeded", "failed", "skipped")
    assert JOB.live == ("pending", "running")


@machines
def test_every_state_can_be_reached_from_the_first(machine: Machine) -> None:
    reached = {machine.initial}
    for _ in machine.states:
        reached |= {target for (state, _), target in machine.moves.items() if state in reached}
    assert reached == set(machine.states)


@machines
def test_every_live_state_can_end(machine: Machine) -> None:
    ending = set(machine.terminal)
    assert ending
    for _ in machine.states:
        ending |= {state for (state, _), target in machine.moves.items() if target in ending}
    assert ending == set(machine.states)


@machines
def test_an_event_leads_to_one_state_only(machine: Machine) -> None:
    for name in machine.events:
        assert machine.target(name) in machine.states


@machines
def test_an_unknown_event_is_a_bug_and_not_a_refusal(machine: Machine) -> None:
    with pytest.raises(KeyError):
        machine.target("explode")
    with pytest.raises(KeyError):
        machine.sources("explode")


def test_a_job_that_ends_has_an_end_for_its_external_task() -> None:
    assert set(JOB.terminal) <= set(EXTERNAL_TASK.states) - {EXTERNAL_TASK.initial}


def test_only_a_failure_is_reopened_and_only_before_anyone_could_be_told() -> None:
    assert EXTERNAL_TASK.sources("reopen") == ("failed",)
    assert EXTERNAL_BATCH.sources("reopen") == ("ready",)
    assert {EXTERNAL_TASK.target("reopen"), EXTERNAL_BATCH.target("reopen")} == {"pending", "waiting"}


def test_an_open_batch_can_always_be_closed_with_its_run() -> None:
    assert EXTERNAL_BATCH.sources("close") == EXTERNAL_BATCH.live
    assert set(RUN.sources("cancel")) == set(RUN.live)


def test_a_render_can_always_be_cancelled() -> None:
    assert set(RENDER_REQUEST.sources("cancel")) == set(RENDER_REQUEST.live)


def test_the_diagrams_in_the_docs_are_the_machines() -> None:
    page = (Path(__file__).parents[3] / "docs" / "states.md").read_text("utf-8")
    drawn = [diagram.split("```")[0] for diagram in page.split("stateDiagram-v2\n")[1:]]
    for machine, diagram in zip(MACHINES, drawn, strict=True):
        expected = [f"[*] --> {machine.initial}"]
        expected += [f"{state} --> {target}: {event}" for (state, event), target in machine.moves.items()]
        expected += [f"{state} --> [*]" for state in machine.terminal]
        assert [line.strip() for line in diagram.splitlines()] == expected, machine.name
