import { afterEach, beforeEach, vi } from 'vitest';
import type { Answer, Command, Token } from '../../core/index.js';
import {
  lockPolicyOf,
  type Policy,
  parseDeviation,
  policyOf,
  policyWith,
  policyWithTiming,
} from '../../deviations/index.js';
import { addressText } from '../../scenarios/address.js';
import type { LockLine } from '../../scenarios/history-line.js';
import type { Fate, Fault, Schedule } from '../../scenarios/index.js';
import { StandaloneNode } from '../../sim/index.js';
import { LocalClock, Request } from '../lock/parts.js';
import type { Unfounded } from '../replay/observation.js';
import { ObservationRecorder } from '../replay/observation-recorder.js';
import type { Channel, Sender } from '../replay/proxied-link.js';
import { ReplayClient } from '../replay/replay-client.js';
import { ReplayClock } from '../replay/replay-clock.js';

/** A timer of virtual time. */
interface Due {
  readonly atMs: number;
  /** What was put off until the replies of an instant were read comes last in it. */
  readonly late: boolean;
  readonly order: number;
  readonly what: () => void;
}

let nowMs = 0;
let order = 0;
const due = new Map<object, Due>();

/** A timer as Node's, but exact: not in whole milliseconds, and after nothing at once. */
function plan(afterMs: number, late: boolean, what: () => void): object {
  const handle = { unref: () => handle };
  due.set(handle, { atMs: nowMs + Math.max(0, afterMs), late, order: order++, what });
  return handle;
}

function next(): [object, Due] | undefined {
  return [...due].sort(([, a], [, b]) => a.atMs - b.atMs || Number(a.late) - Number(b.late) || a.order - b.order)[0];
}

function advanceTo(untilMs: number): void {
  for (let it = next(); it !== undefined && it[1].atMs <= untilMs; it = next()) {
    due.delete(it[0]);
    nowMs = it[1].atMs;
    it[1].what();
  }
  nowMs = untilMs;
  due.clear();
}

/** For the tests of a file that call {@link playVirtually}. */
export function useVirtualTime(): void {
  type Callback = (...args: unknown[]) => void;
  beforeEach(() => {
    vi.stubGlobal('setTimeout', (what: Callback, ms = 0, ...args: unknown[]) => plan(ms, false, () => what(...args)));
    vi.stubGlobal('setImmediate', (what: Callback, ...args: unknown[]) => plan(0, true, () => what(...args)));
    vi.stubGlobal('clearTimeout', (handle: object) => due.delete(handle));
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });
}

/** What was seen of a run. */
export interface Played {
  readonly history: readonly LockLine[];
  /** The same, with claims as long as clients were told. */
  readonly told: readonly LockLine[];
  readonly unfounded: readonly Unfounded[];
  /** What clients sent, each as `<ms> <client>/<lock> <operation> <attempt> <round> <node> <token>`. */
  readonly sent: readonly string[];
}

/** Why the virtual stage cannot play this: what strikes nodes and ways is for real ones. */
export function beyondVirtual({ cluster, faults, clients }: Schedule): boolean {
  const own: readonly Fault['kind'][] = ['pause', 'suspend', 'clock-step', 'client-crash', 'reconfigure'];
  const isClient = (name: string): boolean => clients.some(({ id }) => id === name);
  return (
    cluster.clocks.length > 0 ||
    faults.some((fault) => !own.includes(fault.kind) || ('process' in fault && !isClient(fault.process)))
  );
}

/**
 * Plays a schedule with the clients of the stage in virtual time, on simulated nodes: whatever their commands say, they
 * say it in the words that they send to Redis.
 */
export function playVirtually(schedule: Schedule): Played {
  nowMs = 0;
  const policy = policyOf(schedule.policy);
  const clock = new LocalClock({
    monotonicUs: () => performance.now() * 1000,
    wallMs: () => performance.now(),
    bootUs: () => null,
    bootStepUs: 1,
  });
  const clockwork = new ReplayClock(clock);
  const script = new ObservationRecorder(clockwork);
  const nodes = Array.from({ length: schedule.cluster.nodes }, () => new StandaloneNode(schedule.cluster.expiry));
  const sent: string[] = [];
  const actors = schedule.clients.map((plan) => {
    const own = policyWithTiming(policy, plan.timing);
    const ways = nodes.map(
      (node, i) => new VirtualWay({ client: plan.id, node: `n${i}`, server: node }, schedule, own, sent),
    );
    return new ReplayClient(plan, own, ways, clockwork, script);
  });
  clockwork.start();
  for (const fault of schedule.faults) clockwork.at(fault.atUs, () => strike(fault, actors, clockwork));
  for (const actor of actors) actor.begin();
  advanceTo(schedule.untilUs / 1000);
  for (const actor of actors) actor.dismiss();
  clockwork.stop();
  return { history: script.history, told: script.told, unfounded: script.unfounded, sent };
}

function strike(fault: Fault, actors: readonly ReplayClient[], clockwork: ReplayClock): void {
  const named = (name: string): ReplayClient | undefined => actors.find(({ plan }) => plan.id === name);
  if (fault.kind === 'client-crash') named(fault.client)?.crash();
  else if (fault.kind === 'reconfigure') named(fault.client)?.reconfigure(fault.nodes);
  else if (fault.kind === 'clock-step') named(fault.process)?.setBack(-fault.byUs);
  else if (fault.kind === 'pause' || fault.kind === 'suspend') {
    const actor = named(fault.process);
    if (fault.kind === 'suspend') actor?.suspend(fault.forUs, fault.stops);
    actor?.freeze();
    clockwork.at(fault.atUs + fault.forUs, () => actor?.thaw(fault.kind === 'pause' ? fault.first : undefined));
  }
}

