#!/usr/bin/env python3
"""embed.py OUTPUT SCHEMA.json...: schemas of tools as texts of a C header."""
import json
import os
import sys

with open(sys.argv[1], "w", encoding="utf-8") as out:
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as f:
            schema = json.load(f)
        name = os.path.splitext(os.path.basename(path))[0]
        if schema["name"] != name or not schema["description"] or schema["input_schema"]["type"] != "object":
            sys.exit(f"{path}: its name, description or input_schema is not that of a tool")
        text = json.dumps(schema, separators=(",", ":")).encode("ascii")
        print(f"static const char schema_{name}[] = {json.dumps(text.decode('ascii'))};", file=out)
