import type { Redis } from 'ioredis';
import { Clients } from './clients.js';
import { provisionOfOthers } from './provision-of.js';
import type { Provision } from './types.js';

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
  const ports = Array.from({ length: nodes }, (_, place) => 7000 + place);
  const description = `${nodes} × ioredis-mock in this process, for trying the API only: no network, no faults, one clock`;
  return provisionOfOthers(
    { source: 'mock', description },
    ports.map((port) => `redis://${host}:${port}`),
    clients,
    (place, options) => clients.add(new Mock({ ...options, host, port: ports[place] })),
    'ioredis-mock is for trying the API only: it cannot be killed, paused or restarted.',
  );
}

async function loadMock(): Promise<MockConstructor | undefined> {
  try {
    const module: { default: unknown } = await import('ioredis-mock');
    return module.default as MockConstructor;
  } catch {
    return undefined;
  }
}
