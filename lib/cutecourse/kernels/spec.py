"""Launch specifications: a kernel's grid, its shared memory, and its parameters in order.

A kernel runs from the same specification everywhere: on the emulator and, with the same PTX, on a GPU.
Nothing here needs the CuTe DSL or numba.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from cutecourse.dtypes import DType
from cutecourse.dtypes import dtype as named_dtype
from cutecourse.errors import CourseError
from cutecourse.kernels.faults import Fault, edited, faults_of, same_code
from cutecourse.kernels.files import KernelFile, KernelFunction, SpecError
from cutecourse.kernels.fit import check_constants, check_ptx

if TYPE_CHECKING:
    from cutecourse.tma import TensorMapEncoding, TmaTrace

__all__ = [
    "Language",
    "LaunchSpec",
    "Scalar",
    "SpecError",
    "Tensor",
    "TensorMapSpec",
    "compute_capability_of",
    "runs_on",
]

Language = Literal["cutedsl", "numba", "ptx"]
Extents = tuple[Any, ...]

_RESERVED_NAMES = frozenset({"device", "memory_report", "seed", "trace"})
_PTX = re.compile(r"^\s*\.version\b", re.MULTILINE)
_TARGET = re.compile(r"sm_(\d+)(\d)([af]?)")


@dataclass(frozen=True)
class Tensor:
    """An array parameter in global memory: a pointer, and the layout of its elements.

    `shape` and `stride` are CuTe's, in elements, nested tuples allowed; the array that a caller passes has
    one axis for each leaf mode. An extent of None is left open: the array that is passed decides it.
    Without a stride the array is stored row-major (the last mode contiguous), as NumPy and numba do;
    a CuTe DSL tensor of rank two or more must say its stride.

    >>> Tensor("c", "f32", (16, 8), (1, 16)).cosize
    128
    """

    name: str
    dtype: DType
    shape: Extents
    stride: Extents | None = None

    def __init__(
        self, name: str, dtype: DType | str, shape: int | Extents, stride: int | Extents | None = None
    ) -> None:
        _check_name(name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", named_dtype(dtype))
        object.__setattr__(self, "shape", shape if isinstance(shape, tuple) else (shape,))
        as_tuple = stride if isinstance(stride, tuple) or stride is None else (stride,)
        object.__setattr__(self, "stride", as_tuple)
        if as_tuple is not None:
            if _profile(self.shape) != _profile(as_tuple):
                raise SpecError(
                    f"parameter {name}: shape {self.shape} and stride {as_tuple} have different nesting; "
                    f"give one stride for each extent."
                )
            if any(not isinstance(step, int) or step < 0 for step in leaves(as_tuple)):
                raise SpecError(f"parameter {name}: stride {as_tuple} must be of non-negative integers.")
        for extent in leaves(self.shape):
            if extent is not None and (not isinstance(extent, int) or extent < 1):
                raise SpecError(
                    f"parameter {name}: extent {extent!r} of {self.shape} is no positive integer."
                )

    @property
    def argument(self) -> str:
        """The name that the caller passes the array by."""
        return self.name

    @property
    def extents(self) -> tuple[int | None, ...]:
        """The extents of the leaf modes, left to right; None where the array decides."""
        return tuple(leaves(self.shape))

    def strides_for(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """The strides of the leaf modes in elements; row-major if the specification gives none."""
        if self.stride is not None:
            return tuple(leaves(self.stride))
        strides: list[int] = []
        step = 1
        for extent in reversed(extents):
            strides.append(step)
            step *= extent
        return tuple(reversed(strides))

    def cosize_for(self, extents: tuple[int, ...]) -> int:
        """How many elements the memory has: the largest offset, plus one."""
        pairs = zip(extents, self.strides_for(extents), strict=True)
        return sum((extent - 1) * step for extent, step in pairs) + 1

    @property
    def cosize(self) -> int:
        """`cosize_for` the specification's own extents. Errors: SpecError while one is open."""
        if any(extent is None for extent in self.extents):
            raise SpecError(f"parameter {self.name}: shape {self.shape} is open, so it has no size yet.")
        return self.cosize_for(tuple(extent for extent in self.extents if extent is not None))


