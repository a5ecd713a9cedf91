import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { RespCutter, wordsOf } from './resp.js';

/** What becomes of one message on its way: late, lost, or there twice. */
interface MessageFate {
  /** On top of what the way takes, ms. */
  readonly delayMs?: number;
  readonly lost?: boolean;
  /** When a second copy sets out, ms after the first. */
  readonly againAfterMs?: number;
}

/** What becomes of a command and of its reply. */
export interface CommandFate {
  readonly request?: MessageFate;
  readonly reply?: MessageFate;
}

/** Which messages are lost. Lost requests are never carried out; of lost replies, the command was. */
type Dropped = 'nothing' | 'requests' | 'replies' | 'both';

/** What a proxy stands in front of, and what it does to messages. */
interface ProxyOptions {
  readonly host: string;
  readonly port: number;
  /** Decides on each command by its words. Left out: each passes as the proxy's state says. */
  readonly fate?: (words: readonly string[]) => CommandFate;
  /** Whether messages keep their order over all connections, as if there was one. Default `false`. */
  readonly ordered?: boolean;
}

/**
 * A way to one node, on a port of its own of the loopback, on which whole commands and whole replies can be late or get
 * lost. It reads the protocol only as far as it takes to know where a command or a reply ends.
 *
 * Replies belong to commands by their order. A connection on which a message got lost is therefore torn: nothing that
 * comes after it passes either, as with a TCP connection that waits for a lost segment. {@link NodeProxy.drop} with `nothing`
 * cuts torn connections, and clients connect again.
 */
