import type { Clients } from './clients.js';
import type { Provision, ProvisionedNode } from './types.js';

/** What a server of ours can do, whatever it runs in. */
type Server = Omit<ProvisionedNode, 'client'>;

/** The provision of servers that were started here, with the clients made for them. */
export function provisionOf(
  what: Pick<Provision, 'source' | 'description' | 'clocks'>,
  servers: readonly Server[],
  clients: Clients,
  stop: () => Promise<void>,
): Provision {
  return {
    ...what,
    faults: true,
    nodes: servers.map((server) => nodeOf(server, clients)),
    urls: servers.map((server) => server.url),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function nodeOf(server: Server, clients: Clients): ProvisionedNode {
  return {
    name: server.name,
    url: server.url,
    client: (options) => clients.make(server.url, options),
    kill: () => server.kill(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    restart: (options) => server.restart(options),
    sync: () => server.sync(),
    cutPower: () => server.cutPower(),
    setClock: (setting) => server.setClock(setting),
  };
}
