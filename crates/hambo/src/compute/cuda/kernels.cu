// Everything that is not a matrix product. Each kernel is the one of the same name in compute/cpu, one thread
// an element or a row; sums are taken in an order that depends on the sizes alone.

#define HALF_LOG_TAU 0.9189385332f
#define PI 3.14159265358979f
#define TAU 6.28318530717959f
#define LN_2 0.6931471805599453f
#define INFINITE __int_as_float(0x7f800000)
#define LARGEST 3.402823466e38f
#define KERNEL extern "C" __global__ void
#define EACH(i, n)                                 \
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i >= (n)) return;

__device__ __forceinline__ bool finite(float x) { return fabsf(x) < INFINITE; }

// ---- Random numbers -------------------------------------------------------------------------------------------

__device__ __forceinline__ uint4 philox(uint4 c, u32 key0, u32 key1) {
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const u32 high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        const u32 high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

__device__ __forceinline__ float unit(u32 bits) { return ((float)(bits >> 8) + 0.5f) * (1.0f / 16777216.0f); }

__device__ __forceinline__ float2 normal_pair(u32 a, u32 b) {
    const float radius = sqrtf(-2.0f * logf(unit(a)));
    float sine, cosine;
    sincosf(TAU * unit(b), &sine, &cosine);
    return make_float2(radius * cosine, radius * sine);
}

KERNEL uniform_indices(u32 n, u32 *out, u32 key0, u32 key1, const u32 *step, u32 below) {
    in_order();
    EACH(block, (n + 3) / 4);
    const uint4 bits = philox(make_uint4(block, *step, 0, 3), key0, key1);
    const u32 each[4] = {bits.x, bits.y, bits.z, bits.w};
    for (u32 j = 0; j < 4 && 4 * block + j < n; j++) out[4 * block + j] = __umulhi(each[j], below);
}

KERNEL normals(u32 n, float *out, u32 key0, u32 key1, const u32 *step) {
    in_order();
    EACH(block, (n + 3) / 4);
    const uint4 bits = philox(make_uint4(block, *step, 0, 4), key0, key1);
    const float2 a = normal_pair(bits.x, bits.y), b = normal_pair(bits.z, bits.w);
    const float each[4] = {a.x, a.y, b.x, b.y};
    for (u32 j = 0; j < 4 && 4 * block + j < n; j++) out[4 * block + j] = each[j];
}

// ---- Moving numbers -------------------------------------------------------------------------------------------

KERNEL advance(u32 *counter, u32 by) { in_order(); *counter += by; }

KERNEL fill_at(u32 n, float *out, const float *values, const u32 *step) {
    in_order();
    EACH(i, n);
    out[i] = values[*step];
}

// Words of one part of several, by the step.
KERNEL load_at(u32 n, u32 *out, const u32 *parts, const u32 *step, u32 ahead) {
    in_order();
    EACH(i, n);
    out[i] = parts[(u64)(*step + ahead) * n + i];
}

KERNEL store_at(u32 n, const u32 *from, const u32 *step, u32 behind, u64 start, u32 *parts) {
    in_order();
    EACH(i, n);
    parts[start + (u64)(*step - behind) * n + i] = from[i];
}

KERNEL gather(u32 n, u32 *out, const u32 *from, u32 width, const u32 *indices) {
    in_order();
    EACH(i, n);
    out[i] = from[(u64)indices[i / width] * width + i % width];
}

KERNEL join(u32 n, float *out, u32 width, const float *a, u32 wa, const float *b, u32 wb, const float *c, u32 wc) {
    in_order();
    EACH(i, n);
    const u32 row = i / width, column = i % width;
    out[i] = column < wa        ? a[row * wa + column]
             : column < wa + wb ? b[row * wb + column - wa]
                                : c[row * wc + column - wa - wb];
}

KERNEL add(u32 n, float *to, const float *from) {
    in_order();
    EACH(i, n);
    to[i] += from[i];
}

// The sum of `parts` arrays that lie one after the other.
KERNEL sum_parts(u32 n, float *out, const float *parts, u32 count) {
    in_order();
    EACH(i, n);
    float sum = parts[i];
    for (u32 p = 1; p < count; p++) sum += parts[(u64)p * n + i];
    out[i] = sum;
}

KERNEL scale_columns(u32 n, float *values, u32 width, const float *factors) {
    in_order();
    EACH(i, n);
    values[i] *= factors[i % width];
}

KERNEL polyak(u32 n, float *target, const float *params, float rate) {
    in_order();
    EACH(i, n);
    target[i] += rate * (params[i] - target[i]);
}

// ---- Sums over a block ----------------------------------------------------------------------------------------

template <class T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
    for (int other = 16; other; other /= 2) v += __shfl_xor_sync(0xffffffffu, v, other);
    return v;
}

// The sum over all threads of a block, known to all of them.
template <class T> __device__ __forceinline__ T block_sum(T v) {
    __shared__ T sums[33];
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        T all = warp_sum(threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : (T)0);
        if (threadIdx.x == 0) sums[32] = all;
    }
    __syncthreads();
    return sums[32];
}

