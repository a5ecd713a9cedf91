import { EventEmitter } from 'node:events';
import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Answer, Command, Operation, Token } from '../../core/index.js';
import { LocalClock } from './clock.js';
import type { RedlockClient } from './connection.js';
import { LockNode } from './node.js';
import { type RedisConnection, type Reply, Request } from './request.js';

/** As redis-errors has it. */
class ReplyError extends Error {
  override readonly name = 'ReplyError';
}

/** A connection that answers when the test says so. */
class FakeConnection extends EventEmitter implements RedisConnection {
  readonly written: string[][] = [];
  /** What reaches the network: each write with the commands in it. */
  readonly stream = new Writable({
    objectMode: true,
    write: (name: string, _encoding, done) => {
      this.written.push([name]);
      done();
    },
    writev: (chunks, done) => {
      this.written.push(chunks.map(({ chunk }) => String(chunk)));
      done();
    },
  });
  readonly sent: { name: string; args: unknown[]; answer: (reply: unknown) => void; fail: (error: Error) => void }[] =
    [];
  set = (...args: unknown[]) => this.#send('set', args);
  evalsha = (...args: unknown[]) => this.#send('evalsha', args);
  eval = (...args: unknown[]) => this.#send('eval', args);
  get = (...args: unknown[]) => this.#send('get', args);
  pttl = (...args: unknown[]) => this.#send('pttl', args);
  script = async () => 'OK';
  /** As ioredis has it, so that nobody doubts what SET does. */
  defineCommand = () => undefined;
  connect = async () => undefined;
  quit = async () => 'OK';
  disconnect = () => undefined;

  #send(name: string, args: unknown[]): Promise<unknown> {
    this.stream.write(name);
    return new Promise((answer, fail) => this.sent.push({ name, args, answer, fail }));
  }
}

