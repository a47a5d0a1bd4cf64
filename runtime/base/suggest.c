#include "runtime/base/suggest.h"

#include <string.h>

enum { WORD_MAX = 64 };

/* Optimal string alignment distance (insert, delete, substitute, swap of neighbours). */
static size_t distance(const char *a, size_t la, const char *b, size_t lb) {
        size_t d[3][WORD_MAX + 1];

        for (size_t j = 0; j <= lb; j++)
                d[0][j] = j;
        for (size_t i = 1; i <= la; i++) {
                size_t *cur = d[i % 3], *prev = d[(i - 1) % 3], *prev2 = d[(i + 1) % 3];

                cur[0] = i;
                for (size_t j = 1; j <= lb; j++) {
                        size_t best = prev[j - 1] + (a[i - 1] != b[j - 1]);

                        if (prev[j] + 1 < best)
                                best = prev[j] + 1;
                        if (cur[j - 1] + 1 < best)
                                best = cur[j - 1] + 1;
                        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                            prev2[j - 2] + 1 < best)
                                best = prev2[j - 2] + 1;
                        cur[j] = best;
                }
        }
        return d[la % 3][lb];
}

const char *suggest_name(const char *word, const char *const *names, size_t n) {
        const size_t len = strlen(word);
        const char *best = NULL;
        size_t best_d = len <= 4 ? 1 : len / 3 > 2 ? len / 3 : 2; /* two of four letters are another word */

        if (len == 0 || len > WORD_MAX)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                size_t d;

                if (!names[i] || strlen(names[i]) > WORD_MAX)
                        continue;
                d = distance(word, len, names[i], strlen(names[i]));
                if (d < len && (d < best_d || (d == best_d && !best))) {
                        best = names[i];
                        best_d = d;
                }
        }
        return best;
}
