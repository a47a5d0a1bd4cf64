#include "image/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MIN = 20, COLUMNS_DEFAULT = 80, BAR_MAX = 30, SIZE_TEXT = 32, LINE_MAX_BYTES = 160 };

const char *size_text(uint64_t bytes, char *out, size_t size) {
        static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
        double v = (double) bytes;
        size_t i = 0;

        while (v >= 1000 && i < 4) {
                v /= 1000;
                i++;
        }
        (void) snprintf(out, size, i == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[i]);
        return out;
}

void progress_init(struct progress *p, bool quiet) {
        struct winsize w = { 0 };

        *p = (struct progress){ .quiet = quiet,
                                .terminal = isatty(STDERR_FILENO) == 1,
                                .width = COLUMNS_DEFAULT };
        if (p->terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
                p->width = w.ws_col;
}

static void tell(const struct progress *p, struct progress_item *item) {
        char size[SIZE_TEXT];

        if (item->waiting && !item->told_waiting) {
                item->told_waiting = true;
                if (!p->quiet && !p->terminal)
                        (void) dprintf(STDERR_FILENO,
                                       "layer %.12s: another process fetches it: waiting for that\n",
                                       item->name);
        }
        if (item->told || !item->finished)
                return;
        item->told = true;
        if (p->quiet || p->terminal)
                return;
        (void) dprintf(STDERR_FILENO, "layer %.12s %s: %s\n", item->name,
                       size_text(item->total, size, sizeof(size)),
                       item->there ? "is there already" : "pulled");
        if (item->left_out > 0)
                (void) dprintf(STDERR_FILENO, "layer %.12s: %llu devices left out\n", item->name,
                               (unsigned long long) item->left_out);
}

void progress_note(struct progress *p, struct progress_item *item, size_t index) {
        if (index == 0) {
                p->done = p->total = 0;
                p->finished = p->waiting = 0;
        }
        p->done += item->finished ? item->total : item->done;
        p->total += item->total;
        p->finished += item->finished;
        p->waiting += item->waiting;
        tell(p, item);
}

/* "[=====>    ]" of @width columns. */
static void bar(char *out, unsigned int width, uint64_t done, uint64_t total) {
        const unsigned int full =
                total > 0 && done < total ? (unsigned int) ((double) done / (double) total * width) : width;

        memset(out, ' ', width);
        memset(out, '=', full);
        if (full < width)
                out[full] = '>';
        out[width] = '\0';
}

void progress_show(struct progress *p, size_t n) {
        char line[LINE_MAX_BYTES], fill[BAR_MAX + 1], done[SIZE_TEXT], total[SIZE_TEXT];
        unsigned int width = p->width / 3 < BAR_MAX ? p->width / 3 : BAR_MAX;
        int len;

        if (p->quiet || !p->terminal || n == 0)
                return;
        bar(fill, width, p->done, p->total);
        len = p->width < COLUMNS_MIN ? snprintf(line, sizeof(line), "%zu/%zu", p->finished, n)
                                     : snprintf(line, sizeof(line), "layers %zu/%zu [%s] %s of %s%s",
                                                p->finished, n, fill, size_text(p->done, done, sizeof(done)),
                                                size_text(p->total, total, sizeof(total)),
                                                p->waiting > 0 ? ", another process fetches them" : "");
        if (len >= (int) p->width)
                len = (int) p->width - 1; /* a line that wraps cannot be drawn over */
        (void) dprintf(STDERR_FILENO, "\r%.*s\033[K", len, line);
        p->drawn = true;
}

void progress_end(struct progress *p) {
        if (p->drawn)
                (void) dprintf(STDERR_FILENO, "\n");
}
