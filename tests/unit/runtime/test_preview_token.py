"""The Runtime's copy of the key set, and the tokens that it lets in (K2, P4)."""

import asyncio
import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pagegate.actors.tickets import Tickets
from pagegate.runtime.preview_token import KeySet, KeysUnavailable, PreviewTokenInvalid, verify_preview_token


class Backend:
    """Gives its key set, or does not; its clock is moved by hand."""

    def __init__(self, tickets: Tickets) -> None:
        self.tickets: Tickets | None = tickets
        self.now_s = 1000.0
        self.answer: Any = None
        self.keys = KeySet(self.fetch, lambda: self.now_s)

    async def fetch(self) -> bytes:
        await asyncio.sleep(0)
        if self.answer is not None:
            return json.dumps(self.answer).encode()
        if self.tickets is None:
            raise KeysUnavailable("away")
        return json.dumps(self.tickets.jwks()).encode()

    async def opens(self, token: str) -> str:
        return await verify_preview_token(token, self.keys)


@pytest.fixture(scope="module")
def signers() -> list[rsa.RSAPrivateKey]:
    return [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]


@pytest.fixture
def old(signers: list[rsa.RSAPrivateKey]) -> Tickets:
    return Tickets(signers[0], "k1")


@pytest.fixture
def backend(old: Tickets) -> Backend:
    return Backend(old)


async def test_a_good_token_names_its_artifact(backend: Backend, old: Tickets) -> None:
    assert await backend.opens(old.issue("rt_a", use="preview")) == "rt_a"
    assert await backend.opens(old.issue("rt_b", use="preview")) == "rt_b"
    assert backend.keys.fetches == 1


async def test_many_at_once_cause_one_fetch(backend: Backend, old: Tickets) -> None:
    token = old.issue("rt_a", use="preview")
    assert set(await asyncio.gather(*(backend.opens(token) for _ in range(50)))) == {"rt_a"}
    assert backend.keys.fetches == 1


async def test_a_rotation_is_seen_at_once_and_made_up_key_ids_cost_one_fetch(
    backend: Backend, old: Tickets, signers: list[rsa.RSAPrivateKey]
) -> None:
    await backend.opens(old.issue("rt_a", use="preview"))
    rotated = backend.tickets = Tickets(signers[1], "k2")
    assert await backend.opens(rotated.issue("rt_a", use="preview")) == "rt_a"
    assert backend.keys.fetches == 2
    made_up = [Tickets(signers[0], f"made-up-{number}").issue("rt_a", use="preview") for number in range(40)]
    for fetches, wait_s in ((2, 0), (3, 5)):
        backend.now_s += wait_s
        for token in made_up * 25:
            with pytest.raises(PreviewTokenInvalid):
                await backend.opens(token)
        assert backend.keys.fetches == fetches
        assert await backend.opens(rotated.issue("rt_a", use="preview")) == "rt_a"
        assert backend.keys.fetches == fetches


async def test_a_removed_key_is_dead_after_sixty_seconds(
    backend: Backend, old: Tickets, signers: list[rsa.RSAPrivateKey]
) -> None:
    token = old.issue("rt_a", use="preview")
    await backend.opens(token)
    backend.tickets = Tickets(signers[1], "k2")
    backend.now_s += 59.9
    assert await backend.opens(token) == "rt_a"
    backend.now_s += 0.1
    with pytest.raises(PreviewTokenInvalid, match="no longer in use"):
        await backend.opens(token)


async def test_a_backend_that_is_away_is_missed_only_when_the_keys_are_old(backend: Backend, old: Tickets) -> None:
    token = old.issue("rt_a", use="preview")
    await backend.opens(token)
    backend.tickets = None
    backend.now_s += 50
    assert await backend.opens(token) == "rt_a"
    with pytest.raises(PreviewTokenInvalid):  # an unknown id while the Backend is away
        await backend.opens(Tickets(rsa.generate_private_key(65537, 2048), "new").issue("rt_a", use="preview"))
    backend.now_s += 11
    for _ in range(100):
        with pytest.raises(KeysUnavailable):
            await backend.opens(token)
    assert backend.keys.fetches <= 4
    backend.tickets = old
    backend.now_s += 5
    assert await backend.opens(token) == "rt_a"


@pytest.mark.parametrize("answer", [{}, {"keys": None}, [], "x", {"keys": ["x"]}])
async def test_a_set_that_is_none_lets_nobody_in(backend: Backend, old: Tickets, answer: object) -> None:
    backend.answer = answer
    with pytest.raises(KeysUnavailable):
        await backend.opens(old.issue("rt_a", use="preview"))


async def test_keys_of_other_kinds_are_left_out(backend: Backend, old: Tickets) -> None:
    ours = old.jwks()["keys"]
    strange = [{"kty": "oct", "k": "c2VjcmV0", "kid": "s"}, {"kty": "RSA", "kid": "x", "n": "!", "e": "AQAB"}]
    backend.answer = {"keys": [*strange, {**ours[0], "kid": 7}, {**ours[0], "alg": "RS512", "kid": "k5"}, *ours]}
    assert await backend.opens(old.issue("rt_a", use="preview")) == "rt_a"
    assert [await backend.keys.find(key_id) for key_id in ("s", "x", "k5")] == [None, None, None]


async def test_what_was_signed_for_something_else_opens_no_preview(
    backend: Backend, old: Tickets, signers: list[rsa.RSAPrivateKey]
) -> None:
    import jwt

    now_s = int(time.time())
    good = {"iss": "pagegate", "aud": "pagegate:preview-artifact", "sub": "rt_a", "use": "preview"}
    good |= {"iat": now_s, "exp": now_s + 60}
    headers = {"kid": "k1"}

    def signed(**changed: object) -> str:
        claims = {name: value for name, value in {**good, **changed}.items() if value is not None}
        return jwt.encode(claims, signers[0], "RS256", headers)

    assert await backend.opens(signed()) == "rt_a"
    assert await backend.opens(signed(iat=now_s + 3)) == "rt_a"  # a signer whose clock is ahead
    wrong = [
        old.issue("rt_a"),  # a service ticket
        signed(aud="other"),
        signed(iss="other"),
        signed(use=None),
        signed(sub=None),
        signed(exp=None),
        signed(iat=now_s + 300),
        jwt.encode(good, "x" * 32, "HS256", headers),
        jwt.encode(good, None, "none", headers),
        jwt.encode(good, ec.generate_private_key(ec.SECP256R1()), "ES256", headers),
        jwt.encode(good, signers[1], "RS256", headers),
        "",
        "a.b.c",
    ]
    for token in wrong:
        with pytest.raises(PreviewTokenInvalid):
            await backend.opens(token)
    with pytest.raises(PreviewTokenInvalid, match="time is over"):
        await backend.opens(signed(exp=now_s - 60))
