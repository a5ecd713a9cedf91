import { COMMANDS } from './commands.js';
import { QUIET, unknownValue } from './unknown.js';

/*
 * Packages that are not loaded for a file that is audited: what speaks to servers other than Redis, what serves requests, and what calls
 * functions at times or for jobs. They would wait for what is not there. The same stands for them whether they are installed or not.
 */

const DATABASES =
  'pg|pg-\\w+(?:-\\w+)?|postgres|slonik|mysql2?|mariadb|mssql|tedious|oracledb|mongodb|mongoose|knex|kysely|objection|drizzle-orm|typeorm|sequelize|@mikro-orm/[\\w-]+|@prisma/client|(?:better-)?sqlite3|sqlite|cassandra-driver|neo4j-driver|@clickhouse/client|@neondatabase/serverless|@vercel/(?:postgres|blob)|@planetscale/database|@libsql/client|@supabase/supabase-js|@elastic/elasticsearch|@opensearch-project/opensearch|meilisearch|algoliasearch|typesense';
const SERVICES =
  'stripe|nodemailer|twilio|resend|postmark|web-push|@sendgrid/mail|@slack/[\\w-]+|axios|got|ky|superagent|needle|graphql-request|openai|@anthropic-ai/sdk|@google/generative-ai|replicate|aws-sdk|@aws-sdk/[\\w-]+|@google-cloud/[\\w-]+|@azure/[\\w-]+|firebase-admin|googleapis|@octokit/[\\w-]+|octokit|@notionhq/client|@shopify/[\\w-]+|braintree|@paypal/[\\w-]+|square|plaid|minio|ssh2(?:-sftp-client)?|basic-ftp|imapflow|@grpc/[\\w-]+|@trpc/[\\w-]+|ethers|viem|web3|@upstash/(?:qstash|workflow|vector)';
const BROKERS =
  'kafkajs|amqplib|amqp-connection-manager|nats|mqtt|sqs-consumer|bullmq|bull|bee-queue|agenda|graphile-worker';
const SERVERS =
  'express|express-[\\w-]+|fastify|@fastify/[\\w-]+|koa|koa-[\\w-]+|@koa/[\\w-]+|hono|@hono/[\\w-]+|@hapi/hapi|restify|polka|itty-router|next|@nestjs/[\\w-]+|@nestjs-modules/[\\w-]+|cors|helmet|body-parser|cookie-parser|multer|compression|jsonwebtoken|jose|passport[\\w-]*|ws|socket\\.io|@apollo/server|discord\\.js|@discordjs/[\\w-]+|telegraf|grammy|node-telegram-bot-api|reflect-metadata|class-validator|class-transformer';
/** What works on files, pages and pictures, or starts programs. */
const WORKERS =
  'cheerio|jsdom|puppeteer(?:-core)?|playwright(?:-core)?|sharp|jimp|canvas|pdfkit|pdf-lib|pdfmake|exceljs|xlsx|csv-parse|csv-stringify|papaparse|fast-csv|archiver|unzipper|fluent-ffmpeg|execa|zx|simple-git|rss-parser|handlebars|ejs|mjml|marked|qrcode|tesseract\\.js|@tensorflow/[\\w-]+';
const TIMERS = 'node-cron|cron|croner|node-schedule|toad-scheduler|bree';
const REPLACED: RegExp = new RegExp(
  `^(?:${[DATABASES, SERVICES, BROKERS, SERVERS, WORKERS, TIMERS].join('|')})(?:/.*)?$`,
);

/** What is told things, and says nothing. */
const LOGS =
  /^(?:pino|pino-http|pino-pretty|winston|bunyan|loglevel|log4js|consola|debug|morgan|hot-shots|dd-trace|newrelic|prom-client|@sentry\/[\w-]+|dotenv)(?:\/.*)?$/;

/** What is the global `fetch` by another name: a client of Redis over HTTP may be behind it. */
const FETCHES = /^(?:node-fetch|undici|cross-fetch|isomorphic-fetch)(?:\/.*)?$/;
const OF_FETCH = /^(?:fetch|Headers|Request|Response|FormData)$/;

/** The responses of routes of Next.js, whose status tells whether a request has failed. */
const OF_NEXT = /^next\/server(?:\.js)?$/;

/** Made as it is asked for: to name `Response` loads what is behind it. */
function ofNext(): Module {
  class NextResponse extends Response {
    readonly cookies: unknown = unknownValue({}, 'a', 'cookies');

    static next(init?: ResponseInit): NextResponse {
      return new NextResponse(null, init);
    }
  }
  return unknownValue({ NextResponse, NextRequest: Request }) as Module;
}

/** What gives the function that it is handed. */
const SAME = /^(?:fastify-plugin|express-async-handler)$/;

/** What reads the arguments of a script, and calls what it is made for. */
const COMMAND_LINES = /^(?:commander|cac)$/;

