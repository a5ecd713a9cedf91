import type { KeyState } from '../../sim/index.js';
import { type Act, type Target, VARIANTS, type Variant } from './conformance-target.js';

/**
 * The fixed cases, each a line: keys as they are at first, `<key>=<token>/<TTL in s>`, then after a bar what is done,
 * separated by semicolons: `<operation>[@variant] <token> <keys> [<TTL in s>]` or `wait <ms>`. A TTL may end in ms.
 */
export const CASES: readonly string[] = `
| acquire 1 a 100
| acquire@text 1 a 100
| acquire@no-nx 1 a 100
a=1/500 | acquire 1 a 900
a=1/500 | acquire@text 1 a 900
a=1/500 | acquire@no-nx 1 a 900
a=2/500 | acquire 1 a 900
a=2/500 | acquire@text 1 a 900
a=2/500 | acquire@no-nx 1 a 900
a=2/500 | acquire@no-nx 1 a 100
a=1/2ms | wait 30; acquire 1 a 100
a=2/2ms | wait 30; acquire 1 a 100
a=2/2ms | wait 30; acquire@text 1 a 100
a=2/2ms | wait 30; acquire@no-nx 1 a 100
a=2/2ms | wait 30; acquire@no-nx 1 a 100; extend 1 a 900
a=2/2ms b=2/2ms | wait 30; acquire@no-nx 1 a,b 100
a=2/1ms | wait 30; acquire 1 a 1ms; wait 30
| acquire 1 a 1ms; wait 30
| acquire 1 a 1ms; wait 30; release 1 a
| acquire 1 a 1ms; wait 30; extend 1 a 100
| acquire 1 a 1ms; wait 30; acquire 2 a 100
| acquire 1 a 315360000
| acquire 1 a 31536000000
| acquire 1 a 4503599627
| acquire 1 a,b 31536000000
| acquire 1 a,b 100
a=1/500 | acquire 1 a,b 100
a=2/500 | acquire 1 a,b 100
b=2/500 | acquire 1 a,b 100
a=2/500 b=3/500 | acquire 1 a,b 100
a=2/2ms b=2/500 | wait 30; acquire 1 a,b 100
a=2/2ms b=2/2ms | wait 30; acquire 1 a,b 100
a=2/500 | acquire@no-nx 1 a,b 100
| acquire 1 a,b,c 100
c=2/500 | acquire 1 a,b,c 100
b=1/500 c=1/500 | acquire 1 a,b,c 100
a=1/500 b=2/500 | acquire@no-nx 1 a,b,c 100
| acquire 1 a,a 100
| acquire 1 a 100; acquire 1 a 900
| acquire 1 a 100; acquire 2 a 900
| acquire 1 a 100; release 1 a; acquire 2 a 900
| extend 1 a 100
| extend@own-or-missing 1 a 100
| extend@heals 1 a 100
| extend@extend-any 1 a 100
a=1/500 | extend 1 a 900
a=1/500 | extend 1 a 500
a=1/500 | extend 1 a 100
a=1/500 | extend 1 a 1ms
a=1/500 | extend@text 1 a 900
a=1/500 | extend@own-or-missing 1 a 900
a=1/500 | extend@heals 1 a 900
a=1/500 | extend@own-or-missing 1 a 100
a=1/500 | extend@heals 1 a 100
a=1/500 | extend@extend-any 1 a 100
a=2/500 | extend 1 a 900
a=2/500 | extend@own-or-missing 1 a 900
a=2/500 | extend@heals 1 a 900
a=2/500 | extend@extend-any 1 a 900
a=1/2ms | wait 30; extend 1 a 100
a=1/2ms | wait 30; extend@own-or-missing 1 a 100
a=1/2ms | wait 30; extend@heals 1 a 100
a=2/2ms | wait 30; extend@own-or-missing 1 a 100
a=2/2ms | wait 30; extend@heals 1 a 100
a=1/2ms | wait 30; extend@extend-any 1 a 100
a=2/2ms | wait 30; extend@extend-any 1 a 100
a=1/500 | extend 1 a 31536000000
a=1/500 b=1/500 | extend 1 a,b 900
a=1/500 b=1/1300 | extend 1 a,b 900
a=1/500 b=1/900 | extend 1 a,b 100
a=1/500 | extend 1 a,b 900
b=1/500 | extend 1 a,b 900
a=1/500 b=2/500 | extend 1 a,b 900
a=2/500 b=1/500 | extend 1 a,b 900
a=1/500 b=1/2ms | wait 30; extend 1 a,b 900
a=1/500 | extend@own-or-missing 1 a,b 900
a=1/500 | extend@heals 1 a,b 900
a=1/500 b=2/500 | extend@own-or-missing 1 a,b 900
a=1/500 b=2/500 | extend@heals 1 a,b 900
a=1/500 b=2/500 | extend@extend-any 1 a,b 900
a=1/500 b=1/500 c=1/500 | extend 1 a,b,c 900
a=1/500 b=1/500 c=2/500 | extend 1 a,b,c 900
a=1/500 b=1/500 | extend 1 a,b,c 900
a=1/500 b=1/500 | extend@own-or-missing 1 a,b,c 900
a=1/500 b=1/500 | extend@heals 1 a,b,c 900
a=1/500 | extend 1 a,a 900
a=1/100 | extend 1 a 500; extend 1 a 300; extend 1 a 900
| release 1 a
| release@plain-del 1 a
a=1/500 | release 1 a
a=1/500 | release@text 1 a
a=1/500 | release@plain-del 1 a
a=2/500 | release 1 a
a=2/500 | release@plain-del 1 a
a=1/2ms | wait 30; release 1 a
a=1/2ms | wait 30; release@plain-del 1 a
a=1/500 | release 1 a; release 1 a
a=1/500 | release 1 a; extend 1 a 900
a=1/500 | release 1 a; extend@own-or-missing 1 a 900
a=1/500 | release 1 a; extend@heals 1 a 900
a=1/500 b=1/500 | release 1 a,b
a=1/500 | release 1 a,b
b=1/500 | release 1 a,b
a=1/500 b=2/500 | release 1 a,b
a=2/500 b=1/500 | release 1 a,b
a=2/500 b=3/500 | release 1 a,b
a=2/500 b=3/500 | release@plain-del 1 a,b
a=1/500 b=1/2ms | wait 30; release 1 a,b
a=1/500 b=2/500 c=1/500 | release 1 a,b,c
b=2/500 | release@plain-del 1 a,b,c
a=1/500 | release 1 a,a
a=1/500 b=1/500 | release 1 a; extend 1 a,b 900; acquire 2 a,b 100; acquire 2 a 100
`
  .trim()
  .split('\n');

