"""The MMA itself: atoms of one and two SMs, tiled, and what each CTA gets of A, B and C."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from cutecourse import atoms
from cutecourse.atoms import CutlassSource, LayoutTensor, MmaAtom, ThrMma, TiledMma
from cutecourse.atoms.tensor import AnyLayout
from cutecourse.atoms.tiled_mma import partition
from cutecourse.descriptors import INSTR_SM100, MAJORS, Descriptor, make_instr_desc
from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as as_dtype
from cutecourse.layout import Explanation, Layout, explain, size, tiled_divide
from cutecourse.layout.int_tuple import IntTuple
from cutecourse.layout.record import Record

from .errors import UmmaError
from .shared_memory import DescriptorTensor, smem_desc_tensor

__all__ = [
    "CtaMma",
    "TiledUmma",
    "make_tiled_mma",
    "partition_shape_A",
    "partition_shape_B",
    "partition_shape_C",
]

Operand = Literal["A", "B", "C"]

_ARCH = "include/cute/arch/mma_sm100_umma.hpp"
_TRAITS = "include/cute/atom/mma_traits_sm100.hpp"


@dataclass(frozen=True)
class _Op:
    """One of CUTLASS's operations: how many SMs, which M and N it takes, and where it says so."""

    sms: int
    ms: tuple[int, int]
    n_step: int
    arch_line: int
    traits_line: int
    ptx: str


_OPS = {
    "SM100_MMA_F16BF16_SS": _Op(1, (64, 128), 8, 86, 1090, "tcgen05.mma.cta_group::1.kind::f16"),
    "SM100_MMA_F16BF16_2x1SM_SS": _Op(2, (128, 256), 16, 422, 1677, "tcgen05.mma.cta_group::2.kind::f16"),
}
_FAMILY = re.compile(
    r"SM100_MMA_(F16BF16|TF32|S8|F8F6F4|MXF8F6F4|MXF4|MXF4NVF4)(_2x1SM)?_(SS|TS)(_SCALED|_SPARSE)?"
)


