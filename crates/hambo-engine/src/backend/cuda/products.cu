// What ensembles of MLPs are made of: their description, and products on tensor cores.
//
// Compiled for PRECISE = 0, one TF32 product (10 bits of mantissa, for training), or 1, three of them, which is as good as
// f32; and for the WIDTH of the hidden layers, so that their addresses are constants (0: they have no width that is a
// multiple of 64).

#define DEEPEST 16

struct Net {
    const float *params;
    u32 stride, members, rows, depth;
    u32 widths[DEEPEST + 1], offsets[DEEPEST];
    u32 hidden, output; // activations
};
struct Layers {
    float *at[DEEPEST];
};

__device__ __forceinline__ u32 round_up(u32 n, u32 to) { return (n + to - 1) / to * to; }

// The tensor core cuts a factor off after 10 bits of mantissa; this makes it the nearest such number. Only for finite
// numbers: of a NaN it may make anything.
__device__ __forceinline__ float nearest(float x) { return __uint_as_float(__float_as_uint(x) + 0x1000u); }

// The part of a number that the tensor core takes; the rest is exact.
__device__ __forceinline__ float upper(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }

__device__ __forceinline__ void multiply_add(float (&c)[4], const float (&a)[4], float b0, float b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
                   "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

// c += a · b; a is an `operand`.
__device__ __forceinline__ void product(float (&c)[4], const float (&a)[4], float b0, float b1) {
#if PRECISE
    const float high[4] = {upper(a[0]), upper(a[1]), upper(a[2]), upper(a[3])};
    const float low[4] = {a[0] - high[0], a[1] - high[1], a[2] - high[2], a[3] - high[3]};
    const float h0 = upper(b0), h1 = upper(b1);
    multiply_add(c, low, h0, h1);
    multiply_add(c, high, b0 - h0, b1 - h1);
    multiply_add(c, high, h0, h1);
#else
    multiply_add(c, a, nearest(b0), nearest(b1));
#endif
}

// A left factor that needs no look at whether it is a number: what comes of it only teaches.
__device__ __forceinline__ float factor(float x) {
#if PRECISE
    return x;
#else
    return nearest(x);
#endif
}

// A left factor, as it is kept in shared memory.
__device__ __forceinline__ float operand(float x) {
#if PRECISE
    return x;
#else
    return x == x ? nearest(x) : x;
#endif
}

// Four numbers that the kernel only reads, if they are wanted. Volatile, so that it stays where it is: well before its use.
__device__ __forceinline__ void fetch(float4 &v, const float *at, bool wanted) {
    asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];}"
                 : "+f"(v.x), "+f"(v.y), "+f"(v.z), "+f"(v.w)
                 : "l"(at), "r"((u32)wanted));
}

// Four numbers of a row-major matrix, 0 outside of it. Without branches but for `aligned`, the same for all lanes.
__device__ __forceinline__ float4 load4(const float *matrix, u32 row, u32 column, u32 rows, u32 columns, bool aligned) {
    const u32 left = row < rows && column < columns ? columns - column : 0;
    const float *at = matrix + (u64)row * columns + column;
    if (aligned) return left ? *(const float4 *)at : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(left > 0 ? at[0] : 0.0f, left > 1 ? at[1] : 0.0f, left > 2 ? at[2] : 0.0f, left > 3 ? at[3] : 0.0f);
}

__device__ __forceinline__ bool vectors(const float *matrix, u32 columns) {
    return columns % 4 == 0 && (u64)matrix % 16 == 0;
}
