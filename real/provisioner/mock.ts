import type { Redis } from 'ioredis';
import { Clients } from './clients.js';
import { type Provision, ProvisionError, type ProvisionedNode } from './types.js';

interface MockConstructor {
  new (options: object): Redis;
}

let provisions = 0;

/** ioredis-mock as nodes, or `undefined` where it is not installed. */
export async function provisionMock(nodes: number): Promise<Provision | undefined> {
  const Mock = await loadMock();
  if (Mock === undefined) return undefined;
  // Mocks of one host and port share their data.
  const host = `mock-${provisions++}`;
  const clients = new Clients();
  const refuse = async (): Promise<never> => {
    throw new ProvisionError('ioredis-mock is for trying the API only: it cannot be killed, paused or restarted.');
  };
  const list = Array.from(
    { length: nodes },
    (_, index): ProvisionedNode => ({
      name: `n${index}`,
      url: `redis://${host}:${7000 + index}`,
      client: (options) => clients.add(new Mock({ ...options, host, port: 7000 + index })),
      kill: refuse,
      pause: refuse,
      resume: refuse,
      restart: refuse,
      sync: refuse,
      cutPower: refuse,
      setClock: refuse,
    }),
  );
  const stop = async () => clients.close();
  return {
    source: 'mock',
    description: `${nodes} × ioredis-mock in this process, for trying the API only: no network, no faults, one clock`,
    faults: false,
    clocks: false,
    nodes: list,
    urls: list.map((node) => node.url),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function loadMock(): Promise<MockConstructor | undefined> {
  try {
    const module: { default: unknown } = await import('ioredis-mock');
    return module.default as MockConstructor;
  } catch {
    return undefined;
  }
}
