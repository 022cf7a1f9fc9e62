"""The way out to addresses that strangers name: only into the public internet (X1).

Owns no state. The Backend stands in a network that its users do not. What counts is the address that a socket is made
for, not what a name said when it was saved: `PublicDoor` makes aiohttp's sockets and refuses the others, `Names` asks
name servers in threads of its own.
"""

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# A name server that lets us wait holds up a thread: one of these, and not one that the whole process works with.
_NAMES = ThreadPoolExecutor(4, thread_name_prefix="public-names")


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet, also when it is an IPv4 one in the clothes of IPv6.

    Raises `ValueError` for what is no address.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or (ipaddress.IPv4Address(int(found) & 0xFFFFFFFF) if found in _NAT64 else None)
        if inner is None:
            # Tunnels (6to4, Teredo) lead to IPv4 addresses that nobody has looked at.
            tunnel = found.sixtofour is not None or found.teredo is not None
            return found in _GLOBAL_V6 and found.is_global and not tunnel
        found = inner
    return found.is_global and not found.is_multicast and not found.is_reserved


class Names(AbstractResolver):
    """The system's own names, asked for in threads of their own."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        ask = partial(socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        found = await asyncio.get_running_loop().run_in_executor(_NAMES, ask)
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kind, proto=protocol, flags=numeric)
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        return


class PublicDoor:
    """Makes sockets for public addresses only, unless `trusted`; remembers what it refused."""

    def __init__(self, *, trusted: bool) -> None:
        self._trusted, self._opened, self._refused = trusted, 0, 0

    @property
    def refused_all(self) -> bool:
        return self._refused > 0 and self._opened == 0

    def open(self, found: tuple[Any, ...]) -> socket.socket:
        """`found`: an entry of `getaddrinfo`. An `OSError` lets the next address be tried."""
        family, kind, protocol, _, address = found
        if not self._trusted and not is_public(str(address[0])):
            self._refused += 1
            raise PermissionError("not an address of the public internet")
        self._opened += 1
        return socket.socket(family, kind, protocol)
