/* An open-loop client: requests at a fixed rate, whether or not answers come.
 *
 *     rate PORT PATH RATE SECONDS CONNECTIONS KEY BODY_FILE
 *
 * A client that waits for an answer before it sends the next request (a closed loop, as wrk is) asks less of a
 * slow server, and its percentiles leave out the requests that it should have sent meanwhile: coordinated
 * omission.  Here the n-th request is due n / RATE seconds after the start, and its latency counts from then to
 * the end of its answer, whenever it could be sent.  It goes out on the idle connection that was used last, of at
 * most CONNECTIONS that are kept open; where all are busy, it waits, and that counts.  Requests that were due but
 * have no answer within GRACE after the end have failed; they count with what they had waited until then.  A
 * server that is BACKLOG behind cannot keep up, and the run ends.
 *
 * Writes one line of JSON.  "late" is how late requests were sent for which a connection was idle: it is the
 * client's own share, and a run in which it is large says little.  After 60 seconds the program ends without a word.
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
#include <sys/prctl.h>
#include <unistd.h>

#include "clients.h"

enum { HEAD_ROOM = 16384, TAIL = 5, MOST_CONNECTIONS = 4096 };
static const uint64_t GRACE = 1000000000u, BACKLOG = 1500000000u;

struct conn {
    int fd;
    bool busy, in_body, chunked, refused;
    uint64_t due;
    size_t to_send; /* what of the request is not written yet */
    char head[HEAD_ROOM + 1];
    size_t head_len, body_left;
    char tail[TAIL]; /* the last bytes of a body in chunks */
};

static struct sample latencies, lates;
static struct conn *all;
static int *idle, idle_len, epoll_fd, port;
static char *request;
static size_t request_len;
static unsigned long completed, failed, reopened;

static void open_conn(struct conn *c) {
    if (!connect_to(port, &c->fd)) die("connect");
    watch_new(epoll_fd, c->fd, c);
}

static void rest(struct conn *c) {
    c->busy = c->in_body = c->chunked = c->refused = false;
    c->head_len = c->to_send = 0;
    idle[idle_len++] = (int)(c - all);
}

/* Close a connection and open another; a request that waited on it has failed. */
static void drop(struct conn *c) {
    close(c->fd);
    reopened++;
    if (c->busy) {
        failed++;
        note(&latencies, now_ns() - c->due);
    } else { /* the stack is searched from the top, where those are that the server closes soonest */
        for (int i = idle_len - 1; i >= 0; i--)
            if (idle[i] == (int)(c - all)) {
                memmove(idle + i, idle + i + 1, (size_t)(idle_len - i - 1) * sizeof *idle);
                idle_len--;
                break;
            }
    }
    open_conn(c);
    rest(c);
}

static void push(struct conn *c) {
    while (c->to_send) {
        ssize_t n = send(c->fd, request + request_len - c->to_send, c->to_send, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            watch(epoll_fd, EPOLL_CTL_MOD, c->fd, EPOLLIN | EPOLLOUT, c);
            return;
        }
        if (n < 0) {
            drop(c);
            return;
        }
        c->to_send -= (size_t)n;
        if (!c->to_send && (size_t)n != request_len) watch(epoll_fd, EPOLL_CTL_MOD, c->fd, EPOLLIN, c);
    }
}

static void ask(uint64_t due) {
    struct conn *c = &all[idle[--idle_len]];
    c->busy = true;
    c->due = due;
    c->to_send = request_len;
    push(c);
}

static void answered(struct conn *c) {
    note(&latencies, now_ns() - c->due);
    if (c->refused)
        failed++;
    else
        completed++;
    rest(c);
}

static void take_body(struct conn *c, const char *data, size_t len) {
    if (!c->chunked) {
        c->body_left -= len < c->body_left ? len : c->body_left;
        if (!c->body_left) answered(c);
        return;
    }
    size_t keep = len < TAIL ? len : TAIL;
    memmove(c->tail, c->tail + keep, TAIL - keep);
    memcpy(c->tail + TAIL - keep, data + len - keep, keep);
    if (memcmp(c->tail, "0\r\n\r\n", TAIL) == 0) answered(c);
}

static void take(struct conn *c, const char *data, size_t len) {
    if (c->in_body) {
        take_body(c, data, len);
        return;
    }
    size_t room = HEAD_ROOM - c->head_len, n = len < room ? len : room, before = c->head_len;
    memcpy(c->head + before, data, n);
    c->head_len += n;
    c->head[c->head_len] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) {
        if (c->head_len == HEAD_ROOM) drop(c);
        return;
    }
    end[2] = 0;
    c->refused = strncmp(c->head, "HTTP/1.1 200", 12) != 0;
    const char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->chunked = !length && strcasestr(c->head, "\r\ntransfer-encoding: chunked\r\n");
    if (!length && !c->chunked) {
        drop(c);
        return;
    }
    c->body_left = length ? strtoul(length + 17, NULL, 10) : 0;
    c->in_body = true;
    memset(c->tail, 0, TAIL);
    size_t used = (size_t)(end + 4 - c->head) - before;
    take_body(c, data + used, len - used);
}

