"""Names of a project's files: what one may look like, and which endings stand for which kind of file (D1, X4).

The rules are the same wherever a file comes from: a person's upload, or a picture that a provider made.
"""

import unicodedata

NAME_BYTES_MAX = 200

# What may be uploaded, by ending. Nothing that a browser would run as a page of its own.
MEDIA_TYPES: dict[str, str] = {
    ".avif": "image/avif",
    ".gif": "image/gif",
    ".ico": "image/x-icon",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
    ".otf": "font/otf",
    ".ttf": "font/ttf",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".wav": "audio/wav",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".csv": "text/csv",
    ".json": "application/json",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
}
# These mean something in a path, an import, a query or a shell; a name that is shown and imported needs none of them.
_NOT_IN_NAMES = frozenset("/\\?#%\"'`<>|:*\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_NOT_IN_NAMES_CATEGORIES = frozenset({"Cc", "Cs", "Cn", "Zl", "Zp"})


class AssetNameInvalid(ValueError):
    """ASSET_NAME_INVALID: this is not a usable file name."""


def asset_name(value: str) -> str:
    """A usable file name, in one Unicode form; its ending is not looked at. Raises `AssetNameInvalid`."""
    name = unicodedata.normalize("NFC", value)
    if (
        not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES_MAX
        or name != name.strip()
        or name.startswith(".")
        or any(char in _NOT_IN_NAMES or unicodedata.category(char) in _NOT_IN_NAMES_CATEGORIES for char in name)
    ):
        raise AssetNameInvalid("This is not a usable file name.")
    return name