@dataclass(frozen=True, repr=False)
class TensorMapSpec(Tensor):
    """A tensor-map parameter of a specification: it asks the runtime to make a map for each launch.

    The kernel gets 128 bytes by value, which tell TMA how to copy tiles of an array. Each step on the way has
    a class of its own:

    - `kernels.TensorMapSpec`, this class, is the request. Its `encoding` computes the map's fields.
    - `tma.TensorMapEncoding` holds these fields, as cuTensorMapEncodeTiled takes them.
    - `runtime.tensor_map.MappedArray` adds the caller's array. On a GPU, the driver makes the 128 bytes from
      it. They are opaque.
    - `emulator.TensorMap` is made from it on the emulator. A launch binds it to an address
      (`BoundTensorMap`), and an emulated instruction reads that.

    CuTe's host function makes the map from the tensor (`shape`, `stride`), the tile (`cta_tiler`), the layout
    of one stage in shared memory (`smem_layout`), and the slices of a multicast (`num_multicast`).
    `internal_type` is the element type that the copy uses. For PTX written by hand, `TensorMapSpec.encoded`
    takes the map's fields.

    The caller passes the array and the runtime makes the map. `array` is the name it is passed by, the
    parameter's own unless given; parameters that share it share the array's memory: a tensor map and a
    pointer, or a map to load by and one to store by. All of them then state the same dtype, shape and stride.

    >>> from cutecourse.layout import Layout
    >>> tiles = TensorMapSpec(
    ...     "tma_a",
    ...     "f16",
    ...     (128, 64),
    ...     (64, 1),
    ...     smem_layout=Layout((64, 64), (64, 1)),
    ...     cta_tiler=(64, 64),
    ...     array="a",
    ... )
    >>> tiles.argument, tiles.cosize
    ('a', 8192)
    """

    smem_layout: Any = None
    cta_tiler: Any = None
    num_multicast: int = 1
    internal_type: DType | None = None
    array: str | None = None
    fixed: TensorMapEncoding | None = None

    def __init__(
        self,
        name: str,
        dtype: DType | str,
        shape: int | Extents,
        stride: int | Extents,
        *,
        smem_layout: Any = None,
        cta_tiler: Any = None,
        num_multicast: int = 1,
        internal_type: DType | str | None = None,
        array: str | None = None,
        fixed: TensorMapEncoding | None = None,
    ) -> None:
        super().__init__(name, dtype, shape, stride)
        if array is not None:
            _check_name(array)
        if self.stride is None or None in self.extents:
            raise SpecError(f"parameter {name}: a tensor map needs every extent and every stride.")
        if (fixed is None) != (smem_layout is not None and cta_tiler is not None):
            raise SpecError(
                f"parameter {name}: say smem_layout and cta_tiler, from which CuTe makes the tensor map, "
                f"or give the map's own fields with TensorMapSpec.encoded."
            )
        object.__setattr__(self, "smem_layout", smem_layout)
        object.__setattr__(self, "cta_tiler", cta_tiler)
        object.__setattr__(self, "num_multicast", num_multicast)
        object.__setattr__(
            self, "internal_type", None if internal_type is None else named_dtype(internal_type)
        )
        object.__setattr__(self, "array", array)
        object.__setattr__(self, "fixed", fixed)

    def __repr__(self) -> str:
        shown = [f"{self.name!r}, {self.dtype.name!r}, {self.shape}, {self.stride}"]
        if self.fixed is not None:
            shown.append(f"encoding={self.fixed}")
        else:
            shown.append(f"smem_layout={self.smem_layout}, cta_tiler={self.cta_tiler}")
        if self.num_multicast != 1:
            shown.append(f"num_multicast={self.num_multicast}")
        if self.internal_type is not None:
            shown.append(f"internal_type={self.internal_type.name!r}")
        if self.array is not None:
            shown.append(f"array={self.array!r}")
        return f"TensorMapSpec{'.encoded' if self.fixed is not None else ''}({', '.join(shown)})"

    @classmethod
    def encoded(
        cls,
        name: str,
        dtype: DType | str,
        shape: int | Extents,
        stride: int | Extents,
        encoding: TensorMapEncoding,
        *,
        array: str | None = None,
    ) -> TensorMapSpec:
        """A tensor map whose fields are given, over an array of this shape and stride."""
        return cls(name, dtype, shape, stride, array=array, fixed=encoding)

    @property
    def argument(self) -> str:
        """The name that the caller passes the array by."""
        return self.array or self.name

    @cached_property
    def trace(self) -> TmaTrace:
        """How CuTe makes this map, step by step. Errors: SpecError, for `encoded` and where CuTe refuses."""
        from cutecourse.layout import Layout
        from cutecourse.tma import trace_tma_atom

        if self.fixed is not None:
            raise SpecError(
                f"parameter {self.name}: the map's fields were given, so there is nothing to trace."
            )
        tensor = Layout(self.shape, self.stride)
        try:
            return trace_tma_atom(
                tensor, self.smem_layout, self.cta_tiler, self.dtype, self.num_multicast, self.internal_type
            )
        except CourseError as error:
            raise SpecError(f"parameter {self.name}: {error}") from error

    @property
    def encoding(self) -> TensorMapEncoding:
        """The map's fields, for the driver or the emulator to encode. Errors: SpecError, as `trace`."""
        return self.fixed if self.fixed is not None else self.trace.encoding