// ---- Optimisers -----------------------------------------------------------------------------------------------

struct Adam {
    float rate, beta1, beta2, epsilon;
    float log_beta1, log_beta2;
    u32 decay_steps; // 0: none
};

struct Moments {
    float rate, second;
};

__device__ __forceinline__ Moments moments_at(const Adam &adam, u32 step) {
    float rate = adam.rate;
    if (adam.decay_steps) rate *= 0.5f * (1.0f + cosf(PI * fminf((float)step / (float)adam.decay_steps, 1.0f)));
    const float t = (float)step + 1.0f;
    return {rate / -expm1f(t * adam.log_beta1), 1.0f / -expm1f(t * adam.log_beta2)};
}

__device__ __forceinline__ void adam_update(const Adam &adam, const Moments &at, float g, float &p, float &m, float &v) {
    m = adam.beta1 * m + (1.0f - adam.beta1) * g;
    v = adam.beta2 * v + (1.0f - adam.beta2) * g * g;
    p -= at.rate * m / (sqrtf(v * at.second) + adam.epsilon);
}

// The step, which the last block to ask for it counts. `ticket` is 0 before and after. One thread asks for all of its
// block, since a barrier does not wait for loads under way: another block might count before they arrive.
__device__ __forceinline__ u32 take_step(u32 *step, u32 *ticket) {
    __shared__ u32 now;
    if (threadIdx.x == 0) {
        const u32 found = *(volatile u32 *)step;
        now = found;
        __threadfence();
        if (atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1) *step = found + 1;
    }
    __syncthreads();
    return now;
}

KERNEL adam(u32 n, float *params, const float *gradient, float *m, float *v, Adam adam, u32 *step, u32 *ticket) {
    in_order();
    const u32 now = take_step(step, ticket);
    EACH(i, n);
    const Moments at = moments_at(adam, now);
    float p = params[i], first = m[i], second = v[i];
    adam_update(adam, at, gradient[i], p, first, second);
    params[i] = p;
    m[i] = first;
    v[i] = second;
}

struct Svgd {
    float length_scale; // 0: the median heuristic
    float prior, scale;
};

// Squared distances of all pairs of particles, a block for each pair and part of the parameters; the last block to
// finish turns them into the weights with which gradients and parameters enter the direction. `weights` holds two
// [members, members] matrices, `partials` [pairs, parts], `ticket` a zero.
KERNEL svgd_weights(u32 n, u32 members, const float *params, Svgd svgd, double *partials, u32 *ticket, float *weights) {
    in_order();
    const u32 parts = gridDim.x, pairs = gridDim.y;
    u32 i = 1, j = blockIdx.y;
    while (j >= i) j -= i++;
    const float *a = params + (u64)i * n, *b = params + (u64)j * n;
    float sum = 0.0f;
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x, stride = parts * blockDim.x;
    if (n % 4 == 0) {
#pragma unroll 4
        for (u32 c = first; c < n / 4; c += stride) {
            const float4 x = ((const float4 *)a)[c], y = ((const float4 *)b)[c];
            sum += (x.x - y.x) * (x.x - y.x) + (x.y - y.y) * (x.y - y.y) + (x.z - y.z) * (x.z - y.z) +
                   (x.w - y.w) * (x.w - y.w);
        }
    } else {
        for (u32 c = first; c < n; c += stride) sum += (a[c] - b[c]) * (a[c] - b[c]);
    }
    const double all = block_sum((double)sum);
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partials[blockIdx.y * parts + blockIdx.x] = all;
        __threadfence();
        last = atomicInc(ticket, parts * pairs - 1) == parts * pairs - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    extern __shared__ double distances[]; // [pairs], then the same in order
    for (u32 p = threadIdx.x; p < pairs; p += blockDim.x) {
        double d = 0.0;
        for (u32 part = 0; part < parts; part++) d += __ldcg(partials + p * parts + part);
        distances[p] = d;
    }
    __syncthreads();
    double length_scale = svgd.length_scale;
    if (svgd.length_scale == 0.0f) { // exp(-median / 2l) = 1 / K
        double *sorted = distances + pairs;
        for (u32 p = threadIdx.x; p < pairs; p += blockDim.x) {
            u32 rank = 0;
            for (u32 q = 0; q < pairs; q++) rank += distances[q] < distances[p] || (distances[q] == distances[p] && q < p);
            sorted[rank] = distances[p];
        }
        __syncthreads();
        const double median = 0.5 * (sorted[(pairs - 1) / 2] + sorted[pairs / 2]);
        length_scale = fmax(median / (2.0 * log((double)members)), 2.2250738585072014e-308);
    }
    const double over_members = 1.0 / members;
    for (u32 row = threadIdx.x; row < members; row += blockDim.x) {
        double others = 0.0;
        for (u32 column = 0; column < members; column++) {
            if (column == row) continue;
            const u32 high = max(row, column), low = min(row, column);
            const double k = exp(-distances[high * (high - 1) / 2 + low] / (2.0 * length_scale));
            others += k;
            weights[row * members + column] = (float)(over_members * k * svgd.scale);
            weights[members * members + row * members + column] =
                (float)(over_members * k * (svgd.prior + 1.0 / length_scale));
        }
        weights[row * members + row] = (float)(over_members * svgd.scale);
        weights[members * members + row * members + row] =
            (float)(over_members * (svgd.prior - others / length_scale));
    }
}

