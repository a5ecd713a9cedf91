import { expect, it } from 'vitest';
import type { Answer } from '../../core/index.js';
import { encode, Failure, MapReply, type Reply, SetReply, Status, Verbatim } from '../../wire/index.js';
import { answerOf } from '../redis/reply.js';
import { lastOf, replyAt } from './replies.js';

it.each<[Reply, Answer]>([
  [new Status('OK'), 'yes'],
  [new Failure('ERR no'), 'error'],
  [1, 'yes'],
  [0, 'no'],
  ['', 'yes'],
  ['\xff\r\n:0\r\n', 'yes'],
  [null, 'no'],
  [true, 'yes'],
  [false, 'no'],
  [[], 'no'],
  [[1, 0], 'yes'],
  [[[null], 1], 'no'],
  [new SetReply([0, 1]), 'no'],
  [new MapReply([['a', 0]]), 'yes'],
  [new Verbatim('text'), 'yes'],
])('takes %j for %s in both protocols, behind others', (reply, answer) => {
  for (const protocol of [2, 3] as const) {
    const bytes = encode(reply, protocol);
    expect(answerOf(lastOf(bytes))).toBe(answer);
    expect(answerOf(lastOf(encode(new Failure('ERR before'), protocol) + bytes))).toBe(answer);
    expect(replyAt(bytes, 0)?.[1]).toBe(bytes.length);
    expect(replyAt(bytes.slice(0, -1), 0)).toBeNull();
  }
});
