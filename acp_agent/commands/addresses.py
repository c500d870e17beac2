"""Where to listen, as a person writes it."""

from __future__ import annotations

import ipaddress

from acp_agent.errors import AgentError
from acp_agent.frozen import frozen

_LAST_PORT = 65_535


@frozen
class Address:
    """Where to listen; `port` 0 stands for any that is free."""

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> Address:
        """From `HOST:PORT`, `HOST` or `PORT`.

        :raises AgentError: it is no address.
        """
        host, colon, port = text.rpartition(":")
        if text.isdecimal():
            host, port = "127.0.0.1", text
        elif not colon or text.endswith("]"):
            host, port = text, "0"
        bracketed, host = host.startswith("["), host.removeprefix("[").removesuffix("]")
        if not host or "/" in host or (":" in host and not bracketed) or not _is_port(port):
            raise AgentError(f"{text!r} is no address: write HOST:PORT, as 127.0.0.1:8080 or [::1]:8080.")
        return cls("127.0.0.1" if host.lower() == "localhost" else host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def authority(self, port: int) -> str:
        """What stands in a URL.

        :param port: the one that is listened on.
        """
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{port}"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(_LAST_PORT)) and int(text) <= _LAST_PORT
