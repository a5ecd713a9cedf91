import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Provision, provision } from '../provisioner/index.js';
import { findServerProgram } from '../provisioner/processes.js';

/** The name under which {@link sentinelOf} knows its master. */
export const MASTER_NAME = 'm';

/** A Redis Cluster of one server, which has all slots. */
export async function clusterOfOne(): Promise<Provision> {
  const nodes = await wrapped(
    (program) => `exec ${program} "$@" --cluster-enabled yes --cluster-announce-ip 127.0.0.1`,
  );
  const client = nodes.nodes[0]?.client();
  await client?.cluster('ADDSLOTSRANGE', 0, 16_383);
  while (!String(await client?.cluster('INFO')).includes('cluster_state:ok')) await sleep(20);
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

/** One server that is started by a script in place of its program. */
function wrapped(script: (program: string) => string): Promise<Provision> {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-wrapped-'));
  const program = findServerProgram(process.env.PATH) ?? '';
  writeFileSync(join(folder, 'redis-server'), `#!/bin/sh\n${script(program)}\n`, { mode: 0o755 });
  return provision({ nodes: 1, sources: ['processes'], env: { PATH: folder } });
}
