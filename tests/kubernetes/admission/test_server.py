"""The HTTPS server over real TLS: answers, certificates that change under way, and bodies that mean harm."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from schedulerd.kubernetes.admission import server as server_module
from schedulerd.kubernetes.admission.certificate_keeper import CertificateInUse, keep_folder
from schedulerd.kubernetes.admission.certificates import Certificates, renewed
from schedulerd.kubernetes.admission.metrics import CAUSES, PREFIX, AdmissionMetrics
from schedulerd.kubernetes.admission.rules.pods import mutate
from schedulerd.kubernetes.admission.rules.review import (
    BODY_BYTES_MAX,
    BRACKETS_MAX,
    DEPTH_MAX,
    QUOTES_MAX,
    AdmissionRequest,
    Decision,
    ReviewUnusable,
    read_review,
)
from schedulerd.kubernetes.admission.server import WebhookServer
from schedulerd.kubernetes.admission.serving import CertificateFolder, CertificateUnusable, server_context
from tests.kubernetes.admission.reviews import JSON, OWN, patched, pod, review, rules, user_info
from tests.loops import each_row

pytestmark = pytest.mark.timeout(60)
HOST = "schedulerd-admission.schedulerd.svc"
RULES = rules()
FAILURES = f"{PREFIX}reviews_failed_total"


async def decide(request: AdmissionRequest) -> Decision:
    if request.name == "bug":
        raise RuntimeError("on purpose")
    return mutate(RULES, request, None)


def made() -> Certificates:
    return renewed(None, [HOST], datetime.now(UTC))


def trusting(certificates: Certificates) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificates.ca_certificates.decode())


class Served:
    port = 0

    def __init__(self, certificates: Certificates) -> None:
        self.metrics = AdmissionMetrics()
        self.server = WebhookServer("127.0.0.1:0", {"mutate": decide}, self.metrics)
        self.certificates = certificates
        self.server.use(server_context(certificates.certificate, certificates.key))

    async def post(self, body: Any, certificates: Certificates | None = None, path: str = "mutate") -> tuple[int, Any]:
        """Each over a connection of its own."""
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connector = aiohttp.TCPConnector(ssl=trusting(certificates or self.certificates), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(f"https://127.0.0.1:{self.port}/{path}", data=BytesIO(data), server_hostname=HOST) as response,
        ):
            text = await response.text()
            return response.status, json.loads(text) if response.status == 200 else text

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"schedulerd_admission_{name}", labels) or 0.0


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served(made())
    served.port = await served.server.start()
    try:
        yield served
    finally:
        await served.server.stop(0.1)


async def test_a_review_is_answered(real_loop: None) -> None:
    async with serving() as served:
        asked = review(pod())
        status, answer = await served.post(asked)
        assert status == 200
        response = answer["response"]
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        assert (response["uid"], response["allowed"], response["patchType"]) == (
            asked["request"]["uid"],
            True,
            "JSONPatch",
        )
        stored = patched(pod(), json.loads(base64.b64decode(response["patch"])))
        assert stored["metadata"]["annotations"] == {OWN: user_info("ann")}
        _, answer = await served.post(review(stored))
        assert answer["response"] == {"uid": asked["request"]["uid"], "allowed": True}, "nothing is left to do"
        _, answer = await served.post(review(pod({OWN: user_info("bob")})))
        status_of = answer["response"]["status"]
        assert (answer["response"]["allowed"], status_of["code"], status_of["reason"]) == (False, 403, "Forbidden")
        assert "names somebody else" in status_of["message"]
        for result in ("patched", "allowed", "refused"):
            assert served.count("reviews_total", webhook="mutate", operation="CREATE", result=result) == 1
        assert served.count("review_seconds_count", webhook="mutate") == 3


async def test_a_bug_is_an_error_and_no_answer(real_loop: None) -> None:
    async with serving() as served:
        document = pod()
        document["metadata"]["name"] = "bug"
        assert (await served.post(review(document)))[0] == 500
        assert served.count("reviews_failed_total", webhook="mutate", cause="bug") == 1
        assert (await served.post(review(pod())))[0] == 200


def nested(depth: int, kind: str) -> bytes:
    opening, closing = ('{"a":', "}") if kind == "{" else ("[", "]")
    document = f"{opening * depth}1{closing * depth}"
    return json.dumps(review({"metadata": {}, "x": "HERE"})).replace('"HERE"', document).encode()


HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"hello",
    "half": b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "a',
    "list": b"[]",
    "number": b"1" * 100_000,
    "null": b"null",
    "no UTF-8": b'{"apiVersion": "\xff\xfe"}',
    "v1beta1": json.dumps({**review(pod()), "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
    "another kind": json.dumps({**review(pod()), "kind": "ConversionReview"}).encode(),
    "no request": b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
    "an answer": b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {}}',
    "object is a list": json.dumps(review(pod())).encode().replace(b'"object": {', b'"object": [], "x": {'),
    "metadata is text": json.dumps(review({"metadata": "x"})).encode(),
    "labels are a list": json.dumps(review({"metadata": {"labels": []}})).encode(),
    "annotations are a number": json.dumps(review({"metadata": {"annotations": 1}})).encode(),
    "spec is a list": json.dumps(review({"metadata": {}, "spec": []})).encode(),
    "old metadata is text": json.dumps(review(pod(), {"metadata": "x"})).encode(),
    "deep lists": nested(DEPTH_MAX, "["),
    "deep objects": nested(DEPTH_MAX, "{"),
    "very deep lists": nested(BRACKETS_MAX // 2, "["),
    "very deep objects": nested(BRACKETS_MAX // 2, "{"),
    "only brackets": b"[" * (BODY_BYTES_MAX - 1),
    "only quotes": b'"' * (BODY_BYTES_MAX - 1),
    "only backslashes": b'"' + b"\\" * (BODY_BYTES_MAX - 2),
    "many empty lists": b"[" + b"[]," * (BRACKETS_MAX - 2) + b"[]]",
    "many texts": b"[" + b'"",' * (QUOTES_MAX // 2 - 1) + b'""]',
    "a number without end": b'{"a": ' + b"9" * 1_000_000 + b"}",
}


@each_row("name", HOSTILE)
def test_a_hostile_body_is_refused_with_a_reason(name: str) -> None:
    started_s = time.process_time()
    with pytest.raises(ReviewUnusable, match=r".{10,}"):
        read_review(HOSTILE[name])
    assert time.process_time() - started_s < 2.0, "ten times what the worst of them takes"


@pytest.mark.parametrize("kind", ["[", "{"])
def test_depth_is_bounded_where_it_says(kind: str) -> None:
    levels = DEPTH_MAX - 3  # of the review, the request and the object
    read_review(nested(levels, kind))
    with pytest.raises(ReviewUnusable, match="deeper than 200 levels"):
        read_review(nested(levels + 1, kind))


def test_brackets_in_texts_are_no_depth() -> None:
    text = '[{"' * 1_000 + "\\"
    assert read_review(json.dumps(review(pod({"a": text}))).encode()).object == pod({"a": text})


def test_the_number_of_parts_is_bounded() -> None:
    read_review(json.dumps(review({"metadata": {}, "x": [[]] * (BRACKETS_MAX - 100)})).encode())
    with pytest.raises(ReviewUnusable, match=f"more than {BRACKETS_MAX} lists"):
        read_review(json.dumps(review({"metadata": {}, "x": [[]] * BRACKETS_MAX})).encode())
    with pytest.raises(ReviewUnusable, match=f"{QUOTES_MAX} quotation marks"):
        read_review(json.dumps(review({"metadata": {}, "x": [""] * QUOTES_MAX})).encode())


async def test_the_server_lives_on_after_hostile_bodies(real_loop: None) -> None:
    async with serving() as served:
        for body in HOSTILE.values():
            assert (await served.post(body))[0] == 400
        assert served.count("reviews_failed_total", webhook="mutate", cause="unusable") == len(HOSTILE)
        assert (await served.post(b" " * (BODY_BYTES_MAX + 1)))[0] == 413
        assert (await served.post(review(pod())))[0] == 200
        assert (await served.post(review(pod()), path="nothing"))[0] == 404


async def test_a_large_review_leaves_the_loop_to_others(real_loop: None) -> None:
    async with serving() as served:
        large = review({**pod(), "x": ["text"] * 200_000})
        answers = await asyncio.gather(
            *[served.post(large) for _ in range(3)], *[served.post(review(pod())) for _ in range(5)]
        )
        assert [status for status, _ in answers] == [200] * 8


async def test_a_body_that_never_comes(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BODY_SECONDS", 0.2)
    async with serving() as served:
        reader, writer = await connect(served)
        writer.write(b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        assert b" 408 " in await reader.readline()
        writer.close()
        assert served.count("reviews_failed_total", webhook="mutate", cause="slow") == 1


async def test_a_connection_that_asks_for_nothing_is_closed(real_loop: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "FIRST_REQUEST_SECONDS", 0.3)
    async with serving() as served:
        reader, writer = await connect(served)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        reader, writer = await connect(served)
        writer.write(b"POST /mutate HTTP/1.1\r\nHo")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert (await served.post(review(pod())))[0] == 200


async def connect(served: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(
        "127.0.0.1",
        served.port,
        ssl=trusting(served.certificates),
        server_hostname=HOST,
    )


async def test_a_certificate_is_replaced_while_connections_stay(real_loop: None) -> None:
    async with serving() as served:
        old, new = served.certificates, made()
        connector = aiohttp.TCPConnector(ssl=trusting(old))
        async with aiohttp.ClientSession(connector=connector) as session:
            url = f"https://127.0.0.1:{served.port}/mutate"

            async def ask() -> JSON:
                async with session.post(url, json=review(pod()), server_hostname=HOST) as response:
                    answer: JSON = await response.json()
                    return answer

            before = await ask()
            served.server.use(server_context(new.certificate, new.key))
            assert await ask() == before, "over the connection that there is"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await served.post(review(pod()), old)
        assert (await served.post(review(pod()), new))[0] == 200


async def test_failures_start_at_zero_so_that_the_first_one_is_an_increase(real_loop: None) -> None:
    metrics = AdmissionMetrics()
    WebhookServer("127.0.0.1:0", {"mutate": decide}, metrics)
    failures = {
        cause: metrics.registry.get_sample_value(FAILURES, {"webhook": "mutate", "cause": cause}) for cause in CAUSES
    }
    assert failures == dict.fromkeys(CAUSES, 0)
    metrics.failed("mutate", "slow")
    assert metrics.registry.get_sample_value(FAILURES, {"webhook": "mutate", "cause": "slow"}) == 1


async def test_without_a_certificate_nobody_connects(real_loop: None) -> None:
    server = WebhookServer("127.0.0.1:0", {"mutate": decide}, AdmissionMetrics())
    port = await server.start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(made()))) as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.post(f"https://127.0.0.1:{port}/mutate", json={}, server_hostname=HOST)
    await server.stop(0.1)


async def test_certificates_of_a_folder_are_read_again(real_loop: None, tmp_path: Path) -> None:
    """As cert-manager's Secret is mounted: both files behind a symbolic link that is swapped."""
    used: list[ssl.SSLContext] = []
    metrics = AdmissionMetrics()
    in_use = CertificateInUse(used.append, metrics)

    def mount(number: int, certificate: bytes, key: bytes) -> None:
        folder = tmp_path / f"..{number}"
        folder.mkdir()
        (folder / "tls.crt").write_bytes(certificate)
        (folder / "tls.key").write_bytes(key)
        (tmp_path / "..new").symlink_to(folder.name)
        (tmp_path / "..new").rename(tmp_path / "..data")

    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    first, second = made(), made()
    mount(1, first.certificate, first.key)
    task = asyncio.create_task(keep_folder(CertificateFolder(tmp_path), in_use, check_s=0.02))

    def loads(name: str) -> float:
        return (
            metrics.registry.get_sample_value("schedulerd_admission_certificate_loads_total", {"result": name}) or 0.0
        )

    async def until(name: str, value: float) -> None:
        async with asyncio.timeout(20):
            while loads(name) < value:  # noqa: ASYNC110 - a counter tells nobody that it has changed
                await asyncio.sleep(0.01)

    await until("used", 1)
    mount(2, second.certificate, first.key)  # a pair that does not belong together
    await until("unusable", 1)
    mount(3, second.certificate, second.key)
    await until("used", 2)
    assert len(used) == 2
    task.cancel()
    expiry = metrics.registry.get_sample_value("schedulerd_admission_certificate_expiry_timestamp_seconds")
    assert expiry == second.expires.timestamp()


@pytest.mark.parametrize("parts", [(b"", b""), (b"x", b"y")])
def test_a_pair_that_cannot_be_used_is_told(parts: tuple[bytes, bytes]) -> None:
    with pytest.raises(CertificateUnusable, match="certificate and key are not usable"):
        server_context(*parts)
    with pytest.raises(CertificateUnusable, match="it must be PEM"):
        CertificateInUse(lambda context: None, AdmissionMetrics()).offer(*parts)
