/* A model provider that costs next to nothing: one thread, one epoll, HTTP/1.1 with keep-alive.
 *
 *     upstream            listens on a free port of 127.0.0.1 and prints its number
 *
 * It speaks three wires, told from one another by the path: chat completions, messages (".../messages") and
 * generateContent (".../models/<model>:...").  It drains the request and answers what the model's name asks for,
 * which stands in the body's first bytes, or in the path:
 *
 *     bench-<n>k                 a whole answer of exactly n * 1024 bytes
 *     bench-embed-<n>k           the same of embeddings: almost all of it is numbers
 *     bench-image-<n>k           the same of an image: one string of base64
 *     bench-stream-<n>-<ms>      an event stream of n chunks, one every <ms> milliseconds, 0 = at full speed
 *     bench-untold-<n>-<ms>      the same, without usage (chat)
 *     bench-idle                 the head and one chunk of a stream, then silence
 *     anything else              404; so a proxy that forgot to rewrite "up/bench-1k" shows in the results
 *
 * A request without a body gets 200 and a small object.  Each chunk is one write of its own, with TCP_NODELAY,
 * and carries the time of its making (CLOCK_MONOTONIC, ns, hex) in its text, behind an @: streams.c reads the
 * delay from it, in whatever wire the text arrives.
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
#include <strings.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16384, START_MAX = 4096, PIECE_MAX = 1024, BURST = 16, PAGES_MAX = 16, ROLE = 0 };

enum wire { CHAT, MESSAGES, CONTENTS };
enum content { WORDS, NUMBERS, BASE64 };

struct conn;

/* What epoll hands back: which connection, and what to do with it. */
struct source {
    struct conn *conn;
    void (*ready)(struct conn *, uint32_t events);
};

struct conn {
    int fd, timer;
    struct source socket_source, timer_source;
    bool closed, wants_out;
    struct conn *next_closed;

    char head[HEAD_MAX + 1]; /* the request's head, and what came with it */
    size_t head_len;
    bool in_body;
    size_t body_left;
    char start[START_MAX + 1]; /* the first bytes of the body */
    size_t start_len;

    const char *out; /* the piece being written */
    size_t out_len, out_sent;
    char piece[PIECE_MAX];
    enum wire wire;
    bool streaming, untold;
    long next, last; /* next piece of a stream: -1 head, 0 the first chunk, then content; last: the end */
    uint64_t due;    /* pieces that may go now */
};

struct page {
    enum wire wire;
    enum content content;
    long kib;
    char *bytes;
    size_t len;
};

static int epoll_fd;
static struct conn *closed_list;
static struct page pages[PAGES_MAX];
static unsigned streams_begun;

/* With type and length or coding 20 headers, as the vendors send. */
static const char COMMON[] =
    "Date: Wed, 01 Jul 2026 12:00:00 GMT\r\nServer: bench\r\nopenai-organization: bench\r\n"
    "openai-processing-ms: 412\r\nopenai-version: 2020-10-01\r\nx-request-id: req_0123456789abcdef0123456789abcdef\r\n"
    "x-ratelimit-limit-requests: 10000\r\nx-ratelimit-limit-tokens: 30000000\r\n"
    "x-ratelimit-remaining-requests: 9999\r\nx-ratelimit-remaining-tokens: 29999957\r\n"
    "x-ratelimit-reset-requests: 6ms\r\nx-ratelimit-reset-tokens: 0s\r\n"
    "x-envoy-upstream-service-time: 431\r\nstrict-transport-security: max-age=31536000; includeSubDomains\r\n"
    "cf-cache-status: DYNAMIC\r\nX-Content-Type-Options: nosniff\r\nCF-RAY: 9a0123456789abcd-FRA\r\n"
    "alt-svc: h3=\":443\"; ma=86400\r\n";

