"""The methods of ACP v1 that this agent speaks: who handles them, request or notification, and their models' names.

Light: a model is loaded when it is asked for. Knows nothing of handlers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import acp_agent.protocol.v1 as v1
from acp_agent.frozen import frozen

if TYPE_CHECKING:
    from acp_agent.protocol.wire import WireModel

Side: TypeAlias = Literal["agent", "client", "both"]


@frozen
class Method:
    """One row of the table.

    :ivar name: the method on the wire.
    :ivar side: who handles it.
    :ivar params: name of the params' model in `acp_agent.protocol.v1`; `mcp/message` has none.
    :ivar result: name of the result's model, or None for a notification.
    """

    name: str
    side: Side
    params: str
    result: str | None = None

    def params_model(self) -> type[WireModel]:
        """Load the params' model."""
        return cast("type[WireModel]", getattr(v1, self.params))


INITIALIZE: Final = "initialize"
AUTHENTICATE: Final = "authenticate"
LOGOUT: Final = "logout"
AUTH_STATUS: Final = "auth/status"
AUTH_STATUS_UPDATE: Final = "auth/status_update"
PROVIDERS_LIST: Final = "providers/list"
PROVIDERS_SET: Final = "providers/set"
PROVIDERS_DISABLE: Final = "providers/disable"
SESSION_NEW: Final = "session/new"
SESSION_LOAD: Final = "session/load"
SESSION_RESUME: Final = "session/resume"
SESSION_LIST: Final = "session/list"
SESSION_CLOSE: Final = "session/close"
SESSION_DELETE: Final = "session/delete"
SESSION_FORK: Final = "session/fork"
SESSION_SET_TITLE: Final = "session/set_title"
SESSION_ARCHIVE: Final = "session/archive"
SESSION_UNARCHIVE: Final = "session/unarchive"
SESSION_STATUS: Final = "session/status"
SESSION_PROMPT: Final = "session/prompt"
SESSION_CANCEL: Final = "session/cancel"
SESSION_SET_MODE: Final = "session/set_mode"
SESSION_SET_CONFIG_OPTION: Final = "session/set_config_option"
SESSION_UPDATE: Final = "session/update"
SESSION_REQUEST_PERMISSION: Final = "session/request_permission"
FS_READ_TEXT_FILE: Final = "fs/read_text_file"
FS_WRITE_TEXT_FILE: Final = "fs/write_text_file"
TERMINAL_CREATE: Final = "terminal/create"
TERMINAL_OUTPUT: Final = "terminal/output"
TERMINAL_WAIT_FOR_EXIT: Final = "terminal/wait_for_exit"
TERMINAL_KILL: Final = "terminal/kill"
TERMINAL_RELEASE: Final = "terminal/release"
ELICITATION_CREATE: Final = "elicitation/create"
ELICITATION_COMPLETE: Final = "elicitation/complete"
MCP_MESSAGE: Final = "mcp/message"
CANCEL_REQUEST: Final = "$/cancel_request"

METHODS: Final[dict[str, Method]] = {
    method.name: method
    for method in (
        Method(INITIALIZE, "agent", "InitializeRequest", "InitializeResponse"),
        Method(AUTHENTICATE, "agent", "AuthenticateRequest", "AuthenticateResponse"),
        Method(LOGOUT, "agent", "LogoutRequest", "LogoutResponse"),
        Method(AUTH_STATUS, "agent", "AuthStatusRequest", "AuthStatusResponse"),
        Method(AUTH_STATUS_UPDATE, "client", "AuthStatusUpdateNotification"),
        Method(PROVIDERS_LIST, "agent", "ListProvidersRequest", "ListProvidersResponse"),
        Method(PROVIDERS_SET, "agent", "SetProviderRequest", "SetProviderResponse"),
        Method(PROVIDERS_DISABLE, "agent", "DisableProviderRequest", "DisableProviderResponse"),
        Method(SESSION_NEW, "agent", "NewSessionRequest", "NewSessionResponse"),
        Method(SESSION_LOAD, "agent", "LoadSessionRequest", "LoadSessionResponse"),
        Method(SESSION_RESUME, "agent", "ResumeSessionRequest", "ResumeSessionResponse"),
        Method(SESSION_LIST, "agent", "ListSessionsRequest", "ListSessionsResponse"),
        Method(SESSION_CLOSE, "agent", "CloseSessionRequest", "CloseSessionResponse"),
        Method(SESSION_DELETE, "agent", "DeleteSessionRequest", "DeleteSessionResponse"),
        Method(SESSION_FORK, "agent", "ForkSessionRequest", "ForkSessionResponse"),
        Method(SESSION_SET_TITLE, "agent", "SetSessionTitleRequest", "SetSessionTitleResponse"),
        Method(SESSION_ARCHIVE, "agent", "ArchiveSessionRequest", "ArchiveSessionResponse"),
        Method(SESSION_UNARCHIVE, "agent", "UnarchiveSessionRequest", "UnarchiveSessionResponse"),
        Method(SESSION_STATUS, "agent", "SessionStatusRequest", "SessionStatusResponse"),
        Method(SESSION_PROMPT, "agent", "PromptRequest", "PromptResponse"),
        Method(SESSION_CANCEL, "agent", "CancelNotification"),
        Method(SESSION_SET_MODE, "agent", "SetSessionModeRequest", "SetSessionModeResponse"),
        Method(SESSION_SET_CONFIG_OPTION, "agent", "SetSessionConfigOptionRequest", "SetSessionConfigOptionResponse"),
        Method(SESSION_UPDATE, "client", "SessionNotification"),
        Method(SESSION_REQUEST_PERMISSION, "client", "RequestPermissionRequest", "RequestPermissionResponse"),
        Method(FS_READ_TEXT_FILE, "client", "ReadTextFileRequest", "ReadTextFileResponse"),
        Method(FS_WRITE_TEXT_FILE, "client", "WriteTextFileRequest", "WriteTextFileResponse"),
        Method(TERMINAL_CREATE, "client", "CreateTerminalRequest", "CreateTerminalResponse"),
        Method(TERMINAL_OUTPUT, "client", "TerminalOutputRequest", "TerminalOutputResponse"),
        Method(TERMINAL_WAIT_FOR_EXIT, "client", "WaitForTerminalExitRequest", "WaitForTerminalExitResponse"),
        Method(TERMINAL_KILL, "client", "KillTerminalRequest", "KillTerminalResponse"),
        Method(TERMINAL_RELEASE, "client", "ReleaseTerminalRequest", "ReleaseTerminalResponse"),
        Method(ELICITATION_CREATE, "client", "CreateElicitationRequest", "CreateElicitationResponse"),
        Method(ELICITATION_COMPLETE, "client", "CompleteElicitationNotification"),
        Method(MCP_MESSAGE, "client", "MessageMcpRequest", "MessageMcpResponse"),
        Method(CANCEL_REQUEST, "both", "CancelRequestNotification"),
    )
}