@dataclass(frozen=True)
class TiledUmma(Record):
    """A tcgen05.mma as CuTe's traits and its TiledMMA have it, every value under CuTe's name.

    Shapes:     `layout_a`, `layout_b` and `layout_c` map (CTA of the atom, value) to the index of a cell of
                the operand, its rows first. A thread of this tiling is a CTA: `thr_id` has one for one SM,
                two for two, and `get_slice` takes the CTA's place in its pair, 0 for the leader.
    Source:     CUTLASS 4.2.0, include/cute/atom/mma_traits_sm100.hpp and mma_atom.hpp.

    >>> print(make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256).layout_a)
    (2,(128,16)):(128,(1,256))
    """

    OPERATION: ClassVar[str] = "make_tiled_mma"
    LAW: ClassVar[str] = "layout_a((v, (m, k))) is the cell (m + M/V v, k) of A"
    OPERANDS: ClassVar[tuple[str, ...]] = ("op", "a_type", "b_type", "c_type", "m", "n", "a_major", "b_major")
    STEPS: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("MMA_Op", "the operation: one struct, one instruction", "op", "ptx"),
        ("MMA_Traits", "M and N as given; K of an instruction is 32 bytes", "shape_mnk"),
        (
            "types",
            "the types of the elements, and of the fragments that the MMA takes",
            "val_types",
            "frg_type_a",
            "frg_type_b",
            "frg_type_c",
        ),
        ("ThrID", "the CTAs that work on one instruction", "thr_id"),
        (
            "operands",
            "(CTA, value) to the index of a cell: the part of each CTA",
            "layout_a",
            "layout_b",
            "layout_c",
        ),
        ("idesc", "the instruction descriptor, a value of the traits", "idesc_hex"),
        ("MMA_Atom", "the layout of atoms that make_tiled_mma was given", "atom_layout_mnk"),
        (
            "TiledMMA",
            "tiled_product(ThrID, atom_layout_mnk): (CTA of the atom, atom along M, N, K) to CTA",
            "thr_layout_vmnk",
        ),
        ("result", "the tile that all atoms multiply together", "tile_shape"),
    )
    RESULT: ClassVar[str] = "tile_shape"

    op: str
    atom: MmaAtom
    a_major: str
    b_major: str
    idesc: int
    tiled_mma: TiledMma

    # ---- the operation ----

    @property
    def a_type(self) -> str:
        """The type of A."""
        return self.atom.dtype_a.name

    @property
    def b_type(self) -> str:
        """The type of B."""
        return self.atom.dtype_b.name

    @property
    def c_type(self) -> str:
        """The accumulator's type."""
        return self.atom.dtype_c.name

    @property
    def m(self) -> int:
        """M of one instruction, of both SMs together."""
        return self.atom.shape_mnk[0]

    @property
    def n(self) -> int:
        """N of one instruction."""
        return self.atom.shape_mnk[1]

    @property
    def cta_group(self) -> int:
        """How many SMs work together: 1 or 2."""
        return _OPS[self.op].sms

    # ---- the traits ----

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """M, N and K of one instruction."""
        return self.atom.shape_mnk

    @property
    def ptx(self) -> str:
        """The instruction."""
        return self.atom.ptx

    @property
    def val_types(self) -> tuple[str, str, str, str]:
        """ValTypeD, ValTypeA, ValTypeB, ValTypeC."""
        return (self.c_type, self.a_type, self.b_type, self.c_type)

    @property
    def frg_type_a(self) -> str:
        """FrgTypeA: what make_fragment_A gives, a view of shared memory through descriptors."""
        return f"UMMA::smem_desc<UMMA::Major::{self.a_major}>"

    @property
    def frg_type_b(self) -> str:
        """FrgTypeB: what make_fragment_B gives."""
        return f"UMMA::smem_desc<UMMA::Major::{self.b_major}>"

    @property
    def frg_type_c(self) -> str:
        """FrgTypeC: what make_fragment_C gives, a tensor in tensor memory."""
        return f"UMMA::tmem_frg_{self.cta_group}sm<{self.c_type}>"

    @property
    def idesc_hex(self) -> str:
        """The instruction descriptor's 32 bits."""
        return f"0x{self.idesc:08x}"

    @property
    def atom_layout_mnk(self) -> Layout:
        """The atoms beside each other along M, N and K."""
        return self.tiled_mma.atom_layout_mnk

    @property
    def thr_id(self) -> Layout:
        """The CTAs of one instruction."""
        return self.atom.thr_id

    @property
    def layout_a(self) -> Layout:
        """(CTA, value) to the index of a cell of A."""
        return self.atom.layout_a

    @property
    def layout_b(self) -> Layout:
        """(CTA, value) to the index of a cell of B."""
        return self.atom.layout_b

    @property
    def layout_c(self) -> Layout:
        """(CTA, value) to the index of a cell of C."""
        return self.atom.layout_c

    @property
    def instruction(self) -> Descriptor:
        """The instruction descriptor as a table of its fields."""
        return INSTR_SM100.explain(self.idesc)

    # ---- the tiling ----

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(CTA of the atom, atom along M, N, K) to CTA."""
        return self.tiled_mma.thr_layout_vmnk

    @property
    def tile_shape(self) -> tuple[int, int, int]:
        """M, N and K that all CTAs of the tiling multiply together."""
        return self.tiled_mma.tile_shape_mnk

    def tile_size(self, mode: int) -> int:
        """How many elements of M (0), N (1) or K (2) one tile covers."""
        return self.tiled_mma.tile_size(mode)

    def get_slice(self, cta: int) -> CtaMma:
        """The part of one CTA of the tiling; CTA 0 is the leader of a pair.

        Errors: UmmaError, rule `cta`, for one that is not there. (C++ does not check.)
        """
        if not 0 <= cta < self.tiled_mma.size:
            raise UmmaError(
                f"the MMA has CTAs 0 to {self.tiled_mma.size - 1}; there is no CTA {cta}",
                rule="cta",
                source="CUTLASS 4.2.0, include/cute/atom/mma_atom.hpp, TiledMMA::get_slice",
                values=(("thr_layout_vmnk", self.thr_layout_vmnk),),
            )
        return CtaMma(self, cta)

    def cluster_layout_vmnk(self, cluster_shape: IntTuple) -> Layout:
        """The CTAs of a cluster by (V, M, N, K): V counts the CTAs of one instruction.

        Errors: UmmaError, rule `cluster`, where these do not divide the cluster along M.

        >>> mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256)
        >>> print(mma.cluster_layout_vmnk((4, 4, 1)))
        ((2),2,4,1):((1),2,4,0)
        """
        cluster = Layout(cluster_shape)
        if int(size(cluster[0])) % int(size(self.thr_id)):
            raise UmmaError(
                f"{size(self.thr_id)} CTAs of one instruction do not divide the {size(cluster[0])} along M",
                rule="cluster",
                source="CUTLASS 4.2.0, include/cute/layout.hpp, tiled_divide",
                values=(("cluster_shape", cluster.shape), ("thr_id", self.thr_id)),
            )
        result: Layout = tiled_divide(cluster, (self.thr_id,))
        return result

    def __str__(self) -> str:
        return (
            f"Tiled MMA {self.op}\n  Thr Layout VMNK: {self.thr_layout_vmnk}\n{self.atom}\n"
            f"  Majors:      {self.a_major}, {self.b_major}\n  Descriptor:  0x{self.idesc:08x}"
        )

    def __repr__(self) -> str:
        return f"TiledUmma({self.atom.name})"


@dataclass(frozen=True)
class CtaMma:
    """One CTA's view of a tcgen05.mma: its parts of A, B and C, and the descriptors of its operands."""

    tiled: TiledUmma
    cta: int

    @property
    def _thr(self) -> ThrMma:
        return self.tiled.tiled_mma.get_slice(self.cta)

    def partition_A(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This CTA's part ((MMA_M, MMA_K), MMAs along M, MMAs along K, ...) of a tensor (M, K, ...).

        >>> from cutecourse.layout import make_identity_layout
        >>> mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256)
        >>> print(mma.get_slice(1).partition_A(make_identity_layout((256, 64))))
        (128,0) o ((128,16),1,4):((1@0,1@1),0,16@1)
        """
        return self._thr.partition_A(tensor)

    def partition_B(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This CTA's part ((MMA_N, MMA_K), MMAs along N, MMAs along K, ...) of a tensor (N, K, ...)."""
        return self._thr.partition_B(tensor)

    def partition_C(self, tensor: LayoutTensor | AnyLayout) -> LayoutTensor:
        """This CTA's part ((MMA_M, MMA_N), MMAs along M, MMAs along N, ...) of a tensor (M, N, ...)."""
        return self._thr.partition_C(tensor)

    def explain_partition(
        self, operand: Operand, tensor: LayoutTensor | AnyLayout, *, depth: int = 1
    ) -> Explanation:
        """The steps of `partition_A`, `partition_B` or `partition_C`, each with its values.

        `depth` says how deep: 0 the slice alone, 1 with thrfrg's steps, more with those of the divides and
        compositions inside.

        >>> from cutecourse.layout import make_identity_layout
        >>> mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256)
        >>> explanation = mma.get_slice(1).explain_partition("A", make_identity_layout((256, 64)))
        >>> [step.rule for step in explanation.steps]
        ['permute', 'atom', 'thread-value', 'threads', 'result', 'slice', 'result']
        """
        whole = explain(partition, self.tiled.tiled_mma, operand, tensor, self.cta)
        operands = (("mma", repr(self.tiled)), ("tensor", str(tensor)), ("cta", self.cta))
        steps = tuple(step for step in whole.steps if step.level <= depth)
        return replace(whole, operation=f"partition_{operand}", operands=operands, steps=steps)

    def make_fragment_A(self, slayout: AnyLayout, start_address: int = 0) -> DescriptorTensor:
        """The descriptors of A's instructions, from its partitioned layout in shared memory.

        Errors: as `smem_descriptor`, and UmmaError, rule `fragment`, for a layout that is not partitioned.
        """
        return self._descriptors("A", slayout, start_address)

    def make_fragment_B(self, slayout: AnyLayout, start_address: int = 0) -> DescriptorTensor:
        """The descriptors of B's instructions; errors as `make_fragment_A`."""
        return self._descriptors("B", slayout, start_address)

    def _descriptors(self, operand: str, slayout: AnyLayout, start_address: int) -> DescriptorTensor:
        wanted = int(size((self.tiled.layout_a if operand == "A" else self.tiled.layout_b)[1]))
        if len(slayout) < 3 or int(size(slayout[0])) != wanted:
            raise UmmaError(
                f"{slayout} is no partitioned layout of {operand}: mode 0 of three or more has the {wanted} "
                f"elements of one instruction",
                rule="fragment",
                source="CUTLASS 4.2.0, include/cute/atom/mma_atom.hpp, MMA_Atom::make_fragment_A, _B",
                advice=f"tile_to_mma_shape(atom, partition_shape_{operand}(...))",
            )
        major = self.tiled.a_major if operand == "A" else self.tiled.b_major
        element = self.tiled.a_type if operand == "A" else self.tiled.b_type
        return smem_desc_tensor(slayout, element, major, start_address)


