import { Redis, type RedisOptions } from 'ioredis';
import { type Provision, type ProvisionedNode, provision, type Source } from '../provisioner/index.js';
import { NodeProxy } from '../proxy/index.js';
import type { Health } from './types.js';

const SLOW_MS = 50;

type Harm = 'killed' | 'stopped' | 'slow';
const HARMS: Readonly<Record<Health, readonly [number, Harm] | null>> = {
  healthy: null,
  'one-killed': [1, 'killed'],
  'two-killed': [2, 'killed'],
  'one-stopped': [1, 'stopped'],
  'two-stopped': [2, 'stopped'],
  'one-slow': [1, 'slow'],
  'two-slow': [2, 'slow'],
  'three-stopped': [3, 'stopped'],
};

/** Nodes that can be harmed, with the clients that lead to them. */
export class BenchCluster implements AsyncDisposable {
  readonly provision: Provision;
  readonly #clients: Redis[] = [];
  readonly #proxies: NodeProxy[] = [];

  private constructor(provided: Provision) {
    this.provision = provided;
  }

  /** Of `sources`, if not of any. */
  static async start(nodes: number, sources?: readonly Source[]): Promise<BenchCluster> {
    return new BenchCluster(await provision({ nodes, ...(sources === undefined ? {} : { sources }) }));
  }

  /** Where the nodes are, without the proxies. */
  get urls(): readonly string[] {
    return this.provision.nodes.map(({ url }) => url);
  }

  /** Slows down nodes that are to be slow: before clients are made. */
  async prepare(health: Health): Promise<void> {
    const harm = HARMS[health];
    if (harm?.[1] === 'slow') await this.slow(harm[0], SLOW_MS);
  }

  /** Puts proxies before the last `count` nodes, which hold requests back for `slowMs`: before clients are made. */
  async slow(count: number, slowMs: number): Promise<void> {
    for (const { url } of this.provision.nodes.slice(this.provision.nodes.length - count)) {
      const { hostname: host, port } = new URL(url);
      const proxy = await NodeProxy.open({ host, port: Number(port) });
      proxy.delay(slowMs, 0);
      this.#proxies.push(proxy);
    }
  }

  /** New clients of ioredis's default options, but for those given. */
  makeClients(options: RedisOptions = {}): Redis[] {
    const { nodes } = this.provision;
    const direct = nodes.slice(0, nodes.length - this.#proxies.length);
    const clients = [
      ...direct.map((node) => node.client(options)),
      ...this.#proxies.map(({ url }) => new Redis(url, { disconnectTimeout: 1, ...options }).on('error', () => {})),
    ];
    this.#clients.push(...clients);
    return clients;
  }

  /** Kills or stops nodes, once their clients are connected. */
  async harm(health: Health): Promise<void> {
    const harm = HARMS[health]?.[1];
    if (harm === 'killed') await Promise.all(this.#victims(health).map((node) => node.kill()));
    if (harm === 'stopped') await Promise.all(this.#victims(health).map((node) => node.pause()));
  }

  /** Undoes {@link BenchCluster.harm}. */
  async mend(health: Health): Promise<void> {
    const harm = HARMS[health]?.[1];
    if (harm === 'killed') await Promise.all(this.#victims(health).map((node) => node.restart({ keepData: false })));
    if (harm === 'stopped') await Promise.all(this.#victims(health).map((node) => node.resume()));
  }

  /** Closes the clients and makes the nodes well again. */
  async heal(health: Health): Promise<void> {
    for (const client of this.#clients.splice(0)) {
      client.disconnect();
      client.stream?.destroy();
    }
    await this.mend(health);
    await Promise.all(this.#proxies.splice(0).map((proxy) => proxy.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.heal('healthy');
    await this.provision.stop();
  }

  #victims(health: Health): readonly ProvisionedNode[] {
    const count = HARMS[health]?.[0] ?? 0;
    return count === 0 ? [] : this.provision.nodes.slice(-count);
  }
}
