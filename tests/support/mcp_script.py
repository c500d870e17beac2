"""A small MCP server on its standard input and output, run as a program; what it does
stands in a JSON file.

Needs nothing but Python, so that it is there at once. `support.mcp` writes the file and
reads what was noted.

    {"tools": [...], "results": {"look": {"content": [...]}, "end": {"exit": 1}}, ...}

`results` says by name what a tool's call gets; beside a result, `exit` ends the
process, `hang` answers nothing, `error` refuses, `then` lays other keys over all of
this and says that the lists have changed, `progress` tells of it first, `line` is
written in place of the answer (with its ID), `asks` sends requests of the server's own
and puts what comes of each into the result, and `asks_at_once` does so without waiting
in between. One that `prints` begins with these lines; it `refuses` these methods; a
`stubborn` one does not end when it is asked to; one that `fails_again` ends so many
times after its first start; a `modern` one knows no handshake; `instructions` are the
server's instructions for the model. Each item of `while_listed` applies to one listing
of the tools: the server merges its keys into this plan and announces the change before
it answers with the old list. If the item is null, the server does not answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
}


def main(plan_file: Path) -> None:
    plan: dict[str, Any] = json.loads(plan_file.read_text())
    notes = plan_file.with_suffix(".notes")

    def note(what: dict[str, Any]) -> None:
        with notes.open("a") as file:
            file.write(json.dumps(what) + "\n")

    starts = (
        sum("started" in json.loads(line) for line in notes.read_text().splitlines())
        if notes.exists()
        else 0
    )
    note({"started": os.getpid(), "env": dict(os.environ), "cwd": str(Path.cwd())})
    if plan.get("stderr"):
        sys.stderr.write(plan["stderr"])
        sys.stderr.flush()
    if plan.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if plan.get("child"):
        subprocess.Popen(["sleep", "600"])
    if "exit" in plan or 0 < starts <= plan.get("fails_again", 0):
        sys.exit(plan.get("exit", 1))
    if plan.get("mute"):
        time.sleep(600)
    if plan.get("slow"):
        plan_file.with_suffix(
            ".go"
        ).read_bytes()  # a named pipe: until somebody writes to it
    for printed in plan.get("prints", ()):
        print(printed, flush=True)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        note({"got": message.get("method"), "params": message.get("params")})
        if "method" not in message or "id" not in message:
            continue
        answer, change = answered(plan, message, note)
        if message["method"] == "tools/list" and plan.get("while_listed"):
            newer = plan["while_listed"].pop(0)
            if newer is None:
                continue
            plan |= newer
            say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        if answer is not None:
            say({"jsonrpc": "2.0", "id": message["id"], **answer})
        if change:
            plan |= change
            for kind in ("tools", "prompts", "resources"):
                if kind in change:
                    say(
                        {
                            "jsonrpc": "2.0",
                            "method": f"notifications/{kind}/list_changed",
                        }
                    )
    if plan.get("stubborn"):
        time.sleep(600)


def answered(
    plan: dict[str, Any],
    message: dict[str, Any],
    note: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    method = message["method"]
    params = message.get("params") or {}
    modern = (
        {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        if plan.get("modern")
        else {}
    )
    said = {"instructions": plan["instructions"]} if "instructions" in plan else {}
    if plan.get("modern") and method == "initialize":
        data = {"supported": ["2026-07-28"], "requested": params["protocolVersion"]}
        return {
            "error": {
                "code": -32022,
                "message": "Unsupported protocol version",
                "data": data,
            }
        }, None
    if plan.get("modern") and method == "server/discover":
        offers = {
            kind: {} for kind in ("tools", "prompts", "resources") if kind in plan
        }
        found = {"supportedVersions": ["2026-07-28"], "capabilities": offers, **modern}
        return {"result": found | said}, None
    if method == "initialize":
        offers = {
            kind: {"listChanged": True}
            for kind in ("tools", "prompts", "resources")
            if kind in plan
        }
        info = {"name": "script", "version": "1"}
        version = params["protocolVersion"]
        return {
            "result": {
                "protocolVersion": version,
                "capabilities": offers,
                "serverInfo": info,
            }
            | said
        }, None
    if method in plan.get("refuses", ()):
        return {"error": {"code": -32603, "message": "boom"}}, None
    if method in LISTS:
        return {"result": {LISTS[method]: plan.get(LISTS[method], []), **modern}}, None
    if method == "tools/call":
        result: dict[str, Any] = dict(plan["results"][params["name"]])
        if "exit" in result:
            sys.exit(result["exit"])
        if result.pop("hang", False):
            return None, None
        if "line" in result:
            line = result["line"].replace("ID", json.dumps(message["id"])) + "\n"
            sys.stdout.buffer.write(line.encode(errors="surrogateescape"))
            sys.stdout.buffer.flush()
            return None, None
        if at_once := result.pop("asks_at_once", ()):
            text = json.dumps(ask_at_once(at_once, note))
            result["content"] = [*result["content"], {"type": "text", "text": text}]
        for number, params in enumerate(result.pop("asks", ())):
            answer = ask({"id": f"ask-{number}", **params}, note)
            result["content"] = [
                *result["content"],
                {"type": "text", "text": json.dumps(answer)},
            ]
        if "error" in result:
            return {"error": result["error"]}, None
        told = result.pop("progress", None)
        if told:
            token = params["_meta"]["progressToken"]
            progress = {
                "progressToken": token,
                "progress": 1,
                "total": 2,
                "message": told,
            }
            say(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": progress,
                }
            )
        change = result.pop("then", None)
        return {"result": result}, change
    if method == "prompts/get":
        values = params.get("arguments") or {}
        if plan["made"][params["name"]] is None:
            return {"result": {"messages": []}}, None
        text = plan["made"][params["name"]].format(**values)
        return {
            "result": {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": text}}
                ]
            }
        }, None
    if method == "resources/read":
        text = plan["contents"].get(params["uri"])
        if text is None:
            return {
                "error": {"code": -32002, "message": f"no such thing: {params['uri']}"}
            }, None
        return {
            "result": {
                "contents": [
                    {"uri": params["uri"], "mimeType": "text/plain", "text": text}
                ]
            }
        }, None
    return {"error": {"code": -32601, "message": "Method not found"}}, None


def ask(
    request: dict[str, Any], note: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Ask the client in the middle of a call; its answer."""
    completes = request.pop("completes", None)
    say({"jsonrpc": "2.0", **request})
    while True:
        message = json.loads(sys.stdin.buffer.readline())
        note({"got": message.get("method"), "params": message.get("params")})
        if message.get("id") == request["id"]:
            if completes:
                method = "notifications/elicitation/complete"
                say(
                    {
                        "jsonrpc": "2.0",
                        "method": method,
                        "params": {"elicitationId": completes},
                    }
                )
            return {key: message[key] for key in ("result", "error") if key in message}


def ask_at_once(
    requests: list[dict[str, Any]], note: Callable[[dict[str, Any]], None]
) -> list[dict[str, Any]]:
    """Send requests without waiting in between; the answers in the order of the
    requests.
    """
    for number, request in enumerate(requests):
        say({"jsonrpc": "2.0", "id": f"at-once-{number}", **request})
    answers: dict[str, dict[str, Any]] = {}
    while len(answers) < len(requests):
        message = json.loads(sys.stdin.buffer.readline())
        note({"got": message.get("method"), "params": message.get("params")})
        if str(message.get("id")).startswith("at-once-"):
            answers[message["id"]] = {
                key: message[key] for key in ("result", "error") if key in message
            }
    return [answers[f"at-once-{number}"] for number in range(len(requests))]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
