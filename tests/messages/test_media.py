"""The size of an image is read from its header, whatever its format."""

import struct
from base64 import b64encode

import pytest

from cupel.messages import fit
from cupel.tokens import CharacterEstimate

WIDTH, HEIGHT = 750, 901  # a token for every 750 pixels: each column more or less is one token and a bit


def webp(chunk: bytes, header: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + chunk + bytes(4) + header


FORMATS = {
    "png": b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", WIDTH, HEIGHT),
    "gif 87": b"GIF87a" + struct.pack("<HH", WIDTH, HEIGHT),
    "gif 89": b"GIF89a" + struct.pack("<HH", WIDTH, HEIGHT),
    "webp with features": webp(
        b"VP8X", bytes(4) + (WIDTH - 1).to_bytes(3, "little") + (HEIGHT - 1).to_bytes(3, "little")
    ),
    "webp without loss": webp(b"VP8L", b"\x2f" + (WIDTH - 1 | HEIGHT - 1 << 14).to_bytes(4, "little")),
    "webp": webp(b"VP8 ", bytes(6) + struct.pack("<HH", WIDTH | 0x4000, HEIGHT)),
    "jpeg": b"\xff\xd8\xff\xe0" + struct.pack(">H14x", 16) + b"\xff\xc0" + struct.pack(">HBHH", 17, 8, HEIGHT, WIDTH),
}


def tokens(data: bytes) -> int:
    """What a second image adds to a message."""
    source = {"type": "base64", "media_type": "image/any", "data": b64encode(data).decode()}
    one, two = (
        fit(
            [{"role": "user", "content": [{"type": "image", "source": source}] * count}],
            10**6,
            counter=CharacterEstimate(4.0),
            provider="anthropic",
        ).total_tokens
        for count in (1, 2)
    )
    return two - one


@pytest.mark.parametrize("name", FORMATS)
def test_an_image_is_counted_by_its_area(name):
    assert tokens(FORMATS[name]) == 901


@pytest.mark.parametrize("data", [b"", b"RIFF", b"\x89PNG\r\n\x1a\n\0", webp(b"VP9 ", bytes(20)), b"\xff\xd8\0\0"])
def test_one_that_does_not_tell_counts_as_the_largest(data):
    assert tokens(data) == 1600
