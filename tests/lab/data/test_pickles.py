"""Pickles as data: what is read, and that nothing runs."""

import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aon.lab.data.pickles import parse

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.tuples(inner),
    max_leaves=20,
)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_plain_data_come_out_as_they_went_in(value, protocol):
    assert parse(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["u1", "<i8", ">f4", "b1"])
def test_arrays_come_out_as_they_went_in(protocol, order, dtype):
    array = np.asarray(np.arange(24).reshape(4, 6) % 2, dtype=dtype, order=order)
    read = parse(pickle.dumps({"data": array, "again": array}, protocol))
    np.testing.assert_array_equal(read["data"], array)
    assert read["data"].dtype == array.dtype
    assert read["again"] is read["data"]


def python2_batch(images: np.ndarray, labels: list[int]) -> bytes:
    """A batch as Python 2's cPickle wrote it, instruction by instruction, at the head of the official files."""

    def text(value: bytes) -> bytes:
        short = len(value) < 256
        return (b"U" + bytes([len(value)]) if short else b"T" + struct.pack("<i", len(value))) + value

    def integer(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)

    shape = b"".join(integer(n) for n in images.shape) + b"\x86"
    dtype = b"cnumpy\ndtype\nq\x0a" + text(b"u1") + b"K\x00K\x01\x87Rq\x0b(K\x03" + text(b"|") + b"NNN"
    dtype += b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85" + text(b"b") + b"\x87Rq\x09"
    data = made + b"(K\x01" + shape + dtype + b"\x89" + text(images.tobytes()) + b"tb"
    numbers = b"]q\x05(" + b"".join(integer(n) for n in labels) + b"e"
    batch = text(b"batch_label") + b"q\x02" + text(b"training batch 1 of 5") + b"q\x03"
    return b"\x80\x02}q\x01(" + batch + text(b"labels") + b"q\x04" + numbers + text(b"data") + b"q\x06" + data + b"u."


def test_a_batch_written_by_python_2_is_read():
    images = np.random.default_rng(0).integers(0, 256, (4, 3072), dtype=np.uint8)
    read = parse(python2_batch(images, [6, 9, 9, 4]))
    assert read["labels"] == [6, 9, 9, 4]
    assert read["batch_label"] == "training batch 1 of 5"
    np.testing.assert_array_equal(read["data"], images)


class Opener:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_no_code_runs(tmp_path, protocol):
    made = tmp_path / "made"
    content = pickle.dumps({"data": [Opener(str(made))]}, protocol)
    with pytest.raises(ValueError, match="does not build plain data"):
        parse(content)
    assert not made.exists()
    pickle.loads(content)["data"][0].close()  # noqa: S301  # the usual way, what must not happen does
    assert made.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "the pickle calls os system"),
        (b"(S'true'\nios\nsystem\n.", "the instruction INST"),
        (b"(cos\nsystem\nS'true'\no.", "the instruction OBJ"),
        (b"\x80\x02cos\nsystem\n)\x81.", "the instruction NEWOBJ"),
        (b"Pabc\n.", "the instruction PERSID"),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "the pickle calls os system"),
        (b"cnumpy\nload\n(S'x'\ntR.", "the pickle calls numpy load"),
        (b"c__builtin__\neval\n(S'1'\ntR.", "the pickle calls __builtin__ eval"),
        (b"K\x01K\x01b.", "sets the state of something that is not an array"),
        (b"K\x01K\x01a.", "appends to something that is not a list"),
        (b"K\x01K\x01K\x01s.", "sets items of something that is not a dictionary"),
        (b"a.", "malformed"),
        (b"K\x01t.", "malformed"),
        (b"h\x07.", "malformed"),
        (b"K\x01K\x01R.", "malformed"),
        (
            pickle.dumps(np.zeros(3), 2).replace(b"K\x03\x85", b"\x8a\x09" + b"\xff" * 8 + b"\x00\x85"),
            "Maximum allowed dimension",
        ),
        (b"", "pickle exhausted before seeing STOP"),
        (b"K\x01", "pickle exhausted before seeing STOP"),
        (b"T\xff\xff\x00\x00short.", "expected 65535 bytes"),
        (b"\xff", "unknown"),
    ],
)
def test_anything_but_whole_plain_data_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        parse(content)


@given(st.binary(max_size=200))
def test_no_content_is_more_than_refused(content):
    try:
        parse(content)
    except ValueError:
        return


@given(st.data())
def test_a_spoilt_batch_is_read_or_refused(data):
    content = bytearray(python2_batch(np.zeros((2, 8), np.uint8), [1, 2]))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse(bytes(content))
    except ValueError:
        return


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "U4"])
def test_arrays_of_anything_but_numbers_are_refused(dtype):
    content = pickle.dumps(np.zeros(3).astype(dtype), protocol=2)
    with pytest.raises(ValueError, match=r"not numbers|malformed|plain data"):
        parse(content)


def test_an_array_with_too_few_bytes_is_refused():
    content = python2_batch(np.zeros((2, 8), np.uint8), [1, 2]).replace(b"K\x02K\x08\x86", b"K\x02K\x09\x86")
    with pytest.raises(ValueError, match="cannot reshape array of size 16"):
        parse(content)
