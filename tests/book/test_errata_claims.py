"""What the errata say and no chapter runs: the assembler and the compiler decide."""

from __future__ import annotations

import inspect
import re
import subprocess
from importlib.metadata import files
from pathlib import Path

import pytest

_MODULE = """
.version 8.7
.target {target}
.address_size 64
.visible .entry probe(.param .u32 tmem, .param .u64 a, .param .u64 b, .param .u32 idesc)
{{
    .reg .b32 %tmem, %idesc;
    .reg .b64 %a, %b;
    .reg .pred %p;
    ld.param.u32 %tmem, [tmem];
    ld.param.u32 %idesc, [idesc];
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    setp.ne.b32 %p, %idesc, 0;
    {instruction}
    ret;
}}
"""
_WGMMA = "wgmma.fence.sync.aligned;"
_TCGEN05 = "tcgen05.mma.cta_group::1.kind::f16 [%tmem], %a, %b, %idesc, %p;"


def _assemble(find_program, tmp_path, target: str, instruction: str) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "probe.ptx"
    source.write_text(_MODULE.format(target=target, instruction=instruction))
    command = [
        str(find_program("ptxas")),
        f"-arch={target}",
        "-o",
        str(tmp_path / "probe.cubin"),
        str(source),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.program("ptxas")
def test_wgmma__is_refused_for_blackwell(tmp_path, find_program):
    assert _assemble(find_program, tmp_path, "sm_90a", _WGMMA).returncode == 0
    refused = _assemble(find_program, tmp_path, "sm_100a", _WGMMA)
    assert refused.returncode != 0
    assert "wgmma" in refused.stderr
    accepted = _assemble(find_program, tmp_path, "sm_100a", _TCGEN05)
    assert accepted.returncode == 0, accepted.stderr
    assert _assemble(find_program, tmp_path, "sm_90a", _TCGEN05).returncode != 0


_REGISTERS = """.reg .b32 %a<4>, %b<2>;
    .reg .f32 %c<4>;
    """
_MMA = (
    _REGISTERS + "mma.sync.aligned.m16n8k16.{a}.{b}.f32.f16.f16.f32 "
    "{{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1, %c2, %c3}};"
)


@pytest.mark.program("ptxas")
@pytest.mark.parametrize(("a", "b"), [("col", "col"), ("row", "row"), ("col", "row")])
def test_mma_m16n8k16__exists_as_row_col_only(tmp_path, find_program, a, b):
    right = _assemble(find_program, tmp_path, "sm_80", _MMA.format(a="row", b="col"))
    assert right.returncode == 0, right.stderr
    refused = _assemble(find_program, tmp_path, "sm_80", _MMA.format(a=a, b=b))
    assert refused.returncode != 0
    assert "layout" in refused.stderr


@pytest.mark.program("ptxas")
def test_wgmma__takes_a_and_b_without_registers(tmp_path, find_program):
    """64x8x16 on 128 threads: B by a 64-bit descriptor only, A by one as well or from registers."""

    def wgmma(a: str, b: str, transposes: str) -> subprocess.CompletedProcess[str]:
        shape = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
        instruction = f"{shape} {{%c0, %c1, %c2, %c3}}, {a}, {b}, 1, 1, 1, {transposes};"
        return _assemble(find_program, tmp_path, "sm_90a", ".reg .f32 %c<4>;\n    " + instruction)

    by_descriptors = wgmma("%a", "%b", "0, 0")
    assert by_descriptors.returncode == 0, by_descriptors.stderr
    a_registers = "{%tmem, %tmem, %tmem, %tmem}"
    a_in_registers = wgmma(a_registers, "%b", "0")
    assert a_in_registers.returncode == 0, a_in_registers.stderr
    assert wgmma(a_registers, "{%tmem, %tmem}", "0").returncode != 0


@pytest.mark.program("nvcc")
@pytest.mark.inputs("lib/cutecourse/kernels/mma/micro_gemm/kernel.cu")
def test_shared_halves__promise_less_than_copy_uses(tmp_path, find_program):
    twin = Path(__file__).parents[2] / "lib" / "cutecourse" / "kernels" / "mma" / "micro_gemm" / "kernel.cu"
    plain = tmp_path / "plain.cu"
    plain.write_text(twin.read_text().replace("alignas(16) __shared__", "__shared__"))
    headers = next(f for f in files("nvidia-cutlass") or () if str(f).endswith("include/cute/layout.hpp"))
    aligned = {}
    for source in (twin, plain):
        output = tmp_path / f"{source.stem}.ptx"
        command = [
            str(find_program("nvcc")),
            "-w",
            "-std=c++17",
            "--expt-relaxed-constexpr",
            "-arch=sm_80",
            "-ptx",
        ]
        command += ["-I", str(Path(str(headers.locate())).parents[1]), "-o", str(output), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        lines = output.read_text().splitlines()
        assert sum("ld.shared.u32" in line or "ld.shared.b32" in line for line in lines) == 6
        aligned[source.stem] = {
            line.split(".align")[1].split()[0] for line in lines if ".shared .align" in line
        }
    assert aligned == {"kernel": {"16"}, "plain": {"2"}}


def _cute_header(name: str) -> str:
    found = next(f for f in files("nvidia-cutlass") or () if str(f).endswith(f"include/cute/atom/{name}"))
    text = Path(str(found.locate())).read_text(encoding="utf-8")
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _bodies(text: str, function: str) -> list[str]:
    """The body of each definition of a function, up to the brace that stands under its first line."""
    return re.findall(rf"^( *){function}\([^;{{]*\{{\n(.*?)^\1\}}", text, re.MULTILINE | re.DOTALL)


def test_get_tma_tensor__reads_the_shape_and_the_basis_strides_only():
    for name in ("copy_traits_sm90_tma.hpp", "copy_traits_sm100_tma.hpp"):
        text = _cute_header(name)
        for _, body in _bodies(text, "get_tma_tensor"):
            assert re.findall(r"return (.*);", body) == [
                "make_coord_tensor(make_layout(g_shape, aux_params_.g_stride_))"
            ]
            assert "ThrID" not in body
    assert len(_bodies(_cute_header("copy_traits_sm90_tma.hpp"), "get_tma_tensor")) > 1


def test_tma_partition__takes_one_number_from_the_atom():
    """And it returns the global part before the shared one."""
    (_, body), *_ = _bodies(_cute_header("copy_traits_sm90_tma.hpp"), "tma_partition")
    assert re.findall(r"Copy_Atom<Args\.\.\.>::(\w+)", body) == ["NumValSrc"]
    assert "copy_atom" not in body
    assert re.findall(r"return (.*);", body) == ["cute::make_tuple(gresult, sresult)"]


def test_get_slice__computes_a_coordinate():
    bodies = [body for _, body in _bodies(_cute_header("mma_atom.hpp"), "get_slice")]
    assert len(bodies) == 1
    assert "thr_layout_vmnk_.get_flat_coord(thr_idx)" in bodies[0]


def test_dsl__has_no_g2s_multicast_op():
    cpasync = pytest.importorskip("cutlass.cute.nvgpu.cpasync")
    assert not hasattr(cpasync, "G2SMulticastOp")
    assert isinstance(cpasync.CopyBulkTensorTileG2SMulticastOp, type)


def test_dsl_copy__needs_a_barrier_and_a_mask():
    copy = pytest.importorskip("cutlass.cute.nvgpu.cpasync.copy")
    trait = object.__new__(copy.CopyBulkTensorTileG2SMulticastNonExecTrait)
    with pytest.raises(ValueError, match="tma_bar_ptr"):
        trait.unpack()
    source = inspect.getsource(type(trait).unpack)
    assert re.search(r"if not isinstance\(mcast_mask, .*?raise ValueError", source, re.DOTALL)
