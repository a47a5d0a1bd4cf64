/*
 * DOC: theory of operation
 *
 * libyaml's events become nodes one by one, so that every limit of node.h holds while the file is read.
 * Refused, because a reader who sees the file must see all that is meant: aliases and anchors, tags, a second
 * document, keys that are not plain text.
 */
#include <errno.h>
#include <yaml.h>

#include "runtime/base/escape.h"
#include "runtime/spec/tree.h"

static unsigned line_of(const yaml_event_t *event) {
        return (unsigned) event->start_mark.line + 1;
}

static int on_mark(struct tree *tree, const yaml_event_t *event, const yaml_char_t *anchor,
                   const yaml_char_t *tag) {
        if (anchor)
                return tree_error(tree, line_of(event), -EINVAL,
                                  "anchors (&name) are not supported: write the value out");
        if (tag)
                return tree_error(tree, line_of(event), -EINVAL,
                                  "tags (!name) are not supported: quote the value");
        return 0;
}

static bool wants_key(const struct tree *tree) {
        return tree->cur && tree->cur->kind == DOC_MAP && !tree->key;
}

static int on_scalar(struct tree *tree, const yaml_event_t *event) {
        const char *text = (const char *) event->data.scalar.value;
        const size_t len = event->data.scalar.length;
        const bool quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        int r;

        r = on_mark(tree, event, event->data.scalar.anchor, event->data.scalar.tag);
        if (r < 0)
                return r;
        return wants_key(tree) ? tree_key(tree, text, len, line_of(event))
                               : tree_scalar(tree, text, len, quoted, line_of(event));
}

static int on_open(struct tree *tree, const yaml_event_t *event, enum doc_kind kind) {
        const bool list = kind == DOC_LIST;
        int r;

        r = on_mark(tree, event, list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
                    list ? event->data.sequence_start.tag : event->data.mapping_start.tag);
        if (r < 0)
                return r;
        if (wants_key(tree))
                return tree_error(tree, line_of(event), -EINVAL, "a key must be text, not a list or mapping");
        return tree_open(tree, kind, line_of(event));
}

static int on_document(struct tree *tree, const yaml_event_t *event) {
        if (tree->root)
                return tree_error(tree, line_of(event), -EINVAL,
                                  "a second document ('---') is not supported");
        if (event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
                return tree_error(tree, line_of(event), -EINVAL, "%TAG is not supported");
        return 0;
}

static int on_event(struct tree *tree, const yaml_event_t *event) {
        switch (event->type) {
        case YAML_DOCUMENT_START_EVENT:
                return on_document(tree, event);
        case YAML_ALIAS_EVENT:
                return tree_error(tree, line_of(event), -EINVAL,
                                  "aliases (*name) are not supported: write the value out");
        case YAML_SCALAR_EVENT:
                return on_scalar(tree, event);
        case YAML_SEQUENCE_START_EVENT:
                return on_open(tree, event, DOC_LIST);
        case YAML_MAPPING_START_EVENT:
                return on_open(tree, event, DOC_MAP);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                tree_close(tree);
                return 0;
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_END_EVENT:
                return 0;
        }
        return 0;
}

static int syntax_error(const struct tree *tree, const yaml_parser_t *parser) {
        if (parser->error == YAML_MEMORY_ERROR)
                return error_set(tree->err, -ENOMEM, "out of memory");
        return error_set(tree->err, -EINVAL, "%s:%u: YAML: %s%s%s", ESC(tree->name),
                         (unsigned) parser->problem_mark.line + 1,
                         parser->problem ? parser->problem : "cannot be read", parser->context ? " " : "",
                         parser->context ? parser->context : "");
}

static void auto_parser(yaml_parser_t *parser) {
        yaml_parser_delete(parser);
}

int tree_read_yaml(struct tree *tree, const char *data, size_t len) {
        __attribute__((cleanup(auto_parser))) yaml_parser_t parser = { 0 };
        bool end = false;

        if (!yaml_parser_initialize(&parser))
                return error_set(tree->err, -ENOMEM, "out of memory");
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser, (const unsigned char *) data, len);
        while (!end) {
                yaml_event_t event;
                int r;

                if (!yaml_parser_parse(&parser, &event))
                        return syntax_error(tree, &parser);
                end = event.type == YAML_STREAM_END_EVENT;
                r = on_event(tree, &event);
                yaml_event_delete(&event);
                if (r < 0)
                        return r;
        }
        return 0;
}
