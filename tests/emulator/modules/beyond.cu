// nvcc -ptx -lineinfo -arch=sm_80 beyond.cu; the debug section is left out, and the folder in .file is made up.
__device__ __forceinline__ float load(const float *from, int i) {
    return from[i];
}
extern "C" __global__ void beyond(const float *from, float *to) {
    int i = threadIdx.x;
    float v = load(from, i + 1);
    to[i] = v;
}
