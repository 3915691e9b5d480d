// Updates of parameters.

KERNEL adam(u32 n, float *params, const float *gradient, float *m, float *v, Adam adam, u32 *step, u32 *ticket,
            const __grid_constant__ HiddenWeights hidden) {
    in_order();
    const u32 now = take_step(step, ticket);
    EACH(i, n);
    const Moments at = moments_at(adam, now);
    float p = params[i], first = m[i], second = v[i];
    update(hidden, i % hidden.stride, adam, at, gradient[i], p, first, second);
    params[i] = p;
    m[i] = first;
    v[i] = second;
}

struct Svgd {
    float length_scale; // 0: the median heuristic
    float prior, scale;
};

// Squared distances of all pairs of particles of a group, those of one group after the other, a block for each pair and part of the parameters; the last block to
// finish turns them into the weights with which gradients and parameters enter the direction. `weights` holds two
// [members, members] matrices, `partials` [pairs, parts], `ticket` a zero.
KERNEL svgd_weights(u32 n, u32 members, u32 groups, const float *params, Svgd svgd, double *partials, u32 *ticket, float *weights) {
    in_order();
    const u32 parts = gridDim.x, pairs = gridDim.y, of_group = pairs / groups, particles = members / groups;
    u32 i = 1, j = blockIdx.y % of_group;
    while (j >= i) j -= i++;
    const u32 group = blockIdx.y / of_group;
    const float *a = params + (u64)(i * groups + group) * n, *b = params + (u64)(j * groups + group) * n;
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
        length_scale = fmax(median / (2.0 * log((double)particles)), 2.2250738585072014e-308);
    }
    const double over_members = 1.0 / particles;
    for (u32 row = threadIdx.x; row < members; row += blockDim.x) {
        double others = 0.0;
        for (u32 column = row % groups; column < members; column += groups) {
            if (column == row) continue;
            const u32 high = max(row, column) / groups, low = min(row, column) / groups;
            const double distance = distances[row % groups * of_group + high * (high - 1) / 2 + low];
            const double k = exp(-distance / (2.0 * length_scale));
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

KERNEL svgd_direction(u32 n, u32 members, u32 groups, const float *params, const float *gradient, const float *weights, float *out) {
    in_order();
    EACH(c, n);
    for (u32 i = 0; i < members; i++) {
        float sum = 0.0f;
        for (u32 j = i % groups; j < members; j += groups)
            sum += weights[i * members + j] * gradient[(u64)j * n + c] +
                   weights[(members + i) * members + j] * params[(u64)j * n + c];
        out[(u64)i * n + c] = sum;
    }
}

// One block a member.
KERNEL clip_norm(u32 n, float *values, float limit, float *idle) {
    in_order();
    float *part = values + (u64)blockIdx.x * n;
    double sum = 0.0;
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) sum += (double)part[i] * part[i];
    const double norm = sqrt(block_sum(sum));
    const bool sound = norm < (double)INFINITE;
    if (threadIdx.x == 0 && !(sound && norm > 0.0)) idle[blockIdx.x] += 1.0f;
    if (!sound || norm > limit) {
        const float factor = (float)(limit / norm);
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) part[i] = sound ? part[i] * factor : 0.0f;
    }
}
