"""A tiny ACP agent for trying the harness: it does what the prompt's text says, a JSON list of actions.

    {"update": {...}}              session/update with this update
    {"ask": method, "params": {}}  a request to the client; the answer is told as an agent_message_chunk
        "take_back": true          and a $/cancel_request right behind it
    {"notify": method, "params": {}}
    {"raw": "text"}                a line on stdout
    {"bytes": n}                   an update of so many characters
    {"stderr": "text"}             on stderr
    {"sleeper": true}              starts a process that outlives everything
    {"exit": code}                 at once

Standard library only; knows nothing of the harness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any


class FakeAgent:
    """Serves stdin until its end."""

    def __init__(self) -> None:
        self.cancelled = False
        self.last_id = 0

    def serve(self) -> None:
        while True:
            self.answer(self.receive())

    def send(self, **message: Any) -> None:
        self.print(json.dumps({"jsonrpc": "2.0", **message}))

    def print(self, line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def receive(self) -> dict[str, Any]:
        while line := sys.stdin.readline():
            try:
                message = json.loads(line)
            except ValueError:
                self.send(id=None, error={"code": -32700, "message": "Parse error"})
                continue
            if not isinstance(message, list):
                return message
            self.print(json.dumps([{"jsonrpc": "2.0", "id": entry["id"], "result": {}} for entry in message]))
        sys.exit(int(os.environ.get("EXIT_CODE", "0")))

    def say(self, session: str, text: str) -> None:
        content = {"type": "text", "text": text}
        self.update(session, {"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": content})

    def update(self, session: str, update: dict[str, Any]) -> None:
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def ask(self, session: str, method: str, params: dict[str, Any], *, take_back: bool) -> None:
        self.last_id += 1
        self.send(id=self.last_id, method=method, params={"sessionId": session, **params})
        if take_back:
            self.send(method="$/cancel_request", params={"requestId": self.last_id})
        while (message := self.receive()).get("id") != self.last_id or "method" in message:
            self.cancelled |= message.get("method") == "session/cancel"
        self.say(session, json.dumps(message.get("result", message.get("error"))))

    def act(self, session: str, action: dict[str, Any]) -> None:
        match action:
            case {"update": update}:
                self.update(session, update)
            case {"ask": method, "params": params}:
                self.ask(session, method, params, take_back="take_back" in action)
            case {"notify": method, "params": params}:
                self.send(method=method, params=params)
            case {"raw": line}:
                self.print(line)
            case {"bytes": count}:
                self.say(session, "x" * count)
            case {"stderr": text}:
                sys.stderr.write(text)
                sys.stderr.flush()
            case {"sleeper": _}:
                quiet = subprocess.DEVNULL
                subprocess.Popen(["sleep", "60"], start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
            case {"exit": code}:
                os._exit(code)
            case _:
                raise ValueError(action)

    def answer(self, message: dict[str, Any]) -> None:
        method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
        if id is None:
            return
        if method == "initialize":
            self.send(id=id, result={"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
        elif method == "session/new":
            self.send(id=id, result={"sessionId": "s1"})
        elif method in ("session/load", "session/resume") and params["sessionId"] != "gone":
            self.say(params["sessionId"], "replayed")
            self.send(id=id, result={})
        elif method in ("session/load", "session/resume"):
            self.send(id=id, error={"code": -32002, "message": "no such session"})
        elif method == "session/prompt":
            self.cancelled = False
            for action in json.loads(params["prompt"][0]["text"]):
                self.act(params["sessionId"], action)
            self.send(id=id, result={"stopReason": "cancelled" if self.cancelled else "end_turn"})
        elif method == "env":
            self.send(id=id, result=dict(os.environ))
        else:
            self.send(id=id, error={"code": -32601, "message": "Method not found", "data": method})


if __name__ == "__main__":
    FakeAgent().serve()
