import { createConnection } from 'node:net';
import type { Redis } from 'ioredis';
import type { ProvisionedNode } from '../provisioner/index.js';
import type { Interval } from './observation.js';
import type { ReplayClient } from './replay-client.js';
import type { ReplayClock } from './replay-clock.js';
import { Span } from './span.js';

const LOOK_EVERY_MS = 20;

/** A node that is watched, through a connection that goes through no proxy. */
export interface PolledNode {
  readonly node: ProvisionedNode;
  readonly admin: Redis;
}

/** What one look at a node found: whether it lets itself be connected to, and the tokens it has, by key. */
interface Look {
  readonly up: boolean;
  readonly tokens: readonly (string | null)[];
}

/** Looks at all nodes again and again, as somebody beside the clients can. */
export class NodePoller {
  /** When fewer nodes than a quorum could be connected to. */
  readonly down: Interval[] = [];
  /** When too few nodes were free of keys that nobody has any use for, and nobody held the lock. */
  readonly blocked: Interval[] = [];
  /** Locks whose holder believed while fewer nodes than a quorum had its token, at two looks in a row. */
  readonly unsupported: Set<string> = new Set();
  /** How long the slowest connection took, µs: on the loopback, that is the machine being busy. */
  slowestUs = 0;
  /** By how much all looks together came or ended late, µs. */
  #lateUs = 0;
  readonly #watched: readonly PolledNode[];
  readonly #actors: readonly ReplayClient[];
  readonly #clockwork: ReplayClock;
  readonly #quorum: number;
  readonly #graceUs: number;
  readonly #keys: readonly string[];
  readonly #last: (readonly (string | null)[])[] = [];
  readonly #downSpan = new Span();
  readonly #blockedSpans: readonly Span[];
  #doubted = new Set<string>();
  #looking: NodeJS.Timeout | undefined;
  #busy = false;

  /** `graceUs` is how long keys may be in the way before it counts: a release takes its time. */
  constructor(
    watched: readonly PolledNode[],
    actors: readonly ReplayClient[],
    clockwork: ReplayClock,
    { quorum, graceUs }: { readonly quorum: number; readonly graceUs: number },
  ) {
    this.#watched = watched;
    this.#actors = actors;
    this.#clockwork = clockwork;
    this.#quorum = quorum;
    // What is seen by looks is seen late.
    this.#graceUs = graceUs + 3 * LOOK_EVERY_MS * 1000;
    this.#keys = [
      ...new Set(actors.flatMap((actor) => actor.keysOf(actor.plan.locks.flatMap((lock) => lock.resources)))),
    ];
    this.#blockedSpans = this.#keys.map(() => new Span());
  }

  begin(): void {
    let due = performance.now() + LOOK_EVERY_MS;
    this.#looking = setInterval(() => {
      const lateUs = Math.round((performance.now() - due) * 1000);
      // Whatever else was due meanwhile is as late: answers among it.
      this.#clockwork.wasLate(lateUs);
      this.#lateUs += Math.max(0, lateUs);
      due = performance.now() + LOOK_EVERY_MS;
      void this.#look();
    }, LOOK_EVERY_MS);
  }

  end(): void {
    clearInterval(this.#looking);
    const nowUs = this.#clockwork.nowUs();
    this.#downSpan.see(false, { nowUs, lateUs: 0 }, 0, this.down);
    for (const span of this.#blockedSpans)
      span.see(false, { nowUs, lateUs: this.#lateUs }, this.#graceUs, this.blocked);
  }

  async #look(): Promise<void> {
    // A look that takes long is one look.
    if (this.#busy) return;
    this.#busy = true;
    const begun = performance.now();
    const looks = await Promise.all(this.#watched.map((watched, i) => this.#lookAt(watched, i)));
    this.#busy = false;
    this.#lateUs += Math.max(0, Math.round((performance.now() - begun - LOOK_EVERY_MS) * 1000));
    const nowUs = this.#clockwork.nowUs();
    const up = looks.filter((look) => look.up).length;
    this.#downSpan.see(up < this.#quorum, { nowUs, lateUs: 0 }, 0, this.down);
    for (const [i, key] of this.#keys.entries()) {
      const used = new Set(this.#actors.flatMap((actor) => actor.tokensInUse(key)));
      const free = looks.filter((look) => look.up && (look.tokens[i] == null || used.has(look.tokens[i]))).length;
      const held = this.#actors.some((actor) => actor.holders(key).length > 0);
      const blocked = up >= this.#quorum && free < this.#quorum && !held;
      this.#blockedSpans[i]?.see(blocked, { nowUs, lateUs: this.#lateUs }, this.#graceUs, this.blocked);
    }
    if (up === this.#watched.length) this.#checkSupport(looks);
  }

  #checkSupport(looks: readonly Look[]): void {
    const doubted = new Set<string>();
    for (const [i, key] of this.#keys.entries()) {
      for (const { lock, token } of this.#actors.flatMap((actor) => actor.holders(key))) {
        if (looks.filter((look) => look.tokens[i] === token).length >= this.#quorum) continue;
        if (this.#doubted.has(lock)) this.unsupported.add(lock);
        doubted.add(lock);
      }
    }
    this.#doubted = doubted;
  }

  async #lookAt({ node, admin }: PolledNode, i: number): Promise<Look> {
    // A stopped node still lets itself be connected to, a dead one does not.
    const begun = performance.now();
    const up = await connects(node.url);
    this.slowestUs = Math.max(this.slowestUs, Math.round((performance.now() - begun) * 1000));
    if (!up || admin.status !== 'ready') {
      this.#last[i] = [];
      return { up, tokens: [] };
    }
    const asked = admin.mget(...this.#keys).then(
      (tokens) => {
        this.#last[i] = tokens;
      },
      () => {},
    );
    // One that does not answer has what it had.
    await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))]);
    return { up, tokens: this.#last[i] ?? [] };
  }
}

function connects(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const { hostname: host, port } = new URL(url);
    const socket = createConnection({ host, port: Number(port) });
    const end = (up: boolean) => {
      socket.destroy();
      resolve(up);
    };
    socket.once('connect', () => end(true));
    socket.once('error', () => end(false));
  });
}
