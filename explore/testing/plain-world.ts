import {
  type Answer,
  type Command,
  initialState,
  type LocalTime,
  type LockEvent,
  type LockState,
  localTime,
  members,
  type Timer,
  type Token,
} from '../../core/index.js';
import { hasFencingTokens, lockPolicyOf, type Policy } from '../../deviations/index.js';
import { type CounterState, StandaloneNode, trueTime } from '../../sim/index.js';
import { type Action, ActionKind, partsOf } from '../action.js';
import { type ExploreScope, policyWithin, TICK_US } from '../bounds.js';
import { CALL, EXTEND, PAUSE, RELEASE, RESUME, stepWithin, TIMERS } from '../locks.js';

interface Client {
  readonly lock: LockState;
  readonly nowUs: number;
  readonly timers: ReadonlyMap<Timer, number>;
  readonly paused: boolean;
}

interface Node {
  /** Everything it was told since it last started, and when by its clock; and, of fencing, that it started. */
  readonly heard: readonly Heard[];
  readonly nowMs: number;
  /** When it answers again by its clock; `null` while it does, infinity for never. */
  readonly upAtMs: number | null;
}

/** A command, or the start of another process: with nothing, or with the dump of the start. */
type Heard = { readonly atMs: number } & ({ readonly command: Command } | { readonly restart: 'empty' | 'dump' });

interface Channel {
  readonly requests: readonly Command[];
  readonly replies: readonly { readonly command: Command; readonly answer: Answer; readonly counter: number }[];
}

const KEYS = ['r'];

/**
 * The same world without numbers for states and without memory of steps: the lock with all its fields and clocks that go on
 * from a large reading of their own, nodes that are told again all they ever heard. What the explorer leaves out of its
 * states, it may leave out only if this one cannot be told from it.
 */
export class PlainWorld {
  readonly bounds: ExploreScope;
  readonly policy: Policy;
  readonly clients: readonly Client[];
  readonly nodes: readonly Node[];
  readonly channels: readonly Channel[];

  private constructor(
    bounds: ExploreScope,
    clients: readonly Client[],
    nodes: readonly Node[],
    channels: readonly Channel[],
  ) {
    this.bounds = bounds;
    this.policy = policyWithin(bounds);
    this.clients = clients;
    this.nodes = nodes;
    this.channels = channels;
  }

  static initial(bounds: ExploreScope): PlainWorld {
    const clients = Array.from({ length: bounds.clients }, (_, client) => ({
      lock: initialState(),
      nowUs: (7 + 1000 * client) * TICK_US,
      timers: new Map<Timer, number>(),
      paused: false,
    }));
    const nodes = Array.from({ length: bounds.nodes }, (_, node) => ({ heard: [], nowMs: 50 * node, upAtMs: null }));
    const channels = Array.from({ length: bounds.clients * bounds.nodes }, () => ({ requests: [], replies: [] }));
    return new PlainWorld(bounds, clients, nodes, channels);
  }

  /** What an action leads to. */
  after(action: Action): PlainWorld {
    const { kind, client, node, detail } = partsOf(action);
    switch (kind) {
      case ActionKind.call:
        return this.call(client, detail);
      case ActionKind.timer: {
        const timer = TIMERS[detail];
        if (timer === undefined) throw new RangeError('no such timer');
        return this.fire(client, timer);
      }
      case ActionKind.request:
        return this.request(client, node, detail);
      case ActionKind.reply:
        return this.reply(client, node, detail);
      case ActionKind.loseRequest:
        return this.withChannel(client, node, ({ requests, replies }) => ({
          requests: requests.toSpliced(detail, 1),
          replies,
        }));
      case ActionKind.loseReply:
        return this.withChannel(client, node, ({ requests, replies }) => ({
          requests,
          replies: replies.toSpliced(detail, 1),
        }));
      case ActionKind.crash:
        return this.restart(node, 'empty', this.bounds.restartDelay);
      case ActionKind.rollBack:
        return this.restart(node, 'dump', 0);
      case ActionKind.change:
        throw new RangeError('all clients of a plain world are told of all nodes');
      case ActionKind.tick:
        return this.tick(-1, 1);
      case ActionKind.drift:
        return this.tick(client, detail);
    }
  }

  private call(client: number, event: number): PlainWorld {
    if (event === PAUSE || event === RESUME) {
      return this.with({
        clients: this.clients.map((it, i) => (i === client ? { ...it, paused: event === PAUSE } : it)),
      });
    }
    const now = this.now(client);
    const { nodes, ttl } = this.bounds;
    if (event === CALL)
      return this.step(client, { type: 'acquire', now, nodes, ttlMs: ttl, chance: chance(client, 0) });
    if (event === RELEASE) return this.step(client, { type: 'release', now });
    if (event === EXTEND) return this.step(client, { type: 'extend', now, ttlMs: ttl });
    throw new RangeError('no such call');
  }

  private fire(client: number, timer: Timer): PlainWorld {
    const { lock } = this.client(client);
    const event = {
      type: 'timer',
      now: this.now(client),
      timer,
      chance: chance(client, lock.attempt.number + 1),
    } as const;
    const clients = this.clients.map((it, i) => {
      if (i !== client) return it;
      const timers = new Map(it.timers);
      timers.delete(timer);
      return { ...it, timers };
    });
    return this.with({ clients }).step(client, event);
  }

