"""Which addresses a Renderer may reach, and which paths lead where (X1)."""

import pytest

from pagegate.renderer.contract import PageBases
from pagegate.renderer.egress import (
    AddressRefused,
    AllowedBases,
    BaseRefused,
    MemoryOrigin,
    OriginResponse,
    check_path,
    lies_under,
)

RUNTIME = "http://runtime:8081/"


@pytest.mark.parametrize(
    "url",
    [
        "http://runtime:8081/outputs/abc/",
        "http://runtime:8081/",
        "http://RUNTIME:8081/outputs/abc/",
    ],
)
def test_what_lies_below_an_allowed_base_is_allowed(url: str) -> None:
    assert lies_under(url, RUNTIME)


@pytest.mark.parametrize(
    "url",
    [
        "http://runtime:8082/outputs/abc/",
        "https://runtime:8081/outputs/abc/",
        "http://runtime.evil.test:8081/",
        "http://runtime:8081@evil.test/",
        "http://user:pw@runtime:8081/",
        "http://169.254.169.254/latest/",
        "http://[::ffff:169.254.169.254]/",
        "file:///etc/",
        "gopher://runtime:8081/",
        "http://runtime:8081/?x=/",
        "http://runtime:99999/",
        "",
    ],
)
def test_every_other_place_is_not(url: str) -> None:
    assert not lies_under(url, RUNTIME)


@pytest.mark.parametrize("path", ["outputs/../secret/", "outputs/%2e%2e/secret/", "outputsX/", "other/"])
def test_a_base_with_a_folder_holds_only_that_folder(path: str) -> None:
    assert lies_under(f"{RUNTIME}outputs/abc/", f"{RUNTIME}outputs/")
    assert not lies_under(f"{RUNTIME}{path}", f"{RUNTIME}outputs/")


def test_a_task_with_one_base_outside_is_refused_and_told_which() -> None:
    allowed = AllowedBases(navigation=(RUNTIME,), vendor=(RUNTIME,), assets=("http://backend:8080/",))
    good = PageBases(
        navigation_url=f"{RUNTIME}outputs/a/",
        vendor_url=f"{RUNTIME}vendor/",
        assets_url="http://backend:8080/internal/assets/",
    )
    allowed.admit(good)
    for field in ("navigation_url", "vendor_url", "assets_url"):
        for bad in ("http://169.254.169.254/", getattr(good, field).rstrip("/")):
            with pytest.raises(BaseRefused, match=field):
                allowed.admit(good.model_copy(update={field: bad}))


@pytest.mark.parametrize(
    "path",
    [
        "/../x",
        "/a/../../x",
        "/%2e%2e/x",
        "/%252e%252e/x",
        "/a\\..\\x",
        "/%5c..%5cx",
        "//evil.test/x",
        "/a%00b",
        "/%2f%2fx",
    ],
)
def test_a_path_that_climbs_is_refused_however_it_is_encoded(path: str) -> None:
    with pytest.raises(AddressRefused):
        check_path(path)


@pytest.mark.parametrize("path", ["/", "/page.js", "/assets/a..b.svg", "/assets/100%25.svg", "/assets/%E4%BD%A0.svg"])
def test_an_ordinary_path_is_not(path: str) -> None:
    check_path(path)


async def test_a_memory_origin_knows_encoded_names_and_ignores_the_query() -> None:
    origin = MemoryOrigin({"/assets/你.svg": OriginResponse(200, "image/svg+xml", b"<svg/>")})
    assert (await origin.get("/assets/%E4%BD%A0.svg?v=2")).body == b"<svg/>"
    assert (await origin.get("/assets/other.svg")).status == 404
