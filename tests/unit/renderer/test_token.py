"""The token on every call to a Renderer (R6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagegate.renderer.token import CLOCK_LEEWAY_S, TOKEN_TTL_MAX_S, TokenRefused, issue_token, verify_token

SECRET = "a-credential-of-thirty-two-chars!"
NOW_S = 1_767_261_600.0


def refusal(credential: str, worker_id: str, token: str, now_s: float = NOW_S) -> str:
    with pytest.raises(TokenRefused) as refused:
        verify_token(credential, worker_id, token, now_s=now_s)
    assert len(token) < 20 or token not in f"{refused.value} {refused.value.hint}"
    return refused.value.code


@given(worker_id=st.text(min_size=1, max_size=100), ttl_s=st.integers(1, TOKEN_TTL_MAX_S))
def test_a_token_is_good_for_its_worker_until_it_expires(worker_id: str, ttl_s: int) -> None:
    token = issue_token(SECRET, worker_id, ttl_s=ttl_s, now_s=NOW_S)
    verify_token(SECRET, worker_id, token, now_s=NOW_S)
    verify_token(SECRET, worker_id, token, now_s=NOW_S + ttl_s - 1)
    assert refusal(SECRET, worker_id, token, NOW_S + ttl_s) == "RENDER_TOKEN_EXPIRED"
    assert refusal(SECRET, worker_id + "x", token) == "RENDER_TOKEN_INVALID"


def test_a_token_of_the_old_credential_fails_from_the_change_on() -> None:
    token = issue_token(SECRET, "w", now_s=NOW_S)
    assert refusal(SECRET + "2", "w", token) == "RENDER_TOKEN_INVALID"


@given(position=st.integers(0, 200), sign=st.characters())
def test_a_token_with_one_character_changed_is_refused(position: int, sign: str) -> None:
    token = issue_token(SECRET, "worker-1", now_s=NOW_S)
    position %= len(token)
    changed = token[:position] + sign + token[position + 1 :]
    if changed == token:
        return
    # The last character of the signature holds two bits that base64 throws away; the text is compared, not the bytes.
    assert refusal(SECRET, "worker-1", changed) == "RENDER_TOKEN_INVALID"


@given(st.text(max_size=200))
def test_nonsense_is_refused_and_never_an_exception(text: str) -> None:
    for token in (text, text + "\udcff", f"{text}.\udcff"):
        assert refusal(SECRET, "w", token) == "RENDER_TOKEN_INVALID"


def test_an_empty_credential_admits_nobody_and_issues_nothing() -> None:
    assert refusal("", "w", issue_token(SECRET, "w", now_s=NOW_S)) == "RENDER_TOKEN_INVALID"
    with pytest.raises(ValueError, match="empty"):
        issue_token("", "w")


def test_a_token_that_lives_too_long_is_refused_even_when_signed() -> None:
    with pytest.raises(ValueError, match="at most"):
        issue_token(SECRET, "w", ttl_s=TOKEN_TTL_MAX_S + 1)
    ahead = issue_token(SECRET, "w", now_s=NOW_S + CLOCK_LEEWAY_S)
    verify_token(SECRET, "w", ahead, now_s=NOW_S)
    too_long = issue_token(SECRET, "w", now_s=NOW_S + CLOCK_LEEWAY_S + 1)
    assert refusal(SECRET, "w", too_long) == "RENDER_TOKEN_INVALID"
