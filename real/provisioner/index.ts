import { findEngine, provisionContainers } from './containers.js';
import { provisionMock } from './mock.js';
import { findServerProgram, provisionProcesses } from './processes.js';
import { type Provision, ProvisionError, type ProvisionOptions } from './types.js';
import { provisionUrls } from './urls.js';

export {
  type Persistence,
  type Provision,
  ProvisionError,
  type ProvisionedNode,
  type ProvisionOptions,
  type RestartOptions,
  type Source,
  withoutPassword,
} from './types.js';

/** How to get real Redis nodes, for messages that say that there are none. */
export const WAYS_TO_GET_REDIS: readonly string[] = Object.freeze([
  'set LOCKSTEP_REDIS=redis://host:port,redis://host:port,… to nodes that run already',
  'install Redis so that redis-server is on the PATH (apt-get install redis-server, brew install redis)',
  'install Valkey so that valkey-server is on the PATH (apt-get install valkey, brew install valkey)',
]);

/**
 * Nodes to run locks against, from the first source that has them: `LOCKSTEP_REDIS`, then own processes of the
 * `redis-server` or `valkey-server` on the PATH, then, only where `sources` names them, own containers, then
 * ioredis-mock.
 *
 * @throws ProvisionError naming the ways to get nodes, what is wrong with the URLs given, or what containers lack.
 */
export async function provision(options: ProvisionOptions): Promise<Provision> {
  const { nodes, sources = ['urls', 'processes'], persistence = 'none', env = process.env } = options;
  const urls = env.LOCKSTEP_REDIS;
  if (sources.includes('urls') && urls !== undefined && urls !== '') return provisionUrls(urls, nodes);
  if (sources.includes('processes')) {
    const program = findServerProgram(env.PATH);
    if (program !== undefined) return provisionProcesses(program, nodes, persistence);
  }
  let lacking: ProvisionError | undefined;
  if (sources.includes('containers')) {
    const engine = await findEngine(env);
    if (!(engine instanceof ProvisionError)) return provisionContainers(engine, nodes, persistence);
    lacking = engine;
  }
  const mock = sources.includes('mock') ? await provisionMock(nodes) : undefined;
  if (mock !== undefined) return mock;
  throw lacking ?? new ProvisionError(`No Redis to be found. To get one, ${WAYS_TO_GET_REDIS.join('; or ')}.`);
}

/** Whether {@link provision} has a source of real nodes here; says nothing about whether given URLs can be reached. */
export function hasRealRedis(env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return Boolean(env.LOCKSTEP_REDIS) || findServerProgram(env.PATH) !== undefined;
}

/** Whether `LOCKSTEP_REQUIRE` (a comma list) says that `name` must not be missing. */
export function isRequired(name: string, env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return (env.LOCKSTEP_REQUIRE ?? '').split(',').some((required) => required.trim() === name);
}
