/* A driver and compiler of CUDA without a card: cc -shared -fPIC -O1 -o libcuda.so.1 gpu_stub.c. Memory is the host's, copies are
 * made, kernels do nothing, and what would be cleared is full of 0.5, so that a deviation is one: what comes out means nothing, but
 * is the same every time. For faults where there is no GPU. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING(name) int name(void) { return 0; }
NOTHING(cuInit) NOTHING(cuCtxSetCurrent) NOTHING(cuMemPoolSetAttribute) NOTHING(cuStreamSynchronize) NOTHING(cuStreamBeginCapture_v2)
NOTHING(cuGraphDestroy) NOTHING(cuGraphExecDestroy) NOTHING(cuGraphLaunch) NOTHING(cuFuncSetAttribute) NOTHING(cuLaunchKernelEx)
NOTHING(cuLaunchKernel) NOTHING(cuModuleUnload) NOTHING(cuStreamDestroy_v2)

/* Handles that are only handed back. */
#define HANDLE(name, parameters, to) int name parameters { *to = (void *)16; return 0; }
HANDLE(cuDevicePrimaryCtxRetain, (void **to, int device), to)
HANDLE(cuStreamCreate, (void **to, unsigned flags), to)
HANDLE(cuDeviceGetDefaultMemPool, (void **to, int device), to)
HANDLE(cuStreamEndCapture, (void *stream, void **to), to)
HANDLE(cuGraphInstantiateWithFlags, (void **to, void *graph, unsigned long long flags), to)
HANDLE(cuModuleLoadData, (void **to, const void *image), to)
HANDLE(cuModuleGetFunction, (void **to, void *module, const char *name), to)

int cuDeviceGet(int *device, int number) { return *device = 0, number; }
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
int cuDeviceGetName(char *name, int size, int device) { return strncpy(name, "stub", size), device; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };
    *value = attribute == MAJOR ? 8 : attribute == MINOR ? 0 : attribute == MULTIPROCESSORS ? 4 : 100000;
    return device;
}
int cuMemGetInfo_v2(size_t *left, size_t *all) { return *left = *all = (size_t)1 << 32, 0; }
int cuMemPoolGetAttribute(void *pool, int attribute, uint64_t *value) { return *value = 0, 0; }

static void fill(void *to, size_t size) {
    float half = 0.5f;
    for (size_t i = 0; i < size / 4; i++) memcpy((char *)to + 4 * i, &half, 4);
}
int cuMemAlloc_v2(void **to, size_t size) { return *to = malloc(size), fill(*to, size), 0; }
int cuMemAllocAsync(void **to, size_t size, void *stream) { return cuMemAlloc_v2(to, size); }
int cuMemFreeAsync(void *memory, void *stream) { return free(memory), 0; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t size, void *stream) { return memcpy(to, from, size), 0; }
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t size, void *stream) { return memcpy(to, from, size), 0; }
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t size, void *stream) { return memmove(to, from, size), 0; }
int cuMemsetD8_v2(void *to, unsigned char value, size_t size) { return fill(to, size), 0; }
int cuMemsetD8Async(void *to, unsigned char value, size_t size, void *stream) { return fill(to, size), 0; }
int cuMemsetD32Async(uint32_t *to, uint32_t value, size_t size, void *stream) {
    for (size_t i = 0; i < size; i++) to[i] = value;
    return 0;
}

static int words(const char **text) { return *text = "made to fail", 0; }
int cuGetErrorString(int code, const char **text) { return words(text); }
int cuGetErrorName(int code, const char **text) { return words(text); }

int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 8, 0; }
int nvrtcCreateProgram(void **to, const char *a, const char *b, int n, const char **c, const char **d) { return *to = (void *)16, 0; }
NOTHING(nvrtcCompileProgram) NOTHING(nvrtcDestroyProgram)
#define TEXT(name) \
    int name##Size(void *program, size_t *size) { return *size = 4, 0; } \
    int name(void *program, char *to) { return memcpy(to, "ptx", 4), 0; }
TEXT(nvrtcGetPTX) TEXT(nvrtcGetCUBIN) TEXT(nvrtcGetProgramLog)