function setUp() {
  const time = { us: 1_000_000 };
  const clock = new LocalClock({
    monotonicUs: () => time.us,
    wallMs: () => time.us / 1000,
    bootUs: () => null,
    bootStepUs: 1,
  });
  const connections: FakeConnection[] = [];
  const client: RedlockClient = {
    duplicate: () => {
      const made = new FakeConnection();
      connections.push(made);
      return made;
    },
  };
  const node = new LockNode(0, client, clock, { onNodeError: () => {}, objectionTo: () => null });
  node.open();
  const [connection = new FakeConnection()] = connections;
  connection.emit('ready');
  const answers: Answer[] = [];
  const receiver = { onReply: (_node: number, _command: Command, { answer }: Reply) => answers.push(answer) };
  const perform = (operation: Operation) =>
    node.perform(
      new Request({ operation, attempt: 0, round: 0, token: 't' as Token, ttlMs: 1000, counter: 0 }, ['k']),
      receiver,
      clock.now(),
    );
  return { time, connection, connections, node, answers, perform };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a node', () => {
  test.each<[unknown, Answer]>([
    ['OK', 'yes'],
    [null, 'no'],
    ['QUEUED', 'error'],
    [2, 'error'],
    [undefined, 'error'],
  ])('that replies %j has answered %s', async (reply, answer) => {
    const { connection, answers, perform } = setUp();
    perform('acquire');
    connection.sent[0]?.answer(reply);
    await turn();
    expect(answers).toEqual([answer]);
  });

  test('that owes nothing is written to at once, and the rest of a turn follows in one write', async () => {
    const { connection, perform } = setUp();
    perform('acquire');
    expect(connection.written).toEqual([['set']]);
    perform('extend');
    perform('release');
    expect(connection.written).toEqual([['set']]);
    await turn();
    expect(connection.written).toEqual([['set'], ['evalsha', 'evalsha']]);
  });

  test('that is away has failed at once, but not before the call returns', async () => {
    const { connection, answers, perform } = setUp();
    connection.emit('close');
    expect(perform('acquire')).toBe(false);
    expect(answers).toEqual([]);
    await turn();
    expect([answers, connection.sent]).toEqual([['error'], []]);
  });

  test.each([
    ...['OOM', 'NOPERM', 'MISCONF', 'NOREPLICAS', 'BUSY', 'LOADING', 'READONLY', 'MASTERDOWN', 'MOVED', 'ASK'],
    ...['CROSSSLOT', 'CLUSTERDOWN', 'TRYAGAIN', 'NOAUTH', 'WRONGTYPE', 'ERR', 'EXECABORT'],
  ])('that replies with the error %s has no vote, and is not asked again', async (code) => {
    for (const operation of ['acquire', 'extend', 'release'] as const) {
      const { connection, answers, perform } = setUp();
      perform(operation);
      connection.sent[0]?.fail(new ReplyError(`${code} why`));
      await turn();
      connection.emit('ready');
      await turn();
      expect([answers, connection.sent.length]).toEqual([['error'], 1]);
    }
  });

  test('that has lost its scripts gets the text, once', async () => {
    const { connection, answers, perform } = setUp();
    perform('extend');
    connection.sent[0]?.fail(new Error('NOSCRIPT No matching script.'));
    await turn();
    expect(connection.sent.map(({ name }) => name)).toEqual(['evalsha', 'eval']);
    expect(connection.sent[1]?.args.slice(1)).toEqual(['1', 'k', 't', '1000']);
    connection.sent[1]?.answer(1);
    await turn();
    expect(answers).toEqual(['yes']);
  });

  test('that answers nothing for a second gets no new locks, but the releases of old ones, until it answers', async () => {
    const { time, connection, answers, perform } = setUp();
    expect(perform('acquire')).toBe(true);
    time.us += 1_500_000;
    // Perhaps the answer has come and is only not read yet.
    expect(perform('acquire')).toBe(true);
    await turn();
    expect([perform('acquire'), perform('extend'), perform('release')]).toEqual([false, false, true]);
    for (const { answer } of connection.sent) answer('OK');
    await turn();
    expect(answers.filter((answer) => answer === 'yes').length).toBe(3);
    expect(perform('acquire')).toBe(true);
  });

  test('whose answers wait behind a blocked event loop is not taken for silent', async () => {
    const { time, connection, perform } = setUp();
    perform('acquire');
    time.us += 1_500_000;
    perform('acquire');
    connection.sent[0]?.answer('OK');
    await turn();
    expect(perform('acquire')).toBe(true);
  });

  test('that is slow under load, but answers, is not taken for silent', async () => {
    const { time, connection, perform } = setUp();
    for (let i = 0; i < 1000; i++) {
      time.us += 10_000;
      expect(perform('acquire')).toBe(true);
      if (i > 300) connection.sent[i - 300]?.answer('OK');
      if (i <= 300) time.us -= 9_999;
      await turn();
    }
  });

  test('whose connection is half-open is reached through a new one, which gets the releases it owes', async () => {
    const { time, connection, connections, answers, perform } = setUp();
    perform('acquire');
    perform('release');
    time.us += 1_500_000;
    perform('acquire');
    await turn();
    expect(perform('acquire')).toBe(false);
    const [, second] = connections;
    second?.emit('ready');
    expect(connections.length).toBe(2);
    // What ioredis does with commands of a connection that is disconnected.
    for (const { fail } of connection.sent) fail(new Error('Connection is closed.'));
    await turn();
    expect(answers.every((answer) => answer === 'error')).toBe(true);
    expect(second?.sent.map(({ name }) => name)).toEqual(['evalsha']);
    expect(perform('acquire')).toBe(true);
    expect(second?.sent.map(({ name }) => name)).toEqual(['evalsha', 'set']);
  });

  test('that was away when a lock was released gets the release when it is back', async () => {
    const { connection, answers, perform } = setUp();
    perform('acquire');
    connection.sent[0]?.answer('OK');
    await turn();
    connection.emit('close');
    expect(perform('release')).toBe(false);
    connection.emit('ready');
    await turn();
    expect([answers, connection.sent.map(({ name }) => name)]).toEqual([
      ['yes', 'error'],
      ['set', 'evalsha'],
    ]);
  });
});
