"""Which Node compiles: the one that was named, or the first that is new enough for Vite."""

from pathlib import Path

import pytest

from pagegate.runtime.node_worker import NodeMissing, find_node, runtime_home


def fake_node(folder: Path, version: str) -> Path:
    node = folder / "node"
    node.write_text(f"#!/bin/sh\necho {version}\n")
    node.chmod(0o755)
    return node


@pytest.mark.parametrize(
    ("version", "fits"),
    [("v20.19.0", True), ("v24.1.0", True), ("v20.18.9", False), ("v18.20.0", False), ("no", False)],
)
def test_named_node_must_be_new_enough(tmp_path: Path, version: str, fits: bool) -> None:
    node = fake_node(tmp_path, version)
    if fits:
        assert find_node(node) == node
        return
    with pytest.raises(NodeMissing, match=r"20\.19"):
        find_node(node)


def test_node_can_be_named_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_NODE", str(fake_node(tmp_path, "v22.14.0")))
    assert find_node() == tmp_path / "node"
    monkeypatch.setenv("RUNTIME_NODE", str(tmp_path / "missing"))
    with pytest.raises(NodeMissing):
        find_node()


def test_missing_packages_are_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGEGATE_RUNTIME_HOME", str(tmp_path))
    with pytest.raises(NodeMissing, match="npm ci"):
        runtime_home()
