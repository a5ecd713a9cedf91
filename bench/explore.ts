import { parseArgs } from 'node:util';
import { textTable } from '../cli/text-table.js';
import { DEFAULT_SCOPE, type Exploration, type ExploreOptions, type ExploreScope, explore } from '../explore/index.js';
import { formatCount } from '../text/format.js';
import { machine, machineLine } from './machine.js';
import { hasSpin, runSpin } from './spin/promela.js';

/** How fast bounded worlds are exhausted, beside Spin on their Promela model in the same run. */
interface Measured {
  readonly world: string;
  readonly by: 'lockstep' | 'lockstep, symmetry' | 'Spin';
  readonly verdict: string;
  readonly states: number;
  readonly seconds: number;
  readonly statesPerSecond: number;
  readonly bytesPerState: number | null;
  /** Time against Spin's; `null` where Spin has no model of it. */
  readonly ratioToSpin: number | null;
}

const DELAYED: ExploreScope = { ...DEFAULT_SCOPE, crashes: 1, restartDelay: 3 };

const { values } = parseArgs({
  options: { json: { type: 'boolean', default: false }, large: { type: 'boolean', default: false } },
});

const rows = [...besideSpin(), ...ours()];
const result = { schema: 'lockstep.bench-explore/1', machine: machine(), rows };
process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : describe());

/** The delayed-restart space, by both. */
function besideSpin(): Measured[] {
  const world = '3 nodes, 2 clients, ttl 3, 1 crash, delayed restart';
  const spin = hasSpin() ? runSpin({ ttl: 3, allowance: 0, crashes: 1, delay: 3, drift: 0 }) : null;
  const seconds = spin?.seconds ?? null;
  return [
    ...(spin === null
      ? []
      : [row(world, 'Spin', spin.violated ? 'violated' : 'safe', spin.states, spin.seconds, null, 1)]),
    measured(world, { bounds: DELAYED, symmetry: false }, seconds),
    measured(world, { bounds: DELAYED }, seconds),
  ];
}

/** Larger spaces, which have no Promela model. */
function ours(): Measured[] {
  const spaces: readonly (readonly [string, Partial<ExploreScope>])[] = [
    ['the same, ttl 4', { crashes: 1, ttl: 4, restartDelay: 4 }],
    ['the same, ttl 5', { crashes: 1, ttl: 5, restartDelay: 5 }],
    ['the same, ttl 6', { crashes: 1, ttl: 6, restartDelay: 6 }],
    ['drift 1, allowance 1, no crash', { drift: 1, allowance: 1 }],
    ['drift 1, allowance 1, no crash, ttl 6', { drift: 1, allowance: 1, ttl: 6 }],
    ['one extension each', { extensions: 1 }],
    ...(values.large
      ? ([
          ['drift 1, allowance 1, 1 crash, restart after 4', { drift: 1, allowance: 1, crashes: 1, restartDelay: 4 }],
          ['5 nodes, ttl 2, no fault', { nodes: 5, ttl: 2 }],
          ['5 nodes, ttl 2, 1 crash, delayed restart', { nodes: 5, ttl: 2, crashes: 1, restartDelay: 2 }],
        ] as const)
      : []),
  ];
  return spaces.map(([world, change]) => measured(world, { bounds: { ...DEFAULT_SCOPE, ...change } }, null));
}

function measured(world: string, options: ExploreOptions, spinSeconds: number | null): Measured {
  const began = process.hrtime.bigint();
  const it: Exploration = explore(options);
  const seconds = Number(process.hrtime.bigint() - began) / 1e9;
  const by = (options.symmetry ?? true) ? 'lockstep, symmetry' : 'lockstep';
  return row(
    world,
    by,
    it.verdict,
    it.states,
    seconds,
    it.bytes / it.states,
    spinSeconds === null ? null : seconds / spinSeconds,
  );
}

function row(
  world: string,
  by: Measured['by'],
  verdict: string,
  states: number,
  seconds: number,
  bytesPerState: number | null,
  ratioToSpin: number | null,
): Measured {
  return { world, by, verdict, states, seconds, statesPerSecond: states / seconds, bytesPerState, ratioToSpin };
}

function describe(): string {
  const cells = rows.map((it) => [
    it.world,
    it.by,
    it.verdict,
    formatCount(it.states),
    it.seconds.toFixed(2),
    Math.round(it.statesPerSecond / 1000).toString(),
    it.bytesPerState === null ? '' : Math.round(it.bytesPerState).toString(),
    it.ratioToSpin === null ? '' : it.ratioToSpin.toFixed(2),
  ]);
  const heads = ['world', 'by', 'verdict', 'states', 's', 'k/s', 'bytes', '× Spin'];
  return `${textTable(heads, cells, 3)}\n\n${machineLine()}\n`;
}
