import { CLIENT_LIBRARIES } from '../real/client-libraries.js';
import type { TortureClient } from '../real/torture/index.js';

/** What client processes of a torture run can reach the nodes by. */
export const TORTURE_CLIENTS: readonly TortureClient[] = Object.freeze([...CLIENT_LIBRARIES, 'upstash']);

/** Simulated servers that nodes of a torture run can be. From redis@8.4 and valkey@8.1 on they have comparisons without scripts. */
export type SimulatedEdition = 'redis@7.0.15' | 'redis@8.4.0' | 'valkey@8.1.0' | 'valkey@9.0.0';

/** All of them. */
export const SIMULATED_EDITIONS: readonly SimulatedEdition[] = Object.freeze([
  'redis@7.0.15',
  'redis@8.4.0',
  'valkey@8.1.0',
  'valkey@9.0.0',
]);
