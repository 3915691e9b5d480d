// Ensembles of MLPs on tensor cores: a block takes 16·TILES rows of one member through all layers without leaving
// the processor; weights stream from the second-level cache straight into registers.
//
// Compiled for each TILES; for PRECISE = 0, one TF32 product (10 bits of mantissa, for training), or 1, three of them,
// which is as good as f32; for the WIDTH of the hidden layers, so that their addresses are constants (0: they have no
// width that is a multiple of 64); and for the PITCH of rows in shared memory.

typedef unsigned int u32;
typedef unsigned long long u64;

#define THREADS 256
#define WARPS 8
#define ROWS (16 * TILES)
#define DEEPEST 16
// Chunks of weights on their way: with few rows there is little to do until they arrive.
#define AHEAD (TILES <= 2 && WIDTH % 128 == 0 && !PRECISE ? 8 : 4)

struct Net {
    const float *params;
    u32 stride, members, rows, depth;
    u32 widths[DEEPEST + 1], offsets[DEEPEST];
    u32 hidden, output; // activations
};
struct Layers {
    float *at[DEEPEST];
};
enum { LINEAR, RELU, TANH };

// Not inlined: it would be so a hundred times.
__device__ __noinline__ float squashed(float x) { return tanhf(x); }

__device__ __forceinline__ float activate(u32 activation, float x) {
    return activation == RELU ? (x < 0.0f ? 0.0f : x) : activation == TANH ? squashed(x) : x; // NaN stays NaN
}

// The derivative by the sum, from the activation itself.
__device__ __forceinline__ float slope(u32 activation, float y) {
    return activation == RELU ? (y > 0.0f ? 1.0f : 0.0f) : activation == TANH ? 1.0f - y * y : 1.0f;
}

// All elements of a block's rows: a warp takes a row, so that neighbours in memory are read together.
#define EACH_ELEMENT(row, c, columns)                            \
    for (u32 row = threadIdx.x / 32; row < ROWS; row += WARPS) \
        for (u32 c = threadIdx.x % 32; c < (columns); c += 32)

__device__ __forceinline__ u32 round_up(u32 n, u32 to) { return (n + to - 1) / to * to; }

// ---- Products of 16 × 8 × 8 -----------------------------------------------------------------------------------

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

// Four numbers that the kernel only reads. Volatile, so that it stays where it is: well before its use.
__device__ __forceinline__ float4 fetch(const float *at) {
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at));
    return v;
}

// Four numbers of a row-major matrix, 0 outside of it.
__device__ __forceinline__ float4 load4(const float *matrix, u32 row, u32 column, u32 rows, u32 columns, bool aligned) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= rows || column >= columns) return v;
    const float *at = matrix + (u64)row * columns + column;
    if (aligned) return *(const float4 *)at;
    v.x = at[0];
    if (column + 1 < columns) v.y = at[1];
    if (column + 2 < columns) v.z = at[2];
    if (column + 3 < columns) v.w = at[3];
    return v;
}

__device__ __forceinline__ bool vectors(const float *matrix, u32 columns) {
    return columns % 4 == 0 && (u64)matrix % 16 == 0;
}

typedef float Tile[TILES][4][4];

__device__ __forceinline__ void clear(Tile &sum) {
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[m][j][i] = 0.0f;
}

// The left operands of 16 contraction steps of a tile, for a lane whose row and columns `x` points to: two of the k-slots
// of a tensor core product are taken by neighbouring columns, so that a lane reads four numbers at once.
__device__ __forceinline__ void read_rows(const float *x, int tile, float (&a)[4], float (&b)[4]) {
    const float4 low = *(const float4 *)(x + tile * 16 * PITCH), high = *(const float4 *)(x + (tile * 16 + 8) * PITCH);
    a[0] = low.x, a[1] = high.x, a[2] = low.y, a[3] = high.y;
    b[0] = low.z, b[1] = high.z, b[2] = low.w, b[3] = high.w;
}

