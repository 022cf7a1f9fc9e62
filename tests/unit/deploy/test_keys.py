"""`pagegate keys`: make, list, rotate; what it says to set is what the next start understands (K3)."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pagegate.actors.signing_keys import load_key_ring, make_key_file
from pagegate.actors.tickets import Tickets
from pagegate.deploy.cli import app
from pagegate.deploy.key_settings import KeySettings
from pagegate.deploy.keys import with_settings
from pagegate.deploy.process_settings import load
from pagegate.deploy.settings import setting_names


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def pagegate(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["keys", *words])
    return done.exit_code, done.stdout, done.stderr


def tickets_of(env_file: Path) -> Tickets:
    return Tickets.of(load_key_ring(load(KeySettings, env_file).key_sources()))


def test_a_rotation_with_write_keeps_old_tickets_valid(folder: Path) -> None:
    env = folder / "my.env"
    env.write_text("LOG_LEVEL=info\n#RUNTIME_RSA_PREVIOUS_KEYS=\nRUNTIME_RSA_KEY_ID=default-key-1\n")
    make_key_file(folder / "data" / "runtime_rsa_key.pem")
    first = Tickets.of(load_key_ring(load(KeySettings).key_sources())).issue("rt_a")
    code, said, _ = pagegate("rotate", "--env-file", str(env), "--write", str(env))
    assert code == 0
    assert "BEGIN" not in said
    assert env.read_text().startswith("LOG_LEVEL=info\nRUNTIME_RSA_PREVIOUS_KEYS=[{")
    rotated = tickets_of(env)
    rotated.verify(first, "rt_a")
    second = rotated.issue("rt_a")
    assert pagegate("rotate", "--env-file", str(env), "--write", str(env))[0] == 0
    for ticket in (first, second):
        tickets_of(env).verify(ticket, "rt_a")
    code, listed, _ = pagegate("list", "--env-file", str(env))
    assert [line.split()[0] for line in listed.splitlines()] == [
        "id",
        "default-key-3",
        "default-key-2",
        "default-key-1",
    ]


def test_what_is_said_for_the_first_round_lets_every_replica_accept_the_new_key(folder: Path) -> None:
    make_key_file(folder / "data" / "runtime_rsa_key.pem")
    _, said, _ = pagegate("rotate")
    rounds = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    (folder / "first.env").write_text(rounds[0])
    (folder / "second.env").write_text("\n".join(rounds[1:]))
    before, after = tickets_of(folder / "first.env"), tickets_of(folder / "second.env")
    before.verify(after.issue("rt_a"), "rt_a")
    after.verify(before.issue("rt_a"), "rt_a")


def test_an_inline_key_is_handed_on_by_its_public_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_key_file(folder / "other.pem")
    monkeypatch.setenv("RUNTIME_RSA_PRIVATE_KEY", (folder / "other.pem").read_text().replace("\n", "\\n"))
    ticket = Tickets.of(load_key_ring(load(KeySettings).key_sources())).issue("rt_a")
    code, said, _ = pagegate("rotate", "--kid", "2027", "--write", "my.env")
    assert code == 0
    assert "PRIVATE KEY-" not in said
    assert "without RUNTIME_RSA_PRIVATE_KEY" in said
    monkeypatch.delenv("RUNTIME_RSA_PRIVATE_KEY")
    tickets_of(folder / "my.env").verify(ticket, "rt_a")


def test_nothing_is_overwritten_and_no_id_is_used_twice(folder: Path) -> None:
    assert pagegate("new", "key.pem")[0] == 0
    code, _, told = pagegate("new", "key.pem")
    assert (code, "stays as it is" in told) == (2, True)
    assert "RSA_KEY_WEAK" in pagegate("new", "weak.pem", "--bits", "1024")[2]
    assert "RSA_KEY_MISSING" in pagegate("list")[2]
    make_key_file(folder / "data" / "runtime_rsa_key.pem")
    assert "RSA_KEY_ID_CLASH" in pagegate("rotate", "--kid", "default-key-1")[2]
    assert "RSA_KEY_ID_INVALID" in pagegate("rotate", "--kid", "a/b")[2]


def test_settings_are_written_where_they_stand() -> None:
    text = "A=1\n# B=2\n#B=3\nC=4\nA=5"
    assert with_settings(text, {"A": "x", "B": "y", "D": "z"}) == "A=x\nB=y\n#B=3\nC=4\nA=x\nD=z\n"
