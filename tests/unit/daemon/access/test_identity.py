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
from schedulerd.config import NameKind
from schedulerd.daemon.access.identity import CHECKED_METHODS, EVERYBODY, Identities, IdentityInterceptor
from schedulerd.daemon.access.refusals import Refusals
from tests.loops import each_row
from tests.unit.daemon.certificates import COMMON_NAME, DNS, EMAIL, IP, URI, attribute, certificate, named

BOUND = {
    "shim": ("rm-a", "rm-b*"),
    "spiffe://cluster/ns/dev": ("dev",),
    "ops": ("*",),
    "cn:only-cn": ("of-cn",),
    "dns:only-dns": ("of-dns",),
    "uri:urn:shim": ("of-uri",),
    "email:shim@example": ("of-email",),
    "ip:10.0.0.1": ("of-ip",),
}


class Client:
    """A call of a client with this certificate."""

    def __init__(self, common_name: str = "", *other_names: tuple[int, str], pem: bytes = b"") -> None:
        # What gRPC makes of names is there too, to be passed over.
        self._context = {
            "transport_security_type": [b"ssl"],
            "x509_common_name": [b"ops"],
            "x509_subject_alternative_name": [b"ops"],
            "x509_pem_cert": [pem or named(common_name, *other_names)],
        }
        self.status: tuple[grpc.StatusCode, str] | None = None

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return self._context

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self.status = (code, details)
        raise ConnectionAbortedError


@each_row(
    ("client", "may", "may_not"),
    [
        (Client("shim"), ["rm-a", "rm-b", "rm-bee"], ["rm-a2", "RM-A", "dev", "unlisted", ""]),
        (
            Client("pod-7", (DNS, "localhost"), (URI, "spiffe://cluster/ns/dev")),
            ["dev"],
            ["rm-a", "spiffe://cluster/ns/dev", ""],
        ),
        (Client("shim", (URI, "spiffe://cluster/ns/dev")), ["rm-a", "dev"], ["unlisted", ""]),
        (Client("ops"), ["rm-a", "dev", "unlisted", ""], []),
        (Client("pod", (DNS, "shim")), ["rm-a"], ["unlisted"]),
        (Client("only-cn", (DNS, "only-dns"), (URI, "urn:shim")), ["of-cn", "of-dns", "of-uri"], ["rm-a"]),
        (Client("stranger"), [], ["rm-a", "unlisted", ""]),
        (Client(), [], ["rm-a", "nobody", ""]),
    ],
    ids=["by common name", "by URI", "by both", "an operator", "by DNS name", "by kind", "unknown", "no name"],
)
def test_a_client_may_use_what_one_of_its_names_is_bound_to(client: Client, may: list[str], may_not: list[str]) -> None:
    identities = Identities(BOUND)
    assert {rm_id: identities.refusal(rm_id, client) for rm_id in may} == dict.fromkeys(may)
    for rm_id in may_not:
        assert identities.refusal(rm_id, client) is not None
    assert identities.visible([*may, *may_not], client) == may


@each_row(
    "client",
    [
        Client("x", (EMAIL, "shim"), (EMAIL, "ops")),
        Client("x", (URI, "shim"), (URI, "ops")),
        Client("x", (DNS, "spiffe://cluster/ns/dev")),
        Client("spiffe://cluster/ns/dev"),
        Client("only-dns", (DNS, "only-cn"), (DNS, "urn:shim"), (DNS, "10.0.0.1"), (DNS, "shim@example")),
        Client("cn:only-cn", (DNS, "dns:only-dns"), (URI, "uri:urn:shim")),
        Client("ops\0.example", (DNS, "ops\0.example"), (DNS, "shim\0")),
        Client("OPS", (DNS, "Ops"), (DNS, "SHIM")),
        Client("*", (DNS, "*"), (DNS, "sh*"), (DNS, "*.example")),
        Client(" ops", (DNS, "ops "), (DNS, "ops.")),
        Client("x", (EMAIL, "shim@example")),
        Client(pem=certificate([], [(IP, b"\x0a\x00\x00\x01")])),
        Client(pem=certificate([attribute(COMMON_NAME, b"ops"), attribute(COMMON_NAME, b"x")])),
        Client(pem=certificate([attribute(COMMON_NAME, b"sh\xff")])),
        Client(pem=b"no certificate"),
    ],
    ids=[
        *("an e-mail as another's name", "a URI as one", "a DNS name as a URI", "a common name as a URI"),
        *(
            "other kinds",
            "a name that is written like an entry",
            "a zero byte",
            "case",
            "wildcards",
            "spaces and a dot",
        ),
        *("a kind that does not count", "another", "two common names", "not text", "nothing"),
    ],
)
def test_a_name_of_one_kind_is_not_taken_for_another(client: Client) -> None:
    identities = Identities(BOUND)
    for rm_id in ("", "rm-a", "dev", "of-cn", "of-dns", "of-uri", "of-email", "of-ip", "nobody"):
        assert identities.refusal(rm_id, client) is not None, rm_id


def test_the_kinds_that_count_can_be_chosen() -> None:
    client = Client(pem=certificate([attribute(COMMON_NAME, b"ops")], [(EMAIL, b"shim@example"), (IP, b"\x0a\0\0\1")]))
    identities = Identities(BOUND, (NameKind.EMAIL, NameKind.IP))
    assert identities.visible(["of-email", "of-ip", "rm-a"], client) == ["of-email", "of-ip"]
    assert Identities(BOUND, (NameKind.CN,)).visible(["of-email", "rm-a"], client) == ["of-email", "rm-a"]


def test_an_ip_address_is_the_address_however_it_is_written() -> None:
    client = Client(pem=certificate([], [(IP, bytes(15) + b"\x01")]))
    identities = Identities({"ip:0:0:0:0:0:0:0:1": ("rm",)}, (NameKind.IP,))
    assert identities.refusal("rm", client) is None


def test_the_name_for_every_client_opens_what_it_lists_and_nothing_else() -> None:
    identities = Identities({"*": ("dev-*",), "shim": ("rm-a",)})
    for client in (Client("stranger"), Client(), Client("*")):
        assert identities.refusal("dev-1", client) is None
        assert identities.refusal("rm-a", client) is not None
        assert identities.refusal("", client) is not None


def test_a_refusal_names_the_rm_and_the_client_and_no_other() -> None:
    refuse = Identities(BOUND).refusal
    known = Client("shim", (DNS, "pod-7"), (EMAIL, "not@counted"))
    assert refuse("dev", known) == "rmID: the client 'cn:shim', 'dns:pod-7' may not use 'dev'"
    assert refuse("dev", Client()) == ("rmID: a client without a name that counts in its certificate may not use 'dev'")
    assert refuse("", Client("shim")) == (
        "rmID: is empty, and the client 'cn:shim' may not see or change what belongs to every resource manager"
    )


def test_where_no_client_is_bound_no_name_is_asked_for() -> None:
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
        client = Client("shim")
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
