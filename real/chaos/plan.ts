import seedrandom from 'seedrandom';
import type { ChaosPlan, PlannedFault } from './types.js';

/** What a plan is made of: the same gives the same plan, on every machine. */
export type PlanOptions = Pick<ChaosPlan, 'seed' | 'faultModel' | 'clients' | 'ttlMs' | 'nodes' | 'forMs'>;

/** Nodes that are troubled at one time, most of the time: as many as leave a quorum. */
const USUAL_TROUBLES = 2;
/** How often one more may be: then nobody can acquire, and nobody may be stuck for it. */
const ONE_MORE = 0.1;
/** Rates of clocks stay within this, and steps within a quarter of the drift allowance: together well below it. */
const MOST_RATE = 0.003;
/** Ways to a node, which each half of the clients has one of. */
export const SIDES = 2;

/** A number from 0 to below 1, which the seed and the name of the stream fix. */
export type Draw = () => number;

/** Chance for one purpose, independent of all others of the same seed. */
export function streamOf(seed: string, name: string): Draw {
  return seedrandom(`${name} ${seed}`);
}

/** How long a clock stays as it is at least, ms: one change within the life of a key, since what a claim meets adds up. */
export function clockPauseMs(ttlMs: number): number {
  return ttlMs * 1.2;
}

/**
 * Every fault of a run, in the order of time: those within what the lock assumes, or majorities of the nodes that forget at
 * once. A longer run with the same seed begins with the same faults.
 */
export function planFaults(options: PlanOptions): PlannedFault[] {
  const faults =
    options.faultModel === 'within'
      ? [...troubles(options), ...clockChanges(options), ...clientFaults(options)]
      : amnesia(options);
  return faults.filter(({ atMs }) => atMs < options.forMs).sort((a, b) => a.atMs - b.atMs);
}

function troubles({ seed, nodes, ttlMs, forMs }: PlanOptions): PlannedFault[] {
  const faults: PlannedFault[] = [];
  let lasting: PlannedFault[] = [];
  const lanes = Array.from({ length: nodes }, (_, node) => {
    const draw = streamOf(seed, `node ${node}`);
    return { node, draw, atMs: pause(draw, ttlMs) };
  });
  for (;;) {
    const lane = lanes.reduce((first, it) => (it.atMs < first.atMs ? it : first));
    const { node, atMs, draw } = lane;
    if (atMs >= forMs) return faults;
    const most = draw() < ONE_MORE ? USUAL_TROUBLES + 1 : USUAL_TROUBLES;
    const fault = strike(node, atMs, ttlMs, draw);
    lasting = lasting.filter((it) => it.atMs + it.forMs > atMs);
    const isOne = lasting.length < most;
    if (isOne) {
      faults.push(fault);
      lasting.push(fault);
    }
    lane.atMs += (isOne ? fault.forMs : 0) + pause(draw, ttlMs);
  }
}

function pause(draw: Draw, ttlMs: number): number {
  return wholeMs(50 + draw() * ttlMs);
}

function strike(node: number, atMs: number, ttlMs: number, draw: Draw): PlannedFault {
  const choice = draw();
  const forMs = wholeMs(20 + draw() * ttlMs);
  const it = { atMs, nodes: [node] };
  if (choice < 0.25) return { ...it, kind: 'kill', forMs: wholeMs(ttlMs * 1.02 + 20) };
  if (choice < 0.45) return { ...it, kind: 'stop', forMs: wholeMs(forMs * 1.5) };
  if (choice < 0.8) {
    // One side of the clients, or all of them.
    const all = draw() < 0.4;
    const side = Math.floor(draw() * SIDES);
    const what = draw();
    const kind = what < 0.33 ? 'lose requests' : what < 0.66 ? 'lose replies' : 'lose both';
    return { ...it, kind, forMs, sides: all ? [0, 1] : [side] };
  }
  if (choice < 0.9)
    return { ...it, kind: 'delay', forMs, requestMs: wholeMs(draw() * 60), replyMs: wholeMs(draw() * 60) };
  return draw() < 0.5 ? { ...it, kind: 'half-open', forMs } : { ...it, kind: 'cut', forMs: 0 };
}

/** Changes of clocks within what the drift allowance covers together: another rate now and then, and small steps. */
function clockChanges({ seed, nodes, ttlMs, forMs }: PlanOptions): PlannedFault[] {
  const faults: PlannedFault[] = [];
  const mostStepMs = (0.01 * ttlMs + 2) / 4;
  for (let node = 0; node < nodes; node++) {
    const draw = streamOf(seed, `clock ${node}`);
    const next = (): number => wholeMs(clockPauseMs(ttlMs) + draw() * ttlMs);
    for (let atMs = next(); atMs < forMs; atMs += next()) {
      const it = { atMs, forMs: 0, nodes: [node] };
      if (draw() < 0.5) faults.push({ ...it, kind: 'clock rate', rate: 1 + (draw() * 2 - 1) * MOST_RATE });
      else faults.push({ ...it, kind: 'clock step', stepMs: (draw() * 2 - 1) * mostStepMs });
    }
  }
  return faults;
}

function clientFaults({ seed, clients, ttlMs, forMs }: PlanOptions): PlannedFault[] {
  const faults: PlannedFault[] = [];
  const draw = streamOf(seed, 'clients');
  const next = (): number => wholeMs(ttlMs * (0.5 + draw()));
  for (let atMs = next(); atMs < forMs; atMs += next()) {
    const it = { atMs, nodes: [], client: Math.floor(draw() * clients) };
    const stopped = draw() < 0.3 ? 0 : wholeMs(draw() * ttlMs * 1.5);
    faults.push({ ...it, kind: stopped === 0 ? 'client kill' : 'client stop', forMs: stopped });
    atMs += stopped;
  }
  return faults;
}

/** What the lock does not claim to withstand: a majority of the nodes forgets at once, again and again. */
function amnesia({ seed, nodes, ttlMs, forMs }: PlanOptions): PlannedFault[] {
  const faults: PlannedFault[] = [];
  const draw = streamOf(seed, 'amnesia');
  const next = (): number => wholeMs(ttlMs * (0.4 + draw() * 0.4));
  for (let atMs = next(); atMs < forMs; atMs += next()) {
    const order = Array.from({ length: nodes }, (_, node) => ({ node, at: draw() })).sort((a, b) => a.at - b.at);
    const losing = order.slice(0, Math.floor(nodes / 2) + 1).map(({ node }) => node);
    faults.push({ atMs, forMs: 0, kind: 'restart at once', nodes: losing });
  }
  return faults;
}

function wholeMs(ms: number): number {
  return Math.ceil(ms);
}
