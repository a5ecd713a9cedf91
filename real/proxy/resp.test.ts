import fc from 'fast-check';
import { expect, test } from 'vitest';
import { commandOf, RespCutter, wordsOf } from './resp.js';

const VALUES = [
  '+OK\r\n',
  '-ERR no\r\n',
  ':1\r\n',
  '$-1\r\n',
  '$0\r\n\r\n',
  '$5\r\na\r\nbc\r\n',
  '*-1\r\n',
  '*0\r\n',
  '*2\r\n$1\r\na\r\n*1\r\n:7\r\n',
  '%1\r\n+a\r\n_\r\n',
  'PING\r\n',
];

test('a stream is cut into whole values, however it arrives', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...VALUES)), fc.array(fc.nat(12)), (values, sizes) => {
      const cutter = new RespCutter();
      const stream = Buffer.from(values.join(''));
      const found: string[] = [];
      let at = 0;
      for (const size of [...sizes, stream.length]) {
        found.push(...cutter.push(stream.subarray(at, at + size)).map(String));
        at += size;
      }
      expect(found).toEqual(values);
    }),
  );
});

test('a command is its words, whatever is in them', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 1 }), (words) => {
      expect(wordsOf(commandOf(words))).toEqual(words);
    }),
  );
  expect(wordsOf(Buffer.from('SET a 1\r\n'))).toEqual(['SET', 'a', '1']);
});
