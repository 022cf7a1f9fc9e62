"""What runs in the page to judge it (R10): plain JavaScript files, one concern each, in an isolated world.

Owns the order in which the files are put together and the steps that an attempt evaluates. The scripts only look: the
page's picture is taken before them and nothing they do is painted. What they return is facts with numbers; what is a
finding and how grave it is, `pagegate.renderer.diagnosis` decides.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from pagegate.renderer.observation import ProbeStep

PAGE_PROBE: Final = "page"  # the one step's name: its answer is `Observation.probe["page"]`

# Later files use what earlier ones define; each is described by its first lines.
FILES: Final = (
    "walk.js",
    "colours.js",
    "where.js",
    "texts.js",
    "overflow.js",
    "clipping.js",
    "overlap.js",
    "contrast.js",
    "cover.js",
    "media.js",
    "glyphs.js",
    "report.js",
)


@cache
def page_script() -> str:
    """All probes as the source of one function `(input) => string`."""
    folder = files(__package__)
    sources = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in FILES)
    return f'(input) => {{\n"use strict";\n{sources}\nreturn report(input);\n}}'


def probe_steps() -> tuple[ProbeStep, ...]:
    """The steps of one diagnosis, in order. One evaluation: a round trip costs more than all that is looked at."""
    return (ProbeStep(name=PAGE_PROBE, script=page_script()),)