static void die(const char *what) {
    perror(what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- pages ---- */

static char *whole_answer(const char *status, const char *body, size_t body_len, size_t *len) {
    char *bytes = malloc(body_len + 2048);
    if (!bytes) die("malloc");
    int head = sprintf(bytes, "HTTP/1.1 %s\r\n%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", status,
                       COMMON, body_len);
    memcpy(bytes + head, body, body_len);
    *len = (size_t)head + body_len;
    return bytes;
}

/* What stands before and after the text of a whole answer, by wire. */
static const char *const ANSWERS[][2] = {
    [CHAT] = {"{\"id\":\"chatcmpl-bench0123456789\",\"object\":\"chat.completion\",\"created\":1782900000,\"model\":\"bench\","
              "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"",
              "\",\"refusal\":null,\"annotations\":[]},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":"
              "219,\"completion_tokens\":107,\"total_tokens\":326,\"prompt_tokens_details\":{\"cached_tokens\":128,"
              "\"audio_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":64,\"audio_tokens\":0,"
              "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}},\"service_tier\":\"default\"}"},
    [MESSAGES] = {"{\"id\":\"msg_01bench0123456789\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"bench\","
                  "\"content\":[{\"type\":\"text\",\"text\":\"",
                  "\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":91,"
                  "\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":128,\"output_tokens\":107,"
                  "\"service_tier\":\"standard\"}}"},
    [CONTENTS] = {"{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"",
                  "\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":219,"
                  "\"candidatesTokenCount\":107,\"totalTokenCount\":326,\"cachedContentTokenCount\":128},"
                  "\"modelVersion\":\"bench\",\"responseId\":\"bench0123456789AbCd\"}"},
};

/* The same for answers of other content, and what is repeated between the two. */
static const struct form {
    const char *before, *after, *filling;
} FORMS[] = {
    [NUMBERS] = {"{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[",
                 "0.5]}],\"model\":\"bench\",\"usage\":{\"prompt_tokens\":219,\"total_tokens\":219}}",
                 "-0.022915341,0.0014823675,-0.009184301,0.031457219,"},
    [BASE64] = {"{\"created\":1782900000,\"background\":\"opaque\",\"data\":[{\"b64_json\":\"",
                "\"}],\"output_format\":\"png\",\"quality\":\"high\",\"size\":\"1024x1024\",\"usage\":{\"input_tokens\":50,"
                "\"input_tokens_details\":{\"image_tokens\":40,\"text_tokens\":10},\"output_tokens\":4160,"
                "\"total_tokens\":4210}}",
                "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAADwf7zUAAEAAElEQVR4nOz9d5hc1Z0g/NfKd7"},
};

/* An answer of exactly kib * 1024 bytes; text is padded with words. */
static const struct page *page_of(enum wire wire, enum content content, long kib) {
    static const char words[] = "lorem ipsum dolor sit amet ";
    struct page *free_page = NULL;
    for (int i = 0; i < PAGES_MAX; i++) {
        struct page *page = &pages[i];
        if (page->bytes && page->wire == wire && page->content == content && page->kib == kib) return page;
        if (!page->bytes && !free_page) free_page = page;
    }
    if (!free_page || kib < 1 || kib > 65536) return NULL;
    bool is_text = content == WORDS;
    const char *before = is_text ? ANSWERS[wire][0] : FORMS[content].before;
    const char *after = is_text ? ANSWERS[wire][1] : FORMS[content].after;
    size_t size = (size_t)kib * 1024, head = strlen(before), tail = strlen(after);
    char *body = malloc(size);
    if (!body) die("malloc");
    memcpy(body, before, head);
    const char *filling = is_text ? words : FORMS[content].filling;
    size_t one = strlen(filling), whole = size - head - tail;
    if (content == NUMBERS) whole -= whole % one; /* half a number would be none: blanks stand for it */
    memset(body + head, ' ', size - head - tail);
    for (size_t i = 0; i < whole; i++) body[head + i] = filling[i % one];
    memcpy(body + size - tail, after, tail);
    free_page->wire = wire;
    free_page->content = content;
    free_page->kib = kib;
    free_page->bytes = whole_answer("200 OK", body, size, &free_page->len);
    free(body);
    return free_page;
}

/* ---- connections ---- */

static void watch(struct conn *c, bool wants_out) {
    if (c->wants_out == wants_out) return;
    c->wants_out = wants_out;
    struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0u), .data.ptr = &c->socket_source};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void end_stream(struct conn *c) {
    c->streaming = c->untold = false;
    c->due = 0;
    if (c->timer >= 0) close(c->timer);
    c->timer = -1;
}

/* Close now, free at the end of the turn: later events of the same turn may still point here. */
static void drop(struct conn *c) {
    if (c->closed) return;
    end_stream(c);
    close(c->fd);
    c->closed = true;
    c->next_closed = closed_list;
    closed_list = c;
}

/* ---- answers ---- */

static size_t as_chunk(char *to, const char *event, int len) {
    return (size_t)sprintf(to, "%x\r\n%.*s\r\n", len, len, event);
}

/* The events of a stream, by wire: the first, the one of a text (with the time of its making), the two before
 * the end, and the end itself; an event that a wire lacks is empty. */
#define CHAT_CHUNK                                                                                              \
    "data: {\"id\":\"chatcmpl-bench0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1782900000,"         \
    "\"model\":\"bench\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":"
#define CONTENTS_END                                                                                            \
    "\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":219,\"candidatesTokenCount\":400,\"totalTokenCount\":619},"   \
    "\"modelVersion\":\"bench\",\"responseId\":\"bench0123456789AbCd\"}\r\n\r\n"
enum event { FIRST, TEXT, SECOND_LAST, LAST, END };
static const char *const EVENTS[][END + 1] = {
    [CHAT] = {CHAT_CHUNK "[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                         "\"finish_reason\":null}],\"usage\":null}\n\n",
              CHAT_CHUNK "[{\"index\":0,\"delta\":{\"content\":\"@%016llx\"},\"logprobs\":null,\"finish_reason\":null}],"
                         "\"usage\":null}\n\n",
              CHAT_CHUNK "[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
              CHAT_CHUNK "[],\"usage\":{\"prompt_tokens\":219,\"completion_tokens\":400,\"total_tokens\":619,"
                         "\"prompt_tokens_details\":{\"cached_tokens\":128},"
                         "\"completion_tokens_details\":{\"reasoning_tokens\":64}}}\n\n",
              "data: [DONE]\n\n"},
    [MESSAGES] = {"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_01bench0123456789\","
                  "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"bench\",\"content\":[],\"stop_reason\":null,"
                  "\"stop_sequence\":null,\"usage\":{\"input_tokens\":91,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":128,\"output_tokens\":1}}}\n\n"
                  "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
                  "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
                  "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                  "\"delta\":{\"type\":\"text_delta\",\"text\":\"@%016llx\"}}\n\n",
                  "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
                  "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
                  "\"stop_sequence\":null},\"usage\":{\"output_tokens\":400}}\n\n",
                  "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
    [CONTENTS] = {"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Now\"}],\"role\":\"model\"}," CONTENTS_END,
                  "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"@%016llx\"}],\"role\":\"model\"}," CONTENTS_END,
                  "", "",
                  "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},"
                  "\"finishReason\":\"STOP\"," CONTENTS_END},
};

/* Put the next piece of the stream into c->piece. */
static void next_piece(struct conn *c) {
    char event[PIECE_MAX - 32];
    long nth = c->next++;
    c->out = c->piece;
    c->out_len = c->out_sent = 0;
    if (nth < ROLE) {
        c->out_len = (size_t)sprintf(c->piece,
                                     "HTTP/1.1 200 OK\r\n%sContent-Type: text/event-stream; charset=utf-8\r\n"
                                     "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n",
                                     COMMON);
        return;
    }
    enum event kind = nth == ROLE ? FIRST : nth < c->last - 2 ? TEXT : (enum event)(END - (c->last - nth));
    int len = sprintf(event, EVENTS[c->wire][kind], (unsigned long long)now_ns());
    if (len && !(c->untold && kind == LAST)) c->out_len = as_chunk(c->piece, event, len);
    if (kind == END) {
        c->out_len += (size_t)sprintf(c->piece + c->out_len, "0\r\n\r\n");
        end_stream(c);
    }
}

/* Write what is due: one send for each piece, a few pieces in a turn so that all streams move. */
static void advance(struct conn *c) {
    for (int burst = 0; burst < BURST;) {
        if (c->out_sent < c->out_len) {
            ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
            if (n < 0 && errno == EAGAIN) {
                watch(c, true);
                return;
            }
            if (n < 0) {
                drop(c);
                return;
            }
            c->out_sent += (size_t)n;
            continue;
        }
        if (!c->streaming || c->due == 0) {
            watch(c, false);
            return;
        }
        c->due--;
        burst++;
        next_piece(c);
    }
    watch(c, true);
}

static void timer_ready(struct conn *c, uint32_t events) {
    (void)events;
    uint64_t ticks;
    if (c->closed || c->timer < 0 || read(c->timer, &ticks, sizeof ticks) != sizeof ticks) return;
    c->due += ticks;
    advance(c);
}

/* Streams that begin together must not tick together: each has its own phase (golden ratio). */
static void begin_paced(struct conn *c, long ms) {
    long interval = ms * 1000000L;
    long phase = (long)((double)interval * ((double)(streams_begun++ * 2654435769u) / 4294967296.0)) + 1000;
    struct itimerspec when = {.it_interval = {interval / 1000000000L, interval % 1000000000L},
                              .it_value = {phase / 1000000000L, phase % 1000000000L}};
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (c->timer < 0 || timerfd_settime(c->timer, 0, &when, NULL) < 0) die("timerfd");
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &c->timer_source};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->timer, &e) < 0) die("epoll_ctl");
}

