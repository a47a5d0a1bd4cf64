/*
 * names.h - the grammars of names, labels, quantities and tolerations
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kubernetes/manifest/plan.h"
#include "runtime/base/error.h"

enum { KUBE_LABEL_MAX = 63 };

/**
 * kube_label_value() - @text as a label's value
 * A valid value stays; else each character outside [A-Za-z0-9._-] becomes '-', the rest is cut to 54 bytes
 * and trimmed, and "-" and the 32-bit FNV-1a of the raw bytes follow. Return: @ret.
 */
const char *kube_label_value(const char *text, char ret[static KUBE_LABEL_MAX + 1]);

/** kube_label_value_valid() - empty, or up to 63 of [A-Za-z0-9._-] that begin and end alphanumerically */
bool kube_label_value_valid(const char *text);

/** kube_label_key_valid() - [PREFIX/]NAME, PREFIX a DNS name of up to 253 bytes */
bool kube_label_key_valid(const char *text);

/** kube_name_valid() - a DNS subdomain of up to 253 bytes: names of objects */
bool kube_name_valid(const char *text);

/** kube_dns_label_valid() - a DNS label of up to 63 bytes: namespaces, containers, volumes, pods that are run
 */
bool kube_dns_label_valid(const char *text);

/** kube_data_key_valid() - a key of a ConfigMap or Secret: up to 253 of [A-Za-z0-9._-], not "." or "..*" */
bool kube_data_key_valid(const char *text);

/** kube_reserved_key() - whether a label is one that is set on every object: managed-by, component, and those
 * of @domain that have a field of their own */
bool kube_reserved_key(const char *key, const char *domain);

/**
 * kube_quantity() - the value of a quantity: "500m", "2Gi", "1.5", "1e3"
 * @ret_milli: in thousandths, rounded up; NULL: not wanted
 * Return: 0, -EINVAL (not one, negative), -ERANGE.
 */
int kube_quantity(const char *text, uint64_t *ret_milli) __attribute__((warn_unused_result));

/** kube_path_same() - whether two absolute paths are one, but for slashes at the end and double ones */
bool kube_path_same(const char *a, const char *b);

/** kube_path_below() - whether @path is @top or below it */
bool kube_path_below(const char *path, const char *top);

/** kube_environment_id_check() - the name of a claim to resume: [a-z0-9-], at most 253. Return: 0, -EINVAL.
 */
int kube_environment_id_check(const char *id, struct error *err) __attribute__((warn_unused_result));

/** kube_path_has_dots() - whether a path has a part "." or ".." */
bool kube_path_has_dots(const char *path);

/** kube_sub_path_valid() - relative, without empty, "." or ".." parts */
bool kube_sub_path_valid(const char *text);

/**
 * kube_subdir_check() - the sub-directory of a profile
 * Return: NULL, or what is wrong: "must be relative to ~/.claude"; static.
 */
const char *kube_subdir_check(const char *subdir);

/**
 * kube_toleration_parse() - KEY[=VALUE][:EFFECT]
 * @text:   cut up in place; the result points into it
 * @ret:    set on success
 * Return: 0, -EINVAL with what is wrong.
 */
int kube_toleration_parse(char *text, struct kube_toleration *ret, struct error *err)
        __attribute__((warn_unused_result));
