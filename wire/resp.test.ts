import { expect, test } from 'vitest';
import { ProtocolError, RequestParser } from './resp.js';

/** All that a parser gives of these bytes, written in parts. */
function requestsIn(parts: readonly string[], authenticated = true): unknown[] {
  const parser = new RequestParser();
  const requests: unknown[] = [];
  for (const part of parts) {
    parser.feed(part);
    for (let it = parser.next(authenticated); it !== null; it = parser.next(authenticated)) {
      requests.push(it instanceof ProtocolError ? it.failure.text.replace('ERR Protocol error: ', '') : it);
      if (it instanceof ProtocolError) return requests;
    }
  }
  return requests;
}

const WORD = 'x'.repeat(123);
const ELEVEN = Array.from({ length: 11 }, () => 'ab');
const asBulk = (words: readonly string[]): string =>
  `*${words.length}\r\n${words.map((it) => `$${it.length}\r\n${it}\r\n`).join('')}`;

test.each([
  ['*1\r\n$4\r\nPING\r\n', [['PING']]],
  [asBulk(['set', 'a\r\nb', '', WORD]), [['set', 'a\r\nb', '', WORD]]],
  [asBulk(ELEVEN), [ELEVEN]],
  [`${asBulk(['get', 'a'])}PING\r\n${asBulk(['get', 'b'])}`, [['get', 'a'], ['PING'], ['get', 'b']]],
  [`*0\r\n*-1\r\n${asBulk(['get', 'a'])}`, [['get', 'a']]],
  ['*01\r\n$4\r\nPING\r\n', ['invalid multibulk length']],
  ['*+1\r\n$4\r\nPING\r\n', ['invalid multibulk length']],
  ['*1 \r\n$4\r\nPING\r\n', ['invalid multibulk length']],
  ['*1\r\n$04\r\nPING\r\n', ['invalid bulk length']],
  ['*1\r\n$4x\r\nPING\r\n', ['invalid bulk length']],
  ['*1\r\n:4\r\nPING\r\n', ["expected '$', got ':'"]],
])('%j is read alike at once and byte by byte', (bytes, requests) => {
  expect(requestsIn([bytes])).toEqual(requests);
  expect(requestsIn([...bytes])).toEqual(requests);
});

test('who has not authenticated may send ten words, and none of more than 16 384 bytes', () => {
  expect(requestsIn([asBulk(ELEVEN.slice(1))], false)).toEqual([ELEVEN.slice(1)]);
  expect(requestsIn([asBulk(ELEVEN)], false)).toEqual(['unauthenticated multibulk length']);
  expect(requestsIn([asBulk(['x'.repeat(16_384)])], false)).toEqual([['x'.repeat(16_384)]]);
  expect(requestsIn([asBulk(['x'.repeat(16_385)])], false)).toEqual(['unauthenticated bulk length']);
  expect(requestsIn([asBulk(['x'.repeat(16_385)])])).toEqual([['x'.repeat(16_385)]]);
});
