/* What the clients of the benchmarks share: the clock, samples of times, and connections to 127.0.0.1. */
#ifndef BENCH_CLIENTS_H
#define BENCH_CLIENTS_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

static const uint64_t SECOND = 1000000000u; /* in ns */

struct sample { /* microseconds */
    uint32_t *values;
    size_t len, room;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void note(struct sample *to, uint64_t ns) {
    if (to->len == to->room) {
        to->room = to->room ? to->room * 2 : 65536;
        to->values = realloc(to->values, to->room * sizeof *to->values);
        if (!to->values) die("realloc");
    }
    to->values[to->len++] = (uint32_t)(ns / 1000);
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The percentile of a share, such as 0.99; sorts the sample. */
static double at(struct sample *of, double share) {
    if (!of->len) return 0.0;
    qsort(of->values, of->len, sizeof *of->values, by_size);
    return of->values[(size_t)((double)(of->len - 1) * share)];
}

/* Make a socket without delays, and wait until it is connected; false if it was refused. */
static bool connect_to(int port, int *fd) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0) die("socket");
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(*fd, (struct sockaddr *)&address, sizeof address) == 0;
}

static void watch(int epoll_fd, int op, int fd, uint32_t events, void *of) {
    struct epoll_event e = {.events = events, .data.ptr = of};
    if (epoll_ctl(epoll_fd, op, fd, &e) < 0) die("epoll_ctl");
}

/* Have a connected socket wait no longer, and be told of what comes. */
static void watch_new(int epoll_fd, int fd, void *of) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
    watch(epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN, of);
}

#endif
