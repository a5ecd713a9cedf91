import { expect } from 'vitest';
import { type Command, type LockState, localTime } from '../../core/index.js';
import type { CounterState } from '../../sim/index.js';
import type { Action } from '../action.js';
import { type ExploreScope, TICK_US } from '../bounds.js';
import { canonicalLock, lockKey } from '../canonical-lock.js';
import { TIMERS, UNARMED } from '../locks.js';
import { StateModel } from '../world.js';
import { PlainWorld } from './plain-world.js';

/** What can be told of a state, in words that both worlds share. */
function told(world: StateModel, state: Uint16Array): string {
  const { clients, nodes } = world.bounds;
  const parts: string[] = [];
  for (let client = 0; client < clients; client++) {
    const { lock, timers, paused } = world.locks.at(state[client] ?? 0);
    parts.push(`${lockKey(lock)} ${timers.map((at) => (at === UNARMED ? '-' : at)).join()} ${paused}`);
  }
  for (let node = 0; node < nodes; node++) {
    const id = state[world.firstNode + node] ?? 0;
    const { left, down, counter } = world.nodes.at(id);
    const owner = world.nodes.ownerOf(id);
    parts.push(
      `${owner === null ? '-' : `${owner.client}.${owner.token - 1}`} ${left} ${down !== 0} ${counterText(counter)}`,
    );
  }
  for (let client = 0; client < clients; client++) {
    for (let node = 0; node < nodes; node++) {
      const { requests, replies } = world.links.at(state[world.linkAt(client, node)] ?? 0);
      const answers = replies.map((id) => {
        const { command, answer, counter } = world.commands.reply(id);
        return `${nameOf(world.commands.at(command))} ${answer} ${counter}`;
      });
      parts.push([...requests.map((id) => nameOf(world.commands.at(id))), '|', ...answers].join(';'));
    }
  }
  return parts.join('\n');
}

function counterText({ value, joining, marks }: CounterState): string {
  return `${value} ${joining} ${marks}`;
}

function nameOf({ operation, attempt, round, counter, mark }: Command): string {
  return `${operation} ${attempt} ${round} ${counter} ${mark}`;
}

function toldPlain(world: PlainWorld): string {
  const { bounds, policy } = world;
  const parts: string[] = [];
  for (const { lock, nowUs, timers, paused } of world.clients) {
    const since = (at: number) => localTime(at - nowUs);
    // Tokens have other names there: that of the client's n-th attempt is n + 1 here.
    const token = lock.attempt.token === null ? null : Number(String(lock.attempt.token).split('.')[1]) + 1;
    const local = {
      ...lock,
      calledAt: since(lock.calledAt),
      attempt: { ...lock.attempt, token, startedAt: since(lock.attempt.startedAt) },
      hold: { ...lock.hold, deadline: since(lock.hold.deadline) },
      extension: { ...lock.extension, startedAt: since(lock.extension.startedAt) },
    } as LockState;
    const due = TIMERS.map((timer) => timers.get(timer)).map((at) =>
      at === undefined ? '-' : Math.max(0, (at - nowUs) / TICK_US),
    );
    parts.push(`${lockKey(canonicalLock(policy, bounds, local))} ${due.join()} ${paused}`);
  }
  for (const [node, { upAtMs }] of world.nodes.entries()) {
    const { key, counter } = world.stored(node);
    parts.push(`${key?.token ?? '-'} ${key?.left ?? 0} ${upAtMs !== null} ${counterText(counter)}`);
  }
  for (const { requests, replies } of world.channels) {
    const answers = replies.map((it) => `${nameOf(it.command)} ${it.answer} ${it.counter}`);
    parts.push([...requests.map(nameOf), '|', ...answers].join(';'));
  }
  return parts.join('\n');
}

/** Plays every transition of a space both ways. How many there were. */
export function playBothWays(bounds: ExploreScope): number {
  const world = new StateModel(bounds, 'none', false);
  const first = world.initial();
  const met = new Set([first.join()]);
  const waiting: { readonly state: Uint16Array; readonly plain: PlainWorld }[] = [
    { state: first, plain: PlainWorld.initial(bounds) },
  ];
  let transitions = 0;
  for (let here = waiting.pop(); here !== undefined; here = waiting.pop()) {
    const successors: { readonly action: Action; readonly state: Uint16Array }[] = [];
    world.successors(here.state, (action) => successors.push({ action, state: Uint16Array.from(world.next) }));
    for (const { action, state } of successors) {
      const plain = here.plain.after(action);
      transitions++;
      const expected = toldPlain(plain);
      if (told(world, state) !== expected) expect(told(world, state)).toBe(expected);
      const key = state.join();
      if (met.has(key)) continue;
      met.add(key);
      waiting.push({ state, plain });
    }
  }
  return transitions;
}
