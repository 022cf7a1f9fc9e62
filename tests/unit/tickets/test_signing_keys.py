"""Where the signing key comes from, what is refused, and what a rotation leaves valid (K1, K3)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pagegate.actors.signing_keys import KeyRefused, KeySources, PreviousKey, load_key_ring, make_key_file
from pagegate.actors.tickets import InvalidTicketError, Tickets

Encryption = serialization.KeySerializationEncryption


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, encryption: Encryption | None = None) -> str:
    how = encryption or serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


def public_pem_of(key: rsa.RSAPrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


@pytest.fixture(scope="module")
def keys() -> list[rsa.RSAPrivateKey]:
    return [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(3)]


def test_an_inline_key_wins_over_a_file_and_a_file_over_the_default(
    keys: list[rsa.RSAPrivateKey], tmp_path: Path
) -> None:
    named, default = tmp_path / "named.pem", tmp_path / "default.pem"
    named.write_text(pem_of(keys[1]))
    default.write_text(pem_of(keys[2]))
    inline = pem_of(keys[0]).replace("\n", "\\n")  # as an environment carries it
    for pem, file, key in ((inline, named, keys[0]), (None, named, keys[1]), (None, None, keys[2])):
        ring = load_key_ring(KeySources("k", pem=pem, file=file, default_file=default))
        assert ring.signing.private_numbers() == key.private_numbers()


def test_a_missing_key_is_made_once_for_a_single_instance_and_readable_by_nobody_else(tmp_path: Path) -> None:
    file = tmp_path / "data" / "key.pem"
    made = load_key_ring(KeySources("k", default_file=file, may_generate=True))
    assert file.stat().st_mode & 0o777 == 0o600
    again = load_key_ring(KeySources("k", default_file=file, may_generate=True))
    assert again.current.fingerprint == made.current.fingerprint
    assert [found.name for found in file.parent.iterdir()] == ["key.pem"]


def test_making_a_key_never_overwrites_one(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text("mine")
    assert not make_key_file(file)
    assert file.read_text() == "mine"
    assert [found.name for found in tmp_path.iterdir()] == ["key.pem"]


def refusal(sources: KeySources) -> KeyRefused:
    with pytest.raises(KeyRefused) as caught:
        load_key_ring(sources)
    assert caught.value.hint
    assert "BEGIN" not in str(caught.value)
    return caught.value


def test_a_replica_makes_no_key(tmp_path: Path) -> None:
    refused = refusal(KeySources("k", file=tmp_path / "none.pem"))
    assert refused.code == "RSA_KEY_MISSING"
    assert "pagegate keys new" in refused.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "pem"),
    [
        ("RSA_KEY_MALFORMED", lambda key: "not a key"),
        ("RSA_KEY_MALFORMED", lambda key: pem_of(key)[:400]),
        ("RSA_KEY_MALFORMED", public_pem_of),
        ("RSA_KEY_ENCRYPTED", lambda key: pem_of(key, serialization.BestAvailableEncryption(b"x"))),
        ("RSA_KEY_WRONG_KIND", lambda key: pem_of(ec.generate_private_key(ec.SECP256R1()))),
        ("RSA_KEY_WEAK", lambda key: pem_of(rsa.generate_private_key(public_exponent=65537, key_size=1024))),
    ],
)
def test_a_key_that_cannot_protect_anything_is_refused_with_its_own_code(
    code: str, pem: Callable[[rsa.RSAPrivateKey], str], keys: list[rsa.RSAPrivateKey], tmp_path: Path
) -> None:
    text = pem(keys[0])
    assert refusal(KeySources("k", pem=text)).code == code
    (tmp_path / "key.pem").write_text(text)
    assert refusal(KeySources("k", file=tmp_path / "key.pem")).code == code


def test_a_weak_previous_key_is_refused_too(keys: list[rsa.RSAPrivateKey]) -> None:
    weak = public_pem_of(rsa.generate_private_key(public_exponent=65537, key_size=1024))
    sources = KeySources("k", pem=pem_of(keys[0]), previous=[PreviousKey("old", pem=weak)])
    assert refusal(sources).code == "RSA_KEY_WEAK"


@pytest.mark.parametrize("previous", [["new"], ["old", "old"]])
def test_two_keys_of_one_id_stop_the_start(previous: list[str], keys: list[rsa.RSAPrivateKey]) -> None:
    older = [PreviousKey(key_id, pem=pem_of(keys[at + 1])) for at, key_id in enumerate(previous)]
    refused = refusal(KeySources("new", pem=pem_of(keys[0]), previous=older))
    assert refused.code == "RSA_KEY_ID_CLASH"
    assert previous[0] in refused.message


@pytest.mark.parametrize("key_id", ["", "a b", "x" * 101, 'k"'])
def test_a_key_id_is_plain_text(key_id: str, keys: list[rsa.RSAPrivateKey]) -> None:
    assert refusal(KeySources(key_id, pem=pem_of(keys[0]))).code == "RSA_KEY_ID_INVALID"


def test_after_a_rotation_old_tickets_verify_until_the_old_key_is_removed(
    keys: list[rsa.RSAPrivateKey], tmp_path: Path
) -> None:
    old_file = tmp_path / "old.pem"
    old_file.write_text(pem_of(keys[0]))
    old = Tickets.of(load_key_ring(KeySources("k1", file=old_file)))
    ticket = old.issue("rt_a")
    # Three ways to name the previous key: its file, itself, its public part.
    for previous in (
        PreviousKey("k1", file=old_file),
        PreviousKey("k1", pem=pem_of(keys[0])),
        PreviousKey("k1", pem=public_pem_of(keys[0])),
    ):
        rotated = Tickets.of(load_key_ring(KeySources("k2", pem=pem_of(keys[1]), previous=[previous])))
        rotated.verify(ticket, "rt_a")
        rotated.verify(rotated.issue("rt_a"), "rt_a")
        assert [key["kid"] for key in rotated.jwks()["keys"]] == ["k2", "k1"]
        assert all("d" not in key for key in rotated.jwks()["keys"])
        with pytest.raises(InvalidTicketError, match="not in use"):
            old.verify(rotated.issue("rt_a"), "rt_a")
    removed = Tickets.of(load_key_ring(KeySources("k2", pem=pem_of(keys[1]))))
    with pytest.raises(InvalidTicketError, match="not in use"):
        removed.verify(ticket, "rt_a")


def test_a_key_id_alone_opens_nothing(keys: list[rsa.RSAPrivateKey]) -> None:
    ours, forged = Tickets(keys[0], "k1"), Tickets(keys[1], "k1")
    with pytest.raises(InvalidTicketError, match="not valid"):
        ours.verify(forged.issue("rt_a"), "rt_a")
    for nonsense in ("", "x", "a.b.c", "é.é.é"):
        with pytest.raises(InvalidTicketError):
            ours.verify(nonsense, "rt_a")


@pytest.mark.parametrize(("ahead_s", "good"), [(3, True), (25, True), (60, False)])
def test_a_signer_whose_clock_is_a_little_ahead_is_believed(
    ahead_s: int, good: bool, keys: list[rsa.RSAPrivateKey]
) -> None:
    import time

    ticket = Tickets(keys[0], "k1", lambda: time.time() + ahead_s).issue("rt_a")
    ours = Tickets(keys[0], "k1")
    if good:
        ours.verify(ticket, "rt_a")
        return
    with pytest.raises(InvalidTicketError):
        ours.verify(ticket, "rt_a")


def test_a_ticket_opens_the_pages_of_its_artifact_and_no_other(keys: list[rsa.RSAPrivateKey]) -> None:
    tickets = Tickets(keys[0], "k1")
    ticket = tickets.issue("rt_a")
    tickets.verify(ticket, "rt_a")
    tickets.verify(ticket, "rt_a~3")
    for other in ("rt_b", "rt_ab", "rt_", "", "rt_b~3"):
        with pytest.raises(InvalidTicketError, match="another artifact"):
            tickets.verify(ticket, other)
    with pytest.raises(InvalidTicketError, match="another artifact"):
        tickets.verify(tickets.issue("rt_a~3"), "rt_a")


def test_an_expired_ticket_says_so(keys: list[rsa.RSAPrivateKey]) -> None:
    tickets = Tickets(keys[0], "k1")
    with pytest.raises(InvalidTicketError, match="expired"):
        tickets.verify(tickets.issue("rt_a", ttl_s=-60), "rt_a")
