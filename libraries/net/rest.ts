import { encode, Failure } from '../../wire/index.js';
import { toBytes } from '../redis/bytes.js';
import type { ClientEnd, Line } from './connection.js';
import { jsonOf, type ReadReply, replyAt } from './replies.js';

/** What requests need of their process. */
interface RestUser {
  /** Opens a connection to the host of an address, or says that there is none. */
  connect(url: URL, end: ClientEnd): Line;
  refuses(what: string): Error;
  /** Answers in the place of a server at this host that is no node; `null` where it is one, or none answers. */
  other(host: string): typeof fetch | null;
}

type Words = readonly string[];

/** What is asked of a server by HTTP, in the form of Upstash. */
interface Asked {
  /** How many commands. */
  readonly count: number;
  /** The commands, as they are written to a server. */
  readonly bytes: string;
  /** Alone, in a list of answers, or as a transaction. */
  readonly form: 'one' | 'pipeline' | 'multi-exec';
  readonly base64: boolean;
}

/** What is waited for over a connection. */
interface Waiting {
  readonly replies: number;
  readonly done: (replies: ReadReply[]) => void;
  readonly failed: (error: Error) => void;
}

/** A connection of a pool: one request at a time. */
class RestConnection implements ClientEnd {
  isOpen = true;
  private readonly line: Line;
  private isConnected = false;
  private held = '';
  private bytes = '';
  private waiting: Waiting | null = null;

  constructor(url: URL, user: RestUser) {
    this.line = user.connect(url, this);
    this.line.open();
  }

  ask(bytes: string, waiting: Waiting): void {
    this.waiting = waiting;
    this.held = bytes;
    if (this.isConnected) this.send();
  }

  private send(): void {
    this.line.write(this.held);
    this.held = '';
  }

  close(): void {
    this.isOpen = false;
    this.line.close();
  }

  connected(): void {
    this.isConnected = true;
    this.send();
  }

  received(bytes: string): void {
    this.bytes += bytes;
    const { waiting } = this;
    if (waiting === null) return;
    const replies: ReadReply[] = [];
    let at = 0;
    while (replies.length < waiting.replies) {
      const reply = replyAt(this.bytes, at);
      if (reply === null) return;
      replies.push(reply[0]);
      at = reply[1];
    }
    this.bytes = '';
    this.waiting = null;
    waiting.done(replies);
  }

  ended(): void {
    this.failed(new Error('other side closed'));
  }

  failed(error: Error): void {
    this.close();
    this.waiting?.failed(error);
    this.waiting = null;
  }
}

/** Those of all responses. Node loads the class where it is first asked for, which is not for an import to do. */
let headers: Headers | null = null;

/** The headers of a response, which cannot be changed, as those of Node's `fetch`. */
function headersOfAll(): Headers {
  const made = new Headers({ 'content-type': 'application/json' });
  for (const name of ['append', 'delete', 'set'])
    Object.defineProperty(made, name, {
      value: () => {
        throw new TypeError('immutable');
      },
    });
  return made;
}

/** Addresses as they are read: clients ask the same again and again. */
const MOST_KNOWN = 64;
const known = new Map<string, URL>();

/** `null` for what is no address. */
function urlOf(input: string | URL): URL | null {
  if (typeof input !== 'string') return urlOf(String(input));
  const before = known.get(input);
  if (before !== undefined) return before;
  if (!URL.canParse(input)) return null;
  const url = new URL(input);
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(input, url);
  return url;
}

/** What `fetch` resolves to: the part of a `Response` that clients of such servers read, and a whole one by `clone`. */
class RestResponse {
  readonly status: number;
  readonly ok: boolean;
  readonly statusText: string;
  readonly body = null;
  private readonly content: string;
  constructor(status: number, content: string) {
    this.status = status;
    this.ok = status < 300;
    this.statusText = this.ok ? 'OK' : 'Bad Request';
    this.content = content;
  }

  get headers(): Headers {
    headers ??= headersOfAll();
    return headers;
  }

  async text(): Promise<string> {
    return this.content;
  }

  async json(): Promise<unknown> {
    return JSON.parse(this.content);
  }

  clone(): Response {
    return new Response(this.content, { status: this.status, headers: this.headers });
  }
}

/** The REST interface of Upstash, in front of each simulated node: a pool of connections, as Node's `fetch` keeps one. */
export class Rest {
  private readonly user: RestUser;
  private readonly idle = new Map<string, RestConnection[]>();
  /** Hosts that were not reached when they were asked last: a client tries again later, by itself. */
  readonly missed: Set<string> = new Set();

