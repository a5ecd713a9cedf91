import { expect, it } from 'vitest';
import { isOfEach } from './claims.js';

it.each([
  ['One scope per request. Nested calls take it again.', true],
  ['Create a new instance for each job.', true],
  ['Not safe to be shared: it must not be shared between requests.', true],
  ['At most one holder per key.', false],
  ['Logs one line per request.', false],
])('knows of which class each request makes an object of its own: %s', (comment, isEach) => {
  const text = `/**\n * ${comment}\n */\nexport class LockScope {\n}\nexport class Other {\n}`;
  expect(isOfEach([text], 'LockScope')).toBe(isEach);
  expect(isOfEach([text], 'Other')).toBe(false);
});
