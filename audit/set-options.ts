import type { Bench } from './load.js';
import type { ClientKind } from './result.js';

/* Options of SET that a client does not know by the names under which it is told them. */

/** How each client writes its options as an object. */
const WRITTEN: Readonly<Partial<Record<ClientKind, { readonly known: string; readonly isWrong: RegExp }>>> = {
  'node-redis': { known: 'NX, XX, PX, EX', isWrong: /^(?:nx|xx|px|ex)$/ },
  upstash: { known: 'nx, xx, px, ex', isWrong: /^(?:NX|XX|PX|EX)$/ },
};
const CLIENTS: Readonly<Partial<Record<ClientKind, string>>> = {
  'node-redis': 'node-redis',
  upstash: '@upstash/redis',
};
const SETS = /\.set\(\s*[^;{}]{1,120},\s*\{([^{}]{1,200})\}/g;

/** What is wrong with the options by which these files set keys; `null` for nothing. */
export function ignoredOptions({ program, clients: { kind } }: Pick<Bench, 'program' | 'clients'>): string | null {
  const written = WRITTEN[kind];
  if (written === undefined) return null;
  const names = program.texts
    .flatMap((text) => [...text.matchAll(SETS)])
    .flatMap(([, options = '']) => [...options.matchAll(/(?:^|,)\s*['"]?(\w+)/g)].map(([, name = '']) => name))
    .filter((name) => written.isWrong.test(name));
  if (names.length === 0) return null;
  return `its options ${[...new Set(names)].join(', ')} are ignored, as ${CLIENTS[kind]} knows them as ${written.known}: `;
}
