#!/usr/bin/python3
"""An MCP server over stdio that behaves as its first argument says."""
import json
import os
import sys
import time

mode = sys.argv[1] if len(sys.argv) > 1 else 'good'
if 'MCP_NOTE' in os.environ:
    with open(os.environ['MCP_NOTE'], 'a', encoding='utf-8') as note:
        note.write(f'{os.getcwd()} {sorted(os.environ)}\n')


def say(**message):
    print(json.dumps({'jsonrpc': '2.0', **message}), flush=True)


def noise(id):
    say(method='notifications/message', params={'level': 'info', 'data': 'x'})
    say(id=id + 1000, result={'content': [{'type': 'text', 'text': 'to another question'}]})
    say(id='text', result={})
    say(id=77, method='ping')
    say(id=78, method='sampling/createMessage', params={})


TOOLS = [{'name': 'echo', 'description': 'e', 'inputSchema': {'type': 'object'}}, {'name': 'fail', 'inputSchema': {'type': 'object'}},
         {'name': 'secret', 'inputSchema': {'type': 'object'}}]
answers = {}
for line in sys.stdin:
    request = json.loads(line)
    method, id = request.get('method'), request.get('id')
    if method is None:
        answers[id] = request
        continue
    if method == 'initialize':
        if mode == 'mute':
            time.sleep(300)
        if mode == 'dies':
            sys.exit(1)
        if mode == 'babbles':
            print('Starting server...', flush=True)
        say(id=id, result={'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}, 'resources': {}}, 'serverInfo': {'name': 't'}})
    elif method == 'tools/list':
        if mode == 'pages' and 'cursor' not in request['params']:
            say(id=id, result={'tools': TOOLS[:1], 'nextCursor': 'more'})
        elif mode == 'endless':
            say(id=id, result={'tools': [], 'nextCursor': 'more'})
        else:
            say(id=id, result={'tools': TOOLS[1:] if mode == 'pages' else TOOLS})
    elif method == 'tools/call':
        name = request['params']['name']
        if mode == 'mute-later':
            time.sleep(300)
        if mode == 'dies-later':
            sys.exit(1)
        if mode == 'floods':
            while True:
                say(method='notifications/message', params={'data': 'x' * 1000})
        if mode == 'long':
            print('x' * 5000000, flush=True)
        noise(id)
        if name == 'fail':
            say(id=id, result={'content': [{'type': 'text', 'text': 'it failed'}], 'isError': True})
        else:
            text = {'got': request['params']['arguments'], 'ping': answers.get(77), 'other': answers.get(78)}
            say(id=id, result={'content': [{'type': 'text', 'text': json.dumps(text)}, {'type': 'image', 'data': 'AA', 'mimeType': 'x/y'}]})
    elif method == 'resources/list':
        say(id=id, result={'resources': [{'uri': 'test://a', 'name': 'a'}]})
    elif method == 'resources/read':
        if request['params']['uri'] == 'test://a':
            say(id=id, result={'contents': [{'uri': 'test://a', 'text': 'content of a'}]})
        else:
            say(id=id, error={'code': -32002, 'message': 'no such resource'})
    elif id is not None:
        say(id=id, error={'code': -32601, 'message': 'not found'})
