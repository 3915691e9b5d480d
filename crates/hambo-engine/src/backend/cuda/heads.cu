// Gaussian heads of networks.

// A row of blocks a member; the last of them to finish adds up what all found.
KERNEL gaussian_nll(u32 rows, u32 dims, float floor, const float *output, const float *targets, u32 groups, float *d_output, float weight,
                    double *losses, double *partials, u32 *tickets) {
    in_order();
    const u32 n = rows * dims, member = blockIdx.y;
    const float over_rows = 1.0f / (float)rows;
    targets += (u64)(member % groups) * n;
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

KERNEL moments(u32 rows, u32 dims, float floor, u32 members, const float *output, float *mean, float *epistemic, float *aleatoric) {
    in_order();
    EACH(i, rows * dims);
    const Mixture m = mixture(output, members, rows, i / dims, dims, i % dims, floor);
    mean[i] = m.mean;
    epistemic[i] = m.epistemic;
    aleatoric[i] = m.aleatoric;
}
