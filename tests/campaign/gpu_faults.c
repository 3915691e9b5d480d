/* Makes one call to CUDA's driver or compiler fail: cc -shared -fPIC -O1 -o gpu_faults.so gpu_faults.c -ldl, then LD_PRELOAD.
 *
 * Every function cu… or nvrtc… that the program asks the loader for is handed out as one that counts, from 1, and then calls it.
 * FAULT_AT     number of the call that fails; 0: none
 * FAULT_KIND   memory  it says that memory ran out
 *              launch  it says that a kernel failed, and so does every later one, as a card does
 *              gone    it says that there is no device, and so does every later one
 *              kill    the process is killed
 * FAULT_TRACE  file that gets a line for every counted call: number, name
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEMORY = 2, NO_DEVICE = 100, LAUNCH_FAILED = 719 };
/* All arguments are integers or addresses, and no function has more of them. */
#define PARAMETERS long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k, long l
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l
#define SLOTS 256
typedef long (*function)(PARAMETERS);

static function real[SLOTS];
static char names[SLOTS][64];
static int used, trace = -1;
static long counter, at;
static const char *kind = "";

__attribute__((constructor)) static void begin(void) {
    const char *number = getenv("FAULT_AT"), *file = getenv("FAULT_TRACE");
    at = number ? atol(number) : 0;
    if (getenv("FAULT_KIND")) kind = getenv("FAULT_KIND");
    if (file) trace = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* The code that this call ends with; 0: it is made. */
static long fate(int slot) {
    int compiler = !strncmp(names[slot], "nvrtc", 5);
    long n = __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST);
    if (trace >= 0) dprintf(trace, "%ld %s\n", n, names[slot]);
    if (at == 0 || n < at) return 0;
    if (n == at && !strcmp(kind, "kill")) syscall(SYS_kill, getpid(), SIGKILL);
    if (n == at && !strcmp(kind, "memory")) return compiler ? 1 : MEMORY;
    if (!strcmp(kind, "launch") && (!compiler || n == at)) return compiler ? 1 : LAUNCH_FAILED;
    if (!strcmp(kind, "gone") && (!compiler || n == at)) return compiler ? 1 : NO_DEVICE;
    return 0;
}

#define ONE(n) static long slot_##n(PARAMETERS) { long code = fate(0x##n); return code ? code : real[0x##n](ARGUMENTS); }
#define ROW(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) \
               ONE(n##8) ONE(n##9) ONE(n##a) ONE(n##b) ONE(n##c) ONE(n##d) ONE(n##e) ONE(n##f)
ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(a) ROW(b) ROW(c) ROW(d) ROW(e) ROW(f)
#undef ONE
#define ONE(n) slot_##n,
static const function slots[SLOTS] = {
    ROW(0) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(a) ROW(b) ROW(c) ROW(d) ROW(e) ROW(f)
};

static int counts(const char *name) {
    int ours = !strncmp(name, "cu", 2) || !strncmp(name, "nvrtc", 5);
    /* What only tells the words for an error, or frees. */
    return ours && !strstr(name, "Error") && !strstr(name, "Log") && !strstr(name, "Version");
}

void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    static int busy;
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!next) next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *found = next(handle, name);
    if (!found || !counts(name)) return found;
    while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) {}
    int slot = 0;
    while (slot < used && (strcmp(names[slot], name) || real[slot] != (function)found)) slot++;
    if (slot == used && used < SLOTS) {
        snprintf(names[slot], sizeof names[slot], "%s", name);
        real[slot] = (function)found;
        used++;
    }
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
    return slot < SLOTS ? (void *)slots[slot] : found;
}
