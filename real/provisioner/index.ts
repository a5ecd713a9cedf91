import { findEngine, provisionContainers } from './containers.js';
import { provisionMock } from './mock.js';
import { unpackedServer } from './package.js';
import { findServerProgram, provisionProcesses } from './processes.js';
import { type Provision, ProvisionError, type ProvisionOptions, type Source } from './types.js';
import { provisionUrls } from './urls.js';

export { findFaketime } from './fake-clock.js';
export {
  type OtherServer,
  type Persistence,
  type Provision,
  ProvisionError,
  type ProvisionedNode,
  type Source,
} from './types.js';

/** How to get real Redis nodes, for messages that say that there are none. */
export const WAYS_TO_GET_REDIS: readonly string[] = Object.freeze([
  'set LOCKSTEP_REDIS=redis://host:port,redis://host:port,… to nodes that run already',
  'install Redis so that redis-server is on the PATH (apt-get install redis-server, brew install redis)',
  'install Valkey so that valkey-server is on the PATH (apt-get install valkey, brew install valkey)',
]);

const REAL: readonly Source[] = ['urls', 'processes', 'containers', 'package'];

/**
 * Nodes to run locks against, from the first source that has them: `LOCKSTEP_REDIS`, then own processes of the
 * `redis-server` or `valkey-server` on the PATH, then own containers, then own processes of the distribution's package,
 * then, only where `sources` names it, ioredis-mock.
 *
 * @throws ProvisionError naming the ways to get nodes, what is wrong with the URLs given, or what the other sources lack.
 */
export async function provision(options: ProvisionOptions): Promise<Provision> {
  const { nodes, sources = REAL, persistence = 'none', clocks = false, others = [], env = process.env } = options;
  const own = { persistence, clocks, others };
  const urls = env.LOCKSTEP_REDIS;
  if (sources.includes('urls') && urls !== undefined && urls !== '') return provisionUrls(urls, nodes);
  if (sources.includes('processes')) {
    const program = findServerProgram(env.PATH);
    if (program !== undefined) return provisionProcesses(nodes, { ...own, program, source: 'processes' });
  }
  const lacking: string[] = [];
  if (sources.includes('containers')) {
    const engine = await findEngine(env);
    if (!(engine instanceof ProvisionError)) return provisionContainers(engine, nodes, persistence);
    lacking.push(engine.message);
  }
  if (sources.includes('package')) {
    const program = await unpackedServer(env);
    if (!(program instanceof ProvisionError)) return provisionProcesses(nodes, { ...own, program, source: 'package' });
    lacking.push(program.message);
  }
  const mock = sources.includes('mock') ? await provisionMock(nodes) : undefined;
  if (mock !== undefined) return mock;
  if (sources.some((source) => source === 'urls' || source === 'processes'))
    lacking.unshift(`No Redis to be found. To get one, ${WAYS_TO_GET_REDIS.join('; or ')}.`);
  throw new ProvisionError(lacking.join(' '));
}

/** Whether `LOCKSTEP_REQUIRE` (a comma list) says that `name` must not be missing. */
export function isRequired(name: string, env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return (env.LOCKSTEP_REQUIRE ?? '').split(',').some((required) => required.trim() === name);
}
