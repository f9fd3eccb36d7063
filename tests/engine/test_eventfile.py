"""Event files are what TensorBoard's own message format and checksums say."""

import struct

import pytest
from tensorboardX.proto.event_pb2 import Event

from vergence.core.errors import VergenceError
from vergence.engine.eventfile import EventFile, crc32c


def records(path):
    """Read a file back with another package's definition of the message."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event, rest = data[12 : 12 + length], data[16 + length :]
        for checked, stored in ((data[:8], data[8:12]), (event, data[12 + length : 16 + length])):
            crc = crc32c(checked)
            masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert struct.unpack("<I", stored)[0] == masked
        found.append(Event.FromString(event))
        data = rest
    return found


def test_scalars_come_back(tmp_path):
    board = EventFile(tmp_path / "board")
    board.add("losses/train/fit", 1.5, 10)
    board.add("metrics/val/top1", 99.25, 300)
    board.close()
    first, *events = records(board.path)
    assert first.file_version == "brain.Event:2"
    found = [(e.step, e.summary.value[0].tag, e.summary.value[0].simple_value) for e in events]
    assert found == [(10, "losses/train/fit", 1.5), (300, "metrics/val/top1", 99.25)]
    assert events[0].wall_time > 1.7e9


def test_a_file_that_goes_on_purges_what_came_after_its_start(tmp_path):
    board = EventFile(tmp_path, purge_step=21)
    board.close()
    event = records(board.path)[1]
    assert event.step == 21
    assert event.session_log.status == 1  # START


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the standard


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(VergenceError, match="cannot make the folder"):
        EventFile(tmp_path / "file" / "board")
