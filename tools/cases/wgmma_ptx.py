"""PTX texts with one wgmma.mma_async, or a chain of them, in any shape, type and layout; from the ISA.

A kernel's block of 128 threads multiplies a tile: it places A and B in shared memory by the canonical layouts
of the PTX ISA, loads C and A's registers where they are asked for, and stores D as a matrix. Nothing here
knows the emulator.

    a   (tiles, 64, K * steps), or (tiles, K * steps, 64) where it is M-major
    b   (tiles, N, K * steps), or (tiles, K * steps, N) where it is N-major
    c   (tiles, 64, N), d alike
"""

from __future__ import annotations

from dataclasses import dataclass

_SWIZZLES = {"none": (0, 16), "128B": (1, 128), "64B": (2, 64), "32B": (3, 32)}
"""The number of a swizzle in the descriptor, and the bytes of a row of its atom."""
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
ROWS = 64


@dataclass(frozen=True)
class Wgmma:
    """One kernel: shape, types, where A comes from and how the operands lie."""

    n: int = 8
    d: str = "f32"
    a: str = "f16"
    b: str = ""
    steps: int = 1
    a_in_registers: bool = False
    accumulate: bool = True
    swizzle_a: str = "none"
    swizzle_b: str = "none"
    trans_a: bool = False
    trans_b: bool = False
    scale_a: int = 1
    scale_b: int = 1
    satfinite: bool = False
    base: int = 0
    """Rows of 128 bytes by which the tiles of A and B are moved, and the base offset of their descriptors."""

    @property
    def item(self) -> int:
        """Bytes of an element of A, and of B."""
        return _BYTES[self.a]

    @property
    def k(self) -> int:
        """The depth of one instruction, in elements."""
        return 32 // self.item

    @property
    def b_type(self) -> str:
        """The type of B: that of A unless another is given."""
        return self.b or self.a

    @property
    def d_bytes(self) -> int:
        """Bytes of an element of C and of D."""
        return 2 if self.d == "f16" else 4

    @property
    def d_registers(self) -> int:
        """How many registers of 32 bits hold a thread's part of D."""
        return self.n * self.d_bytes // 8

    @property
    def name(self) -> str:
        """The instruction with its modifiers."""
        middle = ".satfinite" if self.satfinite else ""
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}{middle}.{self.d}.{self.a}.{self.b_type}"

    def ptx(self) -> str:
        """The whole module."""
        a, b = self._tile("a"), self._tile("b")
        registers = [f"%d{i}" for i in range(self.d_registers)]
        lines = [
            f".shared .align 1024 .b8 tile_a[{a.bytes}];",
            f".shared .align 1024 .b8 tile_b[{b.bytes}];",
            ".reg .b32 %me, %tile, %warp, %g, %t, %i, %x, %y, %z, %r<4>;",
            f".reg .b32 %a<{4 * self.steps}>, %d<{self.d_registers}>;",
            ".reg .b64 %a, %b, %c, %d, %wide, %a_desc, %b_desc;",
            ".reg .pred %p;",
            "",
            "mov.u32 %me, %tid.x;",
            "mov.u32 %tile, %ctaid.x;",
            "shr.u32 %warp, %me, 5;",
            "shr.u32 %g, %me, 2;",
            "and.b32 %g, %g, 7;",
            "and.b32 %t, %me, 3;",
        ]
        sizes = {
            "a": ROWS * 32 * self.steps,
            "b": self.n * 32 * self.steps,
            "c": ROWS * self.n * self.d_bytes,
            "d": ROWS * self.n * self.d_bytes,
        }
        for name, size in sizes.items():
            lines += [
                f"ld.param.u64 %{name}, [{name}];",
                f"cvta.to.global.u64 %{name}, %{name};",
                f"mad.wide.u32 %{name}, %tile, {size}, %{name};",
            ]
        if not self.a_in_registers:
            lines += a.place()
        lines += b.place()
        lines += self._at_d("c", "%c")
        lines += self._move("ld.global.b32 {register}, [%c+{offset}];", registers)
        if self.a_in_registers:
            lines += self._load_a()
        lines += [
            "fence.proxy.async.shared::cta;",
            "bar.sync 0;",
            *a.descriptor("%a_desc"),
            *b.descriptor("%b_desc"),
            f"setp.{'eq' if self.accumulate else 'ne'}.u32 %p, %me, %me;",
            "wgmma.fence.sync.aligned;",
        ]
        for step in range(self.steps):
            given = "%a_desc"
            if self.a_in_registers:
                given = "{" + ", ".join(f"%a{4 * step + i}" for i in range(4)) + "}"
            lines += [
                f"{self.name}",
                f"    {{{', '.join(registers)}}},",
                f"    {given}, %b_desc, %p{self._flags()};",
            ]
            if step + 1 < self.steps:
                lines += [
                    f"add.u64 %a_desc, %a_desc, {a.step() // 16};",
                    f"add.u64 %b_desc, %b_desc, {b.step() // 16};",
                    "setp.eq.u32 %p, %me, %me;",
                ]
        lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
        lines += self._at_d("d", "%d")
        lines += self._move("st.global.b32 [%d+{offset}], {register};", registers)
        lines += ["ret;"]
        body = "\n".join(line and (line if line.endswith(":") else f"    {line}") for line in lines)
        parameters = ", ".join(f".param .u64 {name}" for name in "abcd")
        head = ".version 8.8\n.target sm_90a\n.address_size 64\n"
        return f"{head}\n.visible .entry kernel({parameters})\n{{\n{body}\n}}\n"

    def _flags(self) -> str:
        if self.a in {"s8", "u8"}:
            return ""
        flags = [self.scale_a, self.scale_b]
        if self.item == 2:
            flags += [int(self.trans_b)] if self.a_in_registers else [int(self.trans_a), int(self.trans_b)]
        return "".join(f", {flag}" for flag in flags)

    def _at_d(self, name: str, pointer: str) -> list[str]:
        """The thread's first element: row 16 warp + g, column 2 t."""
        return [
            f"// {name}: row 16 warp + g, column 2 t",
            "mad.lo.u32 %x, %warp, 16, %g;",
            f"mul.lo.u32 %x, %x, {self.n * self.d_bytes};",
            f"mad.lo.u32 %x, %t, {2 * self.d_bytes}, %x;",
            "cvt.u64.u32 %wide, %x;",
            f"add.u64 {pointer}, {pointer}, %wide;",
        ]

    def _move(self, text: str, registers: list[str]) -> list[str]:
        found = []
        for i, register in enumerate(registers):
            if self.d == "f16":
                j, h, p = i // 2, i % 2, 0
            else:
                j, h, p = i // 4, i // 2 % 2, i % 2
            offset = (8 * h * self.n + 8 * j + p) * self.d_bytes
            found.append(text.format(register=register, offset=offset))
        return found

    def _load_a(self) -> list[str]:
        """Registers 4 s + 2 q + h: row 16 warp + 8 h + g, byte 32 s + 16 q + 4 t."""
        row = 32 * self.steps
        lines = [
            "mad.lo.u32 %x, %warp, 16, %g;",
            f"mul.lo.u32 %x, %x, {row};",
            "mad.lo.u32 %x, %t, 4, %x;",
            "cvt.u64.u32 %wide, %x;",
            "add.u64 %a, %a, %wide;",
        ]
        for i in range(4 * self.steps):
            step, q, h = i // 4, i // 2 % 2, i % 2
            lines.append(f"ld.global.b32 %a{i}, [%a+{8 * h * row + 32 * step + 16 * q}];")
        return lines

    def _tile(self, name: str) -> _Tile:
        swizzle = self.swizzle_a if name == "a" else self.swizzle_b
        extent = ROWS if name == "a" else self.n
        major = self.trans_a if name == "a" else self.trans_b
        return _Tile(name, swizzle, extent, self.steps, self.item, major, self.base)


