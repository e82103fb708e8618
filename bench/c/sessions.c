/* A client that holds many WebSocket sessions with an echoing upstream and measures what comes back.
 *
 *     sessions PORT PATH KEY N FRAME MS SECONDS      N sessions with 127.0.0.1:PORT
 *
 * FRAME is a file with a frame as a client sends it, masked; each session sends that.  A session is open when the
 * frame that it sent first has come back.  When all are open, or have failed, a line of JSON is written; when a line
 * has come on standard input, frames are sent for SECONDS, in each session one every MS milliseconds, or with MS = 0
 * the next as soon as the last has come back.  Then a second line of JSON is written and the program ends.
 *
 * A frame's delay is the time until its echo is complete, from when it was due.  An echo that differs in a byte is a
 * failure, as is an end of the connection.  After 60 seconds the program ends without a word.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clients.h"

enum { ROOM = 65536, OPENED_AT_A_TIME = 8 };

enum where { HEAD, FRAMES, OVER };

struct session {
    int fd;
    enum where where;
    bool open, waiting;
    uint64_t due; /* ns: of the frame that is under way, or of the next */
    uint8_t in[ROOM + 1];
    size_t in_len;
};

static int epoll_fd, wanted;
static unsigned long failed, opened, echoes;
static uint8_t *frame, *echo; /* what is sent, and what has to come back */
static size_t frame_len, echo_len;
static uint64_t interval, last_due; /* ns; 0 until frames are sent */
static struct sample delays;

/* What an upstream without masks makes of the frame. */
static void read_frame(const char *path) {
    FILE *file = fopen(path, "rb");
    frame = malloc(ROOM);
    echo = malloc(ROOM);
    if (!file || !frame || !echo) die(path);
    frame_len = fread(frame, 1, ROOM, file);
    fclose(file);
    size_t header = (frame[1] & 127) == 126 ? 4 : 2;
    memcpy(echo, frame, header);
    echo[1] &= 127;
    for (size_t i = header + 4; i < frame_len; i++) echo[i - 4] = frame[i] ^ frame[header + (i - header) % 4];
    echo_len = frame_len - 4;
}

static void leave(struct session *s) {
    if (s->where == OVER) return;
    s->where = OVER;
    close(s->fd);
    failed++;
}

static void send_frame(struct session *s) {
    s->waiting = true;
    if (send(s->fd, frame, frame_len, MSG_NOSIGNAL) != (ssize_t)frame_len) leave(s);
}

static void echo_came(struct session *s, uint64_t now) {
    s->waiting = false;
    if (!s->open) {
        s->open = true;
        opened++;
        return;
    }
    echoes++;
    note(&delays, now - s->due);
    s->due = interval ? s->due + interval : now;
    if (s->due <= now && s->due < last_due) send_frame(s);
}

static void take(struct session *s, uint64_t now) {
    size_t taken = 0;
    if (s->where == HEAD) {
        s->in[s->in_len] = 0;
        char *end = strstr((char *)s->in, "\r\n\r\n");
        if (!end) return;
        taken = (size_t)(end + 4 - (char *)s->in);
        s->where = FRAMES;
        if (strncmp((char *)s->in, "HTTP/1.1 101", 12) != 0)
            leave(s);
        else
            send_frame(s);
    }
    while (s->where == FRAMES && s->in_len - taken >= echo_len) {
        if (!s->waiting || memcmp(s->in + taken, echo, echo_len) != 0) {
            leave(s);
            return;
        }
        taken += echo_len;
        echo_came(s, now);
    }
    memmove(s->in, s->in + taken, s->in_len - taken);
    s->in_len -= taken;
}

static void ready(struct session *s) {
    if (s->where == OVER) return;
    ssize_t n = read(s->fd, s->in + s->in_len, ROOM - s->in_len);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        leave(s);
        return;
    }
    s->in_len += (size_t)n;
    take(s, now_ns());
}

static void open_session(struct session *s, int port, const char *request, size_t len) {
    if (!connect_to(port, &s->fd) || send(s->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        leave(s);
        return;
    }
    watch_new(epoll_fd, s->fd, s);
}

static void wait_for_some(int timeout_ms) {
    struct epoll_event events[256];
    int n = epoll_wait(epoll_fd, events, 256, timeout_ms);
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr) ready(events[i].data.ptr);
}

/* A few at a time, so that nobody's queue of connections overflows. */
static void open_all(struct session *all, int port, const char *request, size_t len) {
    for (int begun = 0; opened + failed < (unsigned long)wanted;) {
        while (begun < wanted && (unsigned long)begun < opened + failed + OPENED_AT_A_TIME)
            open_session(&all[begun++], port, request, len);
        if (opened + failed < (unsigned long)wanted) wait_for_some(-1);
    }
}

static void send_what_is_due(struct session *all, uint64_t now, uint64_t *next) {
    *next = UINT64_MAX;
    for (int i = 0; i < wanted; i++) {
        struct session *s = &all[i];
        if (s->where != FRAMES || s->waiting || s->due >= last_due) continue;
        if (s->due <= now)
            send_frame(s);
        else if (s->due < *next)
            *next = s->due;
    }
}

static void exchange_frames(struct session *all, uint64_t began, uint64_t seconds) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timer < 0) die("timerfd");
    watch(epoll_fd, EPOLL_CTL_ADD, timer, EPOLLIN | EPOLLET, NULL);
    last_due = began + seconds * SECOND;
    for (int i = 0; i < wanted; i++) all[i].due = began + interval * (uint64_t)i / (uint64_t)wanted;
    for (;;) {
        uint64_t now = now_ns(), next = UINT64_MAX;
        if (now >= last_due) return;
        if (interval || !echoes) send_what_is_due(all, now, &next);
        if (next > last_due) next = last_due;
        struct itimerspec at = {.it_value = {(time_t)(next / SECOND), (long)(next % SECOND)}};
        if (interval) timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        wait_for_some(interval ? -1 : 100);
    }
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: sessions PORT PATH KEY N FRAME MS SECONDS\n");
        return 2;
    }
    int port = atoi(argv[1]);
    wanted = atoi(argv[4]);
    read_frame(argv[5]);
    interval = (uint64_t)atoi(argv[6]) * 1000000u;
    char *request, go[2];
    int len = asprintf(&request,
                       "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\n"
                       "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                       argv[2], port, argv[3]);
    struct session *all = calloc((size_t)wanted, sizeof *all);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (len < 0 || !all || epoll_fd < 0) die("start");
    signal(SIGPIPE, SIG_IGN);
    alarm(60);
    open_all(all, port, request, (size_t)len);
    printf("{\"open\":%lu,\"failed\":%lu}\n", opened, failed);
    fflush(stdout);
    if (!fgets(go, sizeof go, stdin)) return 0;
    uint64_t began = now_ns();
    exchange_frames(all, began, (uint64_t)atoi(argv[7]));
    uint64_t took = now_ns() - began;
    printf("{\"echoes\":%lu,\"failed\":%lu,\"seconds\":%.6f,\"delay_p50_us\":%.0f,\"delay_p99_us\":%.0f}\n", echoes, failed,
           (double)took / 1e9, at(&delays, 0.5), at(&delays, 0.99));
    return 0;
}
