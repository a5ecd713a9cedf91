import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { RedlockSession, RedlockTransport, SessionListener } from './session.js';

/** Where a database of Upstash answers to HTTP, or a bridge that speaks as it does. */
export interface RestAddress {
  /** `https://…` (or `http://…`). */
  readonly url: string;
  /** Sent as a bearer token. */
  readonly token: string;
}

/** A client of Upstash (package @upstash/redis); only its address and its token are used. */
export interface UpstashClient {
  readonly readYourWritesSyncToken: string | undefined;
}

/** Requests at the same time to one database; further ones wait for a connection. */
const MOST_CONNECTIONS = 64;

/** The address of something that was given as a client; `null` if it is no REST address and no client of Upstash. */
export function restAddressOf(client: object): RestAddress | null {
  const { url, token, client: http } = client as { url?: unknown; token?: unknown; client?: unknown };
  if (isAddress(url) && typeof token === 'string') return { url, token };
  if (typeof http !== 'object' || http === null) return null;
  // Its own client sends a request again that failed, however it is set: a SET may then arrive after its release.
  const { baseUrl, headers } = http as { baseUrl?: unknown; headers?: { authorization?: unknown } };
  const bearer = /^Bearer (.+)$/.exec(String(headers?.authorization));
  return isAddress(baseUrl) && bearer?.[1] !== undefined ? { url: baseUrl, token: bearer[1] } : null;
}

function isAddress(url: unknown): url is string {
  return typeof url === 'string' && /^https?:\/\/[^/]/.test(url);
}

/** The way to a node by HTTP: one request for each command. */
export function restTransport(address: RestAddress): RedlockTransport {
  return { openSession: (listener) => new RestSession(address, listener) };
}

class RestSession implements RedlockSession {
  readonly #url: URL;
  readonly #token: string;
  readonly #listener: SessionListener;
  readonly #agent: HttpAgent;
  readonly #requests = new Set<{ destroy(reason: Error): void }>();
  /** By key, the end of what was sent about it last: HTTP keeps no order among connections. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor({ url, token }: RestAddress, listener: SessionListener) {
    this.#url = new URL(url);
    this.#token = token;
    this.#listener = listener;
    const options = { keepAlive: true, maxSockets: MOST_CONNECTIONS };
    this.#agent = this.#url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
    this.#post(['PING']).then(
      () => listener.onReady(),
      (error) => listener.onEnd(error),
    );
  }

  send(words: readonly string[]): Promise<unknown> {
    const key = keyOf(words);
    if (key === undefined) return this.#post(words);
    const reply = this.#last.get(key)?.then(() => this.#post(words)) ?? this.#post(words);
    const forget = () => {
      if (this.#last.get(key) === ended) this.#last.delete(key);
    };
    const ended = reply.then(forget, forget);
    this.#last.set(key, ended);
    return reply;
  }

  close(): void {
    for (const request of this.#requests) request.destroy(new Error('The connection was closed.'));
    this.#agent.destroy();
  }

  #post(words: readonly string[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const lose = (error: unknown) => {
        reject(error);
        this.#listener.onEnd(error);
      };
      const headers = { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' };
      const send = this.#url.protocol === 'https:' ? httpsRequest : httpRequest;
      const request = send(this.#url, { method: 'POST', agent: this.#agent, headers }, (response) => {
        textOf(response).then((text) => {
          const { result, error } = parsed(text);
          if (typeof error === 'string') reject(new Error(error));
          else if (result !== undefined && response.statusCode === 200) resolve(result);
          else lose(new Error(`The node answered with HTTP ${response.statusCode}.`));
        }, lose);
      });
      this.#requests.add(request);
      request.on('close', () => this.#requests.delete(request));
      request.on('error', lose);
      // A lock that waits for an answer keeps the process alive by a timer.
      request.on('socket', (socket) => socket.unref());
      request.end(JSON.stringify(words));
    });
  }
}

const ABOUT_FIRST: readonly string[] = ['SET', 'GET', 'PTTL', 'DELEX', 'DELIFEQ'];

/** The first key of a command; commands of one lock have the same. */
function keyOf([name = '', first, , third]: readonly string[]): string | undefined {
  if (name === 'EVAL' || name === 'EVALSHA') return third;
  return ABOUT_FIRST.includes(name) ? first : undefined;
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

function parsed(text: string): { readonly result?: unknown; readonly error?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}
