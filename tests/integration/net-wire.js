// HTTP/2 and WebSocket over TLS, both ends: net-wire.js serve ADDRESS PORT KEY CERT | ask PROXY HOST PORT CA
//
// The server repeats bodies of HTTP/2 requests and frames of WebSockets. The client does both through a CONNECT tunnel
// of the proxy on port PROXY and says "h2 ok" and "ws ok" when every byte came back. Frames: RFC 6455, section 5.2.
'use strict';
const crypto = require('crypto'), fs = require('fs'), http2 = require('http2'), net = require('net'), tls = require('tls');
const [what, ...args] = process.argv.slice(2);
const accept = (key) => crypto.createHash('sha1').update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');

function frame(opcode, data, mask) {
        const head = [0x80 | opcode], bit = mask ? 0x80 : 0;
        if (data.length < 126) head.push(bit | data.length);
        else if (data.length < 65536) head.push(bit | 126, data.length >> 8, data.length & 255);
        else head.push(bit | 127, 0, 0, 0, 0, ...[24, 16, 8, 0].map((n) => (data.length >> n) & 255));
        const body = Buffer.from(data);
        if (mask) for (let i = 0; i < body.length; i++) body[i] ^= mask[i & 3];
        return Buffer.concat([Buffer.from(head), mask || Buffer.alloc(0), body]);
}

// each(opcode, data) for every whole frame that comes in
function frames(socket, first, each) {
        let left = Buffer.from(first);
        const take = () => {
                for (;;) {
                        if (left.length < 2) return;
                        let n = left[1] & 127, at = 2;
                        if (n === 126) at = 4;
                        if (n === 127) at = 10;
                        const masked = left[1] & 128 ? 4 : 0;
                        if (left.length < at + masked) return;
                        if (n === 126) n = left.readUInt16BE(2);
                        if (n === 127) n = left.readUInt32BE(6);
                        if (left.length < at + masked + n) return;
                        const mask = left.subarray(at, at + masked), data = Buffer.from(left.subarray(at + masked, at + masked + n));
                        if (masked) for (let i = 0; i < n; i++) data[i] ^= mask[i & 3];
                        const opcode = left[0] & 15;
                        left = left.subarray(at + masked + n);
                        each(opcode, data);
                }
        };
        socket.on('data', (d) => { left = Buffer.concat([left, d]); take(); });
        take();
}

function serve(address, port, key, cert) {
        const server = http2.createSecureServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert), allowHTTP1: true });
        server.on('stream', (stream) => { stream.respond({ ':status': 200 }); stream.pipe(stream); });
        server.on('upgrade', (req, socket, head) => {
                socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
                        `Sec-WebSocket-Accept: ${accept(req.headers['sec-websocket-key'])}\r\n\r\n`);
                frames(socket, head, (opcode, data) => socket.write(frame(opcode === 9 ? 10 : opcode, data)));
        });
        server.listen(+port, address, () => console.log('ready'));
}

// a TLS connection through the proxy
function tunnel(protocol, then) {
        const [proxy, host, port, ca] = args;
        const socket = net.connect(+proxy, '127.0.0.1', () => socket.write(`CONNECT ${host}:${port} HTTP/1.1\r\nHost: ${host}:${port}\r\n\r\n`));
        socket.once('data', (d) => {
                if (!/^HTTP\/1.1 200 /.test(d)) throw new Error(`${d}`);
                const secure = tls.connect({ socket, servername: host, ca: fs.readFileSync(ca), ALPNProtocols: [protocol] }, () => then(secure));
        });
}

function same(a, b, what) {
        if (!a.equals(b)) throw new Error(`${what}: ${a.length} bytes came back as ${b.length}, or as others`);
}

function askHttp2(then) {
        tunnel('h2', (secure) => {
                const session = http2.connect(`https://${args[1]}:${args[2]}`, { createConnection: () => secure });
                let open = 20; // at once, each more than a window
                for (let i = 0; i < 20; i++) {
                        const sent = crypto.randomBytes(100000 + i), got = [], stream = session.request({ ':method': 'POST', ':path': '/' });
                        stream.on('data', (d) => got.push(d));
                        stream.on('end', () => {
                                same(sent, Buffer.concat(got), `stream ${i}`);
                                if (--open === 0) { console.log('h2 ok'); session.close(then); }
                        });
                        stream.end(sent);
                }
        });
}

function askWebSocket() {
        tunnel('http/1.1', (secure) => {
                const key = crypto.randomBytes(16).toString('base64'), want = [[1, Buffer.from('hello')], [10, Buffer.from('ping')],
                        [2, crypto.randomBytes(70000)], [2, crypto.randomBytes(300)], [8, Buffer.from([3, 232])]];
                secure.write(`GET /chat HTTP/1.1\r\nHost: ${args[1]}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`);
                secure.once('data', (d) => {
                        const end = d.indexOf('\r\n\r\n') + 4, head = `${d.subarray(0, end)}`;
                        if (!head.startsWith('HTTP/1.1 101 ') || !head.includes(accept(key))) throw new Error(head);
                        let n = 0;
                        frames(secure, d.subarray(end), (opcode, data) => {
                                if (opcode !== want[n][0]) throw new Error(`frame ${n} is of ${opcode}`);
                                same(want[n++][1], data, `frame ${n}`);
                                if (n === want.length) { console.log('ws ok'); secure.destroy(); }
                        });
                        for (const [opcode, data] of want) secure.write(frame(opcode === 10 ? 9 : opcode, data, crypto.randomBytes(4)));
                });
        });
}

if (what === 'serve') serve(...args);
else askHttp2(askWebSocket);
