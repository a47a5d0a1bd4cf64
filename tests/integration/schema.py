"""Whether a JSON document fits a schema: schema.py SCHEMA DOCUMENT. Knows the keywords that our schemas use, and refuses a
schema with any other."""
import json
import sys

TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'integer': int}
KNOWN = {'$schema', 'title', 'description', 'type', 'additionalProperties', 'required', 'properties', 'items', 'enum',
         'minimum'}


def problems(schema, value, where):
    unknown = set(schema) - KNOWN
    if unknown:
        yield f'{where}: the schema has {unknown}'
    kind = schema.get('type')
    if kind and (not isinstance(value, TYPES[kind]) or (kind == 'integer' and isinstance(value, bool))):
        yield f'{where}: {value!r} is not of type {kind}'
        return
    if 'enum' in schema and value not in schema['enum']:
        yield f'{where}: {value!r} is none of {schema["enum"]}'
    if 'minimum' in schema and value < schema['minimum']:
        yield f'{where}: {value} is below {schema["minimum"]}'
    for key in schema.get('required', ()):
        if key not in value:
            yield f'{where}: no {key}'
    known = schema.get('properties', {})
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in known:
                yield from problems(known[key], inner, f'{where}.{key}')
            elif schema.get('additionalProperties') is False:
                yield f'{where}: {key} is not in the schema'
    if isinstance(value, list) and 'items' in schema:
        for i, inner in enumerate(value):
            yield from problems(schema['items'], inner, f'{where}[{i}]')


if __name__ == '__main__':
    with open(sys.argv[1], encoding='utf-8') as f:
        SCHEMA = json.load(f)
    with open(sys.argv[2], encoding='utf-8') as f:
        FOUND = list(problems(SCHEMA, json.load(f), '$'))
    print('\n'.join(FOUND))
    sys.exit(bool(FOUND))
