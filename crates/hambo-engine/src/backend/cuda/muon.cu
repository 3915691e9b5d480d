// Steps of hidden layers' weights along orthogonal matrices, see Muon in backend/optimize.rs.
//
// Matrices are in bfloat16, padded by zeros to `rows` x `columns`, multiples of 64 with rows >= columns: that of a wide layer
// is its transpose. Every product is one of the form left^T · right, so a matrix is kept together with its transpose.

#define SIDE 64 // of a tile, and rows of the factors that are in shared memory at a time

__device__ __forceinline__ u32 two_bfloats(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ float low_float(u32 both) { return __uint_as_float(both << 16); }
__device__ __forceinline__ float high_float(u32 both) { return __uint_as_float(both & 0xffff0000u); }
__device__ __forceinline__ unsigned short low_bfloat(u32 both) { return (unsigned short)both; }
__device__ __forceinline__ unsigned short high_bfloat(u32 both) { return (unsigned short)(both >> 16); }

// The direction of each matrix, and its transpose; and the sums of squares of its tiles, one a block.
KERNEL muon_begin(const __grid_constant__ HiddenWeights hidden, const float *directions, u32 rows, u32 columns, unsigned short *matrix,
                  unsigned short *transpose, float *squares) {
    in_order();
    __shared__ float tile[SIDE][SIDE + 1];
    const u32 layer = blockIdx.y, member = blockIdx.z, at = member * hidden.count + layer;
    const u32 in = hidden.inputs[layer], out = hidden.outputs[layer];
    const float *from = directions + (u64)member * hidden.stride + hidden.offsets[layer];
    const u32 across = columns / SIDE, first_row = blockIdx.x / across * SIDE, first_column = blockIdx.x % across * SIDE;
    const bool tall = in >= out;
    float sum = 0.0f;
    for (u32 i = threadIdx.x; i < SIDE * SIDE; i += blockDim.x) {
        // Lanes go along the rows of the weights.
        const u32 slow = i / SIDE, fast = i % SIDE;
        const u32 w_row = (tall ? first_row : first_column) + slow, w_column = (tall ? first_column : first_row) + fast;
        const float value = w_row < in && w_column < out ? from[(u64)w_row * out + w_column] : 0.0f;
        tile[tall ? slow : fast][tall ? fast : slow] = value;
        sum += value * value;
    }
    const float all = block_sum(sum);
    if (threadIdx.x == 0) squares[at * gridDim.x + blockIdx.x] = all;
    u32 *to = (u32 *)(matrix + (u64)at * rows * columns), *to_transpose = (u32 *)(transpose + (u64)at * rows * columns);
    for (u32 i = threadIdx.x; i < SIDE * SIDE / 2; i += blockDim.x) {
        const u32 r = i / (SIDE / 2), c = i % (SIDE / 2) * 2;
        to[((first_row + r) * columns + first_column + c) / 2] = two_bfloats(tile[r][c], tile[r][c + 1]);
        to_transpose[((first_column + r) * rows + first_row + c) / 2] = two_bfloats(tile[c][r], tile[c + 1][r]);
    }
}

// What becomes of a product.
#define GRAM 0       // gram = matrix^T · matrix, over its squared norm if it is not normalized yet
#define POLYNOMIAL 1 // polynomial = b gram + c gram · gram
#define NEXT 2       // next = a matrix + matrix · polynomial, over the norm if it is not normalized yet, and its transpose
#define STEP 3       // the same, as a step of the weights

struct Muon {
    float rate, a, b, c;
    u32 kind, first; // whether this is the first iteration
};

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Four 8 x 8 matrices of shared memory, transposed.
__device__ __forceinline__ void load_transposed(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

// A block of 128 threads for each tile of each product left^T · right, whose `depth` is the number of rows of both. Of a
// symmetric product only the tiles on and above the diagonal are computed.
KERNEL muon_product(const __grid_constant__ HiddenWeights hidden, const __grid_constant__ Adam adam, const u32 *step, const __grid_constant__ Muon muon, u32 rows, u32 columns,
                    unsigned short *matrix, unsigned short *transpose, unsigned short *gram, unsigned short *polynomial,
                 unsigned short *next, unsigned short *next_transpose, const float *squares, float *params) {
    in_order();
    __shared__ __align__(128) unsigned short room[2][2][SIDE * SIDE];
    const u32 layer = blockIdx.y, member = blockIdx.z, at = member * hidden.count + layer;
    const u64 large = (u64)at * rows * columns, small = (u64)at * columns * columns;
    const bool symmetric = muon.kind <= POLYNOMIAL;
    const unsigned short *left = muon.kind == GRAM ? matrix + large : muon.kind == POLYNOMIAL ? gram + small : transpose + large;
    const unsigned short *right = muon.kind == GRAM ? matrix + large : muon.kind == POLYNOMIAL ? gram + small : polynomial + small;
    const u32 depth = muon.kind == GRAM ? rows : columns, left_width = symmetric ? columns : rows;
    u32 tile_row, tile_column;
    if (symmetric) {
        tile_column = 0;
        u32 rest = blockIdx.x;
        while (rest > tile_column) rest -= ++tile_column;
        tile_row = rest;
    } else {
        tile_row = blockIdx.x / (columns / SIDE);
        tile_column = blockIdx.x % (columns / SIDE);
    }
    const u32 first_row = tile_row * SIDE, first_column = tile_column * SIDE;

    // Sixteen bytes at a time; those of a row are permuted so that eight rows are read without conflict.
    auto load = [&](u32 stage, u32 k) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 piece = i * 128 + threadIdx.x, row = piece / 8, chunk = piece % 8;
            const u32 to = (row * 8 + (chunk ^ row % 8)) * 16;
            const unsigned short *l = left + (u64)(k + row) * left_width + first_row + chunk * 8;
            const unsigned short *r = right + (u64)(k + row) * columns + first_column + chunk * 8;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(room[stage][0]) + to), "l"(l));
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(room[stage][1]) + to), "l"(r));
        }
        asm volatile("cp.async.commit_group;");
    };
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const u32 from_row = warp / 2 * 32, from_column = warp % 2 * 32;
    float sum[2][4][4] = {};
    load(0, 0);
    for (u32 k = 0; k < depth; k += SIDE) {
        const u32 stage = k / SIDE % 2;
        if (k + SIDE < depth) {
            load(1 - stage, k + SIDE);
            asm volatile("cp.async.wait_group 1;");
        } else {
            asm volatile("cp.async.wait_group 0;");
        }
        __syncthreads();
        const u32 l = shared_address(room[stage][0]), r = shared_address(room[stage][1]);
#pragma unroll
        for (u32 inner = 0; inner < SIDE; inner += 16) {
            u32 a[2][4], b[2][4];
#pragma unroll
            for (u32 m = 0; m < 2; m++) {
                const u32 row = inner + lane / 16 * 8 + lane % 8, column = (from_row + m * 16) / 8 + lane / 8 % 2;
                load_transposed(a[m], l + (row * 8 + (column ^ row % 8)) * 16);
            }
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
                const u32 row = inner + lane / 8 % 2 * 8 + lane % 8, column = (from_column + j * 16) / 8 + lane / 16;
                load_transposed(b[j], r + (row * 8 + (column ^ row % 8)) * 16);
            }
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    float(&c)[4] = sum[m][j];
                    const u32 b0 = b[j / 2][j % 2 * 2], b1 = b[j / 2][j % 2 * 2 + 1];
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                                 : "r"(a[m][0]), "r"(a[m][1]), "r"(a[m][2]), "r"(a[m][3]), "r"(b0), "r"(b1));
                }
        }
        __syncthreads();
    }

    float over_norm = 1.0f;
    if (muon.first && muon.kind != POLYNOMIAL) {
        const u32 tiles = rows / SIDE * (columns / SIDE);
        float all = 0.0f;
        for (u32 i = 0; i < tiles; i++) all += squares[at * tiles + i];
        over_norm = all == all ? 1.0f / fmaxf(sqrtf(all), 1e-18f) : all;
    }
    const u32 in = hidden.inputs[layer], out = hidden.outputs[layer];
    const bool tall = in >= out;
    float rate = muon.rate * sqrtf(fmaxf((float)out / (float)in, 1.0f));
    if (adam.decay_steps) rate *= 0.5f * (1.0f + cosf(PI * fminf((float)(*step - 1) / (float)adam.decay_steps, 1.0f)));
    float *weights = params + (u64)member * hidden.stride + hidden.offsets[layer];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const u32 row = first_row + from_row + m * 16 + h * 8 + g, column = first_column + from_column + j * 8 + 2 * t;
                float x = sum[m][j][2 * h], y = sum[m][j][2 * h + 1];
                if (muon.kind == GRAM) {
                    x *= over_norm * over_norm, y *= over_norm * over_norm;
                } else if (muon.kind == POLYNOMIAL) {
                    const u32 linear = *(const u32 *)(gram + small + row * columns + column);
                    x = muon.b * low_float(linear) + muon.c * x, y = muon.b * high_float(linear) + muon.c * y;
                } else {
                    const u32 linear = *(const u32 *)(matrix + large + row * columns + column);
                    x = over_norm * (muon.a * low_float(linear) + x), y = over_norm * (muon.a * high_float(linear) + y);
                }
                if (muon.kind == STEP) {
                    const u32 end_row = tall ? in : out, end_column = tall ? out : in;
                    const u32 down = tall ? out : 1, right_of = tall ? 1 : out;
                    if (row < end_row && column < end_column) weights[row * down + column * right_of] -= rate * x;
                    if (row < end_row && column + 1 < end_column) weights[row * down + (column + 1) * right_of] -= rate * y;
                    continue;
                }
                unsigned short *to = muon.kind == GRAM ? gram + small : muon.kind == POLYNOMIAL ? polynomial + small : next + large;
                unsigned short *mirrored = symmetric ? to : next_transpose + large;
                const u32 both = two_bfloats(x, y);
                *(u32 *)(to + row * columns + column) = both;
                if (!symmetric || tile_row != tile_column) {
                    mirrored[column * left_width + row] = low_bfloat(both);
                    mirrored[(column + 1) * left_width + row] = high_bfloat(both);
                }
            }
}
