"""Files made to break readers."""

import struct
import zlib


def huge_png(width, height):
    """A PNG of one colour that says it is this large, in a few bytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    rows = chunk(b"IDAT", zlib.compress(b"\0" * 1000))
    return b"\x89PNG\r\n\x1a\n" + header + rows + chunk(b"IEND", b"")


def npy_header(shape, kind="<f4"):
    head = repr({"descr": kind, "fortran_order": False, "shape": shape})
    head = head + " " * (63 - (len(head) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode()
