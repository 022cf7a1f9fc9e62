"""Archives are looked at before anything of them is kept or served (X4).

Pure but for reading the file, which may lie anywhere that can be sought in; of an archive of any size, little of it is
in memory at a time. What is no plain zip of plain files is refused with `ArchiveRefused`: a path that leads out, a
link, two entries of one name, more entries or more bytes than allowed, and a ratio that only a bomb has.
"""

import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

ENTRIES_MAX = 20_000
NAME_BYTES_MAX = 1024
RATIO_MAX = 200
RATIO_FREE_BYTES = 64 * 1024 * 1024  # below this much in all, a ratio says nothing
DIRECTORY_BYTES_MAX = 8 * 1024 * 1024  # of the list of entries, which is read as a whole
BLOCK_BYTES = 1024 * 1024
_ENTRY_SIGN = b"PK\x01\x02"


class ArchiveRefused(Exception):
    """The archive cannot be served. The text is for clients: it names the entry, and nothing of this machine."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Of what comes out of it. `unpacked_bytes_max` counts all files together."""

    unpacked_bytes_max: int
    entries_max: int = ENTRIES_MAX


class SiteArchive:
    """An archive that was looked at. `entries` are its files, in its order."""

    def __init__(self, opened: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo]) -> None:
        self.entries, self._opened = entries, opened

    def blocks(self, entry: zipfile.ZipInfo) -> Iterator[bytes]:
        """The content of a file, never more of it than its entry says. Blocks; raises `ArchiveRefused` when damaged."""
        try:
            with self._opened.open(entry) as source:
                while block := source.read(BLOCK_BYTES):
                    yield block
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise ArchiveRefused(f"{entry.filename[:80]!r} is damaged") from error


def check_archive(file: IO[bytes], size_bytes: int, limits: ArchiveLimits) -> SiteArchive:
    """A site's archive of this size. Raises `ArchiveRefused`. Blocks."""
    frugal = _Frugal(file, size_bytes, limits.entries_max)
    try:
        opened = zipfile.ZipFile(frugal)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ArchiveRefused("it is no zip") from error
    frugal.opening = False
    entries = opened.infolist()
    if len(entries) > limits.entries_max:
        raise ArchiveRefused(f"it has {len(entries)} entries, {limits.entries_max} are allowed")
    seen = set[str]()
    for entry in entries:
        _check_entry(entry)
        if entry.filename in seen:
            raise ArchiveRefused(f"it has two entries called {entry.filename[:80]!r}")
        seen.add(entry.filename)
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > limits.unpacked_bytes_max:
        raise ArchiveRefused(f"it unpacks to {unpacked} bytes, {limits.unpacked_bytes_max} are allowed")
    if unpacked > RATIO_FREE_BYTES and unpacked > RATIO_MAX * size_bytes:
        raise ArchiveRefused(f"it unpacks to more than {RATIO_MAX} times its size")
    if "index.html" not in seen:
        raise ArchiveRefused("it has no index.html")
    return SiteArchive(opened, [entry for entry in entries if not entry.is_dir()])


class _Frugal:
    """A file whose reader cannot be talked into one enormous read: an archive itself says how long its list is.

    While it is `opening`, the entries of the list are counted before anybody makes an object of each.
    """

    def __init__(self, file: IO[bytes], size_bytes: int, entries_max: int) -> None:
        self._file, self._size_bytes, self._entries_max = file, size_bytes, entries_max
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable
        self.opening = True

    def read(self, size: int | None = None) -> bytes:
        wanted = self._size_bytes - self._file.tell() if size is None or size < 0 else size
        if wanted > DIRECTORY_BYTES_MAX:
            raise ArchiveRefused("its list of entries is too long")
        found = self._file.read(wanted)
        if self.opening and (count := found.count(_ENTRY_SIGN)) > self._entries_max:
            raise ArchiveRefused(f"it has {count} entries, {self._entries_max} are allowed")
        return found


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name, shown = entry.filename, entry.filename[:80]
    parts = name.removesuffix("/").split("/")
    if len(name.encode(errors="replace")) > NAME_BYTES_MAX or "\\" in name or any(ord(char) < 32 for char in name):
        raise ArchiveRefused(f"{shown!r} is no name of a file")
    if any(part in {"", ".", ".."} for part in parts) or (len(parts[0]) == 2 and parts[0][1] == ":"):
        raise ArchiveRefused(f"{shown!r} leads out of the site")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        raise ArchiveRefused(f"{shown!r} is a link or a device")
    if entry.flag_bits & 1:
        raise ArchiveRefused(f"{shown!r} is encrypted")
    if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise ArchiveRefused(f"{shown!r} is packed in a way that is not read here")
