import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the ports that systems give to outgoing connections (Linux: from 32 768 on; macOS: from 49 152 on). A server that is
 * down for a while keeps its port: no connection is given it meanwhile, and no client that tries to reconnect meets itself.
 */
const LOWEST = 16_384;
const HIGHEST = 32_767;

const TRIES = 1_000;

/** A port of the loopback that nobody listens on. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${LOWEST} to ${HIGHEST} is free on 127.0.0.1`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
