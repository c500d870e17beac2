"""Reads where to listen, as a person writes it."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from acp_agent.errors import AgentError
from acp_agent.frozen import frozen


@frozen
class Address:
    """Where to listen; `port` 0 stands for any that is free."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """Return the address that is written as `HOST:PORT`, `HOST` or `PORT`.

        :raises AgentError: it is no address.
        """
        authority = f"127.0.0.1:{text}" if text.isdecimal() else text
        try:
            parts = urlsplit(f"//{authority}")
            host, port = parts.hostname, parts.port or 0
        except ValueError:
            host, port = None, 0
        if not host or "@" in text or "/" in text:
            raise AgentError(f"{text!r} is no address: write HOST:PORT, as 127.0.0.1:8080 or [::1]:8080.")
        return cls("127.0.0.1" if host == "localhost" else host, port)

    @property
    def is_loopback(self) -> bool:
        """Whether this machine alone can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def authority(self, port: int) -> str:
        """Return what stands in a URL, with the port that is listened on."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{port}"