  private request(client: number, node: number, place: number): PlainWorld {
    const command = this.channel(client, node).requests[place];
    const target = this.nodes[node];
    if (command === undefined || target === undefined) throw new RangeError('no such request');
    const taken = this.withChannel(client, node, (it) => ({ ...it, requests: it.requests.toSpliced(place, 1) }));
    if (target.upAtMs !== null) return taken;
    const heard = [...target.heard, { command, atMs: target.nowMs }];
    const { answer, counter } = replay(this.policy, heard);
    return taken
      .with({ nodes: this.nodes.map((it, i) => (i === node ? { ...it, heard } : it)) })
      .withChannel(client, node, (it) => ({
        ...it,
        replies: [...it.replies, { command, answer, counter: counter.told }],
      }));
  }

  private reply(client: number, node: number, place: number): PlainWorld {
    const reply = this.channel(client, node).replies[place];
    if (reply === undefined) throw new RangeError('no such reply');
    return this.withChannel(client, node, (it) => ({ ...it, replies: it.replies.toSpliced(place, 1) })).step(client, {
      type: 'reply',
      now: this.now(client),
      node,
      ...reply,
    });
  }

  private restart(node: number, restart: 'empty' | 'dump', delay: number | null): PlainWorld {
    const nodes = this.nodes.map((it, i) => {
      if (i !== node) return it;
      const upAtMs = delay === null ? Number.POSITIVE_INFINITY : it.nowMs + delay;
      const heard = [...it.heard, { restart, atMs: it.nowMs }];
      return { heard, nowMs: it.nowMs, upAtMs: delay === 0 ? null : upAtMs };
    });
    return this.with({ nodes });
  }

  private tick(process: number, ticks: number): PlainWorld {
    const by = (i: number): number => (i === process ? ticks : 1);
    const clients = this.clients.map((it, i) => ({ ...it, nowUs: it.nowUs + by(i) * TICK_US }));
    const nodes = this.nodes.map((it, i) => {
      const nowMs = it.nowMs + by(i + this.clients.length);
      return { ...it, nowMs, upAtMs: it.upAtMs !== null && nowMs >= it.upAtMs ? null : it.upAtMs };
    });
    return this.with({ clients, nodes });
  }

  private step(client: number, event: LockEvent): PlainWorld {
    const it = this.client(client);
    const { state, effects } = stepWithin(this.bounds, lockPolicyOf(this.policy), it.lock, event);
    const timers = new Map(it.timers);
    let channels = this.channels;
    for (const effect of effects) {
      if (effect.type === 'arm') timers.set(effect.timer, effect.at);
      else if (effect.type === 'cancel') timers.delete(effect.timer);
      else if (effect.type === 'send') {
        const to = members(effect.to).map((node) => client * this.bounds.nodes + node);
        channels = channels.map((channel, i) =>
          to.includes(i) ? { ...channel, requests: [...channel.requests, effect.command] } : channel,
        );
      }
    }
    return this.with({
      clients: this.clients.map((other, i) => (i === client ? { ...it, lock: state, timers } : other)),
      channels,
    });
  }

  private withChannel(client: number, node: number, change: (channel: Channel) => Channel): PlainWorld {
    const at = client * this.bounds.nodes + node;
    return this.with({ channels: this.channels.map((it, i) => (i === at ? change(it) : it)) });
  }

  private with(parts: {
    readonly clients?: readonly Client[];
    readonly nodes?: readonly Node[];
    readonly channels?: readonly Channel[];
  }): PlainWorld {
    const { clients = this.clients, nodes = this.nodes, channels = this.channels } = parts;
    return new PlainWorld(this.bounds, clients, nodes, channels);
  }

  client(client: number): Client {
    const it = this.clients[client];
    if (it === undefined) throw new RangeError('no such client');
    return it;
  }

  channel(client: number, node: number): Channel {
    return this.channels[client * this.bounds.nodes + node] ?? { requests: [], replies: [] };
  }

  /** Whose key a node stores, and for how many ticks of its clock still; and its fencing counter. */
  stored(node: number): Pick<Replayed, 'key'> & { readonly counter: CounterState } {
    const it = this.nodes[node];
    if (it === undefined) throw new RangeError('no such node');
    const { key, counter } = replay(this.policy, it.heard, it.nowMs);
    return { key, counter: counter.state };
  }

  private now(client: number): LocalTime {
    return localTime(this.client(client).nowUs);
  }
}

function chance(client: number, attempt: number): { readonly token: Token; readonly jitterPpm: number } {
  return { token: `${client}.${attempt}` as Token, jitterPpm: 0 };
}

interface Replayed {
  readonly answer: Answer;
  readonly key: { readonly token: string; readonly left: number } | null;
  readonly counter: StandaloneNode['counter'];
}

function replay(policy: Policy, heard: readonly Heard[], nowMs?: number): Replayed {
  const { rules } = lockPolicyOf(policy);
  const start = (): StandaloneNode => {
    const fresh = new StandaloneNode('at');
    if (hasFencingTokens(policy)) fresh.counter.begin(rules.scripts.counter);
    return fresh;
  };
  let node = start();
  let answer: Answer = 'error';
  for (const it of heard) {
    if ('command' in it) answer = node.execute(policy, it.command, KEYS, it.atMs);
    else {
      const { state } = node.counter;
      node = start();
      node.counter.state = state;
      node.counter.restore(-1, it.restart === 'dump', trueTime(it.atMs * 1000));
    }
  }
  const at = nowMs ?? heard.at(-1)?.atMs ?? 0;
  const key = node.state(KEYS, at)[0] ?? null;
  return { answer, key: key === null ? null : { token: key.token, left: key.ttlMs }, counter: node.counter };
}