// Each particle follows its own gradient.
KERNEL svgd_alone(u32 members, Svgd svgd, float *weights) {
    in_order();
    EACH(i, members * members);
    const bool own = i / members == i % members;
    weights[i] = own ? svgd.scale : 0.0f;
    weights[members * members + i] = own ? svgd.prior : 0.0f;
}

KERNEL svgd_direction(u32 n, u32 members, const float *params, const float *gradient, const float *weights, float *out) {
    in_order();
    EACH(c, n);
    for (u32 i = 0; i < members; i++) {
        float sum = 0.0f;
        for (u32 j = 0; j < members; j++)
            sum += weights[i * members + j] * gradient[(u64)j * n + c] +
                   weights[(members + i) * members + j] * params[(u64)j * n + c];
        out[(u64)i * n + c] = sum;
    }
}

template <int K>
__device__ __forceinline__ void svgd_adam(u32 n, float *params, const float *gradient, float *m, float *v, const Adam &adam,
                                          u32 *step, u32 *ticket, const float *weights) {
    const u32 c = blockIdx.x * blockDim.x + threadIdx.x;
    float p[K], g[K], first[K], second[K];
    if (c < n) {
#pragma unroll
        for (int k = 0; k < K; k++) {
            const u64 at = (u64)k * n + c;
            p[k] = params[at];
            g[k] = gradient[at];
            first[k] = m[at];
            second[k] = v[at];
        }
    }
    const u32 now = take_step(step, ticket);
    if (c >= n) return;
    const Moments at = moments_at(adam, now);
#pragma unroll
    for (int i = 0; i < K; i++) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < K; j++) sum += weights[i * K + j] * g[j] + weights[(K + i) * K + j] * p[j];
        const u64 to = (u64)i * n + c;
        float moved = p[i];
        adam_update(adam, at, sum, moved, first[i], second[i]);
        params[to] = moved;
        m[to] = first[i];
        v[to] = second[i];
    }
}

#define SVGD_ADAM(K)                                                                                                   \
    KERNEL svgd_adam_##K(u32 n, float *params, const float *gradient, float *m, float *v, Adam adam, u32 *step,       \
                         u32 *ticket, const float *weights) {                                                          \
        in_order();                                                                                                   \
        svgd_adam<K>(n, params, gradient, m, v, adam, step, ticket, weights);                                          \
    }
SVGD_ADAM(1)
SVGD_ADAM(2)
SVGD_ADAM(3)
SVGD_ADAM(4)
SVGD_ADAM(5)
SVGD_ADAM(6)
SVGD_ADAM(7)
SVGD_ADAM(8)

// One block a member.
KERNEL clip_norm(u32 n, float *values, float limit) {
    in_order();
    float *part = values + (u64)blockIdx.x * n;
    double sum = 0.0;
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) sum += (double)part[i] * part[i];
    const double norm = sqrt(block_sum(sum));
    if (norm > limit) {
        const float factor = (float)(limit / norm);
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) part[i] *= factor;
    }
}

// ---- Gaussian heads -------------------------------------------------------------------------------------------

__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// fmaxf would make a number of NaN.
__device__ __forceinline__ float head_std(float raw, float floor) {
    return raw != raw ? raw : softplus(raw) + floor;
}

// A row of blocks a member; the last of them to finish adds up what all found.
KERNEL gaussian_nll(u32 rows, u32 dims, float floor, const float *output, const float *targets, float *d_output, float weight,
                    double *losses, double *partials, u32 *tickets) {
    in_order();
    const u32 n = rows * dims, member = blockIdx.y;
    const float over_rows = 1.0f / (float)rows;
    double loss = 0.0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const u32 row = i / dims, c = i % dims;
        const u64 at = ((u64)member * rows + row) * 2 * dims + c;
        const float raw = output[at + dims];
        const float std = head_std(raw, floor);
        const float z = (targets[i] - output[at]) / std;
        const float log_std = logf(std);
        loss += 0.5f * z * z + log_std + HALF_LOG_TAU;
        if (d_output) {
            const float scale = (weight == 0.0f ? 1.0f : expf(2.0f * weight * log_std)) / std * over_rows;
            d_output[at] = -z * scale;
            d_output[at + dims] = (1.0f - z * z) * scale * sigmoid(raw);
        }
    }
    loss = block_sum(loss);
    if (threadIdx.x) return;
    partials[member * gridDim.x + blockIdx.x] = loss;
    __threadfence();
    if (atomicInc(tickets + member, gridDim.x - 1) != gridDim.x - 1) return;
    __threadfence();
    loss = 0.0;
    for (u32 i = 0; i < gridDim.x; i++) loss += __ldcg(partials + member * gridDim.x + i);
    losses[member] = loss / rows;
}

