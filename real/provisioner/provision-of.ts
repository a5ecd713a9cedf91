import type { Redis, RedisOptions } from 'ioredis';
import type { Clients } from './clients.js';
import { type Provision, ProvisionError, type ProvisionedNode } from './types.js';

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

/**
 * The provision of nodes that are not ours, at these URLs, with the clients made for them.
 *
 * @param connect - Makes a client of the node at a place.
 * @param refusal - The error for a caller that wants to inject a fault into one.
 */
export function provisionOfOthers(
  what: Pick<Provision, 'source' | 'description'>,
  urls: readonly string[],
  clients: Clients,
  connect: (place: number, options: RedisOptions | undefined) => Redis,
  refusal: string,
): Provision {
  const refuse = async (): Promise<never> => {
    throw new ProvisionError(refusal);
  };
  const strikes = { kill: refuse, pause: refuse, resume: refuse, restart: refuse, sync: refuse, cutPower: refuse };
  const stop = async (): Promise<void> => clients.close();
  return {
    ...what,
    faults: false,
    clocks: false,
    nodes: urls.map((url, place) => ({
      name: `n${place}`,
      url,
      client: (options) => connect(place, options),
      ...strikes,
      setClock: refuse,
    })),
    urls,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
