"""The GEMMs that chapter 10's ladder is measured against, each in several configurations.

cuBLAS comes with PyTorch. The others lie in a folder: QuACK as the wheels `quack_kernels`, `apache_tvm_ffi`
and `torch_c_dlpack_ext`; NVIDIA's example `dense_gemm_persistent.py` of the CuTe DSL; and Triton's tutorial
09 as `triton_persistent.py`. None of these files is part of this repository.

All of them compute C = A times B transposed for A (M, K), B (N, K) and C (M, N), row-major, of 16 bits.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
import re
import site
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "RIVALS",
    "Candidate",
    "Launch",
    "NotOfferedError",
    "Sets",
    "candidates",
    "cublas",
    "install",
    "installed",
    "missing",
    "versions",
    "warm",
]

Sets = Sequence[tuple[Any, Any, Any]]
"""Several sets of A, B and C on the GPU."""
Launch = Callable[[int], None]
"""A function that multiplies set number n, modulo the number of sets."""
WORKSPACE_BYTES = 64 << 20
HEURISTICS = 16
FILES = {
    "quack": ("quack_kernels-*.whl", "apache_tvm_ffi-*.whl", "torch_c_dlpack_ext-*.whl"),
    "cutlass_dsl": ("dense_gemm_persistent.py",),
    "triton": ("triton_persistent.py",),
}


class NotOfferedError(Exception):
    """A rival has no such configuration for this problem."""


@dataclass(frozen=True)
class Candidate:
    """A configuration of a rival; `prepare` compiles it for the sets."""

    rival: str
    config: str
    prepare: Callable[[Sets], Launch]


def missing(rival: str, folder: Path | None) -> list[str]:
    """The files of a rival that the folder lacks; all of them if there is no folder."""
    wanted = FILES.get(rival, ())
    return [name for name in wanted if folder is None or not list(folder.glob(name))]


def install(folder: Path | None) -> None:
    """Unpack the wheels beside this machine's packages, once, and put them on Python's path."""
    if folder is None or missing("quack", folder) or installed("quack"):
        return
    target = Path(tempfile.gettempdir(), "hopper_rivals")
    if not target.exists():
        wheels = [str(path) for name in FILES["quack"] for path in folder.glob(name)]
        options = ["--no-index", "--no-deps", "--no-compile", "--target", str(target)]
        subprocess.run([sys.executable, "-m", "pip", "install", "-qq", *options, *wheels], check=True)
    site.addsitedir(str(target))
    importlib.invalidate_caches()


def warm(rival: str, folder: Path, config: str, dtype: str) -> None:
    """Run a configuration on small matrices, so that QuACK and Triton put its compiled code on disk."""
    import torch

    install(folder)
    kind = torch.float16 if dtype == "f16" else torch.bfloat16
    sets = [tuple(torch.zeros((512, 512), dtype=kind, device="cuda") for _ in range(3))]
    for one in candidates(rival, folder):
        if one.config == config:
            with contextlib.suppress(Exception):  # the measurement meets this error again and records it
                one.prepare(sets)(0)
    torch.cuda.synchronize()


def candidates(rival: str, folder: Path | None) -> list[Candidate]:
    """A rival's configurations. Its files must be in the folder."""
    return list(_CANDIDATES[rival](folder or Path()))


def installed(module: str) -> bool:
    """Return True if a Python package is installed."""
    return importlib.util.find_spec(module) is not None


def versions(*names: str) -> dict[str, str | None]:
    """The versions of the measured packages, and of `names`; None for a package that is not installed."""
    names = ("torch", "triton", "nvidia-cutlass-dsl", "quack-kernels", "nvidia-cublas", *names)
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def cublas(sets: Sets) -> Launch:
    """The product as PyTorch computes it, with cuBLAS."""
    import torch

    def launch(number: int) -> None:
        a, b, c = sets[number % len(sets)]
        torch.mm(a, b.T, out=c)

    return launch


# --- cublasLt ---------------------------------------------------------------------------------------------

_OPERATION_T, _COMPUTE_32F, _R_32F, _R_16F, _R_16BF = 1, 68, 0, 2, 14
_DESC_TRANSA, _PREFERENCE_WORKSPACE = 3, 1


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t (cublasLt.h, CUDA 13.0)."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def _library() -> Any:
    """The cublasLt that PyTorch has loaded."""
    import torch

    one = torch.ones((16, 16), dtype=torch.float16, device="cuda")
    torch.mm(one, one)
    path = re.search(r"\S*/libcublasLt\.so\S*", Path("/proc/self/maps").read_text())
    if path is None:
        raise RuntimeError("PyTorch has loaded no cublasLt.")
    return ctypes.CDLL(path[0])


