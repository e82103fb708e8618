/* A client that opens many event streams at once and measures what arrives.
 *
 *     streams PORT PATH END N KEY BODY      N streams to 127.0.0.1:PORT, the same BODY on each; ends when all have ended
 *     streams -i PORT PATH END N KEY BODY   the same, but stays connected until its standard input ends
 *     streams -r RATE ...                   opens so many streams a second, not all at once; before the others
 *
 * Writes two lines of JSON: the first when each stream has had its first event (or failed), the second at the end.
 * With -i the second comes once stdin has ended.  The delay of an event is counted from the time that upstream.c
 * wrote into its text.  A stream is complete when its last chunk is the one of length 0 and an event that contains
 * END came before it.  After 60 seconds the program ends without a word.
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
#include <unistd.h>

#include "clients.h"

enum { LINE_ROOM = 8192, SIZE_ROOM = 32, PREFIX = 1024 };

enum where { HEAD, SIZE, DATA, AFTER_DATA, TRAILER, OVER };

struct stream {
    int fd;
    enum where where;
    char line[LINE_ROOM + 1]; /* the head, or the line of a chunk's size */
    size_t line_len, chunk_left, skip;
    char prefix[PREFIX + 1]; /* the first bytes of the current event */
    size_t prefix_len;
    bool empty_line, begun, done;
    uint64_t opened; /* when, in ns */
};

static const char *end_mark;
static int epoll_fd, alive;
static unsigned long failed, completed, events, bytes, reads, begun, never_began;

static struct sample delays, firsts; /* of events, and from opening a stream to its first event */

static void event_ended(struct stream *s, uint64_t now) {
    s->prefix[s->prefix_len] = 0;
    events++;
    if (!s->begun) {
        s->begun = true;
        begun++;
        note(&firsts, now - s->opened);
    }
    char *stamp = strchr(s->prefix, '@');
    if (stamp)
        note(&delays, now - strtoull(stamp + 1, NULL, 16));
    else if (strstr(s->prefix, end_mark))
        s->done = true;
    s->prefix_len = 0;
}

/* The events in the body: lines, ended by an empty one. */
static void take_payload(struct stream *s, const char *data, size_t len, uint64_t now) {
    while (len) {
        const char *newline = memchr(data, '\n', len);
        size_t n = newline ? (size_t)(newline - data) : len;
        bool blank = n == 0 || (n == 1 && *data == '\r');
        size_t keep = PREFIX - s->prefix_len < n ? PREFIX - s->prefix_len : n;
        memcpy(s->prefix + s->prefix_len, data, keep);
        s->prefix_len += keep;
        if (!blank) s->empty_line = false;
        if (!newline) return;
        if (s->empty_line) event_ended(s, now);
        s->empty_line = true;
        data += n + 1;
        len -= n + 1;
    }
}

static void leave(struct stream *s, bool complete) {
    if (s->where == OVER) return;
    s->where = OVER;
    close(s->fd);
    alive--;
    if (!s->begun) never_began++;
    if (complete)
        completed++;
    else
        failed++;
}

/* Put bytes into s->line until the mark came; how many were used, 0 while it did not come. */
static size_t take_line(struct stream *s, const char *data, size_t len, const char *mark) {
    size_t before = s->line_len, room = (s->where == HEAD ? LINE_ROOM : SIZE_ROOM) - before;
    size_t n = len < room ? len : room;
    memcpy(s->line + before, data, n);
    s->line[before + n] = 0;
    char *end = strstr(s->line, mark);
    if (!end) {
        s->line_len += n;
        return 0;
    }
    s->line_len = 0;
    return (size_t)(end - s->line) + strlen(mark) - before;
}

static bool head_is_right(const struct stream *s) {
    return strncmp(s->line, "HTTP/1.1 200", 12) == 0 && strcasestr(s->line, "\r\ntransfer-encoding: chunked\r\n");
}

