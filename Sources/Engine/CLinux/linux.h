// Linux calls that Swift's `Glibc` module does not export.
#ifndef CLINUX_H
#define CLINUX_H

// _GNU_SOURCE is not defined: it changes the layout of `fd_set`, which the Dispatch module imports without it.
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

// <sys/socket.h> declares this under _GNU_SOURCE only.
int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

// `epoll_data_t` is a union, and `struct epoll_event` is packed. Reading and writing it in C keeps Swift away from
// both.
static inline struct epoll_event clinux_epoll_event(uint32_t events, uint64_t tag) {
    struct epoll_event event;
    event.events = events;
    event.data.u64 = tag;
    return event;
}

// The number of processors on which the calling thread may run, or -1. `cpu_set_t` is declared under _GNU_SOURCE only.
static inline long clinux_allowed_processors(void) {
    unsigned long mask[128];
    long size = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    if (size < 0) return -1;
    long count = 0;
    for (unsigned long i = 0; i < (unsigned long)size / sizeof mask[0]; i++) count += __builtin_popcountl(mask[i]);
    return count;
}

static inline uint64_t clinux_epoll_tag(const struct epoll_event *event) {
    return event->data.u64;
}

#endif
