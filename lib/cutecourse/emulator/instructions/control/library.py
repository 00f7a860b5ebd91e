"""The functions that the driver provides and a module only declares: vprintf and __assertfail."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from cutecourse.emulator.core.bundle import Bundle, Split
from cutecourse.emulator.core.kinds import WARP_SIZE, put
from cutecourse.emulator.core.memory import LOCAL_WINDOW, WINDOW_BITS
from cutecourse.emulator.core.program import Step
from cutecourse.emulator.core.site import Site
from cutecourse.emulator.errors import AddressError, KernelTrap
from cutecourse.ptx.syntax import Name, Operand, Variable

__all__ = ["LIBRARY"]

_MAX_STRING = 4096
_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)((?:\.\d*)?)(hh|h|ll|l|z|t|j)?([diouxXcsfFeEgGaAp%])")


def _parameter(site: Site, operand: Operand) -> int:
    """The offset of a .param variable that a call names."""
    variable = site.scope.lookup(operand.text) if isinstance(operand, Name) else None
    offset = site.local_offset(variable) if isinstance(variable, Variable) else None
    if offset is None:
        site.invalid(f"{operand} is not a .param variable")
    return offset


def _local(bundle: Bundle, lane: int, offset: int, size: int) -> bytes:
    start = lane * bundle.program.local_stride + offset
    return bundle.local[start : start + size].tobytes()


def _word(bundle: Bundle, lane: int, offset: int, size: int = 8) -> int:
    return int.from_bytes(_local(bundle, lane, offset, size), "little")


def _read(site: Site, bundle: Bundle, lane: int, address: int, size: int) -> bytes:
    """Bytes at a generic address of one lane."""
    if address >> WINDOW_BITS == LOCAL_WINDOW >> WINDOW_BITS:
        offset = address - LOCAL_WINDOW
        if offset + size <= bundle.program.local_bytes:
            return _local(bundle, lane, offset, size)
    else:
        found = bundle.machine.memory.find(address)
        if found is not None and address + size <= found.end:
            return found.data[address - found.base : address - found.base + size].tobytes()
    raise site.error(
        AddressError, f"read of {size} bytes at 0x{address:x}: no allocation", bundle, lane, address=address
    )


def _string(site: Site, bundle: Bundle, lane: int, address: int) -> str:
    found = bundle.machine.memory.find(address)
    if found is None:
        return _read(site, bundle, lane, address, 1).decode("latin-1")
    raw = found.data[address - found.base : address - found.base + _MAX_STRING].tobytes()
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _format(site: Site, bundle: Bundle, lane: int, template: str, values: int) -> str:
    """Format a template as printf does, with the arguments packed at a generic address."""
    at = values

    def take(size: int) -> bytes:
        nonlocal at
        at = -(-at // size) * size
        raw = _read(site, bundle, lane, at, size)
        at += size
        return raw

    def convert(found: re.Match[str]) -> str:
        flags, width, precision, length, letter = found.groups()
        if letter == "%":
            return "%"
        spec = f"%{flags}{width[:4]}{precision[:5]}"
        size = 8 if length in {"l", "ll", "z", "t", "j"} else 4
        if letter in "di":
            return (spec + "d") % int.from_bytes(take(size), "little", signed=True)
        if letter in "ouxX":
            return (spec + ("d" if letter == "u" else letter)) % int.from_bytes(take(size), "little")
        if letter == "c":
            return (spec + "c") % chr(take(4)[0])
        if letter == "s":
            return (spec + "s") % _string(site, bundle, lane, int.from_bytes(take(8), "little"))
        if letter == "p":
            return f"0x{int.from_bytes(take(8), 'little'):x}"
        number: float = struct.unpack("<d", take(8))[0]
        return number.hex() if letter in "aA" else (spec + letter) % number

    return _CONVERSION.sub(convert, template)


def _vprintf(site: Site, results: list[Operand], arguments: list[Operand]) -> Step:
    template, values = (_parameter(site, a) for a in arguments)
    answer = _parameter(site, results[0]) if results else None

    def control(bundle: Bundle, split: Split, following: int) -> int:
        for lane in bundle.lanes(split.mask).tolist():
            text = _string(site, bundle, lane, _word(bundle, lane, template))
            bundle.machine.printed.append(_format(site, bundle, lane, text, _word(bundle, lane, values)))
        if answer is not None:
            for memory, byte in ((bundle.local, 0), (bundle.local_written, 1)):
                lanes = memory.reshape(bundle.n, WARP_SIZE, -1)
                put(lanes[..., answer : answer + 4], byte, split.mask)
        return following

    return control


def _assertfail(site: Site, results: list[Operand], arguments: list[Operand]) -> Step:
    places = [_parameter(site, a) for a in arguments]

    def control(bundle: Bundle, split: Split, following: int) -> int:
        lane = int(bundle.lanes(split.mask)[0])
        message, file, function = (_word(bundle, lane, places[i]) for i in (0, 1, 3))
        line = _word(bundle, lane, places[2], 4)
        text = ", ".join(_string(site, bundle, lane, p) for p in (file, function) if p)
        raise site.error(
            KernelTrap,
            f"assertion failed: {_string(site, bundle, lane, message)} ({text}, line {line})",
            bundle,
            lane,
        )

    return control


LIBRARY: dict[str, Callable[[Site, list[Operand], list[Operand]], Step]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
}
"""Source: CUDA C++ Programming Guide, Formatted Output and Assertion."""
