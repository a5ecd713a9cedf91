import { QUIET, unknownValue } from './unknown.js';

/*
 * Packages that are not loaded for a file that is audited: what speaks to servers other than Redis, what serves requests, and what calls
 * functions at times or for jobs. They would wait for what is not there. The same stands for them whether they are installed or not.
 */

const DATABASES =
  'pg|pg-promise|postgres|mysql2?|mariadb|mongodb|mongoose|knex|kysely|drizzle-orm|typeorm|sequelize|@prisma/client|(?:better-)?sqlite3|sqlite|cassandra-driver|@neondatabase/serverless|@vercel/postgres|@planetscale/database|@libsql/client|@supabase/supabase-js|@elastic/elasticsearch';
const SERVICES =
  'stripe|nodemailer|twilio|resend|@sendgrid/mail|@slack/[\\w-]+|axios|got|ky|superagent|openai|aws-sdk|@aws-sdk/[\\w-]+|@google-cloud/[\\w-]+|@azure/[\\w-]+|firebase-admin';
const BROKERS = 'kafkajs|amqplib|amqp-connection-manager|nats|mqtt|bullmq|bull|bee-queue|agenda|pg-boss';
const SERVERS =
  'express|express-async-handler|fastify|@fastify/[\\w-]+|koa|koa-router|koa-bodyparser|@koa/[\\w-]+|hono|@hono/[\\w-]+|@hapi/hapi|restify|polka|itty-router|next|@nestjs/[\\w-]+|@nestjs-modules/[\\w-]+|cors|helmet|body-parser';
const TIMERS = 'node-cron|cron|croner|node-schedule|toad-scheduler';
const REPLACED: RegExp = new RegExp(`^(?:${[DATABASES, SERVICES, BROKERS, SERVERS, TIMERS].join('|')})(?:/.*)?$`);

/** What is told things, and says nothing. */
const LOGS =
  /^(?:pino|pino-http|pino-pretty|winston|bunyan|loglevel|consola|debug|morgan|prom-client|@sentry\/[\w-]+|dotenv)(?:\/.*)?$/;

/** What is the global `fetch` by another name: a client of Redis over HTTP may be behind it. */
const FETCHES = /^(?:node-fetch|undici|cross-fetch|isomorphic-fetch)(?:\/.*)?$/;
const OF_FETCH = /^(?:fetch|Headers|Request|Response|FormData)$/;

type Module = Readonly<Record<string, unknown>>;

/** What stands for a package that is not loaded; `null` for one that is. */
export function standFor(request: string): Module | null {
  if (LOGS.test(request)) return moduleOf(QUIET as Module);
  if (FETCHES.test(request)) return moduleOf(FETCH);
  return REPLACED.test(request) ? moduleOf(unknownValue() as Module) : null;
}

const FETCH: Module = new Proxy(((...given) => fetch(...given)) as typeof fetch as unknown as Module, {
  get: (_, name) => Reflect.get(OF_FETCH.test(String(name)) ? globalThis : (unknownValue() as Module), name) as unknown,
});

/** The packages that are not loaded, of those that files import, without those that are only told things. */
export function replacedIn(imports: readonly string[]): string[] {
  return [...new Set(imports)].filter((it) => REPLACED.test(it)).sort();
}

/** A module that has everything by every name; what it exports by default has it, too. */
function moduleOf(all: Module): Module {
  const errors = new Map<string, unknown>();
  const errorFor = (name: string): unknown => {
    const known = errors.get(name) ?? errorNamed(name);
    errors.set(name, known);
    return known;
  };
  const part = (name: string): unknown => (IS_ERROR.test(name) ? errorFor(name) : all[name]);
  const root: Module = new Proxy(all, {
    get: (_, name) => (typeof name === 'string' ? part(name) : Reflect.get(all, name)),
    construct: (it, given: unknown[], whole) =>
      ((whole as unknown) === root
        ? Reflect.construct(it as never, given)
        : Reflect.construct(it as never, given, whole)) as object,
  });
  return new Proxy(all, {
    get: (_, name) => (name === '__esModule' ? true : name === 'default' ? root : Reflect.get(root, name)),
  });
}

const IS_ERROR = /(?:Error|Exception)$/;

/** A class of errors, which a file throws or looks for. */
function errorNamed(name: string): unknown {
  return class extends Error {
    constructor(told?: unknown) {
      super(typeof told === 'string' ? told : name);
      this.name = name;
    }
  };
}