// sum += x · W for 16 rows and 32 columns of W; lane (g, t) gets the columns 8t + j (+ 4) of the rows g and g + 8.
__device__ __forceinline__ void chunk_product(const float *x, const float4 (&u)[4], Tile &sum) {
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        float a[4], b[4];
        read_rows(x, m, a, b);
        product(sum[m][0], a, u[0].x, u[1].x);
        product(sum[m][1], a, u[0].y, u[1].y);
        product(sum[m][2], a, u[0].z, u[1].z);
        product(sum[m][3], a, u[0].w, u[1].w);
        product(sum[m][0], b, u[2].x, u[3].x);
        product(sum[m][1], b, u[2].y, u[3].y);
        product(sum[m][2], b, u[2].z, u[3].z);
        product(sum[m][3], b, u[2].w, u[3].w);
    }
}

// The same with 32 rows and 16 columns of Wᵀ; lane (g, t) gets the columns 8j + 2t (+ 1).
__device__ __forceinline__ void chunk_product_transposed(const float *x, const float4 (&u)[4], Tile &sum) {
#pragma unroll
    for (int m = 0; m < TILES; m++) {
        float a[4], b[4];
        read_rows(x, m, a, b);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            product(sum[m][j], a, u[j].x, u[j].y);
            product(sum[m][j], b, u[j].z, u[j].w);
        }
    }
}

template <bool TRANSPOSED> __device__ __forceinline__ void chunk(const float *x, const float4 (&u)[4], Tile &sum) {
    if (TRANSPOSED) chunk_product_transposed(x, u, sum);
    else chunk_product(x, u, sum);
}

// sum = x · W[:, first .. first + 32], or x · W[first .. first + 32, :]ᵀ, of a square layer, with the next weights on their
// way. No branch may stand between a load and its use: where branches meet the compiler moves registers, and a move
// waits for the load.
template <bool TRANSPOSED> __device__ __forceinline__ void square_product(const float *x, const float *w, u32 first, Tile &sum) {
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    // From one of the four vectors of a chunk to the next, and from chunk to chunk.
    constexpr int NEXT = TRANSPOSED ? 8 * WIDTH : WIDTH, CHUNK = TRANSPOSED ? 16 : 16 * WIDTH;
    const float *own = TRANSPOSED ? w + (first + g) * WIDTH + 4 * t : w + 4 * t * WIDTH + first + 4 * g;
    x += g * PITCH + 4 * t;
    float4 u[AHEAD][4];
#pragma unroll
    for (int q = 0; q < AHEAD; q++)
#pragma unroll
        for (int i = 0; i < 4; i++) u[q][i] = fetch(own + q * CHUNK + i * NEXT);
#pragma unroll 1
    for (int base = AHEAD; base < WIDTH / 16; base += AHEAD) {
        own += AHEAD * CHUNK;
#pragma unroll
        for (int q = 0; q < AHEAD; q++) {
            chunk<TRANSPOSED>(x + 16 * q, u[q], sum);
#pragma unroll
            for (int i = 0; i < 4; i++) u[q][i] = fetch(own + q * CHUNK + i * NEXT);
        }
        x += 16 * AHEAD;
    }
#pragma unroll
    for (int q = 0; q < AHEAD; q++) chunk<TRANSPOSED>(x + 16 * q, u[q], sum);
}

