// Steps of many trajectories, one thing after the other.

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

KERNEL propagate(u32 rows, u32 ds, u32 dims, float floor, u32 members, u32 step, const float *output, const float *scale,
                 const float *offset, u32 relative, const float *states, float *next, const float *noise, u32 noises,
                 const u32 *chosen, const float *amount, u32 variance_itself, Limits limits) {
    in_order();
    EACH(i, rows * ds);
    const u32 row = i / ds, c = i % ds;
    const Drawn drawn = {step, chosen ? chosen[row] : 0, variance_itself, amount ? amount[i] : 0.0f, noise ? noise[i % noises] : 0.0f};
    const float target = predicted(drawn, output, members, rows, row, dims, c, floor);
    const float state = states[i];
    next[i] = kept_within(limits, c, state, (relative ? state : 0.0f) + offset[c] + scale[c] * target);
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

// A warp a row.
KERNEL end_step(u32 rows, u32 ds, const float *discounts, const u32 *step, const float *ended, Trajectories trajectories, Exit exit) {
    in_order();
    EACH(i, 32 * rows);
    const u32 row = i / 32;
    end_step_of_row(trajectories, progress_of(trajectories, row), row, ds, weight_of(discounts, exit, *step), exit, ended ? ended[row] : 0.0f);
}

KERNEL still_running(u32 rows, u32 width, float *values, const u32 *status) {
    in_order();
    EACH(row, rows);
    bool keep = status[row] == RUNNING;
    for (u32 c = 0; c < width; c++) keep &= finite(values[row * width + c]);
    if (!keep)
        for (u32 c = 0; c < width; c++) values[row * width + c] = 0.0f;
}

// One block a group.
KERNEL end_gradient(u32 each, const u32 *before, const u32 *after, const float *weights, const u32 *step, const float *rewards, float *to_go,
                    float *d_end) {
    in_order();
    const u64 first = (u64)blockIdx.x * each;
    double sum = 0.0, count = 0.0;
    for (u64 row = first + threadIdx.x; row < first + each; row += blockDim.x)
        if (after[row] == RUNNING) {
            sum += to_go[row];
            count += 1.0;
        }
    sum = block_sum(sum);
    count = block_sum(count);
    const float mean = count > 0.0 ? (float)(sum / count) : 0.0f, weight = weights[*step];
    for (u64 row = first + threadIdx.x; row < first + each; row += blockDim.x) {
        const bool ran = before[row] == RUNNING;
        d_end[row] = ran && after[row] == RUNNING ? -to_go[row] : ran && after[row] == ENDED ? -mean : 0.0f;
        const float more = to_go[row] + weight * rewards[row];
        to_go[row] = ran && finite(more) ? more : 0.0f;
    }
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
