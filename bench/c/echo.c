/* A realtime provider that costs next to nothing: one thread, one epoll, WebSockets that echo.
 *
 *     echo                listens on a free port of 127.0.0.1 and prints its number
 *
 * An upgrade gets its 101, whatever the path, and then each of its data frames back, with the mask taken off; pings
 * get pongs, a close frame is answered and ends the session.  What has come in one read is echoed with one write.  A
 * request without an upgrade gets 200 and a small object.  A frame of more than 60 KiB ends its connection.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { ROOM = 65536, FRAME_MAX = 61440, CLOSE = 8, PING = 9, PONG = 10 };

struct conn {
    int fd;
    bool upgraded, closing, closed;
    struct conn *next_closed;
    uint8_t in[ROOM + 1], out[ROOM + 1024];
    size_t in_len, out_len, out_sent;
};

static int epoll_fd;
static struct conn *closed_list;

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Close now, free at the end of the turn: later events of the same turn may still point here. */
static void drop(struct conn *c) {
    if (c->closed) return;
    close(c->fd);
    c->closed = true;
    c->next_closed = closed_list;
    closed_list = c;
}

/* ---- the handshake's answer: SHA-1 (RFC 3174) in base64 ---- */

static uint32_t turn(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void sha1(const char *text, size_t len, uint8_t digest[20]) {
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t data[128] = {0};
    size_t blocks = (len + 9 + 63) / 64;
    memcpy(data, text, len);
    data[len] = 0x80;
    for (int i = 0; i < 8; i++) data[blocks * 64 - 1 - (size_t)i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    for (size_t block = 0; block < blocks; block++) {
        uint32_t w[80], v[5];
        for (int i = 0; i < 16; i++) {
            const uint8_t *p = data + block * 64 + i * 4;
            w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
        }
        for (int i = 16; i < 80; i++) w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        memcpy(v, h, sizeof v);
        for (int i = 0; i < 80; i++) {
            uint32_t f = i < 20   ? ((v[1] & v[2]) | (~v[1] & v[3])) + 0x5a827999
                         : i < 40 ? (v[1] ^ v[2] ^ v[3]) + 0x6ed9eba1
                         : i < 60 ? ((v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3])) + 0x8f1bbcdc
                                  : (v[1] ^ v[2] ^ v[3]) + 0xca62c1d6;
            uint32_t next = turn(v[0], 5) + f + v[4] + w[i];
            v[4] = v[3], v[3] = v[2], v[2] = turn(v[1], 30), v[1] = v[0], v[0] = next;
        }
        for (int i = 0; i < 5; i++) h[i] += v[i];
    }
    for (int i = 0; i < 20; i++) digest[i] = (uint8_t)(h[i / 4] >> (24 - i % 4 * 8));
}

static void accept_value(const char *key, size_t len, char to[29]) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[128];
    uint8_t digest[21] = {0};
    int size = snprintf(text, sizeof text, "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", (int)len, key);
    sha1(text, (size_t)size, digest);
    for (int i = 0; i < 7; i++) {
        uint32_t bits = (uint32_t)digest[i * 3] << 16 | (uint32_t)digest[i * 3 + 1] << 8 | digest[i * 3 + 2];
        for (int j = 0; j < 4; j++) to[i * 4 + j] = letters[bits >> (18 - 6 * j) & 63];
    }
    to[27] = '=';
    to[28] = 0;
}

/* ---- frames ---- */

static void put_frame(struct conn *c, uint8_t first, const uint8_t *payload, size_t len) {
    uint8_t *to = c->out + c->out_len;
    size_t header = len < 126 ? 2 : 4;
    to[0] = first;
    to[1] = (uint8_t)(len < 126 ? len : 126);
    if (header == 4) to[2] = (uint8_t)(len >> 8), to[3] = (uint8_t)len;
    memcpy(to + header, payload, len);
    c->out_len += header + len;
}

/* Echo the frame that begins there; how many bytes it has, 0 while it is not complete. */
static size_t take_frame(struct conn *c, uint8_t *at, size_t len) {
    if (len < 6) return 0;
    size_t size = at[1] & 127, header = size == 126 ? 8 : 6;
    if (!(at[1] & 128) || size == 127) {
        drop(c);
        return 0;
    }
    if (len < header) return 0;
    if (size == 126) size = (size_t)at[2] << 8 | at[3];
    if (size > FRAME_MAX) drop(c);
    if (c->closed || len < header + size) return 0;
    const uint8_t *key = at + header - 4;
    uint8_t *payload = at + header, opcode = at[0] & 15;
    for (size_t i = 0; i < size; i++) payload[i] ^= key[i & 3];
    if (opcode == CLOSE) c->closing = true;
    if (opcode != PONG) put_frame(c, opcode == PING ? 0x80 | PONG : at[0], payload, size);
    return header + size;
}

static size_t take_head(struct conn *c) {
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    c->in[c->in_len] = 0;
    char *head = (char *)c->in, *end = strstr(head, "\r\n\r\n"), accept[29];
    if (!end) return 0;
    char *key = strcasestr(head, "\r\nsec-websocket-key:");
    if (key && key < end) {
        key += strlen("\r\nsec-websocket-key:");
        key += strspn(key, " ");
        accept_value(key, strcspn(key, " \r"), accept);
        c->upgraded = true;
        c->out_len += (size_t)sprintf((char *)c->out + c->out_len,
                                      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                                      "Sec-WebSocket-Accept: %s\r\n\r\n",
                                      accept);
    } else {
        memcpy(c->out + c->out_len, hello, sizeof hello - 1);
        c->out_len += sizeof hello - 1;
    }
    return (size_t)(end + 4 - head);
}

/* ---- sockets ---- */

static void flush(struct conn *c) {
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct epoll_event e = {.events = EPOLLOUT, .data.ptr = c};
            epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
            return;
        }
        if (n < 0) {
            drop(c);
            return;
        }
        c->out_sent += (size_t)n;
    }
    c->out_sent = c->out_len = 0;
    if (c->closing) drop(c);
}

static void ready(struct conn *c, uint32_t events) {
    if (c->closed) return;
    if (events & EPOLLOUT) {
        flush(c);
        if (c->closed || c->out_len) return;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    }
    ssize_t n = read(c->fd, c->in + c->in_len, ROOM - c->in_len);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        drop(c);
        return;
    }
    c->in_len += (size_t)n;
    size_t taken = 0, used;
    while (!c->closed && !c->closing && taken < c->in_len) {
        used = c->upgraded ? take_frame(c, c->in + taken, c->in_len - taken) : take_head(c);
        if (!used) break;
        taken += used;
    }
    memmove(c->in, c->in + taken, c->in_len - taken);
    c->in_len -= taken;
    if (!c->closed && c->out_len) flush(c);
    if (c->in_len == ROOM) drop(c);
}

static void accept_all(int listener) {
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        if (!c) die("calloc");
        c->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0) die("epoll_ctl");
    }
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 4096) < 0)
        die("listen");
    getsockname(listener, (struct sockaddr *)&address, &len);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e) < 0) die("epoll");
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 256, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                ready(events[i].data.ptr, events[i].events);
            else
                accept_all(listener);
        }
        while (closed_list) {
            struct conn *c = closed_list;
            closed_list = c->next_closed;
            free(c);
        }
    }
}
