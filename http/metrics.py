"""How every process shows its numbers (O2).

Owns the text of `/metrics` and the two series that every HTTP door has. Each process makes its own registry and hands
it in; prometheus-client's global one is not used, so tests and several systems in one process do not meet in it.
Counters live as long as the process, gauges are set from what is true now: nothing survives a restart, which is what
Prometheus expects.
"""

import time

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


def metrics_handler(registry: CollectorRegistry) -> Handler:
    """The handler of `GET /metrics` for one registry."""

    async def show(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    return show


class HttpMetrics:
    """`pagegate_http_requests_total` and `pagegate_http_request_seconds`, by method, route and status.

    The route is the pattern, never the address asked for: addresses made up by strangers would each be a new series.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "pagegate_http_requests_total", "Answered requests.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "pagegate_http_request_seconds",
            "From the request's head to the end of its answer; streams are left out.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=registry,
        )

    def middleware(self) -> Middleware:
        """Put it outermost: it counts what the other middlewares answered."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            started_s = time.perf_counter()
            resource = request.match_info.route.resource
            route = resource.canonical if resource is not None else "unknown"
            # An unknown method would be as unbounded as an unknown address.
            method = request.method if request.match_info.route.resource is not None else "any"
            status = 499  # the client went away
            streamed = False
            try:
                answer = await handler(request)
                status = answer.status
                streamed = answer.headers.get("Content-Type", "").startswith("text/event-stream")
                return answer
            except web.HTTPException as error:
                status = error.status
                raise
            finally:
                self._requests.labels(method, route, str(status)).inc()
                if not streamed:
                    self._seconds.labels(method, route).observe(time.perf_counter() - started_s)

        return count
