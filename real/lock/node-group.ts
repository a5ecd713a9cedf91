import { MOST_NODES, SOUND } from '../../core/index.js';
import { clientShapeError } from './client-shape.js';
import type { Clock } from './clock.js';
import type { AnyClient } from './connection.js';
import { configError } from './errors.js';
import type { FirstLook } from './first-look.js';
import { LockNode, type NodeOwner } from './node.js';
import { Pacer } from './pacer.js';
import { WaitingQueue } from './queue.js';
import { restAddressOf } from './rest.js';
import type { Watch } from './watch.js';

/** Name look-ups and encryption make a first connection slow, ms. */
const FIRST_CONNECT_MS = 1000;
/** Where a Sentinel listens if its address does not say. */
const SENTINEL_PORT = 26_379;

/** The nodes that vote on locks, in the order of the clients. */
export class NodeGroup implements NodeOwner {
  readonly nodes: readonly LockNode[];
  readonly pacer: Pacer = new Pacer();
  readonly queue: WaitingQueue = new WaitingQueue();
  /** Who is told what happens to their locks. */
  readonly watch: Watch;
  /** Why there can be no locks: nodes that are one, or of which no lock can be made, as their first connections showed. */
  fault: string | null = null;
  readonly #onError: (error: Error, node: LockNode) => void;
  readonly #objections = new Map<LockNode, string>();
  #warm = false;
  #firstConnect: Promise<void> | undefined;

  /** Connects to the nodes of clients that {@link checkClients} has passed. */
  constructor(
    clients: readonly AnyClient[],
    clock: Clock,
    watch: Watch,
    onError: (error: Error, node: LockNode) => void,
  ) {
    this.watch = watch;
    this.#onError = onError;
    this.nodes = clients.map((client, index) => new LockNode(index, client, clock, this));
    for (const node of this.nodes) node.open();
  }

  onNodeError(error: Error, node: LockNode): void {
    this.#onError(error, node);
  }

  /**
   * A node that turns out to be no node of its own has no vote. If it was so from the start there are no locks at all;
   * what only came to be so, as by a failover, is one that fails.
   */
  objectionTo(node: LockNode, { servers, fault }: FirstLook): string | null {
    const other = this.nodes.find((it) => it !== node && it.leadsTo(servers));
    const objection =
      other !== undefined
        ? `n${Math.min(node.index, other.index)} and n${Math.max(node.index, other.index)} are the same server: it would vote twice.`
        : fault === null
          ? null
          : `The client of n${node.index} makes no lock: ${fault}.`;
    if (objection === null) this.#objections.delete(node);
    else if (node.connecting) this.#objections.set(node, objection);
    [this.fault = null] = this.#objections.values();
    return objection;
  }

  /**
   * Waits for connections that are being made for the first time, so that a lock asked for right after start-up is not
   * refused for want of nodes: for all of them until `withinMs` have passed, then for a quorum until
   * {@link FIRST_CONNECT_MS}. Later callers wait with the first. Returns `undefined` if there is no need.
   */
  whenConnected(withinMs: number): Promise<void> | undefined {
    if (this.#warm) return undefined;
    this.#firstConnect ??= this.#waitForFirst(withinMs);
    return this.#firstConnect;
  }

  #waitForFirst(withinMs: number): Promise<void> | undefined {
    const connecting = this.nodes.filter((node) => node.connecting);
    if (connecting.length === 0) {
      this.#warm = true;
      return undefined;
    }
    return new Promise((resolve) => {
      let late = false;
      const done = () => {
        // A node that takes longer than this is treated like any other that is away.
        this.#warm = true;
        clearTimeout(timer);
        resolve();
      };
      const check = () => {
        const ready = this.nodes.filter((node) => node.ready).length;
        const enough = late && ready >= SOUND.quorum(this.nodes.length, 'acquire');
        if (enough || !this.nodes.some((node) => node.connecting)) done();
      };
      let timer = setTimeout(() => {
        late = true;
        timer = setTimeout(done, Math.max(0, FIRST_CONNECT_MS - withinMs));
        check();
      }, withinMs);
      for (const node of connecting) node.whenConnected(check);
    });
  }

  /** Has all that waits for its turn sent, and closes the nodes: see {@link LockNode.close}. */
  async close(withinMs: number): Promise<void> {
    await this.pacer.whenDrained();
    await Promise.all(this.nodes.map((node) => node.close(withinMs)));
  }
}

/** @throws LockError `ERR_LOCK_CONFIG` for no nodes, too many, two that are one, or what is no client of one node. */
export function checkClients(clients: Iterable<AnyClient>): AnyClient[] {
  const list = typeof clients?.[Symbol.iterator] === 'function' ? [...clients] : [];
  if (list.length === 0) throw configError('Redlock needs at least one client, one for each independent Redis node.');
  if (list.length > MOST_NODES) throw configError(`Redlock takes at most ${MOST_NODES} nodes, not ${list.length}.`);
  const seen = new Map<unknown, number>();
  for (const [index, client] of list.entries()) {
    const wrong = clientShapeError(client);
    if (wrong !== null) throw configError(`The client of n${index} is ${wrong}.`);
    const address = addressOf(client);
    const earlier = seen.get(client) ?? (address === undefined ? undefined : seen.get(address));
    if (earlier !== undefined) {
      throw configError(
        `n${earlier} and n${index} are the same server${address === undefined ? '' : `, ${address}`}: it would vote twice.`,
      );
    }
    seen.set(client, index);
    if (address !== undefined) seen.set(address, index);
  }
  return list;
}

interface AddressOptions {
  readonly socket?: AddressOptions;
  readonly host?: unknown;
  readonly port?: unknown;
  readonly path?: unknown;
  readonly sentinels?: unknown;
  readonly name?: unknown;
}

/** The server that a client leads to, whichever of its databases; `undefined` if it does not tell. */
function addressOf(client: AnyClient): string | undefined {
  if (typeof client === 'string') {
    const { hostname, port } = new URL(client);
    return placeOf({ host: hostname, port });
  }
  const rest = restAddressOf(client);
  if (rest !== null) return new URL(rest.url).host;
  const given: AddressOptions | undefined = 'options' in client ? client.options : undefined;
  // Clusters of several addresses can share one: it cannot be told from here whether they are one.
  if (given === undefined || ('isCluster' in client && client.isCluster === true)) return undefined;
  // node-redis has its address among the options of the socket.
  const options = given.socket ?? given;
  if (options.path) return String(options.path);
  // Of each only its place: they may have passwords.
  if (Array.isArray(options.sentinels)) {
    const places = options.sentinels.map((it: AddressOptions | null) => `${it?.host}:${it?.port ?? SENTINEL_PORT}`);
    return `${places.join(' ')} ${options.name}`;
  }
  return placeOf(options);
}

function placeOf({ host, port }: AddressOptions): string {
  return `${host === undefined || host === 'localhost' ? '127.0.0.1' : host}:${port || 6379}`;
}

const warnedOf = new Set<number>();

/**
 * Once for each number of nodes in a process: it is a matter of deployment, not of one object. In a simulation nobody has
 * chosen it.
 */
export function warnOfEvenNumber(nodes: number): void {
  if (nodes % 2 !== 0 || warnedOf.has(nodes)) return;
  warnedOf.add(nodes);
  const tolerated = nodes - SOUND.quorum(nodes, 'acquire');
  process.emitWarning(
    `${nodes} nodes tolerate the failure of ${tolerated}, no more than ${nodes - 1} would: an odd number is better.`,
    { type: 'LockstepWarning', code: 'LOCKSTEP_EVEN_NODES' },
  );
}
