"""The demonstration, as `make kubernetes` runs it."""

from __future__ import annotations

import asyncio
import io

import pytest

from schedulerd.kubernetes.api import resources as r
from tests.kubernetes.contract.api import LIMIT_SECONDS, SEEN_MAX, Api
from tests.kubernetes.contract.real_server import assets
from tests.kubernetes.demo.__main__ import play
from tests.kubernetes.demo.cluster import Cluster
from tests.kubernetes.demo.narrator import Narrator
from tests.kubernetes.kubelet import Kubelet


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("server", ["fake", "real"])
async def test_the_story_holds(real_loop: None, server: str) -> None:
    folder = None if server == "fake" else assets()
    if server == "real" and folder is None:
        pytest.skip("KUBEBUILDER_ASSETS is not set: no kube-apiserver to play on")
    out = io.StringIO()
    assert await play(folder, out=out) == 0, out.getvalue()
    text = " ".join(out.getvalue().split())
    assert "WRONG" not in text
    assert "A PodGroup" in text
    assert "Queue root.small is at its quota: 2 of 2 cpu used, 1 more asked. Nodes are not the cause." in text


async def test_an_expectation_that_does_not_hold_is_told() -> None:
    out = io.StringIO()
    cluster = Cluster(None)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has room."}
    cluster.pods["red/a"] = {"metadata": {"namespace": "red"}, "spec": {}, "status": {"conditions": [condition]}}
    narrator = Narrator(cluster, out)
    await narrator.expect("the moon is there", lambda: False, 0)
    await narrator.expect("the sun is there", lambda: True)
    assert narrator.summary() == 1
    assert "1 of 2 expectations held" in out.getvalue()
    assert "WRONG  the moon is there" in out.getvalue()
    assert "1 pods wait and say: PodScheduled False, Unschedulable: no node has room." in out.getvalue()


async def test_a_watch_on_which_nothing_happens_goes_on_and_one_that_has_failed_does_not() -> None:
    async with Api(None) as api:
        stream = await api.watch(r.PODS, "0", everywhere=True, timeoutSeconds="86400")
        loop = asyncio.get_running_loop()
        for _ in range(20):  # longer than requests may take
            began_s = loop.time()
            with pytest.raises(TimeoutError):
                await stream.until("DELETED", "nothing")
            assert loop.time() - began_s >= LIMIT_SECONDS
        stream._response.content.set_exception(TimeoutError())
        with pytest.raises(ConnectionError):
            await stream.next()


async def test_what_is_left_running_keeps_no_history() -> None:
    """Watches and kubelets of a demonstration that is kept run for hours."""
    async with Api(None) as api, Kubelet(api) as kubelet:
        version = (await api.call("GET", r.PODS.path())).json["metadata"]["resourceVersion"]
        stream = await api.watch(r.PODS, version, everywhere=True)
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "pause"}]}
        for number in range(30):
            name = f"p{number}"
            answer = await api.post(r.PODS, {"metadata": {"name": name}, "spec": spec})
            assert answer.status == 201, answer
            assert (await api.call("DELETE", r.PODS.path(api.namespace, name), {})).status in (200, 202)
            await stream.until("DELETED", name)
        assert stream.seen.maxlen == SEEN_MAX
        last = await api.watch(r.PODS, version, everywhere=True)
        await last.until("DELETED", "p29")
        last.close()
        stream.close()
        assert kubelet.remembered <= 1
        await api.watch(r.PODS, version, everywhere=True)
        assert len([one for one in api._streams if one.is_closed]) == 0