/** Whose way it is, and where to. */
interface Place {
  readonly client: string;
  readonly node: string;
  readonly server: StandaloneNode;
}

/** A way without sockets. */
class VirtualWay implements Channel {
  readonly node: string;
  readonly #client: string;
  readonly #server: StandaloneNode;
  readonly #schedule: Schedule;
  readonly #policy: Policy;
  readonly #fates: ReadonlyMap<string, Fate>;
  readonly #delayUs: number;
  readonly #sends = new Map<string, number>();
  readonly #tokens: Map<string, number>;
  #lastMs = { request: 0, reply: 0 };

  readonly #sent: string[];

  constructor(place: Place, schedule: Schedule, policy: Policy, sent: string[]) {
    const { client, node, server } = place;
    this.#sent = sent;
    this.node = node;
    this.#client = client;
    this.#server = server;
    this.#schedule = schedule;
    this.#policy = policy;
    this.#tokens = tokensOf(server);
    this.#fates = new Map(schedule.fates.map((fate) => [addressText(fate), fate]));
    const { distances, delayUs } = schedule.cluster;
    this.#delayUs = distances.find((it) => it.client === client && it.node === node)?.delayUs ?? delayUs;
  }

  cut(): void {}

  heal(): void {}

  send(asked: Request, lock: number, sender: Sender): void {
    const { command } = asked;
    const { operation, attempt, round } = command;
    const words = wordsOf(asked);
    const base = { client: this.#client, lock, attempt, operation, round, node: this.node };
    const name = addressText({ ...base, direction: 'request' });
    const send = this.#sends.get(name) ?? 0;
    this.#sends.set(name, send + 1);
    this.#sent.push(
      `${Math.round(nowMs)} ${this.#client}/${lock} ${operation} ${attempt} ${round} ${this.node} ${readWords(words).token}`,
    );
    const request = this.#fates.get(addressText({ ...base, direction: 'request', send }));
    const reply = this.#fates.get(addressText({ ...base, direction: 'reply', send: 2 * send }));
    let state: 'open' | 'answered' | 'broken' = 'open';
    const answered = (answer: Answer): void => {
      if (state === 'broken') return;
      state = 'answered';
      sender.onReply({ answer, counter: 0 });
    };
    const arrive = (): void => {
      const answer = this.#execute(words, command);
      if (reply?.lost !== true) this.#after('reply', reply?.delayUs, () => sender.wake(() => answered(answer)));
    };
    if (request?.lost !== true) this.#after('request', request?.delayUs, arrive);
    if (request?.duplicateDelayUs !== undefined)
      this.#after('request', request.duplicateDelayUs, () => void this.#execute(words, command));
    if (request?.resendAfterUs === undefined) return;
    setTimeout(() => {
      sender.wake(() => {
        if (state !== 'open') return;
        state = 'broken';
        this.#lastMs = { request: 0, reply: 0 };
        this.send(asked, lock, sender);
      });
    }, request.resendAfterUs / 1000);
  }

  #after(direction: 'request' | 'reply', delayUs: number = this.#delayUs, what: () => void): void {
    const now = performance.now();
    const at = now + delayUs / 1000;
    const atMs = this.#schedule.cluster.link === 'fifo' ? Math.max(at, this.#lastMs[direction]) : at;
    this.#lastMs[direction] = atMs;
    setTimeout(what, atMs - now);
  }

  /** Does what the words say, which has to be what the command means. */
  #execute(words: readonly string[], command: Command): Answer {
    const { keys, token, ttlMs } = readWords(words);
    const number = this.#tokens.get(token) ?? this.#tokens.size + 1;
    this.#tokens.set(token, number);
    // What the words say of a life is said already.
    const deviations = this.#policy.deviations.filter((it) => parseDeviation(it).deviation.rule !== 'keyLife');
    const policy = policyWith({ deviations }, this.#policy);
    const said: Command = { ...command, token: token as Token, ttlMs };
    const meant = wordsOf(new Request(said, keys, lockPolicyOf(policy).rules)).join(' ');
    if (meant !== words.join(' ')) throw new Error(`said ${words.join(' ')}, meant ${meant}`);
    return this.#server.execute(policy, { ...command, token: number as unknown as Token, ttlMs }, keys, nowMs);
  }
}

const TOKENS = new WeakMap<StandaloneNode, Map<string, number>>();

function tokensOf(server: StandaloneNode): Map<string, number> {
  const known = TOKENS.get(server) ?? new Map<string, number>();
  TOKENS.set(server, known);
  return known;
}

function wordsOf({ inFull: { name, args } }: Request): string[] {
  return [name, ...args];
}

function readWords(words: readonly string[]): { keys: string[]; token: string; ttlMs: number } {
  if (words[0] === 'set') return { keys: [String(words[1])], token: String(words[2]), ttlMs: Number(words[4]) };
  const count = Number(words[2]);
  const keys = words.slice(3, 3 + count).map(String);
  return { keys, token: String(words[3 + count]), ttlMs: Number(words[4 + count] ?? 0) };
}
