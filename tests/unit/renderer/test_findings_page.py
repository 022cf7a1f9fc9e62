"""The page of documentation names every code that a finding can have, and no other (R10)."""

import re
from pathlib import Path

from pagegate.renderer import diagnosis

ROOT = Path(__file__).parents[3]


def test_every_code_of_a_finding_is_documented() -> None:
    folder = Path(str(diagnosis.__file__)).parent
    sources = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`([A-Z]+_[A-Z_]+)`", page)) == set(re.findall(r'"([A-Z]+_[A-Z_]+)"', sources))