static void take(struct stream *s, const char *data, size_t len, uint64_t now) {
    while (len && s->where != OVER) {
        size_t used = len;
        switch (s->where) {
        case HEAD:
            used = take_line(s, data, len, "\r\n\r\n");
            if (!used) return;
            s->where = SIZE;
            if (!head_is_right(s)) leave(s, false);
            break;
        case SIZE:
            used = take_line(s, data, len, "\r\n");
            if (!used) return;
            s->chunk_left = strtoul(s->line, NULL, 16);
            s->where = s->chunk_left ? DATA : TRAILER;
            s->skip = 2;
            break;
        case DATA:
            used = len < s->chunk_left ? len : s->chunk_left;
            take_payload(s, data, used, now);
            s->chunk_left -= used;
            if (!s->chunk_left) s->where = AFTER_DATA;
            break;
        case AFTER_DATA:
        case TRAILER:
            used = len < s->skip ? len : s->skip;
            s->skip -= used;
            if (s->skip) break;
            if (s->where == AFTER_DATA)
                s->where = SIZE;
            else
                leave(s, s->done);
            break;
        case OVER:
            return;
        }
        data += used;
        len -= used;
    }
}

static void ready(struct stream *s) {
    static char data[65536];
    if (s->where == OVER) return;
    ssize_t n = read(s->fd, data, sizeof data);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        leave(s, false);
        return;
    }
    reads++;
    bytes += (unsigned long)n;
    take(s, data, (size_t)n, now_ns());
}

static void open_stream(struct stream *s, int port, const char *request, size_t len) {
    s->opened = now_ns();
    alive++;
    if (!connect_to(port, &s->fd) || send(s->fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        leave(s, false);
        return;
    }
    watch_new(epoll_fd, s->fd, s);
}

static void report(uint64_t since) {
    printf("{\"completed\":%lu,\"failed\":%lu,\"events\":%lu,\"bytes\":%lu,\"reads\":%lu,\"seconds\":%.6f,"
           "\"delay_p50_us\":%.0f,\"delay_p99_us\":%.0f,\"delay_max_us\":%.0f,\"first_p50_us\":%.0f,\"first_p99_us\":%.0f}\n",
           completed, failed, events, bytes, reads, (double)(now_ns() - since) / 1e9, at(&delays, 0.5),
           at(&delays, 0.99), at(&delays, 1.0), at(&firsts, 0.5), at(&firsts, 0.99));
    fflush(stdout);
}

int main(int argc, char **argv) {
    bool idle = argc > 1 && strcmp(argv[1], "-i") == 0;
    argc -= idle;
    argv += idle;
    uint64_t rate = 0; /* streams a second; 0: all at once */
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        rate = (uint64_t)atoi(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (argc != 7) {
        fprintf(stderr, "usage: streams [-i] [-r RATE] PORT PATH END N KEY BODY\n");
        return 2;
    }
    int port = atoi(argv[1]), wanted = atoi(argv[4]);
    end_mark = argv[3];
    char *request;
    int len = asprintf(&request,
                       "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                       "Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                       argv[2], port, argv[5], strlen(argv[6]), argv[6]);
    struct stream *all = calloc((size_t)wanted, sizeof *all);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (len < 0 || !all || epoll_fd < 0) die("start");
    signal(SIGPIPE, SIG_IGN);
    alarm(60);
    struct epoll_event ready_now[256];
    if (idle) watch(epoll_fd, EPOLL_CTL_ADD, 0, EPOLLIN, NULL);
    uint64_t since = now_ns();
    int opened = 0;
    bool said = false, stay = true;
    while (stay && (opened < wanted || alive || idle)) {
        uint64_t allowed = rate ? 1 + (now_ns() - since) * rate / SECOND : (uint64_t)wanted;
        for (int burst = 0; opened < wanted && (uint64_t)opened < allowed && burst < 8; burst++)
            open_stream(&all[opened++], port, request, (size_t)len);
        bool more_now = opened < wanted && (uint64_t)opened < allowed, nobody = !(alive || idle);
        int n = epoll_wait(epoll_fd, ready_now, 256, more_now || nobody ? 0 : opened < wanted ? 1 : -1);
        for (int i = 0; i < n; i++) {
            if (ready_now[i].data.ptr)
                ready(ready_now[i].data.ptr);
            else
                stay = false;
        }
        if (!said && opened == wanted && begun + never_began == (unsigned long)wanted) {
            said = true;
            printf("{\"open\":%lu,\"failed\":%lu,\"events\":%lu}\n", begun, never_began, events);
            fflush(stdout);
        }
    }
    if (!said) printf("{\"open\":%lu,\"failed\":%lu,\"events\":%lu}\n", begun, never_began, events);
    report(since);
    return 0;
}
