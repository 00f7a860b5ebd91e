"""Arrays of other libraries as arguments, by DLPack or the array interface, and read-only arrays."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import pytest

from cutecourse.emulator import TensorMap, explore, launch
from cutecourse.emulator.errors import LaunchError, ReadOnlyError
from cutecourse.trace import Recorder

HEAD = ".version 8.6\n.target sm_90\n.address_size 64\n"

COPY = (
    HEAD
    + """
.visible .entry copy(.param .u64 to, .param .u64 from)
{
    .reg .b32 %i, %x;
    .reg .b64 %to, %from, %at;
    mov.u32 %i, %tid.x;
    ld.param.u64 %to, [to];
    ld.param.u64 %from, [from];
    mul.wide.u32 %at, %i, 4;
    add.u64 %from, %from, %at;
    add.u64 %to, %to, %at;
    ld.global.b32 %x, [%from];
    st.global.b32 [%to], %x;
    ret;
}
"""
)
BULK = (
    HEAD
    + """
.visible .entry bulk(.param .u64 to)
{
    .reg .b64 %to;
    .reg .b32 %at;
    .shared .align 16 .b8 held[16];
    ld.param.u64 %to, [to];
    mov.u32 %at, held;
    st.shared.v4.b32 [%at], {1, 2, 3, 4};
    fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%to], [%at], 16;
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}
"""
)
STORE = (
    HEAD
    + """
.visible .entry store(.param .align 64 .b8 map[128])
{
    .reg .b32 %at;
    .shared .align 128 .b8 held[16];
    mov.u32 %at, held;
    st.shared.v4.b32 [%at], {1, 2, 3, 4};
    fence.proxy.async.shared::cta;
    cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {0}], [%at];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
    ret;
}
"""
)


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor, written down from its header a second time."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Foreign:
    """An array of another library, from before DLPack 1.0: its capsule has no version."""

    def __init__(
        self, held: np.ndarray, code: int, *, device: int = 1, strides: bool = False, bits: int | None = None
    ) -> None:
        self.held, self.device = held, device
        self.shape = (ctypes.c_int64 * held.ndim)(*held.shape)
        self.strides = (ctypes.c_int64 * held.ndim)(*(step // held.itemsize for step in held.strides))
        self.tensor = DLTensor(
            held.ctypes.data - 8,
            Device(device, 0),
            held.ndim,
            code,
            bits or 8 * held.itemsize,
            1,
            ctypes.addressof(self.shape),
            ctypes.addressof(self.strides) if strides else None,
            8,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, stream: Any = None) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


class Versioned:
    """An array that hands out what NumPy's own DLPack 1.0 gives, read-only or not."""

    def __init__(self, held: np.ndarray) -> None:
        self.held = held

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.held.__dlpack_device__()

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
        return self.held.__dlpack__(max_version=max_version)


class Interface:
    """An array that says where its memory is."""

    def __init__(self, held: np.ndarray) -> None:
        self.held = held

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.held.__array_interface__


def numbers() -> np.ndarray:
    return np.arange(32, dtype=np.float32)


def read_only() -> np.ndarray:
    array = numbers()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "wrap", [Versioned, Interface, lambda held: Foreign(held, 2), lambda held: Foreign(held, 2, strides=True)]
)
def test_launch__works_in_the_memory_of_another_librarys_arrays(wrap):
    to = np.zeros(32, dtype=np.float32)
    launch(COPY, grid=1, block=32, args=[wrap(to), wrap(numbers())])
    np.testing.assert_array_equal(to, numbers())


def test_launch__takes_bf16_as_codes():
    codes = np.arange(64, dtype=np.uint16).reshape(8, 8)
    to = np.zeros(64, dtype=np.uint16)
    launch(COPY, grid=1, block=32, args=[Foreign(to, 4), Foreign(codes, 4, strides=True)])
    np.testing.assert_array_equal(to, codes.reshape(-1))


def test_launch__leaves_no_reference_to_another_librarys_memory():
    class Held(np.ndarray):
        pass

    held = numbers().view(Held)
    gone = weakref.ref(held)
    launch(COPY, grid=1, block=32, args=[np.zeros(32, np.float32), Versioned(held)])
    del held
    assert gone() is None


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (lambda: Foreign(numbers(), 2, device=2), r"Foreign lies in the memory of another device \(type 2"),
        (lambda: Foreign(numbers().reshape(4, 8)[:, ::2], 2, strides=True), "not contiguous"),
        (lambda: Foreign(np.zeros(64, np.uint8), 17, bits=4), "do not fill bytes"),
    ],
)
def test_launch__says_why_it_cannot_take_an_array(argument, message):
    with pytest.raises(LaunchError, match=message):
        launch(COPY, grid=1, block=32, args=[np.zeros(32, np.float32), argument()])


def test_launch__passes_on_why_a_library_refuses():
    class Refuses(Versioned):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it requires a gradient: detach it first")

    with pytest.raises(LaunchError, match="does not hand out its memory: it requires a gradient"):
        launch(COPY, grid=1, block=32, args=[numbers(), Refuses(numbers())])


def test_launch__names_an_array_in_a_gpus_memory():
    class OnGpu:
        @property
        def __cuda_array_interface__(self) -> dict[str, int]:
            return {"version": 3}

    with pytest.raises(LaunchError, match="OnGpu lies in a GPU's memory"):
        launch(COPY, grid=1, block=32, args=[numbers(), OnGpu()])


# --- read-only arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda array: array, Versioned, Interface])
def test_launch__takes_a_read_only_array_as_an_input(wrap):
    to = np.zeros(32, dtype=np.float32)
    launch(COPY, grid=1, block=32, args=[to, wrap(read_only())])
    np.testing.assert_array_equal(to, numbers())


@pytest.mark.parametrize("wrap", [lambda array: array, Versioned, Interface])
def test_launch__names_the_parameter_of_a_read_only_array_that_a_kernel_writes(wrap):
    held = read_only()
    with pytest.raises(ReadOnlyError, match=r"the read-only array for parameter to .float32(.|\n)*PTX line"):
        launch(COPY, grid=1, block=32, args=[wrap(held), numbers()])
    np.testing.assert_array_equal(held, numbers())


@pytest.mark.parametrize("text", [BULK, STORE])
def test_launch__finds_a_copy_into_a_read_only_array(text):
    held = read_only()
    argument = TensorMap.tiled(held, dims=(32,), strides=(), box=(4,)) if text is STORE else held
    with pytest.raises(ReadOnlyError, match=r"the copy writes to the read-only array for parameter (to|map)"):
        launch(text, grid=1, block=1, args=[argument])
    np.testing.assert_array_equal(held, numbers())


def test_launch__writes_to_an_array_that_has_a_read_only_view_too():
    held = numbers()
    view = held[:]
    view.flags.writeable = False
    launch(COPY, grid=1, block=32, args=[held, view])
    np.testing.assert_array_equal(held, numbers())


def test_explore__copies_what_it_is_given():
    to = np.zeros(32, dtype=np.float32)
    found = explore(COPY, grid=1, block=32, args=[Versioned(to), Versioned(read_only())], max_seeds=2)
    assert found.agree
    assert found.outcomes[0].error is None
    assert not to.any()


def test_replay__does_not_run_in_another_librarys_memory():
    to, recorder = np.zeros(32, dtype=np.float32), Recorder()
    launch(COPY, grid=1, block=32, args=[Versioned(to), read_only()], recorder=recorder)
    to[:] = -1
    recorder.trace().snapshot()
    assert (to == -1).all()
