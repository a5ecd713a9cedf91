import type { ChaosClient } from '../real/chaos/index.js';
import { CLIENT_LIBRARIES } from '../real/client-libraries.js';

/** What client processes of a chaos run can reach the nodes by. */
export const CHAOS_CLIENTS: readonly ChaosClient[] = Object.freeze([...CLIENT_LIBRARIES, 'upstash']);

/** Simulated servers that nodes of a chaos run can be. From redis@8.4 and valkey@8.1 on they have comparisons without scripts. */
export type SimulatedEdition = 'redis@7.0.15' | 'redis@8.4.0' | 'valkey@8.1.0' | 'valkey@9.0.0';

/** All of them. */
export const SIMULATED_EDITIONS: readonly SimulatedEdition[] = Object.freeze([
  'redis@7.0.15',
  'redis@8.4.0',
  'valkey@8.1.0',
  'valkey@9.0.0',
]);
