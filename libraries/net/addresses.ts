import { nodeIndex, nodeName } from '../../sim/index.js';

/** Address of a simulated node, for clients of any library. */
export interface NodeAddress {
  /** `n0`. */
  readonly host: string;
  readonly port: number;
  /** `redis://n0:6379`. */
  readonly url: string;
  /** `https://n0`: for clients that use the REST interface of Upstash, by `fetch`. Any token is right. */
  readonly restUrl: string;
}

const PORT = 6379;
/** Of REST interfaces. */
export const HTTPS_PORT = 443;

/** The address of node number `node`. */
export function addressOf(node: number): NodeAddress {
  const host = nodeName(node);
  return { host, port: PORT, url: `redis://${host}:${PORT}`, restUrl: `https://${host}` };
}

/** The IPv4 address of node number `node`. */
export function ipOf(node: number): string {
  return `10.0.0.${node + 1}`;
}

/** The number of the node at this host, by its name or its IPv4 address; -1 for none. */
export function nodeAt(host: string, port: number = PORT): number {
  if (port !== PORT && port !== HTTPS_PORT) return -1;
  const byIp = /^10\.0\.0\.(\d+)$/.exec(host);
  return byIp === null ? nodeIndex(host) : Number(byIp[1]) - 1;
}

/** What is wrong with a client that connects to another place. */
export function unreachable(where: string): string {
  return `the client connects to ${where}, which is no node of the simulated world: take addresses, as ${addressOf(0).url}`;
}

/** What is wrong with a client that calls `watch`, or the like, on one of the `nodes` that it is given. */
export function needsConnection(method: string): string {
  return `the client calls ${method}() on one of nodes, which keep no state of a connection: connect with ioredis to addresses, as new Redis(addresses[0].url)`;
}
