"""Twins: the same kernels in PTX, written by hand."""

from __future__ import annotations

import string
from collections.abc import Callable
from types import ModuleType

from cutecourse.kernels.faults import edited, same_code
from cutecourse.kernels.files import (
    KernelFunction,
    SpecError,
    has_text,
    kernel_file,
    kernel_module,
    kernel_modules,
    kernel_names,
    kernel_text,
)
from cutecourse.kernels.spec import LaunchSpec, leaves

__all__ = ["broken_text", "has_twin", "twin", "twin_text", "twins"]

TWIN = "twin.ptx"

_REGISTERS = 128  # of a thread, that a list of registers has at most


def twin(kernel: LaunchSpec | ModuleType) -> LaunchSpec:
    """A kernel's twin: the same launch and the same parameters, with PTX that was written by hand.

    kernel   a kernel module (with `LAUNCH`), or a specification. The text is `twin.ptx` in the kernel's
             folder, one for all its specifications, unless the kernel's module has a function `twin_text`
             that chooses one. The twin's name ends in `_ptx`. It has the faults that the specification has.
    A text that depends on the problem holds names of `string.Template`, which are filled in here:

    - `${a_0}` and `${a_1}` are the extents of the parameter `a`'s leaf modes, `${a_stride_0}` and
      `${a_stride_1}` their strides, in elements, and `${a_type}` is the elements' type. `${a_mn_major}` is 1
      if the first mode has stride 1, else 0.
    - `${M}` and `${N}` are the extents of the first array. If there are arrays `a` (M, K), `b` (N, K),
      and `c` or `d`, then `${M}`, `${N}` and `${K}` are theirs.
    - `${grid_0}` to `${grid_2}` are the launch's CTAs along x, y and z, `${cluster_0}` to `${cluster_2}` a
      cluster's, and `${smem_bytes}` is the launch's dynamic shared memory.
    - `${a_registers}` is the list `%a0, %a1, ...`: a register for each element of the parameter `a`'s last
      mode, which has at most 128.
    - `${given_0}` and so on are the numbers that the host function was made for (`KernelFunction.given`),
      tuples flattened; `${given_word_0}` and so on are the words.

    Errors: SpecError for a kernel without a twin, for operands that the twin's text is not for, for a text
            that was changed otherwise than by a fault, and for a name that nothing fills.

    >>> from cutecourse.kernels import hello_ptx
    >>> twin(hello_ptx)
    Traceback (most recent call last):
    cutecourse.kernels.files.SpecError: hello_ptx has no twin in PTX.
    """
    spec = kernel if isinstance(kernel, LaunchSpec) else getattr(kernel, "LAUNCH", None)
    if not isinstance(spec, LaunchSpec):
        raise SpecError(
            f"{kernel!r} is no kernel: pass a LaunchSpec, or a module that has one called LAUNCH."
        )
    sizes = _sizes(spec)
    text = twin_text(spec)
    _check_text(spec)
    for fault in spec.faults:
        text = edited(text, fault.twin, f"the twin of {spec.name}")
    try:
        text = string.Template(text).substitute(sizes)
    except (KeyError, ValueError) as error:
        raise SpecError(f"{spec.name}: its twin has a name that nothing fills: {error}.") from None
    return spec.with_text(text, f"{spec.name}_ptx")


def twin_text(spec: LaunchSpec) -> str:
    """The text of a kernel's twin, names of sizes included. Errors: SpecError where there is none."""
    if spec.module is None or spec.language == "ptx" or not has_twin(spec.module):
        raise SpecError(f"{spec.name} has no twin in PTX.")
    chooses: Callable[[LaunchSpec], str] | None = getattr(kernel_module(spec.module), "twin_text", None)
    return chooses(spec) if chooses is not None else kernel_text(spec.module, TWIN)


