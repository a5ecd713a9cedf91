import { loadLua, type Served, Server, serve } from '../../wire/index.js';

/** Simulated servers of one edition on real ports. What they are sent is noted, and may be held back. */
export class DialectServers implements AsyncDisposable {
  readonly urls: readonly string[];
  readonly servers: readonly Server[];
  /** The commands that all of them were sent, in capitals, without arguments. */
  readonly sent: string[];
  readonly #served: readonly Served[];

  private constructor(servers: readonly Server[], served: readonly Served[], sent: string[]) {
    this.servers = servers;
    this.sent = sent;
    this.#served = served;
    this.urls = served.map(({ port }) => `redis://127.0.0.1:${port}`);
  }

  /** @param edition - Such as `valkey 9.0`. @param ports - To take; any if left out. */
  static async start(edition: string, count: number, ports: readonly number[] = []): Promise<DialectServers> {
    await loadLua();
    const [flavour, version = ''] = edition.split(' ');
    const sent: string[] = [];
    const servers = Array.from({ length: count }, () => {
      const server = new Server({
        now: () => Math.round((performance.timeOrigin + performance.now()) * 1000),
        random: Math.random,
        edition: { flavour: flavour === 'valkey' ? 'valkey' : 'redis', version },
      });
      server.allows = (name) => {
        sent.push(name.toUpperCase());
        return true;
      };
      return server;
    });
    const served = await Promise.all(servers.map((server, index) => serve(server, ports[index])));
    return new DialectServers(servers, served, sent);
  }

  get ports(): readonly number[] {
    return this.#served.map(({ port }) => port);
  }

  /** Has every server refuse a command as one that it does not know. */
  refuse(name: string): void {
    for (const server of this.servers) server.allows = (it) => it !== name;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#served.map((it) => it[Symbol.asyncDispose]()));
  }
}
