#!/usr/bin/env python3
"""auth-run.py DIR PORT - the servers that a relay reaches: TLS on 127.0.0.1:PORT, each request's line and headers in
DIR/seen, files of DIR/www; /v1/ streams two events, or an answer of the Messages API to who wants one; /auth/ wants a
credential"""

import http.server
import json
import os
import ssl
import sys
import time

top, port = sys.argv[1], int(sys.argv[2])


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def __init__(self, *args):
        super().__init__(*args, directory=os.path.join(top, 'www'))

    def note(self):
        with open(os.path.join(top, 'seen'), 'a', encoding='utf-8') as f:
            f.write(self.requestline + '\n' + ''.join(f'{k.lower()}: {v}\n' for k, v in self.headers.items()) + '\n')

    def do_GET(self):
        self.note()
        if self.path.startswith('/slow'):
            self.stream(200)
        elif self.path.startswith('/auth/') and 'authorization' not in self.headers:
            self.send_response(401)
            self.send_header('Content-Length', '0')
            self.end_headers()
        else:
            super().do_GET()

    def do_POST(self):
        self.note()
        body = self.body()
        if b'"messages"' in body and self.headers.get('X-Api-Key', '').startswith('sk-ant-'):
            self.message(json.loads(body))
        else:
            self.stream(2)

    def body(self):
        if self.headers.get('Transfer-Encoding') != 'chunked':
            return self.rfile.read(int(self.headers.get('Content-Length', 0)))
        body = b''
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def message(self, request):
        """What a model streams: one text in pieces."""
        self.begin_stream()
        message = {'id': 'msg_1', 'type': 'message', 'role': 'assistant', 'model': request['model'], 'content': [],
                   'stop_reason': None, 'stop_sequence': None, 'usage': {'input_tokens': 3, 'output_tokens': 1}}
        events = [{'type': 'message_start', 'message': message},
                  {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}}]
        events += [{'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': text}}
                   for text in ('said by ', 'the model ', 'of the tests')]
        events += [{'type': 'content_block_stop', 'index': 0},
                   {'type': 'message_delta', 'delta': {'stop_reason': 'end_turn', 'stop_sequence': None},
                    'usage': {'output_tokens': 6}},
                   {'type': 'message_stop'}]
        for event in events:
            self.wfile.write(f'event: {event["type"]}\ndata: {json.dumps(event)}\n\n'.encode())
            self.wfile.flush()
            time.sleep(0.02)

    def begin_stream(self):
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.close_connection = True

    def stream(self, n):
        self.begin_stream()
        for i in range(n):
            self.wfile.write(b'data: %d\n\n' % i)
            self.wfile.flush()
            time.sleep(0.1)

    def log_message(self, *args):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.path.join(top, 'cert.pem'), os.path.join(top, 'key.pem'))
server = http.server.ThreadingHTTPServer(('127.0.0.1', port), Handler)
server.daemon_threads = True
server.socket = context.wrap_socket(server.socket, server_side=True)
with open(os.path.join(top, 'port'), 'w', encoding='ascii') as f:
    f.write(str(server.server_address[1]))
server.serve_forever()
