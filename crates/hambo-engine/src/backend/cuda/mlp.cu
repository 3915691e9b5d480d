// Ensembles of MLPs on tensor cores: a block takes 16·TILES rows of one member through all layers without leaving
// the processor; weights stream from the second-level cache straight into registers.
//
// Compiled for each of the two directions (BACKWARD), for each TILES, for PRECISE and WIDTH as in products.cu, and for the
// PITCH of pairs of rows in shared memory.
//
// Few warps hide little, so what counts is the number of instructions beside the products. Rows g and g + 8 of a tile lie
// in shared memory number by number beside each other, as the tensor core takes them.

#define THREADS 256
#define WARPS 8
#define ROWS (16 * TILES)
#define ONE_PART (WIDTH && WIDTH <= 32 * WARPS) // of a square layer for each warp
// Chunks of weights on their way: with few rows there is little to do until they arrive, with precise products much. Each
// is code of its own, which takes time to compile.
#define AHEAD (PRECISE ? 2 : TILES <= 2 && WIDTH % 128 == 0 ? 8 : 4)

enum { LINEAR, RELU, TANH, ELU, LEAKY_RELU, SOFTPLUS };
template <bool B> struct Is {
    static constexpr bool value = B;
};

// Not inlined: it would be so a hundred times.
__device__ __noinline__ float squashed(float x) { return tanhf(x); }

// Those that are seldom met. NaN stays NaN.
__device__ __noinline__ float bent(u32 activation, float x) {
    switch (activation) {
    case ELU: return x < 0.0f ? expm1f(x) : x;
    case LEAKY_RELU: return x < 0.0f ? 0.01f * x : x;
    case SOFTPLUS: return (x < 0.0f ? 0.0f : x) + log1pf(expf(-fabsf(x)));
    default: return x;
    }
}

__device__ __forceinline__ float activate(u32 activation, float x) {
    return activation == RELU ? (x < 0.0f ? 0.0f : x) : activation == TANH ? squashed(x) : bent(activation, x);
}

// The derivative by the sum, from the activation itself.
__device__ __noinline__ float bent_slope(u32 activation, float y) {
    switch (activation) {
    case ELU: return y < 0.0f ? y + 1.0f : 1.0f;
    case LEAKY_RELU: return y < 0.0f ? 0.01f : 1.0f;
    case SOFTPLUS: return -expm1f(-y);
    default: return 1.0f;
    }
}

__device__ __forceinline__ float slope(u32 activation, float y) {
    return activation == RELU ? (y > 0.0f ? 1.0f : 0.0f) : activation == TANH ? 1.0f - y * y : bent_slope(activation, y);
}

// Where a number lies in shared memory.
__device__ __forceinline__ u32 place(u32 row, u32 column) { return (row / 16 * 8 + row % 8) * PITCH + 2 * column + row / 8 % 2; }

// All elements of a block's rows: a warp takes a row, so that neighbors in memory are read together.
#define EACH_ELEMENT(row, c, columns)                            \
    for (u32 row = threadIdx.x / 32; row < ROWS; row += WARPS) \
        for (u32 c = threadIdx.x % 32; c < (columns); c += 32)

// ---- Products of a tile ---------------------------------------------------------------------------------------

typedef float Tile[TILES][4][4];

#define EACH_SUM(m, j, i)                           \
    _Pragma("unroll") for (int m = 0; m < TILES; m++) \
        _Pragma("unroll") for (int j = 0; j < 4; j++) \
            _Pragma("unroll") for (int i = 0; i < 4; i++)

// One branch for all: branches cost more than what is between them.
__device__ __forceinline__ void activate(u32 activation, Tile &sum) {
    if (activation == RELU) {
        EACH_SUM(m, j, i) sum[m][j][i] = activate(RELU, sum[m][j][i]);
    } else if (activation == TANH) {
        EACH_SUM(m, j, i) sum[m][j][i] = squashed(sum[m][j][i]);
    } else if (activation != LINEAR) {
        EACH_SUM(m, j, i) sum[m][j][i] = bent(activation, sum[m][j][i]);
    }
}

