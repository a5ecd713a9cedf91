import type { Meaning } from './meaning.js';

/** Longer ones are of scripts and of values that nobody reads. */
const LONGEST = 60;

/**
 * What a client sends, in the words of Redis, for reports; `{token}` stands where the value stands that marks a key as
 * somebody's own.
 */
export function saidBy(commands: readonly (readonly string[])[], meaning: Meaning): string {
  const said = commands.map((it) => (/^eval/i.test(it[0] ?? '') ? scriptSaid(it, meaning) : commandSaid(it, meaning)));
  // What no terminal should get to see.
  const all = said.join('; ').replaceAll(/\p{C}/gu, '·');
  return all.length > LONGEST ? `${all.slice(0, LONGEST - 1)}…` : all;
}

function commandSaid([name = '', ...args]: readonly string[], { value }: Meaning): string {
  return [name.toUpperCase(), ...args.map((it) => (it === value ? '{token}' : it))].join(' ');
}

/** Instead of its text: what it does, where that is what a lock usually has a script for; else what it is given. */
function scriptSaid([name = '', , , ...given]: readonly string[], meaning: Meaning): string {
  const { operation, ttlMs, script } = meaning;
  const keys = meaning.keys.join(' ');
  if (operation === 'acquire' && script?.setsNew) return `SET ${keys} {token} NX PX ${ttlMs}`;
  if (script?.reads && operation === 'release') return `DEL ${keys} if {token}`;
  const both = script?.sets && script.expires;
  if (script?.reads && operation === 'extend' && !both) {
    return script.sets ? `SET ${keys} {token} PX ${ttlMs} if {token}` : `PEXPIRE ${keys} ${ttlMs} if {token}`;
  }
  return `${commandSaid([name, ...given], meaning)} (${both ? 'extends or sets' : (DOES[operation] ?? 'looks')})`;
}

const DOES: Readonly<Partial<Record<Meaning['operation'], string>>> = {
  acquire: 'acquires',
  extend: 'extends',
  release: 'releases',
};