def make_tiled_mma(
    op: str,
    a_type: DType | str,
    b_type: DType | str,
    c_type: DType | str,
    m: int,
    n: int,
    a_major: str = "K",
    b_major: str = "K",
    *,
    a_neg: bool = False,
    b_neg: bool = False,
    atom_layout_mnk: IntTuple = (1, 1, 1),
) -> TiledUmma:
    """Make the tiled MMA of SM100_MMA_F16BF16_SS (one SM) or SM100_MMA_F16BF16_2x1SM_SS (two SMs).

    Units:      `m` and `n` in elements; of both SMs together for two.
    Errors:     UmmaError where CUTLASS's assertions refuse: `m_size`, `n_size`, `dtype` for operands that
                are not f16 or bf16, `c_type`; `major`; `family` for CUTLASS's other operations, which are not
                supported here, and `op` for names that it does not have. The rules are CUTLASS's, but for
                accumulators of s32 and, of bf16, of f16, which C++ would take and the PTX ISA does not have;
                `legality` shows both.
    Source:     CUTLASS 4.2.0, include/cute/arch/mma_sm100_umma.hpp and atom/mma_traits_sm100.hpp.

    >>> mma = make_tiled_mma("SM100_MMA_F16BF16_SS", "f16", "f16", "f32", 128, 256)
    >>> print(mma.shape_mnk, mma.thr_id, mma.thr_layout_vmnk, hex(mma.idesc))
    (128, 256, 16) 1:0 (1,1,1,1):(0,0,0,0) 0x8400010
    """
    known = _OPS.get(op)
    if known is None:
        raise _unknown(op)
    a, b, c = as_dtype(a_type), as_dtype(b_type), as_dtype(c_type)
    source = f"CUTLASS 4.2.0, {_ARCH}, {op}"
    if m not in known.ms:
        raise UmmaError(f"{op} has M = {known.ms[0]} or {known.ms[1]}, not {m}", rule="m_size", source=source)
    if n % known.n_step or not known.n_step <= n <= 256:
        raise UmmaError(
            f"{op} has N from {known.n_step} to 256 in steps of {known.n_step}, not {n}",
            rule="n_size",
            source=source,
        )
    traits = f"CUTLASS 4.2.0, {_TRAITS}, MMA_Traits<{op}>"
    if a.bits != 16 or b.bits != 16:
        raise UmmaError(f"{op} multiplies f16 and bf16, not {a} and {b}", rule="dtype", source=traits)
    for operand, element in (("A", a), ("B", b)):
        if element.name not in ("f16", "bf16"):
            raise UmmaError(f"{op} has no {element} for {operand}", rule="dtype", source=traits)
    if c.name not in ("f16", "f32"):
        raise UmmaError(
            f"{op} accumulates in f32 or f16, not in {c}",
            rule="c_type",
            source="PTX ISA 9.0, tcgen05.mma, .kind::f16",
        )
    if c.name == "f16" and "bf16" in (a.name, b.name):
        raise UmmaError(
            f"{op} accumulates in f16 only what it multiplies in f16, not {a} times {b}",
            rule="c_type",
            source="PTX ISA 9.0, tcgen05.mma, .kind::f16 (CUTLASS does not refuse it)",
            advice="f32",
        )
    for major in (a_major, b_major):
        if major not in MAJORS:
            raise UmmaError(f"an operand is K- or MN-major, not {major!r}", rule="major", source=traits)
    k = 256 // a.bits
    layouts = [_operand(known.sms, x, y, divided) for x, y, divided in ((m, k, m), (n, k, n), (m, n, m))]
    atom = MmaAtom(
        name=f"{op}<{a},{b},{c},{m},{n},{a_major},{b_major}>",
        shape_mnk=(m, n, k),
        dtype_d=c,
        dtype_a=a,
        dtype_b=b,
        dtype_c=c,
        thr_id=Layout(known.sms) if known.sms > 1 else Layout(1, 0),
        layout_a=layouts[0],
        layout_b=layouts[1],
        layout_c=layouts[2],
        ptx=known.ptx,
        source=CutlassSource(_TRAITS, known.traits_line, f"MMA_Traits<{op}>"),
        ptx_source=CutlassSource(_ARCH, known.arch_line, op),
    )
    idesc = make_instr_desc(a, b, c, m, n, a_major, b_major, a_neg=a_neg, b_neg=b_neg)
    tiled_mma = atoms.make_tiled_mma(atom, Layout(atom_layout_mnk))
    return TiledUmma(op, atom, a_major, b_major, idesc, tiled_mma)


