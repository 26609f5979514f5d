/* Preloaded into one process: its wall clock and its boot clock run ahead of the machine's, or behind, by what stands in
 * a file that is mapped here and written elsewhere: two numbers of nanoseconds, which may change at any time. The
 * monotonic clock is left alone: it stands still while a machine sleeps. Nothing here allocates or looks up a symbol,
 * because it is called from inside the allocator. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

struct offsets {
    volatile int64_t wall, boot;
};

static const struct offsets none;
static const struct offsets *volatile offsets;

static const struct offsets *attached(void) {
    if (offsets) return offsets;
    const struct offsets *found = &none;
    const char *file = getenv("FENCEPOST_TEST_CLOCKS");
    int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
        if (page == MAP_FAILED) abort();
        found = page;
    }
    offsets = found;
    return found;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    if (failed) return failed;
    int64_t ahead = 0;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) ahead = attached()->wall;
    if (clock == CLOCK_BOOTTIME) ahead = attached()->boot;
    if (ahead) {
        int64_t nanos = time->tv_sec * SECOND + time->tv_nsec + ahead;
        int64_t seconds = nanos / SECOND - (nanos % SECOND < 0);
        time->tv_sec = seconds;
        time->tv_nsec = nanos - seconds * SECOND;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    (void)zone;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    value->tv_sec = time.tv_sec;
    value->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
