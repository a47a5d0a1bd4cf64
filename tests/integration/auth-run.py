#!/usr/bin/env python3
"""auth-run.py DIR PORT - the servers that a relay reaches: TLS on 127.0.0.1:PORT, each request's line and headers in
DIR/seen, files of DIR/www; /v1/ streams two events; /auth/ wants a credential"""

import http.server
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
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.stream(2)

    def stream(self, n):
        self.send_response(200)
        self.send_header('Content-Type', 'text/event-stream')
        self.send_header('Connection', 'close')
        self.end_headers()
        self.close_connection = True
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