/** What something is for, by its name, whose functions have to be its own: locks and their clients, tokens, times, and what calls functions. */
const OWN =
  'redis|valkey|keydb|dragonfly|upstash|\\bkv\\b|lock|mutex|semaphore|lease|leader|elect|sync|concurren|limit|throttl|debounc|token|nonce|random|time|moment|duration|retr(?:y|i)|poll|async|promise|config|env\\b|util';
/** The same of a package, which may check values, too. One that is not installed, and is for something else, is stood for. */
const NEEDED = new RegExp(
  `${OWN}|queue|id\\b|uuid|nano|cuid|hash|crypt|date|day|\\bms\\b|\\bp-|lodash|underscore|ramda|remeda|rxjs|effect|fp-ts|zod|yup|joi|ajv|typebox|valid|schema|url|(?<!geo)json`,
  'i',
);
/** The same of a file beside the one that is audited. */
const NEEDED_OF_FILES = new RegExp(`${OWN}|sleep|delay|const|helper|common|shared`, 'i');

type Module = Readonly<Record<string, unknown>>;

/**
 * What stands for a package that is not loaded; `null` for one that is.
 *
 * @param isScript - The file that imports it exports nothing.
 */
export function standFor(request: string, isScript: boolean): Module | null {
  if (LOGS.test(request)) return moduleOf(QUIET as Module);
  if (FETCHES.test(request)) return moduleOf(FETCH);
  if (OF_NEXT.test(request)) return moduleOf(ofNext());
  if (SAME.test(request)) return moduleOf(((it: unknown) => it) as unknown as Module);
  // A file that exports something is used by that, and its commands may end its clients.
  if (COMMAND_LINES.test(request)) return moduleOf(isScript ? COMMANDS : (unknownValue() as Module));
  return REPLACED.test(request) ? moduleOf(unknownValue() as Module) : null;
}

/** A file with a logger, by its name. */
const IS_LOGGER = /^log(?:ger|ging|s)?$/i;
/** What only waits for a value: all that an application imports of RxJS, as a rule. */
const ONLY_AWAITS =
  /\bimport\s*\{\s*(?:(?:firstValueFrom|lastValueFrom|type\s+\w+|Observable)\s*,?\s*)+\}\s*from\s*['"]rxjs['"]/;

/**
 * The same for a package that is not installed, or a file that is not there; `null` for one whose functions have to be its own.
 *
 * @param text - Of the file that imports it.
 */
export function standForMissing(request: string, text: string): Module | null {
  if (isFile(request)) {
    const name = nameOfFile(request);
    if (IS_LOGGER.test(name)) return moduleOf(QUIET as Module);
    return NEEDED_OF_FILES.test(name) ? null : moduleOf(unknownValue() as Module);
  }
  if (DATES.test(request)) return moduleOf({ UTCDate: Date, TZDate: Date, utc: dateOf, tz: () => dateOf });
  if (HAVE_SETTINGS.test(request)) return moduleOf(unknownValue({}, 'a', 'config') as Module);
  const isOwn = NEEDED.test(request) && DOES_NOTHING.get(request)?.test(text) !== true;
  return isOwn ? null : moduleOf(unknownValue() as Module);
}

/** Schemas of TypeBox that check nothing by themselves: a framework does that. */
const ONLY_SCHEMAS: RegExp =
  /\bimport\s*(?:type\s*)?\{\s*(?:(?:type\s+)?(?:Type|Static|TSchema|TObject)\s*,?\s*)+\}\s*from\s*['"]@sinclair\/typebox['"]/;

/** What a file imports of these, where that alone needs no functions of theirs. */
const DOES_NOTHING: ReadonlyMap<string, RegExp> = new Map([
  ['rxjs', ONLY_AWAITS],
  ['@sinclair/typebox', ONLY_SCHEMAS],
]);

/** Dates of date-fns in other time zones: an instant is the same in all of them. */
const DATES = /^@date-fns\/(?:utc|tz)$/;
const dateOf = (it: string | number | Date): Date => new Date(it);

/** Packages of which settings are asked by name. */
const HAVE_SETTINGS = /^(?:config|nconf|convict)$/;

/** What a file is called, or its folder where that is `index`. */
export function nameOfFile(request: string): string {
  const [last = '', folder = ''] = request
    .replace(/\.[cm]?[jt]sx?$/, '')
    .split('/')
    .reverse();
  return last === 'index' ? folder : last;
}

/** Whether what is imported is a file, and no package: also by an alias, `@/db` or `#db`. */
export function isFile(request: string): boolean {
  return /^(?:[./#~]|@\/)/.test(request);
}

/** Says that a file imports a package that is not installed, or a file that is not there. */
export function missingImport(name: string, request: string): string {
  return isFile(request)
    ? `${name} imports ${request}, which is not there`
    : `${name} imports ${request}, which is not installed; run npm install ${packageOf(request)}`;
}

/** The package of an import: `@scope/name` of `@scope/name/part`. */
export function packageOf(request: string): string {
  return request
    .split('/')
    .slice(0, request.startsWith('@') ? 2 : 1)
    .join('/');
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
