"""The bytes of exact sums, as tests change them."""

from __future__ import annotations

import struct
import zlib


def with_crc(data: bytes) -> bytes:
    """Changed bytes of an exact sum, with the checksum that is right for them."""
    crc = zlib.crc32(data[16:], zlib.crc32(data[:12]))
    return data[:12] + struct.pack("<I", crc) + data[16:]
