// Draws numbers and moves them.

// Below `below` in lists that take turns: each `batch` is of the next one.
KERNEL uniform_indices(u32 n, u32 *out, u32 key0, u32 key1, const u32 *step, u32 below, u32 lists, u32 batch) {
    in_order();
    EACH(block, (n + 3) / 4);
    const uint4 bits = philox(make_uint4(block, *step, 0, 3), key0, key1);
    const u32 each[4] = {bits.x, bits.y, bits.z, bits.w};
    for (u32 j = 0; j < 4 && 4 * block + j < n; j++) {
        const u32 i = 4 * block + j;
        out[i] = i / batch % lists * below + __umulhi(each[j], below);
    }
}

KERNEL normals(u32 n, float *out, u32 key0, u32 key1, const u32 *step) {
    in_order();
    EACH(block, (n + 3) / 4);
    const uint4 bits = philox(make_uint4(block, *step, 0, 4), key0, key1);
    const float2 a = normal_pair(bits.x, bits.y), b = normal_pair(bits.z, bits.w);
    const float each[4] = {a.x, a.y, b.x, b.y};
    for (u32 j = 0; j < 4 && 4 * block + j < n; j++) out[4 * block + j] = each[j];
}

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
