"""Descriptors as CuTe has them: bit fields that tell an MMA where its operands lie and what to multiply.

`SMEM_SM90` (wgmma) and `SMEM_SM100` (tcgen05) describe a matrix in shared memory, `INSTR_SM100` a
tcgen05.mma and `INSTR_BLOCK_SCALED_SM100` one with scale factors. Each format packs and unpacks numbers as
the members of CuTe's struct hold them, encodes and decodes what they stand for, and explains a descriptor as
a table.
"""

from .errors import DescriptorError
from .fields import DecodedField, Descriptor, DescriptorFormat, Field
from .instruction import (
    C_FORMATS,
    ELEMENT_FORMATS,
    INSTR_BLOCK_SCALED_SM100,
    INSTR_SM100,
    MAJORS,
    SCALE_FORMATS,
    instr_format,
    make_instr_desc,
    make_instr_desc_block_scaled,
    make_runtime_instr_desc,
)
from .shared_memory import GMMA_LAYOUT_TYPES, SMEM_SM90, SMEM_SM100, UMMA_LAYOUT_TYPES

FORMATS = {fmt.name: fmt for fmt in (SMEM_SM90, SMEM_SM100, INSTR_SM100, INSTR_BLOCK_SCALED_SM100)}
"""Every format by the name of CuTe's struct."""

__all__ = [
    "C_FORMATS",
    "ELEMENT_FORMATS",
    "FORMATS",
    "GMMA_LAYOUT_TYPES",
    "INSTR_BLOCK_SCALED_SM100",
    "INSTR_SM100",
    "MAJORS",
    "SCALE_FORMATS",
    "SMEM_SM90",
    "SMEM_SM100",
    "UMMA_LAYOUT_TYPES",
    "DecodedField",
    "Descriptor",
    "DescriptorError",
    "DescriptorFormat",
    "Field",
    "instr_format",
    "make_instr_desc",
    "make_instr_desc_block_scaled",
    "make_runtime_instr_desc",
]