static void begin_stream(struct conn *c, long chunks, long ms, bool idle) {
    c->streaming = true;
    c->next = -1;
    c->last = chunks + 2; /* chunks, the stop, the usage, [DONE]: indexes 0 to chunks + 2 */
    c->due = 2;           /* the head and the first chunk */
    if (idle)
        c->last = 1000;
    else if (ms == 0)
        c->due = UINT64_MAX;
    else
        begin_paced(c, ms);
}

static void say(struct conn *c, const char *bytes, size_t len) {
    c->out = bytes;
    c->out_len = len;
    c->out_sent = 0;
}

/* Find the model's name, and the wire with it. */
static const char *model_of(struct conn *c) {
    char *line_end = strstr(c->head, "\r\n"), *model;
    if (line_end) *line_end = 0;
    c->wire = strstr(c->head, "/messages") ? MESSAGES : strstr(c->head, "/models/") ? CONTENTS : CHAT;
    if (c->wire == CONTENTS) return strstr(c->head, "/models/") + 8;
    model = strstr(c->start, "\"model\"");
    if (model) model = strchr(model + 7, '"');
    return model ? model + 1 : NULL;
}

static void answer(struct conn *c) {
    static char *hello, *unknown;
    static size_t hello_len, unknown_len;
    static const char hello_body[] = "{\"object\":\"list\",\"data\":[]}";
    static const char unknown_body[] =
        "{\"error\":{\"message\":\"no such model\",\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":"
        "\"model_not_found\"}}";
    if (!hello) {
        hello = whole_answer("200 OK", hello_body, sizeof hello_body - 1, &hello_len);
        unknown = whole_answer("404 Not Found", unknown_body, sizeof unknown_body - 1, &unknown_len);
    }
    long a = 0, b = 0;
    const char *model = model_of(c);
    const struct page *page = NULL;
    if (c->start_len == 0)
        say(c, hello, hello_len);
    else if (!model)
        say(c, unknown, unknown_len);
    else if (strncmp(model, "bench-idle", 10) == 0)
        begin_stream(c, 0, 0, true);
    else if (sscanf(model, "bench-stream-%ld-%ld", &a, &b) == 2 && a > 0 && b >= 0)
        begin_stream(c, a, b, false);
    else if (sscanf(model, "bench-untold-%ld-%ld", &a, &b) == 2 && a > 0 && b >= 0) {
        c->untold = true;
        begin_stream(c, a, b, false);
    }
    else if (sscanf(model, "bench-%ldk", &a) == 1 && (page = page_of(c->wire, WORDS, a)))
        say(c, page->bytes, page->len);
    else if (sscanf(model, "bench-embed-%ldk", &a) == 1 && (page = page_of(c->wire, NUMBERS, a)))
        say(c, page->bytes, page->len);
    else if (sscanf(model, "bench-image-%ldk", &a) == 1 && (page = page_of(c->wire, BASE64, a)))
        say(c, page->bytes, page->len);
    else
        say(c, unknown, unknown_len);
    c->head_len = c->start_len = 0;
    c->in_body = false;
    advance(c);
}

