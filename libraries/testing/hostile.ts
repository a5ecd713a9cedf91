import { exec, execFile, execFileSync, execSync, fork, spawn, spawnSync } from 'node:child_process';
import cluster from 'node:cluster';
import { pbkdf2, randomUUID, scrypt } from 'node:crypto';
import dgram from 'node:dgram';
import dns from 'node:dns';
import { createReadStream, promises as files, readFile, watch, writeFile } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { scheduler } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { BroadcastChannel, MessageChannel, Worker } from 'node:worker_threads';
import { deflate } from 'node:zlib';

/** What a client does while it acquires, and what is said of it. Whatever it gives is what it has acquired. */
export type Hostile = readonly [what: string, does: () => unknown, said: RegExp];

/** Native, where this module is loaded before the dispatchers are there. */
const kept = {
  date: Date,
  now: Date.now,
  performance: performance.now.bind(performance),
  hrtime: process.hrtime,
  random: Math.random,
  uuid: randomUUID,
  setTimeout,
  setInterval,
  setImmediate,
  exit: process.exit,
};

const HERE = fileURLToPath(import.meta.url);
const NOTHING = 'process.exit()';

const after = (ms: number): Promise<null> => new Promise((resolve) => setTimeout(() => resolve(null), ms));
const called = (begin: (done: () => void) => unknown): Promise<unknown> =>
  new Promise<void>((resolve) => begin(resolve));
const real = (type: string): RegExp =>
  new RegExp(`^the client waits for something real, ${type} \\(in c1\\): it may use its`);
const DIFFERS =
  /^your client is not deterministic(?: at event \d+ of case [01])?: .+Does it keep something between runs/;
const TOO_EARLY =
  /called the native set\w+.* \(in c1\): it had taken it before the dispatchers .* Import lockstep\/testing/;
const READS = /c1 reads its clock again and again until it shows more: time goes on only when it waits for a timer/;
const ROUND = /c1 calls setImmediate again and again: time goes on only when it waits for a timer/;
const NO_PROCESS = /c1 calls \w+\.\w+, which would start a real process/;
const UNREACHABLE = /connects to 127\.0\.0\.1:1, which is no node of the simulated world: take addresses/;

/** Test runners have an exit of their own. */
const KEPT_EXIT = /process\.(?:reallyExit, which would end the process|exit unexpectedly called)/;

function ends(name: string): RegExp {
  return new RegExp(`c1 calls process\\.${name}, which would end the process that the test runs in`);
}

let count = 0;

