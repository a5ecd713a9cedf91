import { EventEmitter } from 'node:events';
import { type LockWords, type RedisConnection, write } from './request.js';

/** A connection to a node, used only by locks. */
export interface RedlockSession {
  /**
   * Sends a command at once and only once: it neither queues commands for an unreachable node nor resends them. Commands about
   * one key are executed in the order in which they were sent.
   *
   * @param words - The command: its name and its arguments. Do not change it: other nodes may get the same list.
   * @returns The reply: bulk and simple strings as strings, integers as numbers, nil as `null`. An error reply rejects with an
   * error that has the server's message (`NOSCRIPT No matching script.`); a lost connection rejects with any other error.
   */
  send(words: readonly string[]): Promise<unknown>;
  /** Closes the connection, or stops connecting, at once. Unanswered commands reject. */
  close(): void;
}

/** Receives the state changes of a {@link RedlockSession}. */
export interface SessionListener {
  /** Commands can be sent. Called once. */
  onReady(): void;
  /** The connection failed or was lost. Called once, with the reason; not needed after `close`. */
  onEnd(reason: unknown): void;
}

/** Connects to a node, for clients that the lock does not know. For an example, see "Other clients" in the README of the package. */
export interface RedlockTransport {
  /**
   * Opens a new connection. It does not reconnect, and does not keep the process alive.
   */
  openSession(listener: SessionListener): RedlockSession;
  /** Prefix of all keys on this node. Default: none. */
  readonly keyPrefix?: string;
}

/** The sessions of a transport, one after the other, with those methods of an ioredis connection that locks use. */
export class SessionConnection extends EventEmitter implements RedisConnection {
  readonly #transport: RedlockTransport;
  readonly #keyPrefix: string;
  #session: RedlockSession | null = null;
  #isReady = false;

  constructor(transport: RedlockTransport) {
    super();
    this.#transport = transport;
    this.#keyPrefix = transport.keyPrefix ?? '';
  }

  async connect(): Promise<void> {
    let isOver = false;
    const onEnd = (reason: unknown) => {
      if (isOver) return;
      isOver = true;
      this.#end(session, reason instanceof Error ? reason : new Error(String(reason)));
    };
    let session: RedlockSession | null = null;
    try {
      // In a microtask: a session that is ready at once says so before it is returned.
      const onReady = () => queueMicrotask(() => this.#begin(isOver ? null : session));
      session = this.#transport.openSession({ onReady, onEnd });
    } catch (reason) {
      onEnd(reason);
      return;
    }
    // One that ended before it was returned is over.
    if (isOver) session.close();
    else this.#session = session;
  }

  #begin(session: RedlockSession | null): void {
    if (session === null || session !== this.#session || this.#isReady) return;
    this.#isReady = true;
    this.emit('ready');
  }

  #end(session: RedlockSession | null, reason: Error | null): void {
    // Of another one that has been replaced or closed.
    if (session !== this.#session) return;
    this.#session = null;
    this.#isReady = false;
    session?.close();
    if (reason !== null) this.emit('error', reason);
    this.emit('end');
  }

  disconnect(): void {
    if (this.#session !== null) this.#end(this.#session, null);
  }

  /** The connection stays: a session ends by `disconnect` alone. */
  async quit(): Promise<void> {}

  /** Sends a command of a lock, in the same words as to other nodes if keys have no prefix here. */
  send(command: LockWords): Promise<unknown> {
    return this.#keyPrefix === '' ? this.#post(command.words) : write(this, command);
  }

  set(key: string, value: string, ...rest: readonly (string | number)[]): Promise<unknown> {
    return this.#send('SET', this.#keyPrefix + key, value, ...rest);
  }

  delex(key: string, ...rest: readonly string[]): Promise<unknown> {
    return this.#send('DELEX', this.#keyPrefix + key, ...rest);
  }

  delifeq(key: string, value: string): Promise<unknown> {
    return this.#send('DELIFEQ', this.#keyPrefix + key, value);
  }

  eval(lua: string, keys: number, ...args: readonly (string | number)[]): Promise<unknown> {
    return this.#script('EVAL', lua, keys, args);
  }

  evalsha(sha: string, keys: number, ...args: readonly (string | number)[]): Promise<unknown> {
    return this.#script('EVALSHA', sha, keys, args);
  }

  #script(name: string, script: string, keys: number, args: readonly (string | number)[]): Promise<unknown> {
    const prefixed = args.map((arg, index) => (index < Number(keys) ? `${this.#keyPrefix}${arg}` : arg));
    return this.#send(name, script, keys, ...prefixed);
  }

  get(key: string): Promise<unknown> {
    return this.#send('GET', this.#keyPrefix + key);
  }

  pttl(key: string): Promise<unknown> {
    return this.#send('PTTL', this.#keyPrefix + key);
  }

  script(load: 'LOAD', lua: string): Promise<unknown> {
    return this.#send('SCRIPT', load, lua);
  }

  info(section: 'server'): Promise<unknown> {
    return this.#send('INFO', section);
  }

  #send(...words: readonly (string | number)[]): Promise<unknown> {
    return this.#post(words.map(String));
  }

  /** Without a promise of its own: with five nodes, those of each command show in a benchmark. */
  #post(words: readonly string[]): Promise<unknown> {
    if (this.#session === null || !this.#isReady) return Promise.reject(new Error('The node is not connected.'));
    try {
      return Promise.resolve(this.#session.send(words));
    } catch (error) {
      return Promise.reject(error);
    }
  }
}
