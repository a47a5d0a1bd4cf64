#include "runtime/agent/runner/schema.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

static int check(const json_t *schema, const json_t *v, int depth, struct error *err);

static bool type_is(const char *type, const json_t *v) {
        if (strcmp(type, "integer") == 0)
                return json_is_integer(v) ||
                       (json_is_real(v) && json_real_value(v) == (double) (json_int_t) json_real_value(v));
        return (strcmp(type, "object") == 0 && json_is_object(v)) ||
               (strcmp(type, "array") == 0 && json_is_array(v)) ||
               (strcmp(type, "string") == 0 && json_is_string(v)) ||
               (strcmp(type, "number") == 0 && json_is_number(v)) ||
               (strcmp(type, "boolean") == 0 && json_is_boolean(v)) ||
               (strcmp(type, "null") == 0 && json_is_null(v));
}

static int check_type(const json_t *type, const json_t *v, struct error *err) {
        size_t i;
        json_t *one;

        if (json_is_string(type))
                return type_is(json_string_value(type), v)
                               ? 0
                               : error_set(err, -EINVAL, "not of type %s", ESC(json_string_value(type)));
        if (!json_is_array(type))
                return 0;
        json_array_foreach(type, i, one) {
                if (json_is_string(one) && type_is(json_string_value(one), v))
                        return 0;
        }
        return error_set(err, -EINVAL, "of none of the types it may have");
}

static int check_enum(const json_t *schema, const json_t *v, struct error *err) {
        const json_t *list = json_object_get(schema, "enum"), *only = json_object_get(schema, "const");
        size_t i;
        json_t *one;

        if (only && !json_equal(only, v))
                return error_set(err, -EINVAL, "not the only value it may have");
        if (!json_is_array(list))
                return 0;
        json_array_foreach(list, i, one) {
                if (json_equal(one, v))
                        return 0;
        }
        return error_set(err, -EINVAL, "none of the values it may have");
}

static int check_bound(const json_t *schema, const char *least, const char *most, double have,
                       struct error *err) {
        const json_t *min = json_object_get(schema, least), *max = json_object_get(schema, most);

        if (json_is_number(min) && have < json_number_value(min))
                return error_set(err, -EINVAL, "%s is %g", least, json_number_value(min));
        if (json_is_number(max) && have > json_number_value(max))
                return error_set(err, -EINVAL, "%s is %g", most, json_number_value(max));
        return 0;
}

static int check_object(const json_t *schema, const json_t *v, int depth, struct error *err) {
        const json_t *properties = json_object_get(schema, "properties"),
                     *more = json_object_get(schema, "additionalProperties");
        const json_t *required = json_object_get(schema, "required");
        const char *key;
        json_t *member, *name;
        size_t i;
        int r = 0;

        json_array_foreach(required, i, name) {
                if (json_is_string(name) && !json_object_get(v, json_string_value(name)))
                        return error_set(err, -EINVAL, "'%s' is missing", ESC(json_string_value(name)));
        }
        json_object_foreach((json_t *) (uintptr_t) v, key, member) {
                const json_t *own = json_object_get(properties, key);

                if (own)
                        r = check(own, member, depth + 1, err);
                else if (json_is_false(more))
                        return error_set(err, -EINVAL, "unknown: '%s'", ESC(key));
                else if (json_is_object(more))
                        r = check(more, member, depth + 1, err);
                if (r < 0)
                        return error_wrap(err, r, "'%s'", ESC(key));
        }
        return 0;
}

static int check_array(const json_t *schema, const json_t *v, int depth, struct error *err) {
        const json_t *items = json_object_get(schema, "items");
        size_t i;
        json_t *one;
        int r = check_bound(schema, "minItems", "maxItems", (double) json_array_size(v), err);

        if (r < 0 || !json_is_object(items))
                return r;
        json_array_foreach(v, i, one) {
                r = check(items, one, depth + 1, err);
                if (r < 0)
                        return error_wrap(err, r, "[%zu]", i);
        }
        return 0;
}

static int check_any(const json_t *list, const json_t *v, int depth, struct error *err) {
        size_t i;
        json_t *one;

        if (!json_is_array(list))
                return 0;
        json_array_foreach(list, i, one) {
                if (check(one, v, depth + 1, NULL) == 0)
                        return 0;
        }
        return error_set(err, -EINVAL, "fits none of the forms it may have");
}

static int check(const json_t *schema, const json_t *v, int depth, struct error *err) {
        int r;

        if (depth > SCHEMA_DEPTH_MAX)
                return error_set(err, -EINVAL, "nested too deep");
        if (!json_is_object(schema))
                return 0;
        r = check_type(json_object_get(schema, "type"), v, err);
        if (r == 0)
                r = check_enum(schema, v, err);
        if (r == 0)
                r = check_any(json_object_get(schema, "anyOf"), v, depth, err);
        if (r == 0 && json_is_number(v))
                r = check_bound(schema, "minimum", "maximum", json_number_value(v), err);
        if (r == 0 && json_is_string(v))
                r = check_bound(schema, "minLength", "maxLength", (double) json_string_length(v), err);
        if (r == 0 && json_is_object(v))
                r = check_object(schema, v, depth, err);
        if (r == 0 && json_is_array(v))
                r = check_array(schema, v, depth, err);
        return r;
}

int schema_check(const json_t *schema, const json_t *value, struct error *err) {
        return check(schema, value, 0, err);
}
