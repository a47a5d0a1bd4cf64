/*
 * frame.h - the inner end of commands that are given stdin in frames (kubernetes/client/exec.h)
 */
#pragma once

/** FRAME_WORD - the first word for frame_main(); nobody types it */
#define FRAME_WORD "@frame"

/**
 * frame_main() - run a command whose stdin is what standard input says in frames
 * @argv: the command, NULL-terminated, looked up in PATH
 *
 * A frame is its length in decimal, a line end, and so many bytes; length 0 is the end of the command's
 * stdin. Standard input that ends without it, or is not framed, is a connection that was lost: the command is
 * killed. Return: the command's exit code, 128 + the signal that killed it, 125 (could not start a process),
 * 126 or 127.
 */
int frame_main(char **argv) __attribute__((nonnull(1)));
