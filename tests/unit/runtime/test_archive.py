"""What an archive may be, and that reading a hostile one costs little (X4)."""

import io
import struct
import tracemalloc
import zipfile

import pytest

from pagegate.runtime.archive import DIRECTORY_BYTES_MAX, ArchiveLimits, ArchiveRefused, check_archive

LIMITS = ArchiveLimits(unpacked_bytes_max=1024 * 1024)
END = struct.Struct("<4s4H2LH")  # the record at an archive's end


def zipped(**files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"index.html": b"<h1>site</h1>", **files}.items():
            archive.writestr(name, content)
    return made.getvalue()


def look(content: bytes) -> dict[str, bytes]:
    archive = check_archive(io.BytesIO(content), len(content), LIMITS)
    return {entry.filename: b"".join(archive.blocks(entry)) for entry in archive.entries}


def directory_of(content: bytes) -> tuple[bytes, bytes, bytes]:
    """What is before the list of entries, the list, and the record at the end."""
    *_, size, start, _ = END.unpack(content[-END.size :])
    return content[:start], content[start : start + size], content[-END.size :]


def with_directory(head: bytes, directory: bytes) -> bytes:
    return head + directory + END.pack(b"PK\x05\x06", 0, 0, 1, 1, len(directory), len(head), 0)


def test_a_site_is_read_as_it_was_packed() -> None:
    files = {"pages/1/page.js": b"let n = 1" * 1000, "empty": b""}
    assert look(zipped(**files)) == {"index.html": b"<h1>site</h1>", **files}


@pytest.mark.parametrize("copies", [20_001, 150_000])
def test_too_many_entries_are_refused_before_they_are_taken_apart(copies: int) -> None:
    head, directory, _ = directory_of(zipped())
    content = with_directory(head, directory * copies)
    tracemalloc.start()
    with pytest.raises(ArchiveRefused):
        look(content)
    assert tracemalloc.get_traced_memory()[1] < 2 * DIRECTORY_BYTES_MAX + 2 * len(content)
    tracemalloc.stop()


def test_a_list_of_entries_that_is_longer_than_any_site_needs_is_not_read() -> None:
    head, directory, _ = directory_of(zipped())
    with pytest.raises(ArchiveRefused, match="too long"):
        look(with_directory(head, directory + bytes(DIRECTORY_BYTES_MAX)))


@pytest.mark.parametrize("at", [40, 44, 60, 200])
def test_a_damaged_file_is_refused_when_it_is_read(at: int) -> None:
    content = bytearray(zipped(**{"index.html": bytes(range(256)) * 20}))
    for place in range(at, at + 4):
        content[place] ^= 0xFF
    with pytest.raises(ArchiveRefused, match="damaged"):
        look(bytes(content))


def test_a_file_gives_no_more_than_its_entry_says() -> None:
    head, directory, _ = directory_of(zipped(**{"index.html": b"x" * 5000}))
    lying = bytearray(directory)
    lying[24:28] = struct.pack("<L", 10)  # its size
    with pytest.raises(ArchiveRefused, match="damaged"):
        look(with_directory(head, bytes(lying)))
