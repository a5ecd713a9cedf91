import { EventEmitter } from 'node:events';
import { describe, expect, test } from 'vitest';
import type { Answer, Command, Operation, Token } from '../core/index.js';
import { LocalClock } from './clock.js';
import { LockNode, type RedlockClient } from './node.js';
import type { RedisConnection } from './wire.js';

/** A connection that answers when the test says so. */
class FakeConnection extends EventEmitter implements RedisConnection {
  readonly sent: { name: string; args: unknown[]; answer: (reply: unknown) => void; fail: (error: Error) => void }[] =
    [];
  set = (...args: unknown[]) => this.#send('set', args);
  evalsha = (...args: unknown[]) => this.#send('evalsha', args);
  eval = (...args: unknown[]) => this.#send('eval', args);
  script = async () => 'OK';
  connect = async () => undefined;
  quit = async () => 'OK';
  disconnect = () => undefined;

  #send(name: string, args: unknown[]): Promise<unknown> {
    return new Promise((answer, fail) => this.sent.push({ name, args, answer, fail }));
  }
}

function setUp() {
  const time = { us: 1_000_000 };
  const clock = new LocalClock({ monotonicUs: () => time.us, wallMs: () => time.us / 1000, bootUs: () => null });
  const connection = new FakeConnection();
  const client: RedlockClient = { duplicate: () => connection };
  const node = new LockNode(0, 'fake', client, clock, () => {});
  connection.emit('ready');
  const answers: Answer[] = [];
  const receiver = { onReply: (_node: number, _command: Command, answer: Answer) => answers.push(answer) };
  const perform = (operation: Operation) =>
    node.perform({ operation, attempt: 0, round: 0, token: 't' as Token, ttlMs: 1000, counter: 0 }, ['k'], receiver);
  return { time, connection, node, answers, perform };
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

  test('that is away has failed at once, but not before the call returns', async () => {
    const { connection, answers, perform } = setUp();
    connection.emit('close');
    expect(perform('acquire')).toBe(false);
    expect(answers).toEqual([]);
    await turn();
    expect([answers, connection.sent]).toEqual([['error'], []]);
  });

  test.each(['OOM command not allowed', 'NOPERM this user', 'LOADING Redis is loading', 'MOVED 1 h:1', 'READONLY x'])(
    'that replies with the error %s has no vote',
    async (message) => {
      const { connection, answers, perform } = setUp();
      perform('release');
      connection.sent[0]?.fail(new Error(message));
      await turn();
      expect([answers, connection.sent.length]).toEqual([['error'], 1]);
    },
  );

  test('that has lost its scripts gets the text, once', async () => {
    const { connection, answers, perform } = setUp();
    perform('extend');
    connection.sent[0]?.fail(new Error('NOSCRIPT No matching script.'));
    await turn();
    expect(connection.sent.map(({ name }) => name)).toEqual(['evalsha', 'eval']);
    expect(connection.sent[1]?.args.slice(1)).toEqual([1, 'k', 't', 1000]);
    connection.sent[1]?.answer(1);
    await turn();
    expect(answers).toEqual(['yes']);
  });

  test('that hangs under load gets no new locks, but the releases of old ones, until it answers', async () => {
    const { time, connection, answers, perform } = setUp();
    for (let i = 0; i < 300; i++) expect(perform('acquire')).toBe(true);
    time.us += 1_500_000;
    expect([perform('acquire'), perform('extend'), perform('release')]).toEqual([false, false, true]);
    for (const { answer } of connection.sent) answer('OK');
    await turn();
    expect(answers.filter((answer) => answer === 'yes').length).toBe(301);
    expect(perform('acquire')).toBe(true);
  });

  test('that is slow under load, but answers, is not taken for hung', async () => {
    const { time, connection, perform } = setUp();
    for (let i = 0; i < 1000; i++) {
      time.us += 10_000;
      expect(perform('acquire')).toBe(true);
      if (i > 300) connection.sent[i - 300]?.answer('OK');
      await turn();
    }
  });
});