// The same of any layer, over the chunks begin, begin + step, …
template <bool TRANSPOSED>
__device__ __forceinline__ void any_product(const float *x, const float *w, u32 inputs, u32 outputs, u32 first, u32 begin, u32 step,
                                            Tile &sum) {
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const bool aligned = vectors(w, outputs);
    x += g * PITCH + 4 * t;
#pragma unroll 1
    for (u32 c = begin; c < ((TRANSPOSED ? outputs : inputs) + 15) / 16; c += step) {
        float4 u[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            u[i] = TRANSPOSED ? load4(w, first + 8 * i + g, c * 16 + 4 * t, inputs, outputs, aligned)
                              : load4(w, c * 16 + 4 * t + i, first + 4 * g, inputs, outputs, aligned);
        chunk<TRANSPOSED>(x + 16 * c, u, sum);
    }
}

// ---- One layer ------------------------------------------------------------------------------------------------

// y[ROWS × columns] = x · W, or x · Wᵀ, with the sums of a lane's tile given to `finish(first column, sum)` first. Wide
// results are split over the warps by columns; those of at most 32 columns by the contraction, with `partial` for the
// parts, and finished by `finish_one(row, column, sum)`. Ends with all of y known to all threads.
template <bool TRANSPOSED, class Finish, class FinishOne>
__device__ __forceinline__ void layer_product(const float *x, const float *w, u32 inputs, u32 outputs, float *partial, float *y,
                                              Finish finish, FinishOne finish_one) {
    const u32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const u32 columns = TRANSPOSED ? inputs : outputs;
    const bool wide = columns > 32;
    float *to = wide ? y : partial + warp * ROWS * 32;
    const u32 to_pitch = wide ? PITCH : 32;
    for (u32 first = wide ? warp * 32 : 0; first < columns; first += WARPS * 32) {
        Tile sum;
        clear(sum);
        if (WIDTH && inputs == WIDTH && outputs == WIDTH && (u64)w % 16 == 0) square_product<TRANSPOSED>(x, w, first, sum);
        else any_product<TRANSPOSED>(x, w, inputs, outputs, first, wide ? 0 : warp, wide ? 1 : WARPS, sum);
        if (wide) finish(first, sum);
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float *row = to + (m * 16 + g + 8 * (i / 2)) * to_pitch + first;
                if (!TRANSPOSED) *(float4 *)(row + 8 * t + 4 * (i % 2)) = make_float4(sum[m][0][i], sum[m][1][i], sum[m][2][i], sum[m][3][i]);
                else if (i % 2 == 0)
#pragma unroll
                    for (int j = 0; j < 4; j++) *(float2 *)(row + 8 * j + 2 * t) = make_float2(sum[m][j][i], sum[m][j][i + 1]);
            }
    }
    __syncthreads();
    if (wide) return;
    EACH_ELEMENT(row, c, columns) {
        float value = 0.0f;
        for (u32 part = 0; part < WARPS; part++) value += partial[(part * ROWS + row) * 32 + c];
        y[row * PITCH + c] = finish_one(row, c, value);
    }
    __syncthreads();
}

// 0 from the last column to where the contraction of the next layer ends.
__device__ __forceinline__ void pad(float *x, u32 columns) {
    const u32 end = round_up(columns, 16), gap = end - columns;
    for (u32 i = threadIdx.x; i < ROWS * gap; i += THREADS) x[i / gap * PITCH + columns + i % gap] = 0.0f;
}

// Rows of x, rows of y, parts of narrow products.
extern __shared__ __align__(16) float shared[];

