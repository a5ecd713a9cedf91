import { setTimeout as sleep } from 'node:timers/promises';
import type { ProvisionedNode } from '../provisioner/index.js';
import type { NodeProxy } from '../proxy/index.js';
import type { Crew } from './crew.js';
import type { Torment } from './types.js';

/** A node, with the ways to it of each side of the clients. */
export interface Place {
  readonly node: ProvisionedNode;
  readonly ways: readonly NodeProxy[];
}

/** Whom a storm of faults befalls. */
export interface StormOptions {
  readonly places: readonly Place[];
  readonly crew: Crew;
  readonly clients: number;
  readonly ttlMs: number;
  /** Whether the clocks of nodes can be skewed. */
  readonly clocks: boolean;
  /** Ends the storm. */
  readonly signal: AbortSignal;
}

/** Nodes that are troubled at one time, most of the time: as many as leave a quorum. */
const USUAL_TROUBLES = 2;
/** How often one more may be: then nobody can acquire, and nobody may be stuck for it. */
const ONE_MORE = 0.1;
/** Rates of clocks stay within this, and steps within a quarter of the drift allowance: together well below it. */
const MOST_RATE = 0.003;

/** Throws everything at nodes, ways and clients that the lock claims to withstand, and counts what it throws. */
export class Storm {
  readonly #options: StormOptions;
  readonly #faults: Partial<Record<Torment, number>> = {};
  #troubled = 0;

  constructor(options: StormOptions) {
    this.#options = options;
  }

  get faults(): Readonly<Partial<Record<Torment, number>>> {
    return this.#faults;
  }

  get count(): number {
    return Object.values(this.#faults).reduce((sum, count) => sum + count, 0);
  }

  /** Rages until the signal aborts, and leaves nodes, ways and clients well. */
  async rage(): Promise<void> {
    const { places, clients, clocks } = this.#options;
    const clientPlaces = Array.from({ length: clients }, (_, place) => place);
    await Promise.all([
      ...places.map((place) => this.#trouble(place)),
      ...(clocks ? places.map(({ node }) => this.#skew(node)) : []),
      this.#molest(clientPlaces),
    ]);
  }

  /** What the lock does not claim to withstand: a majority of the nodes forgets at once, again and again. */
  async amnesia(): Promise<void> {
    const { places, ttlMs } = this.#options;
    const forgetful = Math.floor(places.length / 2) + 1;
    while (await this.#wait(ttlMs * (0.4 + Math.random() * 0.4))) {
      const chosen = shuffled(places).slice(0, forgetful);
      await Promise.all(
        chosen.map(async ({ node }) => {
          this.#note('restart at once');
          await node.restart({ keepData: false });
        }),
      );
    }
  }

  async #trouble(place: Place): Promise<void> {
    const { ttlMs } = this.#options;
    while (await this.#wait(50 + Math.random() * ttlMs)) {
      const most = Math.random() < ONE_MORE ? USUAL_TROUBLES + 1 : USUAL_TROUBLES;
      if (this.#troubled >= most) continue;
      this.#troubled++;
      try {
        await this.#strike(place);
      } finally {
        this.#troubled--;
      }
    }
  }

  async #strike({ node, ways }: Place): Promise<void> {
    const { ttlMs } = this.#options;
    const kind = Math.random();
    const forMs = 20 + Math.random() * ttlMs;
    if (kind < 0.25) {
      this.#note('kill');
      await node.kill();
      // The delay is kept even if the storm ends: whoever holds a lock still counts on it.
      await sleep(ttlMs * 1.02 + 20);
      await node.restart({ keepData: false });
    } else if (kind < 0.45) {
      this.#note('stop');
      await node.pause();
      await this.#wait(forMs * 1.5);
      await node.resume();
    } else if (kind < 0.8) {
      // One side of the clients, or all of them.
      const all = Math.random() < 0.4;
      const hit = all ? ways : [ways[Math.floor(Math.random() * ways.length)]];
      await this.#spoil(
        hit.flatMap((way) => way ?? []),
        forMs,
      );
    } else if (kind < 0.9) {
      this.#note('delay');
      for (const way of ways) way.delay(Math.random() * 60, Math.random() * 60);
      await this.#wait(forMs);
      for (const way of ways) way.delay(0);
    } else {
      const open = Math.random() < 0.5;
      this.#note(open ? 'half-open' : 'cut');
      for (const way of ways) open ? way.halfOpen() : way.cut();
      // Who does not hear is found out by nobody but the one who asks.
      if (open) await this.#wait(forMs);
      if (open) for (const way of ways) way.cut();
    }
  }

  async #spoil(ways: readonly NodeProxy[], forMs: number): Promise<void> {
    const kind = Math.random();
    const what = kind < 0.33 ? 'requests' : kind < 0.66 ? 'replies' : 'both';
    this.#note(`lose ${what}`);
    for (const way of ways) way.drop(what);
    await this.#wait(forMs);
    for (const way of ways) way.drop('nothing');
  }

  /** Skews a clock within what the drift allowance covers together: another rate now and then, and small steps. */
  async #skew(node: ProvisionedNode): Promise<void> {
    const { ttlMs } = this.#options;
    const mostStepMs = (0.01 * ttlMs + 2) / 4;
    let aheadMs = 0;
    let rate = 1;
    let since = performance.now();
    // One change within the life of a key at most: what a claim meets adds up.
    while (await this.#wait(ttlMs * (1.2 + Math.random()))) {
      const now = performance.now();
      aheadMs += (rate - 1) * (now - since);
      since = now;
      if (Math.random() < 0.5) {
        this.#note('clock rate');
        rate = 1 + (Math.random() * 2 - 1) * MOST_RATE;
      } else {
        this.#note('clock step');
        aheadMs += (Math.random() * 2 - 1) * mostStepMs;
      }
      await node.setClock({ aheadMs, rate });
    }
  }

  async #molest(places: readonly number[]): Promise<void> {
    const { crew, ttlMs } = this.#options;
    while (await this.#wait(ttlMs * (0.5 + Math.random()))) {
      const place = places[Math.floor(Math.random() * places.length)] ?? 0;
      if (Math.random() < 0.3) {
        this.#note('client kill');
        crew.replace(place);
        continue;
      }
      this.#note('client stop');
      crew.pause(place);
      await this.#wait(Math.random() * ttlMs * 1.5);
      crew.resume(place);
    }
  }

  #note(torment: Torment): void {
    this.#faults[torment] = (this.#faults[torment] ?? 0) + 1;
  }

  /** Waits, and says whether the storm goes on. */
  async #wait(ms: number): Promise<boolean> {
    const { signal } = this.#options;
    try {
      await sleep(ms, undefined, { signal });
      return true;
    } catch {
      return false;
    }
  }
}

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((item) => ({ item, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item);
}