def broken_text(exercise: str) -> str:
    """The text of the broken kernel that an exercise shows: the kernel's own text with the exercise's fault.

    Run the text, or your repaired one, in place of the right kernel's:
    `run(tma_broken.LAUNCH.with_text(broken_text("07.5")), ...)`. It is the twin's text where the kernel's own
    has no place for the fault. Errors: SpecError for an exercise that has none.

    >>> "[empty], 1;" in broken_text("07.5")
    True
    """
    known = []
    for name in kernel_modules():
        if not name.endswith(".faults"):
            continue
        faults = kernel_module(name)
        for fault in faults.FAULTS.values():
            known.append(fault.exercise)
            if fault.exercise == exercise:
                launch: LaunchSpec = getattr(faults, "LAUNCH", kernel_module(name.partition(".")[0]).LAUNCH)
                spec = launch.with_fault(fault)
                return (spec if fault.source else twin(spec)).text
    names = ", ".join(sorted(one for one in known if one))
    raise SpecError(f"no kernel has a fault for an exercise {exercise!r}; there are {names}.")


def _check_text(spec: LaunchSpec) -> None:
    """Errors: SpecError for a kernel whose text is not its file's with the faults of the specification."""
    assert spec.module is not None
    assert isinstance(spec.kernel, KernelFunction)
    text = kernel_file(spec.module).text
    for fault in spec.faults:
        text = edited(text, fault.source, spec.name)
    if not same_code(spec.kernel.file.text, text):
        raise SpecError(
            f"{spec.name} has a twin in PTX, but its text was changed, and this change is not known there."
        )


def has_twin(name: str) -> bool:
    """Return whether a kernel has a twin: a text in its folder, or a function that takes one from another."""
    return has_text(name, TWIN) or hasattr(kernel_module(name), "twin_text")


def twins() -> tuple[str, ...]:
    """The names of all kernels that have a twin, each by its folder."""
    launches = {name: kernel_module(name).LAUNCH for name in kernel_names()}
    return tuple(
        name
        for name, launch in launches.items()
        if launch.module == name and launch.language != "ptx" and has_twin(name)
    )


def _sizes(spec: LaunchSpec) -> dict[str, int | str]:
    """What the names in a twin's text stand for."""
    sizes: dict[str, int | str] = {f"grid_{axis}": ctas for axis, ctas in enumerate(spec.grid)}
    sizes |= {f"cluster_{axis}": ctas for axis, ctas in enumerate(spec.cluster)}
    sizes["smem_bytes"] = spec.dynamic_smem
    if isinstance(spec.host, KernelFunction) and spec.host.arguments is not None:
        given = [*leaves(spec.host.arguments)]
        numbers = [one for one in given if isinstance(one, int)]
        words = [one for one in given if isinstance(one, str)]
        sizes |= {f"given_{place}": number for place, number in enumerate(numbers)}
        sizes |= {f"given_word_{place}": word for place, word in enumerate(words)}
    extents = {
        tensor.name: tuple(extent for extent in tensor.extents if extent is not None)
        for tensor in spec.tensors
        if None not in tensor.extents
    }
    for tensor in spec.tensors:
        sizes[f"{tensor.name}_type"] = tensor.dtype.name
        if tensor.name in extents:
            known = extents[tensor.name]
            if known and known[-1] <= _REGISTERS:
                sizes[f"{tensor.name}_registers"] = _registers(tensor.name, known[-1])
            sizes |= {f"{tensor.name}_{mode}": extent for mode, extent in enumerate(known)}
            strides = tensor.strides_for(known)
            sizes |= {f"{tensor.name}_stride_{mode}": stride for mode, stride in enumerate(strides)}
            sizes[f"{tensor.name}_mn_major"] = int(strides[:1] == (1,))
    first = next((known for known in extents.values()), ())
    if (
        {"a", "b"} <= extents.keys()
        and {"c", "d"} & extents.keys()
        and len(extents["a"]) == len(extents["b"]) == 2
    ):
        first = (extents["a"][0], extents["b"][0], extents["a"][1])
    return sizes | dict(zip("MNK", first, strict=False))


def _registers(name: str, count: int) -> str:
    """`%d0, %d1` and so on, 16 on a line."""
    registers = [f"%{name}{number}" for number in range(count)]
    return ",\n         ".join(", ".join(registers[at : at + 16]) for at in range(0, count, 16))