@dataclass(frozen=True)
class _Tile:
    """A matrix in shared memory: `extent` rows of M or N, 32 * steps bytes of K."""

    name: str
    swizzle: str
    extent: int
    steps: int
    item: int
    mn_major: bool
    base: int

    @property
    def span(self) -> int:
        """Bytes of a row of the swizzle's atom."""
        return _SWIZZLES[self.swizzle][1]

    @property
    def strides(self) -> tuple[int, int]:
        """The descriptor's leading and stride byte offsets."""
        if self.mn_major:
            k, wide = self.steps * 32 // self.item, self.extent * self.item
            if self.swizzle == "none":
                # SBO from 8 elements of M to the next 8, LBO from 8 of K to the next 8.
                return 128, k // 8 * 128
            # Atoms of `span` bytes by 8 of K: along K first, LBO from one to the next along M.
            return (k * self.span if wide > self.span else 0), 8 * self.span
        if self.swizzle == "none":
            # LBO from one chunk of K to the next, SBO from 8 rows to the next 8.
            return self.extent * 16, 128
        return 16, 8 * self.span

    @property
    def bytes(self) -> int:
        """With room for the shift by `base`."""
        if self.mn_major and self.swizzle != "none":
            columns = -(-self.extent * self.item // self.span)
            return columns * self.strides[1] * (self.steps * 32 // self.item // 8) + 1024
        if not self.mn_major and self.swizzle != "none":
            return -(-self.extent // 8) * 8 * self.span + 1024
        return self.extent * 32 * self.steps

    def step(self) -> int:
        """From one instruction's K to the next, in bytes."""
        if self.mn_major:
            leading, stride = self.strides
            return (2 * (leading if self.swizzle == "none" else stride)) * (16 // (32 // self.item))
        return 2 * self.strides[0] if self.swizzle == "none" else 32

    def place(self) -> list[str]:
        """Have each thread place chunks of 16 bytes: number %i of the matrix in global memory."""
        leading, stride = self.strides
        per_row = self.extent * self.item // 16 if self.mn_major else 2 * self.steps
        count = self.extent * 2 * self.steps
        lines = [
            f"// {self.name}: {count} chunks, {per_row} a row",
            "mov.u32 %i, %me;",
            f"place_{self.name}:",
            f"setp.ge.u32 %p, %i, {count};",
            f"@%p bra placed_{self.name};",
            f"div.u32 %x, %i, {per_row};",
            f"rem.u32 %y, %i, {per_row};",
            # %x row, %y chunk: %z the offset
            "and.b32 %z, %x, 7;",
            f"mul.lo.u32 %z, %z, {self.span};",
            "shr.u32 %x, %x, 3;",
        ]
        if self.mn_major and self.swizzle == "none":
            lines += [f"mad.lo.u32 %z, %x, {leading}, %z;", f"mad.lo.u32 %z, %y, {stride}, %z;"]
        elif self.mn_major:
            wide = self.span // 16
            lines += [
                f"mad.lo.u32 %z, %x, {stride}, %z;",
                f"div.u32 %x, %y, {wide};",
                f"mad.lo.u32 %z, %x, {leading}, %z;",
                f"rem.u32 %x, %y, {wide};",
                "mad.lo.u32 %z, %x, 16, %z;",
            ]
        else:
            chunk = leading if self.swizzle == "none" else 16
            lines += [f"mad.lo.u32 %z, %x, {stride}, %z;", f"mad.lo.u32 %z, %y, {chunk}, %z;"]
        if self.swizzle != "none":
            lines += [
                "shr.u32 %x, %z, 7;",
                f"and.b32 %x, %x, {self.span // 16 - 1};",
                "shl.b32 %x, %x, 4;",
                "xor.b32 %z, %z, %x;",
            ]
        if self.base:
            lines += [f"add.u32 %z, %z, {128 * self.base};"]
        return [
            *lines,
            f"mov.u32 %x, tile_{self.name};",
            "add.u32 %z, %z, %x;",
            "mul.wide.u32 %wide, %i, 16;",
            f"add.u64 %wide, %{self.name}, %wide;",
            "ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%wide];",
            "st.shared.v4.b32 [%z], {%r0, %r1, %r2, %r3};",
            "add.u32 %i, %i, 128;",
            f"bra place_{self.name};",
            f"placed_{self.name}:",
        ]

    def descriptor(self, register: str) -> list[str]:
        """Put the tile's descriptor into a register."""
        leading, stride = self.strides
        bits = (leading >> 4) << 16 | (stride >> 4) << 32 | _SWIZZLES[self.swizzle][0] << 62 | self.base << 49
        return [
            f"mov.u32 %x, tile_{self.name};",
            f"add.u32 %x, %x, {128 * self.base};",
            "shr.u32 %x, %x, 4;",
            f"cvt.u64.u32 {register}, %x;",
            f"or.b64 {register}, {register}, 0x{bits:x};",
        ]
