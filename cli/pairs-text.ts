import { MATRIX } from '../libraries/adapters/index.js';
import { canShareKey, type Migration } from '../libraries/mix.js';
import type { Fate, Fault, LockPlan, Schedule } from '../scenarios/index.js';
import { faultName } from '../search/shrinking/pieces.js';
import { textTable } from './text-table.js';

/** What `libraries --pairs --json` prints. */
export interface PairsReport {
  readonly seed: string;
  /** Of each class of faults. */
  readonly runs: number;
  readonly libraries: readonly ReportedLibrary[];
  /** By name; the same one may be unsafe for many pairs. Who is told of which nodes is for the pair to say. */
  readonly schedules: Readonly<Record<string, Schedule>>;
  readonly pairs: readonly ReportedPair[];
}

/** A library of such a report. */
export interface ReportedLibrary {
  readonly id: string;
  readonly version: string;
  /** What it sends for one lock. */
  readonly commands: readonly string[];
}

/** A pair of such a report. */
export interface ReportedPair extends Migration {
  readonly old: string;
  readonly joining: string;
  readonly verdict: 'safe' | 'unsafe';
  readonly fault: string | null;
  /** The name of its schedule; `null` where it is safe. */
  readonly schedule: string | null;
  /** What its schedule says: locks asked for, extended and released, faults, messages lost or late, wrong clocks. */
  readonly events: number;
  /** Classes of faults that one of the two does not withstand by itself. */
  readonly left: readonly string[];
  readonly runs: number;
}

const SAFE = '·';
const NEVER = '–';

/** The matrix of pairs, for a person: a table for each of the ways in which libraries are put beside each other. */
export function pairsText(report: PairsReport): string {
  const rows = report.libraries.map(({ id, version, commands }, i) => [
    `${i + 1}`,
    id,
    version,
    commands.filter((it) => !it.startsWith('SCRIPT LOAD')).join('; '),
  ]);
  return [
    `${textTable(['', 'library', 'version', 'what it sends for a lock on "a"'], rows)}\n`,
    ...tablesOf(report),
    `The row holds the lock, the column joins. ${SAFE} nothing found; a name: the schedule on which somebody else gets the`,
    `lock as well; ${NEVER} no name makes the two use one key. Each schedule is safe with either library alone.\n`,
    ...Object.entries(report.schedules).map(([name, it]) => `${name.padEnd(4)}${scheduleText(it).join('\n    ')}`),
    '',
  ].join('\n');
}

function tablesOf(report: PairsReport): string[] {
  const ids = report.libraries.map(({ id }) => id);
  return [1, 3]
    .filter((nodes) => report.pairs.some((it) => it.nodes === nodes))
    .flatMap((nodes) =>
      [false, true].map((sameKey) => {
        const on = nodes === 1 ? 'on one node' : 'on three nodes';
        const cells = ids.map((old, i) => [
          `${i + 1} ${old}`,
          ...ids.map((joining) => cellOf(report, { old, joining, nodes, sameKey })),
        ]);
        const head = [`${on}, ${sameKey ? 'one key' : 'one name'}`, ...ids.map((_, i) => `${i + 1}`)];
        return `${textTable(head, cells, 1)}\n`;
      }),
    );
}

type Place = Pick<ReportedPair, 'old' | 'joining' | 'nodes' | 'sameKey'>;

/** Where a way is no other than one before it, it is that one that counts. */
function cellOf(report: PairsReport, { old, joining, nodes, sameKey }: Place): string {
  const [one, other] = [old, joining].map((id) => MATRIX.find((it) => it.id === id));
  const nodesOf = one?.nodes === 1 && other?.nodes === 1 ? 1 : nodes;
  const isOneKey = one?.keyOf === undefined && other?.keyOf === undefined ? true : old === joining;
  const isPossible = one !== undefined && other !== undefined && canShareKey(one, other);
  if (sameKey && !isOneKey && !isPossible) return NEVER;
  const found = report.pairs.find(
    (it) => it.old === old && it.joining === joining && it.nodes === nodesOf && it.sameKey === (sameKey && isPossible),
  );
  return found === undefined ? '' : (found.schedule ?? SAFE);
}

/** What happens in a schedule, a line for each client and each thing that goes wrong. */
export function scheduleText({ cluster, clients, faults, fates }: Schedule): string[] {
  const plans = clients.map(({ id, locks }) => {
    const who = Number(id.slice(1)) % 2 === 1 ? 'old' : 'joining';
    return `${id} (${who}) ${locks.map(lockText).join('; ')}`;
  });
  const clocks = cluster.clocks.map(({ process }) => `the clock of ${process} is wrong`);
  const nodes = `${cluster.nodes} node${cluster.nodes === 1 ? '' : 's'}`;
  return [nodes, ...plans, ...faults.map(faultText), ...fates.map(fateText), ...clocks];
}

function faultText(fault: Fault): string {
  if (fault.kind !== 'crash') return faultName(fault);
  const { restartAfterUs } = fault;
  return `${faultName(fault)}, ${restartAfterUs === null ? 'for good' : `back ${ms(restartAfterUs)} later`}`;
}

/** A command that has no part in the algorithm is addressed as `read-counter`: a greeting, say. */
function fateText({ operation, direction, client, node, lost, delayUs }: Fate): string {
  const command = operation === 'read-counter' ? 'another command' : `the ${operation}`;
  const message =
    direction === 'request'
      ? `${command} from ${client} to ${node}`
      : `the answer to ${command} from ${node} to ${client}`;
  if (lost) return `${message} is lost`;
  return delayUs === undefined ? `${message} comes twice` : `${message} takes ${ms(delayUs)}`;
}

function lockText({ atUs, ttlMs, holdUs, extensions }: LockPlan): string {
  const extended = extensions.map((it) => `, extends it ${ms(it.afterUs)} later by ${it.ttlMs} ms`).join('');
  const released = holdUs === null ? 'keeps it' : `releases it ${ms(holdUs)} after it got it`;
  return `asks at ${ms(atUs)} for ${ttlMs} ms${extended}, ${released}`;
}

function ms(us: number): string {
  return `${us / 1000} ms`;
}
