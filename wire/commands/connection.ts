import { at, option, ranged } from '../arguments.js';
import type { Call, Handler, Row } from '../command.js';
import { Failure, fail, MapReply, OK, printed, type Reply, Status, SYNTAX, wrongArity } from '../reply.js';
import { parseInteger } from '../text.js';

const MAX_INT = 2 ** 31 - 1;

const ping: Handler = (argv, { session }) => {
  if (argv.length > 2) throw wrongArity('ping');
  if (session.isSubscriber && session.protocol === 2) return ['pong', argv[1] ?? ''];
  return argv[1] ?? new Status('PONG');
};

const select: Handler = (argv, { session, instance }) => {
  const index = ranged(at(argv, 1), -MAX_INT - 1, MAX_INT);
  instance.keyspace(index);
  session.database = index;
  return OK;
};

const WRONG_PASSWORD = new Failure('WRONGPASS invalid username-password pair or user is disabled.');

/** Authenticates, or throws. There is one user. */
function authenticate(user: string, password: string, { session, instance }: Call): void {
  const wanted = instance.config.get('requirepass') ?? '';
  if (user !== 'default' || (wanted !== '' && wanted !== password)) throw WRONG_PASSWORD;
  session.authenticated = true;
}

const auth: Handler = (argv, call) => {
  if (argv.length > 3) throw SYNTAX;
  if (argv.length === 2 && call.instance.config.get('requirepass') === '')
    throw fail(
      'AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?',
    );
  if (argv.length === 2) authenticate('default', at(argv, 1), call);
  else authenticate(at(argv, 1), at(argv, 2), call);
  return OK;
};

const BAD_NAME = fail('Client names cannot contain spaces, newlines or special characters.');

/** Names a connection; throws where the name cannot be. */
export function setName(name: string, { session }: Call): void {
  if (/[^!-~]/.test(name)) throw BAD_NAME;
  session.name = name;
}

const NOT_AUTHENTICATED = new Failure(
  'NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time',
);

const hello: Handler = (argv, call) => {
  const { session, instance } = call;
  const version = argv.length > 1 ? parseInteger(at(argv, 1)) : session.protocol;
  if (version === null) throw fail('Protocol version is not an integer or out of range');
  if (version !== 2 && version !== 3) throw new Failure('NOPROTO unsupported protocol version');
  for (let i = 2; i < argv.length; i++) {
    const [word, left] = [option(argv, i), argv.length - 1 - i];
    if (word === 'auth' && left >= 2) {
      authenticate(at(argv, i + 1), at(argv, i + 2), call);
      i += 2;
    } else if (word === 'setname' && left >= 1) setName(at(argv, ++i), call);
    else throw fail(`Syntax error in HELLO option '${printed(at(argv, i))}'`);
  }
  if (!session.authenticated) throw NOT_AUTHENTICATED;
  session.protocol = version;
  const pairs: [string, Reply][] = [
    ['server', instance.edition.flavour],
    ['version', instance.edition.version],
    ['proto', session.protocol],
    ['id', session.id],
    ['mode', 'standalone'],
    ['role', 'master'],
    ['modules', []],
  ];
  return new MapReply(pairs);
};

const quit: Handler = (_, { session }) => {
  session.isClosing = true;
  return OK;
};

/** As it was when the connection was opened. */
const reset: Handler = (_, { session, instance }) => {
  session.transaction = null;
  instance.unwatch(session);
  for (const names of [session.channels, session.patterns, session.shardChannels]) names.clear();
  session.replies = 'on';
  session.protocol = 2;
  session.database = 0;
  session.name = '';
  session.authenticated = instance.config.get('requirepass') === '';
  return new Status('RESET');
};

/** Commands on the connection itself. */
export const CONNECTION: Readonly<Record<string, Row>> = {
  auth: [-2, 'sa', auth],
  echo: [2, '', (argv) => at(argv, 1)],
  hello: [-1, 'sa', hello],
  ping: [-1, '', ping],
  quit: [-1, 'sa', quit],
  reset: [1, 'sa', reset],
  select: [2, '', select],
};
