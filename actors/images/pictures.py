"""What a provider's picture must be before it is a file of a project (X1, X4): decided by looking at its bytes.

Owns the limits. Pure but slow: a picture is decoded whole, since half of one looks well until its end; call it in a
thread. Nothing is converted: what a provider made is stored as it came, or not at all.
"""

import io
from dataclasses import dataclass, field

from pagegate.actors.images.answers import Declined, Failed, invalid

BYTES_MAX = 20 * 1024 * 1024
SIDE_PX_MAX = 8192
PIXELS_MAX = 4096 * 4096

_MEDIA_TYPES = {"PNG": ("image/png", ".png"), "JPEG": ("image/jpeg", ".jpg"), "WEBP": ("image/webp", ".webp")}
_ORIENTATION = 0x0112
_LYING = frozenset({5, 6, 7, 8})


@dataclass(frozen=True)
class Picture:
    """A picture that may be stored, with the pixels that a browser shows it in. `ending` is its format's own."""

    content: bytes = field(repr=False)
    media_type: str
    ending: str
    width_px: int
    height_px: int


def look_at(content: bytes) -> Picture | Declined | Failed:
    """The picture in these bytes, or why it cannot be used."""
    from PIL import Image  # a Backend that never makes a picture need not hold the library

    if len(content) > BYTES_MAX:
        return too_large(f"it has more than {BYTES_MAX // 2**20} MB")
    try:
        with Image.open(io.BytesIO(content), formats=tuple(_MEDIA_TYPES)) as image:
            width_px, height_px = image.size
            if max(width_px, height_px) > SIDE_PX_MAX or width_px * height_px > PIXELS_MAX:
                return too_large(f"it measures {width_px} x {height_px} pixels")
            image.verify()  # its checksums to the end of the file; then it has to be opened again
        with Image.open(io.BytesIO(content), formats=tuple(_MEDIA_TYPES)) as image:
            image.load()
            media_type, ending = _MEDIA_TYPES[str(image.format)]
            if image.getexif().get(_ORIENTATION) in _LYING:
                width_px, height_px = height_px, width_px
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return too_large("it would have too many pixels")
    except Exception:  # the decoders raise whatever broken bytes lead them to
        return invalid("it is no PNG, JPEG or WebP picture, or a broken one")
    return Picture(content, media_type, ending, width_px, height_px)


def too_large(why: str) -> Declined:
    """Asked again, it would be as large."""
    return Declined(
        "IMAGE_TOO_LARGE",
        f"The provider's answer is too large: {why}.",
        "Ask for a smaller size; do not change the prompt for that.",
    )