class _Lt:
    """One product for cublasLt, which is column-major: C transposed = B times A transposed."""

    def __init__(self, sets: Sets) -> None:
        import torch

        self._lt, self._sets = _library(), sets
        a, b, _ = sets[0]
        (m, k), n = a.shape, len(b)
        kind = _R_16F if a.dtype == torch.float16 else _R_16BF
        self._handle, self._operation = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("Create", ctypes.byref(self._handle))
        self._do("MatmulDescCreate", ctypes.byref(self._operation), _COMPUTE_32F, _R_32F)
        transposed = ctypes.c_int(_OPERATION_T)
        self._do(
            "MatmulDescSetAttribute",
            self._operation,
            _DESC_TRANSA,
            ctypes.byref(transposed),
            ctypes.c_size_t(4),
        )
        self._layouts = [ctypes.c_void_p() for _ in range(3)]
        for layout, rows, columns in zip(self._layouts, (k, k, n), (n, m, m), strict=True):
            extents = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
            self._do("MatrixLayoutCreate", ctypes.byref(layout), kind, *extents)
        self._workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)

    def _do(self, what: str, *arguments: Any) -> None:
        status = getattr(self._lt, f"cublasLt{what}")(*arguments)
        if status:
            raise RuntimeError(f"cublasLt{what}: status {status}")

    def heuristics(self) -> list[_Heuristic]:
        """The algorithms that cublasLt proposes, its favourite first."""
        preference, found = ctypes.c_void_p(), ctypes.c_int()
        self._do("MatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_size_t(WORKSPACE_BYTES)
        self._do(
            "MatmulPreferenceSetAttribute",
            preference,
            _PREFERENCE_WORKSPACE,
            ctypes.byref(size),
            ctypes.c_size_t(8),
        )
        results = (_Heuristic * HEURISTICS)()
        b, a, c = self._layouts
        given = (self._handle, self._operation, b, a, c, c, preference, HEURISTICS, results)
        self._do("MatmulAlgoGetHeuristic", *given, ctypes.byref(found))
        return list(results[: found.value])

    def launch(self, algorithm: _Heuristic, number: int) -> None:
        """Multiply a set."""
        import torch

        a, b, c = (ctypes.c_void_p(one.data_ptr()) for one in self._sets[number % len(self._sets)])
        of_b, of_a, of_c = self._layouts
        self._do(
            "Matmul",
            *(self._handle, self._operation, ctypes.byref(self._one), b, of_b, a, of_a),
            *(ctypes.byref(self._zero), c, of_c, c, of_c, ctypes.byref(algorithm.algo)),
            ctypes.c_void_p(self._workspace.data_ptr()),
            ctypes.c_size_t(WORKSPACE_BYTES),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )


def _cublaslt(_folder: Path) -> Iterator[Candidate]:
    for place in range(HEURISTICS):

        def prepare(sets: Sets, place: int = place) -> Launch:
            product = _Lt(sets)
            proposed = product.heuristics()
            if place >= len(proposed):
                raise NotOfferedError(f"cublasLt proposes {len(proposed)} algorithms")
            return lambda number: product.launch(proposed[place], number)

        yield Candidate("cublaslt", f"heuristic {place}", prepare)


# --- QuACK ------------------------------------------------------------------------------------------------

_QUACK = (
    *((128, 208, True, cluster) for cluster in ((2, 1), (1, 2))),
    *((128, 192, True, cluster) for cluster in ((2, 1), (1, 2))),
    *((128, 256, False, cluster) for cluster in ((2, 1), (1, 2), (1, 1))),
    *((256, columns, False, (2, 1)) for columns in (128, 160, 192, 208)),
    (128, 224, False, (2, 1)),
    (128, 160, True, (2, 1)),
    (192, 128, True, (2, 1)),
)


def _quack(_folder: Path) -> Iterator[Candidate]:
    interface = importlib.import_module("quack.gemm_interface")
    configuration = importlib.import_module("quack.gemm_config").GemmConfig
    for rows, columns, pingpong, (along_m, along_n) in _QUACK:
        config = configuration(
            tile_m=rows,
            tile_n=columns,
            pingpong=pingpong,
            is_dynamic_persistent=False,
            cluster_m=along_m,
            cluster_n=along_n,
            device_capacity=9,
        )

        def prepare(sets: Sets, config: Any = config) -> Launch:
            def launch(number: int) -> None:
                a, b, c = sets[number % len(sets)]
                interface.gemm_tuned.fn(a, b.T, c, config=config)

            return launch

        kind = "ping-pong" if pingpong else "cooperative"
        yield Candidate("quack", f"{rows}x{columns} {kind}, cluster {along_m}x{along_n}", prepare)


# --- NVIDIA's example -------------------------------------------------------------------------------------

_CUTLASS = (
    ((128, 256), (2, 1), 8, True),
    ((128, 256), (1, 2), 8, True),
    ((128, 256), (1, 1), 8, True),
    ((128, 256), (2, 1), 1, True),
    ((128, 256), (2, 1), 4, False),
    ((128, 128), (2, 1), 8, True),
)


def _module(path: Path) -> Any:
    """Import a module from a file. Errors: any exception that the module raises."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    found.loader.exec_module(module)
    return module


def _cutlass_dsl(folder: Path) -> Iterator[Candidate]:
    import cutlass
    import torch
    from cuda.bindings import driver
    from cutlass import cute
    from cutlass.cute.runtime import from_dlpack

    example = _module(folder / "dense_gemm_persistent.py")
    done: dict[Any, Any] = {}

    def stream() -> Any:
        return driver.CUstream(torch.cuda.current_stream().cuda_stream)

    for tile, cluster, swizzle, along_m in _CUTLASS:

        def prepare(sets: Sets, choice: Any = (tile, cluster, swizzle, along_m)) -> Launch:
            given = [
                [from_dlpack(one[None].permute(1, 2, 0), assumed_align=16) for one in matrices]
                for matrices in sets
            ]
            given = [[one.mark_layout_dynamic(leading_dim=1) for one in matrices] for matrices in given]
            key = (choice, sets[0][0].dtype)
            if key not in done:
                ctas = choice[1][0] * choice[1][1]
                clusters = cutlass.utils.HardwareInfo().get_max_active_clusters(ctas)
                kernel = example.HopperWgmmaGemmPersistentKernel(cutlass.Float32, *choice)
                done[key] = cute.compile(kernel, *given[0], clusters, stream())
            return lambda number: done[key](*given[number % len(given)], stream())

        order = f"groups of {swizzle} along {'M' if along_m else 'N'}"
        yield Candidate(
            "cutlass_dsl", f"{tile[0]}x{tile[1]}, cluster {cluster[0]}x{cluster[1]}, {order}", prepare
        )


# --- Triton -----------------------------------------------------------------------------------------------

_TRITON = (
    (128, 256, 64, 3, 8, True),
    (128, 256, 64, 4, 8, True),
    (128, 256, 64, 3, 8, False),
    (128, 128, 64, 4, 4, False),
    (128, 128, 64, 4, 8, False),
    (128, 128, 128, 3, 8, False),
)


def _triton(folder: Path) -> Iterator[Candidate]:
    import torch
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    tutorial = _module(folder / "triton_persistent.py")
    triton.set_allocator(lambda size, _align, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for rows, columns, depth, stages, warps, halves in _TRITON:
        tile = {"BLOCK_SIZE_M": rows, "BLOCK_SIZE_N": columns, "BLOCK_SIZE_K": depth, "GROUP_SIZE_M": 8}
        options = {**tile, "EPILOGUE_SUBTILE": halves, "NUM_SMS": sms, "num_stages": stages}
        options["num_warps"] = warps

        def prepare(sets: Sets, tile: Any = (rows, columns, depth, halves), options: Any = options) -> Launch:
            rows, columns, depth, halves = tile
            boxes = ((rows, depth), (columns, depth), (rows, columns // 2 if halves else columns))
            maps = [
                [TensorDescriptor.from_tensor(one, list(box)) for one, box in zip(three, boxes, strict=True)]
                for three in sets
            ]
            m, k = sets[0][0].shape
            n = len(sets[0][1])
            grid = (min(sms, triton.cdiv(m, rows) * triton.cdiv(n, columns)),)
            kernel = tutorial.matmul_kernel_tma_persistent.fn[grid]

            def launch(number: int) -> None:
                given = maps[number % len(maps)]
                kernel(*given, m, n, k, FP8_OUTPUT=False, WARP_SPECIALIZE=False, **options)

            return launch

        half = ", C in halves" if halves else ""
        yield Candidate("triton", f"{rows}x{columns}x{depth}, {stages} stages, {warps} warps{half}", prepare)


_CANDIDATES: dict[str, Callable[[Path], Iterator[Candidate]]] = {
    "cublaslt": _cublaslt,
    "cutlass_dsl": _cutlass_dsl,
    "quack": _quack,
    "triton": _triton,
}
RIVALS = tuple(_CANDIDATES)