/* ---- requests ---- */

static void take_body(struct conn *c, const char *data, size_t len) {
    size_t keep = START_MAX - c->start_len < len ? START_MAX - c->start_len : len;
    memcpy(c->start + c->start_len, data, keep);
    c->start_len += keep;
    c->start[c->start_len] = 0;
    c->body_left -= len < c->body_left ? len : c->body_left;
    if (c->body_left == 0) answer(c);
}

static void take_head(struct conn *c, const char *data, size_t len) {
    if (c->head_len + len > HEAD_MAX) { /* a body so large that it came along: only its head is looked at */
        size_t room = HEAD_MAX - c->head_len;
        memcpy(c->head + c->head_len, data, room);
        c->head[HEAD_MAX] = 0;
    } else {
        memcpy(c->head + c->head_len, data, len);
        c->head[c->head_len + len] = 0;
    }
    char *end = strstr(c->head, "\r\n\r\n");
    size_t before = c->head_len;
    c->head_len += len;
    if (!end) {
        if (c->head_len >= HEAD_MAX) drop(c);
        return;
    }
    *end = 0;
    const char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->body_left = length ? strtoul(length + 17, NULL, 10) : 0;
    c->in_body = true;
    c->start_len = 0;
    c->start[0] = 0;
    size_t used = (size_t)(end + 4 - c->head) - before; /* of data, by the head */
    take_body(c, data + used, len - used);
}

