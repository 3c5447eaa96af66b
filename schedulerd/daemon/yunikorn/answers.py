"""Values as answers: JSON in slices, as one body if it is small and in chunks if it is large, compressed if wanted."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from schedulerd.daemon.runtime.shares import NoneLeft, Shared
from schedulerd.daemon.yunikorn.errors import PeerError
from schedulerd.daemon.yunikorn.go_json import GO_JSON, encode
from schedulerd.daemon.yunikorn.pacing import Pacer, Work

JSON_TYPE = "application/json; charset=UTF-8"

CHUNK_BYTES = 16 * 1024
"""An answer is written, and compressed, in chunks of this size; larger by one object at most."""

GZIP_BYTES_MIN = 1_400
"""From this size on an answer is compressed for clients that accept it."""

GZIP_LEVEL = 4

OPEN_MAX = 100
"""Maximum number of requests that are answered at a time."""

LARGE_MAX = 4
"""Maximum number of answers of more than a chunk that are written at a time. Their clients may read slowly."""

RETRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Text:
    """An answer whose text is made while it is written; '' where other work can run."""

    pieces: Iterator[str]
    content_type: str
    end: str = ""


class Answers:
    """Writes the answers of all REST clients."""

    def __init__(self, pacer: Pacer) -> None:
        self.pacer = pacer
        self.open = Shared(OPEN_MAX, "REST requests are being answered")
        self._large = Shared(LARGE_MAX, "large answers are being written")

    async def write(self, work: Work, value: object, request: Request) -> Response:
        """The answer with this value. Raises `PeerError` if too many large ones are being written."""
        text = value if isinstance(value, Text) else Text(GO_JSON.pieces(value), JSON_TYPE, "\n")
        chunks = _chunks(work, text)
        zipped = accepts_gzip(request)
        first = await anext(chunks)
        second = await anext(chunks, None)
        if second is None:
            work.end()
            return small(first, text.content_type, zipped=zipped)
        holds = ExitStack()
        try:
            holds.enter_context(self._large.held(None))
        except NoneLeft as error:
            work.end()
            raise busy(str(error)) from error
        body = _streamed(work, [first, second], chunks, _gzip() if zipped else None)
        return _LargeAnswer(body, {"content-type": text.content_type, **(_GZIPPED if zipped else {})}, holds)


_GZIPPED = {"content-encoding": "gzip", "vary": "Accept-Encoding"}


def busy(reason: str) -> PeerError:
    """503: the client may try again."""
    return PeerError(503, f"{reason}; try again later", {"retry-after": str(RETRY_SECONDS)})


def small(
    body: bytes, content_type: str, *, zipped: bool = False, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer of a chunk or less."""
    given = {"content-type": content_type, **(headers or {})}
    if zipped and len(body) >= GZIP_BYTES_MIN:
        compressor = _gzip()
        body = compressor(body, False) + compressor(b"", True)
        given |= _GZIPPED
    return Response(body, headers=given)


def error_answer(error: PeerError) -> Response:
    """The answer to a request that cannot be answered."""
    text = encode(error.body()) + "\n"
    return Response(text, status_code=error.status, headers={"content-type": JSON_TYPE, **error.headers})


def accepts_gzip(request: Request) -> bool:
    """Whether the client accepts gzip; a weight of 0 in any spelling means that it does not."""
    for part in request.headers.get("accept-encoding", "").split(","):
        name, *parameters = (one.strip().lower() for one in part.split(";"))
        if name == "gzip":
            return not any(_is_zero_weight(one) for one in parameters)
    return False


def _is_zero_weight(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and not set(weight.strip()) - {"0", "."}


async def _chunks(work: Work, text: Text) -> AsyncIterator[bytes]:
    """The text in chunks. The work is paused while nothing takes them."""
    texts: list[str] = []
    size = 0
    for piece in text.pieces:
        texts.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield "".join(texts).encode("utf-8", "replace")
            texts, size = [], 0
        await work.breathe()
    texts.append(text.end)
    yield "".join(texts).encode("utf-8", "replace")


class _LargeAnswer(StreamingResponse):
    """Written in chunks; `holds` ends with it, also if the client goes."""

    def __init__(self, body: AsyncIterator[bytes], headers: Mapping[str, str], holds: ExitStack) -> None:
        super().__init__(body, headers=headers)
        self._holds = holds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._holds:
            await super().__call__(scope, receive, send)


async def _streamed(
    work: Work, begun: list[bytes], chunks: AsyncIterator[bytes], compress: Callable[[bytes, bool], bytes] | None
) -> AsyncIterator[bytes]:
    """Nothing is counted as work while the client takes its time to read."""
    try:
        for chunk in begun:
            yield chunk if compress is None else compress(chunk, False)
        await work.begin()
        async for chunk in chunks:
            data = chunk if compress is None else compress(chunk, False)
            work.end()
            yield data
            await work.begin()
        if compress is not None:
            yield compress(b"", True)
    finally:
        work.end()


def _gzip() -> Callable[[bytes, bool], bytes]:
    """Compresses chunk after chunk; the flag says that there is no more."""
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return lambda chunk, is_last: compressor.flush() if is_last else compressor.compress(chunk)
