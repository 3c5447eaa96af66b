"""Who may use which rmID, by the names in a certificate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NoReturn

import grpc
import pytest
from google.protobuf.message import Message

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.daemon.identity import CHECKED_METHODS, EVERYBODY, Identities, IdentityInterceptor
from schedulerd.daemon.refusals import Refusals

BOUND = {"shim": ("rm-a", "rm-b*"), "spiffe://cluster/ns/dev": ("dev",), "ops": ("*",), "": ("nobody",)}


class Client:
    """A call of a client with this certificate."""

    def __init__(self, common_name: bytes = b"", *other_names: bytes) -> None:
        self._context = {"transport_security_type": [b"ssl"], "x509_subject_alternative_name": list(other_names)}
        if common_name:
            self._context["x509_common_name"] = [common_name]
        self.status: tuple[grpc.StatusCode, str] | None = None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return self._context

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self.status = (code, details)
        raise ConnectionAbortedError


@pytest.mark.parametrize(
    ("client", "may", "may_not"),
    [
        (Client(b"shim"), ["rm-a", "rm-b", "rm-bee"], ["rm-a2", "RM-A", "dev", "unlisted", ""]),
        (Client(b"pod-7", b"localhost", b"spiffe://cluster/ns/dev"), ["dev"], ["rm-a", "spiffe://cluster/ns/dev", ""]),
        (Client(b"shim", b"spiffe://cluster/ns/dev"), ["rm-a", "dev"], ["unlisted", ""]),
        (Client(b"ops"), ["rm-a", "dev", "unlisted", ""], []),
        (Client(b"stranger"), [], ["rm-a", "unlisted", ""]),
        (Client(), [], ["rm-a", "nobody", ""]),
        (Client(b"sh\xff"), [], ["rm-a"]),
    ],
    ids=["by common name", "by alternative name", "by both", "an operator", "unknown", "no name", "not text"],
)
def test_a_client_may_use_what_one_of_its_names_is_bound_to(client: Client, may: list[str], may_not: list[str]) -> None:
    identities = Identities(BOUND)
    assert {rm_id: identities.refusal(rm_id, client) for rm_id in may} == dict.fromkeys(may)
    for rm_id in may_not:
        assert identities.refusal(rm_id, client) is not None
    assert identities.visible([*may, *may_not], client) == may


def test_the_name_for_every_client_opens_what_it_lists_and_nothing_else() -> None:
    identities = Identities({"*": ("dev-*",), "shim": ("rm-a",)})
    for client in (Client(b"stranger"), Client(), Client(b"*")):
        assert identities.refusal("dev-1", client) is None
        assert identities.refusal("rm-a", client) is not None
        assert identities.refusal("", client) is not None


def test_a_refusal_names_the_rm_and_the_client_and_nobody_else() -> None:
    refuse = Identities(BOUND).refusal
    assert refuse("dev", Client(b"shim", b"10.0.0.1")) == "rmID: the client 'shim', '10.0.0.1' may not use 'dev'"
    assert refuse("dev", Client()) == "rmID: a client without a name in its certificate may not use 'dev'"
    assert refuse("", Client(b"shim")) == (
        "rmID: is empty, and the client 'shim' may not see or change what belongs to every resource manager"
    )


def test_where_nobody_is_bound_nobody_is_asked_for_a_name() -> None:
    class Nameless:
        def auth_context(self) -> NoReturn:
            raise AssertionError("costs nothing while it is off")

    assert EVERYBODY.refusal("rm", Nameless()) is None
    assert EVERYBODY.visible(["a", "b"], Nameless()) == ["a", "b"]


def test_every_method_with_one_request_is_checked() -> None:
    admin = {f"/schedulerd.v1.Admin/{one.name}" for one in admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods}
    assert {*admin, "/si.v1.Scheduler/RegisterResourceManager"} == CHECKED_METHODS


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (si_pb2.RegisterResourceManagerRequest(rmID="rm-a"), False),
        (si_pb2.RegisterResourceManagerRequest(rmID="dev"), True),
        (si_pb2.RegisterResourceManagerResponse(), True),
    ],
    ids=["its own", "another's", "one that names none"],
)
def test_a_call_that_is_refused_never_gets_to_its_method(request_: Message, refused: bool) -> None:
    served: list[Message] = []

    async def serve(request: Message, _context: object) -> Message:
        served.append(request)
        return request

    class Details:
        method = "/si.v1.Scheduler/RegisterResourceManager"
        invocation_metadata: tuple[tuple[str, str | bytes], ...] = ()

    async def play() -> None:
        client = Client(b"shim")
        handler: grpc.RpcMethodHandler[Message, Message] = grpc.unary_unary_rpc_method_handler(serve)

        async def found(_details: object) -> object:
            return handler

        refusals = Refusals()
        checked = await IdentityInterceptor(Identities(BOUND), refusals).intercept_service(found, Details())
        if refused:
            with pytest.raises(ConnectionAbortedError):
                await checked.unary_unary(request_, client)
            assert client.status is not None
            assert client.status[0] is grpc.StatusCode.PERMISSION_DENIED
            assert refusals.counts == {("RegisterResourceManager", "permission_denied"): 1}
        else:
            assert await checked.unary_unary(request_, client) is request_
            assert not refusals.counts
        assert bool(served) is not refused

    asyncio.run(play())
