// Gradients of an ensemble's weights.

// dW = xᵀ · delta and db = Σ delta: a block for each 64 × 64 tile of each layer's weights. Its warps are the four
// quarters of the tile, once for each group of rows. Where there are few tiles, the rows are split over blocks too, and
// `gradient` has one part after the other.
#define GROUPS 2
#define SOON 4 // steps of 8 rows on their way
extern "C" __global__ void __launch_bounds__(128 * GROUPS, 2) mlp_weights(const __grid_constant__ Net net, const float *input, u32 batches, const __grid_constant__ Layers layers,
                                                                  const __grid_constant__ Layers deltas, float *gradient) {
    in_order();
    // The first layer's blocks come last: theirs and those of the last layer are short, and fill what the others leave.
    const u32 member = blockIdx.x;
    u32 block = blockIdx.y, l = 1 % net.depth, tiles = 0;
    for (;; l = (l + 1) % net.depth) {
        tiles = (net.widths[l + 1] + 63) / 64;
        const u32 blocks = (net.widths[l] + 63) / 64 * tiles;
        if (block < blocks) break;
        block -= blocks;
    }
    const u32 in = net.widths[l], out = net.widths[l + 1];
    const u32 lot = round_up((net.rows + gridDim.z - 1) / gridDim.z, 8), skip = min(blockIdx.z * lot, net.rows);
    const u32 rows = min(lot, net.rows - skip);
    const float *x = (l ? layers.at[l - 1] + (u64)member * net.rows * in : input + (u64)(member % batches) * net.rows * in) + (u64)skip * in;
    const float *delta = deltas.at[l] + ((u64)member * net.rows + skip) * out;
    const bool x_aligned = vectors(x, in), delta_aligned = vectors(delta, out);
    float *w = gradient + ((u64)blockIdx.z * net.members + member) * net.stride + net.offsets[l], *bias = w + in * out;

    // Nothing is known of the few numbers between one member and the next but that they are 0.
    if (blockIdx.y == 0) {
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
            fetch(u[q][0], own_x + q * 8 * WIDTH, true);
            fetch(u[q][1], own_x + (q * 8 + 4) * WIDTH, true);
            fetch(u[q][2], own_delta + q * 8 * WIDTH, true);
            fetch(u[q][3], own_delta + (q * 8 + 4) * WIDTH, true);
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
