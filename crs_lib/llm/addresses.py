"""Addresses of model servers: given as a list, checked once, shown without anything secret."""

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from crs_lib.core.errors import InputError


def parse(hosts: str, *, port: int, variable: str) -> tuple[str, ...]:
    """The base addresses in a comma-separated list: ``gpu1:11434, http://gpu2`` gives two.

    A missing scheme is http, and with it a missing port ``port``; 0.0.0.0, which is where a server
    listens, means this machine. Raises InputError for an empty list, another scheme, a name and password, or
    a query, which could hold a key.
    """
    found = tuple(_one(part.strip(), port) for part in hosts.split(",") if part.strip())
    if not found:
        raise InputError(f"no address in {hosts!r}; give one, or several with commas between ({variable})")
    if len(set(found)) < len(found):
        raise InputError(f"an address occurs twice in {', '.join(found)}; name each server once")
    return found


def _one(text: str, port: int) -> str:
    if _is_ipv6(text):
        text = f"[{text}]"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        given, name = parts.port, parts.hostname or ""
    except ValueError as error:
        raise InputError("a server address cannot be read; write it like http://gpu1:11434") from error
    if parts.username or parts.password:
        raise InputError("a server address must not hold a name and password; put a key in the environment")
    if parts.query or parts.fragment:
        raise InputError("a server address ends before '?' or '#'; put a key in the environment")
    if parts.scheme not in ("http", "https"):
        raise InputError(f"{text!r} is not an address of a server; write it like http://gpu1:{port}")
    name = "127.0.0.1" if name in ("", "0.0.0.0", "::") else f"[{name}]" if ":" in name else name
    chosen = given or (None if "://" in text else port)
    return f"{parts.scheme}://{name}{f':{chosen}' if chosen else ''}{parts.path.rstrip('/')}"


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6
    except ValueError:
        return False


def is_local(address: str) -> bool:
    """Whether the address is this machine's own; such calls never go through a proxy."""
    name = urlsplit(address).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def has_proxy(address: str) -> bool:
    """Whether calls to the address go through a proxy: HTTP_PROXY, ALL_PROXY and NO_PROXY say."""
    parts, known = urlsplit(address), getproxies()
    asked = not is_local(address) and bool({parts.scheme, "all"} & known.keys())
    return asked and not proxy_bypass(parts.netloc)