static void ready(struct conn *c, uint32_t events) {
    static char data[262144];
    if (events & EPOLLOUT) push(c);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR))) return;
    ssize_t n = read(c->fd, data, sizeof data);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0 || !c->busy)
        drop(c);
    else
        take(c, data, (size_t)n);
}

static void read_request(const char *path, const char *key, const char *file) {
    FILE *f = fopen(file, "rb");
    if (!f || fseek(f, 0, SEEK_END) < 0) die(file);
    size_t size = (size_t)ftell(f);
    rewind(f);
    int head = asprintf(&request,
                        "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"
                        "Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        path, port, key, size);
    request = head < 0 ? NULL : realloc(request, (size_t)head + size);
    if (!request || fread(request + head, 1, size, f) != size) die("read");
    request_len = (size_t)head + size;
    fclose(f);
}

int main(int argc, char **argv) {
    if (argc != 8) {
        fprintf(stderr, "usage: rate PORT PATH RATE SECONDS CONNECTIONS KEY BODY_FILE\n");
        return 2;
    }
    port = atoi(argv[1]);
    double rate = atof(argv[3]), seconds = atof(argv[4]);
    int connections = atoi(argv[5]);
    if (rate <= 0 || seconds <= 0 || seconds > 30 || connections < 1 || connections > MOST_CONNECTIONS) {
        fprintf(stderr, "RATE and SECONDS are above 0, SECONDS at most 30, CONNECTIONS 1 to %d\n", MOST_CONNECTIONS);
        return 2;
    }
    read_request(argv[2], argv[6], argv[7]);
    all = calloc((size_t)connections, sizeof *all);
    idle = calloc((size_t)connections, sizeof *idle);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!all || !idle || epoll_fd < 0) die("start");
    signal(SIGPIPE, SIG_IGN);
    alarm(60);
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* 50 µs of delay otherwise, at each wait */
    for (int i = 0; i < connections; i++) {
        open_conn(&all[i]);
        rest(&all[i]);
    }
    struct epoll_event ready_now[256];
    unsigned long wanted = (unsigned long)(rate * seconds), asked = 0;
    uint64_t start = now_ns() + SECOND / 100, now = start, end = start + (uint64_t)(seconds * 1e9), due = start;
    bool overrun = false, waited = false; /* whether the next request found all connections busy */
    if (!wanted) wanted = 1;
    while (asked < wanted || idle_len < connections) {
        now = now_ns();
        overrun = asked < wanted && now > due + BACKLOG;
        if (overrun || now > end + GRACE) break;
        while (asked < wanted && due <= now && idle_len) {
            if (!waited) note(&lates, now - due);
            waited = false;
            ask(due);
            due = start + (uint64_t)((double)++asked * 1e9 / rate);
        }
        waited = waited || (asked < wanted && due <= now);
        uint64_t until = asked == wanted ? end + GRACE : idle_len ? due : due + BACKLOG + 1;
        now = now_ns();
        uint64_t wait = until > now ? until - now : 0;
        struct timespec timeout = {(time_t)(wait / SECOND), (long)(wait % SECOND)};
        int n = epoll_pwait2(epoll_fd, ready_now, 256, &timeout, NULL);
        if (n < 0 && errno != EINTR) die("epoll_pwait2");
        for (int i = 0; i < n; i++) ready(ready_now[i].data.ptr, ready_now[i].events);
    }
    now = now_ns();
    unsigned long unfinished = 0;
    for (int i = 0; i < connections; i++)
        if (all[i].busy) {
            unfinished++;
            note(&latencies, now - all[i].due);
        }
    for (; asked < wanted; asked++) {
        due = start + (uint64_t)((double)asked * 1e9 / rate);
        if (due > now) break;
        unfinished++;
        note(&latencies, now - due);
    }
    double took = (double)((now < end ? now : end) - start) / 1e9;
    printf("{\"rate\":%.1f,\"seconds\":%.6f,\"due\":%zu,\"completed\":%lu,\"failed\":%lu,\"unfinished\":%lu,"
           "\"overrun\":%d,\"reopened\":%lu,\"p50_us\":%.0f,\"p99_us\":%.0f,\"max_us\":%.0f,\"late_p99_us\":%.0f}\n",
           rate, took, latencies.len, completed, failed, unfinished, overrun, reopened, at(&latencies, 0.5),
           at(&latencies, 0.99), at(&latencies, 1.0), at(&lates, 0.99));
    return 0;
}
