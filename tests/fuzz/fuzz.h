/*
 * fuzz.h - what every fuzz-<noun>.c defines; libFuzzer or fuzz-main.c calls it
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * LLVMFuzzerTestOneInput() - give one input to the parser under test
 * @data: @size bytes from an outsider, borrowed, not terminated, in a block of exactly @size bytes
 *
 * Traps (__builtin_trap) when accepted input breaks a documented bound. Keeps nothing between two calls.
 * Return: 0.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
