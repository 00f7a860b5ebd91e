"""What the errata say of instructions that no chapter runs yet: the assembler decides."""

from __future__ import annotations

import subprocess

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
