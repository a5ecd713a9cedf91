import type { SimLock } from '../sim/index.js';
import type { TestBed } from './lock-under-test.js';
import { addressOf } from './net/addresses.js';
import { SimRedis, type Wire } from './redis/client.js';

/** What a client is made from that asks for this lock. @param wireTo - The way to a node of its list. */
export function testBedOf(
  { list }: SimLock,
  wireTo: (place: number, node: number) => Wire,
  commandTimeout: number | undefined,
): TestBed {
  const nodes: unknown = list.nodes.map((node, place) => {
    const { host, port } = addressOf(node);
    return new SimRedis(wireTo(place, node), { host, port, commandTimeout });
  });
  // Clients are written for ioredis, of which these have the part that locks use.
  return { nodes, addresses: list.nodes.map(addressOf) } as TestBed;
}