struct Mixture {
    float mean, epistemic, aleatoric;
};

__device__ __forceinline__ Mixture mixture(const float *output, u32 members, u32 rows, u32 row, u32 dims, u32 c, float floor) {
    const u64 stride = (u64)rows * 2 * dims, at = (u64)row * 2 * dims + c;
    const float first = output[at];
    float shift = 0.0f, aleatoric = 0.0f;
    for (u32 k = 0; k < members; k++) {
        shift += output[k * stride + at] - first;
        const float std = head_std(output[k * stride + at + dims], floor);
        aleatoric += std * std;
    }
    const float over_members = 1.0f / (float)members;
    const float mean = first + shift * over_members;
    float epistemic = 0.0f;
    for (u32 k = 0; k < members; k++) {
        const float d = output[k * stride + at] - mean;
        epistemic += d * d;
    }
    return {mean, epistemic * over_members, aleatoric * over_members};
}

KERNEL moments(u32 rows, u32 dims, float floor, u32 members, const float *output, float *mean, float *epistemic, float *aleatoric) {
    in_order();
    EACH(i, rows * dims);
    const Mixture m = mixture(output, members, rows, i / dims, dims, i % dims, floor);
    mean[i] = m.mean;
    epistemic[i] = m.epistemic;
    aleatoric[i] = m.aleatoric;
}

// ---- Trajectories ---------------------------------------------------------------------------------------------

KERNEL standardize(u32 rows, const float *states, u32 ds, const float *actions, u32 da, const float *mean, const float *std, float *out) {
    in_order();
    const u32 width = ds + da;
    EACH(i, rows * width);
    const u32 row = i / width, c = i % width;
    const float x = c < ds ? states[row * ds + c] : actions[row * da + c - ds];
    out[i] = (x - mean[c]) / std[c];
}

KERNEL standardize_gradient(u32 rows, u32 members, const float *d_inputs, const float *std, float *d_states, u32 ds, float *d_actions, u32 da) {
    in_order();
    const u32 width = ds + da;
    EACH(i, rows * width);
    const u32 row = i / width, c = i % width;
    float *to = c < ds ? d_states + row * ds + c : d_actions + row * da + c - ds;
    float sum = *to;
    for (u32 k = 0; k < members; k++) sum += d_inputs[((u64)k * rows + row) * width + c] / std[c];
    *to = sum;
}

enum { STEP_MEAN, STEP_MOMENTS, STEP_CHOSEN, STEP_SHIFTED, STEP_OWN };

struct Reach {
    float reach, slope;
};

// Width of the confidence set and its derivative by the variance.
__device__ __forceinline__ Reach reach(u32 variance_itself, float variance) {
    if (variance_itself) return {variance, 1.0f};
    const float std = sqrtf(variance);
    return {std, std > 0.0f ? 0.5f / std : 0.0f};
}

KERNEL propagate(u32 rows, u32 ds, u32 dims, float floor, u32 members, u32 step, const float *output, const float *scale,
                 const float *offset, u32 relative, const float *states, float *next, const float *noise, u32 noises,
                 const u32 *chosen, const float *amount, u32 variance_itself) {
    in_order();
    EACH(i, rows * ds);
    const u32 row = i / ds, c = i % ds;
    float target;
    if (step == STEP_CHOSEN || step == STEP_OWN) {
        const u64 at = ((u64)(step == STEP_CHOSEN ? chosen[row] : 0) * rows + row) * 2 * dims + c;
        target = output[at] + head_std(output[at + dims], floor) * noise[i % noises];
    } else {
        const Mixture m = mixture(output, members, rows, row, dims, c, floor);
        target = m.mean;
        if (step == STEP_MOMENTS) target += sqrtf(m.epistemic + m.aleatoric) * noise[i % noises];
        if (step == STEP_SHIFTED)
            target += amount[i] * reach(variance_itself, m.epistemic).reach + sqrtf(m.aleatoric) * noise[i % noises];
    }
    next[i] = (relative ? states[i] : 0.0f) + offset[c] + scale[c] * target;
}

KERNEL shift_gradient(u32 rows, u32 ds, u32 dims, float floor, u32 members, const float *output, const float *scale,
                      const float *d_next, const float *noise, u32 noises, const float *amount, u32 variance_itself,
                      float *d_output, float *d_amount) {
    in_order();
    EACH(i, rows * ds);
    const u32 row = i / ds, c = i % ds;
    const Mixture m = mixture(output, members, rows, row, dims, c, floor);
    const Reach r = reach(variance_itself, m.epistemic);
    const float g = d_next[i] * scale[c];
    d_amount[i] = g * r.reach;
    const float spread = m.epistemic > 0.0f ? g * amount[i] * r.slope * 2.0f : 0.0f;
    const float noisy = g * noise[i % noises] / sqrtf(m.aleatoric);
    const float over_members = 1.0f / (float)members;
    for (u32 k = 0; k < members; k++) {
        const u64 at = ((u64)k * rows + row) * 2 * dims + c;
        const float raw = output[at + dims];
        d_output[at] = (g + spread * (output[at] - m.mean)) * over_members;
        d_output[at + dims] = noisy * head_std(raw, floor) * sigmoid(raw) * over_members;
    }
}

