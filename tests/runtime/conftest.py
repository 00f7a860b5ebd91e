"""A CUDA driver made of host memory, for the tests of the GPU path without a GPU."""

import ctypes

import pytest


class HostDriver:
    """The driver's calls on host memory; a launch runs the Python function given as the module's text."""

    def __init__(self, real, kernel, fail=None):
        self.kernel = kernel
        self.fail = fail or {}
        self.memory = {}
        self.calls = []
        self.attributes = []
        for name in dir(real):
            if name.startswith("CU"):
                setattr(self, name, getattr(real, name))
        self.ok = real.CUresult.CUDA_SUCCESS

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*args):
            self.calls.append(name)
            status = self.fail.get(name, self.ok)
            results = getattr(self, "_" + name, lambda *args: ())(*args) if status == self.ok else (None,)
            return (status, *results)

        return call

    def _cuDeviceGet(self, ordinal):
        return (ordinal,)

    def _cuDevicePrimaryCtxRetain(self, device):
        return ("context",)

    def _cuModuleLoadDataEx(self, image, count, options, values):
        assert image.endswith(b"\0")
        assert count == len(options) == len(values)
        return ("module",)

    def _cuModuleGetFunction(self, module, name):
        return (name.decode(),)

    def _cuFuncSetAttribute(self, function, attribute, value):
        self.attributes.append((attribute.name, value))
        return ()

    def _cuMemAlloc(self, size):
        buffer = (ctypes.c_uint8 * size)()
        address = ctypes.addressof(buffer)
        self.memory[address] = buffer
        return (address,)

    def _cuMemFree(self, pointer):
        del self.memory[pointer]
        return ()

    def _cuMemcpyHtoD(self, pointer, source, size):
        ctypes.memmove(pointer, source, size)
        return ()

    def _cuMemcpyDtoH(self, target, pointer, size):
        ctypes.memmove(target, pointer, size)
        return ()

    def _cuEventCreate(self, flags):
        return ("event",)

    def _cuEventElapsedTime(self, before, after):
        return (0.25,)

    def _cuLaunchKernelEx(self, config, function, parameters, extra):
        self.config = config
        self.kernel(ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p)))
        return ()


@pytest.fixture
def on_host(monkeypatch):
    import cuda.bindings
    from cuda.bindings import driver as real

    def install(kernel=lambda parameters: None, fail=None):
        fake = HostDriver(
            real, kernel, {name: getattr(real.CUresult, status) for name, status in (fail or {}).items()}
        )
        monkeypatch.setattr(cuda.bindings, "driver", fake)
        return fake

    return install
