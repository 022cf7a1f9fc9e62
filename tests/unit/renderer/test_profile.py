"""The render profile's digest (R6)."""

from pathlib import Path

from pagegate.renderer import isolation
from pagegate.renderer.isolation import Mode
from pagegate.renderer.options import BrowserOptions
from pagegate.renderer.profile import digest_of, font_lines, read_profile, version_of

SOMEWHERE = "/usr/share/fonts/Arimo.ttf: Arimo|Regular|1\n/usr/share/fonts/Tinos.ttf: Tinos|Bold|2\n"
ELSEWHERE = "/opt/fonts/Tinos.ttf: Tinos|Bold|2\n/opt/fonts/Arimo.ttf: Arimo|Regular|1\n"


def test_fonts_are_the_same_wherever_they_are_installed() -> None:
    assert font_lines(SOMEWHERE) == font_lines(ELSEWHERE) == ["Arimo.ttf:Arimo|Regular|1", "Tinos.ttf:Tinos|Bold|2"]
    assert font_lines(SOMEWHERE.replace("|2", "|3")) != font_lines(ELSEWHERE)


def test_the_version_is_read_from_what_the_browser_prints() -> None:
    assert version_of("Chromium 156.0.8078.108 built on Debian GNU/Linux 12 (bookworm)\n") != "unknown"
    assert version_of("Chromium 156.0.8078.108\n") == "156.0.8078.108"
    assert version_of("") == "unknown"


def test_the_digest_does_not_depend_on_the_order_of_the_profile() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


async def test_the_isolation_mode_and_the_flags_are_part_of_the_digest_and_no_path_is() -> None:
    chromium = isolation.find_chromium()
    locked, open_ = Mode("netns", ("unshare",), sandbox=True), Mode("proxy", (), sandbox=False, network=True)
    profile = await read_profile(BrowserOptions(), chromium, locked)
    again = await read_profile(BrowserOptions(), chromium, locked)
    other = await read_profile(BrowserOptions(), chromium, open_)
    assert digest_of(profile) == digest_of(again) != digest_of(other)
    assert profile["version"][0].isdigit()
    assert profile["fonts_count"] > 0
    assert profile["flags"]
    assert str(Path(chromium).parent) not in str(profile)