enum { RUNNING, ENDED, DIVERGED };

__device__ __forceinline__ float saturating(float sum) { return fminf(fmaxf(sum, -LARGEST), LARGEST); }

// A warp a row.
KERNEL account(u32 rows, u32 ds, const float *discounts, const u32 *step, const float *rewards, const float *ended, float *states, const float *next,
               float *returns, float *lowest, u32 *status) {
    in_order();
    EACH(i, 32 * rows);
    const u32 row = i / 32, lane = i % 32;
    const u32 was = status[row];
    if (was == ENDED) return;
    const float reward = rewards[row], low = lowest[row], sum = returns[row], discount = discounts[*step];
    bool sound = was == RUNNING && finite(reward);
    const bool paid = sound;
    for (u32 c = lane; c < ds; c += 32) sound &= finite(next[row * ds + c]);
    sound = __all_sync(0xffffffffu, sound);
    if (sound)
        for (u32 c = lane; c < ds; c += 32) states[row * ds + c] = next[row * ds + c];
    if (lane) return;
    if (paid) lowest[row] = fminf(low, reward);
    returns[row] = saturating(sum + discount * (paid ? reward : finite(low) ? low : -LARGEST));
    if (!sound) status[row] = DIVERGED;
    else if (ended && ended[row] != 0.0f) status[row] = ENDED;
}

KERNEL still_running(u32 rows, u32 width, float *values, const u32 *status) {
    in_order();
    EACH(row, rows);
    bool keep = status[row] == RUNNING;
    for (u32 c = 0; c < width; c++) keep &= finite(values[row * width + c]);
    if (!keep)
        for (u32 c = 0; c < width; c++) values[row * width + c] = 0.0f;
}

KERNEL clamp(u32 n, float *values, u32 width, const float *low, const float *high) {
    in_order();
    EACH(i, n);
    float v = values[i]; // comparisons keep NaN, fminf would not
    v = v < low[i % width] ? low[i % width] : v;
    values[i] = v > high[i % width] ? high[i % width] : v;
}

KERNEL clamp_gradient(u32 n, float *d_values, const float *values, u32 width, const float *low, const float *high) {
    in_order();
    EACH(i, n);
    if (values[i] <= low[i % width] || values[i] >= high[i % width]) d_values[i] = 0.0f;
}

KERNEL normalize(u32 n, float *out, const float *values, u32 width, const double *mean, const double *std, double limit) {
    in_order();
    EACH(i, n);
    double x = ((double)values[i] - mean[i % width]) / std[i % width];
    x = x < -limit ? -limit : x;
    out[i] = (float)(x > limit ? limit : x);
}

KERNEL normalize_gradient(u32 n, float *d_values, const float *out, const float *d_out, u32 width, const double *std, float limit) {
    in_order();
    EACH(i, n);
    if (fabsf(out[i]) < limit) d_values[i] += (float)((double)d_out[i] / std[i % width]);
}

KERNEL squash_to_bounds(u32 n, float *values, u32 width, const float *low, const float *high, float limit) {
    in_order();
    EACH(i, n);
    float x = values[i] < -limit ? -limit : values[i];
    x = x > limit ? limit : x;
    values[i] = low[i % width] + 0.5f * (tanhf(x) + 1.0f) * (high[i % width] - low[i % width]);
}

KERNEL squash_to_bounds_gradient(u32 n, float *d_values, const float *values, u32 width, const float *low, const float *high, float limit) {
    in_order();
    EACH(i, n);
    const float t = tanhf(values[i]);
    const float slope = fabsf(values[i]) < limit ? 1.0f - t * t : 0.0f;
    d_values[i] *= 0.5f * (high[i % width] - low[i % width]) * slope;
}

// ---- Expressions ----------------------------------------------------------------------------------------------

// One instruction of a tape; the numbers are those of expression::tape.
struct Instruction {
    u32 kind, op, x, y, z; // z: the second choice of a selection; the bits of a constant are in x
};
enum { CONSTANT, INPUT, UNARY, BINARY, SELECT };
enum { NEGATE, NOT, ABS, SQRT, EXP, LOG, SIN, COS, TAN, ASIN, ACOS, ATAN, TANH, SIGMOID, SIGN, FLOOR, WRAP };
enum { PLUS, MINUS, TIMES, DIVIDE, POWER, ATAN2, MINIMUM, MAXIMUM, LESS, LESS_OR_EQUAL, EQUAL, AND, OR };
#define LONGEST_TAPE 256

struct Rows {
    const float *values[3];
    u32 widths[3];
};

__device__ __forceinline__ float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }
__device__ __forceinline__ bool second_is_minimum(float x, float y) { return y < x || y != y; }
__device__ __forceinline__ bool second_is_maximum(float x, float y) { return y > x || y != y; }