@dataclass(frozen=True)
class Scalar:
    """A number parameter, passed by value.

    >>> Scalar("n", "s32").dtype.bits
    32
    """

    name: str
    dtype: DType

    def __init__(self, name: str, dtype: DType | str) -> None:
        _check_name(name)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "dtype", named_dtype(dtype))

    @property
    def argument(self) -> str:
        """The name that the caller passes the number by."""
        return self.name


@dataclass(frozen=True)
class LaunchSpec:
    """One kernel and how it is launched, the same on the emulator and on a GPU.

    language     "cutedsl": `host` is the `@cute.jit` function that launches `kernel`; "numba": `kernel` is
                 the `@cuda.jit` function; "ptx": `ptx` is the module's text and `entry` the kernel in it.
    target       the lowest architecture that has the kernel's instructions: "sm_80"; with a letter ("sm_90a")
                 it is tied to that one generation.
    grid, block  CTAs and threads along x, y, z; `cluster` CTAs; `dynamic_smem` bytes.
    programmatic a GPU may start the kernel's CTAs before the kernel ahead of it in the stream has ended. The
                 kernel must execute `griddepcontrol.wait` before it touches anything that an earlier kernel
                 writes (PTX ISA, griddepcontrol). CUDA calls this a programmatic dependent launch, with the
                 attribute CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION. The emulator runs one
                 launch after the other.
    params       `Tensor`, `TensorMapSpec` and `Scalar`, in the kernel's order. For what is known when it
                 compiles the CuTe DSL passes nothing: a layout, or the coordinate tensor beside a TMA atom.
                 `arguments` are what the caller and the DSL's host function take: each array and each
                 number once, in the order in which the parameters first name them.
    module       the kernel of this package that it comes from, by the name of its folder. It stays where the
                 text or the sizes change. None for a kernel that is not of this package.
    faults       what `with_fault` has put in, in this order. The kernel's twin gets the same.
    """

    name: str
    language: Language
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: tuple[Tensor | Scalar, ...]
    kernel: Callable[..., Any] | None = None
    host: Callable[..., Any] | None = None
    ptx: str | None = dataclasses.field(default=None, repr=False)
    entry: str | None = None
    target: str = "sm_80"
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_smem: int = 0
    programmatic: bool = False
    module: str | None = dataclasses.field(default=None, repr=False)
    faults: tuple[Fault, ...] = dataclasses.field(default=(), repr=False)

    def __post_init__(self) -> None:
        if self.module is None and isinstance(self.kernel, KernelFunction):
            object.__setattr__(self, "module", self.kernel.file.kernel)
        if not self.name.isidentifier():
            raise SpecError(f"a kernel's name must be an identifier, not {self.name!r}.")
        for field in ("grid", "block", "cluster"):
            object.__setattr__(self, field, _three(self.name, field, getattr(self, field)))
        object.__setattr__(self, "params", tuple(self.params))
        if any(ctas % size for ctas, size in zip(self.grid, self.cluster, strict=True)):
            raise SpecError(
                f"{self.name}: the grid {self.grid} is no multiple of the cluster {self.cluster}."
            )
        if self.dynamic_smem < 0:
            raise SpecError(f"{self.name}: dynamic_smem is {self.dynamic_smem} bytes; it cannot be negative.")
        compute_capability_of(self.target)
        names = [param.name for param in self.params]
        for name in names:
            if names.count(name) > 1:
                raise SpecError(f"{self.name}: two parameters are called {name}.")
        self._check_shared_arrays()
        self._check_language()
        if isinstance(self.ptx, str):
            sizes = [_bytes(param) for param in self.params]
            check_ptx(self.name, self.ptx, self.entry, self.block, self.cluster, sizes)

    def _check_shared_arrays(self) -> None:
        for param in self.params:
            first = self.arguments[param.argument]
            if first is param:
                continue
            if isinstance(first, Scalar) or isinstance(param, Scalar):
                raise SpecError(f"{self.name}: {param.argument} is the name of an array and of a number.")
            for what in ("dtype", "shape", "stride"):
                ours, theirs = getattr(param, what), getattr(first, what)
                if ours != theirs:
                    raise SpecError(
                        f"{self.name}: {first.name} and {param.name} are the same array {param.argument}, "
                        f"but their {what}s differ: {theirs} and {ours}."
                    )

    def _check_language(self) -> None:
        needed = {"cutedsl": "host", "numba": "kernel", "ptx": "ptx"}.get(self.language)
        if needed is None:
            raise SpecError(f'{self.name}: language is "cutedsl", "numba" or "ptx", not {self.language!r}.')
        if getattr(self, needed) is None:
            raise SpecError(f'{self.name}: a kernel with language "{self.language}" needs `{needed}`.')
        if self.language == "numba" and any(isinstance(param, TensorMapSpec) for param in self.params):
            raise SpecError(f"{self.name}: numba-cuda passes no tensor maps; write the kernel in PTX.")
        if self.language != "cutedsl":
            return
        for tensor in self.tensors:
            if None in tensor.extents:
                raise SpecError(f"{self.name}: the CuTe DSL compiles for one shape; {tensor.name}'s is open.")
            if tensor.stride is None and len(tensor.extents) > 1:
                raise SpecError(
                    f"{self.name}: say {tensor.name}'s stride; CuTe and NumPy differ in what they assume."
                )

    @property
    def text(self) -> str:
        """The kernel's text: its file, or its PTX. Errors: SpecError for a function that is in no file."""
        if self.ptx is not None:
            return self.ptx
        if not isinstance(self.kernel, KernelFunction):
            raise SpecError(f"{self.name} has no kernel file.")
        return self.kernel.file.text

    @property
    def arguments(self) -> dict[str, Tensor | Scalar]:
        """The arguments of a call by name: each array or number, with the first parameter that uses it."""
        named: dict[str, Tensor | Scalar] = {}
        for param in self.params:
            named.setdefault(param.argument, param)
        return named

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The parameters that are arrays, as pointers or as tensor maps."""
        return tuple(param for param in self.params if isinstance(param, Tensor))

    def launched(
        self,
        *,
        grid: int | tuple[int, ...] | None = None,
        block: int | tuple[int, ...] | None = None,
        dynamic_smem: int | None = None,
    ) -> LaunchSpec:
        """The same kernel launched with another grid or block. A CuTe DSL host function fixes its own.

        Errors: SpecError for the CuTe DSL.
        """
        if self.language == "cutedsl":
            raise SpecError(f"{self.name}: its host function fixes the launch; change it there.")
        changes = {"grid": grid, "block": block, "dynamic_smem": dynamic_smem}
        given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
        return dataclasses.replace(self, **given)

    def with_extents(self, extents: Mapping[str, tuple[int, ...]]) -> LaunchSpec:
        """The same launch for arrays of these extents, by name, where the specification leaves them open."""
        closed = tuple(
            dataclasses.replace(param, shape=extents[param.argument])
            if isinstance(param, Tensor) and None in param.extents
            else param
            for param in self.params
        )
        return dataclasses.replace(self, params=closed)

    def with_fault(self, fault: Fault, name: str | None = None) -> LaunchSpec:
        """The same launch of the kernel with a fault put in; its twin then has the fault as well.

        `name` is what the kernel is called then: by its name and the fault's, unless given. What follows from
        the fault for the launch, such as a smaller grid, is the caller's to change.
        Errors: SpecError for a fault of another text.
        """
        name = name or f"{self.name}_{fault.name}"
        if self.ptx is not None:
            text = edited(self.ptx, fault.source, self.name)
            return dataclasses.replace(self, name=name, ptx=text, faults=(*self.faults, fault))
        if not isinstance(self.kernel, KernelFunction):
            raise SpecError(f"{self.name} has no kernel file; a fault is put into one.")
        text = edited(self.kernel.file.text, fault.source, self.name)
        changed = self._of_file(KernelFile(name, text))
        return dataclasses.replace(changed, faults=(*self.faults, fault))

    def with_text(self, text: str, name: str | None = None, **launch: Any) -> LaunchSpec:
        """The same launch of another text: PTX, or a kernel's file with the functions that this one names.

        A text that names a PTX `.version` is PTX, for any language. `name` is what the kernel is called then.
        A file that differs from the kernel's by one of its faults is the kernel with that fault.
        launch   what the launch has instead, by field: grid, block, cluster, dynamic_smem, params. Give it
                 for a file whose constants decide another launch, such as another TILE.
        Errors: SpecError for a text that is neither, that lacks the kernel or its host function, or that the
                launch does not fit.
        """
        name = name or self.name
        if _PTX.search(text):
            changes: dict[str, Any] = {"language": "ptx", "kernel": None, "host": None, "ptx": text}
            return dataclasses.replace(self, name=name, faults=(), **changes | launch)
        if self.language == "ptx":
            raise SpecError(f"{self.name}: the text is not PTX: it has no .version line.")
        file = KernelFile(name, text)
        changed, fault = self._of_file(file), self._fault_of(text)
        if not fault and not launch and isinstance(self.kernel, KernelFunction):
            check_constants(self.name, self.module, self.kernel.file, file)
        return dataclasses.replace(changed, faults=(*self.faults, *fault), **launch)

    def _of_file(self, file: KernelFile) -> LaunchSpec:
        """The launch of the same functions in another file, under the file's name. Errors: SpecError."""
        try:
            kernel, host = (
                one and (one.of(file) if isinstance(one, KernelFunction) else file.function(one.__name__))
                for one in (self.kernel, self.host)
            )
        except AttributeError as error:
            raise SpecError(f"{self.name}: {error}.") from error
        return dataclasses.replace(self, name=file.name, kernel=kernel, host=host)

    def _fault_of(self, text: str) -> tuple[Fault, ...]:
        """The fault of the kernel that makes this text from the kernel's own; () for any other text."""
        if self.module is None or not isinstance(self.kernel, KernelFunction):
            return ()
        mine = self.kernel.file.text
        if same_code(text, mine):
            return ()
        for fault in faults_of(self.module).values():
            if all(mine.count(right) == 1 for right, _ in fault.source) and same_code(
                edited(mine, fault.source, self.name), text
            ):
                return (fault,)
        return ()


