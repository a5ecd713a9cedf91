import fc from 'fast-check';
import { expect, test } from 'vitest';
import { jsonFault } from './json-text.js';

test.each([
  ['{ "a": 1', 1, 9, true],
  ['{ "a": "unfin', 1, 14, true],
  ['{ "a": "back\\', 1, 14, true],
  ['{ "a": "back\\u00', 1, 17, true],
  ['{ "a": tr', 1, 10, true],
  ['{ "a": 1,\n  ', 2, 3, true],
  ['[', 1, 2, true],
  ['{ "a": 1,\n  b: 2 }', 2, 3, false],
  ["{ 'a': 1 }", 1, 3, false],
  ['{ "a": 1,\n  "b": 2, }', 2, 11, false],
  ['[1 2]', 1, 4, false],
  ['[1, ]', 1, 5, false],
  ['[01]', 1, 2, false],
  ['[+1]', 1, 2, false],
  ['{ "a" 1 }', 1, 7, false],
  ['[1] // done', 1, 5, false],
  ['[1}', 1, 3, false],
  ['{ "a": "line\nbreak" }', 1, 8, false],
  ['{ "a\\#\\": 1 }', 1, 3, false],
  ['hello', 1, 1, false],
])('%j', (text, line, column, ended) => {
  expect(() => JSON.parse(text)).toThrow();
  expect(jsonFault(text)).toEqual({ line, column, ended });
});

test('a document cut off anywhere has ended too early', () => {
  fc.assert(
    fc.property(fc.array(fc.json(), { minLength: 1 }), fc.nat(), (documents, cut) => {
      const text = JSON.stringify(
        documents.map((document) => JSON.parse(document)),
        undefined,
        1,
      );
      expect(jsonFault(text.slice(0, cut % text.length)).ended).toBe(true);
    }),
  );
});

test('a stray mark is found where it is, or where the string or word begins that it spoils', () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (document, place) => {
      const at = place % (document.length + 1);
      const broken = `${document.slice(0, at)}#${document.slice(at)}`;
      fc.pre(!parses(broken));
      const { line, column, ended } = jsonFault(broken);
      expect({ line, ended }).toEqual({ line: 1, ended: false });
      expect(broken.slice(column - 1, at)).toMatch(/^(?:".*|[\w.+-]*)$/s);
    }),
  );
});

test('whatever JSON takes in a string is no fault', () => {
  const text = `["${String.fromCodePoint(0x7f, 0x9f, 0x2028, 0x1f600)}\\u0000\\/", oops]`;
  expect(jsonFault(text).column).toBe(text.indexOf('oops') + 1);
});

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