static void socket_ready(struct conn *c, uint32_t events) {
    static char data[65536];
    if (c->closed) return;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        ssize_t n = read(c->fd, data, sizeof data);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            drop(c);
            return;
        }
        if (n > 0 && c->in_body)
            take_body(c, data, (size_t)n);
        else if (n > 0)
            take_head(c, data, (size_t)n);
    }
    if (!c->closed && (events & EPOLLOUT)) advance(c);
}

static void accept_ready(struct conn *listener, uint32_t events) {
    (void)events;
    int fd;
    while ((fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *c = calloc(1, sizeof *c);
        if (!c) die("calloc");
        c->fd = fd;
        c->timer = -1;
        c->socket_source = (struct source){c, socket_ready};
        c->timer_source = (struct source){c, timer_ready};
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &c->socket_source};
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0) die("epoll_ctl");
    }
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    struct conn listener = {.timer = -1};
    listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener.fd < 0 || bind(listener.fd, (struct sockaddr *)&address, len) < 0 || listen(listener.fd, 4096) < 0)
        die("listen");
    getsockname(listener.fd, (struct sockaddr *)&address, &len);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    listener.socket_source = (struct source){&listener, accept_ready};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &listener.socket_source}, events[256];
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener.fd, &e) < 0) die("epoll");
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 256, -1);
        if (n < 0 && errno != EINTR) die("epoll_wait");
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            source->ready(source->conn, events[i].events);
        }
        while (closed_list) {
            struct conn *c = closed_list;
            closed_list = c->next_closed;
            free(c);
        }
    }
}