/** What a case gave: the answers, and the keys left with their TTL to the nearest 100 s. */
export async function play(line: string, target: Target): Promise<string> {
  const [given = '', done = ''] = line.split('|');
  for (const key of given.split(' ').filter((it) => it !== '')) {
    const [, name = '', token, ttl] = /^(\w+)=(\d+)\/(\w+)$/.exec(key) ?? [];
    const act = { operation: 'acquire', variant: 'no-nx', keys: [name] } as const;
    await target.perform({ ...act, token: Number(token), ttlMs: ttlOf(ttl) });
  }
  const answers: string[] = [];
  for (const text of done.split(';').map((it) => it.trim())) {
    const wait = /^wait (\d+)$/.exec(text);
    if (wait === null) answers.push(await target.perform(actOf(text)));
    else await target.wait(Number(wait[1]));
  }
  const names = ['a', 'b', 'c'];
  const states = await target.state(names);
  // Some of them would outlive us by a thousand years.
  await target.perform({ operation: 'release', variant: 'plain-del', token: 1, keys: names, ttlMs: 0 });
  const keys = names.flatMap((name, i) => shown(name, states[i] ?? null));
  return `${answers.join(', ')} → ${keys.join(' ') || 'no key'}`;
}

function actOf(text: string): Act {
  const found = /^(acquire|extend|release)(?:@([\w-]+))? (\d+) ([\w,]+)(?: (\w+))?$/.exec(text);
  const [, operation, variant = 'wire', token, keys = '', ttl] = found ?? [];
  if (operation === undefined || !(variant in VARIANTS)) throw new Error(`"${text}" is no act`);
  return {
    operation: operation as Act['operation'],
    variant: variant as Variant,
    token: Number(token),
    keys: keys.split(','),
    ttlMs: operation === 'release' ? 0 : ttlOf(ttl),
  };
}

function ttlOf(text = ''): number {
  return text.endsWith('ms') ? Number(text.slice(0, -2)) : Number(text) * 1000;
}

/** Cases run within a minute; their times differ by more. */
function shown(name: string, state: KeyState | null): string[] {
  return state === null ? [] : [`${name}=${state.token}/${Math.round(state.ttlMs / 100_000) * 100}`];
}
