// What all kernels begin with.

typedef unsigned int u32;
typedef unsigned long long u64;

// A kernel may be put on the multiprocessors while the one before it still runs: starting it then costs nothing. This
// waits for that one's results, and lets the next one come. It is the first thing that every kernel does, in every
// thread: what is done before it is done too early, and a kernel without it would break the order of those around it. A
// kernel that may run beside the one before it does this last instead: what comes after it waits for both.
__device__ __forceinline__ void in_order() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
