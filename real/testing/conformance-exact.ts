import type { Redis } from 'ioredis';
import { type Answer, scriptsOf } from '../../core/index.js';
import { lockPolicyOf } from '../../deviations/index.js';
import type { StandaloneNode } from '../../sim/index.js';
import { answerOf } from '../lock/request.js';
import { type Act, commandOf, VARIANTS } from './conformance-target.js';

/**
 * Runs a command and looks at all keys while telling by which millisecond it did so. A server reads its clock once for
 * expiry, as a script starts, and again for each TTL it sets. The command is left out unless the previous script ended
 * in the same millisecond, so that there is one time only; if that ended meanwhile, the caller sees two.
 */
const HEAD = `
local probe = table.remove(KEYS)
local function now()
  redis.call('set', probe, '', 'PX', 1000000)
  return redis.call('pexpiretime', probe) - 1000000
end
local function command(KEYS, ARGV)`;
const TAIL = `
end
local before = redis.call('pexpiretime', probe) - 1000000
local start = now()
if start ~= before then return {} end
local own = {}
for i = 1, tonumber(ARGV[3]) do own[i] = table.remove(KEYS, 1) end
local answer = command(own, ARGV)
if type(answer) == 'table' then answer = 1 elseif not answer then answer = 0 end
local seen = {answer, start}
for _, key in ipairs(KEYS) do
  table.insert(seen, redis.call('get', key) or '')
  table.insert(seen, redis.call('pexpiretime', key))
end
table.insert(seen, now())
return seen`;

const SET = "return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')";

/** What a server did in one go. */
export interface Observation {
  readonly act: Act;
  readonly answer: Answer;
  /** Server time in ms before and after. */
  readonly startMs: number;
  readonly endMs: number;
  /** For each key who has it and the last ms in which it is there. */
  readonly keys: readonly { readonly token: string; readonly lastMs: number }[];
}

/** Has a server carry out `acts` in a row as fast as it can, and tells what it did, except for those left out. */
export async function observe(
  client: Redis,
  prefix: string,
  keys: readonly string[],
  acts: readonly Act[],
): Promise<Observation[]> {
  const observations: Observation[] = [];
  const named = (names: readonly string[]): string[] => names.map((name) => `${prefix}:${name}`);
  for (let from = 0; from < acts.length; from += 1000) {
    const sent = acts.slice(from, from + 1000).map(async (act) => {
      const all = [...named(act.keys), ...named(keys), `${prefix}:probe`];
      const args = [act.token, act.ttlMs, act.keys.length];
      return { act, seen: await client.eval(HEAD + bodyOf(act) + TAIL, all.length, ...all, ...args) };
    });
    for (const { act, seen } of await Promise.all(sent)) {
      if (!Array.isArray(seen)) throw new Error(`no list but ${String(seen)}`);
      if (seen.length > 0) observations.push(read(act, seen));
    }
  }
  return observations;
}

function bodyOf(act: Act): string {
  const plain = act.variant === 'wire' && act.operation === 'acquire' && act.keys.length === 1;
  return `\n${plain ? SET : scriptsOf(lockPolicyOf(VARIANTS[act.variant]).rules.scripts)[act.operation]}`;
}

function read(act: Act, seen: readonly unknown[]): Observation {
  const keys: { token: string; lastMs: number }[] = [];
  for (let i = 2; i + 1 < seen.length; i += 2) keys.push({ token: String(seen[i]), lastMs: Number(seen[i + 1]) });
  return { act, answer: answerOf(seen[0]), startMs: Number(seen[1]), endMs: Number(seen.at(-1)), keys };
}

/** How a simulated node that was given the same commands at the same times compares. */
export interface Comparison {
  readonly compared: number;
  /** Commands during which a key was in its last millisecond. */
  readonly lastMoments: number;
  readonly differences: readonly string[];
}

/** Has a simulated node do what a server was seen doing, at the millisecond at which it did. */
export function compare(
  node: StandaloneNode,
  names: readonly string[],
  observations: readonly Observation[],
): Comparison {
  const differences: string[] = [];
  let compared = 0;
  let lastMoments = 0;
  for (const { act, answer, startMs, endMs, keys } of observations) {
    const simulated = node.execute(VARIANTS[act.variant], commandOf(act), act.keys, startMs);
    if (startMs !== endMs) {
      adopt(node, names, keys, endMs);
      continue;
    }
    compared++;
    if (keys.some(({ lastMs }) => lastMs === startMs)) lastMoments++;
    const expected = [
      answer,
      ...keys.map(({ token, lastMs }) => (token === '' ? '-' : `${token}/${lastMs - startMs}`)),
    ];
    const state = node.state(names, startMs).map((key) => (key === null ? '-' : `${key.token}/${key.ttlMs}`));
    const found = [simulated, ...state].join(' ');
    if (found === expected.join(' ')) continue;
    differences.push(`${JSON.stringify(act)}: real ${expected.join(' ')}, simulated ${found}`);
    adopt(node, names, keys, endMs);
  }
  return { compared, lastMoments, differences };
}

/** Brings the simulated node to the state of the server where nobody can say when exactly it got there. */
function adopt(node: StandaloneNode, names: readonly string[], keys: Observation['keys'], nowMs: number): void {
  const common = { variant: 'no-nx', ttlMs: 0, token: 0 } as const;
  node.execute(VARIANTS['plain-del'], commandOf({ ...common, operation: 'release', keys: names }), names, nowMs);
  keys.forEach(({ token, lastMs }, i) => {
    if (token === '' || lastMs < nowMs) return;
    const own = names.slice(i, i + 1);
    const act = { ...common, operation: 'acquire', token: Number(token), ttlMs: lastMs - nowMs, keys: own } as const;
    node.execute(VARIANTS['no-nx'], commandOf(act), own, nowMs);
  });
}
