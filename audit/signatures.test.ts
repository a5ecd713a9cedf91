import { createHmac } from 'node:crypto';
import { expect, it } from 'vitest';
import { isSignature, signatureFor, withOneSignature } from './signatures.js';

/** What a file has to say to read the header of a signed request. */
const reads = (algorithm: string, rest: string): string =>
  `const own = createHmac('${algorithm}', secret).update(body)${rest}; const theirs = req.headers['x-hub-signature'];`;

const { createHmac: stood } = withOneSignature({}) as { createHmac: typeof createHmac };

it.each([
  ['sha256', ".digest('hex')", '', 'hex'],
  ['sha1', ".digest('base64')", '', 'base64'],
  ['sha256', ".digest('hex'); const all = 'sha256=' + own", 'sha256=', 'hex'],
] as const)('signs by %s as a file reads it: %s', (algorithm, rest, prefix, encoding) => {
  const digest = stood(algorithm, 'secret').update('body').digest(encoding);
  expect(signatureFor([reads(algorithm, rest)])).toBe(prefix + digest);
  expect(digest).toHaveLength(createHmac(algorithm, 'secret').digest(encoding).length);
});

it('leaves a file alone that signs nothing that it is sent', () => {
  const text = "const key = createHmac('sha256', salt).update(email).digest('hex');";
  expect(signatureFor([text])).toBeNull();
});

it.each([
  ['X-Signature', true],
  ['x-hub-signature-256', true],
  ['content-type', false],
])('knows whether the header %s has a signature', (name, has) => {
  expect(isSignature(name)).toBe(has);
});
