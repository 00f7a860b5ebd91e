"""On a GPU: the CuTe DSL host function called as usual, against the runtime's own launch."""

import numpy as np
import pytest

from cutecourse import runtime
from cutecourse.kernels.chapters import CHAPTERS
from cutecourse.kernels.files import kernel_module
from cutecourse.kernels.spec import LaunchSpec, Tensor
from tools.cases.element_arrays import array_type

SPECS = {
    f"{name}.{attribute}": spec
    for chapter in CHAPTERS
    for name in chapter.kernels
    for attribute, spec in vars(kernel_module(name)).items()
    if isinstance(spec, LaunchSpec) and spec.language == "cutedsl"
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.gpu(spec.target)) for name, spec in SPECS.items()]
)
def test_host_function__does_what_the_runtime_does(name):
    torch = pytest.importorskip(
        "torch", reason="PyTorch makes the tensors that the host function is called with"
    )
    import cutlass
    from cutlass.cute.runtime import from_dlpack

    def passed(tensor):
        """The DSL's view of a tensor; DLPack has no 8-bit floats, so those pass as bytes."""
        if tensor.dtype != torch.float8_e4m3fn:
            return from_dlpack(tensor, assumed_align=16)
        made = from_dlpack(tensor.view(torch.uint8), assumed_align=16)
        made.element_type = cutlass.Float8E4M3FN
        return made

    spec = SPECS[name]
    random = np.random.default_rng(7)
    tensors = {name: param for name, param in spec.arguments.items() if isinstance(param, Tensor)}
    arrays = {
        name: random.integers(-8, 8, tensor.extents, endpoint=True).astype(array_type(tensor.dtype))
        for name, tensor in tensors.items()
    }
    ours = runtime.run(spec, device="cuda:0", **arrays)

    theirs = {}
    for argument, tensor in tensors.items():
        kind = getattr(torch, array_type(tensor.dtype).name)
        theirs[argument] = torch.empty_strided(tensor.shape, tensor.stride, dtype=kind, device="cuda")
        given = arrays[argument]
        # PyTorch knows no array of ml_dtypes' types; whole numbers this small are exact in each of them.
        theirs[argument].copy_(
            torch.from_numpy(given.astype(np.float32) if given.dtype.kind == "V" else given)
        )
    spec.host(*(passed(theirs[argument]) for argument in spec.arguments))
    torch.cuda.synchronize()
    for argument in tensors:
        came = theirs[argument].cpu()
        narrow = came.dtype in (torch.bfloat16, torch.float8_e4m3fn)
        came = (came.float() if narrow else came).numpy()
        assert np.array_equal(came, ours[argument].astype(came.dtype)), argument
    assert ours.record.where == "gpu"
