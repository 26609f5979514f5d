/* Preloaded into a client: its connections come from an address of its own, by which a proxy tells it from others. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

int connect(int fd, const struct sockaddr *to, socklen_t length) {
    const char *address = getenv("FENCEPOST_TEST_SOURCE");
    struct sockaddr_in from = {.sin_family = AF_INET};
    if (address && to->sa_family == AF_INET && inet_pton(AF_INET, address, &from.sin_addr) == 1) {
        int on = 1;
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
        if (bind(fd, (const struct sockaddr *)&from, sizeof from)) return -1;
    }
    return (int)syscall(SYS_connect, fd, to, length);
}
