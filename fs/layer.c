#include "fs/layer.h"

struct layer_origin layer_origin_of(const struct stat *st) {
        return (struct layer_origin){
                .dev = st->st_dev,
                .ino = st->st_ino,
                .size = (uint64_t) st->st_size,
                .mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                .ctime_ns = st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
        };
}