__device__ __noinline__ float unary(u32 op, float x) {
    switch (op) {
    case NEGATE: return -x;
    case NOT: return x == 0.0f;
    case ABS: return fabsf(x);
    case SQRT: return sqrtf(x);
    case EXP: return expf(x);
    case LOG: return logf(x);
    case SIN: return sinf(x);
    case COS: return cosf(x);
    case TAN: return tanf(x);
    case ASIN: return asinf(x);
    case ACOS: return acosf(x);
    case ATAN: return atanf(x);
    case TANH: return tanhf(x);
    case SIGMOID: return sigmoid(x);
    case SIGN: return sign(x);
    case FLOOR: return floorf(x);
    default: { // WRAP
        const float near = x - TAU * floorf((x + PI) / TAU);
        return near >= PI ? near - TAU : near < -PI ? near + TAU : near;
    }
    }
}

__device__ __noinline__ float binary(u32 op, float x, float y) {
    switch (op) {
    case PLUS: return x + y;
    case MINUS: return x - y;
    case TIMES: return x * y;
    case DIVIDE: return x / y;
    case POWER: return powf(x, y);
    case ATAN2: return atan2f(x, y);
    case MINIMUM: return second_is_minimum(x, y) ? y : x;
    case MAXIMUM: return second_is_maximum(x, y) ? y : x;
    case LESS: return x < y;
    case LESS_OR_EQUAL: return x <= y;
    case EQUAL: return x == y;
    case AND: return x != 0.0f && y != 0.0f;
    default: return x != 0.0f || y != 0.0f;
    }
}

__device__ __noinline__ float unary_slope(u32 op, float x, float value) {
    switch (op) {
    case NEGATE: return -1.0f;
    case ABS: return sign(x);
    case SQRT: return 0.5f / value;
    case EXP: return value;
    case LOG: return 1.0f / x;
    case SIN: return cosf(x);
    case COS: return -sinf(x);
    case TAN: return 1.0f + value * value;
    case ASIN: return 1.0f / sqrtf((1.0f - x) * (1.0f + x));
    case ACOS: return -1.0f / sqrtf((1.0f - x) * (1.0f + x));
    case ATAN: return 1.0f / (1.0f + x * x);
    case TANH: return (1.0f - value) * (1.0f + value);
    case SIGMOID: return value * (1.0f - value);
    case WRAP: return 1.0f;
    default: return 0.0f;
    }
}

__device__ __noinline__ float left_slope(u32 op, float x, float y) {
    switch (op) {
    case PLUS: case MINUS: return 1.0f;
    case TIMES: return y;
    case DIVIDE: return 1.0f / y;
    case POWER: return y * powf(x, y - 1.0f);
    case ATAN2: return y / (x * x + y * y);
    case MINIMUM: return !second_is_minimum(x, y);
    case MAXIMUM: return !second_is_maximum(x, y);
    default: return 0.0f;
    }
}

__device__ __noinline__ float right_slope(u32 op, float x, float y, float value) {
    switch (op) {
    case PLUS: return 1.0f;
    case MINUS: return -1.0f;
    case TIMES: return x;
    case DIVIDE: return -value / y;
    case POWER: return value * logf(x);
    case ATAN2: return -x / (x * x + y * y);
    case MINIMUM: return second_is_minimum(x, y);
    case MAXIMUM: return second_is_maximum(x, y);
    default: return 0.0f;
    }
}

// The tape, where all threads of a block read it fast.
__device__ __forceinline__ const Instruction *near_tape(const Instruction *tape, u32 length) {
    __shared__ Instruction near[LONGEST_TAPE];
    for (u32 i = threadIdx.x; i < length; i += blockDim.x) near[i] = tape[i];
    __syncthreads();
    return near;
}

__device__ __noinline__ void run_tape(const Instruction *tape, u32 length, const Rows &rows, u32 row, float *values) {
    for (u32 i = 0; i < length; i++) {
        const Instruction now = tape[i];
        switch (now.kind) {
        case CONSTANT: values[i] = __uint_as_float(now.x); break;
        case INPUT: values[i] = rows.values[now.op][row * rows.widths[now.op] + now.x]; break;
        case UNARY: values[i] = unary(now.op, values[now.x]); break;
        case BINARY: values[i] = binary(now.op, values[now.x], values[now.y]); break;
        default: values[i] = values[now.x] != 0.0f ? values[now.y] : values[now.z]; break;
        }
    }
}

KERNEL evaluate(u32 n, const Instruction *tape, u32 length, const u32 *outputs, u32 width, Rows rows, float *out) {
    in_order();
    tape = near_tape(tape, length);
    EACH(row, n);
    float values[LONGEST_TAPE];
    run_tape(tape, length, rows, row, values);
    for (u32 c = 0; c < width; c++) out[row * width + c] = values[outputs[c]];
}

// A derivative that is infinite or undefined counts as 0.
__device__ __forceinline__ void pass(float *adjoints, u32 to, float adjoint, float slope) {
    if (finite(slope)) adjoints[to] += adjoint * slope;
}

