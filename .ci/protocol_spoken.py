"""What this agent speaks of each version of ACP: a model is made for what these methods
need, and for nothing else.
"""

from __future__ import annotations

METHODS = [
    *(
        "initialize",
        "authenticate",
        "logout",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
    ),
    *(
        "session/close",
        "session/delete",
        "session/prompt",
        "session/cancel",
        "session/set_mode",
    ),
    *(
        "session/set_config_option",
        "$/cancel_request",
        "session/update",
        "session/request_permission",
    ),
    *("fs/read_text_file", "fs/write_text_file"),
    *(
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
    ),
    *("elicitation/create", "elicitation/complete"),
]

V2_METHODS = [
    *(
        "initialize",
        "auth/login",
        "auth/logout",
        "session/new",
        "session/list",
        "session/resume",
        "session/close",
    ),
    *(
        "session/delete",
        "session/prompt",
        "session/cancel",
        "session/set_config_option",
        "tool_call/cancel",
    ),
    *(
        "terminal/cancel",
        "$/cancel_request",
        "session/update",
        "session/request_permission",
        "elicitation/create",
    ),
    "elicitation/complete",
]

# What this agent speaks beyond the stable schemas, of each version: methods, properties
# of definitions that are in it, and alternatives of its unions.
UNSTABLE = [
    *(
        "providers/list",
        "providers/set",
        "providers/disable",
        "auth/status",
        "auth/status_update",
        "mcp/message",
    ),
    *(
        "session/fork",
        "session/set_title",
        "session/archive",
        "session/unarchive",
        "session/status",
    ),
]
_IN_BOTH = [
    *(
        ("AgentCapabilities", "providers"),
        ("AgentAuthCapabilities", "status"),
        ("McpCapabilities", "acp"),
    ),
    *(("SessionCapabilities", name) for name in ("fork", "title", "archive", "status")),
    *(("ListSessionsRequest", "archived"), ("SessionInfo", "archived")),
]
UNSTABLE_PROPERTIES = {
    "v1": [*_IN_BOTH, ("ClientCapabilities", "plan")],
    "v2": _IN_BOTH,
}
UNSTABLE_ALTERNATIVES = {
    "v1": {"McpServer": {"acp"}, "SessionUpdate": {"plan_update", "plan_removed"}},
    "v2": {"McpServer": {"acp"}},
}
# Their properties that it does not speak.
LEFT_OUT = {("ForkSessionRequest", "systemPrompt")}

# What is read without a model: the first line, messages of another protocol, and what
# is not looked at.
PLAIN = {
    "initialize",
    "mcp/message",
    "$/cancel_request",
    "fs/write_text_file",
    "terminal/kill",
    "terminal/release",
}
# Definitions that are read past: nothing is done with them.
UNREAD = {"Annotations", "Icon"}
