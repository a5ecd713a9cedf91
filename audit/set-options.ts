import type { Bench } from './load.js';
import type { ClientKind } from './result.js';
import type { Said } from './said.js';

/* Commands that set a key, whatever is there, and options of SET that a client ignores. */

/** How clients write these options as an object, and how they are written for another client. */
const OPTIONS: Readonly<
  Partial<Record<ClientKind, { readonly client: string; readonly known: string; readonly isOther: RegExp }>>
> = {
  'node-redis': { client: 'node-redis', known: 'NX, XX, PX, EX', isOther: /^(?:nx|xx|px|ex)$/ },
  upstash: { client: '@upstash/redis', known: 'nx, xx, px, ex', isOther: /^(?:NX|XX|PX|EX)$/ },
};
const SETS = /\.set\(\s*[^;{}]{1,120},\s*\{([^{}]{1,200})\}/g;

/** Which options of these files a client ignores, as the beginning of a sentence; empty for none. */
export function ignoredOptions({ program, clients }: Pick<Bench, 'program' | 'clients'>): string {
  const options = OPTIONS[clients.kind];
  if (options === undefined) return '';
  const names = program.texts
    .flatMap((text) => [...text.matchAll(SETS)])
    .flatMap(([, written = '']) => [...written.matchAll(/(?:^|,)\s*['"]?(\w+)/g)].map(([, name = '']) => name))
    .filter((name) => options.isOther.test(name));
  if (names.length === 0) return '';
  return `its options ${[...new Set(names)].join(', ')} are ignored, as ${options.client} knows them as ${options.known}: `;
}

/** What is wrong with a command that sets a key, whatever is there, by the commands before it. */
export function setsWhatever({ verb }: Said, before: readonly Said[], ignored: string): string {
  const looks = before.some((it) => ['get', 'exists', 'ttl', 'pttl'].includes(it.verb));
  return looks
    ? `it looks whether the key is there and sets it with a second command (${before.at(-1)?.verb.toUpperCase()}, then ${verb.toUpperCase()} without NX): two processes can both find it free`
    : `${ignored}it sets the key whether or not it is there (${verb.toUpperCase()} without NX): every client that asks takes the lock from its holder`;
}
