import { describe, expect, test } from 'vitest';
import type { Answer, Command, Operation, Token } from '../../core/index.js';
import { LocalClock } from './clock.js';
import { LockNode } from './node.js';
import { type Reply, Request } from './request.js';
import type { RedlockTransport } from './session.js';

interface Sent {
  readonly words: readonly string[];
  answer(reply: unknown): void;
}

const REPLIES: Readonly<Record<string, unknown>> = { INFO: 'redis_version:7.0.15', PTTL: 9000, EVAL: 1, SCRIPT: '' };

/** A server with at most one key, on which SET does what it should. */
function replyTo(store: Map<string, string>, [name = '', key = '', value = '']: readonly string[]): unknown {
  if (name === 'GET') return store.get(key) ?? null;
  if (name !== 'SET') return REPLIES[name];
  if (store.has(key)) return null;
  store.set(key, value);
  return 'OK';
}

/** A node that answers what it is asked first by itself, and the commands of locks when the test says so. */
async function setUp(keyPrefix?: string) {
  const sent: Sent[] = [];
  const errors: string[] = [];
  let isAsked = true;
  let respond: (words: readonly string[]) => Promise<unknown> = (words) =>
    new Promise((answer) => sent.push({ words, answer }));
  const store = new Map<string, string>();
  const transport: RedlockTransport = {
    openSession: ({ onReady }) => {
      onReady();
      const send = (words: readonly string[]) => (isAsked ? Promise.resolve(replyTo(store, words)) : respond(words));
      return { send, close: () => {} };
    },
    ...(keyPrefix === undefined ? {} : { keyPrefix }),
  };
  const owner = { onNodeError: (error: Error) => errors.push(error.message), objectionTo: () => null };
  const clock = new LocalClock();
  const node = new LockNode(0, transport, clock, owner);
  node.open();
  await expect.poll(() => node.ready).toBe(true);
  isAsked = false;
  const answers: Answer[] = [];
  const perform = (request: Request, onAnswer = () => {}) =>
    node.perform(
      request,
      {
        onReply: (_node: number, _command: Command, { answer }: Reply) => {
          answers.push(answer);
          onAnswer();
        },
      },
      clock.now(),
    );
  return {
    sent,
    errors,
    node,
    answers,
    perform,
    respondBy: (by: typeof respond) => {
      respond = by;
    },
  };
}

function request(operation: Operation): Request {
  return new Request({ operation, attempt: 0, round: 0, token: 't' as Token, ttlMs: 1000, counter: 0 }, ['k']);
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a node behind a transport', () => {
  test('is sent the same words as others, which cannot be changed', async () => {
    const [one, other, prefixed] = [await setUp(), await setUp(), await setUp('app:')];
    const set = request('acquire');
    for (const { perform } of [one, other, prefixed]) perform(set);
    expect(one.sent[0]?.words).toEqual(['SET', 'k', 't', 'PX', '1000', 'NX']);
    expect(other.sent[0]?.words).toBe(one.sent[0]?.words);
    expect(one.sent[0]?.words).toSatisfy(Object.isFrozen);
    expect(prefixed.sent[0]?.words).toEqual(['SET', 'app:k', 't', 'PX', '1000', 'NX']);
  });

  test('has a prefix before the keys of scripts', async () => {
    const { sent, perform } = await setUp('app:');
    perform(request('release'));
    expect(sent[0]?.words.slice(2)).toEqual(['1', 'app:k', 't']);
  });

  test.each<[string, () => unknown]>([
    ['throws', () => expect.fail('not now')],
    ['rejects', () => Promise.reject(new Error('not now'))],
    ['returns no reply of a server', () => undefined],
  ])('has no vote where send %s', async (_, respond) => {
    const { answers, perform, respondBy } = await setUp();
    respondBy(respond as () => Promise<unknown>);
    expect(perform(request('acquire'))).toBe(true);
    await turn();
    expect(answers).toEqual(['error']);
  });
});

describe('close', () => {
  test('waits for what a node has not answered', async () => {
    const { sent, errors, node, perform } = await setUp();
    perform(request('release'));
    let isClosed = false;
    const closing = node.close(60_000).then(() => {
      isClosed = true;
    });
    await turn();
    expect(isClosed).toBe(false);
    sent[0]?.answer(1);
    await closing;
    expect(errors).toEqual([]);
  });

  test('waits for a release that an answer brings about', async () => {
    const { sent, errors, node, perform } = await setUp();
    perform(request('acquire'), () => perform(request('release')));
    const closing = node.close(60_000);
    sent[0]?.answer('OK');
    await turn();
    expect(sent.length).toBe(2);
    sent[1]?.answer(1);
    await closing;
    expect(errors).toEqual([]);
  });
});