// All members' activations where asked for, those of the last layer always.
extern "C" __global__ void __launch_bounds__(THREADS, 1) mlp_forward(const __grid_constant__ Net net, const float *input, u64 input_stride, const __grid_constant__ Layers layers) {
    const u32 member = blockIdx.y, first = blockIdx.x * ROWS, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float *params = net.params + (u64)member * net.stride;
    float *x = shared, *y = shared + ROWS * PITCH, *partial = shared + 2 * ROWS * PITCH;
    const u32 inputs = net.widths[0];
    const u64 origin = (u64)member * net.rows + first;
    input += member * input_stride;
    EACH_ELEMENT(row, c, inputs)
        x[row * PITCH + c] = first + row < net.rows ? operand(input[(u64)(first + row) * inputs + c]) : 0.0f;
    pad(x, inputs);
    __syncthreads();
    for (u32 l = 0; l < net.depth; l++) {
        const u32 in = net.widths[l], out = net.widths[l + 1];
        const float *w = params + net.offsets[l], *bias = w + in * out;
        const bool last = l + 1 == net.depth;
        const u32 activation = last ? net.output : net.hidden;
        float *to = layers.at[l];
        auto one = [&](u32 row, u32 c, float sum) {
            const float value = activate(activation, sum + bias[c]);
            if (to && first + row < net.rows) to[(origin + row) * out + c] = value;
            return operand(value);
        };
        layer_product<false>(
            x, w, in, out, partial, y,
            [&](u32 column, Tile &sum) {
                const bool whole = out % 32 == 0;
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const u32 at = column + 8 * t + 4 * e;
                    const float4 b = load4(bias, 0, at, 1, out, whole && (u64)bias % 16 == 0);
                    const float shift[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
                    for (int m = 0; m < TILES; m++)
#pragma unroll
                        for (int h = 0; h < 2; h++) {
                            const u32 row = m * 16 + g + 8 * h;
                            float v[4];
#pragma unroll
                            for (int j = 0; j < 4; j++) {
                                v[j] = activate(activation, sum[m][j][2 * h + e] + shift[j]);
                                sum[m][j][2 * h + e] = operand(v[j]);
                            }
                            if (to && first + row < net.rows) {
                                float *global = to + (origin + row) * out + at;
                                if (whole) *(float4 *)global = make_float4(v[0], v[1], v[2], v[3]);
                                else
#pragma unroll
                                    for (int j = 0; j < 4; j++)
                                        if (at + j < out) global[j] = v[j];
                            }
                        }
                }
            },
            one);
        if (last) return;
        pad(y, out);
        __syncthreads();
        float *swap = x;
        x = y;
        y = swap;
    }
}

// From dL/d(output) in the last of `deltas` to dL/d(sum) of every layer, each kept where `keep` says so, and to
// dL/d(input) where there is room for it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) mlp_backward(const __grid_constant__ Net net, const __grid_constant__ Layers layers, const __grid_constant__ Layers deltas, float *d_input, u32 keep) {
    const u32 member = blockIdx.y, first = blockIdx.x * ROWS, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float *params = net.params + (u64)member * net.stride;
    float *d = shared, *below = shared + ROWS * PITCH, *partial = shared + 2 * ROWS * PITCH;
    const u32 outputs = net.widths[net.depth];
    const u64 origin = (u64)member * net.rows + first;
    EACH_ELEMENT(row, c, outputs) {
        float value = 0.0f;
        if (first + row < net.rows) {
            const u64 at = (origin + row) * outputs + c;
            value = deltas.at[net.depth - 1][at];
            if (net.output != LINEAR) {
                value *= slope(net.output, layers.at[net.depth - 1][at]);
                if (keep) deltas.at[net.depth - 1][at] = value;
            }
        }
        d[row * PITCH + c] = operand(value);
    }
    pad(d, outputs);
    __syncthreads();
    for (u32 l = net.depth; l-- > 0;) {
        if (l == 0 && !d_input) return;
        const u32 in = net.widths[l], out = net.widths[l + 1];
        const float *w = params + net.offsets[l];
        const float *activations = l ? layers.at[l - 1] : nullptr;
        float *to = l ? (keep ? deltas.at[l - 1] : nullptr) : d_input;
        auto one = [&](u32 row, u32 c, float value) {
            if (first + row >= net.rows) return 0.0f;
            const u64 at = (origin + row) * in + c;
            if (l) value *= slope(net.hidden, activations[at]);
            if (to) to[at] = value;
            return operand(value);
        };
        layer_product<true>(
            d, w, in, out, partial, below,
            [&](u32 column, Tile &sum) {
                const bool whole = in % 32 == 0;
#pragma unroll
                for (int m = 0; m < TILES; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const u32 row = m * 16 + g + 8 * h;
                        const bool inside = first + row < net.rows;
                        const u64 start = (origin + row) * in + column + 2 * t;
#pragma unroll
                        for (int j = 0; j < 4; j++) {
                            float &v = sum[m][j][2 * h], &u = sum[m][j][2 * h + 1];
                            if (whole) {
                                if (l && inside) {
                                    const float2 y = *(const float2 *)(activations + start + 8 * j);
                                    v *= slope(net.hidden, y.x), u *= slope(net.hidden, y.y);
                                }
                                if (to && inside) *(float2 *)(to + start + 8 * j) = make_float2(v, u);
                                v = operand(v), u = operand(u);
                            } else {
                                const u32 c = column + 8 * j + 2 * t;
                                v = c < in ? one(row, c, v) : 0.0f;
                                u = c + 1 < in ? one(row, c + 1, u) : 0.0f;
                            }
                        }
                    }
            },
            one);
        if (l == 0) return;
        pad(below, in);
        __syncthreads();
        float *swap = d;
        d = below;
        below = swap;
    }
}

