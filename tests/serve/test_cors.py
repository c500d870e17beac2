"""A page over HTTP: what its browser asks first, and what lets it read the answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.remote import GREETING, serving

PAGE = "http://localhost:2718"
TOKEN = "0123456789abcdef-secret"
ASKS = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "acp-connection-id,acp-session-id,authorization,content-type",
}


def shared(headers: Mapping[str, str]) -> str | None:
    """With which origin an answer is shared."""
    origin = headers.get("Access-Control-Allow-Origin")
    if origin is not None:
        assert headers["Access-Control-Expose-Headers"] == "Acp-Connection-Id"
        assert headers["Vary"] == "Origin"
    return origin


@pytest.mark.parametrize("token", [None, TOKEN])
async def test_a_page_of_an_origin_that_is_named_talks_over_http_and_one_of_another_does_not(
    tmp_path: Path, token: str | None
) -> None:
    async with serving(tmp_path, "--http", "127.0.0.1:0", "--origin", PAGE, token=token) as served:
        knows = served.http.headers.pop("Authorization", None)
        preflight = await served.http.options("/acp", headers={"Origin": PAGE, **ASKS})
        assert (preflight.status_code, preflight.content) == (204, b"")
        assert shared(preflight.headers) == PAGE
        may = preflight.headers["Access-Control-Allow-Headers"].lower().split(", ")
        assert set(ASKS["Access-Control-Request-Headers"].split(",")) <= set(may)
        assert {"GET", "POST", "DELETE"} == set(preflight.headers["Access-Control-Allow-Methods"].split(", "))

        # What is refused says why, to this page as well.
        elsewhere = await served.http.options("/other", headers={"Origin": PAGE, **ASKS})
        assert (elsewhere.status_code, shared(elsewhere.headers)) == (404, PAGE)
        if knows is not None:
            stranger = await served.http.post("/acp", json=GREETING, headers={"Origin": PAGE})
            assert (stranger.status_code, shared(stranger.headers)) == (401, PAGE)
            served.http.headers["Authorization"] = knows

        greeted = await served.http.post("/acp", json=GREETING, headers={"Origin": PAGE})
        assert (greeted.status_code, shared(greeted.headers)) == (200, PAGE)
        reading = {"Acp-Connection-Id": greeted.headers["Acp-Connection-Id"], "Accept": "text/event-stream"}
        async with served.http.stream("GET", "/acp", headers={"Origin": PAGE, **reading}) as events:
            assert (events.status_code, shared(events.headers)) == (200, PAGE)

        for other in ("http://localhost:2719", "http://localhost:2718.example", "null"):
            for method in ("OPTIONS", "POST"):
                response = await served.http.request(method, "/acp", headers={"Origin": other, **ASKS}, json=GREETING)
                assert shared(response.headers) is None
                if token is None:
                    assert response.status_code == 403
        without = await served.http.post("/acp", json=GREETING)
        assert shared(without.headers) is None


async def test_a_browser_s_question_alone_opens_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path, "--http", "127.0.0.1:0", "--origin", PAGE, token=TOKEN) as served:
        del served.http.headers["Authorization"]
        for headers in ({"Origin": PAGE}, {"Origin": "http://localhost:2719", **ASKS}, ASKS):
            assert (await served.http.options("/acp", headers=headers)).status_code == 401
        again = await served.http.options("/acp", headers=[("Origin", PAGE), ("Origin", PAGE), *ASKS.items()])
        assert again.status_code == 401
