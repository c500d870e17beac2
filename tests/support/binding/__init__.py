"""Makes the model server check how reasoning is bound to the conversation, as the
providers do.

    async with model_server(script, "anthropic", binding=Binding(account="new")) as server:
        ...
        assert server.violations == []
        assert server.refusals == []
        assert server.cached[-1].share > 0.9

The server signs each block of reasoning that it streams; the signature stands for
everything before the block. When a request sends a block back, the server looks up its
signature and compares: the model reads the block, the block is dropped, or the request
is refused. The rules are those of Anthropic Messages (`messages.py`), OpenAI Responses
(`responses.py`) and, if `Binding.chat` names a provider, Chat Completions (`chat.py`).
Each rule names the page of the documentation that it is from.
"""

from support.binding.records import Cached, Refused, Violation
from support.binding.settings import Binding

__all__ = ["Binding", "Cached", "Refused", "Violation"]