// The left operands of 16 contraction steps of a tile, for a lane whose rows and columns `x` points to: two of the k-slots
// of a tensor core product are taken by neighboring columns, so that a lane reads what it needs at once.
__device__ __forceinline__ void read_rows(const float *x, int tile, float (&a)[4], float (&b)[4]) {
    const float4 u = *(const float4 *)(x + tile * 8 * PITCH), v = *(const float4 *)(x + tile * 8 * PITCH + 4);
    a[0] = u.x, a[1] = u.y, a[2] = u.z, a[3] = u.w;
    b[0] = v.x, b[1] = v.y, b[2] = v.z, b[3] = v.w;
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

// The weights of square layers on their way to a warp, which takes 32 columns of W, or of Wᵀ: AHEAD chunks of 16 steps of
// the contraction. They keep coming while a layer is finished and the next one begins. No branch may stand between a
// load and its use: where branches meet the compiler moves registers, and a move waits for the load.
template <bool TRANSPOSED> struct Weights {
    // From one of the four vectors of a chunk to the next, and from chunk to chunk.
    static constexpr int NEXT = TRANSPOSED ? 8 * WIDTH : WIDTH, CHUNK = TRANSPOSED ? 16 : 16 * WIDTH;
    float4 u[AHEAD][4];
    const float *own;

    __device__ __forceinline__ static const float *place(const float *w, u32 first) {
        const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        return TRANSPOSED ? w + (first + g) * WIDTH + 4 * t : w + 4 * t * WIDTH + first + 4 * g;
    }

    // The first chunks of a layer.
    __device__ __forceinline__ void begin(const float *w, u32 first) {
        own = place(w, first);
#pragma unroll
        for (int q = 0; q < AHEAD; q++)
#pragma unroll
            for (int i = 0; i < 4; i++) fetch(u[q][i], own + q * CHUNK + i * NEXT, first < WIDTH);
    }

    // sum += x · W, while the first chunks of the layer at `next` begin to come, if there is one.
    __device__ __forceinline__ void multiply(const float *x, const float *next, u32 first, Tile &sum) {
        x += threadIdx.x % 32 / 4 * PITCH + threadIdx.x % 4 * 8;
#pragma unroll 1
        for (int base = AHEAD; base <= WIDTH / 16; base += AHEAD) {
            const bool here = base < WIDTH / 16;
            own = here ? own + AHEAD * CHUNK : place(next, first);
#pragma unroll
            for (int q = 0; q < AHEAD; q++) {
                chunk<TRANSPOSED>(x + 32 * q, u[q], sum);
#pragma unroll
                for (int i = 0; i < 4; i++) fetch(u[q][i], own + q * CHUNK + i * NEXT, here || next);
            }
            x += 32 * AHEAD;
        }
    }
};

// The same of any layer, over the chunks begin, begin + step, …
template <bool TRANSPOSED>
__device__ __forceinline__ void any_product(const float *x, const float *w, u32 inputs, u32 outputs, u32 first, u32 begin, u32 step,
                                            Tile &sum) {
    const u32 g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const bool aligned = vectors(w, outputs);
    x += g * PITCH + 8 * t;
    const u32 chunks = ((TRANSPOSED ? outputs : inputs) + 15) / 16;
#pragma unroll 1
    for (u32 c = begin; c < chunks; c += step) {
        float4 u[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            u[i] = TRANSPOSED ? load4(w, first + 8 * i + g, c * 16 + 4 * t, inputs, outputs, aligned)
                              : load4(w, c * 16 + 4 * t + i, first + 4 * g, inputs, outputs, aligned);
        chunk<TRANSPOSED>(x + 32 * c, u, sum);
    }
}

// ---- One layer ------------------------------------------------------------------------------------------------

// y[ROWS × columns] = x · W, or x · Wᵀ, with the sums of a lane's tile given to `finish(first column, sum)` first. Wide
// results are split over the warps by columns; those of at most 32 columns by the contraction, with `partial` for the
// parts, and finished by `finish_one(row, column, sum)`. Ends with all of y known to all threads.
//
// The weights of a SQUARE layer are already on their way, those at `next` follow; wide layers have all their warps take
// more than one part, whose weights set out when their turn comes.
template <bool SQUARE, bool TRANSPOSED, class Finish, class FinishOne>
__device__ __forceinline__ void layer_product(const float *x, const float *w, const float *next, Weights<TRANSPOSED> &weights, u32 inputs,
                                              u32 outputs, float *partial, float *y, Finish finish, FinishOne finish_one) {
    const u32 warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const u32 columns = SQUARE ? WIDTH : TRANSPOSED ? inputs : outputs;
    const bool wide = SQUARE || columns > 32;
    for (u32 first = wide ? warp * 32 : 0; first < columns; first += WARPS * 32) {
        Tile sum;
        EACH_SUM(m, j, i) sum[m][j][i] = 0.0f;
        if (SQUARE) {
            if (!ONE_PART) weights.begin(w, first);
            weights.multiply(x, ONE_PART ? next : nullptr, first, sum);
        } else {
            any_product<TRANSPOSED>(x, w, inputs, outputs, first, wide ? 0 : warp, wide ? 1 : WARPS, sum);
        }
        if (wide) finish(first, sum);
#pragma unroll
        for (int m = 0; m < TILES; m++) {
            // Numbers of the columns c and c + 1 of both rows.
            auto put = [&](u32 c, float a, float below_a, float b, float below_b) {
                if (wide) {
                    *(float4 *)(y + (m * 8 + g) * PITCH + 2 * (first + c)) = make_float4(a, below_a, b, below_b);
                } else {
                    float *to = partial + (warp * ROWS + m * 16 + g) * 32 + c;
                    *(float2 *)to = make_float2(a, b), *(float2 *)(to + 8 * 32) = make_float2(below_a, below_b);
                }
            };
#pragma unroll
            for (int j = 0; j < 4; j++) {
                if (TRANSPOSED) put(8 * j + 2 * t, sum[m][j][0], sum[m][j][2], sum[m][j][1], sum[m][j][3]);
                else if (j % 2 == 0)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        put(8 * t + 4 * e + j, sum[m][j][e], sum[m][j][e + 2], sum[m][j + 1][e], sum[m][j + 1][e + 2]);
            }
        }
    }
    __syncthreads();
    if (wide) return;
    EACH_ELEMENT(row, c, columns) {
        float value = 0.0f;
        for (u32 part = 0; part < WARPS; part++) value += partial[(part * ROWS + row) * 32 + c];
        y[place(row, c)] = finish_one(row, c, value);
    }
    __syncthreads();
}

// 0 from the last column to where the contraction of the next layer ends.
__device__ __forceinline__ void pad(float *x, u32 columns) {
    const u32 end = round_up(columns, 16), gap = end - columns;
    for (u32 i = threadIdx.x; i < ROWS * gap; i += THREADS) x[place(i / gap, columns + i % gap)] = 0.0f;
}

// What the outputs are taken into by tanh, column by column, having been limited to ±limit; low = 0: they are not.
struct Bounds {
    const float *low, *high;
    float limit;
};

__device__ __forceinline__ float within(const Bounds &bounds, u32 c, float x) {
    x = x < -bounds.limit ? -bounds.limit : x; // comparisons keep NaN
    x = x > bounds.limit ? bounds.limit : x;
    return bounds.low[c] + 0.5f * (squashed(x) + 1.0f) * (bounds.high[c] - bounds.low[c]);
}

// Rows of x, rows of y, parts of narrow products.
extern __shared__ __align__(16) float shared[];

#if !BACKWARD
// When a pass waits for the kernel before it: first of all, as other kernels do; when weights are on their way, which that
// kernel must leave as they are; or last of all, running beside it, if neither needs what the other one writes.
enum { FIRST, AFTER_WEIGHTS, OVERLAPPING };

// All members' activations where asked for, those of the last layer always; within bounds where there are at most 32
// columns.
extern "C" __global__ void __launch_bounds__(THREADS, 1) mlp_forward(const __grid_constant__ Net net, const float *input, u32 batches, const __grid_constant__ Layers layers, u32 order, const __grid_constant__ Bounds bounds) {
    if (order == FIRST) in_order();
    if (order == OVERLAPPING) let_next_come();
    const u32 member = blockIdx.y, first = blockIdx.x * ROWS, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float *params = net.params + (u64)member * net.stride;
    float *x = shared, *y = shared + 8 * TILES * PITCH, *partial = shared + 16 * TILES * PITCH;
    const u32 inputs = net.widths[0], top = net.depth - 1;
    const u64 origin = (u64)member * net.rows + first;
    Weights<false> weights;
    if (ONE_PART && top > 1) weights.begin(params + net.offsets[1], threadIdx.x / 32 * 32);
    if (order == AFTER_WEIGHTS) in_order();
    input += (u64)(member % batches) * net.rows * inputs;
    EACH_ELEMENT(row, c, inputs)
        x[place(row, c)] = first + row < net.rows ? operand(input[(u64)(first + row) * inputs + c]) : 0.0f;
    pad(x, inputs);
    __syncthreads();
    auto layer = [&](u32 l, auto square) {
        constexpr bool SQUARE = decltype(square)::value;
        const u32 in = SQUARE ? WIDTH : net.widths[l], out = SQUARE ? WIDTH : net.widths[l + 1];
        const float *w = params + net.offsets[l], *bias = w + in * out;
        const float *next = SQUARE && l + 1 < top ? params + net.offsets[l + 1] : nullptr;
        const u32 activation = l == top ? net.output : net.hidden;
        float *to = layers.at[l];
        auto one = [&](u32 row, u32 c, float sum) {
            float value = activate(activation, sum + bias[c]);
            if (l == top && bounds.low) value = within(bounds, c, value);
            if (to && first + row < net.rows) to[(origin + row) * out + c] = value;
            return operand(value);
        };
        layer_product<SQUARE>(
            x, w, next, weights, in, out, partial, y,
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
                        for (int j = 0; j < 4; j++) sum[m][j][e] += shift[j], sum[m][j][e + 2] += shift[j];
                }
                activate(activation, sum);
                if (to)
#pragma unroll
                    for (int m = 0; m < TILES; m++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            const u32 row = m * 16 + g + i / 2 * 8, at = column + 8 * t + i % 2 * 4;
                            if (first + row >= net.rows) continue;
                            float *global = to + (origin + row) * out + at;
                            if (whole) *(float4 *)global = make_float4(sum[m][0][i], sum[m][1][i], sum[m][2][i], sum[m][3][i]);
                            else
#pragma unroll
                                for (int j = 0; j < 4; j++)
                                    if (at + j < out) global[j] = sum[m][j][i];
                        }
                EACH_SUM(m, j, i) sum[m][j][i] = operand(sum[m][j][i]);
            },
            one);
        if (l == top) return;
        pad(y, out);
        __syncthreads();
        float *swap = x;
        x = y;
        y = swap;
    };
    for (u32 end = 0;; end = top) { // so that the code for the first and last layer is there once
        layer(end, Is<false>());
        if (end == top) break;
        for (u32 l = 1; l < top; l++) layer(l, Is<WIDTH != 0>());
    }
    if (order == OVERLAPPING) wait_for_last();
}
#else
// From dL/d(output) in the last of `deltas` to dL/d(sum) of every layer, each kept where `keep` says so, and to
// dL/d(input) where there is room for it.
extern "C" __global__ void __launch_bounds__(THREADS, 1) mlp_backward(const __grid_constant__ Net net, const __grid_constant__ Layers layers, const __grid_constant__ Layers deltas, float *d_input, u32 keep) {
    in_order();
    const u32 member = blockIdx.y, first = blockIdx.x * ROWS, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float *params = net.params + (u64)member * net.stride;
    float *d = shared, *below = shared + 8 * TILES * PITCH, *partial = shared + 16 * TILES * PITCH;
    const u32 outputs = net.widths[net.depth], top = net.depth - 1;
    Weights<true> weights;
    if (ONE_PART && top > 1) weights.begin(params + net.offsets[top - 1], threadIdx.x / 32 * 32);
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
        d[place(row, c)] = operand(value);
    }
    pad(d, outputs);
    __syncthreads();
    auto layer = [&](u32 l, auto square) {
        constexpr bool SQUARE = decltype(square)::value;
        const u32 in = SQUARE ? WIDTH : net.widths[l], out = SQUARE ? WIDTH : net.widths[l + 1];
        const float *w = params + net.offsets[l];
        const float *next = SQUARE && l > 1 ? params + net.offsets[l - 1] : nullptr;
        const float *activations = l ? layers.at[l - 1] : nullptr;
        float *to = l ? (keep ? deltas.at[l - 1] : nullptr) : d_input;
        auto one = [&](u32 row, u32 c, float value) {
            if (first + row >= net.rows) return 0.0f;
            const u64 at = (origin + row) * in + c;
            if (l) value *= slope(net.hidden, activations[at]);
            if (to) to[at] = value;
            return operand(value);
        };
        layer_product<SQUARE>(
            d, w, next, weights, in, out, partial, below,
            [&](u32 column, Tile &sum) {
                const bool whole = in % 32 == 0;
#pragma unroll
                for (int m = 0; m < TILES; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const u32 row = m * 16 + g + 8 * h;
                        const bool inside = first + row < net.rows;
                        const u64 start = (origin + row) * in + column + 2 * t;
                        if (whole) {
                            if (l && inside) {
                                float2 y[4];
#pragma unroll
                                for (int j = 0; j < 4; j++) y[j] = *(const float2 *)(activations + start + 8 * j);
                                auto slopes = [&](u32 activation) {
#pragma unroll
                                    for (int j = 0; j < 4; j++)
                                        sum[m][j][2 * h] *= slope(activation, y[j].x), sum[m][j][2 * h + 1] *= slope(activation, y[j].y);
                                };
                                if (net.hidden == RELU) slopes(RELU);
                                else if (net.hidden == TANH) slopes(TANH);
                                else slopes(net.hidden);
                            }
#pragma unroll
                            for (int j = 0; j < 4; j++) {
                                float &v = sum[m][j][2 * h], &u = sum[m][j][2 * h + 1];
                                if (to && inside) *(float2 *)(to + start + 8 * j) = make_float2(v, u);
                                v = operand(v), u = operand(u);
                            }
                        } else {
#pragma unroll
                            for (int j = 0; j < 4; j++) {
                                float &v = sum[m][j][2 * h], &u = sum[m][j][2 * h + 1];
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
    };
    for (u32 end = top;; end = 0) {
        if (end || d_input) layer(end, Is<false>());
        if (end == 0) return;
        for (u32 l = top; l-- > 1;) layer(l, Is<WIDTH != 0>());
    }
}
#endif
