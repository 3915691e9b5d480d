// What the card can do at best, for comparison: reading from the second-level cache and multiplying on tensor cores as the
// kernels of mlp.cu do, and nothing else.

// Every block reads all of it, `times` times; the sum keeps the reading from being left out.
extern "C" __global__ void __launch_bounds__(512) floor_read(const float4 *from, u32 n, u32 times, float *out) {
    in_order();
    float sum = 0.0f;
    for (u32 time = 0; time < times; time++)
#pragma unroll 8
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
            float4 v; // past the first-level cache
            asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from + i));
            sum += v.x + v.y + v.z + v.w;
        }
    if (sum == 1.0f) *out = sum;
}

// Eight chains of products in every warp: 8 · 16 · 8 · 8 multiplications and additions a round.
extern "C" __global__ void __launch_bounds__(512) floor_multiply(u32 times, float *out) {
    in_order();
    float sums[8][4] = {};
    const float a[4] = {1.0f, 1e-3f, 1e-6f, 1e-9f}, b = 1e-3f * threadIdx.x;
    for (u32 time = 0; time < times; time++)
#pragma unroll
        for (int chain = 0; chain < 8; chain++) multiply_add(sums[chain], a, b, b);
    float sum = 0.0f;
#pragma unroll
    for (int chain = 0; chain < 8; chain++) sum += sums[chain][0] + sums[chain][1] + sums[chain][2] + sums[chain][3];
    if (sum == 1.0f) *out = sum;
}
