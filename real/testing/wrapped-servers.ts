import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Provision, provision } from '../provisioner/index.js';
import { findServerProgram } from '../provisioner/processes.js';

/** The name under which {@link sentinelOf} knows its master. */
export const MASTER_NAME = 'm';

const SLOTS = 16_384;

/** A Redis Cluster of servers that share the slots. */
export async function clusterOf(servers: number): Promise<Provision> {
  const nodes = await wrapped(
    (program) => `exec ${program} "$@" --cluster-enabled yes --cluster-announce-ip 127.0.0.1`,
    servers,
  );
  const clients = nodes.nodes.map((node) => node.client());
  const share = Math.ceil(SLOTS / servers);
  for (const [place, client] of clients.entries()) {
    await client.cluster('ADDSLOTSRANGE', place * share, Math.min(SLOTS, (place + 1) * share) - 1);
    await clients[0]?.cluster('MEET', '127.0.0.1', Number(new URL(nodes.urls[place] ?? '').port));
  }
  const whole = new RegExp(`cluster_state:ok[\\s\\S]*cluster_size:${servers}\\b`);
  for (const client of clients) while (!whole.test(String(await client.cluster('INFO')))) await sleep(20);
  return nodes;
}

/** A Sentinel that watches the server at `url` and replaces it soon after it died. */
export function sentinelOf(url: string): Promise<Provision> {
  const settings = [
    'bind 127.0.0.1',
    `sentinel monitor ${MASTER_NAME} 127.0.0.1 ${new URL(url).port} 1`,
    `sentinel down-after-milliseconds ${MASTER_NAME} 300`,
    `sentinel failover-timeout ${MASTER_NAME} 2000`,
  ].join('\\n');
  return wrapped(
    (program) => `
[ "$1" = --version ] && exec ${program} --version
while [ $# -gt 1 ]; do
  case "$1" in --port) port=$2 ;; --dir) dir=$2 ;; esac
  shift
done
printf "port $port\\n${settings}\\n" > "$dir/sentinel.conf"
exec ${program} "$dir/sentinel.conf" --sentinel`,
  );
}

/** Servers that are started by a script in place of their program. */
function wrapped(script: (program: string) => string, servers: number = 1): Promise<Provision> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-wrapped-'));
  const program = findServerProgram(process.env.PATH) ?? '';
  writeFileSync(join(folder, 'redis-server'), `#!/bin/sh\n${script(program)}\n`, { mode: 0o755 });
  return provision({ nodes: servers, sources: ['processes'], env: { PATH: folder } });
}
