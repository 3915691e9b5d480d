// Reinforcement learning, and policies that draw their actions.

#define LN_2 0.6931471805599453f
#define LOWEST_LOG_STD -20.0f
#define HIGHEST_LOG_STD 2.0f

// One warp a row.
KERNEL squash(u32 rows, u32 dims, const float *output, const float *noise, const float *a, u32 wa, const float *b, u32 wb,
              float *joined, float *log_probs) {
    in_order();
    const u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    joined += row * (wa + wb + dims);
    for (u32 c = threadIdx.x % 32; c < wa + wb; c += 32) joined[c] = c < wa ? a[row * wa + c] : b[row * wb + c - wa];
    float sum = 0.0f;
    for (u32 c = threadIdx.x % 32; c < dims; c += 32) {
        const float raw = output[row * 2 * dims + dims + c], e = noise[row * dims + c];
        const float log_std = fminf(fmaxf(raw, LOWEST_LOG_STD), HIGHEST_LOG_STD);
        const float u = output[row * 2 * dims + c] + expf(log_std) * e;
        joined[wa + wb + c] = tanhf(u);
        // ln(1 - tanh^2 u) = 2 (ln 2 - |u| - ln(1 + e^(-2|u|)))
        sum -= 0.5f * e * e + log_std + HALF_LOG_TAU + 2.0f * (LN_2 - fabsf(u) - log1pf(expf(-2.0f * fabsf(u))));
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) log_probs[row] = sum;
}

KERNEL squash_gradient(u32 rows, u32 dims, const float *output, const float *noise, const float *joined, u32 width,
                       u32 critics, const float *d_joined, const float *log_temperature, float *d_output) {
    in_order();
    EACH(i, rows * dims);
    const u32 row = i / dims, c = i % dims, at = row * width + width - dims + c;
    float d_action = 0.0f;
    for (u32 k = 0; k < critics; k++) d_action += d_joined[(u64)k * rows * width + at];
    const float d_log_prob = expf(*log_temperature) / (float)rows;
    const float action = joined[at], raw = output[row * 2 * dims + dims + c];
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
                  const u32 *status, u32 networks, const float *values, float *scores) {
    in_order();
    EACH(i, rows * options);
    const u32 at = i % options * rows + i / options;
    float sum;
    best_of(values, networks, rows * options, at, options, &sum);
    scores[i] = scale * rewards[at] + (status[at] == RUNNING ? discounts[*step] : 0.0f) * sum / (float)networks;
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

KERNEL sample_gaussian(u32 n, u32 dims, const float *output, const float *noise, float *values) {
    in_order();
    EACH(i, n);
    const u32 at = i / dims * 2 * dims + i % dims;
    values[i] = output[at] + expf(limited_log_std(output[at + dims])) * noise[i];
}

KERNEL sample_gaussian_gradient(u32 n, u32 dims, const float *output, const float *noise, const float *d_values, float *d_output) {
    in_order();
    EACH(i, n);
    const u32 at = i / dims * 2 * dims + i % dims;
    const float raw = output[at + dims];
    const bool free = raw > LOWEST_LOG_STD && raw < HIGHEST_LOG_STD;
    d_output[at] = d_values[i];
    d_output[at + dims] = free ? d_values[i] * expf(raw) * noise[i] : 0.0f;
}

KERNEL sample_gsde(u32 n, u32 dims, u32 width, const float *features, const float *variances, float floor,
                           const float *noise, float *values) {
    in_order();
    EACH(i, n);
    const u32 row = i / dims, c = i % dims;
    float variance = floor;
    for (u32 f = 0; f < width; f++) variance += features[row * width + f] * features[row * width + f] * variances[f * dims + c];
    values[i] += sqrtf(variance) * noise[i];
}
