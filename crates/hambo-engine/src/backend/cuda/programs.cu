// Expressions, and whole steps of trajectories, which evaluate some.

// One instruction of a tape; the numbers are those of expression::tape.
struct Instruction {
    u32 kind, op, x, y, z; // z: the second choice of a selection; the bits of a constant are in x
};
enum { CONSTANT, INPUT, UNARY, BINARY, SELECT };
enum { NEGATE, NOT, ABS, SQRT, EXP, LOG, SIN, COS, TAN, ASIN, ACOS, ATAN, TANH, SIGMOID, SIGN, FLOOR, WRAP };
enum { PLUS, MINUS, TIMES, DIVIDE, POWER, ATAN2, MINIMUM, MAXIMUM, LESS, LESS_OR_EQUAL, EQUAL, AND, OR };
#define LONGEST_TAPE 256
struct Tape {
    const Instruction *at; // 0: none
    const u32 *outputs;
    u32 length, width;
};

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

// Puts a tape where all threads of a block read it fast; they must meet before they do.
__device__ __forceinline__ void bring_near(const Tape &tape, Instruction *near) {
    for (u32 i = threadIdx.x; i < tape.length; i += blockDim.x) near[i] = tape.at[i];
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

KERNEL evaluate(u32 n, Tape tape, Rows rows, float *out) {
    in_order();
    __shared__ Instruction near[LONGEST_TAPE];
    bring_near(tape, near);
    __syncthreads();
    EACH(row, n);
    float values[LONGEST_TAPE];
    run_tape(near, tape.length, rows, row, values);
    for (u32 c = 0; c < tape.width; c++) out[row * tape.width + c] = values[tape.outputs[c]];
}

// A derivative that is infinite or undefined counts as 0.
__device__ __forceinline__ void pass(float *adjoints, u32 to, float adjoint, float slope) {
    if (finite(slope)) adjoints[to] += adjoint * slope;
}

KERNEL evaluate_gradient(u32 n, Tape tape, Rows rows, const float *d_out, float *d_states, float *d_actions, float *d_next) {
    in_order();
    __shared__ Instruction near[LONGEST_TAPE];
    bring_near(tape, near);
    __syncthreads();
    EACH(row, n);
    float values[LONGEST_TAPE], adjoints[LONGEST_TAPE];
    run_tape(near, tape.length, rows, row, values);
    for (u32 i = 0; i < tape.length; i++) adjoints[i] = 0.0f;
    for (u32 c = 0; c < tape.width; c++) adjoints[tape.outputs[c]] += d_out[row * tape.width + c];
    float *to[3] = {d_states, d_actions, d_next};
    for (u32 i = tape.length; i-- > 0;) {
        const Instruction now = near[i];
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

// A whole step of the trajectories after the networks, see `Device::rollout_step`. A block takes a few rows through all of it.
#define ROWS_OF_A_BLOCK 8 // a warp for each

struct RolloutStep {
    const float *output, *scale, *offset, *reach, *discounts, *actions;
    const u32 *chosen;
    float *amount, *ended;
    Trajectories trajectories;
    float *next;
    u32 *time, *ticket;
    Tape wrapped, reward, termination;
    Limits limits;
    Exit exit;
    u32 rows, ds, da, dims, members, step, variance_itself, relative, noises, key0, key1;
    float floor;
};

KERNEL rollout_step(const __grid_constant__ RolloutStep t) {
    in_order();
    const u32 first = blockIdx.x * ROWS_OF_A_BLOCK, rows = min(ROWS_OF_A_BLOCK, t.rows - first);
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 now = *(volatile u32 *)t.time;
    // What the end needs is asked for at the beginning.
    const u32 own = first + min(warp, rows - 1);
    const Progress was = progress_of(t.trajectories, own);
    const Weight weight = weight_of(t.discounts, t.exit, now);
    __shared__ Instruction wrapped[LONGEST_TAPE], reward[LONGEST_TAPE], termination[LONGEST_TAPE];
    bring_near(t.wrapped, wrapped);
    bring_near(t.reward, reward);
    bring_near(t.termination, termination);
    for (u32 i = threadIdx.x; i < rows * t.ds; i += blockDim.x) {
        const u32 row = first + i / t.ds, c = i % t.ds, at = row * t.ds + c;
        Drawn drawn = {t.step, t.chosen ? t.chosen[row] : 0, t.variance_itself, 0.0f, 0.0f};
        if (t.amount) t.amount[at] = drawn.amount = t.amount[at] * t.reach[c];
        if (t.step != STEP_MEAN) drawn.noise = normal_at(at % t.noises, now, t.key0, t.key1);
        const float target = predicted(drawn, t.output, t.members, t.rows, row, t.dims, c, t.floor);
        const float state = t.trajectories.states[at];
        t.next[at] = kept_within(t.limits, c, state, (t.relative ? state : 0.0f) + t.offset[c] + t.scale[c] * target);
    }
    __syncthreads();
    float values[LONGEST_TAPE];
    if (t.wrapped.at) {
        if (warp == 0 && lane < rows) {
            const Rows seen = {{t.next, 0, 0}, {t.ds, 0, 0}};
            run_tape(wrapped, t.wrapped.length, seen, first + lane, values);
            for (u32 c = 0; c < t.wrapped.width; c++) t.next[(first + lane) * t.ds + c] = values[t.wrapped.outputs[c]];
        }
        __syncthreads();
    }
    // One warp finds out the rewards of all rows, another one which of them end.
    if (warp < 2 && lane < rows && (warp == 0 || t.termination.at)) {
        const Rows seen = {{t.trajectories.states, t.actions, t.next}, {t.ds, t.da, t.ds}};
        run_tape(warp ? termination : reward, warp ? t.termination.length : t.reward.length, seen, first + lane, values);
        (warp ? t.ended : t.trajectories.rewards)[first + lane] = values[(warp ? t.termination : t.reward).outputs[0]];
    }
    __syncthreads();
    if (warp < rows) end_step_of_row(t.trajectories, was, own, t.ds, weight, t.exit, t.termination.at ? t.ended[own] : 0.0f);
    // The last block to come here counts the step: all others have read the time.
    __syncthreads();
    if (threadIdx.x == 0 && atomicInc(t.ticket, gridDim.x - 1) == gridDim.x - 1) *t.time = now + 1;
}
