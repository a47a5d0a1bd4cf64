/*
 * log.h - messages for the person at the terminal
 *
 * Only cli and the main loops of processes log; library code returns struct error. The level and the sink are
 * the only mutable globals of the program.
 */
#pragma once

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_LEVEL_COUNT };

/** log_set_level() - what is written from now on: everything up to and including @level. Default: LOG_WARN.
 */
void log_set_level(enum log_level level);

/**
 * log_write() - one line "cofferdam: message" to standard error in a single write(2)
 * Keeps errno. Lines above 2 KiB are cut.
 */
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
