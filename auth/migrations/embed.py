#!/usr/bin/env python3
"""embed.py OUT.c IN.sql... - the migrations as a table of strings, in the order of their numbers"""

import os
import sys

out, inputs = sys.argv[1], sorted(sys.argv[2:], key=os.path.basename)
rows = []
for number, path in enumerate(inputs, 1):
    name = os.path.basename(path)
    if int(name.split('-')[0]) != number:
        sys.exit(f'{path}: want number {number:03}: migrations have no gap')
    lines = open(path, encoding='ascii').read().splitlines()
    text = '\n'.join('        "%s\\n"' % line.replace('\\', '\\\\').replace('"', '\\"') for line in lines)
    rows.append(f'        /* {name} */\n{text},\n')
with open(out, 'w', encoding='ascii') as f:
    f.write('#include "auth/migrations.h"\n\n'
            'const char *const migrations[] = {\n' + ''.join(rows) + '};\n\n'
            f'const unsigned int migrations_count = {len(rows)};\n')
