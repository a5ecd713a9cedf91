import net from 'node:net';
import { isAscii } from '../redis/bytes.js';
import type { OwnedTimer, ProcessContext } from '../runtime/owner.js';
import { ipOf, nodeAt } from './addresses.js';
import type { ClientEnd, Line } from './connection.js';
import type { Rest } from './rest.js';

/** The network, as a simulated process has it. */
export interface Network {
  /** Opens a connection to this place, or throws for one that cannot be simulated. */
  connect(host: string, port: number, end: ClientEnd): Line;
  /** What `fetch` reaches. */
  readonly rest: Rest;
  /** Resolves a name to an IPv4 address, or `null`. */
  lookup(host: string): string | null;
}

/** A process that may open sockets. */
export type Networked = ProcessContext & { readonly network: Network };

/** Where a socket connects to, of all that `net.connect` takes. */
interface Target {
  readonly host: string;
  readonly port: number;
  readonly path: string | undefined;
  readonly listener: (() => void) | undefined;
}

/** Reads the arguments of `connect`: `(options)`, `(port, host)` or `(path)`, each with a listener behind. */
function targetOf(args: readonly unknown[]): Target {
  const [first, second] = args;
  const last = args.at(-1);
  const listener = typeof last === 'function' ? (last as () => void) : undefined;
  const options: { host?: string; port?: number | string; path?: string } =
    typeof first === 'object' && first !== null
      ? first
      : typeof first === 'string' && Number.isNaN(Number(first))
        ? { path: first }
        : { port: Number(first), ...(typeof second === 'string' ? { host: second } : {}) };
  const { host = 'localhost', port = 0, path } = options;
  return { host, port: Number(port), path, listener };
}

type Done = (error?: Error | null) => void;
type Chunk = { readonly chunk: Buffer | string };

function latin1(chunk: Buffer | string): string {
  if (typeof chunk !== 'string') return chunk.toString('latin1');
  return isAscii(chunk) ? chunk : Buffer.from(chunk, 'utf8').toString('latin1');
}

/**
 * A socket of a simulated process: the streams of `net.Socket`, above a connection of the simulated world. Nothing of it
 * is native, not even the timer of `setTimeout`.
 */
export class SimSocket extends net.Socket implements ClientEnd {
  /** As TLS sockets have it. */
  readonly encrypted: boolean;
  readonly authorized: boolean;
  private readonly owner: Networked;
  private line: Line | null = null;
  target: Target | null = null;
  private held: (() => void)[] = [];
  private idleMs = 0;
  private idle: OwnedTimer | null = null;
  private lastUs = 0;

  constructor(owner: Networked, options: net.SocketConstructorOpts = {}, isSecure = false) {
    super({ allowHalfOpen: options.allowHalfOpen ?? false });
    this.owner = owner;
    this.encrypted = isSecure;
    this.authorized = isSecure;
  }

  override connect(...args: unknown[]): this {
    const target = targetOf(args);
    if (target.listener !== undefined) this.once(this.encrypted ? 'secureConnect' : 'connect', target.listener);
    this.state({ connecting: true });
    this.target = target;
    const line = this.owner.network.connect(target.path ?? target.host, target.port, this);
    this.line = line;
    line.open();
    return this;
  }

  // ——— what the connection tells ———

  connected(): void {
    this.state({ connecting: false });
    this.touch();
    const { held } = this;
    this.held = [];
    for (const write of held) write();
    this.emit('connect');
    if (this.encrypted) this.emit('secureConnect');
    this.emit('ready');
  }

  received(bytes: string): void {
    this.touch();
    this.push(Buffer.from(bytes, 'latin1'));
  }

  ended(): void {
    this.push(null);
    // As a socket that nobody reads from notices as well.
    this.read(0);
  }

  failed(error: Error): void {
    this.destroy(error);
  }

  // ——— what a stream does ———

