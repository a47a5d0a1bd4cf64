/*
 * library.h - the program's side of libcofferdam: it executes this program for all that needs a process of
 * its own, with LIBRARY_WORD as the first word
 */
#pragma once

/**
 * library_main() - do what the request says and answer
 * Descriptors: runtime/lib/request.h. Return: exit code.
 */
int library_main(void);