KERNEL evaluate_gradient(u32 n, const Instruction *tape, u32 length, const u32 *outputs, u32 width, Rows rows,
                         const float *d_out, float *d_states, float *d_actions, float *d_next) {
    in_order();
    tape = near_tape(tape, length);
    EACH(row, n);
    float values[LONGEST_TAPE], adjoints[LONGEST_TAPE];
    run_tape(tape, length, rows, row, values);
    for (u32 i = 0; i < length; i++) adjoints[i] = 0.0f;
    for (u32 c = 0; c < width; c++) adjoints[outputs[c]] += d_out[row * width + c];
    float *to[3] = {d_states, d_actions, d_next};
    for (u32 i = length; i-- > 0;) {
        const Instruction now = tape[i];
        const float g = adjoints[i];
        if (g == 0.0f) continue;
        switch (now.kind) {
        case CONSTANT: break;
        case INPUT:
            if (to[now.op]) to[now.op][row * rows.widths[now.op] + now.x] += g;
            break;
        case UNARY: pass(adjoints, now.x, g, unary_slope(now.op, values[now.x], values[i])); break;
        case BINARY:
            pass(adjoints, now.x, g, left_slope(now.op, values[now.x], values[now.y]));
            pass(adjoints, now.y, g, right_slope(now.op, values[now.x], values[now.y], values[i]));
            break;
        default: adjoints[values[now.x] != 0.0f ? now.y : now.z] += g; break;
        }
    }
}

// ---- Reinforcement learning -----------------------------------------------------------------------------------

#define LOWEST_LOG_STD -20.0f
#define HIGHEST_LOG_STD 2.0f

// One warp a row.
KERNEL squash(u32 rows, u32 dims, const float *output, const float *noise, float *actions, float *log_probs) {
    in_order();
    const u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (u32 c = threadIdx.x % 32; c < dims; c += 32) {
        const float raw = output[row * 2 * dims + dims + c], e = noise[row * dims + c];
        const float log_std = fminf(fmaxf(raw, LOWEST_LOG_STD), HIGHEST_LOG_STD);
        const float u = output[row * 2 * dims + c] + expf(log_std) * e;
        actions[row * dims + c] = tanhf(u);
        // ln(1 - tanh^2 u) = 2 (ln 2 - |u| - ln(1 + e^(-2|u|)))
        sum -= 0.5f * e * e + log_std + HALF_LOG_TAU + 2.0f * (LN_2 - fabsf(u) - log1pf(expf(-2.0f * fabsf(u))));
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) log_probs[row] = sum;
}

KERNEL squash_gradient(u32 rows, u32 dims, const float *output, const float *noise, const float *actions, u32 critics,
                       const float *d_inputs, u32 width, const float *log_temperature, float *d_output) {
    in_order();
    EACH(i, rows * dims);
    const u32 row = i / dims, c = i % dims;
    float d_action = 0.0f;
    for (u32 k = 0; k < critics; k++) d_action += d_inputs[((u64)k * rows + row) * width + width - dims + c];
    const float d_log_prob = expf(*log_temperature) / (float)rows;
    const float action = actions[i], raw = output[row * 2 * dims + dims + c];
    const float d_u = d_action * (1.0f - action * action) + d_log_prob * 2.0f * action;
    const bool free = raw > LOWEST_LOG_STD && raw < HIGHEST_LOG_STD;
    d_output[row * 2 * dims + c] = d_u;
    d_output[row * 2 * dims + dims + c] = free ? d_u * expf(raw) * noise[i] - d_log_prob : 0.0f;
}

// The critic with the lowest of its values [critics, rows] of a row; the first of equals.
__device__ __forceinline__ u32 lowest_of(const float *values, u32 critics, u32 rows, u32 row) {
    u32 lowest = 0;
    for (u32 k = 1; k < critics; k++)
        if (values[k * rows + row] < values[lowest * rows + row]) lowest = k;
    return lowest;
}

KERNEL td_target(u32 rows, float discount, const float *rewards, const float *continues, u32 critics, const float *values,
                 const float *log_probs, const float *log_temperature, float *targets) {
    in_order();
    EACH(row, rows);
    const float value = values[lowest_of(values, critics, rows, row) * rows + row];
    const float soft_value = value - expf(*log_temperature) * log_probs[row];
    targets[row] = rewards[row] + discount * continues[row] * soft_value;
}

// One block a critic.
KERNEL squared_error(u32 rows, const float *values, const float *targets, float *d_values, double *losses) {
    in_order();
    const float slope = 2.0f / (float)rows;
    double sum = 0.0;
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
        const float error = values[blockIdx.x * rows + row] - targets[row];
        d_values[blockIdx.x * rows + row] = slope * error;
        sum += error * error;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) losses[blockIdx.x] = sum / rows;
}

