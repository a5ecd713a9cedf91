import { at, option, ranged, wide } from '../arguments.js';
import { type Call, type Command, container, type Handler } from '../command.js';
import { Failure, fail, MapReply, NO_REPLY, OK, type Reply, SYNTAX, Verbatim } from '../reply.js';
import type { Session } from '../session.js';
import { setName } from './connection.js';

/** One line of `CLIENT LIST`; what belongs to memory and sockets is as on a quiet connection. */
function lineOf(session: Session, { instance }: Call): string {
  const age = Math.floor((instance.nowUs - session.since) / 1_000_000);
  const flags = session.transaction !== null ? 'x' : session.isSubscriber ? 'P' : session.waiting !== null ? 'b' : 'N';
  const is72 = instance.has({ redis: '7.2.0', valkey: '7.2.0' });
  const library = is72 ? ` lib-name=${session.libraryName} lib-ver=${session.libraryVersion}` : '';
  return (
    `id=${session.id} addr=${session.address} laddr=127.0.0.1:${instance.config.get('port')} fd=8 name=${session.name}` +
    ` age=${age} idle=0 flags=${flags} db=${session.database} sub=${session.channels.size} psub=${session.patterns.size}` +
    ` ssub=${session.shardChannels.size} multi=${session.transaction?.commands.length ?? -1} qbuf=0 qbuf-free=20474` +
    ` argv-mem=10 multi-mem=0 rbs=1024 rbp=0 obl=0 oll=0 omem=0 tot-mem=22426 events=r cmd=${session.lastCommand}` +
    ` user=${session.user} redir=-1 resp=${session.protocol}${library}\n`
  );
}

const CLIENT_TYPES: ReadonlySet<string> = new Set(['normal', 'slave', 'replica', 'pubsub', 'master']);

function typeOf(session: Session): string {
  return session.isSubscriber ? 'pubsub' : 'normal';
}

function typeAt(argv: readonly string[], place: number): string {
  const type = option(argv, place);
  if (!CLIENT_TYPES.has(type)) throw fail(`Unknown client type '${at(argv, place)}'`);
  return type;
}

const list: Handler = (argv, call) => {
  let sessions = [...call.instance.sessions.keys()];
  if (argv.length === 4 && option(argv, 2) === 'type') {
    const type = typeAt(argv, 3);
    sessions = sessions.filter((it) => typeOf(it) === type);
  } else if (argv.length > 3 && option(argv, 2) === 'id') {
    const ids = argv.slice(3).map((id) => Number(wide(id, fail('Invalid client ID'))));
    sessions = ids.flatMap((id) => sessions.filter((it) => it.id === id));
  } else if (argv.length !== 2) throw SYNTAX;
  return new Verbatim(sessions.map((it) => lineOf(it, call)).join(''));
};

const reply: Handler = (argv, { session }): Reply => {
  const word = option(argv, 2);
  if (word === 'on') {
    session.replies = 'on';
    return OK;
  }
  if (word === 'off') session.replies = 'off';
  else if (word !== 'skip') throw SYNTAX;
  else if (session.replies !== 'off') session.replies = 'skip-next';
  return NO_REPLY;
};

type Matches = (session: Session) => boolean;

function killOptions(argv: readonly string[], { session }: Call): Matches {
  const tests: Matches[] = [];
  let skipsMe = true;
  for (let i = 2; i < argv.length; i += 2) {
    const [word, value] = [option(argv, i), argv[i + 1]];
    if (value === undefined) throw SYNTAX;
    if (word === 'id') {
      const id = ranged(value, 1, Number.POSITIVE_INFINITY, fail('client-id should be greater than 0'));
      tests.push((it) => it.id === id);
    } else if (word === 'type') {
      const type = typeAt(argv, i + 1);
      tests.push((it) => typeOf(it) === type);
    } else if (word === 'addr') tests.push((it) => it.address === value);
    else if (word === 'laddr') tests.push(() => false);
    else if (word === 'user') {
      if (value !== 'default') throw fail(`No such user '${value}'`);
    } else if (word === 'skipme' && /^(yes|no)$/i.test(value)) skipsMe = value.toLowerCase() === 'yes';
    else throw SYNTAX;
  }
  return (it) => (it !== session || !skipsMe) && tests.every((test) => test(it));
}

const kill: Handler = (argv, call) => {
  const isOld = argv.length === 3;
  const matches: Matches = isOld ? (it) => it.address === at(argv, 2) : killOptions(argv, call);
  const killed = [...call.instance.sessions.keys()].filter(matches);
  for (const it of killed) it.isClosing = true;
  if (!isOld) return killed.length;
  if (killed.length === 0) throw fail('No such client');
  return OK;
};

const unblock: Handler = (argv, { instance }) => {
  const word = argv.length === 4 ? option(argv, 3) : 'timeout';
  if (argv.length > 4) throw fail("wrong number of arguments for 'client|unblock' command");
  if (word !== 'timeout' && word !== 'error') throw fail('CLIENT UNBLOCK reason should be TIMEOUT or ERROR');
  const id = Number(wide(at(argv, 2)));
  const target = [...instance.sessions.keys()].find((it) => it.id === id);
  const waiting = target?.waiting ?? null;
  if (target === undefined || waiting === null) return 0;
  if (word === 'timeout') waiting.giveUp();
  else instance.push(target, new Failure('UNBLOCKED client unblocked via CLIENT UNBLOCK'));
  instance.stopWaiting(target);
  return 1;
};

const onOff =
  (apply: (session: Session, on: boolean) => void): Handler =>
  (argv, { session }) => {
    const word = option(argv, 2);
    if (word !== 'on' && word !== 'off') throw SYNTAX;
    apply(session, word === 'on');
    return OK;
  };

const setinfo: Handler = (argv, { session }) => {
  const [word, value] = [option(argv, 2), at(argv, 3)];
  if (word !== 'lib-name' && word !== 'lib-ver') throw fail(`Unrecognized option '${at(argv, 2)}'`);
  if (/[^!-~]/.test(value)) throw fail(`${word} cannot contain spaces, newlines or special characters.`);
  if (word === 'lib-name') session.libraryName = value;
  else session.libraryVersion = value;
  return OK;
};

/** `CLIENT`: on this connection, and on others. */
export const CLIENT: Command = container('client', 's', {
  getname: [2, 's', (_, { session }) => (session.name === '' ? null : session.name)],
  getredir: [2, 's', () => -1],
  id: [2, 's', (_, { session }) => session.id],
  info: [2, 's', (_, call) => new Verbatim(lineOf(call.session, call))],
  kill: [-3, 's', kill],
  list: [-2, 's', list],
  'no-evict': [3, 's', onOff((session, on) => (session.noEvict = on))],
  'no-touch': [3, 's', onOff((session, on) => (session.noTouch = on)), [0, 0, 0], { redis: '7.2.0', valkey: '7.2.0' }],
  reply: [3, 's', reply],
  setinfo: [4, 's', setinfo, [0, 0, 0], { redis: '7.2.0', valkey: '7.2.0' }],
  setname: [
    3,
    's',
    (argv, call) => {
      setName(at(argv, 2), call);
      return OK;
    },
  ],
  trackinginfo: [
    2,
    's',
    () =>
      new MapReply([
        ['flags', ['off']],
        ['redirect', -1],
        ['prefixes', []],
      ]),
  ],
  unblock: [-3, 's', unblock],
});
