"""What answers of an images API mean, and which addresses, credentials and keys follow from what is known. Pure."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from pagegate.actors.images.answers import Declined, Elsewhere, Failed, Made, read_answer
from pagegate.actors.images.credentials import pick
from pagegate.actors.images.provider import ImageAccess, Wanted, refuse_address
from pagegate.actors.jobs.image_generation import may_send
from pagegate.storage.images import request_key, staged_key

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
BASE = "https://images.test/v1"


def read(status: int, body: Any = b"", headers: Mapping[str, str] | None = None) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(status, headers or {}, raw, NOW)


def test_a_picture_is_in_the_answer_or_elsewhere() -> None:
    content = base64.b64encode(b"bytes").decode()
    assert read(200, {"data": [{"b64_json": content}]}) == Made(b"bytes")
    assert read(201, {"data": [{"b64_json": None, "url": "https://x.test/p"}]}) == Elsewhere("https://x.test/p")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        {"data": None},
        {"data": {}},
        {"data": []},
        {"data": ["x"]},
        {"data": [{}]},
        {"data": [{"b64_json": 7}]},
        {"data": [{"b64_json": "é"}]},
        {"data": [{"b64_json": "AAA"}]},
        {"data": [{"url": ""}]},
    ],
    ids=lambda body: str(body)[:30],
)
def test_success_without_a_picture_may_have_been_charged(body: Any) -> None:
    found = read(200, body)
    assert isinstance(found, Failed)
    assert (found.code, found.perhaps_made) == ("IMAGE_ANSWER_INVALID", True)


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, {"code": "content_policy_violation"}, "IMAGE_PROMPT_REFUSED"),
        (403, {"code": "content_filter"}, "IMAGE_PROMPT_REFUSED"),
        (400, {"type": "safety_violation"}, "IMAGE_PROMPT_REFUSED"),
        (400, {"code": "billing_hard_limit_reached"}, "IMAGE_QUOTA_EXCEEDED"),
        (402, None, "IMAGE_QUOTA_EXCEEDED"),
        (401, None, "AI_CREDENTIAL_REFUSED"),
        (403, {"code": 7}, "AI_CREDENTIAL_REFUSED"),
        (404, "not an object", "AI_MODEL_NOT_FOUND"),
        (400, {"code": "model_not_found"}, "AI_MODEL_NOT_FOUND"),
        (400, None, "IMAGE_REQUEST_REFUSED"),
        (413, None, "IMAGE_REQUEST_REFUSED"),
        (302, None, "IMAGE_REQUEST_REFUSED"),
    ],
)
def test_refusals_are_final_and_told_apart(status: int, error: Any, code: str) -> None:
    found = read(status, {"error": error})
    assert isinstance(found, Declined)
    assert (found.code, bool(found.hint)) == (code, True)


@pytest.mark.parametrize(
    ("status", "perhaps_made"), [(429, False), (425, False), (500, False), (503, False), (408, True), (409, True)]
)
def test_what_may_have_made_a_picture_is_told_from_what_has_not(status: int, perhaps_made: bool) -> None:
    found = read(status)
    assert isinstance(found, Failed)
    assert found.perhaps_made is perhaps_made


@pytest.mark.parametrize("status", [502, 504, 520, 524])
def test_an_answer_of_somebody_between_says_nothing_about_the_provider(status: int) -> None:
    assert read(status).perhaps_made is True


@pytest.mark.parametrize(
    ("said", "wait_s"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("nan", 0.0),
        ("1e300", 86_400.0),
        ("Mon, 30 Nov 2026 12:01:00 GMT", 60.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", 0.0),
        ("", 0.0),
    ],
)
def test_a_wait_is_read_as_seconds_or_a_date_and_is_bounded(said: str, wait_s: float) -> None:
    assert read(429, b"", {"retry-after": said}).wait_s == wait_s


def test_nothing_that_a_provider_said_is_passed_on() -> None:
    secret = "sk-secret"
    for status in (400, 401, 404, 429, 500):
        assert secret not in str(read(status, {"error": {"message": secret, "code": secret}}))


@pytest.mark.parametrize(
    ("url", "refused"),
    [
        ("https://cdn.test/p.png", False),
        ("https://images.test/p.png", False),
        ("http://cdn.test/p.png", True),
        ("http://images.test/p.png", True),  # not the same origin: another scheme
        ("ftp://images.test/p.png", True),
        ("file:///etc/passwd", True),
        ("https://user@cdn.test/p.png", True),
        ("data:image/png;base64,AAAA", True),
        ("//cdn.test/p.png", True),
        ("https://", True),
        ("http://[", True),
    ],
)
def test_pictures_are_fetched_over_https_or_from_the_providers_own_origin(url: str, refused: bool) -> None:
    assert (refuse_address(url, BASE) is not None) is refused


def test_a_local_provider_may_name_its_own_address() -> None:
    assert refuse_address("http://127.0.0.1:9000/p.png", "http://127.0.0.1:9000/v1") is None
    assert refuse_address("http://127.0.0.1:9001/p.png", "http://127.0.0.1:9000/v1") is not None


def access(**more: Any) -> ImageAccess:
    return ImageAccess(
        **{"credential_id": 1, "base_url": BASE, "model": "m", "keys_honoured": True, "key": "k", **more}
    )


def test_what_may_be_under_way_is_sent_again_to_the_same_provider_only_if_it_honours_keys() -> None:
    hour_ms = 3600 * 1000
    assert may_send(None, None, access(keys_honoured=False), 9)
    assert may_send(access().sent_to, 1, access(key="a new one"), 1 + hour_ms)
    assert not may_send(access().sent_to, 1, access(), 1 + 12 * hour_ms)  # the provider may have forgotten the key
    assert not may_send(access(keys_honoured=False).sent_to, 1, access(keys_honoured=False), 2)
    for other in ({"model": "n"}, {"credential_id": 2}, {"base_url": "https://other.test"}, {"keys_honoured": False}):
        assert not may_send(access().sent_to, 1, access(**other), 2)


def test_neither_key_nor_prompt_is_in_a_representation() -> None:
    assert "k3y" not in repr(access(key="k3y"))
    assert "storm" not in repr(Wanted("a storm", "auto"))


class Row:
    """A row of the tables that are read here."""

    def __init__(self, **columns: Any) -> None:
        self.__dict__.update(columns)


def test_the_runs_own_credential_comes_first_then_the_newest_that_makes_pictures() -> None:
    rows: list[Any] = [Row(id=1, image_model="a"), Row(id=2, image_model="b"), Row(id=3, image_model=None)]

    def picked(choice: Mapping[str, Any] | None) -> Any:
        found = pick(rows, choice)
        return found.id if found is not None else None

    assert picked({"kind": "credential", "credential_id": 1}) == 1
    assert picked({"kind": "credential", "credential_id": 3}) == 2
    assert picked({"kind": "scripted"}) == 2
    assert picked(None) == 2
    assert pick([rows[2]], None) is None


def test_a_key_is_of_the_call_and_not_of_the_attempt() -> None:
    job: dict[str, Any] = {"workspace_id": 1, "project_id": 2, "id": 3, "attempt": 1}
    call: dict[str, Any] = {"id": 4, "call_id": "c", "created_at_ms": 5, "arguments": {"prompt": "p", "size": "auto"}}

    def key(**more: Any) -> str:
        of_job = {**job, **{name: value for name, value in more.items() if name in job and name != "id"}}
        of_call = {**call, **{name: value for name, value in more.items() if name in call}}
        one, other = Row(**of_job), Row(**of_call)
        return request_key(one, other)  # type: ignore[arg-type]  # what is read of the rows

    first = key()
    assert key(attempt=7) == first
    assert len({first, key(id=5), key(created_at_ms=6), key(arguments={"prompt": "q"}), key(project_id=3)}) == 5
    assert len(first) < 64
    assert staged_key(first) == f"generated/{first}"
