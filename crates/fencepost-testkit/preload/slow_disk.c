/* Preloaded into a process: a disk that takes a while to keep what it was given.
 * FENCEPOST_TEST_SYNC_MS: how long each sync takes at least. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void take_a_while(void) {
    const char *text = getenv("FENCEPOST_TEST_SYNC_MS");
    long ms = text ? atol(text) : 0;
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    take_a_while();
    return real(file);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    take_a_while();
    return real(file);
}
