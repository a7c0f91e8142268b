"""The tokens of images, sound and files, where the providers publish them."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass

from cupel._internal.checks import wrong_type
from cupel.errors import ConfigurationError

_OPENAI_LOW = 85
_OPENAI_TILE = 170
_OPENAI_LARGEST = _OPENAI_LOW + 8 * _OPENAI_TILE
"""The largest cost by the tile rule: 768 by 2,048 pixels."""
_ANTHROPIC_PIXELS_PER_TOKEN = 750
_ANTHROPIC_LARGEST = 1600
_GEMINI_IMAGE = 1120
"""The tokens of an image of any size at the default resolution of Gemini 3 and later; more than older models take."""
_PDF_PAGE = 3000
"""The most tokens that Anthropic states for a page, read as text and as an image."""
_AUDIO_BYTES_PER_TOKEN = {"wav": 4800, "pcm16": 4800}
_COMPRESSED_AUDIO_BYTES_PER_TOKEN = 800
"""A tenth of a second of speech is a token; MP3 as low as 64 kbit/s makes 800 bytes of it."""
_RECORDING_BYTES_PER_TOKEN = 250
_URL_SAFE = str.maketrans("-_", "+/")
_JPEG_MARKER = 0xFF
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The segments that hold a size: C0 to CF but for the three that hold tables."""
_HEADER_CHARACTERS = 87_400
"""Enough base64 to hold a JPEG's size, which may follow 64 KiB of metadata."""


Size = tuple[int, int]
"""Width and height in pixels."""
ImageTokens = int | Callable[[Size | None], int]
"""The cost of an image: a number, or a function of its size, which is None where it is unknown."""


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How images are counted: by the caller's rule, or by the providers' published rules."""

    tokens: ImageTokens | None = None

    def __post_init__(self) -> None:
        tokens = self.tokens
        if tokens is None or callable(tokens):
            return
        if isinstance(tokens, bool) or not isinstance(tokens, int):
            raise wrong_type("image_tokens", "an integer or a function of the size", tokens)
        if tokens < 0:
            msg = f"image_tokens must not be negative, got {tokens}"
            raise ConfigurationError(msg)

    def openai(self, url: str, detail: object) -> int:
        """Return the tokens of an image in OpenAI's formats."""
        data = url.partition(";base64,")[2] if url.startswith("data:") else None
        return self._tokens(data, (lambda _: _OPENAI_LOW) if detail == "low" else _tiles)

    def anthropic(self, data: object) -> int:
        """Return the tokens of an image, in base64 or bytes, by Anthropic's rule."""
        return self._tokens(data, _area)

    def gemini(self, data: object) -> int:
        """Return the tokens of an image, in base64 or bytes, by Gemini's rule."""
        return self._tokens(data, lambda _: _GEMINI_IMAGE)

    def _tokens(self, data: object, published: Callable[[Size | None], int]) -> int:
        rule = published if self.tokens is None else self.tokens
        return rule(image_size(data) if isinstance(data, (str, bytes)) else None) if callable(rule) else rule


def _tiles(size: Size | None) -> int:
    """Count by tiles of 512 pixels after scaling, as for GPT-4o; the most there can be where the size is unknown."""
    if size is None:
        return _OPENAI_LARGEST
    width, height = size
    shrink = min(1.0, 2048 / max(width, height))
    shrink = min(shrink, 768 / min(width, height))
    tiles = math.ceil(width * shrink / 512) * math.ceil(height * shrink / 512)
    return min(_OPENAI_LOW + _OPENAI_TILE * tiles, _OPENAI_LARGEST)


def _area(size: Size | None) -> int:
    """Count by area up to 1.2 megapixels, as for Claude 4; the most there can be where the size is unknown."""
    if size is None:
        return _ANTHROPIC_LARGEST
    return min(math.ceil(size[0] * size[1] / _ANTHROPIC_PIXELS_PER_TOKEN), _ANTHROPIC_LARGEST)


def image_size(data: str | bytes) -> Size | None:
    """Return width and height from the header of a PNG, GIF, WebP or JPEG, in base64 or bytes; None if it has none."""
    try:
        size = _size(data if isinstance(data, bytes) else _decoded(data[:_HEADER_CHARACTERS]))
    except (Base64Error, ValueError, struct.error, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def _decoded(data: str) -> bytes:
    """Return the bytes of base64 of either alphabet."""
    return b64decode(data.translate(_URL_SAFE) + "=" * (-len(data) % 4))


def _size(head: bytes) -> Size | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", head[16:24])
        return width, height
    if head[:6] in (b"GIF87a", b"GIF89a"):
        width, height = struct.unpack("<HH", head[6:10])
        return width, height
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return _webp_size(head)
    return _jpeg_size(head) if head.startswith(b"\xff\xd8") else None


def _webp_size(head: bytes) -> Size | None:
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", head[26:30])
            return width & 0x3FFF, height & 0x3FFF
        case _:
            return None


def _jpeg_size(head: bytes) -> Size | None:
    at = 2
    while head[at] == _JPEG_MARKER:
        marker, length = head[at + 1], struct.unpack(">H", head[at + 2 : at + 4])[0]
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


def audio_tokens(data: str, form: object) -> int:
    """Return the tokens of base64 sound, by its length in bytes."""
    per_token = _AUDIO_BYTES_PER_TOKEN.get(str(form), _COMPRESSED_AUDIO_BYTES_PER_TOKEN)
    return math.ceil(len(data) * 3 / 4 / per_token)


def recording_tokens(data: str | bytes | None) -> int:
    """Return the tokens of sound or film in base64 or bytes, by its length: 32 a second of sound at 64 kbit/s."""
    return math.ceil(_byte_count(data or b"") / _RECORDING_BYTES_PER_TOKEN)


def file_tokens(data: str | bytes) -> int:
    """Return the tokens of a file in base64 or bytes: PDF by the page, anything else by its length as text."""
    if isinstance(data, str):
        payload = data.partition(";base64,")[2] if data.startswith("data:") else data
        try:
            content = _decoded(payload)
        except (Base64Error, ValueError):
            return opaque_tokens(payload)
    else:
        content = data
    if not content.startswith(b"%PDF"):
        return math.ceil(len(content) / 4)
    return _PDF_PAGE * max(1, len(re.findall(rb"/Type\s*/Page\b", content)))


def opaque_tokens(data: str | bytes) -> int:
    """Return the tokens of reasoning that only the provider can read: its bytes, at four to a token."""
    return math.ceil(_byte_count(data) / 4)


def hidden_tokens(signature: object, shown: str = "") -> int:
    """Return the tokens of reasoning that a signature holds, beyond those of the text that is shown of it."""
    if not isinstance(signature, (str, bytes)):
        return 0
    return max(0, opaque_tokens(signature) - len(shown) // 4)


def _byte_count(data: str | bytes) -> float:
    return len(data) * 3 / 4 if isinstance(data, str) else len(data)
