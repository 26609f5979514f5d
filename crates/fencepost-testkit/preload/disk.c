/* Preloaded into a Redis server: what it writes to its append-only file stays in memory until it is synced, so that
 * killing the process loses what a power cut would lose. While a certain file is there, the disk is full. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One file is written at a time. */
static char unsynced[16 << 20];
static size_t length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_log(int fd) {
    char link[64], target[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t count = readlink(link, target, sizeof target - 1);
    if (count <= 0) return 0;
    target[count] = 0;
    return strstr(target, ".incr.aof") != NULL;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (fd <= 2 || !is_log(fd)) return syscall(SYS_write, fd, bytes, count);
    const char *full = getenv("FENCEPOST_TEST_DISK_FULL");
    if (full && access(full, F_OK) == 0) {
        errno = ENOSPC;
        return -1;
    }
    pthread_mutex_lock(&lock);
    if (length + count > sizeof unsynced) abort();
    memcpy(unsynced + length, bytes, count);
    length += count;
    pthread_mutex_unlock(&lock);
    return (ssize_t)count;
}

static int synced(int fd, long call) {
    if (fd > 2 && is_log(fd)) {
        pthread_mutex_lock(&lock);
        for (size_t from = 0; from < length;) {
            ssize_t count = syscall(SYS_write, fd, unsynced + from, length - from);
            if (count <= 0) abort();
            from += (size_t)count;
        }
        length = 0;
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(call, fd);
}

int fdatasync(int fd) {
    return synced(fd, SYS_fdatasync);
}

int fsync(int fd) {
    return synced(fd, SYS_fsync);
}
