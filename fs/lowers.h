/*
 * lowers.h - regions that are the lower of a kernel overlay: what changes on the host has to reach its caches
 */
#pragma once

struct server;

enum { LOWERS_LOOK_MAX = 4096 /* directories of a region that are looked at, the last used ones */ };

/**
 * lowers_look() - tell the supervisor (NOTICE_LOWER_CHANGED) of each region below an overlay in whose
 * directories names came or went since the last look
 * Told for two more looks: what the kernel has of our own answers is good for their timeout, and may be
 * handed to the overlay until then. The tree must not be held. Blocks (file system).
 */
void lowers_look(struct server *s);