export class NodeProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #options: ProxyOptions;
  readonly #links = new Set<Link>();
  readonly #requests = new Lane();
  readonly #replies = new Lane();
  #dropped: Dropped = 'nothing';
  #requestMs = 0;
  #replyMs = 0;

  private constructor(server: Server, options: ProxyOptions) {
    this.#server = server;
    this.#options = options;
    server.on('connection', (client) => this.#accept(client));
  }

  /** Opens a way to a node on a free port. The node need not be there yet. */
  static open(options: ProxyOptions): Promise<NodeProxy> {
    return new Promise((resolve, reject) => {
      const server = createServer({ noDelay: true });
      server.once('error', reject);
      server.listen(0, '127.0.0.1', () => resolve(new NodeProxy(server, options)));
    });
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  get dropped(): Dropped {
    return this.#dropped;
  }

  get requestMs(): number {
    return this.#requestMs;
  }

  get replyMs(): number {
    return this.#replyMs;
  }

  /** How long messages take from now on, ms each way; in order on each connection. */
  delay(requestMs: number, replyMs: number = requestMs): void {
    this.#requestMs = requestMs;
    this.#replyMs = replyMs;
  }

  /** Loses messages from now on. `nothing` ends that, and cuts the connections that are torn. */
  drop(what: Dropped): void {
    this.#dropped = what;
    if (what === 'nothing') for (const link of this.#links) if (link.torn) link.cut();
  }

  /**
   * Connections as they are after the other end has vanished without a word: the node's side is closed, the client's
   * stays open and silent for ever. Connections made from now on work.
   */
  halfOpen(): void {
    for (const link of this.#links) link.halfOpen();
  }

  /** Resets all connections. */
  cut(): void {
    for (const link of this.#links) link.cut();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #accept(client: Socket): void {
    const { ordered = false } = this.#options;
    const requests = ordered ? this.#requests : new Lane();
    const replies = ordered ? this.#replies : new Lane();
    const link = new Link(this, client, this.#options, { requests, replies }, () => this.#links.delete(link));
    this.#links.add(link);
  }
}

/** One connection through a proxy. */
class Link {
  /** Whether a message got lost, after which nothing more passes. */
  torn = false;
  readonly #proxy: NodeProxy;
  readonly #client: Socket;
  readonly #options: ProxyOptions;
  readonly #lanes: { readonly requests: Lane; readonly replies: Lane };
  /** What becomes of the replies that are still to come, in order. */
  readonly #expected: MessageFate[] = [];
  /** Connected when the first message arrives there: until then it does not matter whether anybody is. */
  #node: Socket | null = null;
  #halfOpen = false;

  constructor(
    proxy: NodeProxy,
    client: Socket,
    options: ProxyOptions,
    lanes: { readonly requests: Lane; readonly replies: Lane },
    onEnd: () => void,
  ) {
    this.#proxy = proxy;
    this.#client = client;
    this.#options = options;
    this.#lanes = lanes;
    const fromClient = new RespCutter();
    client.on('data', (chunk) => {
      for (const command of fromClient.push(chunk)) this.#onRequest(command);
    });
    // An error is followed by `close`, which says all that matters here.
    client.on('error', () => {});
    client.on('close', () => {
      this.#node?.destroy();
      onEnd();
    });
  }

  cut(): void {
    this.#client.resetAndDestroy();
    this.#node?.destroy();
  }

  halfOpen(): void {
    this.#halfOpen = true;
    this.#node?.destroy();
  }

  #onRequest(command: Buffer): void {
    if (this.#halfOpen) return;
    const { request = {}, reply = {} } = this.#options.fate?.(wordsOf(command)) ?? {};
    const { dropped } = this.#proxy;
    if (request.lost || dropped === 'requests' || dropped === 'both' || (this.torn && dropped === 'nothing')) {
      this.torn = true;
      return;
    }
    const afterMs = this.#proxy.requestMs + (request.delayMs ?? 0);
    this.#lanes.requests.send(afterMs, () => this.#toNode(command, reply));
    if (request.againAfterMs === undefined) return;
    this.#lanes.requests.send(afterMs + request.againAfterMs, () => this.#copyToNode(command));
  }

  #toNode(command: Buffer, reply: MessageFate): void {
    if (this.#client.destroyed || this.#halfOpen) return;
    this.#node ??= this.#connect();
    this.#expected.push(reply);
    if (this.#node.writable) this.#node.write(command);
  }

  /** A copy arrives whatever has become of the connection meanwhile, and its reply is nobody's. */
  #copyToNode(command: Buffer): void {
    const { host, port } = this.#options;
    const node = createConnection({ host, port, noDelay: true });
    node.on('error', () => {});
    node.once('data', () => node.destroy());
    node.write(command);
  }

  #connect(): Socket {
    const { host, port } = this.#options;
    const node = createConnection({ host, port, noDelay: true });
    const fromNode = new RespCutter();
    node.on('data', (chunk) => {
      for (const reply of fromNode.push(chunk)) this.#onReply(reply);
    });
    node.on('error', () => {});
    node.on('close', () => {
      // What it had answered is still on its way.
      if (!this.#halfOpen && !this.torn) this.#lanes.replies.send(this.#proxy.replyMs, () => this.#client.destroy());
    });
    return node;
  }

  #onReply(reply: Buffer): void {
    const fate = this.#expected.shift();
    const { dropped } = this.#proxy;
    if (fate?.lost || this.torn || dropped === 'replies' || dropped === 'both') {
      this.torn = true;
      return;
    }
    this.#lanes.replies.send(this.#proxy.replyMs + (fate?.delayMs ?? 0), () => {
      if (this.#client.writable) this.#client.write(reply);
    });
  }
}

/** One direction: messages may be late, but never overtake. */
class Lane {
  readonly #waiting: { readonly deliver: () => void; readonly at: number }[] = [];

  send(afterMs: number, deliver: () => void): void {
    if (afterMs <= 0 && this.#waiting.length === 0) {
      deliver();
      return;
    }
    this.#waiting.push({ deliver, at: performance.now() + afterMs });
    if (this.#waiting.length === 1) this.#wait();
  }

  #wait(): void {
    const [next] = this.#waiting;
    if (next === undefined) return;
    setTimeout(() => {
      if (performance.now() >= next.at) {
        this.#waiting.shift();
        next.deliver();
      }
      this.#wait();
    }, next.at - performance.now());
  }
}
