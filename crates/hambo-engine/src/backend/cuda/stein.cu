// A step of SVGD with Adam for groups of PARTICLES, a row of blocks each: the direction of every parameter, and the move
// along it. Particle k of a group is member k * groups + group.

KERNEL svgd_adam(u32 n, float *params, const float *gradient, float *m, float *v, Adam adam, u32 *step, u32 *ticket,
                 const float *weights, const __grid_constant__ HiddenWeights hidden) {
    in_order();
    const u32 c = blockIdx.x * blockDim.x + threadIdx.x, groups = gridDim.y, group = blockIdx.y, members = PARTICLES * groups;
    float p[PARTICLES], g[PARTICLES], first[PARTICLES], second[PARTICLES];
    if (c < n) {
#pragma unroll
        for (int k = 0; k < PARTICLES; k++) {
            const u64 at = (u64)(k * groups + group) * n + c;
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
    for (int i = 0; i < PARTICLES; i++) {
        const u32 row = i * groups + group;
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < PARTICLES; j++)
            sum += weights[row * members + j * groups + group] * g[j] +
                   weights[(members + row) * members + j * groups + group] * p[j];
        const u64 to = (u64)row * n + c;
        float moved = p[i];
        update(hidden, c, adam, at, sum, moved, first[i], second[i]);
        params[to] = moved;
        m[to] = first[i];
        v[to] = second[i];
    }
}
