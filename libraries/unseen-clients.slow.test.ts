import { readFileSync } from 'node:fs';
import { parse } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { MakeLock } from './lock-under-test.js';
import { firstKind } from './testing/first-kind.js';

interface Client {
  readonly file: string;
  readonly verdict: 'right' | 'wrong';
  /** Default: five. */
  readonly nodes?: number;
  /** Of a wrong one: a sentence. */
  readonly defect?: string;
  /** Why the default call does not come to this verdict. */
  readonly open?: string;
}

interface Exported {
  readonly make?: MakeLock;
}

/** By set: those that took a class of faults, or a judge, of their own. Of the others one in so many is tried, or all. */
const HARD: Readonly<Record<string, readonly string[]>> = {
  eighth: ['beacon', 'cedar', 'comet', 'flint', 'kelp', 'lantern'],
  tenth: ['cabinet', 'fleet', 'harbour', 'nest', 'slot'],
  thirteenth: ['kelp', 'tundra', 'umber', 'acorn', 'violet'],
  fifteenth: ['okavango'],
  seventeenth: ['volga'],
};
const STRIDE = 12;

/** `CLIENTS=all` tries all of them. */
describe.each(Object.entries(HARD))('of the %s set', (set, hard) => {
  const folder = new URL(`../test/wild/${set}/`, import.meta.url);
  const { clients } = JSON.parse(readFileSync(new URL('verdicts.json', folder), 'utf8')) as { clients: Client[] };
  const tried = clients.filter(({ file, open }, at) => {
    const isChosen = hard.includes(parse(file).name) || at % STRIDE === 0;
    return open === undefined && (process.env.CLIENTS === 'all' || isChosen);
  });

  it.each(tried)('the default call finds that $file is $verdict', async ({ file, verdict, nodes }) => {
    const module = (await import(new URL(file, folder).href)) as Exported & { default?: MakeLock | Exported };
    const { default: other } = module;
    const make = module.make ?? (typeof other === 'function' ? other : other?.make);
    if (make === undefined) throw new TypeError(`${file} exports no client`);
    const kind = await firstKind(make, nodes === undefined ? {} : { nodes }).catch((error: Error) => {
      if (error.message.includes('threw where nobody caught it')) return 'uncaught';
      throw error;
    });
    expect(kind === 'passed' ? 'right' : 'wrong').toBe(verdict);
  });
});
