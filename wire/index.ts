export { type Edition, Instance, REDIS_7_0, type Settings } from './instance.js';
export type { Keyspace } from './keyspace.js';
export { loadLua } from './lua/module.js';
export { type Served, serve } from './serve.js';
export { type Connection, Server } from './server.js';
