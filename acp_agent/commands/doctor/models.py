"""Checks of what answers: the keys that are set, and whether the model does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import aclosing

import anyio

from acp_agent.commands.doctor.findings import Finding
from acp_agent.config import Settings
from acp_agent.config.load import MODEL_VARIABLE
from acp_agent.conversation.messages import Text, UserMessage, new_id
from acp_agent.errors import AgentError, ConfigError, ModelRequestError
from acp_agent.llm.access import check_key
from acp_agent.llm.provider import ModelRequest, Resent, Retrying
from acp_agent.llm.registry import Registry

SECONDS = 20.0
"""How long the model may take to say a word."""
_MOST_TOKENS = 64
"""Of the answer: enough for a word, also with providers that refuse smaller numbers."""


def check_keys(settings: Settings, registry: Registry, env: Mapping[str, str]) -> Iterator[Finding]:
    """The keys of all providers; those that are missing matter only where somebody wants that provider."""
    wanted = dict.fromkeys(settings.providers, "the configuration names it")
    of_summaries = (settings.compaction_for(model).model for model in ("", *settings.models))
    for model in (settings.model, settings.small_model, *of_summaries):
        if model is not None:
            who = MODEL_VARIABLE if _is_of_environment(model, env) else "the configuration"
            wanted[model.partition("/")[0]] = f"{who} names it"
    missing: list[str] = []
    readable = True
    try:
        registry.places.has_stored_key("")
    except ConfigError as error:
        readable = False
        yield Finding("fail", "keys", str(error))
    for provider, variables in registry.places.key_variables().items():
        found = next((name for name in variables if env.get(name, "").strip()), None)
        if found is not None:
            try:
                check_key(provider, env[found].strip(), found)
                yield Finding("ok", "keys", f"{provider}: {found} is set.")
            except AgentError as error:
                yield Finding("fail", "keys", str(error))
        elif readable and registry.places.has_stored_key(provider):
            yield Finding("ok", "keys", f"{provider}: a key is stored.")
        elif variables and provider in wanted and readable:
            names = " or ".join(variables)
            text = f"{provider}: there is no key for it, though {wanted[provider]}."
            yield Finding(
                "fail",
                "keys",
                text,
                f"Run `acp-agent login {provider}`, or set {names} in the environment that your editor starts the agent"
                " with.",
            )
        elif variables and readable:
            missing.append(provider)
    if missing:
        yield Finding("ok", "keys", f"None are set for {', '.join(missing)}, which nothing asks for.")


def _is_of_environment(model: str, env: Mapping[str, str]) -> bool:
    return env.get(MODEL_VARIABLE, "").strip() == model


async def check_model(registry: Registry, env: Mapping[str, str], *, offline: bool) -> list[Finding]:
    """Whether the default model answers: one small request.

    :param offline: ask nobody.
    """
    name = await registry.default_model()
    if name is None:
        return [Finding("fail", "model", "There is none.", str(registry.no_model()))]
    another = (
        f"{MODEL_VARIABLE} names it, and goes before config.yaml: set it to another model, or unset it."
        if _is_of_environment(name, env)
        else "To choose another model: `model` in config.yaml, as provider/model."
    )
    if problem := registry.unusable(name):
        return [Finding("fail", "model", f"{name}: {problem}", another)]
    if offline:
        return [Finding("ok", "model", f"{name} was not asked (--offline).")]
    began, waiting, answered = time.monotonic(), "", False
    try:
        await registry.unlock(name)
        resolved = registry.resolve(name)
        message = UserMessage(new_id("msg"), (Text("Say OK."),))
        request = ModelRequest(resolved.id, "Answer in one word.", (message,), max_output_tokens=_MOST_TOKENS)
        with anyio.fail_after(SECONDS):
            async with aclosing(resolved.provider.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Retrying):
                        waiting, answered = event.reason, event.answered
                    elif not isinstance(event, Resent):
                        break  # it speaks: that is enough
    except TimeoutError:
        if answered:
            text = f"{name} refused each try within {SECONDS:g} seconds. {waiting}"
            advice = "Wait, and call this again; else look at your account's limits and the provider's state."
            return [Finding("fail", "model", text, advice)]
        text = f"{name} did not answer within {SECONDS:g} seconds. {waiting}".strip()
        advice = "Look at the network, a proxy (HTTPS_PROXY), and the provider's state."
        return [Finding("fail", "model", text, advice)]
    except ModelRequestError as error:
        return [Finding("fail", "model", f"{name}: {error}", another)]
    except AgentError as error:
        return [Finding("fail", "model", f"{name}: {error}")]
    return [Finding("ok", "model", f"{name} answered within {time.monotonic() - began:.1f} s.")]