// dW = xᵀ · delta and db = Σ delta: a block for each 64 × 64 tile of each layer's weights. Its warps are the four
// quarters of the tile, once for each group of rows. Where there are few tiles, the rows are split over blocks too, and
// `gradient` has one part after the other.
#if TILES == 1
#define GROUPS 2
#define SOON 4 // steps of 8 rows on their way
extern "C" __global__ void __launch_bounds__(128 * GROUPS, 2) mlp_weights(const __grid_constant__ Net net, const float *input, u64 input_stride, const __grid_constant__ Layers layers,
                                                                  const __grid_constant__ Layers deltas, float *gradient) {
    const u32 member = blockIdx.y;
    u32 block = blockIdx.x, l = 0, tiles = 0;
    for (;; l++) {
        tiles = (net.widths[l + 1] + 63) / 64;
        const u32 blocks = (net.widths[l] + 63) / 64 * tiles;
        if (block < blocks) break;
        block -= blocks;
    }
    const u32 in = net.widths[l], out = net.widths[l + 1];
    const u32 lot = round_up((net.rows + gridDim.z - 1) / gridDim.z, 8), skip = min(blockIdx.z * lot, net.rows);
    const u32 rows = min(lot, net.rows - skip);
    const float *x = (l ? layers.at[l - 1] + (u64)member * net.rows * in : input + member * input_stride) + (u64)skip * in;
    const float *delta = deltas.at[l] + ((u64)member * net.rows + skip) * out;
    const bool x_aligned = vectors(x, in), delta_aligned = vectors(delta, out);
    float *w = gradient + ((u64)blockIdx.z * net.members + member) * net.stride + net.offsets[l], *bias = w + in * out;

    // Nothing is known of the few numbers between one member and the next but that they are 0.
    if (blockIdx.x == 0) {
        const u32 top = net.depth - 1, end = net.offsets[top] + (net.widths[top] + 1) * net.widths[top + 1];
        float *rest = gradient + ((u64)blockIdx.z * net.members + member) * net.stride;
        if (end + threadIdx.x < net.stride) rest[end + threadIdx.x] = 0.0f;
    }

    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 quarter = warp % 4, group = warp / 4;
    const u32 from_in = block / tiles * 64 + quarter / 2 * 32, from_out = block % tiles * 64 + quarter % 2 * 32;
    const u32 share = round_up((rows + GROUPS - 1) / GROUPS, 8), begin = group * share, end = min(begin + share, rows);

    float sum[2][4][4];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int i = 0; i < 4; i++) sum[m][j][i] = 0.0f;
    auto work = [&](const float4(&u)[4]) {
        const float4 a = u[0], b = u[1], p = u[2], q = u[3];
        const float low[4] = {factor(a.x), factor(a.y), factor(b.x), factor(b.y)};
        const float high[4] = {factor(a.z), factor(a.w), factor(b.z), factor(b.w)};
        product(sum[0][0], low, p.x, q.x), product(sum[1][0], high, p.x, q.x);
        product(sum[0][1], low, p.y, q.y), product(sum[1][1], high, p.y, q.y);
        product(sum[0][2], low, p.z, q.z), product(sum[1][2], high, p.z, q.z);
        product(sum[0][3], low, p.w, q.w), product(sum[1][3], high, p.w, q.w);
    };
    const u32 steps = end > begin ? (end - begin) / 8 : 0;
    if (WIDTH && in == WIDTH && out == WIDTH && steps && share % (8 * SOON) == 0 && begin + share <= rows && x_aligned &&
        delta_aligned) {
        const float *own_x = x + (begin + t) * WIDTH + from_in + 4 * g;
        const float *own_delta = delta + (begin + t) * WIDTH + from_out + 4 * g;
        float4 u[SOON][4];
        auto load = [&](int q) {
            u[q][0] = fetch(own_x + q * 8 * WIDTH);
            u[q][1] = fetch(own_x + (q * 8 + 4) * WIDTH);
            u[q][2] = fetch(own_delta + q * 8 * WIDTH);
            u[q][3] = fetch(own_delta + (q * 8 + 4) * WIDTH);
        };
#pragma unroll
        for (int q = 0; q < SOON; q++) load(q);
#pragma unroll 1
        for (u32 step = SOON; step < steps; step += SOON) {
            own_x += SOON * 8 * WIDTH;
            own_delta += SOON * 8 * WIDTH;
#pragma unroll
            for (int q = 0; q < SOON; q++) {
                work(u[q]);
                load(q);
            }
        }
#pragma unroll
        for (int q = 0; q < SOON; q++) work(u[q]);
    } else {
#pragma unroll 1
        for (u32 row = begin; row < end; row += 8) {
            float4 u[4];
            u[0] = load4(x, row + t, from_in + 4 * g, end, in, x_aligned);
            u[1] = load4(x, row + t + 4, from_in + 4 * g, end, in, x_aligned);
            u[2] = load4(delta, row + t, from_out + 4 * g, end, out, delta_aligned);
            u[3] = load4(delta, row + t + 4, from_out + 4 * g, end, out, delta_aligned);
            work(u);
        }
    }
    // The first group adds up what the others found, one after the other.
    __shared__ float found[4][32][33];
    for (u32 other = 1; other < GROUPS; other++) {
        if (group == other) {
#pragma unroll
            for (int i = 0; i < 32; i++) found[quarter][i][lane] = sum[i / 16][i / 4 % 4][i % 4];
        }
        __syncthreads();
        if (group == 0) {
#pragma unroll
            for (int i = 0; i < 32; i++) sum[i / 16][i / 4 % 4][i % 4] += found[quarter][i][lane];
        }
        __syncthreads();
    }
    if (group == 0) {
        const bool whole = out % 64 == 0 && (u64)w % 16 == 0;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int m = i / 4, h = i / 2 % 2, e = i % 2;
            const u32 row = from_in + 4 * g + 2 * m + h, column = from_out + 8 * t + 4 * e;
            if (row >= in) continue;
            const float v[4] = {sum[m][0][2 * h + e], sum[m][1][2 * h + e], sum[m][2][2 * h + e], sum[m][3][2 * h + e]};
            float *to = w + row * out + column;
            if (whole) *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
            else
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (column + j < out) to[j] = v[j];
        }
    }
    if (block / tiles) return;
    // Biases: all threads over the tile's 64 columns, then the first of them over what was found.
    const u32 column = block % tiles * 64 + threadIdx.x % 64, of = threadIdx.x / 64;
    float *parts = &found[0][0][0], all = 0.0f;
    if (column < out)
        for (u32 row = of; row < rows; row += 2 * GROUPS) all += delta[(u64)row * out + column];
    __syncthreads();
    parts[threadIdx.x] = all;
    __syncthreads();
    if (threadIdx.x < 64 && column < out) {
        for (u32 other = 1; other < 2 * GROUPS; other++) all += parts[other * 64 + threadIdx.x];
        bias[column] = all;
    }
}
#endif
