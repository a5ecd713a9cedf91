import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { textTable } from '../cli/text-table.js';
import { medianWithInterval } from '../real/bench/statistics.js';
import { Redlock } from '../real/lock/redlock.js';
import { type LockNotice, Watch } from '../real/lock/watch.js';
import { provision } from '../real/provisioner/index.js';
import { machineLine } from './machine.js';

/*
 * What it costs to be watched: CPU time of this process for each lock, in short turns that alternate, on five own servers:
 * `npm run bench:watching -- [turns]`. Blind is the lock with the question left out whether anybody listens; metrics are a
 * histogram of the durations of each event and one of the times that locks were held, fed by the diagnostics channels; history
 * and steps are with a recording that is full.
 */
const TURNS = Number(process.argv[2] ?? 200);
const SHAPES = { serial: { workers: 1, locks: 100 }, concurrent64: { workers: 64, locks: 15 } } as const;
const EVENTS: readonly LockNotice['event'][] = ['acquired', 'contended', 'failed', 'extended', 'lost', 'released'];

let isBlind = false;
const { wants } = Watch.prototype;
Watch.prototype.wants = function (event) {
  return !isBlind && wants.call(this, event);
};

/** Upper bounds, ms: those of OpenTelemetry by default. */
const BOUNDS = [0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10_000];
interface Metric {
  count: number;
  sumMs: number;
  readonly buckets: number[];
}
const metrics = new Map<string, Metric>();
function record(name: string, ms: number): void {
  let metric = metrics.get(name);
  if (metric === undefined) {
    metric = { count: 0, sumMs: 0, buckets: Array<number>(BOUNDS.length + 1).fill(0) };
    metrics.set(name, metric);
  }
  metric.count++;
  metric.sumMs += ms;
  const at = BOUNDS.findIndex((bound) => ms <= bound);
  const bucket = at === -1 ? BOUNDS.length : at;
  metric.buckets[bucket] = (metric.buckets[bucket] ?? 0) + 1;
}
function meter(message: unknown): void {
  const { event, operation, code, durationMs, heldMs } = message as LockNotice;
  record(`${event} ${operation} ${code}`, durationMs);
  if (event === 'released' || event === 'lost') record('held', heldMs);
}
function listen(isOn: boolean): void {
  for (const event of EVENTS) (isOn ? subscribe : unsubscribe)(`lockstep-redlock:${event}`, meter);
}

type Arm = 'blind' | 'nobody listens' | 'metrics' | 'history' | 'steps';
const ARMS: readonly Arm[] = ['blind', 'nobody listens', 'metrics', 'history', 'steps'];

await using provided = await provision({ nodes: 5, sources: ['processes', 'package'] });
const redlock = new Redlock(provided.nodes.map((node) => node.client()));
const [history, steps] = [false, true].map((hasSteps) => {
  const recorded = new Redlock(provided.nodes.map((node) => node.client()));
  recorded.record({ client: 'bench', steps: hasSteps });
  return recorded;
});

/** Microseconds of CPU for each lock. */
async function turn(arm: Arm, { workers, locks }: (typeof SHAPES)[keyof typeof SHAPES]): Promise<number> {
  isBlind = arm === 'blind';
  if (arm === 'metrics') listen(true);
  const subject = (arm === 'history' ? history : arm === 'steps' ? steps : undefined) ?? redlock;
  const before = process.cpuUsage();
  await Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      for (let i = 0; i < locks; i++) await (await subject.acquire(`lockstep:watching:${worker}`, 30_000)).release();
    }),
  );
  const { user, system } = process.cpuUsage(before);
  if (arm === 'metrics') listen(false);
  return (user + system) / (workers * locks);
}

const rows: string[][] = [];
for (const [name, shape] of Object.entries(SHAPES)) {
  for (let i = 0; i < 30; i++) for (const arm of ARMS) await turn(arm, shape);
  const found: Record<Arm, number[]> = { blind: [], 'nobody listens': [], metrics: [], history: [], steps: [] };
  for (let i = 0; i < TURNS; i++) {
    for (let k = 0; k < ARMS.length; k++) {
      const arm = ARMS[(i + k) % ARMS.length] as Arm;
      found[arm].push(await turn(arm, shape));
    }
  }
  for (const [arm, against] of [
    ['nobody listens', 'blind'],
    ['metrics', 'nobody listens'],
    ['history', 'nobody listens'],
    ['steps', 'nobody listens'],
  ] as const) {
    const ratios = found[arm].map((cpu, at) => (cpu / (found[against][at] as number) - 1) * 100);
    const { median, low, high } = medianWithInterval(ratios);
    const cpu = medianWithInterval(found[arm]).median.toFixed(1);
    rows.push([name, arm, against, cpu, `${median.toFixed(2)} %`, `${low.toFixed(2)} to ${high.toFixed(2)}`]);
  }
}
await Promise.all([redlock, history, steps].map((it) => it?.quit()));

const events = [...metrics.values()].reduce((sum, { count }) => sum + count, 0);
process.stdout.write(`${textTable(['shape', '', 'beside', 'CPU µs', 'more CPU', '95 % interval'], rows, 2)}

medians of ${TURNS} turns of each, which alternate; ${events} values were recorded
${provided.description}; ${machineLine()}\n`);
