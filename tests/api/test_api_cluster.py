"""The cluster as one server tells it: who is there, who leads, and whether its store is."""

import pytest

from tests.api.conftest import NOW_MS, serving
from tgpu.store.cluster_port import ServerRow
from tgpu.store.memory import MemoryStore
from tgpu.store.port import StoreUnavailableError

OWN = ServerRow("own", "http://own:1", "1", "alike", NOW_MS)


def test_a_server_alone_with_its_store_is_the_only_one_and_leads() -> None:
    """Without a word about it in the store, where it would have to be written again and again."""
    with serving(MemoryStore(), {"alone": OWN}) as server, server.unix() as client:
        (shown,) = client.get("/cluster").json()["servers"]
        assert (shown["server_id"], shown["url"], shown["leads"]) == ("own", "http://own:1", True)
        server.live.leads = False
        (shown,) = client.get("/cluster").json()["servers"]
        assert not shown["leads"]


def test_servers_that_share_a_store_are_those_that_it_heard_of() -> None:
    store = MemoryStore()
    with serving(store) as server, server.unix() as client:
        server.run(store.announce(OWN))
        server.run(store.announce(ServerRow("other", "http://other:1", "1", "alike", NOW_MS)))
        server.run(store.campaign("other", 60_000))
        shown = client.get("/cluster").json()["servers"]
        assert [(each["server_id"], each["leads"]) for each in shown] == [("other", True), ("own", False)]
        assert all(0 <= each["heard_s"] < 15 for each in shown)


def test_anybody_is_told_whether_a_server_waits_for_its_store() -> None:
    cut_off = False
    with serving(MemoryStore(), {"is_cut_off": lambda: cut_off}) as server, server.tcp() as anybody:
        assert anybody.get("/healthz").json()["store"] == "ok"
        cut_off = True
        assert anybody.get("/healthz").json()["store"] == "away"


def test_metrics_tell_that_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailableError("the database cannot be reached")

    with (
        serving(store="postgresql://elsewhere/tgpu") as server,
        server.unix() as client,
        server.tcp(server.token(client)) as prometheus,
        server.tcp() as stranger,
    ):
        assert "tgpu_store_up 1.0" in prometheus.get("/metrics").text
        for question in ("counts", "leader", "token_by_digest"):
            monkeypatch.setattr(server.store, question, away)
        for scraped in (prometheus.get("/v1/metrics"), client.get("/metrics")):
            assert scraped.status_code == 200
            assert scraped.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            told = [line for line in scraped.text.splitlines() if not line.startswith("#")]
            assert told == ["tgpu_leads 0.0", "tgpu_store_up 0.0"]
        server.live.leads = False
        assert "tgpu_store_up 0.0" in client.get("/metrics").text
        assert stranger.get("/metrics").status_code == 401
        assert prometheus.get("/stats").status_code == 503
