// What all kernels begin with.

typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ void wait_for_last() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_come() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A kernel may be put on the multiprocessors while the one before it still runs: starting it then costs nothing. This
// waits for that one's results, and lets the next one come. It is the first thing that every kernel does, in every
// thread: what is done before it is done too early, and a kernel without it would break the order of those around it.
// Passes through networks know exceptions, see mlp.cu; they, too, do not end before the kernel before them.
__device__ __forceinline__ void in_order() {
    wait_for_last();
    let_next_come();
}