// One block.
KERNEL actor_loss(u32 rows, u32 critics, const float *values, const float *log_probs, const float *log_temperature,
                  float *d_values, double *losses) {
    in_order();
    const float temperature = expf(*log_temperature);
    double loss = 0.0, log_prob = 0.0;
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
        const u32 low = lowest_of(values, critics, rows, row);
        for (u32 k = 0; k < critics; k++) d_values[k * rows + row] = k == low ? -1.0f / (float)rows : 0.0f;
        loss += temperature * log_probs[row] - values[low * rows + row];
        log_prob += log_probs[row];
    }
    loss = block_sum(loss);
    log_prob = block_sum(log_prob);
    if (threadIdx.x == 0) {
        losses[0] = loss / rows;
        losses[1] = log_prob / rows;
    }
}

KERNEL temperature_gradient(float target_entropy, const double *losses, const float *log_temperature, float *gradient) {
    in_order();
    *gradient = -expf(*log_temperature) * ((float)losses[1] + target_entropy);
}

// The first of the options with the highest sum over networks; values [networks, rows, options].
__device__ __forceinline__ u32 best_of(const float *values, u32 networks, u32 rows, u32 row, u32 options, float *sum) {
    u32 best = 0;
    float high = 0.0f;
    for (u32 k = 0; k < options; k++) {
        float value = 0.0f;
        for (u32 q = 0; q < networks; q++) value += values[((u64)q * rows + row) * options + k];
        if (k == 0 || value > high) {
            best = k;
            high = value;
        }
    }
    *sum = high;
    return best;
}

KERNEL choose(u32 rows, u32 networks, const float *values, u32 options, float epsilon, u32 key0, u32 key1, const u32 *step, u32 *choices) {
    in_order();
    EACH(row, rows);
    const uint4 bits = philox(make_uint4(row, *step, 0, 5), key0, key1);
    float sum;
    choices[row] = unit(bits.x) < epsilon ? __umulhi(bits.y, options) : best_of(values, networks, rows, row, options, &sum);
}

// scores [rows, options]; all others [options, rows].
KERNEL look_ahead(u32 rows, u32 options, float scale, const float *discounts, const u32 *step, const float *rewards,
                  const float *ended, u32 networks, const float *values, float *scores) {
    in_order();
    EACH(i, rows * options);
    const u32 at = i % options * rows + i / options;
    float sum;
    best_of(values, networks, rows * options, at, options, &sum);
    scores[i] = scale * rewards[at] + (ended[at] == 0.0f ? discounts[*step] : 0.0f) * sum / (float)networks;
}

KERNEL double_q_target(u32 rows, u32 options, float discount, const float *rewards, const float *continues, u32 networks,
                       const float *online, const float *target, float *targets) {
    in_order();
    EACH(row, rows);
    float sum, value = INFINITE;
    const u32 best = best_of(online, 1, rows, row, options, &sum);
    for (u32 q = 0; q < networks; q++) value = fminf(value, target[((u64)q * rows + row) * options + best]);
    targets[row] = rewards[row] + discount * continues[row] * value;
}

// One block a network.
KERNEL choice_error(u32 rows, u32 options, const float *values, const u32 *choices, const float *targets, float *d_values, double *losses) {
    in_order();
    const float slope = 2.0f / (float)rows;
    double sum = 0.0;
    for (u32 row = threadIdx.x; row < rows; row += blockDim.x) {
        const u64 at = ((u64)blockIdx.x * rows + row) * options;
        const float error = values[at + choices[row]] - targets[row];
        for (u32 k = 0; k < options; k++) d_values[at + k] = k == choices[row] ? slope * error : 0.0f;
        sum += error * error;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) losses[blockIdx.x] = sum / rows;
}

// ---- Policies that draw their actions -------------------------------------------------------------------------

KERNEL add_scaled_columns(u32 n, float *to, const float *from, u32 width, const float *factors) {
    in_order();
    EACH(i, n);
    to[i] += factors[i % width] * from[i];
}

__device__ __forceinline__ float limited_log_std(float raw) { return fminf(fmaxf(raw, LOWEST_LOG_STD), HIGHEST_LOG_STD); }

KERNEL deviate_by_logs(u32 n, u32 dims, const float *output, const float *noise, float *values) {
    in_order();
    EACH(i, n);
    const u32 at = i / dims * 2 * dims + i % dims;
    values[i] = output[at] + expf(limited_log_std(output[at + dims])) * noise[i];
}

KERNEL deviate_by_logs_gradient(u32 n, u32 dims, const float *output, const float *noise, const float *d_values, float *d_output) {
    in_order();
    EACH(i, n);
    const u32 at = i / dims * 2 * dims + i % dims;
    const float raw = output[at + dims];
    const bool free = raw > LOWEST_LOG_STD && raw < HIGHEST_LOG_STD;
    d_output[at] = d_values[i];
    d_output[at + dims] = free ? d_values[i] * expf(raw) * noise[i] : 0.0f;
}

KERNEL deviate_by_features(u32 n, u32 dims, u32 width, const float *features, const float *variances, float floor,
                           const float *noise, float *values) {
    in_order();
    EACH(i, n);
    const u32 row = i / dims, c = i % dims;
    float variance = floor;
    for (u32 f = 0; f < width; f++) variance += features[row * width + f] * features[row * width + f] * variances[f * dims + c];
    values[i] += sqrtf(variance) * noise[i];
}