def _operand(sms: int, x: int, y: int, divided: int) -> Layout:
    """(CTA, (x, y)) to a cell's index: the CTAs of a pair take halves of the first mode."""
    if sms == 1:
        return Layout((1, (x, y)), (0, (1, x)))
    half = divided // sms
    return Layout((sms, (half, y)), (half, (1, x)))


def _unknown(op: str) -> UmmaError:
    there_is, source = ", ".join(_OPS), f"CUTLASS 4.2.0, {_ARCH}"
    if _FAMILY.fullmatch(op):
        return UmmaError(f"{op} is not supported here; there are {there_is}", rule="family", source=source)
    return UmmaError(f"CUTLASS has no {op!r}; there are {there_is}", rule="op", source=source)


# ---- shapes ----


def partition_shape_A(mma: TiledUmma, shape_mk: IntTuple) -> Any:
    """The shape ((MMA_M, MMA_K), MMAs along M, MMAs along K, ...) of each CTA's part of a tile of A.

    Errors: PartitionError where the atoms do not divide the tile.

    >>> mma = make_tiled_mma("SM100_MMA_F16BF16_2x1SM_SS", "f16", "f16", "f32", 256, 256)
    >>> partition_shape_A(mma, (256, 64)), partition_shape_B(mma, (256, 64))
    (((128, 16), 1, 4), ((128, 16), 1, 4))
    """
    return mma.tiled_mma.partition_shape_A(shape_mk)


def partition_shape_B(mma: TiledUmma, shape_nk: IntTuple) -> Any:
    """The shape ((MMA_N, MMA_K), MMAs along N, MMAs along K, ...) of each CTA's part of a tile of B."""
    return mma.tiled_mma.partition_shape_B(shape_nk)


def partition_shape_C(mma: TiledUmma, shape_mn: IntTuple) -> Any:
    """The shape ((MMA_M, MMA_N), MMAs along M, MMAs along N, ...) of each CTA's part of a tile of C."""
    return mma.tiled_mma.partition_shape_C(shape_mn)