export const HOSTILE: readonly Hostile[] = [
  ['process.exit', () => process.exit(0), ends('exit')],
  ['process.exit behind a promise', () => after(0).then(() => process.exit(0)), ends('exit')],
  ['process.reallyExit', () => Reflect.get(process, 'reallyExit').call(process, 0), ends('reallyExit')],
  ['process.abort', () => process.abort(), ends('abort')],
  ['process.kill of itself', () => process.kill(process.pid), ends('kill')],
  ['process.kill of its parent', () => process.kill(process.ppid), ends('kill')],
  ['process.chdir', () => process.chdir('/'), /c1 calls process\.chdir, which would move the process/],
  [
    'an error in a tick',
    () => process.nextTick(() => Reflect.get(Object(null), 'x').y),
    /threw where nobody caught it/,
  ],
  ['an error in a microtask', () => queueMicrotask(() => Reflect.get({}, 'x').y), /threw where nobody caught it/],
  ['an error in an immediate', () => setImmediate(() => Reflect.get({}, 'x').y), /threw where nobody caught it/],
  ['an error in a timer', () => setTimeout(() => Reflect.get({}, 'x').y), /threw where nobody caught it/],
  ['a rejection', () => void Promise.reject(new Error('x')), /threw where nobody caught it/],
  ['waits by Date.now', () => waits(Date.now), READS],
  ['waits by new Date', () => waits(() => Date.parse(new Date().toISOString())), READS],
  ['waits by performance.now', () => waits(() => performance.now()), READS],
  ['waits by process.hrtime', () => waits(() => process.hrtime()[0]), READS],
  ['waits by process.uptime', () => waits(() => process.uptime()), READS],
  ['immediates for ever', () => called(again(setImmediate)), ROUND],
  ['scheduler.yield for ever', () => yields(), ROUND],
  ['timers at 0 for ever', () => called(again((next) => setTimeout(next, 0))), /no client has ever acquired the lock/],
  ['an interval at 0', () => called(() => setInterval(() => {}, 0)), /no client has ever acquired the lock/],
  ['Atomics.wait', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50), /which waits in real time/],
  ['a message channel', () => new MessageChannel(), real('MESSAGEPORT')],
  ['a broadcast', () => new BroadcastChannel('x').postMessage(1), real('MESSAGEPORT')],
  ['a worker', () => new Worker('', { eval: true }), /c1 makes a Worker, which would start a real thread/],
  ['fs.readFile', () => called((done) => readFile(HERE, done)), real('FSREQCALLBACK')],
  ['fs.writeFile', () => called((done) => writeFile('/dev/null', '', done)), real('FSREQCALLBACK')],
  ['fs.promises.writeFile', () => files.writeFile('/dev/null', ''), real('FSREQPROMISE')],
  ['fs.promises.open', () => files.open(HERE), real('FSREQPROMISE')],
  ['a stream of a file', () => called((done) => createReadStream(HERE).on('data', done)), real('FSREQCALLBACK')],
  ['fs.watch', () => watch(HERE).close(), real('FSEVENTWRAP')],
  ['a server', () => net.createServer().listen(0), real('TCPSERVERWRAP')],
  ['a connection to a real port', () => net.connect(1, '127.0.0.1'), UNREACHABLE],
  ['http.get', () => http.get('http://127.0.0.1:1/').on('error', () => {}), TOO_EARLY],
  ['fetch', () => fetch('http://127.0.0.1:1/'), UNREACHABLE],
  ['datagrams', () => dgram.createSocket('udp4').close(), real('UDPWRAP')],
  ['dns.resolve', () => called((done) => dns.resolve('a.invalid', done)), real('(?:DNSCHANNEL|QUERYWRAP)')],
  ['child_process.exec', () => exec(NOTHING), NO_PROCESS],
  ['child_process.exec with promises', () => promisify(exec)(NOTHING), NO_PROCESS],
  ['child_process.execFile', () => execFile(process.execPath, ['-e', NOTHING]), NO_PROCESS],
  ['child_process.execFileSync', () => execFileSync(process.execPath, ['-e', NOTHING]), NO_PROCESS],
  ['child_process.execSync', () => execSync('true'), NO_PROCESS],
  ['child_process.spawn', () => spawn(process.execPath, ['-e', NOTHING]), NO_PROCESS],
  ['child_process.spawnSync', () => spawnSync(process.execPath, ['-e', NOTHING]), NO_PROCESS],
  ['child_process.fork', () => fork('/dev/null'), NO_PROCESS],
  ['cluster.fork', () => cluster.fork(), NO_PROCESS],
  ['compression', () => called((done) => deflate('x', done)), real('ZLIB')],
  ['pbkdf2', () => called((done) => pbkdf2('a', 'b', 1, 8, 'sha1', done)), real('PBKDF2REQUEST')],
  ['scrypt', () => called((done) => scrypt('a', 'b', 8, done)), real('SCRYPTREQUEST')],
  ['a kept Date', () => ({ expiresAt: new kept.date().getTime() }), /it has taken Date, or Date\.now, before/],
  ['a kept Date.now', () => ({ expiresAt: kept.now() }), /it has taken Date, or Date\.now, before/],
  ['a kept performance.now', () => after((kept.performance() * 1000) % 997), DIFFERS],
  ['a kept process.hrtime', () => after(kept.hrtime()[1] % 997), DIFFERS],
  ['a kept Math.random', () => after(kept.random() * 997), DIFFERS],
  ['a kept randomUUID', () => after(Number.parseInt(kept.uuid().slice(0, 8), 16) % 997), DIFFERS],
  ['a kept setTimeout', () => called((done) => kept.setTimeout(done, 1)), TOO_EARLY],
  ['a kept setInterval', () => clearInterval(kept.setInterval(() => {}, 1)), TOO_EARLY],
  ['a kept setImmediate', () => called((done) => kept.setImmediate(done)), TOO_EARLY],
  ['a kept process.exit', () => kept.exit(0), KEPT_EXIT],
  ['memory in use', () => after(process.memoryUsage().heapUsed % 997), DIFFERS],
  ['a count at the top of a module', () => after(++count), DIFFERS],
];

function waits(read: () => number): null {
  for (const from = read(); read() < from + 50; );
  return null;
}

function again(wait: (next: () => void) => unknown): () => void {
  const next = (): void => void wait(next);
  return next;
}

async function yields(): Promise<void> {
  for (;;) await scheduler.yield();
}

/** What a client changes for all that run beside it; each gives what puts it back. */
export const ALTERED: readonly (readonly [what: string, alters: () => void])[] = [
  ['Promise.prototype.then', () => wrap(Promise.prototype, 'then')],
  ['Array.prototype.push', () => wrap(Array.prototype, 'push')],
  ['Map.prototype.get', () => wrap(Map.prototype, 'get')],
  ['Function.prototype.bind', () => wrap(Function.prototype, 'bind')],
  ['Object.prototype', () => void Reflect.set(Object.prototype, 'polluted', 1)],
  ['console.log', () => wrap(console, 'log')],
];

function wrap(owner: object, name: string): void {
  const native: (...args: unknown[]) => unknown = Reflect.get(owner, name);
  Reflect.set(owner, name, function (this: unknown, ...args: unknown[]): unknown {
    count++;
    return Reflect.apply(native, this, args);
  });
}
