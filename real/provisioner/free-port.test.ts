import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { freePort } from './free-port.js';

it('is a port that can be listened on, below those of outgoing connections, and another each time', async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, () => freePort()));
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(16_384);
    expect(port).toBeLessThan(32_768);
  }
  expect(new Set(ports).size).toBeGreaterThan(40);
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(ports[0], '127.0.0.1', resolve);
  });
  server.close();
});
