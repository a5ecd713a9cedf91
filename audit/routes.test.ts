import { expect, it } from 'vitest';
import { pathsIn } from './routes.js';

it.each([
  [
    String.raw`const ROUTE = /^\/districts\/([\w-]+)\/applications\/([\w-]+)\/permit\/?$/;`,
    '/districts/a/applications/a/permit',
  ],
  [
    String.raw`if (/^\/health$/.test(url)) return; const m = /^\/orders\/(?<id>\d+)\/pay$/.exec(url);`,
    '/orders/10000097/pay',
  ],
  [
    String.raw`/^\/api\/(?:v1|v2)\/jobs\/([0-9a-f-]{36})$/.exec(req.url)`,
    '/api/v1/jobs/00000000-0000-4000-8000-000000000061',
  ],
  [String.raw`/^\/carts\/[^/]+\/checkout(?:\?.*)?$/.test(req.url)`, '/carts/a/checkout'],
])('makes a path that %s matches', (text, path) => {
  expect(pathsIn([text])?.('a')).toBe(`https://other.example${path}`);
  expect(pathsIn([`createServer(); ${text}`])?.('a')).toBe(path);
});

it('makes another path for another thing', () => {
  const path = pathsIn([String.raw`createServer(); /^\/x\/([a-z]{2,20})\/(\d{1,12})$/`]);
  expect(path?.('a')).toBe('/x/noa/10000097');
  expect(path?.('a2')).toBe('/x/noad/10003057');
});

it('makes none where no path is matched, or none is found', () => {
  expect(pathsIn([`const NAME = /^[a-z]+$/;`])).toBeNull();
  expect(pathsIn([String.raw`/^\/x\/(?=y)z$/.test(url)`])).toBeNull();
});
