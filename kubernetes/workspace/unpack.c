#include "kubernetes/workspace/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

/** struct reading - the source as libarchive asks it */
struct reading {
        unpack_source source;
        void *arg;
        int error;    /* what it returned */
        bool ended;   /* it has no more */
        size_t zeros; /* bytes at the end of what it gave */
};

enum { END_BYTES = 1024 }; /* of zeros are the end of a tar archive */

static la_ssize_t read_more(struct archive *a, void *arg, const void **ret) {
        struct reading *reading = arg;
        const ssize_t n = reading->source(reading->arg, ret);

        if (n >= 0) {
                const char *bytes = *ret;
                size_t zeros = 0;

                while (zeros < (size_t) n && bytes[(size_t) n - zeros - 1] == '\0')
                        zeros++;
                reading->zeros = zeros == (size_t) n ? reading->zeros + zeros : zeros;
                reading->ended = n == 0;
                return n;
        }
        reading->error = (int) n;
        archive_set_error(a, (int) -n, "it could not be read on");
        return ARCHIVE_FATAL;
}

static void auto_archive(struct archive **a) {
        (void) archive_read_free(*a);
}

static int broken(struct archive *a, struct error *err) {
        const char *text = archive_error_string(a);

        return error_set(err, -EBADMSG, "export: the archive is damaged or cut short: %s",
                         text ? ESC(text) : "unknown");
}

static int read_data(struct archive *a, struct landing *l, struct error *err) {
        for (;;) {
                const void *data;
                size_t len;
                la_int64_t offset;
                int r = archive_read_data_block(a, &data, &len, &offset);

                if (r == ARCHIVE_EOF)
                        return landing_file_end(l, err);
                if (r != ARCHIVE_OK || offset < 0)
                        return broken(a, err);
                r = landing_data(l, (uint64_t) offset, data, len, err);
                if (r < 0)
                        return r;
        }
}

static int read_file(struct archive *a, struct archive_entry *e, const char *name, struct landing *l,
                     struct error *err) {
        bool wanted;
        int r = landing_file(l, name, archive_entry_stat(e), &wanted, err);

        return r < 0 || !wanted ? r : read_data(a, l, err);
}

static int read_member(struct archive *a, struct archive_entry *e, struct landing *l, struct error *err) {
        const char *name = archive_entry_pathname(e);
        const char *target;

        if (!name)
                return landing_skip(l, "./", "its name is not UTF-8", err);
        if (archive_entry_hardlink(e))
                return landing_skip(l, name, "a hard link", err);
        switch (archive_entry_filetype(e)) {
        case AE_IFREG:
                return read_file(a, e, name, l, err);
        case AE_IFDIR:
                return landing_dir(l, name, archive_entry_stat(e), err);
        case AE_IFLNK:
                target = archive_entry_symlink(e);
                return target ? landing_link(l, name, target, err)
                              : landing_skip(l, name, "its target is not UTF-8", err);
        default:
                return landing_skip(l, name, "neither file, directory nor symbolic link", err);
        }
}

static int read_all(struct archive *a, struct reading *reading, struct landing *l, struct error *err) {
        struct archive_entry *e;
        int r;

        if (archive_read_open(a, reading, NULL, read_more, NULL) != ARCHIVE_OK)
                return broken(a, err);
        for (;;) {
                r = archive_read_next_header(a, &e);
                if (r == ARCHIVE_EOF) /* libarchive takes an end between two members for one of the archive */
                        return !reading->ended || reading->zeros >= END_BYTES
                                       ? 0
                                       : error_set(err, -EBADMSG, "export: the archive is cut short");
                if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
                        return broken(a, err);
                r = read_member(a, e, l, err);
                if (r < 0)
                        return r;
        }
}

int unpack_stream(unpack_source source, void *arg, struct landing *l, struct error *err) {
        __attribute__((cleanup(auto_archive))) struct archive *a = archive_read_new();
        struct reading reading = { source, arg, 0 };
        int r;

        if (!a || archive_read_support_format_tar(a) != ARCHIVE_OK)
                return error_set(err, -ENOMEM, "out of memory");
        r = read_all(a, &reading, l, err);
        return r < 0 && reading.error < 0 ? error_set(err, reading.error, "export: the copy's archive: %s",
                                                      strerror(-reading.error))
                                          : r;
}
