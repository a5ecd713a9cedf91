import { loadLua } from './lua/module.js';
import { serve } from './serve.js';
import { Server } from './server.js';

/*
 * A simulated server as a process of its own: `program.js <flavour> <version> --port <n>`. It takes the options of redis-server
 * and heeds the port alone: it keeps nothing on disk. Its clock is the wall clock, which libfaketime may set.
 */

const [flavour, version = '', ...options] = process.argv.slice(2);
const port = Number(options[options.indexOf('--port') + 1]);
await loadLua();
const edition = { flavour: flavour === 'valkey' ? 'valkey' : 'redis', version } as const;
await serve(new Server({ now: () => Date.now() * 1000, random: Math.random, edition }), port);
