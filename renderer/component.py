"""A component looked at alone (R7): a neutral stage around it, and the props that it is shown with.

Owns what the document of a compiled component gets before a browser sees it: white ground, some room on all sides, and
the props as JSON, which the compiled host passes on. Everything else of the origin stays as it is. Pure but for the
origin it asks.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pagegate.renderer.contract import Diagnosis
from pagegate.renderer.egress import Origin, OriginResponse

_STAGE = "<style>body { box-sizing: border-box; padding: 32px; background: #fff; }</style>"
_DOCUMENTS = frozenset({"/", "/index.html"})


class ComponentOrigin:
    """An origin whose document is a stage for its component."""

    def __init__(self, origin: Origin, props: Mapping[str, Any]) -> None:
        self._origin, self._props = origin, props

    async def get(self, path_and_query: str) -> OriginResponse:
        answer = await self._origin.get(path_and_query)
        if path_and_query.partition("?")[0] not in _DOCUMENTS or answer.status != 200:
            return answer
        return replace(answer, body=staged(answer.body, self._props))


def staged(document: bytes, props: Mapping[str, Any]) -> bytes:
    """The document with stage and props in its head. A `<` in a prop cannot end the script that carries it."""
    carried = json.dumps(props).replace("<", "\\u003c")
    head = f'{_STAGE}<script type="application/json" id="pagegate-props">{carried}</script>'
    return document.replace(b"</head>", head.encode() + b"</head>", 1)


def about_the_component(diagnosis: Diagnosis) -> Diagnosis:
    """The same findings, told about a component. The codes stay."""
    findings = [finding.model_copy(update={"message": _reworded(finding.message)}) for finding in diagnosis.findings]
    return diagnosis.model_copy(update={"findings": findings})


def _reworded(message: str) -> str:
    return re.sub(r"\b([Tt])he page\b", lambda found: f"{found[1]}he component", message)
