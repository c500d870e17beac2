"""`mcp_servers` in the user's configuration file: programs and addresses of servers that every session has.

A value of `env` and `headers` may name variables of the agent's environment, so that no token has to stand in a file.
They are looked up when a server is started, and not here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from acp_agent.config.forms import HeaderName, HeaderValue, Url, VariableName
from acp_agent.config.hook_section import Section
from acp_agent.config.settings import McpServer, McpTransport


class McpServerSection(Section):
    """`mcp_servers.*`."""

    command: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the program of a server that speaks over its standard input and output"
    )
    args: list[str] | None = Field(default=None, description="the program's arguments")
    env: dict[VariableName, str] | None = Field(
        default=None,
        description="environment variables, added to the few that every server gets; `${NAME}` in a value stands for a "
        "variable of the agent's environment",
    )
    url: Url | None = Field(default=None, description="the address of a server that speaks over HTTP")
    transport: Literal["http", "sse"] | None = Field(
        default=None, description="how the address is spoken to: `http` is streamable HTTP; left out: `http`"
    )
    headers: dict[HeaderName, HeaderValue] | None = Field(
        default=None, description="sent with every request; `${NAME}` as in `env`"
    )
    timeout: Annotated[float, Field(gt=0, le=86_400)] | None = Field(
        default=None, description="seconds that a call of one of its tools may take; left out: 300"
    )

    @model_validator(mode="after")
    def a_program_or_an_address(self) -> McpServerSection:
        """A server has a command or a URL, and what belongs to it."""
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("server", "a server has either `command: PROGRAM` or `url: ADDRESS`")
        others = (self.transport, self.headers) if self.url is None else (self.args, self.env)
        if any(other is not None for other in others):
            words = "`transport` and `headers` belong to" if self.url is None else "`args` and `env` belong to"
            raise PydanticCustomError("server", f"{words} `{'url' if self.url is None else 'command'}`")
        return self

    def settings(self, name: str) -> McpServer:
        """As plain data.

        :param name: the server's.
        """
        transport: McpTransport = "stdio" if self.url is None else self.transport or "http"
        server = McpServer(
            name,
            transport,
            command=self.command or "",
            args=tuple(self.args or ()),
            env=self.env or {},
            url=self.url or "",
            headers=self.headers or {},
            variables=True,
        )
        return server if self.timeout is None else replace(server, timeout=self.timeout)
