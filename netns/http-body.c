#include "netns/http-body.h"

#include <errno.h>

/* Positions in a chunked body; each names what is expected next. */
enum {
        CHUNK_SIZE,    /* a digit, or the end of the size */
        CHUNK_EXT,     /* the rest of the size's line */
        CHUNK_LF,      /* LF of the size's line */
        CHUNK_DATA,    /* @left bytes */
        CHUNK_DATA_CR, /* CR LF after them */
        CHUNK_DATA_LF,
        TRAILER_START, /* a line of the trailer, or CR of the last one */
        TRAILER_LINE,
        TRAILER_LF,
        LAST_LF,
        CHUNK_DONE,
};

enum { SIZE_DIGITS_MAX = 15 };

void http_body_init(struct http_body *body, const struct http_head *head) {
        *body = (struct http_body){ .framing = head->framing, .left = head->length, .state = CHUNK_SIZE };
        if (head->framing == HTTP_CHUNKED)
                body->left = 0;
}

bool http_body_done(const struct http_body *body) {
        switch (body->framing) {
        case HTTP_NO_BODY:
                return true;
        case HTTP_LENGTH:
                return body->left == 0;
        case HTTP_CHUNKED:
                return body->state == CHUNK_DONE;
        case HTTP_TO_EOF:
                return false;
        }
        return false;
}

static int digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_text(char c) {
        return c == '\t' || ((unsigned char) c >= 0x20 && c != 0x7f);
}

/* Return: the state after @c, -EINVAL. */
static int step_size(struct http_body *b, char c) {
        if (digit(c) >= 0 && b->digits < SIZE_DIGITS_MAX) {
                b->left = b->left << 4 | (uint64_t) digit(c);
                b->digits++;
                return CHUNK_SIZE;
        }
        if (b->digits == 0)
                return -EINVAL;
        if (c == '\r')
                return CHUNK_LF;
        return c == ';' ? CHUNK_EXT : -EINVAL;
}

static int step_trailer(struct http_body *b, char c) {
        if (++b->line > HTTP_TRAILER_BYTES_MAX)
                return -EINVAL;
        if (c == '\r')
                return b->state == TRAILER_START ? LAST_LF : TRAILER_LF;
        if (b->state == TRAILER_START && (c == ' ' || c == '\t'))
                return -EINVAL; /* folded */
        return is_text(c) ? TRAILER_LINE : -EINVAL;
}

/* LF after a size: the data of the chunk, or the trailer after the last chunk. */
static int begin_data(struct http_body *b) {
        b->line = 0;
        b->digits = 0;
        return b->left > 0 ? CHUNK_DATA : TRAILER_START;
}

static int step(struct http_body *b, char c) {
        switch (b->state) {
        case CHUNK_SIZE:
                return step_size(b, c);
        case CHUNK_EXT:
                if (++b->line > HTTP_CHUNK_LINE_BYTES_MAX)
                        return -EINVAL;
                if (c == '\r')
                        return CHUNK_LF;
                return is_text(c) ? CHUNK_EXT : -EINVAL;
        case CHUNK_LF:
                return c == '\n' ? begin_data(b) : -EINVAL;
        case CHUNK_DATA_CR:
                return c == '\r' ? CHUNK_DATA_LF : -EINVAL;
        case CHUNK_DATA_LF:
                return c == '\n' ? CHUNK_SIZE : -EINVAL;
        case TRAILER_START:
        case TRAILER_LINE:
                return step_trailer(b, c);
        case TRAILER_LF:
                return c == '\n' ? TRAILER_START : -EINVAL;
        case LAST_LF:
                return c == '\n' ? CHUNK_DONE : -EINVAL;
        default:
                return -EINVAL;
        }
}

static size_t take(struct http_body *b, size_t len) {
        const size_t n = b->left < len ? (size_t) b->left : len;

        b->left -= n;
        return n;
}

static int feed_chunked(struct http_body *b, const char *data, size_t len, size_t *ret_used) {
        size_t i = 0;

        while (i < len && b->state != CHUNK_DONE) {
                int next;

                if (b->state == CHUNK_DATA) {
                        i += take(b, len - i);
                        if (b->left == 0)
                                b->state = CHUNK_DATA_CR;
                        continue;
                }
                next = step(b, data[i++]);
                if (next < 0)
                        return next;
                b->state = (unsigned int) next;
        }
        *ret_used = i;
        return 0;
}

int http_body_feed(struct http_body *body, const char *data, size_t len, size_t *ret_used) {
        switch (body->framing) {
        case HTTP_NO_BODY:
                *ret_used = 0;
                return 0;
        case HTTP_LENGTH:
                *ret_used = take(body, len);
                return 0;
        case HTTP_CHUNKED:
                return feed_chunked(body, data, len, ret_used);
        case HTTP_TO_EOF:
                *ret_used = len;
                return 0;
        }
        return -EINVAL;
}

int http_body_split(struct http_body *body, const char *data, size_t len, size_t *ret_used, bool *ret_data) {
        size_t i = 0;

        if (body->framing != HTTP_CHUNKED) {
                *ret_data = true;
                return http_body_feed(body, data, len, ret_used);
        }
        *ret_data = body->state == CHUNK_DATA && len > 0;
        if (*ret_data) {
                i = take(body, len);
                if (body->left == 0)
                        body->state = CHUNK_DATA_CR;
        }
        while (!*ret_data && i < len && body->state != CHUNK_DATA && body->state != CHUNK_DONE) {
                const int next = step(body, data[i++]);

                if (next < 0)
                        return next;
                body->state = (unsigned int) next;
        }
        *ret_used = i;
        return 0;
}
