"""What a command says when a server refuses it."""

from pathlib import Path

import pytest

from pagegate.deploy.client import ApiRefused
from pagegate.deploy.talking import Server, tell_refusal

WHY = "There is no such run, or you are not a member of its workspace."


@pytest.mark.parametrize(
    ("token", "code", "as_whom"),
    [(None, "RUN_NOT_FOUND", True), ("pg_ada", "RUN_NOT_FOUND", False), (None, "X", False)],
)
def test_who_gave_no_token_is_told_that_the_operator_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], token: str | None, code: str, as_whom: bool
) -> None:
    refused = ApiRefused(404, code, WHY, "")
    tell_refusal("diagnose", Server(None, token, tmp_path), refused)
    said = capsys.readouterr().err
    assert said.startswith(f"pagegate diagnose: {code}: There is no such run")
    assert ("PAGEGATE_TOKEN" in said) is as_whom
