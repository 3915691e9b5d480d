// What several files of kernels use. Each kernel is the one of the same name in backend/cpu, one thread an element or a
// row; sums are taken in an order that depends on the sizes alone. Files are compiled for themselves, at the same time.

#define HALF_LOG_TAU 0.9189385332f
#define PI 3.14159265358979f
#define TAU 6.28318530717959f
#define INFINITE __int_as_float(0x7f800000)
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

// Number n of those that `normals` draws at a step.
__device__ __forceinline__ float normal_at(u32 n, u32 step, u32 key0, u32 key1) {
    const uint4 bits = philox(make_uint4(n / 4, step, 0, 4), key0, key1);
    const bool front = n % 4 < 2;
    const float2 pair = normal_pair(front ? bits.x : bits.z, front ? bits.y : bits.w);
    return n % 2 ? pair.y : pair.x;
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

// ---- Optimizers -----------------------------------------------------------------------------------------------

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

// Weights of hidden layers that move by Muon, in every member.
struct HiddenWeights {
    u32 count, stride; // of layers; from one member to the next
    float momentum;
    u32 offsets[16], inputs[16], outputs[16];
};

// Adam's step of a member's parameter c; of one that moves by Muon only the sum m of gradients and the direction v.
__device__ __forceinline__ void update(const HiddenWeights &hidden, u32 c, const Adam &adam, const Moments &at, float g, float &p, float &m, float &v) {
    for (u32 i = 0; i < hidden.count; i++) {
        if (c - hidden.offsets[i] < hidden.inputs[i] * hidden.outputs[i]) {
            m = hidden.momentum * m + g;
            v = g + hidden.momentum * m;
            return;
        }
    }
    adam_update(adam, at, g, p, m, v);
}

// The step, which the last block to ask for it counts. `ticket` is 0 before and after. One thread asks for all of its
// block, since a barrier does not wait for loads under way: another block might count before they arrive.
__device__ __forceinline__ u32 take_step(u32 *step, u32 *ticket) {
    __shared__ u32 now;
    if (threadIdx.x == 0) {
        const u32 found = *(volatile u32 *)step;
        now = found;
        __threadfence();
        const u32 last = gridDim.x * gridDim.y - 1;
        if (atomicInc(ticket, last) == last) *step = found + 1;
    }
    __syncthreads();
    return now;
}

// ---- Gaussian heads -------------------------------------------------------------------------------------------

__device__ __forceinline__ float softplus(float x) { return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))); }
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// fmaxf would make a number of NaN.
__device__ __forceinline__ float head_std(float raw, float floor) {
    return raw != raw ? raw : softplus(raw) + floor;
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

// ---- Trajectories ---------------------------------------------------------------------------------------------

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

// How the prediction for a number of a row is drawn: kind of step, member for those that have one, shift for those that do.
struct Drawn {
    u32 step, member, variance_itself;
    float amount, noise;
};

// The prediction, in the members' units.
__device__ __forceinline__ float predicted(const Drawn &drawn, const float *output, u32 members, u32 rows, u32 row, u32 dims, u32 c,
                                           float floor) {
    if (drawn.step == STEP_CHOSEN || drawn.step == STEP_OWN) {
        const u64 at = ((u64)drawn.member * rows + row) * 2 * dims + c;
        return output[at] + head_std(output[at + dims], floor) * drawn.noise;
    }
    const Mixture m = mixture(output, members, rows, row, dims, c, floor);
    float target = m.mean;
    if (drawn.step == STEP_MOMENTS) target += sqrtf(m.epistemic + m.aleatoric) * drawn.noise;
    if (drawn.step == STEP_SHIFTED)
        target += drawn.amount * reach(drawn.variance_itself, m.epistemic).reach + sqrtf(m.aleatoric) * drawn.noise;
    return target;
}

enum { RUNNING, ENDED, DIVERGED, LEFT };

// As `Limits` of the backend; low is 0 where there are none.
struct Limits {
    const float *low, *high; // [ds]
    u64 sums_from;
};

// As `Exit` of the backend; remaining is 0 where there is none.
struct Exit {
    Limits limits;
    const float *remaining;
    float worst;
    u32 may_end;
};

// Entry c of a next state, kept within its limits; comparisons keep NaN.
__device__ __forceinline__ float kept_within(const Limits &limits, u32 c, float state, float next) {
    if (!limits.low) return next;
    const float from = c < limits.sums_from ? 0.0f : state, step = next - from;
    const float low = limits.low[c], high = limits.high[c];
    return step < low ? from + low : step > high ? from + high : next;
}

// What the step that left brings, with all that follows it.
__device__ __forceinline__ float exit_reward(const Exit &exit, float paid, float remaining) {
    const float rate = finite(paid) && paid < exit.worst ? paid : exit.worst;
    const float after = exit.may_end && rate > 0.0f ? 0.0f : rate;
    return rate + remaining * after;
}

struct Trajectories {
    float *states; // [rows, ds]
    const float *next;
    float *rewards, *returns;
    u32 *status;
};

// How far a row has come.
struct Progress {
    u32 status;
    float sum;
};

__device__ __forceinline__ Progress progress_of(const Trajectories &trajectories, u32 row) {
    return {trajectories.status[row], trajectories.returns[row]};
}

// What a step counts, and the steps that remain after it.
struct Weight {
    float discount, remaining;
};

__device__ __forceinline__ Weight weight_of(const float *discounts, const Exit &exit, u32 step) {
    return {discounts[step], exit.remaining ? exit.remaining[step] : 0.0f};
}

// Ends a step of one row, by a warp.
__device__ __forceinline__ void end_step_of_row(const Trajectories &trajectories, const Progress &was, u32 row, u32 ds, const Weight &weight,
                                                const Exit &exit, float ended) {
    const u32 lane = threadIdx.x % 32;
    if (was.status != RUNNING) return;
    const float paid = trajectories.rewards[row];
    bool numbers = true, inside = true;
    for (u32 c = lane; c < ds; c += 32) {
        const float next = trajectories.next[row * ds + c];
        numbers &= finite(next);
        if (exit.remaining && c < exit.limits.sums_from) inside &= exit.limits.low[c] < next && next < exit.limits.high[c];
    }
    // All lanes have read the reward before one of them writes it.
    numbers = __all_sync(0xffffffffu, numbers);
    inside = __all_sync(0xffffffffu, inside);
    const bool left = exit.remaining && !(inside && numbers);
    const float reward = left ? exit_reward(exit, paid, weight.remaining) : paid;
    const float sum = was.sum + weight.discount * reward;
    const bool sound = finite(sum) && (left || (numbers && finite(ended)));
    if (numbers && sound)
        for (u32 c = lane; c < ds; c += 32) trajectories.states[row * ds + c] = trajectories.next[row * ds + c];
    if (lane) return;
    if (left) trajectories.rewards[row] = reward;
    trajectories.returns[row] = sound ? sum : -INFINITE;
    if (!sound) trajectories.status[row] = DIVERGED;
    else if (left) trajectories.status[row] = LEFT;
    else if (ended != 0.0f) trajectories.status[row] = ENDED;
}
