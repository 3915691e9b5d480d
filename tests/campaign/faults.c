/* Makes one call to the file system fail: cc -shared -fPIC -O1 -o faults.so faults.c -ldl, then LD_PRELOAD=faults.so.
 *
 * FAULT_UNDER  absolute path: calls on files at or below it count, from 1; no others
 * FAULT_AT     number of the call that fails; 0: none
 * FAULT_KIND   kill   the process is killed before the call
 *              killed it is killed after the call
 *              eio, enospc, eintr  the call fails so, and only it
 *              short  a read or write does half of what it was asked to
 *              full   from this call on everything that needs room fails with ENOSPC
 *              gone   from this call on everything fails with EIO
 * FAULT_TRACE  file that gets a line for every counted call: number, name, path
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { NONE, KILL, KILLED, EIO_, ENOSPC_, EINTR_, SHORT, FULL, GONE };
/* What a call may suffer beside EIO and a kill. */
enum { ROOM = 1, WAITS = 2, PART = 4 };
enum { GO_ON, FAIL, HALF };

static const char *under;
static long at;
static enum kind kind;
static int trace = -1;
static long counter;

__attribute__((constructor)) static void begin(void) {
    static const char *names[] = {"none", "kill", "killed", "eio", "enospc", "eintr", "short", "full", "gone"};
    const char *name = getenv("FAULT_KIND"), *file = getenv("FAULT_TRACE"), *number = getenv("FAULT_AT");
    under = getenv("FAULT_UNDER");
    at = number ? atol(number) : 0;
    for (int i = 0; name && i < 9; i++)
        if (!strcmp(name, names[i])) kind = i;
    if (file) trace = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int below(const char *path) {
    size_t n = strlen(under);
    return !strncmp(path, under, n) && (path[n] == 0 || path[n] == '/');
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* What is to happen to this call on this path. */
static int fate(const char *name, const char *path, int suffers) {
    char whole[2 * PATH_MAX];
    if (!under || !path) return GO_ON;
    if (path[0] != '/') {
        char folder[PATH_MAX];
        if (syscall(SYS_getcwd, folder, sizeof folder) < 0) return GO_ON;
        snprintf(whole, sizeof whole, "%s/%s", folder, path);
        path = whole;
    }
    if (!below(path)) return GO_ON;
    long n = __atomic_add_fetch(&counter, 1, __ATOMIC_SEQ_CST);
    if (trace >= 0) {
        char line[2 * PATH_MAX];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", n, name, path);
        if (syscall(SYS_write, trace, line, length) < 0) die();
    }
    if (at == 0 || n < at) return GO_ON;
    if (kind == FULL && suffers & ROOM) return errno = ENOSPC, FAIL;
    if (kind == GONE) return errno = EIO, FAIL;
    if (n != at) return GO_ON;
    if (kind == KILL) die();
    if (kind == EIO_) return errno = EIO, FAIL;
    if (kind == ENOSPC_ && suffers & ROOM) return errno = ENOSPC, FAIL;
    if (kind == EINTR_ && suffers & WAITS) return errno = EINTR, FAIL;
    if (kind == SHORT && suffers & PART) return HALF;
    return GO_ON;
}

static int fate_of(const char *name, int file, int suffers) {
    char link[64], path[PATH_MAX];
    int saved = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    errno = saved;
    if (n < 0 || path[0] != '/') return GO_ON; /* a pipe or a socket */
    path[n] = 0;
    return fate(name, path, suffers);
}

/* The end of a call that was let through. */
static void after(void) {
    if (kind == KILLED && at && __atomic_load_n(&counter, __ATOMIC_SEQ_CST) >= at) die();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
/* A call on a path, and one on an open file, that do all or nothing. */
#define ON_PATH(type, name, suffers, failed, path, parameters, arguments) \
    type name parameters { \
        if (fate(#name, path, suffers) == FAIL) return failed; \
        type result = REAL(name) arguments; \
        after(); \
        return result; \
    }
#define ON_FILE(type, name, suffers, failed, parameters, arguments) \
    type name parameters { \
        if (fate_of(#name, file, suffers) == FAIL) return failed; \
        type result = REAL(name) arguments; \
        after(); \
        return result; \
    }
/* One that may do a part. */
#define IN_PARTS(name, suffers, parameters, whole, half) \
    ssize_t name parameters { \
        int what = fate_of(#name, file, suffers | WAITS | PART); \
        if (what == FAIL) return -1; \
        ssize_t result = what == HALF && size > 1 ? REAL(name) half : REAL(name) whole; \
        after(); \
        return result; \
    }

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (fate("open64", path, WAITS | (flags & O_CREAT ? ROOM : 0)) == FAIL) return -1;
    int result = REAL(open64)(path, flags, mode);
    after();
    return result;
}

int openat64(int folder, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    int suffers = WAITS | (flags & O_CREAT ? ROOM : 0);
    if ((folder == AT_FDCWD ? fate("openat64", path, suffers) : fate_of("openat64", folder, suffers)) == FAIL) return -1;
    int result = REAL(openat64)(folder, path, flags, mode);
    after();
    return result;
}

IN_PARTS(write, ROOM, (int file, const void *from, size_t size), (file, from, size), (file, from, size / 2))
IN_PARTS(read, 0, (int file, void *to, size_t size), (file, to, size), (file, to, size / 2))
IN_PARTS(pwrite64, ROOM, (int file, const void *from, size_t size, off64_t place), (file, from, size, place), (file, from, size / 2, place))
IN_PARTS(pread64, 0, (int file, void *to, size_t size, off64_t place), (file, to, size, place), (file, to, size / 2, place))
IN_PARTS(writev, ROOM, (int file, const struct iovec *from, int size), (file, from, size), (file, from, size / 2))
IN_PARTS(readv, 0, (int file, const struct iovec *to, int size), (file, to, size), (file, to, size / 2))

ssize_t copy_file_range(int file, off64_t *from, int target, off64_t *to, size_t size, unsigned flags) {
    int what = fate_of("copy_file_range", target, ROOM | WAITS | PART);
    if (what == FAIL) return -1;
    ssize_t result = REAL(copy_file_range)(file, from, target, to, what == HALF && size > 1 ? size / 2 : size, flags);
    after();
    return result;
}

ON_FILE(int, fsync, ROOM | WAITS, -1, (int file), (file))
ON_FILE(int, fdatasync, ROOM | WAITS, -1, (int file), (file))
ON_FILE(int, ftruncate64, ROOM | WAITS, -1, (int file, off64_t size), (file, size))
ON_FILE(int, flock, WAITS, -1, (int file, int operation), (file, operation))
ON_FILE(off64_t, lseek64, 0, -1, (int file, off64_t place, int whence), (file, place, whence))
ON_FILE(int, fstat64, 0, -1, (int file, struct stat64 *to), (file, to))

int close(int file) {
    int what = fate_of("close", file, ROOM | WAITS);
    int error = errno, result = REAL(close)(file); /* it is closed whatever it says */
    after();
    return what == FAIL ? (errno = error, -1) : result;
}

void *mmap64(void *address, size_t size, int protection, int flags, int file, off64_t place) {
    if (file >= 0 && fate_of("mmap64", file, 0) == FAIL) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, place);
}

ON_PATH(int, rename, ROOM, -1, to, (const char *from, const char *to), (from, to))
ON_PATH(int, link, ROOM, -1, to, (const char *from, const char *to), (from, to))
ON_PATH(int, linkat, ROOM, -1, to, (int at_from, const char *from, int at_to, const char *to, int flags), (at_from, from, at_to, to, flags))
ON_PATH(int, unlink, 0, -1, path, (const char *path), (path))
ON_PATH(int, rmdir, 0, -1, path, (const char *path), (path))
ON_PATH(int, mkdir, ROOM, -1, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, stat64, 0, -1, path, (const char *path, struct stat64 *to), (path, to))
ON_PATH(int, lstat64, 0, -1, path, (const char *path, struct stat64 *to), (path, to))
ON_PATH(char *, realpath, 0, NULL, path, (const char *path, char *to), (path, to))
ON_PATH(DIR *, opendir, 0, NULL, path, (const char *path), (path))

int statx(int file, const char *path, int flags, unsigned mask, struct statx *to) {
    const char *volatile given = path; /* Rust asks with none whether there is such a call; the header says that nobody does */
    if (given && (path[0] ? fate("statx", path, 0) : fate_of("statx", file, 0)) == FAIL) return -1;
    int result = REAL(statx)(file, path, flags, mask, to);
    after();
    return result;
}

int unlinkat(int file, const char *path, int flags) {
    if ((file == AT_FDCWD ? fate("unlinkat", path, 0) : fate_of("unlinkat", file, 0)) == FAIL) return -1;
    int result = REAL(unlinkat)(file, path, flags);
    after();
    return result;
}

struct dirent64 *readdir64(DIR *folder) {
    if (fate_of("readdir64", dirfd(folder), 0) == FAIL) return NULL;
    return REAL(readdir64)(folder);
}
