"""acp-agent as a persona of Jupyter AI 3. It goes into `.jupyter/personas/` with acp-agent.svg."""

from pathlib import Path

from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults

COMMAND = "/path/to/acp-agent"


class AcpAgentPersona(BaseAcpPersona):
    """Starts the agent and passes it what is written in a chat."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, executable=[COMMAND], **kwargs)

    @property
    def defaults(self) -> PersonaDefaults:
        """Return what the chat shows of the agent."""
        return PersonaDefaults(
            name="acp-agent",
            description="A coding agent that compacts long conversations.",
            avatar_path=str(Path(__file__).resolve().with_name("acp-agent.svg")),
            system_prompt="",
        )

    async def is_authed(self) -> bool:
        """Return whether the agent can be asked: the agent itself says which key is missing."""
        return True