def compute_capability_of(target: str) -> tuple[int, int]:
    """The compute capability that an architecture's name says.

    >>> compute_capability_of("sm_103a")
    (10, 3)
    """
    match = _TARGET.fullmatch(target)
    if match is None:
        raise SpecError(f"{target!r} is no target; write for example sm_80, sm_90a or sm_100a.")
    return int(match[1]), int(match[2])


def runs_on(target: str, compute_capability: tuple[int, int]) -> bool:
    """Return whether PTX for this target runs on a GPU of this compute capability.

    PTX without a letter runs on that capability and every later one (the driver compiles it); with `a` on
    that one alone; with `f` on later ones of the same major number.

    >>> runs_on("sm_80", (9, 0)), runs_on("sm_90a", (10, 0)), runs_on("sm_100f", (10, 3))
    (True, False, True)
    """
    needed = compute_capability_of(target)
    if target.endswith("a"):
        return compute_capability == needed
    if target.endswith("f"):
        return compute_capability[0] == needed[0] and compute_capability >= needed
    return compute_capability >= needed


def _bytes(param: Tensor | Scalar) -> int:
    """The bytes of a parameter of PTX: a number, the address of an array, or a tensor map."""
    if isinstance(param, Scalar):
        return -(-param.dtype.bits // 8)
    return 128 if isinstance(param, TensorMapSpec) else 8


def leaves(nested: Any) -> Iterator[Any]:
    """The leaves of a nested tuple, left to right."""
    if isinstance(nested, tuple):
        for item in nested:
            yield from leaves(item)
    else:
        yield nested


def _profile(nested: Any) -> Any:
    return tuple(_profile(item) for item in nested) if isinstance(nested, tuple) else None


def _check_name(name: str) -> None:
    if not name.isidentifier() or name in _RESERVED_NAMES:
        raise SpecError(
            f"{name!r} cannot name a parameter: it must be an identifier, and none of "
            f"{', '.join(sorted(_RESERVED_NAMES))}."
        )


def _three(kernel: str, field: str, given: object) -> tuple[int, int, int]:
    extents: tuple[Any, ...] = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(extents) <= 3 or any(not isinstance(extent, int) or extent < 1 for extent in extents):
        raise SpecError(f"{kernel}: {field} {given!r} must be one to three positive integers (x, y, z).")
    x, y, z = (*extents, 1, 1)[:3]
    return x, y, z
