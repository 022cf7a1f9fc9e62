"""What an answer of the light tool means for a file, and when it is worth looking for more files (V9, R9)."""

import pytest

from pagegate.actors.jobs.asset_ratio import Faulty, read_answer
from pagegate.actors.jobs.asset_ratio_scan import BATCH_JOBS, ScanState, job_ended, looked
from pagegate.actors.queues.kinds import TryLater
from pagegate.runtime.contract import LightResult, LocatedError
from pagegate.storage.asset_ratios import Queued
from pagegate.storage.assets import AssetSize


def refused(*codes: str) -> LightResult:
    return LightResult(ok=False, errors=[LocatedError(code=code, message="why", hint="what to do") for code in codes])


def test_a_size_is_taken_with_the_ratio_that_the_tool_found() -> None:
    told = LightResult(ok=True, result={"kind": "svg", "width_px": 1, "height_px": 1, "ratio": 0.5, "declared": True})
    assert read_answer(told) == AssetSize(1, 1, 0.5)


def test_a_ratio_that_nobody_told_is_that_of_the_pixels() -> None:
    assert AssetSize(1000, 3000).ratio == 0.333333


def test_what_the_tool_says_of_the_file_is_final_and_keeps_its_words() -> None:
    fault = {"code": "ASSET_HAS_NO_SIZE", "message": "why", "hint": "what to do"}
    assert read_answer(refused("ASSET_HAS_NO_SIZE")) == Faulty(fault)


@pytest.mark.parametrize(
    "told",
    [
        refused("LIGHT_TOOL_UNKNOWN"),
        refused("SOMETHING_ELSE", "ASSET_UNREADABLE"),
        refused(),
        LightResult(ok=True, result={}),
        LightResult(ok=True, result={"width_px": "wide", "height_px": 2}),
    ],
)
def test_an_answer_that_says_nothing_of_the_file_is_infrastructure(told: LightResult) -> None:
    with pytest.raises(TryLater) as later:
        read_answer(told)
    assert later.value.counts


def test_a_look_that_found_room_and_more_files_is_followed_by_another() -> None:
    assert looked(Queued([1, 2], more=True)) == (ScanState(left_behind=True), True)
    assert looked(Queued([1, 2], more=False)) == (ScanState(), False)


def test_a_look_at_a_full_lane_waits_for_ends() -> None:
    assert looked(Queued([], more=True)) == (ScanState(left_behind=True), False)


@pytest.mark.parametrize(("active_jobs_max", "ends"), [(1, 1), (4, 2), (64, BATCH_JOBS // 2)])
def test_files_left_behind_are_looked_for_when_a_good_part_of_the_lane_has_ended(
    active_jobs_max: int, ends: int
) -> None:
    state, worth_it = ScanState(left_behind=True), []
    for _ in range(ends):
        state, is_worth_it = job_ended(state, active_jobs_max)
        worth_it.append(is_worth_it)
    assert worth_it == [*[False] * (ends - 1), True]


def test_without_files_left_behind_no_end_is_a_reason_to_look() -> None:
    state = ScanState()
    for _ in range(BATCH_JOBS):
        state, is_worth_it = job_ended(state, 1)
        assert not is_worth_it