  override _write(chunk: Buffer | string, _encoding: BufferEncoding, done: Done): void {
    this.writeAll(latin1(chunk), done);
  }

  override _writev(chunks: readonly Chunk[], done: Done): void {
    this.writeAll(chunks.map(({ chunk }) => latin1(chunk)).join(''), done);
  }

  private writeAll(bytes: string, done: Done): void {
    if (this.connecting) {
      this.held.push(() => this.writeAll(bytes, done));
      return;
    }
    this.touch();
    this.line?.write(bytes);
    done();
  }

  override write(chunk: string | Uint8Array, ...rest: unknown[]): boolean {
    if (this.destroyed)
      this.line?.wroteInVain(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('latin1'));
    const write = super.write as (...args: unknown[]) => boolean;
    return write.call(this, chunk, ...rest);
  }

  override _read(): void {}

  override _final(done: Done): void {
    if (this.connecting) {
      this.held.push(() => this._final(done));
      return;
    }
    this.line?.finish();
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.state({ connecting: false });
    this.held = [];
    this.idle?.cancel();
    this.line?.close();
    done(error);
    this.owner.setImmediate(() => this.emit('close', error !== null));
  }

  // ——— what else sockets have ———

  /** What Node shows of a socket, and changes itself. */
  private state(change: Partial<Pick<net.Socket, 'connecting' | 'timeout'>>): void {
    Object.assign(this, change);
  }

  private touch(): void {
    if (this.idleMs > 0) this.lastUs = this.owner.monotonicUs();
  }

  override setTimeout(ms: number, listener?: () => void): this {
    this.idleMs = Math.max(0, Number(ms) || 0);
    this.state({ timeout: this.idleMs });
    this.idle?.cancel();
    this.idle = null;
    if (listener !== undefined) {
      if (this.idleMs > 0) this.once('timeout', listener);
      else this.removeListener('timeout', listener);
    }
    if (this.idleMs > 0) {
      this.lastUs = this.owner.monotonicUs();
      this.watchIdle(this.idleMs);
    }
    return this;
  }

  private watchIdle(ms: number): void {
    this.idle = this.owner.setTimer(
      () => {
        const leftMs = this.idleMs - (this.owner.monotonicUs() - this.lastUs) / 1000;
        if (leftMs > 0) this.watchIdle(leftMs);
        else this.emit('timeout');
      },
      ms,
      false,
    );
  }

  override setNoDelay(): this {
    return this;
  }

  override setKeepAlive(): this {
    return this;
  }

  override ref(): this {
    return this;
  }

  override unref(): this {
    return this;
  }

  override resetAndDestroy(): this {
    return this.destroy();
  }

  override address(): net.AddressInfo {
    return { address: '10.0.1.1', family: 'IPv4', port: 40_000 };
  }
}

/** What of a socket is read, and what `net.Socket` reads from its native handle. */
const READ: Readonly<Record<string, (socket: SimSocket) => unknown>> = {
  pending: (socket) => socket.target === null || socket.connecting,
  remoteAddress: (socket) => whenOpen(socket, ({ host, port }) => ipOf(nodeAt(host, port))),
  remotePort: (socket) => whenOpen(socket, ({ port }) => port),
  remoteFamily: (socket) => whenOpen(socket, () => 'IPv4'),
  localAddress: (socket) => whenOpen(socket, () => '10.0.1.1'),
  localPort: (socket) => whenOpen(socket, () => 40_000),
  localFamily: (socket) => whenOpen(socket, () => 'IPv4'),
};

function whenOpen<T>(socket: SimSocket, read: (target: Target) => T): T | undefined {
  const { target } = socket;
  return target === null || socket.connecting || socket.destroyed ? undefined : read(target);
}

for (const [name, read] of Object.entries(READ)) {
  const get = function (this: SimSocket): unknown {
    return read(this);
  };
  Object.defineProperty(SimSocket.prototype, name, { configurable: true, get });
}