  constructor(user: RestUser) {
    this.user = user;
  }

  /** What `fetch` does in a simulated process. */
  async fetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
    const url = urlOf(input instanceof Request ? input.url : input);
    // What is no address is that of another server, where there are others.
    const other = this.user.other(url?.hostname ?? '');
    if (other !== null) return other(input, init);
    if (url === null) throw new TypeError(`Failed to parse URL from ${String(input)}`);
    if (input instanceof Request) throw this.user.refuses('calls fetch with a Request: give it a URL and options');
    const body: unknown = init.body ?? '';
    if (typeof body !== 'string') throw this.user.refuses('calls fetch with a body that is no string');
    const asked = askedBy(url, body, init.headers);
    const { signal } = init;
    signal?.throwIfAborted();
    const connection = this.connectionTo(url);
    const replies = await new Promise<ReadReply[]>((resolve, reject) => {
      const abort = (): void => {
        connection.close();
        reject(signal?.reason);
      };
      const over = (): void => signal?.removeEventListener('abort', abort);
      signal?.addEventListener('abort', abort, { once: true });
      const done = (all: ReadReply[]): void => {
        over();
        this.missed.delete(url.hostname);
        this.idle.get(url.hostname)?.push(connection);
        resolve(all);
      };
      const failed = (cause: Error): void => {
        over();
        this.missed.add(url.hostname);
        reject(new TypeError('fetch failed', { cause }));
      };
      connection.ask(asked.bytes, { replies: asked.count, done, failed });
    });
    return responseTo(asked, replies) as unknown as Response;
  }

  private connectionTo(url: URL): RestConnection {
    const idle = this.idle.get(url.hostname) ?? [];
    this.idle.set(url.hostname, idle);
    for (let known = idle.pop(); known !== undefined; known = idle.pop()) if (known.isOpen) return known;
    return new RestConnection(url, this.user);
  }
}

/** What was asked last: a lock of several nodes asks each of them the same. */
let latest: { readonly pathname: string; readonly body: string; readonly asked: Asked } | null = null;

function askedBy({ pathname }: URL, body: string, headers: RequestInit['headers']): Asked {
  const base64 = headerOf(headers, 'upstash-encoding') === 'base64';
  if (latest?.body === body && latest.pathname === pathname && latest.asked.base64 === base64) return latest.asked;
  const path = pathname.split('/').filter((it) => it !== '');
  const form = path[0] === 'pipeline' || path[0] === 'multi-exec' ? path[0] : 'one';
  const commands = commandsOf(body === '' ? [] : JSON.parse(body), form, path);
  const bytes = commands.map((words) => encode(words.map(toBytes), 2)).join('');
  const asked = { count: commands.length, bytes, form, base64 } as const;
  latest = { pathname, body, asked };
  return asked;
}

function commandsOf(given: unknown, form: Asked['form'], path: readonly string[]): readonly Words[] {
  const list = Array.isArray(given) ? given : [given];
  if (form === 'one') return [[...path.map(decodeURIComponent), ...list.map(wordOf)]];
  const commands = list.map((words) => (Array.isArray(words) ? words.map(wordOf) : []));
  return form === 'pipeline' ? commands : [['MULTI'], ...commands, ['EXEC']];
}

/** As `Headers` reads it. Of an object, which is the usual form, without a copy that checks every other header. */
function headerOf(headers: RequestInit['headers'], name: string): string | null {
  if (headers === undefined || headers instanceof Headers || Symbol.iterator in headers)
    return new Headers(headers).get(name);
  for (const key in headers) if (key.length === name.length && key.toLowerCase() === name) return String(headers[key]);
  return null;
}

function wordOf(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
}

function responseTo({ form, base64 }: Asked, replies: readonly ReadReply[]): RestResponse {
  const told = (reply: ReadReply): object =>
    reply instanceof Failure ? { error: reply.text } : { result: jsonOf(reply, base64) };
  if (form === 'pipeline') return new RestResponse(200, JSON.stringify(replies.map(told)));
  const last = replies.at(-1) ?? null;
  if (last instanceof Failure) return new RestResponse(400, JSON.stringify(told(last)));
  if (form === 'one') return new RestResponse(200, JSON.stringify(told(last)));
  return new RestResponse(200, JSON.stringify(Array.isArray(last) ? last.map(told) : []));
}
