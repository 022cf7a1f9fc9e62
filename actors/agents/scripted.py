"""A model that follows a script, for the demo and for people without a key (A10).

It writes a small deck about what the prompt asks for: it looks around, writes all pages in one step, with one slip that
the gate refuses, repairs it by the finding, and reports. No network, no key, the same words every time.
"""

import html
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

_PAGES_MAX = 8
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
_COUNT = re.compile(r"\b(\d+|" + "|".join(_NUMBERS) + r")[- ](?:page|slide)", re.IGNORECASE)
_TOPIC = re.compile(r"\babout\s+(.{1,80})", re.IGNORECASE | re.DOTALL)
_HEADINGS = (
    "What it is about",
    "Where we stand",
    "What we learned",
    "What comes next",
    "Risks",
    "People",
    "Costs",
    "Thanks",
)


def scripted_model() -> FunctionModel:
    return FunctionModel(stream_function=_speak, model_name="scripted")


async def _speak(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[Any]:
    prompt, since = _last_prompt(messages)
    count, topic = _wanted(prompt)
    results = _results(since)
    if not any(isinstance(message, ModelResponse) for message in since):
        yield "Let me look at what is there.\n"
        yield {1: DeltaToolCall(name="list_project_pages", json_args="{}", tool_call_id=f"look-{len(messages)}")}
        return
    if "create_project_page" not in {part.tool_name for part in results}:
        yield f"I write {count} pages about {topic} in one step.\n"
        for number in range(count):
            source = _page(topic, number, count, slip=number == count - 1)
            arguments = {"title": f"{topic}: {_HEADINGS[number]}", "source": source}
            yield {number + 1: _call("create_project_page", arguments, f"page-{len(messages)}-{number}")}
        return
    refused = [part for part in _last_results(since) if isinstance(part.content, dict) and _may_repair(part.content)]
    if refused and sum(isinstance(message, ModelResponse) for message in since) < 6:
        yield "One page was refused; I repair what the finding names.\n"
        number = count - 1
        arguments = {"title": f"{topic}: {_HEADINGS[number]}", "source": _page(topic, number, count, slip=False)}
        yield {1: _call("create_project_page", arguments, f"repair-{len(messages)}")}
        return
    yield _report(results)


def _call(name: str, arguments: dict[str, Any], call_id: str) -> DeltaToolCall:
    return DeltaToolCall(name=name, json_args=json.dumps(arguments), tool_call_id=call_id)


def _last_prompt(messages: Sequence[ModelMessage]) -> tuple[str, list[ModelMessage]]:
    """The newest words of the person, and everything after them."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, ModelRequest):
            for part in reversed(message.parts):
                if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                    return part.content, list(messages[index + 1 :])
    return "", list(messages)


def _wanted(prompt: str) -> tuple[int, str]:
    found = _COUNT.search(prompt)
    said = found[1].lower() if found else "3"
    count = _NUMBERS.get(said) or int(said)
    topic = _TOPIC.search(prompt)
    words = " ".join((topic[1] if topic else prompt or "pagegate").split()).strip(" .!?\"'")
    return max(1, min(count, _PAGES_MAX)), words[:60] or "pagegate"


def _results(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    return [part for message in requests for part in message.parts if isinstance(part, ToolReturnPart)]


def _last_results(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    asked: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            asked = {part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)}
            break
    return [part for part in _results(messages) if part.tool_call_id in asked]


def _may_repair(result: dict[str, Any]) -> bool:
    return result.get("saved") is False and result.get("code") == "PAGE_VALIDATION_FAILED"


def _report(results: Sequence[ToolReturnPart]) -> str:
    written = [part.content for part in results if isinstance(part.content, dict) and "saved" in part.content]
    saved = [str(one.get("page_code")) for one in written if one["saved"]]
    lines = [f"Saved {len(saved)} page{'s' if len(saved) != 1 else ''}: {', '.join(saved) or 'none'}."]
    last: dict[str, dict[str, Any]] = {str(one.get("page_code")): one for one in written}
    lines += [
        f"Not saved: {code} ({one.get('code', one.get('status'))})." for code, one in last.items() if not one["saved"]
    ]
    return "\n".join(lines)


_PAGE = """<script setup lang="ts">
const points = {points}
</script>

<template>
  <main class="flex h-full w-full flex-col justify-center gap-8 bg-stone-50 px-24 text-stone-900">
    <p class="text-sm font-medium uppercase tracking-widest text-emerald-800">{topic}</p>
    <h1 class="text-5xl font-semibold">{heading}</h1>
    <ul class="grid gap-3 text-xl text-stone-700">
      <li v-for="point in points" :key="point">{{{{ {value} }}}}</li>
    </ul>
    <p class="text-sm text-stone-600">{number} of {count}</p>
  </main>
</template>
"""


def _page(topic: str, number: int, count: int, *, slip: bool) -> str:
    heading = _HEADINGS[number]
    points = [f"{heading}: first, in one sentence", "then the figure that matters", "and what we ask of you"]
    shown = html.escape(topic).replace("{{", "{ {")
    value = "point.text.toUpperCase()" if slip else "point"  # the slip: a point has no text
    return _PAGE.format(
        points=json.dumps(points), topic=shown, heading=heading, value=value, number=number + 1, count=count
    )
