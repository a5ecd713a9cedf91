import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { freePort } from '../../../real/provisioner/free-port.js';
import { listening } from '../servers.js';
import { compareUnit, type Verdict } from './compare.js';
import { runUnit } from './suite.js';

/*
 * Redis's own tests, from a checkout of its version 7.0.15, against a redis-server of this machine and a simulated one, each
 * on a port. `npm run -s conformance:tcl -- path/to/redis [--unit type/string]`. Ends with 1 if less than 95 % of those
 * that apply agree.
 */

const UNITS = [
  ...['type/string', 'type/incr', 'type/list', 'type/list-2', 'type/list-3', 'type/set', 'type/zset', 'type/hash'],
  ...['keyspace', 'scan', 'expire', 'multi', 'quit', 'protocol', 'pubsub', 'scripting', 'functions', 'introspection'],
  ...['introspection-2', 'info-command', 'sort', 'other'],
];
const WANTED = 0.95;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { unit: { type: 'string', multiple: true, default: UNITS } },
});
const [checkout = ''] = positionals;

async function realServer(): Promise<{ readonly port: number } & AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), 'wire-tcl-'));
  const port = await freePort();
  const options = ['--enable-debug-command', 'yes', '--enable-protected-configs', 'yes', '--save', '', '--dir', folder];
  const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', ...options], { stdio: 'ignore' });
  await listening(port);
  return {
    port,
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function verdictsOn(unit: string): Promise<Verdict[]> {
  await using redis = await realServer();
  const expected = await runUnit(checkout, `unit/${unit}`, redis.port);
  const verdicts = await compareUnit(checkout, `unit/${unit}`, expected);
  const of = (kind: Verdict['kind']): number => verdicts.filter((it) => it.kind === kind).length;
  say(`${unit}: ${of('agrees')} agree, ${of('differs')} differ, ${of('does not apply')} do not apply`);
  for (const { kind, name, why } of verdicts) if (kind === 'differs') say(`  ${name}\n    ${why}`);
  return verdicts;
}

function sum(all: readonly Verdict[]): number {
  const reasons = new Map<string, number>();
  for (const { kind, why } of all) if (kind === 'does not apply') reasons.set(why, (reasons.get(why) ?? 0) + 1);
  say('\nwhat does not apply:');
  for (const [why, count] of [...reasons].sort((a, b) => b[1] - a[1])) say(`${String(count).padStart(5)}  ${why}`);
  const agree = all.filter((it) => it.kind === 'agrees').length;
  const apply = all.filter((it) => it.kind !== 'does not apply').length;
  const share = apply === 0 ? 0 : agree / apply;
  say(`\n${agree} of ${apply} tests that apply agree: ${(share * 100).toFixed(1)} %`);
  return share;
}

if (!existsSync(join(checkout, 'tests', 'test_helper.tcl'))) {
  process.stderr.write('Give the path of a checkout of Redis 7.0.15: npm run -s conformance:tcl -- path/to/redis\n');
  process.exit(2);
}
const all: Verdict[] = [];
for (const unit of values.unit) all.push(...(await verdictsOn(unit)));
process.exit(sum(all) >= WANTED ? 0 : 1);
