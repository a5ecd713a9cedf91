import { type Command, table } from '../command.js';
import { commandAbout } from './about.js';
import { ADMIN, ADMIN_CONTAINERS } from './admin.js';
import { BLOCKING } from './blocking.js';
import { CLIENT } from './clients.js';
import { CONNECTION } from './connection.js';
import { EXPIRY } from './expiry.js';
import { FUNCTION_CONTAINERS, FUNCTIONS } from './functions.js';
import { GROUP_CONTAINER, GROUPS } from './groups.js';
import { HASHES } from './hashes.js';
import { ANY_KEYS, KEY_CONTAINERS } from './keys.js';
import { LISTS } from './lists.js';
import { PUBLISHING, PUBSUB } from './pubsub.js';
import { SCRIPT_CONTAINERS, SCRIPTING } from './scripting.js';
import { SETS } from './sets.js';
import { SORTED_POPS } from './sorted-pops.js';
import { SORTED_RANGES } from './sorted-ranges.js';
import { SORTED_SETS } from './sorted-sets.js';
import { SORTED_STORE } from './sorted-store.js';
import { STREAMS } from './streams.js';
import { STRINGS } from './strings.js';
import { TRANSACTIONS } from './transactions.js';

const TABLES = [
  ADMIN,
  ANY_KEYS,
  BLOCKING,
  CONNECTION,
  EXPIRY,
  FUNCTIONS,
  GROUPS,
  HASHES,
  LISTS,
  PUBLISHING,
  SCRIPTING,
  SETS,
  SORTED_POPS,
  SORTED_RANGES,
  SORTED_SETS,
  SORTED_STORE,
  STREAMS,
  STRINGS,
  TRANSACTIONS,
];

const CONTAINERS: readonly Command[] = [
  ...ADMIN_CONTAINERS,
  CLIENT,
  ...FUNCTION_CONTAINERS,
  GROUP_CONTAINER,
  ...KEY_CONTAINERS,
  PUBSUB,
  ...SCRIPT_CONTAINERS,
];

const known = new Map([
  ...TABLES.flatMap((rows) => [...table(rows)]),
  ...CONTAINERS.map((command): [string, Command] => [command.name, command]),
]);

/** All commands that a simulated server knows, by name; those of later versions say so. */
export const COMMANDS: ReadonlyMap<string, Command> = known.set('command', commandAbout(known));
